"""The names that coscheduling reads.

Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go and the CRD podgroups.scheduling.x-k8s.io.
"""

from __future__ import annotations

from webhook.model.keys import LABEL_VALUE_LIMIT, Api, cut_name

# The schedulerName of a profile in the scheduler's own configuration.
NAME = "batch-scheduler"

POD_GROUP = Api("scheduling.x-k8s.io", "v1alpha1", "PodGroup")

# Puts a pod into the PodGroup of that name in its namespace.
LABEL_POD_GROUP = "scheduling.x-k8s.io/pod-group"


def pod_group_name(gang: str) -> str:
    """The PodGroup's name: the gang's, cut to what a label can hold. One function for the pods and the object."""
    return cut_name(gang, LABEL_VALUE_LIMIT)
