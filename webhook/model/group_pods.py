"""Pods that wait for a node as members of a group. Only the group and the scheduler name of each are known.

The only question is whether the pods of a group agree. So the scheduler names of a group are updated with each pod that
is added or removed, and a group of thousands is checked as fast as a group of two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.indexed import Indexed
from webhook.model.keys import ObjectKey
from webhook.model.reading import mapping, text


@dataclass(frozen=True, slots=True)
class GroupPod:
    """One waiting pod. `group` is named as its backend names groups, and is different in each namespace."""

    group: Hashable
    scheduler: str


class GroupPods(Indexed[ObjectKey, GroupPod]):
    """Pods by namespace and name, indexed by their group and scheduler as well."""

    def __init__(self, known: Mapping[ObjectKey, GroupPod] | None = None) -> None:
        # By group: the schedulers that its pods name, in the order in which they were added.
        self._schedulers: dict[Hashable, dict[str, None]] = {}
        super().__init__(known)

    @staticmethod
    def terms(_: ObjectKey, value: GroupPod) -> Iterable[Hashable]:
        """Its group and its scheduler, which is the value itself."""
        return (value,)

    def of_another_scheduler(self, group: Hashable, scheduler: str, besides: ObjectKey) -> ObjectKey | None:
        """One pod of a group that names another scheduler and is not `besides`; None if all agree."""
        return self._other(group, scheduler, frozenset({besides}))

    def overlaid(self, changes: Mapping[ObjectKey, GroupPod | None]) -> GroupPods:
        """These pods with some of them changed (None for one that no longer waits), without a copy. So one live read
        costs the same no matter how many pods wait.
        """
        return _Overlaid(self, changes)

    def _other(self, group: Hashable, scheduler: str, without: frozenset[ObjectKey]) -> ObjectKey | None:
        for name in self._schedulers.get(group, ()):
            if name != scheduler:
                found = next((key for key in self.having(GroupPod(group, name)) if key not in without), None)
                if found is not None:
                    return found
        return None

    def __setitem__(self, key: ObjectKey, value: GroupPod) -> None:
        super().__setitem__(key, value)
        self._schedulers.setdefault(value.group, {})[value.scheduler] = None

    def _forget(self, key: ObjectKey) -> None:
        before = self.get(key)
        super()._forget(key)
        if before is not None and not self.having(before):
            names = self._schedulers[before.group]
            del names[before.scheduler]
            if not names:
                del self._schedulers[before.group]


class _Overlaid(GroupPods):
    """Pods with a few changes. It supports only what a rule asks for: a pod by its key, and a pod that disagrees."""

    def __init__(self, known: GroupPods, changes: Mapping[ObjectKey, GroupPod | None]) -> None:
        self._known = known
        self._changed = frozenset(changes)
        super().__init__()
        for key, pod in changes.items():
            if pod is not None:
                self[key] = pod

    def __missing__(self, key: ObjectKey) -> GroupPod:
        if key in self._changed:
            raise KeyError(key)
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key not in self._changed and key in self._known)

    def _forget(self, key: ObjectKey) -> None:
        """Does nothing: each key is written once."""

    def _other(self, group: Hashable, scheduler: str, without: frozenset[ObjectKey]) -> ObjectKey | None:
        own = super()._other(group, scheduler, without)
        return own if own is not None else self._known._other(group, scheduler, without | self._changed)


def waits(raw: Mapping[str, Any]) -> bool:
    """Whether a pod is yet to be scheduled: it has no node, has not ended, and is not being deleted. Raises
    `Malformed`.
    """
    status, metadata = mapping(raw.get("status")), mapping(raw.get("metadata"))
    over = text(status.get("phase")) in {"Succeeded", "Failed"} or metadata.get("deletionTimestamp") is not None
    return not over and not text(mapping(raw.get("spec")).get("nodeName"))
