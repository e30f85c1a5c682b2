"""The rules for an object that cannot be read, because fields of it have the wrong type. They are run in place of all
others.

Whoever reads an object stops at the first such field (`Malformed`); this walk names them all. It goes by the fields
that are read, with the type that each must have: a dict or a one-item list goes further down, a tuple is either.
What a backend reads of its scheduler's own objects it says itself (`Backend.shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.reading import Manifest
from webhook.validators.examples import pod_clique_set
from webhook.validators.registry import Example, Results, Subject, rule

WORDS = "a map of strings"
COUNTS = "a map of whole numbers"
_MAPS: dict[str, type] = {WORDS: str, COUNTS: int}
_CALLED: dict[type, str] = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}
_CONSTRAINT: dict[str, Any] = {
    "topologyName": str,
    "packDomain": str,
    "pack": {"required": str, "preferred": str},
}
_CONTAINER: dict[str, Any] = {"name": str, "resources": {"requests": {}, "limits": {}}}
_POD_SPEC: dict[str, Any] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "schedulerName": str,
    "priorityClassName": str,
    "resourceClaims": [{}],
}
METADATA: dict[str, Any] = {"name": str, "namespace": str, "labels": WORDS, "annotations": WORDS}
_PACK: dict[str, Any] = {"packConstraint": {"required": str, "preferred": str}}
_POD_CLIQUE_SET: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicas": int,
        "template": {
            "priorityClassName": str,
            "topologyConstraint": _CONSTRAINT,
            "resourceClaimTemplates": [{}],
            "resourceSharing": [{}],
            "cliques": [
                {
                    "name": str,
                    "labels": WORDS,
                    "annotations": WORDS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [{}],
                    "spec": {"replicas": int, "minAvailable": int, "podSpec": _POD_SPEC},
                }
            ],
            "podCliqueScalingGroups": [
                {
                    "name": str,
                    "annotations": WORDS,
                    "cliqueNames": [str],
                    "replicas": int,
                    "minAvailable": int,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [{}],
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
    ("", "Pod"): {"metadata": METADATA, "spec": _POD_SPEC},
}


class Unreadable(NamedTuple):
    """An object that could not be read: its group and kind, and what its kind is read as, where a backend says so."""

    kind: tuple[str, str]
    manifest: Manifest
    shape: Mapping[str, Any]


def _pod_group(labels: Any) -> Manifest:
    """One of Koordinator's."""
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
def shape(found: Unreadable, _: object) -> Results:
    """A field of the wrong type cannot be judged, and taken for absent it would pass in silence.

    Source: the CRDs of grove.io/v1alpha1 and scheduler.grove.io/v1alpha1; in a cluster the API server refuses such an
    object by its schema, but only after mutation, and nobody does for a file on the command line.
    """
    if found.kind in _SHAPES:
        yield from _every_wrong_field(found.manifest, _SHAPES[found.kind])


@rule(
    "rollcall/object-shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(_pod_group({"team": "a"})),
    fails=Example(_pod_group(["team-a"])),
)
def object_shape(found: Unreadable, _: object) -> Results:
    """A gang object of which a field has the wrong type cannot be judged, and taken for absent the field would pass in
    silence.

    Source: the CRDs of Koordinator, KAI and Volcano, and k8s.io/api scheduling; in a cluster the API server refuses
    such an object by its schema, and nobody does for a file on the command line.
    """
    if found.kind not in _SHAPES:
        yield from _every_wrong_field(found.manifest, {"metadata": METADATA, "spec": {}, **found.shape})


def _every_wrong_field(manifest: Manifest, expected: Any) -> Results:
    found = list(_walk(manifest, expected, ROOT))
    # Whoever could not read it met something that is not in the list; said less exactly, but said.
    yield from found or [_wrong(ROOT, manifest, "what the schema of its kind demands")]


def _walk(value: Any, expected: Any, path: FieldPath) -> Iterator[Finding]:
    # null is what YAML makes of a key without a value; the API server drops it.
    if value is None:
        return
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            yield _wrong(path, value, "an object")
            return
        for key, below in expected.items():
            if key in value:
                yield from _walk(value[key], below, path / key)
    elif isinstance(expected, list):
        if not isinstance(value, list):
            yield _wrong(path, value, "a list")
            return
        for index, item in enumerate(value):
            name = item.get("name") if isinstance(item, dict) else None
            yield from _walk(item, expected[0], path / Item(index, name if isinstance(name, str) else None))
    elif isinstance(expected, str):
        yield from _map(value, expected, path)
    elif not isinstance(value, expected) or isinstance(value, bool):
        types = expected if isinstance(expected, tuple) else (expected,)
        yield _wrong(path, value, " or ".join(_CALLED[one] for one in types))


def _map(value: Any, expected: str, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, expected)
        return
    of = _MAPS[expected]
    for key, one in value.items():
        if not isinstance(one, of) or (of is int and isinstance(one, bool)):
            yield _wrong(path / str(key), one, "a string; quote it" if of is str else _CALLED[of])


def _wrong(path: FieldPath, value: Any, wanted: str) -> Finding:
    return Finding(at=path, found=value, why="the value has the wrong type", remedy=f"write {wanted}")
