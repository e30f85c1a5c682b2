"""Folders above files, and what each of them has of its own: the sizes of its groups, and the nodes of its cluster.
Nothing here reads a file.
"""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.findings import shown
from webhook.model.kueue import PROVISIONING
from webhook.model.kueue_objects import ADMISSION_CHECKS, AdmissionCheck
from webhook.model.node_pods import RESERVATIONS
from webhook.model.nodes import GROWTH, NODES, Nodes
from webhook.model.projections import key_of
from webhook.model.reading import Malformed, Manifest
from webhook.offline.fact_files import FactEntry, FactObject, FactRemark, name_of, subject_of
from webhook.offline.group_sizes import Group, file_groups, group_sizes, operator_groups, pods_gangs, sizes_of_owners
from webhook.offline.judgement import kind_of
from webhook.workloads.shaped_workload import KIND as POD_GROUP
from webhook.workloads.workload_kinds import WorkloadKinds

# A file and the folders that it is in, the nearest first.
Scopes = Sequence[str]
# What stands for every file.
EVERYWHERE = "/"
_SEVERAL = 2


def scopes_of(source: str) -> Scopes:
    """Returns a file and the folders that it is in, the nearest first."""
    path = PurePath(os.path.abspath(source))  # noqa: PTH100 - links are not followed, as the user named the files
    return list(dict.fromkeys((str(path), *map(str, path.parents), EVERYWHERE)))


