"""Cut an object down to the fields that rules read, so that facts of a cluster can be written to files and shared.

The fields are a list of what is kept, never of what is removed: a field that a later release adds is not written. Of
annotations, whose values may be anything, only those of schedulers and workload controllers are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from webhook.model.reading import Manifest
from webhook.model.record import QUEUE_WORD

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
    """The fields of a pod that are kept, as paths below `spec` and, for labels and annotations, `metadata`."""
    marks = (f"{one}.{kind}" for one in metadata for kind in ("labels", "annotations"))
    return (*marks, *(f"{spec}.{field}" for field in POD_FIELDS))


def template_fields(*templates: str) -> tuple[str, ...]:
    """The fields of pod templates at these paths that are kept."""
    return tuple(field for one in templates for field in pod_fields(f"{one}.spec", f"{one}.metadata"))


def kept(manifest: Manifest, fields: tuple[str, ...]) -> Manifest:
    """The named fields of an object, and its name. A path goes through lists, and `*` stands for every entry; below its
    end everything is kept.
    """
    found = _picked(manifest, _tree((*_METADATA, *fields)))
    return found if isinstance(found, dict) else {}


@cache
def _tree(fields: tuple[str, ...]) -> _Tree:
    found: dict[str, Any] = {}
    for path in fields:
        below = found
        for name in path.split("."):
            below = below.setdefault(name, {})
    return found


def _picked(value: Any, tree: _Tree) -> Any:
    """The part of `value` that the tree names; None for a value that has no fields where the tree has some."""
    if not tree:
        return value
    if isinstance(value, list):
        return [_picked(item, tree.get("*", tree)) for item in value]
    if not isinstance(value, dict):
        return None
    found = {name: _picked(held, tree["*"]) for name, held in value.items()} if "*" in tree else {}
    for name, below in tree.items():
        if value.get(name) is not None:
            found[name] = _annotations(value[name]) if name == "annotations" else _picked(value[name], below)
    return found


def _annotations(written: Any) -> dict[str, Any]:
    entries: Iterable[tuple[Any, Any]] = written.items() if isinstance(written, dict) else ()
    return {key: value for key, value in entries if isinstance(key, str) and _is_read(key)}


def _is_read(annotation: str) -> bool:
    domain, slash, name = annotation.rpartition("/")
    if not slash:
        return annotation in _WITHOUT_DOMAIN
    return QUEUE_WORD in name or any(domain == one or domain.endswith(f".{one}") for one in _DOMAINS)
