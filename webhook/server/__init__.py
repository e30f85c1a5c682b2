"""The webhook server: an ASGI application over TLS.

`app` has the routes, `admission_endpoint` answers AdmissionReviews, `review` reads and writes them, `check_endpoint`
judges plain manifests, and `state` is what all of them share. `run` is the process. `tls` serves certificates and
reloads changed files. `listener` is a port and `connections` are the connections to it. `life` reports health,
`next_port` serves the next certificate, `self_probe` checks our own port, and `drain` shuts down. The decision itself
is in `webhook.admission.decision`.
"""
