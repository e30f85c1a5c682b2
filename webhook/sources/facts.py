"""Read facts of a cluster from manifests: the output of `rollcall facts` or of `kubectl get KIND -A -o yaml`, or files
written by hand.

A part of the facts is known once there is a document of its kind, or an empty typed list (`kind: ElasticQuotaList`,
`items: []`). Until then it is unknown. Kinds that no rule reads are ignored.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.backends.registry import installed_backends
from webhook.backends.volcano.keys import OPEN
from webhook.errors import InputError
from webhook.model import grove, served_kinds
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.model.field_names import KindFields
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import shown
from webhook.model.general import EVERY_GENERAL
from webhook.model.keys import SHAPED_WORKLOADS, Api
from webhook.model.known_objects import VolcanoQueue
from webhook.model.kubernetes_kinds import POD
from webhook.model.kueue.projections import KUEUE_PROJECTIONS
from webhook.model.node_growth import GROWTH
from webhook.model.node_pods import NODE_PODS, RESERVATIONS, read_node_pod
from webhook.model.nodes import NODES, Nodes
from webhook.model.projections import NAMESPACES, Missing, Projection, key_of, labels_of, required, spec_fields
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.model.workloads.facts import PROJECTIONS as OF_OPTED_IN_KINDS
from webhook.model.workloads.operator_group import KIND as _GROUP
from webhook.model.workloads.shapes.kinds import PYTHON_KINDS, WorkloadKinds
from webhook.offline.group_sizes import file_groups, group_sizes
from webhook.offline.judgement import kind_of
from webhook.offline.operator_groups import operator_groups, sizes_of_owners
from webhook.offline.stock_runtimes import with_stock_runtimes
from webhook.sources.field_lists import known_fields, load_schemas, versions_of
from webhook.sources.folders import EVERYWHERE, areas, roots, scopes_of
from webhook.sources.manifests import Document, files_of, read_file
from webhook.sources.node_fields import unreadable_field
from webhook.sources.places import Lines, Root


@dataclass(frozen=True, slots=True)
class _Object:
    """One object of a document, which may be a list of many."""

    document: Document
    at: FieldPath
    manifest: Manifest

    def error(self, path: FieldPath, why: str) -> InputError:
        line, column = self.document.position(FieldPath((*self.at.parts, *path.parts)))
        return InputError(self.document.source, why, line, column)

    @property
    def place(self) -> tuple[str, int, int]:
        """The file, line and column."""
        return (self.document.source, *self.document.position(self.at))

    @property
    def order(self) -> tuple[str, int, tuple[str, ...]]:
        """The order of objects by place, without a search for the column."""
        return self.document.source, self.document.line, tuple(map(str, self.at.parts))

    @property
    def origin(self) -> str:
        """Where it stands, in words that are made without a search: in a long list, its index."""
        inside = f" ({self.at})" if self.at.parts else ""
        return f"{self.document.source}:{self.document.line}{inside}"


def _text_of(place: tuple[str, int, int]) -> str:
    return ":".join(map(str, place))


class _Origin(NamedTuple):
    """Where an object of the facts stands, and what it says."""

    order: tuple[str, int, tuple[str, ...]]
    text: str
    version: str
    value: Any


# By part of the facts, kind, namespace and name.
_Origins = dict[tuple[str, str, str, str], _Origin]
# What is to be said, with its place in the order.
_Told = tuple[tuple[Any, ...], str, _Object, tuple[str, str, str]]
# More remarks are counted.
_MOST_REMARKS = 20


def load_facts(paths: Sequence[Path], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Return the facts in files and folders. Raises `InputError`, also for an empty file: the command that was to write
    it has failed, and what is missing would only be unknown.
    """
    documents = (document for path in files_of(paths) for document in read_file(path, may_be_empty=False))
    return _facts_of(_objects(documents), kinds=kinds, origins={})


def facts_from(
    documents: Iterable[Document], known: ClusterFacts = NOTHING_KNOWN, kinds: WorkloadKinds = PYTHON_KINDS
) -> ClusterFacts:
    """Return the facts in `documents`, added to those `known`. Raises `InputError` for a document that cannot be
    understood.
    """
    return _facts_of(_objects(documents), known, kinds)