class GroupFolders:
    """Which groups there are, and how many pods each has. The pods of a PodGroup that stands in several folders are
    counted within each of them; its size is unknown if pods elsewhere name it. `parts` are the parts of the facts for
    every file, and `remarks` say which sizes are unknown.
    """

    def __init__(self, objects: Sequence[FactObject], scopes: Mapping[str, Scopes], kinds: WorkloadKinds) -> None:
        """Counts the pods that name each group. `scopes` are those of each file."""
        self._kinds = kinds
        self.parts: dict[str, dict[Any, Any]] = {}
        self.remarks: list[FactRemark] = []
        # The folder of each file in which groups have one size, if it is not the same everywhere, and these sizes.
        self._areas: dict[str, str] = {}
        self._sizes: dict[str, dict[str, dict[Any, Any]]] = {}
        manifests = [item.manifest for item in objects]
        gangs = pods_gangs(manifests, kinds)
        if gangs or any(kind_of(manifest).kind == POD_GROUP for manifest in manifests):
            differing: list[Manifest] = []
            self.parts = {**self._sized(manifests, differing), "pods_gangs": gangs}
            self._split(objects, scopes)
            self._remark_uncounted(objects, differing)

    def area_of(self, source: str) -> str | None:
        """Returns the folder whose sizes count for a file; None for those of all files."""
        return self._areas.get(source)

    def area_facts(self, area: str | None, facts: ClusterFacts) -> ClusterFacts:
        if area is None:
            return facts
        area_sizes = self._sizes[area].items()
        parts: dict[str, Any] = {part: ChainMap(sizes, getattr(facts, part)) for part, sizes in area_sizes}
        return replace(facts, **parts)

    def _sized(self, manifests: list[Manifest], differing: list[Manifest] | None = None) -> dict[str, dict[Any, Any]]:
        sizes = group_sizes(manifests, self._kinds, differing)
        return {
            "group_sizes": sizes,
            "file_groups": file_groups(manifests, sizes, self._kinds),
            "gang_sizes": sizes_of_owners(operator_groups(manifests), manifests, self._kinds),
        }

    def _split(self, objects: Sequence[FactObject], scopes: Mapping[str, Scopes]) -> None:
        """Counts the groups of each folder on its own where a PodGroup stands in several."""
        copies: dict[tuple[str, str, str], set[str]] = {}
        for item in objects:
            if (kind := kind_of(item.manifest)).kind == POD_GROUP and isinstance(item.manifest.get("metadata"), dict):
                with suppress(Malformed):
                    copies.setdefault((kind.group, *key_of(item.manifest)), set()).add(item.document.source)
        self._areas = areas(scopes, copies.values())
        inner: dict[str, list[Manifest]] = {}
        for item in objects if self._areas else ():
            inner.setdefault(self._areas[item.document.source], []).append(item.manifest)
        sized = {area: self._sized(manifests) for area, manifests in inner.items()}
        defining: dict[Group, set[str]] = {}
        for area, parts in sized.items():
            for group in _keys(parts["file_groups"]):
                defining.setdefault(group, set()).add(area)
        several = {group: places for group, places in defining.items() if len(places) > 1}
        astray = {
            group
            for area, parts in sized.items()
            for group in parts["group_sizes"]
            if group in several and area not in several[group]
        }
        self.parts["group_sizes"].update(dict.fromkeys(several))
        if astray:
            system, namespace, name = min(astray)
            groups = (item for item in objects if item.manifest.get("kind") == POD_GROUP)
            item = next(item for item in groups if name_of(item.manifest) == name)
            message = (
                f"PodGroup {shown(f'{namespace}/{name}')} of {system} stands in several folders, and pods elsewhere "
                "name it: how many pods it has is unknown"
            )
            self.remarks.append(FactRemark(message, item.document, item.at, (POD_GROUP, namespace, name)))
        for area, parts in sized.items():
            sizes = parts["group_sizes"]
            nearer = (group for group in _keys(parts["file_groups"]) if group in several and group not in astray)
            self._sizes[area] = {
                "group_sizes": {group: sizes[group] for group in nearer if group in sizes},
                "gang_sizes": parts["gang_sizes"],
            }

    def _remark_uncounted(self, objects: Iterable[FactObject], differing: Iterable[Manifest]) -> None:
        """Says which objects leave the size of their group unknown, unless each of their folders counts its own."""
        versions = {id(manifest) for manifest in differing}
        items = [item for item in objects if id(item.manifest) in versions and not self._is_counted(item)]
        if items:
            item = min(items, key=lambda item: item.order)
            kind, name = kind_of(item.manifest).kind, name_of(item.manifest)
            more = f", as {len(items) - 1:,} more objects do" if len(items) > 1 else ""
            message = (
                f"{kind} {shown(name)} differs from another version in these files{more}: how many pods its group has "
                "is unknown"
            )
            self.remarks.append(FactRemark(message, item.document, item.at, (kind, key_of(item.manifest)[0], name)))

    def _is_counted(self, item: FactObject) -> bool:
        return bool(self._sizes.get(self._areas.get(item.document.source, ""), {}).get("group_sizes"))


def _keys(groups: Mapping[tuple[str, str], Iterable[str]]) -> Iterator[Group]:
    return ((*key, name) for key, names in groups.items() for name in names)


# What may add nodes to a cluster.
GROWERS = frozenset({ADMISSION_CHECKS.part, *(projection.part for projection in GROWTH)})
# What counts only for the cluster whose nodes stand in its folder.
OF_CLUSTERS = GROWERS | {NODES.part, RESERVATIONS.part, "resource_slices", "hyper_nodes"}


