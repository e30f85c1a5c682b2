"""The names that scheduler-plugins reads.

Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go, manifests/install/charts (values.yaml).
"""

from webhook.model.keys import Api
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name

# The schedulerName that the project's Helm chart gives its scheduler.
NAME = "scheduler-plugins-scheduler"

# Not Koordinator's kind of the same name, which is of the group that scheduler-plugins left behind.
POD_GROUP = Api("scheduling.x-k8s.io", "v1alpha1", "PodGroup")

# Puts a pod into the PodGroup of that name in its namespace.
LABEL_POD_GROUP = "scheduling.x-k8s.io/pod-group"


def pod_group(podgang: str) -> str:
    """The PodGroup's name: the PodGang's, cut to what a label can hold. One function for the pods and the object."""
    return cut_name(podgang, LABEL_VALUE_LIMIT)
