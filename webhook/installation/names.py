"""The names of what is installed, each defined once: manifests and lookups use the same names."""

from __future__ import annotations

# Mutating webhooks run in the order of their configurations' names: this one after koordinator-, kueue- and lws-, whose
# profiles overwrite fields, and before mutating-kai-admission.
MUTATING, VALIDATING = "m-rollcall", "v-rollcall"
# The ValidatingAdmissionPolicy that works while Rollcall is down.
NET = "rollcall-net"

NAMESPACE = "rollcall-system"
# The Service of `rollcall serve`, its Deployment and its service account.
SERVER = "rollcall"
# The Deployment of `rollcall reconcile`, if it has its own, and its service account.
RECONCILER = "rollcall-reconciler"
# The server's ClusterRole and its binding.
SERVER_ROLE = "rollcall-serve"
# The reconciler's ClusterRole, its Role, and the bindings of both.
RECONCILER_ROLE = "rollcall-reconcile"
# The Lease for the leader election of the reconciler's replicas.
LEASE_NAME = "rollcall-reconciler"
# The ConfigMaps with the records of gangs that lost pods: a few with fixed names, so that a Role can name them.
# Together they hold some ten thousand gangs.
LOSS_RECORDS = tuple(f"rollcall-losses-{number}" for number in range(4))

# The serving certificate, as kubernetes.io/tls: the only Secret that the server gets.
TLS_SECRET = "rollcall-tls"  # noqa: S105 - the name of one
# The authority with its key, if certificates are self-managed. Only the reconciler may read it.
CA_SECRET = "rollcall-ca"  # noqa: S105 - the name of one

# The ports of the Services, and the default ports of the containers: for AdmissionReviews; for the next certificate,
# which can be tested there before it is served; and for health and metrics in plain HTTP, of the server and of the
# reconciler.
SERVICE_PORT = 443
SERVING_PORT, NEXT_PORT, HEALTH_PORT, RECONCILER_PORT = 8443, 8444, 8081, 8080
# The name of the port for AdmissionReviews, in containers and in the Service.
SERVING_PORT_NAME = "https"

# On a ConfigMap in Rollcall's namespace: the API server calls the hook for the next certificate; the value says which
# of the two configurations. The answer starts with the warning, followed by a fingerprint.
NEXT_LABEL = "rollcall.dev/next-certificate"
NEXT_WARNING = "rollcall: next certificate "
# The path of that hook, at the port of the next certificate.
NEXT_PATH = "next"

# On a namespace: no webhook is called for it. For emergencies.
EXEMPT_LABEL = "rollcall.dev/exempt"

LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}
# Not usable as Rollcall's namespace: its Pod Security level would apply to others' Pods, and their gangs would not be
# judged.
SHARED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
