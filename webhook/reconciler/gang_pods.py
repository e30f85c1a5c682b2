"""The pods of a cluster's gangs, kept in step: by the PodGang that they name."""

from __future__ import annotations

from collections.abc import Callable

from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.model.facts import ObjectKey
from webhook.model.projections import Projection
from webhook.reconciler.gang_pod import OF_GANGS, PODS, GangPod, read_gang_pod
from webhook.reconciler.grouping import Grouping


class GangPods:
    """`changed` is told the PodGang of each pod that comes, goes or changes in what is kept of it."""

    def __init__(self, client: Client, changed: Callable[[ObjectKey], None]) -> None:
        self._changed = changed
        self._of: Grouping[ObjectKey, ObjectKey] = Grouping()
        self.watch = Watch(client, Projection("", PODS, read_gang_pod), self._filled, self._noticed, OF_GANGS)

    @property
    def filled(self) -> bool:
        """Whether all of them were read once."""
        return self.watch.filled

    def of(self, podgang: ObjectKey) -> list[GangPod]:
        """The pods of a PodGang, by name."""
        return [self.watch.index.entries[key] for key in sorted(self._of.members(podgang))]

    async def run(self) -> None:
        """Follow, until cancelled."""
        await self.watch.run()

    def _noticed(self, key: ObjectKey) -> None:
        before = self._of.group(key)
        found: GangPod | None = self.watch.index.entries.get(key)
        now = None if found is None else found.gang
        self._of.move(key, now)
        if before is not None and before != now:
            self._changed(before)
        if now is not None:
            self._changed(now)

    def _filled(self, _: Index) -> None:
        for podgang in list(self._of.groups()):
            self._changed(podgang)
