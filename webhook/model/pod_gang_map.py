"""PodGangMap: which PodGangs a replica of a PodCliqueSet has, what is in each, and which of them starts first.

Grove v0.1.0-alpha.12 and later write one for each replica, with the replica's name (`demo-0`). Source:
ai-dynamo/grove, pull request 778, and its operator as recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.bounds import KEPT_BYTES, POD_GANG_BYTES, Packed, name_text, weight
from webhook.model.keys import Api, ObjectKey
from webhook.model.place import kept_controller
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, integer, mapping, sequence

# A PodGang's name is a label value. Grove cuts a longer one to its start and a digest.
_MOST, _START, _DIGITS = 63, 29, 32
_INT32_DIGITS = 10


class EntryRole(StrEnum):
    """What an entry is. Tail: replicas of scaling groups above their minimum. Scale-out: those added later."""

    ANCHOR = "Anchor"
    TAIL = "Tail"
    SCALE_OUT = "ScaleOut"


class PodGangEntry(NamedTuple):
    """An entry. An anchor is one PodGang; any other entry is one PodGang for each replica of each scaling group."""

    role: str
    epoch: str
    # The PodCliques outside scaling groups, by their names in the PodCliqueSet.
    cliques: frozenset[str]
    # The replica indices of scaling groups, by the groups' names in the PodCliqueSet.
    groups: Mapping[str, frozenset[int]]
    # The epochs of the entries whose PodGangs must be scheduled first.
    depends_on: tuple[str, ...]


class PodGangMap(NamedTuple):
    """A PodGangMap; `name` is `<PodCliqueSet>-<replica>`."""

    name: str
    # The entries; packed if they are many, as each step of a scale-out adds one.
    kept: tuple[PodGangEntry, ...] | Packed
    # The uid of its PodCliqueSet.
    owner: str = ""

    @property
    def entries(self) -> tuple[PodGangEntry, ...]:
        """The entries, in Grove's order."""
        return _entries(self.kept.manifest()) if isinstance(self.kept, Packed) else self.kept

    def entry_of(self, podgang: str) -> PodGangEntry | None:
        """Returns the entry that a PodGang belongs to, by the PodGang's name; None if this map has no such PodGang."""
        return next((entry for entry in self.entries if self._names(entry, podgang)), None)

    def anchors_of(self, podgang: str) -> list[str]:
        """Returns the names of the PodGangs that must be scheduled before `podgang`."""
        entry = self.entry_of(podgang)
        return [] if entry is None else [short_name(f"{self.name}-{epoch}") for epoch in entry.depends_on]

    def entries_with(self, podclique: str) -> Iterator[PodGangEntry]:
        """Yields the entries with pods of a PodClique (`demo-0-router`), in order. Several divide its pods."""
        start = f"{self.name}-"
        if podclique.startswith(start):
            rest = podclique[len(start) :]
            yield from (entry for entry in self.entries if rest in entry.cliques or _is_in_groups(rest, entry.groups))

    def _names(self, entry: PodGangEntry, podgang: str) -> bool:
        start = f"{self.name}-{entry.epoch}"
        if entry.role == EntryRole.ANCHOR:
            return podgang in {start, short_name(start)}
        if podgang.startswith(f"{start}-"):
            group, _, index = podgang[len(start) + 1 :].rpartition("-")
            return _number(index) in entry.groups.get(group, frozenset())
        full_names = (f"{start}-{group}-{index}" for group, indices in entry.groups.items() for index in indices)
        return any(short_name(full) == podgang for full in full_names if len(full) > _MOST)


def short_name(full: str) -> str:
    """Returns a PodGang's name in at most 63 characters."""
    if len(full) <= _MOST:
        return full
    return f"{full[:_START].rstrip('-.')}-h{hashlib.sha256(full.encode()).hexdigest()[:_DIGITS]}"


def _number(index: str) -> int | None:
    """Returns a replica index as names contain it. It has at most ten digits, which is what an int32 needs."""
    return int(index) if len(index) <= _INT32_DIGITS and index.isascii() and index.isdecimal() else None


def _is_in_groups(rest: str, groups: Mapping[str, frozenset[int]]) -> bool:
    """Returns whether `<group>-<index>-<clique>` is in one of the groups. Names may contain dashes."""
    for group, indices in groups.items():
        if rest.startswith(f"{group}-"):
            index, dash, _ = rest[len(group) + 1 :].partition("-")
            if dash and _number(index) in indices:
                return True
    return False


def _pod_gang_map(raw: Manifest) -> tuple[ObjectKey, PodGangMap]:
    key = key_of(raw)
    entries = _entries(mapping(raw.get("spec")))
    # The unpacked entries have a limit too: they are unpacked for each question, and zlib packs a thousand to one.
    packs = KEPT_BYTES < weight(entries, POD_GANG_BYTES) <= POD_GANG_BYTES
    controller = kept_controller(mapping(raw.get("metadata")))
    owner = "" if controller is None else controller.uid or ""
    return key, PodGangMap(key[1], Packed.pack(_spec(entries)) if packs else entries, owner)


def _entries(spec: Mapping[str, Any]) -> tuple[PodGangEntry, ...]:
    return tuple(_entry(mapping(entry)) for entry in sequence(spec.get("entries")))


def _entry(raw: Mapping[str, Any]) -> PodGangEntry:
    groups = mapping(raw.get("pcsgReplicaIndices"))
    indices = {group: frozenset(integer(index) or 0 for index in sequence(listed)) for group, listed in groups.items()}
    return PodGangEntry(
        name_text(raw.get("role")) or "",
        name_text(raw.get("epoch")) or "",
        frozenset(name for name, pods in mapping(raw.get("podCliques")).items() if integer(pods)),
        {group: replicas for group, replicas in indices.items() if replicas},
        tuple(name_text(epoch) or "" for epoch in sequence(raw.get("dependsOn"))),
    )


def _spec(entries: tuple[PodGangEntry, ...]) -> Manifest:
    return {
        "entries": [
            {
                "role": entry.role,
                "epoch": entry.epoch,
                "podCliques": dict.fromkeys(sorted(entry.cliques), 1),
                "pcsgReplicaIndices": {group: sorted(replicas) for group, replicas in entry.groups.items()},
                "dependsOn": list(entry.depends_on),
            }
            for entry in entries
        ]
    }


POD_GANG_MAPS = Projection(
    "pod_gang_maps",
    Resource(Api(grove.GROUP, "v1alpha1", "PodGangMap"), "podgangmaps"),
    _pod_gang_map,
    fields=("metadata.ownerReferences", "spec.entries"),
)
