"""Random clusters and gangs on real schedulers: no gang that a scheduler starts may be called *never*.

`shapes` and `families` draw a case, `spelling` writes its amounts as people do, `placement` finds the limit that a case
is drawn at. `batch` stores many cases in one control plane, `judging` asks for the verdicts, `soundness` compares, and
`shrinking` makes a failure small. Nothing here proves anything about a gang that does not start.
"""
