"""Place: where a pod stands in its workload, by what its controllers wrote on it, and which gang that is.

On CREATE a pod of a Job has no name yet, and LeaderWorkerSet's own webhook may not have been there: so a leader's group
is the ordinal of its name. Source: the keys that jobset v0.12, lws v0.9 and the Job controller write on pods.
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.model.facts import Needed
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name
from webhook.model.owners.workload import controller_in
from webhook.model.pod import Pod
from webhook.model.reading import mapping, text

JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_NAME = "batch.kubernetes.io/job-name"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
LWS_LEADER = "leaderworkerset.sigs.k8s.io/leader-name"
# An annotation: how many pods a group of that revision has.
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
# By kind of workload, the label on pods that says its name.
NAME_LABELS = {"Job": JOB_NAME, "JobSet": JOB_SET_NAME, "LeaderWorkerSet": LWS_NAME}


class Place(NamedTuple):
    """A pod's workload as a fact, the part of it that the pod is of, and of a LeaderWorkerSet the group."""

    owner: Needed
    part: str = ""
    group: str = ""


class Membership(NamedTuple):
    """The names of a pod's gang and of its member there."""

    gang: str
    member: str


def place_of(pod: Pod) -> Place | None:
    """The place of a pod in a workload that is not Grove's; None where no such workload's controller made it."""
    controller = controller_in(mapping(pod.raw.get("metadata")))
    if controller is None:
        return None
    labels = pod.template.labels
    if controller.kind == "Job":
        if (name := text(labels.get(JOB_SET_NAME))) is not None:
            return Place(Needed("job_sets", (pod.namespace, name)), text(labels.get(REPLICATED_JOB_NAME)) or "")
        return Place(Needed("jobs", (pod.namespace, controller.name)))
    if controller.kind == "StatefulSet" and (name := text(labels.get(LWS_NAME))) is not None:
        group = _group(pod)
        return None if group is None else Place(Needed("leader_worker_sets", (pod.namespace, name)), "", group)
    return None


def _group(pod: Pod) -> str | None:
    """The group of a LeaderWorkerSet's pod and the revision of its template: `0-5f8`."""
    labels = pod.template.labels
    index = text(labels.get(LWS_GROUP))
    if index is None:
        leader = text(pod.template.annotations.get(LWS_LEADER)) or pod.name
        index = leader.rpartition("-")[2]
    revision = text(labels.get(LWS_REVISION))
    if not index.isdigit():
        return None
    return index if revision is None else f"{index}-{revision}"


def membership(place: Place, *, sequenced: bool) -> Membership:
    """The gang of a pod at `place`: its LeaderWorkerSet's group, its Job, its JobSet, or of a JobSet that starts in
    turn (`sequenced`) the replicated Job.
    """
    name = place.owner.key[1]
    if place.group:
        gang = f"{name}-{place.group}"
        return Membership(gang, gang)
    if not place.part:
        return Membership(name, name)
    member = f"{name}-{place.part}"
    return Membership(member if sequenced else name, member)


def label_value(name: str) -> str:
    """A gang's or a member's name as the value of a label."""
    return cut_name(name, LABEL_VALUE_LIMIT)