def _facts_of(
    items: Iterable[_Object],
    known: ClusterFacts = NOTHING_KNOWN,
    kinds: WorkloadKinds = PYTHON_KINDS,
    origins: _Origins | None = None,
) -> ClusterFacts:
    """Return the facts in objects. With `origins`, which is filled, an object may stand twice only if both are
    equal.
    """
    found: dict[str, Any] = {}
    cut: set[str] = set()
    for item in items:
        group, version, kind = kind_of(item.manifest)
        is_list = kind.endswith("List")
        try:
            for part in _parts(group, kind.removesuffix("List"), kinds):
                known_part = found.setdefault(part, _start(known, part))
                if (is_list and _goes_on(item.manifest)) or _is_unread(group, version, kind, kinds):
                    cut.add(part)
                if not is_list and not _nameless(part, item.manifest):
                    _add(part, item, known_part, kinds, origins)
        except Missing as error:
            raise item.error(error.path, str(error)) from None
        except Malformed as error:
            raise item.error(FieldPath(), f"{kind}: {error}") from None
    for part in _SETS & found.keys():
        found[part] = frozenset(found[part])
    if not found.get(NODE_PODS.part, True):
        # Pods without a node, and those that were cut down to their name and gang, do not tell what the others use.
        del found[NODE_PODS.part]
    if cut:
        found["partial"] = _both(known.partial, frozenset(cut))
    if origins:
        found["origins"] = MappingProxyType({key: origin.text for key, origin in origins.items()})
    return replace(known, **found)


def _goes_on(found: Manifest) -> bool:
    """Return whether a list is one page of several. Raises `Malformed`."""
    metadata = mapping(found.get("metadata"))
    return bool(metadata.get("continue") or metadata.get("remainingItemCount"))


