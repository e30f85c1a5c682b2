"""PodGangMap: which PodGangs a replica of a PodCliqueSet has, what is in each, and which of them starts first.

Grove v0.1.0-alpha.12 and later write one for each replica, with the replica's name (`demo-0`). Source: ai-dynamo/grove,
pull request 778, and its operator as recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.model import grove
from webhook.model.bounds import STORED_BYTES, name_text
from webhook.model.keys import Api, ObjectKey
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, integer, mapping, sequence, text

# A PodGang's name is a label value. Grove cuts a longer one to its start and a digest.
_MOST, _START, _DIGITS = 63, 29, 32


class Role(StrEnum):
    """What an entry is. The replicas of scaling groups above their minimum are in the tail; those added later are
    scaled out.
    """

    ANCHOR = "Anchor"
    TAIL = "Tail"
    SCALE_OUT = "ScaleOut"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry. An anchor is one PodGang; any other entry is one PodGang for each replica of each scaling group."""

    role: str
    epoch: str
    # The PodCliques outside scaling groups, by their names in the PodCliqueSet.
    cliques: frozenset[str]
    # The replica indices of scaling groups, by the groups' names in the PodCliqueSet.
    groups: Mapping[str, frozenset[int]]
    # The epochs of the entries whose PodGangs must be scheduled first.
    depends_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodGangMap:
    """A PodGangMap; `name` is `<PodCliqueSet>-<replica>`."""

    name: str
    entries: tuple[Entry, ...]

    def entry_of(self, podgang: str) -> Entry | None:
        """The entry that a PodGang belongs to, by the PodGang's name; None if this map has no such PodGang."""
        return next((entry for entry in self.entries if self._names(entry, podgang)), None)

    def anchors_of(self, podgang: str) -> list[str]:
        """The names of the PodGangs that must be scheduled before `podgang`."""
        entry = self.entry_of(podgang)
        return [] if entry is None else [short_name(f"{self.name}-{epoch}") for epoch in entry.depends_on]

    def covers(self, podclique: str) -> bool:
        """Whether any entry contains pods of a PodClique, by the PodClique's full name (`demo-0-router`)."""
        start = f"{self.name}-"
        if not podclique.startswith(start):
            return False
        rest = podclique[len(start) :]
        return any(rest in entry.cliques or _in_groups(rest, entry.groups) for entry in self.entries)

    def _names(self, entry: Entry, podgang: str) -> bool:
        start = f"{self.name}-{entry.epoch}"
        if entry.role == Role.ANCHOR:
            return podgang in {start, short_name(start)}
        if podgang.startswith(f"{start}-"):
            group, _, index = podgang[len(start) + 1 :].rpartition("-")
            return index.isdecimal() and int(index) in entry.groups.get(group, frozenset())
        return any(short_name(full) == podgang for full in _full_names(start, entry) if len(full) > _MOST)


def short_name(full: str) -> str:
    """A PodGang's name in at most 63 characters."""
    if len(full) <= _MOST:
        return full
    return f"{full[:_START].rstrip('-.')}-h{hashlib.sha256(full.encode()).hexdigest()[:_DIGITS]}"


def _full_names(start: str, entry: Entry) -> Iterator[str]:
    for group, indices in entry.groups.items():
        yield from (f"{start}-{group}-{index}" for index in sorted(indices))


def _in_groups(rest: str, groups: Mapping[str, frozenset[int]]) -> bool:
    """Whether `<group>-<index>-<clique>` is in one of the groups. Names may contain dashes."""
    for group, indices in groups.items():
        if rest.startswith(f"{group}-"):
            index, dash, _ = rest[len(group) + 1 :].partition("-")
            if dash and index.isdecimal() and int(index) in indices:
                return True
    return False


def _pod_gang_map(raw: Manifest) -> tuple[ObjectKey, PodGangMap]:
    key = key_of(raw)
    entries = sequence(mapping(raw.get("spec")).get("entries"))
    return key, PodGangMap(key[1], tuple(_entry(mapping(entry)) for entry in entries))


def _entry(raw: Mapping[str, object]) -> Entry:
    groups = mapping(raw.get("pcsgReplicaIndices"))
    return Entry(
        name_text(raw.get("role")) or "",
        name_text(raw.get("epoch")) or "",
        frozenset(name for name, pods in mapping(raw.get("podCliques")).items() if integer(pods)),
        {
            group: frozenset(integer(index) or 0 for index in sequence(found))
            for group, found in groups.items()
            if found
        },
        tuple(text(epoch) or "" for epoch in sequence(raw.get("dependsOn"))),
    )


POD_GANG_MAPS = Projection(
    "pod_gang_maps",
    Resource(Api(grove.GROUP, "v1alpha1", "PodGangMap"), "podgangmaps"),
    _pod_gang_map,
    most=STORED_BYTES,
)
