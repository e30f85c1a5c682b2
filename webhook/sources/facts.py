"""A cluster's facts from manifests: what `kubectl get KIND -A -o yaml` prints, or what was written by hand.

A part of the facts is known once a document of its kind was there, also a typed list without items
(`kind: ElasticQuotaList`, `items: []`); until then it is unknown. Kinds that no rule reads are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webhook.checking import kind_of
from webhook.errors import InputError
from webhook.model import grove
from webhook.model.facts import (
    NOTHING_KNOWN,
    Api,
    ClusterFacts,
    Namespace,
    PodGangFacts,
    PriorityClass,
    Quota,
    TopologyBinding,
    TopologyLayer,
)
from webhook.model.fields import METADATA, SPEC, FieldPath, Item
from webhook.model.podcliqueset import PodCliqueSet
from webhook.model.reading import Malformed, Manifest, integer, mapping, sequence, text
from webhook.model.record import record_of
from webhook.sources.manifests import Document, files_of, read_file
from webhook.validators.selection import SCHEDULER_LABEL

IS_PARENT_LABEL = "quota.scheduling.koordinator.sh/is-parent"


@dataclass(frozen=True, slots=True)
class _Object:
    """One object of a document, which may be a list of many."""

    document: Document
    at: FieldPath
    manifest: Manifest

    @property
    def name(self) -> str:
        return self.need(text(mapping(self.manifest.get("metadata")).get("name")), METADATA / "name")

    @property
    def namespace(self) -> str:
        return text(mapping(self.manifest.get("metadata")).get("namespace")) or "default"

    @property
    def labels(self) -> dict[str, Any]:
        return dict(mapping(mapping(self.manifest.get("metadata")).get("labels")))

    @property
    def spec(self) -> Any:
        return mapping(self.manifest.get("spec"))

    def need(self, value: str | None, path: FieldPath) -> str:
        if value is None:
            raise self.error(path, f"{path} is missing")
        return value

    def error(self, path: FieldPath, why: str) -> InputError:
        line, column = self.document.position(FieldPath((*self.at.parts, *path.parts)))
        return InputError(self.document.source, why, line, column)


def load_facts(paths: Sequence[Path]) -> ClusterFacts:
    """The facts in files and folders. Raises `InputError`."""
    return facts_from(document for path in files_of(paths) for document in read_file(path))


def facts_from(documents: Iterable[Document], known: ClusterFacts = NOTHING_KNOWN) -> ClusterFacts:
    """The facts in `documents`, added to those `known`. Raises `InputError` for one that cannot be understood."""
    found: dict[str, Any] = {}
    bound: set[tuple[str, str]] = set()
    gangs: dict[tuple[str, str], str] = {}
    for item in _objects(documents):
        group, _, kind = kind_of(item.manifest)
        is_list = kind.endswith("List")
        reader = _READERS.get((group, kind.removesuffix("List")))
        try:
            if reader is not None:
                part, read = reader
                known_part = found.setdefault(part, _start(known, part))
                if not is_list:
                    read(item, known_part)
            elif (group, kind) == ("", "Pod") and text(item.spec.get("nodeName")):
                bound.add((item.namespace, str(item.labels.get(grove.LABEL_PODGANG))))
            if (group, kind) == (grove.SCHEDULER_GROUP, "PodGang"):
                gangs[item.namespace, item.name] = str(item.labels.get(grove.LABEL_PART_OF, ""))
        except Malformed as error:
            raise item.error(FieldPath(), f"{kind}: {error}") from None
    if "pod_gangs" in found:
        found["pod_gangs"] |= {key: PodGangFacts(workload, key in bound) for key, workload in gangs.items()}
    if "apis" in found:
        found["apis"] = frozenset(found["apis"])
    return replace(known, **found)


def with_namespaces(known: ClusterFacts, documents: Iterable[Document]) -> ClusterFacts:
    """`known`, and the namespaces among `documents`, which are about other things too. Raises `InputError`."""
    found: dict[str, Namespace] = {}
    for item in _objects(documents):
        if kind_of(item.manifest)[::2] == ("", "Namespace"):
            try:
                _namespace(item, found)
            except Malformed as error:
                raise item.error(FieldPath(), f"Namespace: {error}") from None
    return replace(known, namespaces={**(known.namespaces or {}), **found}) if found else known


def _start(known: ClusterFacts, part: str) -> Any:
    before = getattr(known, part)
    return set(before or ()) if part == "apis" else dict(before or {})


def _objects(documents: Iterable[Document]) -> Iterator[_Object]:
    for document in documents:
        yield from _unpack(_Object(document, FieldPath(), document.manifest))


def _unpack(item: _Object) -> Iterator[_Object]:
    kind, items = item.manifest.get("kind"), item.manifest.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        # Itself too: a typed list says that its kind is known.
        yield item
        for index, inner in enumerate(items):
            if isinstance(inner, dict):
                # The items of a typed list need not repeat what they are.
                own = {"apiVersion": item.manifest.get("apiVersion"), "kind": kind.removesuffix("List"), **inner}
                yield from _unpack(_Object(item.document, item.at / "items" / Item(index), own))
    else:
        yield item


def _namespace(item: _Object, known: dict[str, Namespace]) -> None:
    known[item.name] = Namespace(item.labels)


def _pod_clique_set(item: _Object, known: dict[Any, Any]) -> None:
    workload = PodCliqueSet(item.manifest)
    known[workload.namespace, item.name] = record_of(workload, text(workload.labels.get(SCHEDULER_LABEL)))


def _pod_gang(item: _Object, known: dict[Any, Any]) -> None:
    """Filled in at the end, when it is known which pods are bound."""


def _elastic_quota(item: _Object, known: dict[str, Quota]) -> None:
    known[item.name] = Quota(is_parent=item.labels.get(IS_PARENT_LABEL) == "true")


def _topology_binding(item: _Object, known: dict[str, TopologyBinding]) -> None:
    keys = {}
    for index, level in enumerate(sequence(item.spec.get("levels"))):
        place = SPEC / "levels" / Item(index)
        domain = item.need(text(mapping(level).get("domain")), place / "domain")
        keys[domain] = item.need(text(mapping(level).get("key")), place / "key")
    known[item.name] = TopologyBinding(keys)


def _network_topology(item: _Object, known: dict[str, tuple[TopologyLayer, ...]]) -> None:
    layers = []
    for index, layer in enumerate(sequence(item.spec.get("networkTopologySpec"))):
        place = SPEC / "networkTopologySpec" / Item(index) / "topologyLayer"
        entry = mapping(layer)
        name = item.need(text(entry.get("topologyLayer")), place)
        keys = tuple(text(key) or "" for key in sequence(entry.get("labelKey")))
        layers.append(TopologyLayer(name, text(entry.get("parentTopologyLayer")), keys))
    known[item.name] = tuple(layers)


def _priority_class(item: _Object, known: dict[str, PriorityClass]) -> None:
    value = integer(item.manifest.get("value")) or 0
    known[item.name] = PriorityClass(value, is_default=item.manifest.get("globalDefault") is True)


def _custom_resource(item: _Object, known: set[Api]) -> None:
    group = item.need(text(item.spec.get("group")), SPEC / "group")
    kind = item.need(text(mapping(item.spec.get("names")).get("kind")), SPEC / "names" / "kind")
    for version in sequence(item.spec.get("versions")):
        if mapping(version).get("served") is True:
            known.add(Api(group, text(version.get("name")) or "", kind))


_READERS: dict[tuple[str, str], tuple[str, Callable[[_Object, Any], None]]] = {
    ("", "Namespace"): ("namespaces", _namespace),
    (grove.GROUP, "PodCliqueSet"): ("pod_clique_sets", _pod_clique_set),
    (grove.SCHEDULER_GROUP, "PodGang"): ("pod_gangs", _pod_gang),
    ("scheduling.sigs.k8s.io", "ElasticQuota"): ("elastic_quotas", _elastic_quota),
    (grove.GROUP, "ClusterTopologyBinding"): ("topology_bindings", _topology_binding),
    ("scheduling.koordinator.sh", "ClusterNetworkTopology"): ("network_topologies", _network_topology),
    ("scheduling.k8s.io", "PriorityClass"): ("priority_classes", _priority_class),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("apis", _custom_resource),
}
