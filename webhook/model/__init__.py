"""What the engine talks about: read views over Kubernetes dicts, facts of the cluster, findings, requests and verdicts.

Objects stay the plain dicts that they came as, so that fields of newer API versions survive; what is decided about them
is typed. Nothing here knows of a scheduler's rules, of HTTP or of files.
"""
