"""The pods of a cluster's gangs, kept in step: by the gang that they are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.model.facts import ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Projection
from webhook.model.reading import Manifest
from webhook.reconciler.gang_key import GangKey
from webhook.reconciler.gang_pod import OF_GANGS, GangPod, read_gang_pod
from webhook.reconciler.grouping import Grouping


class GangPods:
    """`changed` is told the gang of each pod that comes, goes or changes in what is kept of it. Which pods are followed
    `selector` says, and what is kept of each `read`.
    """

    def __init__(
        self,
        client: Client,
        changed: Callable[[GangKey], None],
        selector: Mapping[str, str] = OF_GANGS,
        read: Callable[[Manifest], tuple[ObjectKey, GangPod]] = read_gang_pod,
    ) -> None:
        self._changed = changed
        self._of: Grouping[ObjectKey, GangKey] = Grouping()
        self.watch = Watch(client, Projection("", PODS, read), self._filled, self._noticed, selector)

    @property
    def filled(self) -> bool:
        """Whether all of them were read once."""
        return self.watch.filled

    def of(self, gang: GangKey) -> list[GangPod]:
        """The pods of a gang, by name."""
        return [self.watch.index.entries[key] for key in sorted(self._of.members(gang))]

    async def run(self) -> None:
        """Follow, until cancelled."""
        await self.watch.run()

    def _noticed(self, key: ObjectKey) -> None:
        before = self._of.group(key)
        found: GangPod | None = self.watch.index.entries.get(key)
        now = None if found is None or not found.kind else found.gang
        self._of.move(key, now)
        if before is not None and before != now:
            self._changed(before)
        if now is not None:
            self._changed(now)

    def _filled(self, _: Index) -> None:
        for gang in list(self._of.groups()):
            self._changed(gang)
