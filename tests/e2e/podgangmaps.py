"""What Grove's operator writes into a PodGangMap, and the PodGangs that its entries stand for.

Pure, for the fixture that plays the operator. Written from recorded PodGangMaps and, for what was not recorded (sets
with zero replicas, names over 63 characters), from the description of Grove's API; not from our own code, which is
under test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

from tests.e2e.control_plane import Manifest

ANCHOR, TAIL, SCALE_OUT = "Anchor", "Tail", "ScaleOut"
# Scaling in takes from the first of these that has something left.
_DRAINED = (SCALE_OUT, TAIL, ANCHOR)

_MAX_NAME, _KEPT, _DIGEST = 63, 29, 32


class Gang(NamedTuple):
    """A PodGang that an entry stands for."""

    name: str
    entry: Manifest
    # The pods of each PodClique that is in no scaling group, and the replicas of each scaling group.
    cliques: dict[str, int]
    groups: dict[str, list[int]]

    @property
    def depends_on(self) -> list[str]:
        """The epochs of the PodGangs that must be scheduled before it."""
        return list(self.entry.get("dependsOn", []))


def short(name: str) -> str:
    """A PodGang's name in at most 63 characters."""
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[:_KEPT].rstrip('-.')}-h{hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]}"


def first_entries(template: Manifest, epoch: int, generation: str) -> list[Manifest]:
    """The entries of a new replica of a set: an anchor, a tail if scaling groups have replicas above their minimum, and
    an empty entry for what is scaled out later. Whatever has zero replicas is left out.
    """
    groups = template.get("podCliqueScalingGroups") or []
    grouped = {member for group in groups for member in group["cliqueNames"]}
    counts = {clique["name"]: int(clique["spec"].get("replicas", 1)) for clique in template["cliques"]}
    alone = {name: count for name, count in counts.items() if count and name not in grouped}
    replicas = {group["name"]: (int(group.get("minAvailable", 1)), int(group.get("replicas", 1))) for group in groups}
    anchored = {name: list(range(minimum)) for name, (minimum, count) in replicas.items() if count}
    above = {name: list(range(minimum, count)) for name, (minimum, count) in replicas.items() if count > minimum}
    found = [_entry(ANCHOR, epoch, generation, podCliques=alone, pcsgReplicaIndices=anchored, anchorIndex=0)]
    if above:
        found.append(_entry(TAIL, epoch + 1, generation, pcsgReplicaIndices=above, dependsOn=[str(epoch)]))
    if groups:
        found.append(_entry(SCALE_OUT, epoch + 2, generation, dependsOn=[str(epoch)]))
    return found


def _entry(role: str, epoch: int, generation: str, **fields: object) -> Manifest:
    known = {"role": role, "epoch": str(epoch), "podCliqueSetGenerationHash": generation}
    return {**known, **{key: value for key, value in fields.items() if value not in ({}, [])}}


def with_clique(entries: list[Manifest], clique: str, pods: int, epoch: int) -> list[Manifest]:
    """The entries once a PodClique that is in no scaling group has another number of pods. One that had none comes back
    in the first anchor if that is empty, and in an anchor of its own otherwise; `epoch` is for that.
    """
    found = deepcopy(entries)
    holder = next((entry for entry in found if clique in entry.get("podCliques", {})), None)
    if pods == 0:
        for entry in found:
            kept = {name: count for name, count in entry.pop("podCliques", {}).items() if name != clique}
            entry.update({"podCliques": kept} if kept else {})
    elif holder is not None:
        holder["podCliques"][clique] = pods
    else:
        _woken(found, epoch).setdefault("podCliques", {})[clique] = pods
    return _without_empty(found)


def with_group(entries: list[Manifest], group: str, replicas: int, minimum: int, epoch: int) -> list[Manifest]:
    """The entries once a scaling group has another number of replicas: more go to the ScaleOut entry; fewer leave
    ScaleOut, Tail and anchors, in this order and the highest index first.
    """
    found = deepcopy(entries)
    there = sum(len(entry.get("pcsgReplicaIndices", {}).get(group, [])) for entry in found)
    if there == 0 < replicas:
        _woken(found, epoch).setdefault("pcsgReplicaIndices", {})[group] = list(range(minimum))
        there = minimum
    if replicas > there:
        out = next(entry for entry in found if entry["role"] == SCALE_OUT)
        indices = out.setdefault("pcsgReplicaIndices", {})
        indices[group] = sorted([*indices.get(group, []), *range(there, replicas)])
    _drain(found, group, there - replicas)
    return _without_empty(found)


def _drain(entries: list[Manifest], group: str, count: int) -> None:
    def order(entry: Manifest) -> tuple[int, int]:
        return _DRAINED.index(entry["role"]), -entry.get("anchorIndex", 0)

    for entry in sorted(entries, key=order):
        indices = sorted(entry.get("pcsgReplicaIndices", {}).get(group, []))
        taken = min(max(count, 0), len(indices))
        if taken:
            entry["pcsgReplicaIndices"][group] = indices[: len(indices) - taken]
            count -= taken


def _woken(entries: list[Manifest], epoch: int) -> Manifest:
    """The anchor for what had zero replicas: the first one with a new epoch if it is empty, or an additional one."""
    first = entries[0]
    if _empty(first):
        before, first["epoch"] = first["epoch"], str(epoch)
        for entry in entries:
            if "dependsOn" in entry:
                entry["dependsOn"] = [str(epoch) if one == before else one for one in entry["dependsOn"]]
        return first
    index = 1 + max(entry.get("anchorIndex", 0) for entry in entries)
    generation = first["podCliqueSetGenerationHash"]
    entries.append(_entry(ANCHOR, epoch, generation, dependsOn=[first["epoch"]], anchorIndex=index))
    return entries[-1]


def _empty(entry: Manifest) -> bool:
    return not entry.get("podCliques") and not any(entry.get("pcsgReplicaIndices", {}).values())


def _without_empty(entries: list[Manifest]) -> list[Manifest]:
    """Those that stay: the first anchor and the ScaleOut entry do so even if they are empty."""
    return [
        entry
        for entry in entries
        if not _empty(entry) or entry["role"] == SCALE_OUT or entry.get("anchorIndex", -1) == 0
    ]


def gangs_of(base: str, entries: list[Manifest]) -> Iterator[Gang]:
    """The PodGangs of a replica of a set, `base` being `<set>-<replica>`: one for an anchor, and for other entries one
    for each replica of a scaling group.
    """
    for entry in entries:
        start, groups = f"{base}-{entry['epoch']}", entry.get("pcsgReplicaIndices", {})
        if entry["role"] != ANCHOR:
            for group, indices in groups.items():
                for index in indices:
                    yield Gang(short(f"{start}-{group}-{index}"), entry, {}, {group: [index]})
        elif not _empty(entry):
            yield Gang(short(start), entry, entry.get("podCliques", {}), groups)
