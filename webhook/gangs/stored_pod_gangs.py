"""The PodGangs of a cluster as rules know them, read from the objects that the reconciler keeps whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.gangs.stores import Store
from webhook.model.keys import ObjectKey
from webhook.model.known_objects import PodGangFacts, PodGangIndex
from webhook.model.projections import POD_GANGS
from webhook.model.reading import Malformed


class StoredPodGangs(Mapping[ObjectKey, PodGangFacts], PodGangIndex):
    """The PodGangs of a store as rules know them. Each is read when it is asked for, because no rule asks for many."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getitem__(self, key: ObjectKey) -> PodGangFacts:
        try:
            found = POD_GANGS.read(self.store.objects[key])
        except Malformed:
            found = None
        if found is None:
            raise KeyError(key)
        facts: PodGangFacts = found[1]
        return facts

    def __iter__(self) -> Iterator[ObjectKey]:
        return (key for key in self.store.objects if key in self)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[call-overload]

    def __len__(self) -> int:
        """How many are stored, with those that cannot be read: rules ask whether there are any."""
        return len(self.store.objects)

    def of_set(self, key: ObjectKey) -> Iterator[ObjectKey]:
        """The namespaces and names of the PodGangs of a PodCliqueSet, each read when the iterator reaches it."""
        return (podgang for podgang in self.store.of_set(key) if podgang in self)
