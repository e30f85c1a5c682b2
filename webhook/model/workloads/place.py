"""Place: the position of a pod in its workload, from what its controllers wrote on it, and the gang of that position.

On CREATE a pod of a Job has no name yet, and LeaderWorkerSet's own webhook may not have run. So the index of a group is
the ordinal in its leader's name. Source: the keys and names that jobset v0.12, lws v0.9 and the Job controller give
pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from webhook.model.keys import Needed
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name
from webhook.model.reading import EMPTY, mapping, text
from webhook.model.workloads.kinds import JOBS, STATEFUL_SETS, is_a
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podgang import controller_in
from webhook.model.workloads.roles import group_name, groups_together, shared_name

JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
JOB_NAME = "batch.kubernetes.io/job-name"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
# An annotation: the number of pods in a group of that revision.
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
_INT32_DIGITS = 10
# By kind of workload: the pod label with the workload's name.
NAME_LABELS = {"Job": JOB_NAME, "JobSet": JOB_SET_NAME, "LeaderWorkerSet": LWS_NAME}


class Place(NamedTuple):
    """A pod's workload as a fact, the part of the workload that the pod belongs to, and for a LeaderWorkerSet the
    group. In a workload with roles, `part` is the role, and `made` is the place in the LeaderWorkerSet of the role.
    """

    workload: Needed
    part: str = ""
    group: str = ""
    made: Place | None = None

    @property
    def group_index(self) -> int:
        """The index of its group."""
        return int(self.group.partition("-")[0])


class Membership(NamedTuple):
    """The names of a pod's gang and of its member in the gang."""

    gang: str
    member: str


def place_of(pod: Pod) -> Place | None:
    """The place of a pod in an opted-in workload; None if no controller of such a workload made the pod."""
    controller = controller_in(mapping(pod.raw.get("metadata")))
    if controller is None:
        return None
    if is_a(controller, JOBS):
        return _of_job(pod, controller.name)
    if is_a(controller, STATEFUL_SETS):
        return _of_stateful_set(pod, controller.name)
    return None


def _of_job(pod: Pod, job: str) -> Place:
    """The place of a Job's pod. Anyone can write labels, so a JobSet counts only if the Job's name matches it."""
    labels = pod.template.labels
    name, part, index = (text(labels.get(key)) for key in (JOB_SET_NAME, REPLICATED_JOB_NAME, JOB_INDEX))
    if name is not None and part is not None and job == f"{name}-{part}-{index}":
        return Place(Needed("job_sets", (pod.namespace, name)), part)
    return Place(Needed("jobs", (pod.namespace, job)))


def _of_stateful_set(pod: Pod, stateful_set: str) -> Place | None:
    """The place of a LeaderWorkerSet's pod. Leaders belong to a StatefulSet with its name, workers to one with their
    leader's name. A group is named by its index and the revision of its template: `0-5f8`.
    """
    name = text(pod.template.labels.get(LWS_NAME))
    if name is None:
        return None
    leader = pod.name if stateful_set == name else stateful_set
    prefix, dash, index = leader.rpartition("-")
    # The API server does not limit the name in an owner reference, and an index is an int32.
    if prefix != name or not dash or len(index) > _INT32_DIGITS or not (index.isascii() and index.isdigit()):
        return None
    revision = text(pod.template.labels.get(LWS_REVISION))
    group = index if revision is None else f"{index}-{revision}"
    return Place(Needed("leader_worker_sets", (pod.namespace, name)), "", group)


def membership(place: Place, *, sequenced: bool, together: Mapping[str, int] = EMPTY) -> Membership:
    """The gang of a pod at `place`: its LeaderWorkerSet's group, its Job, or its JobSet. In a JobSet that starts in
    turn (`sequenced`), the gang is the replicated Job. `together` has the number of groups of each role that are one
    gang.
    """
    if place.made is not None:
        if place.group_index >= groups_together(place.part, together):
            return membership(place.made, sequenced=sequenced)
        made = place.made.workload.name
        return Membership(shared_name(made, place.part), group_name(made, place.group_index))
    name = place.workload.name
    if place.group:
        gang = f"{name}-{place.group}"
        return Membership(gang, gang)
    if not place.part:
        return Membership(name, name)
    member = f"{name}-{place.part}"
    return Membership(member if sequenced else name, member)


def label_value(name: str) -> str:
    """The name of a gang or a member as a label value."""
    return cut_name(name, LABEL_VALUE_LIMIT)
