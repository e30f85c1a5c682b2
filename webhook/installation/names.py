"""The names of what is installed, each said once: the code looks things up by them, manifests are made of them."""

from __future__ import annotations

# Mutating webhooks run in the order of their configurations' names: this one after koordinator-, kueue- and lws-, whose
# profiles overwrite fields, and before mutating-kai-admission.
MUTATING, VALIDATING = "m-rollcall", "v-rollcall"
# The ValidatingAdmissionPolicy that works while nobody answers.
NET = "rollcall-net"

NAMESPACE = "rollcall-system"
# The Service in front of `rollcall serve`, its Deployment and its service account.
SERVER = "rollcall"
# The Deployment of `rollcall reconcile`, where it has one of its own, and its service account.
RECONCILER = "rollcall-reconciler"
# The reconciler's ClusterRole, its Role, and the bindings of both.
RECONCILER_ROLE = "rollcall-reconcile"
# The Lease by which the reconciler's replicas agree on the one that writes.
LEASE_NAME = "rollcall-reconciler"

# The serving certificate, as kubernetes.io/tls: the only Secret that the serving process is given.
TLS_SECRET = "rollcall-tls"  # noqa: S105 - the name of one
# The authority with its key, where certificates are self-managed: the reconciler's alone.
CA_SECRET = "rollcall-ca"  # noqa: S105 - the name of one

# The ports of the Services, and what containers listen on unless an installation says otherwise: AdmissionReviews; the
# next certificate, shown to those who ask before it is served; health and metrics in plain HTTP, of the server and of
# the reconciler.
SERVICE_PORT = 443
SERVING_PORT, NEXT_PORT, HEALTH_PORT, RECONCILER_PORT = 8443, 8444, 8081, 8080
# What the port for AdmissionReviews is called, by containers and by the Service.
SERVING_PORT_NAME = "https"

# On a ConfigMap of Rollcall's own namespace: the hook for the next certificate is asked about it; the value says of
# which of the two configurations. What it answers begins with the warning, and a fingerprint follows.
NEXT_LABEL = "rollcall.dev/next-certificate"
NEXT_WARNING = "rollcall: next certificate "
# Where that hook is answered, at the port of the next certificate.
NEXT_PATH = "next"

# On a namespace: nothing of it is ever asked about. For emergencies.
EXEMPT_LABEL = "rollcall.dev/exempt"

LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}
# Others live there: Pod Security of ours would be enforced on them, and none of their gangs be judged.
SHARED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
