"""Fields of the wrong type: the types of the fields that are read, and the rules for an object that cannot be read
because of one.

Reading an object stops at the first such field (`Malformed`); these rules run instead of all other rules and report
every one. They check only the fields that are read. A backend declares the fields of its scheduler's own objects
(`Backend.shapes`), and a WorkloadShape those of a declared kind.

In a description of types, a dict or a one-item list describes nested fields, a tuple lists permitted types, and any
other value is the required type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.reading import Manifest
from webhook.validators.examples import job_set, pod_clique_set, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.workloads.workload_shape import (
    Each,
    PartShape,
    PodCount,
    ShapeCondition,
    ShapePath,
    WorkloadShape,
)

WORDS = "a map of strings"
COUNTS = "a map of whole numbers"
_MAPS: dict[str, type] = {WORDS: str, COUNTS: int}
_CALLED: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
METADATA: dict[str, Any] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "labels": WORDS,
    "annotations": WORDS,
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str}],
}
_CONTAINER: dict[str, Any] = {
    "name": str,
    "env": [{"name": str}],
    "resources": {"requests": {}, "limits": {}},
    "ports": [{"containerPort": int, "hostPort": int, "protocol": str, "hostIP": str}],
}
_EXPRESSION: dict[str, Any] = {"key": str, "operator": str, "values": [str]}
_SELECTOR: dict[str, Any] = {"matchLabels": WORDS, "matchExpressions": [_EXPRESSION]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERM: dict[str, Any] = {"matchExpressions": [_EXPRESSION], "matchFields": [_EXPRESSION]}
_POD_TERM: dict[str, Any] = {
    "topologyKey": str,
    "labelSelector": _SELECTOR,
    "namespaces": [str],
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": [str],
    "mismatchLabelKeys": [str],
}
_SPREAD: dict[str, Any] = {
    "topologyKey": str,
    "maxSkew": int,
    "minDomains": int,
    "whenUnsatisfiable": str,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [str],
}
POD_SPEC: dict[str, Any] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "schedulerName": str,
    "priorityClassName": str,
    "runtimeClassName": str,
    "nodeName": str,
    "hostNetwork": bool,
    "resources": {"requests": {}, "limits": {}},
    "overhead": {},
    "resourceClaims": [{"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
    "nodeSelector": WORDS,
    "affinity": {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]}},
        "podAffinity": {_REQUIRED: [_POD_TERM]},
        "podAntiAffinity": {_REQUIRED: [_POD_TERM]},
    },
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
    "topologySpreadConstraints": [_SPREAD],
}


class Entries(NamedTuple):
    """In a shape: a list or an object whose entries have one type."""

    type: Any


class UnreadableObject(NamedTuple):
    """An object that could not be read: its group and kind, and the shape of its kind if a backend declares one, or a
    WorkloadShape does (`is_declared`).
    """

    kind: tuple[str, str]
    manifest: Manifest
    shape: Mapping[str, Any]
    is_declared: bool = False


def type_findings(manifest: Manifest, shape: Any) -> Iterator[Finding]:
    """Yields one finding for each field of the wrong type. If the faulty field is not in `shape`, there is one general
    finding.
    """
    findings = wrong_fields(manifest, shape)
    # Findings are yielded one by one, so that a caller with enough findings can stop.
    yield next(findings, None) or _wrong(ROOT, manifest, "what the schema of its kind demands")
    yield from findings


def wrong_fields(manifest: Manifest, shape: Any) -> Iterator[Finding]:
    return _walk(manifest, shape, ROOT)


def _walk(value: Any, expected: Any, path: FieldPath) -> Iterator[Finding]:
    # YAML reads a key without a value as null. The API server drops such a key.
    if value is None:
        return
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            yield _wrong(path, value, "an object")
            return
        for key, below in expected.items():
            if key in value:
                yield from _walk(value[key], below, path / key)
    elif isinstance(expected, Entries):
        yield from _entries(value, expected, path)
    elif isinstance(expected, list):
        yield from _list(value, expected[0], path)
    elif isinstance(expected, str):
        yield from _map(value, expected, path)
    else:
        types = expected if isinstance(expected, tuple) else (expected,)
        # In Python a bool is an int.
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in types):
            yield _wrong(path, value, " or ".join(_CALLED[kind] for kind in types))


def _list(value: Any, expected: Any, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, list):
        yield _wrong(path, value, "a list")
        return
    for index, item in enumerate(value):
        name = item.get("name") if isinstance(item, dict) else None
        place = path / Item(index, name if isinstance(name, str) else None)
        if item is None:
            # The API server does not drop null from a list.
            yield _wrong(place, item, "an object" if isinstance(expected, dict) else "a string")
        yield from _walk(item, expected, place)


def _entries(value: Any, expected: Entries, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield from _list(value, expected.type, path)
        return
    for key, entry in value.items():
        yield from _walk(entry, expected.type, path / str(key))


def _map(value: Any, expected: str, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, expected)
        return
    of = _MAPS[expected]
    for key, entry in value.items():
        if not isinstance(entry, of) or (of is int and isinstance(entry, bool)):
            yield _wrong(path / str(key), entry, "a string; quote it" if of is str else _CALLED[of])


def _wrong(path: FieldPath, value: Any, expected: str) -> Finding:
    return Finding(at=path, value=value, why="the value has the wrong type", remedy=f"write {expected}")


_TEMPLATE: dict[str, Any] = {"metadata": METADATA, "spec": POD_SPEC}
_FLAT: dict[str, Any] = {"labels": WORDS, "annotations": WORDS, "schedulerName": str, "priorityClassName": str}
_SCALAR = (str, int, bool)


class _Typed(NamedTuple):
    """A path, the entries that it may begin at, and the type of its value."""

    path: ShapePath
    entries: tuple[ShapePath, ...]
    type: Any


@lru_cache(maxsize=256)
def declared_types(shape: WorkloadShape) -> dict[str, Any]:
    """Returns the types of the fields that a shape reads, in the form of `wrong_types`. The result is shared."""
    root: dict[Any, Any] = {"metadata": dict(METADATA), "spec": {}}
    for path, entries, expected in _shape_types(shape):
        if path.of_entry:
            for each in entries:
                _put(root, (*each.steps, *path.steps), expected)
        else:
            _put(root, path.steps, expected)
    types: dict[str, Any] = _finished(root)
    return types


def _shape_types(shape: WorkloadShape) -> Iterator[_Typed]:
    for part in shape.parts:
        yield from _part_types(part)
    for carried in shape.carried:
        yield _Typed(carried.path, (), str)
        yield from _condition_types(carried.when, ())
    for mark in shape.marked:
        yield _Typed(mark, (), METADATA)
    yield from _condition_types((*shape.suspended, *shape.elsewhere), ())
    for statement in shape.statements:
        yield from _condition_types(statement.when, () if statement.each is None else (statement.each,))


def _part_types(part: PartShape) -> Iterator[_Typed]:
    entries = () if part.each is None else (part.each,)
    if part.name.path is not None:
        yield _Typed(part.name.path, entries, str)
    for path in part.templates:
        yield _Typed(path, entries, _FLAT if part.flat else _TEMPLATE)
    if part.spec is not None:
        yield _Typed(part.spec, entries, POD_SPEC)
    yield from _count_types(part.pods, entries)
    yield from _condition_types(part.when, entries)
    for minimum in (*part.minimums, *part.lowest):
        yield from _count_types(minimum.count, entries)
        yield from _condition_types(minimum.when, entries)


def _count_types(count: PodCount, entries: tuple[ShapePath, ...]) -> Iterator[_Typed]:
    if count.path is not None:
        yield _Typed(count.path, entries, int)
    yield from _condition_types(count.zero_if, entries)
    for inner in count:
        yield from _count_types(inner, entries)


def _condition_types(conditions: tuple[ShapeCondition, ...], entries: tuple[ShapePath, ...]) -> Iterator[_Typed]:
    for condition in conditions:
        if condition.exists is None:
            yield _Typed(condition.path, entries, _SCALAR)


def _put(root: dict[Any, Any], steps: tuple[str | Each, ...], expected: Any) -> None:
    """Puts a type at its place. A number is more exact than the scalar of a condition."""
    if not steps:
        return
    below = root
    for step in steps[:-1]:
        inner = below.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        below = inner
    present = below.get(steps[-1])
    if isinstance(present, dict) and isinstance(expected, dict):
        below[steps[-1]] = {**present, **expected}
    elif present is None or present == _SCALAR:
        # Other fields of the same object may be added to it.
        below[steps[-1]] = deepcopy(expected)


def _finished(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if Each.EACH in tree:
        return Entries(_finished(tree[Each.EACH]))
    return {key: _finished(below) for key, below in tree.items()}


_CONSTRAINT: dict[str, Any] = {"topologyName": str, "packDomain": str, "pack": {"required": str, "preferred": str}}
_SHARING: dict[str, Any] = {
    "name": str,
    "namespace": str,
    "scope": str,
    "filter": {"childCliqueNames": [str], "childScalingGroupNames": [str]},
}
_LIMITS: dict[str, Any] = {"minReplicas": int, "maxReplicas": int}
_PACK: dict[str, Any] = {"packConstraint": {"required": str, "preferred": str}}
_POD_CLIQUE_SET: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicas": int,
        "template": {
            "priorityClassName": str,
            "cliqueStartupType": str,
            "topologyConstraint": _CONSTRAINT,
            "terminationDelay": str,
            "resourceClaimTemplates": [{"name": str, "templateSpec": {"spec": {"devices": {"requests": [{}]}}}}],
            "resourceSharing": [_SHARING],
            "cliques": [
                {
                    "name": str,
                    "labels": WORDS,
                    "annotations": WORDS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [_SHARING],
                    "spec": {
                        "roleName": str,
                        "replicas": int,
                        "minAvailable": int,
                        "startsAfter": [str],
                        "autoScalingConfig": _LIMITS,
                        "podSpec": POD_SPEC,
                    },
                }
            ],
            "podCliqueScalingGroups": [
                {
                    "name": str,
                    "annotations": WORDS,
                    "cliqueNames": [str],
                    "replicas": int,
                    "minAvailable": int,
                    "scaleConfig": _LIMITS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [_SHARING],
                }
            ],
        },
    },
}
_POD_GANG: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "topologyConstraint": _PACK,
        "topologyConstraintGroupConfigs": [{"name": str, "topologyConstraint": _PACK}],
        "podgroups": [{"name": str, "minReplicas": int, "podReferences": [{}], "topologyConstraint": _PACK}],
    },
}
_SHAPES: dict[tuple[str, str], Any] = {
    (grove.GROUP, "PodCliqueSet"): _POD_CLIQUE_SET,
    (grove.SCHEDULER_GROUP, "PodGang"): _POD_GANG,
    ("", "Pod"): {"metadata": METADATA, "spec": POD_SPEC},
}


def _pod_group(labels: Any) -> Manifest:
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    metadata = {"name": "demo", "namespace": "default", "labels": labels}
    return {**head, "metadata": metadata, "spec": {"minMember": 2}}


@rule(
    "grove/shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example({**pod_clique_set(), "spec": {"replicas": "one", "template": {"cliques": [{"name": "worker"}]}}}),
)
def shape(unreadable: UnreadableObject, _: object) -> Results:
    """A field of the wrong type cannot be judged. If it counted as missing, the object would pass without a message.

    Source: the CRDs of grove.io/v1alpha1 and scheduler.grove.io/v1alpha1; in a cluster the API server refuses such an
    object by its schema, but only after mutation. A file on the command line has no such check.
    """
    if unreadable.kind in _SHAPES:
        yield from type_findings(unreadable.manifest, _SHAPES[unreadable.kind])


@rule(
    "rollcall/object-shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(_pod_group({"team": "a"})),
    fails=Example(_pod_group(["team-a"])),
)
def object_shape(unreadable: UnreadableObject, _: object) -> Results:
    """A field of the wrong type in a gang object cannot be judged. If it counted as missing, the object would pass
    without a message.

    Source: the CRDs of Koordinator, KAI and Volcano, and k8s.io/api scheduling; in a cluster the API server refuses
    such an object by its schema. A file on the command line has no such check.
    """
    if unreadable.kind not in _SHAPES and unreadable.kind not in OPTED_IN_TYPES and not unreadable.is_declared:
        yield from type_findings(unreadable.manifest, {"metadata": METADATA, "spec": {}, **unreadable.shape})


_JOB: dict[str, Any] = {"parallelism": int, "completions": int, "template": _TEMPLATE}
_JOB_SET: dict[str, Any] = {
    "managedBy": str,
    "suspend": bool,
    "startupPolicy": {"startupPolicyOrder": str},
    "replicatedJobs": [
        {
            "name": str,
            "replicas": int,
            "dependsOn": [{"name": str, "status": str}],
            "template": {"metadata": METADATA, "spec": _JOB},
        }
    ],
}
# The fields of its runtime that a TrainJob may patch and that affect gangs.
_PATCH: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicatedJobs": [
            {"name": str, "template": {"metadata": METADATA, "spec": {"template": {"metadata": METADATA}}}}
        ]
    },
}
OPTED_IN_TYPES: dict[tuple[str, str], Any] = {
    ("batch", "Job"): {"metadata": METADATA, "spec": {**_JOB, "managedBy": str, "suspend": bool}},
    ("jobset.x-k8s.io", "JobSet"): {"metadata": METADATA, "spec": _JOB_SET},
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): {
        "metadata": METADATA,
        "spec": {
            "replicas": int,
            "startupPolicy": str,
            "leaderWorkerTemplate": {"size": int, "leaderTemplate": _TEMPLATE, "workerTemplate": _TEMPLATE},
        },
    },
    ("trainer.kubeflow.org", "TrainJob"): {
        "metadata": METADATA,
        "spec": {
            "managedBy": str,
            "suspend": bool,
            "runtimeRef": {"name": str, "kind": str, "apiGroup": str},
            "trainer": {"numNodes": int},
            "runtimePatches": [{"trainingRuntimeSpec": {"template": _PATCH}}],
        },
    },
}


@rule(
    "owner/shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(job_set()),
    fails=Example(job_set(replicated("node", job={"parallelism": "4"}))),
)
def opted_in_shape(unreadable: UnreadableObject, _: object) -> Results:
    """A field of the wrong type cannot be judged. If it counted as missing, the object would pass without a message.

    Source: the CRDs of kubeflow/trainer, jobset and lws, k8s.io/api batch/v1; in a cluster the API server refuses such
    an object by its schema, but only after mutation. A file on the command line has no such check.
    """
    if unreadable.kind in OPTED_IN_TYPES:
        yield from type_findings(unreadable.manifest, OPTED_IN_TYPES[unreadable.kind])
    elif unreadable.is_declared:
        yield from type_findings(unreadable.manifest, unreadable.shape)
