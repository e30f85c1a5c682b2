"""The names that scheduler-plugins reads.

Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go, manifests/install/charts (values.yaml).
"""

from webhook.model.claims import Mark
from webhook.model.keys import Api
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name
from webhook.model.stored_object import Judged

# The schedulerName that the project's Helm chart gives its scheduler.
NAME = "scheduler-plugins-scheduler"

# Not Koordinator's kind with the same name: that kind is in the group that scheduler-plugins no longer uses.
POD_GROUP = Api("scheduling.x-k8s.io", "v1alpha1", "PodGroup")

POD_GROUPS = Judged(POD_GROUP.group, POD_GROUP.kind, "podgroups")

# On a pod: the PodGroup in its namespace that the pod belongs to.
LABEL_POD_GROUP = "scheduling.x-k8s.io/pod-group"
GROUP_MARK = Mark("labels", LABEL_POD_GROUP)


def pod_group(podgang: str) -> str:
    """The PodGroup's name: the PodGang's name, cut to the length of a label value. Used for the pods and for the
    object.
    """
    return cut_name(podgang, LABEL_VALUE_LIMIT)
