"""WorkloadShapes: kinds of workloads that are declared and not written in Python.

`shape` is what a declaration says, with `path`, `condition` and `count` for the values that it reads from a workload.
`workload` is the view of a workload of such a kind, and `place` finds the place of its pods. `kinds` has all kinds of
opted-in workloads, those in Python and the declared ones.
"""
