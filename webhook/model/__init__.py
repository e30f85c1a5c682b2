"""The types that the engine works on: read views over Kubernetes dicts, cluster facts, findings, requests and
verdicts.

Objects stay the plain dicts that were received, so that fields of newer API versions survive. Decisions about them are
typed. Nothing here depends on a scheduler's rules, on HTTP or on files. The kinds of workloads are in
`webhook.workloads`, which imports this package and is never imported by it.
"""
