"""Projections: the kinds that are read, the few values that rules need of each object, and the fields that `rollcall
facts` keeps.

Files and clusters are read through the same projections, so a command with `--facts` and a server with caches know the
same things. A backend adds its own (`Backend.projections`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.bounds import KEPT_BYTES, labels_kept, name_text, names_kept, shared, weight
from webhook.model.fields import METADATA, FieldPath
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_objects import Namespace, PodGangFacts, PodGangs, PriorityClass, TopologyBinding
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.workload_record import QUEUE_WORD, ROLLCALL_LABELS, SCHEDULER_LABEL, record_of, scalable_in
from webhook.workloads.pod_clique_set import PodCliqueSet


class Missing(Malformed):
    """Raised when a field that every stored object has is missing."""

    def __init__(self, path: FieldPath) -> None:
        TypeError.__init__(self, f"{path} is missing")
        self.path = path


class Resource(NamedTuple):
    """A kind as the Kubernetes API serves it: `plural` is its name in paths."""

    api: Api
    plural: str
    namespaced: bool = True

    @property
    def qualified(self) -> str:
        """Its plural and group, as kubectl, roles and CustomResourceDefinitions write them."""
        return f"{self.plural}.{self.api.group}" if self.api.group else self.plural


class Projection(NamedTuple):
    """How the objects of one kind become a part of `ClusterFacts`.

    `read` returns the key (a name, or namespace and name) and the value for it; None for an object that no rule needs.
    It raises `Malformed`.
    """

    part: str
    resource: Resource
    read: Callable[[Manifest], tuple[Any, Any] | None]
    # The type of the mapping that holds the entries.
    entries: Callable[[], dict[Any, Any]] = dict
    # Whether only rules about objects of other authors need it. A reconciler judges no such objects.
    for_objects: bool = False
    # A labelSelector that limits the objects read from a cluster. Files may have other objects as well.
    label_selector: str = ""
    # A fieldSelector that limits the objects read from a cluster. For other objects, which files may have, `read`
    # returns None.
    field_selector: str = ""
    # Whether a server is ready only after these are read. Without them, rules that need them are not judged.
    awaited: bool = True
    # The largest size in bytes of one kept object. A larger object is not kept.
    most: int = KEPT_BYTES
    # Whether other projections fill the same part, each with other objects.
    shared: bool = False
    # Whether `read` returns the namespace and name of the object itself as the key, for every object.
    keyed_by_object: bool = False
    # The fields that `read` needs, besides the name, as paths: `rollcall facts` writes these and no others. Objects of
    # a kind without them are not written.
    fields: tuple[str, ...] = ()
    # The versions that `read` understands in files; empty for all.
    versions: frozenset[str] = frozenset()

    @property
    def only_name(self) -> str | None:
        """The only name of the objects that are read, by the field selector; None if it names none."""
        conditions = (term.partition("=") for term in self.field_selector.split(","))
        return next((name for field, _, name in conditions if field == "metadata.name"), None)

    @property
    def selector(self) -> Mapping[str, str]:
        """The query parameters that narrow the lists and watches of a cluster."""
        both = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {kind: selector for kind, selector in both.items() if selector}


def spec_fields(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Returns the fields of `spec` in an OpenAPI schema; None if it does not list them, or not all."""
    spec = mapping(mapping(schema.get("properties")).get("spec"))
    fields = mapping(spec.get("properties"))
    return frozenset(fields) if fields and not spec.get("x-kubernetes-preserve-unknown-fields") else None


def required(value: str | None, path: FieldPath) -> str:
    """Returns `value`. Raises `Missing` if it is None."""
    if value is None:
        raise Missing(path)
    return value


def name_of(raw: Manifest) -> str:
    """Returns metadata.name. Raises `Missing`."""
    return required(text(mapping(raw.get("metadata")).get("name")), METADATA / "name")


def key_of(raw: Manifest) -> ObjectKey:
    """Returns namespace and name. Raises `Missing`."""
    return shared(text(mapping(raw.get("metadata")).get("namespace")) or "default"), name_of(raw)


def labels_of(raw: Manifest) -> dict[str, Any]:
    """Returns metadata.labels."""
    return dict(mapping(mapping(raw.get("metadata")).get("labels")))


def _namespace(raw: Manifest) -> tuple[str, Namespace]:
    labels, _ = labels_kept(labels_of(raw), first=ROLLCALL_LABELS)
    return name_of(raw), Namespace(labels)


def _pod_clique_set(raw: Manifest) -> tuple[ObjectKey, Any]:
    workload = PodCliqueSet(raw)
    record = record_of(workload, text(workload.labels.get(SCHEDULER_LABEL)))
    whole = key_of(raw), replace(record, scalable=scalable_in(workload))
    # Pods are prepared from the rest, so that is kept if both are too large.
    return whole if weight(whole) <= KEPT_BYTES else (whole[0], record)


def _pod_gang(raw: Manifest) -> tuple[ObjectKey, PodGangFacts]:
    podgang = PodGang(raw)
    cliques = names_kept(frozenset(member.name for member in podgang.members))
    return key_of(raw), PodGangFacts(shared(text(podgang.labels.get(grove.LABEL_PART_OF)) or ""), cliques)


def _topology_binding(raw: Manifest) -> tuple[str, TopologyBinding]:
    binding = ClusterTopologyBinding(raw)
    keys = {
        required(level.domain, level.path / "domain"): required(level.key, level.path / "key")
        for level in binding.levels
    }
    return name_of(raw), TopologyBinding(keys, binding.references)


