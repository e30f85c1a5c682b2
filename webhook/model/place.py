"""Place: the position of a pod in its workload, from what its controllers wrote on it, and the gang of that position.

Between a pod and its workload are PodCliques and scaling groups, Jobs of a JobSet, or StatefulSets of a
LeaderWorkerSet. On CREATE a pod of a Job has no name yet, and LeaderWorkerSet's own webhook may not have run, so the
index of a group is the ordinal in its leader's name. Some workloads, such as DisaggregatedSet, make a LeaderWorkerSet
for each of their roles. Source: Grove's operator as recorded; the keys and names that jobset v0.12, lws v0.9 and the
Job controller give pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.bounds import shared
from webhook.model.grove import OwnerReference, controller_in
from webhook.model.keys import LABEL_VALUE_LIMIT, Api, Needed, cut_name
from webhook.model.known_kinds import JOBS, STATEFUL_SETS, is_a
from webhook.model.pod_template import Pod
from webhook.model.projections import Resource
from webhook.model.reading import EMPTY, mapping, plain_object, text

# On the workload: how many groups of which role start together, such as "prefill=2,decode=1"; one of a role without an
# entry.
GROUPS_TOGETHER = "rollcall.dev/groups-together"
# A larger number is not counted: all members of a gang are in one object.
MOST_TOGETHER = 64
# Entries that are read. A DisaggregatedSet has at most ten roles.
_MOST_ENTRIES = 16
_PERCENT = re.compile(r"([0-9]{1,3})%")
_ENTRY = re.compile(r"\s*([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=([1-9][0-9]?)\s*")


class GroupsEntry(NamedTuple):
    """One entry of the annotation. Without `groups` it does not count, because of `why`."""

    entry: str
    role: str = ""
    groups: int | None = None
    why: str = ""


def entries_of(annotations: Mapping[str, Any]) -> Iterator[GroupsEntry]:
    stated = text(annotations.get(GROUPS_TOGETHER))
    if stated is None:
        return
    entries, seen = stated.split(",", _MOST_ENTRIES), set[str]()
    for entry in entries[:_MOST_ENTRIES]:
        match = _ENTRY.fullmatch(entry)
        if match is None or int(match[2]) > MOST_TOGETHER:
            yield GroupsEntry(entry, why=f"it is not ROLE=NUMBER with a number from 1 to {MOST_TOGETHER}")
        elif match[1] in seen:
            yield GroupsEntry(entry, why="the role has an entry already")
        else:
            seen.add(match[1])
            yield GroupsEntry(entry, match[1], int(match[2]))
    for entry in entries[_MOST_ENTRIES:]:
        yield GroupsEntry(entry, why=f"only {_MOST_ENTRIES} entries are read")


def together_in(annotations: Mapping[str, Any]) -> Mapping[str, int]:
    """Returns by role how many of its groups start together."""
    return {entry.role: entry.groups for entry in entries_of(annotations) if entry.groups is not None}


def groups_together(role: str, together: Mapping[str, int]) -> int:
    """Returns how many groups of a role start together."""
    return together.get(role, 1)


def shared_name(leader_worker_set: str, role: str) -> str:
    """Returns the gang of the first groups: the name of one of the LeaderWorkerSets without the role at its end."""
    return leader_worker_set.removesuffix(f"-{role}")


def group_name(leader_worker_set: str, index: int) -> str:
    """Returns the member of that gang for one group."""
    return f"{leader_worker_set}-{index}"


def surge_of(spec: Mapping[str, Any], groups: int) -> int:
    """Returns how many groups of a LeaderWorkerSet one step of a rollout makes: maxSurge, or maxUnavailable."""
    stated = plain_object(plain_object(spec.get("rolloutStrategy")).get("rollingUpdateConfiguration"))
    surge = _scaled(stated.get("maxSurge"), groups, up=True)
    return max(surge or _scaled(stated.get("maxUnavailable"), groups, up=False), 1)


def _scaled(value: object, groups: int, *, up: bool) -> int:
    """Returns a number, or a percentage of `groups`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent is None:
        return 0
    share = int(percent[1]) * groups
    return -(-share // 100) if up else share // 100


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
    role_place: Place | None = None

    @property
    def group_index(self) -> int:
        return int(self.group.partition("-")[0])


class Membership(NamedTuple):
    """The names of a pod's gang and of its member in the gang."""

    gang: str
    member: str


def place_of(pod: Pod) -> Place | None:
    """Returns the place of a pod in an opted-in workload; None if no controller of such a workload made the pod."""
    controller = controller_in(mapping(pod.raw.get("metadata")))
    if controller is None:
        return None
    if is_a(controller, JOBS):
        return _place_in_job(pod, controller.name)
    if is_a(controller, STATEFUL_SETS):
        return _place_in_stateful_set(pod, controller.name)
    return None


def _place_in_job(pod: Pod, job: str) -> Place:
    """Returns the place of a Job's pod. Anyone writes labels: a JobSet counts only if the Job's name matches."""
    labels = pod.template.labels
    name, part, index = (text(labels.get(key)) for key in (JOB_SET_NAME, REPLICATED_JOB_NAME, JOB_INDEX))
    if name is not None and part is not None and job == f"{name}-{part}-{index}":
        return Place(Needed("job_sets", (pod.namespace, name)), part)
    return Place(Needed("jobs", (pod.namespace, job)))


def _place_in_stateful_set(pod: Pod, stateful_set: str) -> Place | None:
    """Returns the place of a LeaderWorkerSet's pod. Leaders belong to a StatefulSet with its name, workers to one with
    their leader's name. A group is named by its index and the revision of its template: `0-5f8`.
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
    """Returns the gang of a pod at `place`: its LeaderWorkerSet's group, its Job, or its JobSet. In a JobSet that
    starts in turn (`sequenced`), the gang is the replicated Job. `together` has the number of groups of each role that
    are one gang.
    """
    if place.role_place is not None:
        if place.group_index >= groups_together(place.part, together):
            return membership(place.role_place, sequenced=sequenced)
        leader_worker_set = place.role_place.workload.name
        return Membership(shared_name(leader_worker_set, place.part), group_name(leader_worker_set, place.group_index))
    name = place.workload.name
    if place.group:
        gang = f"{name}-{place.group}"
        return Membership(gang, gang)
    if not place.part:
        return Membership(name, name)
    member = f"{name}-{place.part}"
    return Membership(member if sequenced else name, member)


def label_value(name: str) -> str:
    """Returns the name of a gang or a member as a label value."""
    return cut_name(name, LABEL_VALUE_LIMIT)


POD_CLIQUES = Resource(Api(grove.GROUP, "v1alpha1", "PodClique"), "podcliques")
POD_CLIQUE_SCALING_GROUPS = Resource(Api(grove.GROUP, "v1alpha1", "PodCliqueScalingGroup"), "podcliquescalinggroups")

# By kind: a labelSelector, or nothing.
PodControllers = Mapping[Resource, str]
GROVE_POD_CONTROLLERS: PodControllers = MappingProxyType({POD_CLIQUES: "", POD_CLIQUE_SCALING_GROUPS: ""})
OPTED_IN_POD_CONTROLLERS: PodControllers = MappingProxyType({JOBS: JOB_SET_NAME, STATEFUL_SETS: LWS_NAME})
# The API server does not limit texts in an owner reference. Texts that name an object have a limit: a name has at most
# 253 characters, a group and version 317.
_LONGEST = 317


def kept_controller(metadata: Mapping[str, Any]) -> OwnerReference | None:
    """Returns the kept reference to an object's controller, which siblings share; None if none such can exist."""
    controller = controller_in(metadata)
    if controller is None or any(len(part or "") > _LONGEST for part in controller):
        return None
    return _latest(*controller[:3], controller.uid or "")


@lru_cache(maxsize=4096)
def _latest(api_version: str, kind: str, name: str, uid: str) -> OwnerReference:
    """Returns the reference that stands for equal ones, of the latest."""
    return OwnerReference(shared(api_version), shared(kind), shared(name), uid)
