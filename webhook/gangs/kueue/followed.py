"""Which gangs to judge again when a Workload of Kueue changes, and the order of Kueue's queues."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.gangs.grouping import Grouping
from webhook.gangs.key import GangKey
from webhook.gangs.kueue.queue_places import QueuePlaces
from webhook.model.keys import ObjectKey
from webhook.model.kueue.objects import KueueWorkload

# Kind, namespace and name.
_OwnerKey = tuple[str, str, str]


class FollowedWorkloads:
    """Kueue's Workloads as they change."""

    def __init__(self) -> None:
        self.places = QueuePlaces()
        self._known = False
        # Gangs by their Workload, as last judged: it may not exist yet.
        self._gangs: Grouping[GangKey, ObjectKey] = Grouping()

    def known(self, *, served: bool) -> None:
        """Whether Workloads are known. If they are no longer, such as after Kueue was uninstalled, all are forgotten,
        because no event says that they are gone.
        """
        if self._known and not served:
            self.places = QueuePlaces()
        self._known = served

    def judged(self, gang: GangKey, workload: ObjectKey | None) -> None:
        """A gang was judged, with its Workload."""
        self._gangs.move(gang, workload)

    def gangs(self, key: ObjectKey) -> list[GangKey]:
        """The gangs of a Workload, as last judged."""
        return sorted(self._gangs.members(key))

    def owners(self, key: ObjectKey, workload: KueueWorkload | None) -> Iterator[_OwnerKey]:
        """The object that a new Workload is made for, and the one that has its gangs: a TrainJob's JobSet has its
        name.
        """
        if workload is not None and workload.owner is not None:
            kind, name = workload.owner.kind, workload.owner.name
            yield ("JobSet" if kind == "TrainJob" else kind), key[0], name