def _priority_class(raw: Manifest) -> tuple[str, PriorityClass]:
    policy = name_text(raw.get("preemptionPolicy")) or "PreemptLowerPriority"
    return name_of(raw), PriorityClass(integer(raw.get("value")) or 0, raw.get("globalDefault") is True, policy)


_OF_SETS = (
    "metadata.labels",
    "metadata.annotations",
    "spec.replicas",
    "spec.template.priorityClassName",
    *(
        f"spec.template.{path}"
        for path in (
            "cliques.name",
            "cliques.labels",
            "cliques.annotations",
            "cliques.spec.replicas",
            "cliques.spec.minAvailable",
            "cliques.spec.autoScalingConfig",
            "cliques.spec.podSpec.resourceClaims",
            "podCliqueScalingGroups.name",
            "podCliqueScalingGroups.cliqueNames",
            "podCliqueScalingGroups.annotations",
            "podCliqueScalingGroups.replicas",
            "podCliqueScalingGroups.minAvailable",
        )
    ),
)
NAMESPACES = Projection(
    "namespaces",
    Resource(Api("", "v1", "Namespace"), "namespaces", namespaced=False),
    _namespace,
    fields=("metadata.labels",),
)
POD_CLIQUE_SETS = Projection(
    "pod_clique_sets",
    Resource(Api(grove.GROUP, "v1alpha1", "PodCliqueSet"), "podcliquesets"),
    _pod_clique_set,
    fields=_OF_SETS,
)
POD_GANGS = Projection(
    "pod_gangs",
    Resource(Api(grove.SCHEDULER_GROUP, "v1alpha1", "PodGang"), "podgangs"),
    _pod_gang,
    PodGangs,
    fields=("metadata.labels", "metadata.annotations", "spec.podgroups.name"),
)
TOPOLOGY_BINDINGS = Projection(
    "topology_bindings",
    Resource(Api(grove.GROUP, "v1alpha1", "ClusterTopologyBinding"), "clustertopologybindings", namespaced=False),
    _topology_binding,
    fields=("spec.levels", "spec.schedulerTopologyBindings"),
)
PRIORITY_CLASSES = Projection(
    "priority_classes",
    Resource(Api("scheduling.k8s.io", "v1", "PriorityClass"), "priorityclasses", namespaced=False),
    _priority_class,
    fields=("value", "globalDefault", "preemptionPolicy"),
)


# The domains of the annotations that rules read, of Rollcall, Grove, the schedulers and the workload controllers.
_DOMAINS = (
    "rollcall.dev",
    "grove.io",
    "k8s.io",
    "x-k8s.io",
    "koordinator.sh",
    "volcano.sh",
    "kai.scheduler",
    "run.ai",
    "kubeflow.org",
)
# Annotations without a domain that KAI's podgrouper and binder read.
_WITHOUT_DOMAIN = frozenset({"pod-group-name", "gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"})
_METADATA = ("metadata.name", "metadata.namespace")
# What decides where a pod can be, besides its containers.
PLACEMENT_FIELDS = (
    "activeDeadlineSeconds",
    "affinity",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
# What rules read of a pod. No image, no command, no environment and no volume.
POD_FIELDS = tuple(
    sorted(
        (
            *PLACEMENT_FIELDS,
            "containers.name",
            "containers.resources",
            "initContainers.name",
            "initContainers.resources",
            "initContainers.restartPolicy",
            "nodeName",
            "restartPolicy",
            "schedulingGates",
            "schedulingGroup",
            "workloadRef",
        )
    )
)

_Tree = Mapping[str, Any]


def pod_fields(spec: str, *metadata: str) -> tuple[str, ...]:
    """Returns the fields of a pod that are kept, as paths below `spec` and, for labels and annotations, `metadata`."""
    marks = (f"{path}.{kind}" for path in metadata for kind in ("labels", "annotations"))
    return (*marks, *(f"{spec}.{field}" for field in POD_FIELDS))


def template_fields(*templates: str) -> tuple[str, ...]:
    """Returns the fields of pod templates at these paths that are kept."""
    return tuple(field for template in templates for field in pod_fields(f"{template}.spec", f"{template}.metadata"))


def kept(manifest: Manifest, fields: tuple[str, ...]) -> Manifest:
    """Returns the named fields of an object, and its name. Paths go through lists; `*` stands for every entry."""
    picked = _picked(manifest, _tree((*_METADATA, *fields)))
    return picked if isinstance(picked, dict) else {}


@cache
def _tree(fields: tuple[str, ...]) -> _Tree:
    tree: dict[str, Any] = {}
    for path in fields:
        below = tree
        for name in path.split("."):
            below = below.setdefault(name, {})
    return tree


def _picked(value: Any, tree: _Tree) -> Any:
    """Returns the part of `value` that the tree names; None for a value that has no fields where the tree has some."""
    if not tree:
        return value
    if isinstance(value, list):
        return [_picked(item, tree.get("*", tree)) for item in value]
    if not isinstance(value, dict):
        return None
    picked = {name: _picked(held, tree["*"]) for name, held in value.items()} if "*" in tree else {}
    for name, below in tree.items():
        if value.get(name) is not None:
            picked[name] = _annotations(value[name]) if name == "annotations" else _picked(value[name], below)
    return picked


def _annotations(written: Any) -> dict[str, Any]:
    entries: Iterable[tuple[Any, Any]] = written.items() if isinstance(written, dict) else ()
    return {key: value for key, value in entries if isinstance(key, str) and _is_read(key)}


def _is_read(annotation: str) -> bool:
    domain, slash, name = annotation.rpartition("/")
    if not slash:
        return annotation in _WITHOUT_DOMAIN
    return QUEUE_WORD in name or any(domain == base or domain.endswith(f".{base}") for base in _DOMAINS)