class NodeFolders:
    """The nodes of each folder: those of folders beside each other are several clusters. `remarks` says so."""

    def __init__(self, entries: Iterable[tuple[str, FactEntry]], scopes: Mapping[str, Scopes], *, cut: bool) -> None:
        """Takes nodes and what belongs to them, each with its part of the facts. `scopes` are those of each file, and
        `cut` is whether some nodes were not read.
        """
        self._cut = cut
        self.remarks: list[FactRemark] = []
        placed = [(part, entry, scopes[entry.item.document.source][1:]) for part, entry in entries]
        # The folder whose nodes count, for itself and for each folder above, if there are several.
        self._clusters = roots(folders for part, _, folders in placed if part == NODES.part)
        clusters = {top for top in self._clusters.values() if top is not None}
        # By part and key: the clusters of an object, None for one that stands outside all of them.
        self._places: dict[str, dict[Any, set[str | None]]] = {}
        if len(clusters) < _SEVERAL:
            self._clusters = {}
            return
        for part, entry, folders in placed:
            self._places.setdefault(part, {}).setdefault(entry.key, set()).add(self.cluster_of(folders))
        item = min((entry.item for part, entry, _ in placed if part == NODES.part), key=lambda item: item.order)
        message = (
            f"nodes stand in {len(clusters):,} folders beside each other: a workload is judged with those of its own "
            "folder, and without nodes elsewhere; put the nodes of one cluster into one folder"
        )
        self.remarks.append(FactRemark(message, item.document, item.at, subject_of(item.manifest, NODES)))
        growers = (place for place in placed if place[0] in GROWERS)
        self._remark_growth(entry for _, entry, folders in growers if not self.cluster_of(folders))

    def _remark_growth(self, entries: Iterable[FactEntry]) -> None:
        # Of the AdmissionChecks only some add nodes.
        growers = [
            entry.item
            for entry in entries
            if not isinstance(entry.value, AdmissionCheck) or entry.value.controller == PROVISIONING
        ]
        if growers:
            item = min(growers, key=lambda item: item.order)
            kind, name = kind_of(item.manifest).kind, name_of(item.manifest)
            message = (
                f"{kind} {shown(name)} stands outside the folders with nodes, so each of their clusters may get more "
                "nodes: no gang is said not to fit; put it into the folder of its cluster"
            )
            self.remarks.append(FactRemark(message, item.document, item.at, (kind, "", name)))

    def cluster_of(self, scopes: Scopes) -> str | None:
        """Returns the folder whose nodes count for a file; None if none do, or if all do."""
        return next((self._clusters[scope] for scope in scopes if scope in self._clusters), None)

    def cluster_facts(self, cluster: str | None, facts: ClusterFacts) -> ClusterFacts:
        """Returns facts with the nodes of one folder; without nodes if there are several clusters and it has none."""
        if not self._clusters:
            return facts
        if cluster is None:
            return replace(facts, nodes=None, node_pods=None)
        parts: dict[str, Any] = {}
        for part, places in self._places.items():
            objects = getattr(facts, part)
            near = [(key, value) for key, value in objects.items() if {cluster, None} & places.get(key, {None})]
            parts[part] = type(objects)(near) if near else None
        # A node of which there are two versions may be unknown. One of another cluster leaves this cluster whole.
        names = [name for name, clusters in self._places[NODES.part].items() if cluster in clusters]
        whole = not self._cut and all(name in (facts.nodes or ()) for name in names)
        partial = (facts.partial or frozenset()) - ({NODES.part} if whole else set())
        return replace(facts, **{NODES.part: Nodes(), **parts}, partial=partial or None)


def areas(scopes: Mapping[str, Scopes], objects: Iterable[Iterable[str]]) -> dict[str, str]:
    """Returns for each file the widest folder in which no object stands in two folders; empty if none does. `objects`
    are the files of each object.
    """
    mixed: set[str] = set()
    for sources in objects:
        folders = {tuple(scopes[source][1:]) for source in sources}
        if len(folders) > 1:
            counts = Counter(scope for folder in folders for scope in folder)
            mixed.update(scope for scope, count in counts.items() if count > 1)
    if not mixed:
        return {}
    return {
        source: [scope for scope in every if scope not in mixed or scope == every[0]][-1]
        for source, every in scopes.items()
    }


def roots(folders: Iterable[Scopes]) -> dict[str, str | None]:
    """Returns the topmost of some folders, for itself and each folder above; None above several. Each folder comes with
    those above it.
    """
    every = {tuple(folder) for folder in folders if folder}
    nearest = {folder[0] for folder in every}
    tops: dict[str, str | None] = {}
    for folder in every:
        if nearest.isdisjoint(folder[1:]):
            for scope in folder:
                tops[scope] = None if scope in tops else folder[0]
    return tops
