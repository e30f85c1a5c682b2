"""The webhook server: an ASGI application over TLS.

`app` puts the routes together, `admission_endpoint` answers AdmissionReviews, `review` is the contract's wire form,
`check_endpoint` judges plain manifests, `state` is what all of them share. `run` is the process: `tls` shows
certificates as their files change, `listener` is a port and `connections` those who are connected to it, `life` tells
health, `next_port` shows the certificate that is to follow, `self_probe` looks at our own port, and `drain` is the end.
What is decided is decided in `webhook.admission.decision`.
"""
