"""Kubernetes' own kinds that are read or written as they are. Rules need no facts of them, so none has a projection."""

from __future__ import annotations

from webhook.model.keys import Api
from webhook.model.projections import Resource

# Group and kind of a pod.
POD = ("", "Pod")
PODS = Resource(Api("", "v1", "Pod"), "pods")
SERVICES = Resource(Api("", "v1", "Service"), "services")
SERVICE_ACCOUNTS = Resource(Api("", "v1", "ServiceAccount"), "serviceaccounts")
SECRETS = Resource(Api("", "v1", "Secret"), "secrets")
CONFIG_MAPS = Resource(Api("", "v1", "ConfigMap"), "configmaps")
ENDPOINT_SLICES = Resource(Api("discovery.k8s.io", "v1", "EndpointSlice"), "endpointslices")
LEASES = Resource(Api("coordination.k8s.io", "v1", "Lease"), "leases")

ADMISSION_REGISTRATION = "admissionregistration.k8s.io"
MUTATING_WEBHOOKS = Resource(
    Api(ADMISSION_REGISTRATION, "v1", "MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING_WEBHOOKS = Resource(
    Api(ADMISSION_REGISTRATION, "v1", "ValidatingWebhookConfiguration"),
    "validatingwebhookconfigurations",
    namespaced=False,
)
# The scheduler of a pod that names none.
DEFAULT_SCHEDULER = "default-scheduler"