def facts_in(manifests: Iterable[Manifest], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Return the facts in manifests that were read from a cluster. Raises `InputError`."""
    documents = (Document("the cluster", one, 1, Lines(""), lambda: Root(0, None)) for one in manifests)
    return facts_from(documents, kinds=kinds)


class Remark(NamedTuple):
    """What is to be said of an object among the files, and where it stands."""

    message: str
    document: Document
    at: FieldPath
    # Kind, namespace (empty if it has none) and name.
    subject: tuple[str, str, str]

    def __str__(self) -> str:
        line, column = self.document.position(self.at)
        return f"{self.document.source}:{line}:{column}: {self.message}"


class _Entry(NamedTuple):
    """What one object says to a part of the facts."""

    item: _Object
    key: Any
    value: Any


@dataclass(slots=True)
class _Identity:
    """The objects of one kind, namespace and name. `variants` are their different contents."""

    part: str
    subject: tuple[str, str, str]
    entries: list[_Entry] = field(default_factory=list)
    variants: list[list[_Entry]] = field(default_factory=list)
    # The variants by their text, as very many must not be compared with each other.
    _by_text: dict[str, list[_Entry]] = field(default_factory=dict)

    def add(self, entry: _Entry) -> None:
        """Add an object."""
        self.entries.append(entry)
        written = repr(entry.value)
        variant = self._by_text.get(written)
        if variant is None:
            equal = [one for one in self.variants[:_MOST_COMPARED] if one[0].value == entry.value]
            if not equal:
                self.variants.append([])
            variant = self._by_text[written] = equal[0] if equal else self.variants[-1]
        variant.append(entry)

    def places(self, scopes: Mapping[str, Sequence[str]]) -> dict[str, set[int]]:
        """Return the variants that stand in each file, and below each folder. `scopes` are those of each file."""
        found: dict[str, set[int]] = {}
        for index, variant in enumerate(self.variants):
            for source in {entry.item.document.source for entry in variant}:
                for scope in scopes[source]:
                    found.setdefault(scope, set()).add(index)
        return found


_MOST_COMPARED = 64
_SEVERAL = 2
# The variant of each object that differs; None if it is unknown.
_Choice = tuple[int | None, ...]


def _only(variants: set[int]) -> int | None:
    """Return the one of equally near variants; None if they are several."""
    return next(iter(variants)) if len(variants) == 1 else None


def _choose(identity: _Identity, index: int | None, part: dict[Any, Any]) -> None:
    """Put one variant of an object into its part of the facts; none if it is unknown."""
    for entry in identity.entries:
        if entry.key in part:
            del part[entry.key]
    if index is not None:
        entry = identity.variants[index][0]
        part[entry.key] = entry.value


def _keys(groups: Mapping[tuple[str, str], Iterable[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the system, namespace and name of each PodGroup."""
    return ((*key, name) for key, names in groups.items() for name in names)


def _agree(old: Any, new: Any) -> bool:
    """Return whether an object in a file says what is known of it. A Queue has its state only in a cluster."""
    if isinstance(old, VolcanoQueue) and isinstance(new, VolcanoQueue) and new.state is None:
        new = replace(new, state=old.state)
    return bool(old == new)


class Worlds:
    """The facts that each document is judged with: those that are known, and what stands among the documents, which
    counts more. An object of which the documents have different ones is the nearest one: of the same file, else of the
    same folder, else of the one above. If two are equally near it is unknown.

    Nothing depends on the order of the documents. `remarks` says which objects differ.
    """

    def __init__(self, known: ClusterFacts, documents: Iterable[Document], kinds: WorkloadKinds = PYTHON_KINDS) -> None:
        """Read the documents. Raises `InputError`."""
        self._known = known
        self._objects = list(_objects(documents))
        self._kinds = kinds
        self._whole: dict[str, _Object] = {}
        self._unread: set[str] = set()
        self._identities: dict[tuple[str, str, str, str], _Identity] = {}
        self.remarks: list[Remark] = []
        # Nodes among the documents are a cluster: they are all of its nodes.
        self._has_nodes = any(
            kind_of(item.manifest)[::2] in {("", _NODE), ("", f"{_NODE}List")} for item in self._objects
        )
        self._collect()
        self._differing = [one for one in self._identities.values() if len(one.variants) > 1]
        self._scopes = {source: scopes_of(source) for source in {item.document.source for item in self._objects}}
        # Below each folder, and in each file, the objects that differ, with their variants there.
        self._held: dict[str, dict[int, set[int]]] = {}
        for index, one in enumerate(self._differing):
            for scope, variants in one.places(self._scopes).items():
                self._held.setdefault(scope, {})[index] = variants
        self._choices: dict[str, _Choice] = {}
        # The folder of each file in which groups have one size, if it is not the same everywhere, and these sizes.
        self._areas: dict[str, str] = {}
        self._sizes: dict[str, dict[str, dict[Any, Any]]] = {}
        # The folder whose nodes count, for itself and for each folder above, if there are several; and its nodes.
        self._clusters: dict[str, str | None] = {}
        self._nodes_of: dict[str, list[str]] = {}
        self._split_nodes()
        self._settled = self._settle()
        self._by_choice: dict[_Choice, ClusterFacts] = {}
        self._by_place: dict[tuple[str, str | None, str | None], ClusterFacts] = {}
        self._remark()

    def of(self, document: Document) -> ClusterFacts:
        """Return the facts for the objects of a document."""
        scopes = self._scopes.get(document.source) or scopes_of(document.source)
        nearest = next((scope for scope in scopes if scope in self._held), EVERYWHERE)
        cluster = next((self._clusters[scope] for scope in scopes if scope in self._clusters), None)
        place = (nearest, self._areas.get(document.source), cluster)
        found = self._by_place.get(place)
        if found is None:
            found = self._by_place[place] = self._placed(self._chosen(self._choice_of(scopes)), *place[1:])
        return found

    def _placed(self, found: ClusterFacts, area: str | None, cluster: str | None) -> ClusterFacts:
        """Return facts with the sizes of the groups of one folder, and the nodes of one; none if it has no cluster."""
        if area is not None:
            nearer: dict[str, Any] = {
                part: ChainMap(own, getattr(found, part)) for part, own in self._sizes[area].items()
            }
            found = replace(found, **nearer)
        if self._clusters and cluster is None:
            found = replace(found, nodes=None, node_pods=None)
        elif cluster is not None:
            # A node of which there are two versions may be unknown.
            every, names = found.nodes or Nodes(), self._nodes_of[cluster]
            found = replace(found, nodes=Nodes((name, every[name]) for name in names if name in every))
        return found

    def _choice_of(self, scopes: Sequence[str]) -> _Choice:
        """Return the nearest variants for a file. Each folder decides once, and only what it holds."""
        choice = self._nowhere
        for scope in reversed(scopes):
            held = self._held.get(scope)
            if held and scope not in self._choices:
                changed = list(choice)
                for index, variants in held.items():
                    changed[index] = _only(variants)
                self._choices[scope] = tuple(changed)
            choice = self._choices.get(scope, choice)
        return choice

    @property
    def _nowhere(self) -> _Choice:
        """The choice where no variant is nearest."""
        return (None,) * len(self._differing)

    @property
    def common(self) -> ClusterFacts:
        """The facts without the objects that differ."""
        return self._chosen(self._nowhere)

    def _collect(self) -> None:
        """Read what each object says."""
        for item in self._objects:
            group, version, kind = kind_of(item.manifest)
            is_list = kind.endswith("List")
            for part in _parts(group, kind.removesuffix("List"), self._kinds):
                if part not in _TOGETHER or (part in _OF_NODES and not self._has_nodes):
                    continue
                if is_list and part in _OF_CLUSTER:
                    self._list(part, item)
                elif not (is_list or _nameless(part, item.manifest)):
                    if _is_unread(group, version, kind, self._kinds):
                        self._unread.add(part)
                    else:
                        self._read(part, item)

    def _list(self, part: str, item: _Object) -> None:
        """Take a typed list as all objects of its kind, unless it is one page of several."""
        try:
            goes_on = _goes_on(item.manifest)
        except Malformed:
            goes_on = True
        if goes_on:
            self._unread.add(part)
        else:
            self._whole.setdefault(part, item)

    def _read(self, part: str, item: _Object) -> None:
        group, _, kind = kind_of(item.manifest)
        projection = _projection(group, kind, self._kinds)
        if projection is None or projection.part != part:
            return
        try:
            entry = _entry_of(item, projection)
            subject = ("", "", "") if entry is None else _subject_of(item.manifest, projection)
        except Missing as error:
            if part not in _SOFT:
                raise item.error(error.path, str(error)) from None
            self._leave_out(projection, item, str(error))
            return
        except Malformed as error:
            if part in _NOT_JUDGED:
                raise item.error(FieldPath(), f"{kind}: {error}") from None
            # Other objects are judged themselves, and that reports more.
            if part in _SOFT:
                self._leave_out(projection, item, str(error))
            return
        if entry is None:
            return
        self._identities.setdefault((part, *subject), _Identity(part, subject)).add(entry)

    def _leave_out(self, projection: Projection, item: _Object, why: str) -> None:
        if projection.named is not None and _name_of(item.manifest) != projection.named:
            return
        self._unread.add(projection.part)
        kind, name = kind_of(item.manifest).kind, _name_of(item.manifest)
        message = f"this {kind} is left out of the facts: {why}"
        self.remarks.append(Remark(message, item.document, item.at, (kind, "", name)))

    def _settle(self) -> dict[str, Any]:
        """Return the parts with all objects that do not differ."""
        found: dict[str, Any] = {}
        singles = [item for item in self._objects if not kind_of(item.manifest).kind.endswith("List")]
        if any(kind_of(item.manifest).kind == _GROUP for item in singles):
            differing: list[Manifest] = []
            found.update(self._sized([item.manifest for item in singles], differing))
            self._split_groups(singles, found)
            self._remark_uncounted(singles, differing)
        if self._has_nodes:
            own = (item for item in self._objects if kind_of(item.manifest)[::2] in {("", "Pod"), ("", "PodList")})
            found[NODE_PODS.part] = _facts_of(own).node_pods or (
                self._known.node_pods if self._known.nodes is None else None
            )
        for part in self._whole:
            found.setdefault(part, self._begun(part))
        for one in self._identities.values():
            mapping_of_part = found.setdefault(one.part, self._begun(one.part))
            if len(one.variants) == 1:
                mapping_of_part[one.entries[0].key] = one.entries[0].value
        return found

    def _sized(self, manifests: list[Manifest], differing: list[Manifest] | None = None) -> dict[str, dict[Any, Any]]:
        """Return how large groups are, and which there are, in some objects."""
        sizes = group_sizes(manifests, self._kinds, differing)
        return {
            "group_sizes": sizes,
            "file_groups": file_groups(manifests, sizes, self._kinds),
            "gang_sizes": sizes_of_owners(operator_groups(manifests), manifests, self._kinds),
        }

    def _split_groups(self, singles: list[_Object], whole: dict[str, Any]) -> None:
        """Count the pods of a PodGroup that stands in several folders within each of them. Its size is unknown if pods
        elsewhere name it.
        """
        copies: dict[tuple[str, str, str], set[str]] = {}
        for item in singles:
            if (kind := kind_of(item.manifest)).kind == _GROUP and isinstance(item.manifest.get("metadata"), dict):
                with suppress(Malformed):
                    copies.setdefault((kind.group, *key_of(item.manifest)), set()).add(item.document.source)
        self._areas = areas(self._scopes, copies.values())
        inner: dict[str, list[Manifest]] = {}
        for item in singles if self._areas else ():
            inner.setdefault(self._areas[item.document.source], []).append(item.manifest)
        sized = {area: self._sized(manifests) for area, manifests in inner.items()}
        defining: dict[tuple[str, str, str], set[str]] = {}
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
        whole["group_sizes"].update(dict.fromkeys(several))
        if astray:
            system, namespace, name = min(astray)
            item = next(
                item for item in singles if item.manifest.get("kind") == _GROUP and _name_of(item.manifest) == name
            )
            message = (
                f"PodGroup {shown(f'{namespace}/{name}')} of {system} stands in several folders, and pods elsewhere "
                "name it: how many pods it has is unknown"
            )
            self.remarks.append(Remark(message, item.document, item.at, (_GROUP, namespace, name)))
        for area, parts in sized.items():
            sizes = parts["group_sizes"]
            own = {group: sizes[group] for group in _keys(parts["file_groups"]) if group in several and group in sizes}
            self._sizes[area] = {
                "group_sizes": {group: size for group, size in own.items() if group not in astray},
                "gang_sizes": parts["gang_sizes"],
            }

    def _remark_uncounted(self, singles: list[_Object], differing: list[Manifest]) -> None:
        """Say which objects leave the size of their group unknown, unless each of their folders counts its own."""
        versions = {id(manifest) for manifest in differing}
        items = [item for item in singles if id(item.manifest) in versions and not self._counted(item)]
        if items:
            item = min(items, key=lambda item: item.order)
            kind, name = kind_of(item.manifest).kind, _name_of(item.manifest)
            more = f", as {len(items) - 1:,} more objects do" if len(items) > 1 else ""
            message = (
                f"{kind} {shown(name)} differs from another version in these files{more}: how many pods its group has "
                "is unknown"
            )
            self.remarks.append(Remark(message, item.document, item.at, (kind, key_of(item.manifest)[0], name)))

    def _counted(self, item: _Object) -> bool:
        """Return whether the folder of an object has its own size of a group."""
        return bool(self._sizes.get(self._areas.get(item.document.source, ""), {}).get("group_sizes"))

    def _split_nodes(self) -> None:
        """Take nodes in folders beside each other as several clusters."""
        entries = [entry for one in self._identities.values() if one.part == NODES.part for entry in one.entries]
        scopes = [self._scopes[entry.item.document.source][1:] for entry in entries]
        tops = roots(scopes)
        clusters = sorted({top for top in tops.values() if top is not None})
        if len(clusters) < _SEVERAL:
            return
        self._clusters = tops
        for entry, above in zip(entries, scopes, strict=True):
            top = next(top for scope in above if (top := tops.get(scope)) is not None)
            self._nodes_of.setdefault(top, []).append(entry.key)
        item = min((entry.item for entry in entries), key=lambda item: item.order)
        message = (
            f"nodes stand in {len(clusters):,} folders beside each other: a workload is judged with those of its own "
            "folder, and without nodes elsewhere; put the nodes of one cluster into one folder"
        )
        self.remarks.append(Remark(message, item.document, item.at, _subject_of(item.manifest, NODES)))

    def _begun(self, part: str) -> Any:
        """Return a part with what is known and not replaced as a whole."""
        return _start(NOTHING_KNOWN if part in self._whole or part == NODES.part else self._known, part)

    def _chosen(self, choice: _Choice) -> ClusterFacts:
        """Return the facts with one variant of each object that differs; None if it is unknown."""
        found = self._by_choice.get(choice)
        if found is None:
            parts = dict(self._settled)
            for part in {one.part for one in self._differing}:
                parts[part] = type(parts[part])(parts[part])
            unknown = set(self._unread)
            for one, index in zip(self._differing, choice, strict=True):
                _choose(one, index, parts[one.part])
                if index is None:
                    unknown.add(one.part)
            found = self._by_choice[choice] = self._completed(parts, unknown)
        return found

    def _completed(self, parts: dict[str, Any], unknown: set[str]) -> ClusterFacts:
        known = self._known
        if queues := parts.get("volcano_queues"):
            parts["volcano_queues"] = _opened(queues, known.volcano_queues or {})
        whole = {*self._whole, *(_WITH_NODES if self._has_nodes else ())}
        some = {part for part in _OF_CLUSTER & parts.keys() if getattr(known, part) is None} - whole
        partial = ((known.partial or frozenset()) - whole) | some | unknown
        return with_stock_runtimes(replace(known, **parts, partial=partial or None))

    def _remark(self) -> None:
        """Say which objects differ, and which replace others."""
        told = [
            *sorted(self._differences(), key=lambda one: one[0]),
            *sorted(self._replacements(), key=lambda one: one[0]),
            *self._repetitions(),
        ]
        for _, message, item, subject in told[:_MOST_REMARKS]:
            self.remarks.append(Remark(message, item.document, item.at, subject))
        if len(told) > _MOST_REMARKS:
            last = self.remarks[-1]
            more = f"{last.message}; and {len(told) - _MOST_REMARKS:,} more objects that differ or stand twice"
            self.remarks[-1] = last._replace(message=more)

    def _differences(self) -> Iterator[_Told]:
        for one in self._differing:
            first, second = sorted((variant[0].item for variant in one.variants), key=lambda item: item.order)[:2]
            more = len(one.variants) - 2
            others = f" and {more:,} more places" if more else ""
            yield (
                (0, *first.order),
                f"{_called(one.subject)} differs in {_text_of(first.place)} and {_text_of(second.place)}{others}: each "
                "file is judged with the nearest one, and without it where two are equally near",
                first,
                one.subject,
            )

    def _replacements(self) -> Iterator[_Told]:
        origins = self._known.origins or {}
        for part, item in self._whole.items():
            if part != NODES.part and (before := getattr(self._known, part)) and before != self._settled[part]:
                kind = kind_of(item.manifest).kind
                yield (1, *item.order), f"this {kind} replaces what else is known of its kind", item, (kind, "", "")
        nodes = [one for one in self._identities.values() if one.part == NODES.part]
        if nodes and self._known.nodes and self._known.nodes != self._settled[NODES.part]:
            item = min((one.entries[0].item for one in nodes), key=lambda item: item.order)
            message = "the nodes of these files are judged, and not the other known nodes"
            yield (1, *item.order), message, item, nodes[0].subject
        for key, one in self._identities.items():
            before = None if one.part in self._whole or one.part == NODES.part else getattr(self._known, one.part)
            if not before or one.part not in _OF_CLUSTER:
                continue
            entry = one.entries[0]
            if (old := before.get(entry.key)) is not None and not _agree(old, entry.value):
                other = origins.get(key, "the other facts")
                message = f"{_called(one.subject)} differs from the one in {other}; this one is judged"
                yield (1, *entry.item.order), message, entry.item, one.subject

    def _repetitions(self) -> Iterator[_Told]:
        twice = [one for one in self._identities.values() if len(one.variants) == 1 < len(one.entries)]
        if twice:
            one = min(twice, key=lambda one: min(entry.item.order for entry in one.entries))
            first, second = sorted((entry.item for entry in one.entries), key=lambda item: item.order)[:2]
            many = f", as {len(twice) - 1:,} more objects do" if len(twice) > 1 else ""
            message = f"{_called(one.subject)} stands in {_text_of(first.place)} and {_text_of(second.place)}{many}"
            yield (2, *first.order), message, first, one.subject


def one_world(known: ClusterFacts, documents: Iterable[Document], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Return `known` with facts from `documents` that are judged together. An object of which they have different ones
    is unknown. Raises `InputError`.
    """
    return Worlds(known, documents, kinds).common


def _both(some: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    """Return the parts of which only some objects are known, by either; None if there are none."""
    return (some or frozenset()) | (others or frozenset()) or None


def _opened(queues: Mapping[str, VolcanoQueue], known: Mapping[str, VolcanoQueue]) -> dict[str, VolcanoQueue]:
    """Return the Queues with a state each: in a file, that of the cluster's Queue, and Volcano opens a new Queue."""
    return {
        name: replace(queue, state=queue.state or (known[name].state if name in known else None) or OPEN)
        for name, queue in queues.items()
    }


def with_field_names(known: ClusterFacts, schemas: Sequence[Path] = ()) -> ClusterFacts:
    """Return `known` with the field names of all kinds: those of CRDs in `schemas`, else those `known`, else those of
    the known releases. Raises `InputError`.
    """
    return replace(known, field_names={**known_fields(), **(known.field_names or {}), **load_schemas(schemas)})


_OF_KUEUE = frozenset(projection.part for projection in KUEUE_PROJECTIONS)
# Objects that belong to a cluster rather than to its users: a folder may have some, and seldom has all.
_IN_PART = frozenset(
    {
        "kai_queues",
        "kai_topologies",
        "volcano_queues",
        "hyper_nodes",
        "training_runtimes",
        "cluster_training_runtimes",
        *_OF_KUEUE,
    }
)
# What limits gangs in a namespace: a folder often has it beside the workloads. Objects that get their names at creation
# are left out.
_LIMITS = frozenset(
    {"resource_quotas", "limit_ranges", "resource_claim_templates", "resource_claims", "device_classes"}
)
_OPTED_IN = frozenset({SHAPED_WORKLOADS, *(projection.part for projection in OF_OPTED_IN_KINDS)})
# These objects are only read here and never judged.
_NOT_JUDGED = frozenset({NAMESPACES.part, "training_runtimes", "cluster_training_runtimes", *_OF_KUEUE})
# Nor are these, and one that cannot be read is left out of the facts.
_SOFT = frozenset(
    {
        "elastic_quotas",
        "network_topologies",
        "topology_bindings",
        "priority_classes",
        "kai_shards",
        "resource_slices",
        *(projection.part for projection in GROWTH),
    }
)
_NODE = NODES.resource.api.kind
# What counts only with nodes, and what is whole where there are nodes.
_OF_NODES = frozenset({NODES.part, RESERVATIONS.part})
_WITH_NODES = _OF_NODES | {"resource_slices", "hyper_nodes"}
_OF_CLUSTER = _IN_PART | _LIMITS | _SOFT | _OF_NODES
# Parts of the facts that are also taken from the documents being judged.
_TOGETHER = _OF_CLUSTER | {
    NAMESPACES.part,
    "workloads",
    "pod_groups",
    "composite_pod_groups",
    "group_pods",
    "koordinator_pod_groups",
    "kai_pod_groups",
    "volcano_pod_groups",
    # The TrainJob of a JobSet, and the workload of a pod.
    *_OPTED_IN,
}


def _nameless(part: str, raw: Manifest) -> bool:
    """Return whether it is an object that gets its name at creation, as Jobs often do: no other object can name it
    before.
    """
    metadata = raw.get("metadata")
    return (part in _OPTED_IN or part in _LIMITS) and not (isinstance(metadata, dict) and metadata.get("name"))


def _start(known: ClusterFacts, part: str) -> Any:
    before = getattr(known, part)
    if part in _SETS:
        return set(before or ())
    fresh: dict[Any, Any] = _entries().get(part, dict)()
    fresh.update(before or {})
    return fresh


@cache
def _entries() -> dict[str, Callable[[], dict[Any, Any]]]:
    """Return the mapping type for the entries of each part."""
    return {projection.part: projection.entries for projection in (NODE_PODS, *_projections().values())}


def _objects(documents: Iterable[Document]) -> Iterator[_Object]:
    for document in documents:
        yield from _unpack(_Object(document, FieldPath(), document.manifest))


def _unpack(item: _Object) -> Iterator[_Object]:
    kind, items = item.manifest.get("kind"), item.manifest.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        # The list itself too: a typed list shows that its kind is known.
        yield item
        for index, inner in enumerate(items):
            if isinstance(inner, dict):
                # The items of a typed list may omit apiVersion and kind.
                own = {"apiVersion": item.manifest.get("apiVersion"), "kind": kind.removesuffix("List"), **inner}
                yield from _unpack(_Object(item.document, item.at / "items" / Item(index), own))
    else:
        yield item


# The parts that are sets. Neither is a projection of one kind: APIs come from CRDs, bound gangs from pods.
_SETS = frozenset({"apis", "bound_gangs"})


@cache
def _projections() -> dict[tuple[str, str], Projection]:
    """Return the projections by group and kind: those of admission itself, and those of each backend."""
    every = (
        RESERVATIONS,
        *EVERY_GENERAL,
        *(found for backend in installed_backends().values() for found in backend.projections),
    )
    return {(projection.resource.api.group, projection.resource.api.kind): projection for projection in every}


def _projection(group: str, kind: str, kinds: WorkloadKinds) -> Projection | None:
    return _projections().get((group, kind)) or kinds.projection(group, kind)


def _is_unread(group: str, version: str, kind: str, kinds: WorkloadKinds) -> bool:
    """Return whether a document has a version that its projection does not understand: it is not read, and may be what
    another object names.
    """
    projection = _projection(group, kind.removesuffix("List"), kinds)
    return projection is not None and bool(projection.versions) and version not in projection.versions


def _parts(group: str, kind: str, kinds: WorkloadKinds) -> Iterator[str]:
    """Yield the parts of the facts that documents of a kind belong to."""
    projection = _projection(group, kind, kinds)
    if projection is not None:
        yield projection.part
    if (group, kind) == ("", "Pod"):
        yield "bound_gangs"
        yield NODE_PODS.part
    elif (group, kind) == (served_kinds.GROUP, served_kinds.KIND):
        yield "apis"
    elif (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        yield "apis"
        yield "spec_fields"
        yield "field_names"


def _add(part: str, item: _Object, known: Any, kinds: WorkloadKinds, origins: _Origins | None = None) -> None:
    """Add what one object says to its part of the facts."""
    raw = item.manifest
    if part == "apis":
        discovered = kind_of(raw).kind == served_kinds.KIND
        known |= {found.api for found in served_kinds.kinds_of(raw)} if discovered else {api for api, _ in _served(raw)}
    elif part == "spec_fields":
        known.update((api, fields) for api, fields in _served(raw) if fields is not None)
    elif part == "field_names":
        known.update((api, KindFields(names, item.document.source)) for api, names in versions_of(raw))
    elif part == NODE_PODS.part:
        if (pod := read_node_pod(raw)) is not None:
            known[pod[0]] = pod[1]
    elif part == "bound_gangs":
        podgang = text(labels_of(raw).get(grove.LABEL_PODGANG))
        if podgang is not None and text(mapping(raw.get("spec")).get("nodeName")):
            known.add((key_of(raw)[0], podgang))
    else:
        group, version, kind = kind_of(raw)
        projection = _projection(group, kind, kinds)
        if projection is None or _is_unread(group, version, kind, kinds):
            return
        entry = _entry_of(item, projection)
        if entry is None:
            return
        known[entry.key] = entry.value
        if origins is not None and (group, kind) != POD:
            _note_origin(part, entry, projection, origins)


def _entry_of(item: _Object, projection: Projection) -> _Entry | None:
    """Return what one object says; None if no rule needs it. Raises `Malformed`, `InputError`."""
    read = projection.read(item.manifest)
    if read is None:
        return None
    # A cluster has no such Node: the API server refuses it.
    problem = projection.part == NODES.part and read[1].problem
    if problem and (unreadable := unreadable_field(item.manifest)) is not None:
        raise item.error(*unreadable)
    return _Entry(item, *read)


def _note_origin(part: str, entry: _Entry, projection: Projection, origins: _Origins) -> None:
    """Keep where an object stands. Raises `InputError` if it stands elsewhere with other contents: facts are those of
    one cluster.
    """
    subject, item = _subject_of(entry.item.manifest, projection), entry.item
    origin = _Origin(item.order, item.origin, kind_of(item.manifest).version, entry.value)
    before = origins.setdefault((part, *subject), origin)
    if before.version == origin.version and before.value != origin.value:
        first, second = sorted((before, origin), key=lambda one: one.order)
        why = f"{_called(subject)} differs from the one in {second.text}: keep the one that the cluster has"
        raise InputError(first.order[0], why, first.order[1], 1)


def _subject_of(raw: Manifest, projection: Projection) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object; the namespace is empty for one of a cluster."""
    namespaced = projection.resource.namespaced
    return projection.resource.api.kind, key_of(raw)[0] if namespaced else "", _name_of(raw)


def _name_of(raw: Manifest) -> str:
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _called(subject: tuple[str, str, str]) -> str:
    kind, namespace, name = subject
    return f"{kind} {shown(f'{namespace}/{name}' if namespace else name)}"


def _served(raw: Manifest) -> Iterator[tuple[Api, frozenset[str] | None]]:
    """Yield the kinds that a CustomResourceDefinition serves, with the fields of their spec, None if it lists none."""
    spec = mapping(raw.get("spec"))
    group = required(text(spec.get("group")), SPEC / "group")
    kind = required(text(mapping(spec.get("names")).get("kind")), SPEC / "names" / "kind")
    for version in sequence(spec.get("versions")):
        if mapping(version).get("served") is True:
            schema = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
            yield Api(group, text(version.get("name")) or "", kind), spec_fields(schema)
