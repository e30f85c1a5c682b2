"""The kinds of the Workload API that are judged, who writes them, and the names of Rollcall's own objects.

In 1.35 a pod names a Workload and an entry of it; later it names a PodGroup. In 1.37 the PodGroup has the PodClique's
name, with and without trees, so switching `hierarchical` changes no name.
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.backends.kube.generation import COMPOSITE as COMPOSITE_KIND
from webhook.backends.kube.generation import GROUP, Generation
from webhook.model.naming import cut_name, label_name, pod_group_name
from webhook.model.stored_object import Judged
from webhook.model.users import CONTROLLER_MANAGER, JOB_CONTROLLER

WORKLOADS = Judged(GROUP, "Workload", "workloads")
POD_GROUPS = Judged(GROUP, "PodGroup", "podgroups")
COMPOSITES = Judged(GROUP, COMPOSITE_KIND.kind, "compositepodgroups")
GROUPS = (POD_GROUPS, COMPOSITES)

# The Job controller makes the Workload and the PodGroup of a Job (gate WorkloadWithJob, 1.36 and newer). Its user
# depends on kube-controller-manager's --use-service-account-credentials, which kubeadm sets. Source: k8s.io/kubernetes,
# pkg/controller/job/job_scheduling_manager.go (v1.36.3, v1.37.0).
CONTROLLERS = (JOB_CONTROLLER, CONTROLLER_MANAGER)

# Objects have DNS subdomain names.
OBJECT_LIMIT = 253
# The one template of a merged gang.
MERGED = "gang"
ROOT = "root"
# The end of the name of every composite, and of no PodGroup. kube-scheduler 1.37 keeps both by name, so it never places
# a PodGroup that has the name of a composite (seen); PodCliques and Jobs may have the name of any gang.
COMPOSITE = ".composite"
_ROOM = OBJECT_LIMIT - len(COMPOSITE)


def pod_group(podgang: str, podclique: str, generation: Generation, *, merged: bool, divided: bool = False) -> str:
    """The name of the PodGroup for one member of a PodGang, or for all its members if they are merged. `divided` means
    that other PodGangs have pods of the PodClique.
    """
    if merged:
        name = cut_name(podgang, OBJECT_LIMIT)
    elif generation is Generation.V1ALPHA2:
        name = pod_group_name(podgang, podclique, OBJECT_LIMIT)
    else:
        name = cut_name(f"{podgang}-{podclique}" if divided else podclique, OBJECT_LIMIT)
    return cut_name(f"{name}-pods", OBJECT_LIMIT) if is_composite(name) else name


def template(name: str, kind: str = "leaf", taken: Iterable[str] = ()) -> str:
    """The name of a template: the member's own if that is a DNS label and not in `taken`, else a hash."""
    return label_name(name, kind, taken=(ROOT, *taken))


def workload(podgang: str) -> str:
    """The name of the Workload."""
    return cut_name(podgang, OBJECT_LIMIT)


def root(podgang: str) -> str:
    """The name of the composite over the whole gang."""
    return _composite(podgang)


def composite(podgang: str, config: str) -> str:
    """The name of a composite below the root. The prefix is always kept: a scaled PodGang may have the name of
    `config`.
    """
    return _composite(f"{podgang}-{config}")


def _composite(name: str) -> str:
    return f"{cut_name(name, _ROOM)}{COMPOSITE}"


def is_composite(name: str) -> bool:
    """Whether Rollcall gives this name to composites, and to no PodGroup."""
    return name.endswith(COMPOSITE)
