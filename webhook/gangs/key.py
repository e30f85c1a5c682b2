"""The key of a gang, and an index of keys by group. The reconciler queues gangs by the key, and finds pods and objects
by it.

The key of a PodGang is its namespace and name. An opted-in workload can have several gangs, and a Job, a JobSet and a
PodGang can have the same name. So their keys also hold the kind and name of the workload.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, KeysView
from typing import Generic, NamedTuple, TypeVar

from webhook.model import grove
from webhook.model.bounds import latest_equal
from webhook.model.grove import PodGang, controller_in, is_pod_clique_set
from webhook.model.keys import ObjectKey
from webhook.model.place import label_value
from webhook.model.projections import POD_GANGS
from webhook.model.reading import Manifest
from webhook.workloads.opted_in_gang import GANG_LABEL, OptedInGang
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds

POD_GANG = POD_GANGS.resource.api.kind


class GangKey(NamedTuple):
    """The key of a PodGang, or of an opted-in workload's gang: `name` is then the value of the gang label."""

    namespace: str
    name: str
    kind: str = POD_GANG
    # The name of an opted-in workload.
    workload: str = ""

    @property
    def workload_key(self) -> ObjectKey:
        """The namespace and name of the opted-in workload."""
        return self.namespace, self.workload


# The pods and objects of a gang, which come together, share its key.
shared_key = latest_equal(1024)


def key_of_gang(podgang: PodGang) -> GangKey:
    if not isinstance(podgang, OptedInGang):
        return GangKey(podgang.namespace, podgang.name)
    workload = podgang.workload
    return GangKey(podgang.namespace, label_value(podgang.name), workload.kind, workload.name)


def gang_of_object(live: Manifest, kinds: WorkloadKinds = PYTHON_KINDS) -> GangKey | None:
    """Returns the gang that a gang object belongs to; None if another owner controls it or it names no gang.

    The controller decides. Without a controller, and for a PodCliqueSet's, the labels do; for an opted-in workload they
    do not show its kind, so `kind` is "".
    """
    metadata = live["metadata"]
    namespace, labels = metadata.get("namespace") or "default", metadata.get("labels") or {}
    controller = controller_in(metadata)
    if controller is None or is_pod_clique_set(controller):
        if (podgang := labels.get(grove.LABEL_PODGANG)) is not None:
            return shared_key(GangKey(namespace, podgang))
        return shared_key(GangKey(namespace, labels[GANG_LABEL], "")) if GANG_LABEL in labels else None
    if controller.kind == POD_GANG:
        return shared_key(GangKey(namespace, controller.name))
    title = kinds.title(controller.group, controller.kind)
    gang = str(labels.get(GANG_LABEL) or "")
    return None if title is None else shared_key(GangKey(namespace, gang, title, controller.name))


def objects_of(podgang: PodGang) -> GangKey:
    """Returns the key of a gang's objects: for a PodGang that was renamed, its first name counts."""
    return key_of_gang(podgang)._replace(name=podgang.gang) if podgang.gang != podgang.name else key_of_gang(podgang)


def whose_object(live: Manifest, kinds: WorkloadKinds = PYTHON_KINDS) -> GangKey | None:
    """Returns the key of the gang that a gang object is one of, by the gang's first name."""
    key = gang_of_object(live, kinds)
    if key is None or key.kind != POD_GANG:
        return key
    first = (live["metadata"].get("labels") or {}).get(GANG_LABEL)
    return key._replace(name=first) if isinstance(first, str) else key


K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)

# A group of so many keys is kept as a tuple, which takes a third of a set. Most groups have few, such as the pods of a
# PodClique.
_FEW = 8


class Grouping(Generic[K, G]):
    """Keys in groups; a key is in one group at most."""

    def __init__(self) -> None:
        self._members: dict[G, tuple[K, ...] | set[K]] = {}
        self._group: dict[K, G] = {}

    def move(self, key: K, group: G | None) -> None:
        """Puts `key` into `group`, or into none."""
        before = self._group.get(key)
        if before == group:
            return
        if before is not None:
            del self._group[key]
            self._remove(key, before)
        if group is not None:
            self._group[key] = group
            self._add(key, group)

    def members(self, group: G) -> Collection[K]:
        return self._members.get(group, ())

    def group(self, key: K) -> G | None:
        return self._group.get(key)

    def groups(self) -> KeysView[G]:
        """Returns the groups that have at least one key."""
        return self._members.keys()

    def _add(self, key: K, group: G) -> None:
        members = self._members.get(group, ())
        if isinstance(members, set):
            members.add(key)
        else:
            self._members[group] = (*members, key) if len(members) < _FEW else {*members, key}

    def _remove(self, key: K, group: G) -> None:
        members = self._members[group]
        if isinstance(members, set):
            members.discard(key)
        else:
            members = self._members[group] = tuple(member for member in members if member != key)
        if not members:
            del self._members[group]
