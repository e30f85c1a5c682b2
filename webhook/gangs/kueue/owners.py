"""The owners of Kueue's Workloads that changed, whose gangs are to be judged again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from webhook.gangs.key import GangKey
from webhook.gangs.workload_gangs import WorkloadKey

# The owners are looked up once for all changes within this many seconds.
OWNERS_SECONDS = 0.2


class QueuedOwners:
    """Owners of changed Workloads, until their gangs are reported: each owner once, because thousands of Workloads may
    name the same. `above` returns the object that has the gangs of an owner, `gangs_of` the gangs of that object that
    Workloads with these component indexes may stand for, and `changed` is called with each gang.
    """

    def __init__(
        self,
        above: Callable[[str, str, str], WorkloadKey],
        gangs_of: Callable[[WorkloadKey, Collection[str | None]], Iterable[GangKey]],
        changed: Callable[[GangKey], None],
    ) -> None:
        self._above = above
        self._gangs_of = gangs_of
        self._changed = changed
        # By owner: the component indexes of its changed Workloads.
        self._waiting: dict[WorkloadKey, set[str | None]] = {}

    def put(self, owner: WorkloadKey, index: str | None) -> None:
        """A Workload of that owner changed. Its gangs are reported in `OWNERS_SECONDS`, on the running event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(OWNERS_SECONDS, self._report)
        self._waiting.setdefault(owner, set()).add(index)

    def _report(self) -> None:
        indexes: dict[WorkloadKey, set[str | None]] = {}
        for owner, found in self._waiting.items():
            indexes.setdefault(self._above(*owner), set()).update(found)
        self._waiting = {}
        for gang in {gang for owner, found in indexes.items() for gang in self._gangs_of(owner, found)}:
            self._changed(gang)
