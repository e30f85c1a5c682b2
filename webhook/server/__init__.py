"""The webhook server: an ASGI application over TLS.

`app` puts the routes together, `admission_endpoint` answers AdmissionReviews, `review` is the contract's wire form,
`check_endpoint` judges plain manifests, `state` is what all of them share, `run` starts uvicorn. What is decided is
decided in `webhook.admission`.
"""
