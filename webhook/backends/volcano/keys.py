"""Volcano's annotations, kinds and built-in names.

Source: volcano-sh/volcano, staging/src/volcano.sh/apis/pkg/apis, pkg/scheduler/api/job_info.go (`getJobID`).
"""

from webhook.model.claims import Mark
from webhook.model.keys import Api
from webhook.model.stored_object import Judged
from webhook.model.users import service_account

NAME = "volcano"

POD_GROUP = Api("scheduling.volcano.sh", "v1beta1", "PodGroup")
QUEUE = Api("scheduling.volcano.sh", "v1beta1", "Queue")
HYPER_NODE = Api("topology.volcano.sh", "v1alpha1", "HyperNode")
# The same kinds, as they are judged when other authors store them.
POD_GROUPS = Judged(POD_GROUP.group, POD_GROUP.kind, "podgroups")
QUEUES = Judged(QUEUE.group, QUEUE.kind, "queues", namespaced=False)

# The only key that the scheduler and the podgroup controller read. Without it, the controller makes its own group for
# the pod.
ANNOTATION_GROUP = "scheduling.k8s.io/group-name"
GROUP_MARK = Mark("annotations", ANNOTATION_GROUP)
# Only the device code reads it, instead of the first key.
ANNOTATION_DEVICE_GROUP = "scheduling.volcano.sh/group-name"
# The queue of a group that Volcano makes itself, and of its own jobs. Volcano reads neither of them on a pod that names
# its group.
ANNOTATIONS_OTHER_QUEUE = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")

# Whether a PodGroup or pod may be a victim of preemption: an annotation, else a label.
PREEMPTABLE = "volcano.sh/preemptable"
# Its controllers make the PodGroups of its own Jobs and of bare pods, and its scheduler makes the first queues. The
# chart prefixes the release's name: these names are from `helm install volcano -n volcano-system` and the plain
# manifest. Source: volcano-sh/volcano, installer/helm/chart/volcano/templates/{controllers,scheduler}.yaml,
# installer/volcano-development.yaml (v1.14 to 2026-08); pkg/controllers/{job,podgroup}, pkg/scheduler/cache.
CONTROLLERS = tuple(service_account("volcano-system", name) for name in ("volcano-controllers", "volcano-scheduler"))

# The scheduler makes both when it starts: the parent of all queues, and the queue of groups that name none.
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "default"
OPEN = "Open"
