"""The webhook server: an ASGI application over TLS.

`serving` is the process, `routes` says which code answers which path, and `state` is what all endpoints share.
`admission_endpoint` answers AdmissionReviews, `admission_review` reads, decides and writes them, and `check_endpoint`
judges plain manifests. `intake` reads bodies under one budget of memory, and `lane` is a thread for large work. `tls`
serves certificates and reloads changed files. `listener` is a port and `connections` are the connections to it. The
decision itself is in `webhook.admission.decision`.
"""
