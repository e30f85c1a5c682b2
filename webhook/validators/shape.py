"""The rule for an object that cannot be read, because fields of it have the wrong type. It is run in place of all
others.

Whoever reads an object stops at the first such field (`Malformed`); this walk names them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.reading import Manifest
from webhook.validators.examples import pod_clique_set
from webhook.validators.registry import Example, Results, Subject, rule

# The fields that are read, by the type they must have; a dict or a one-item list goes further down.
_WORDS = "a map of strings"
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
_METADATA: dict[str, Any] = {"name": str, "namespace": str, "labels": _WORDS, "annotations": _WORDS}
_PACK: dict[str, Any] = {"packConstraint": {"required": str, "preferred": str}}
_POD_CLIQUE_SET: dict[str, Any] = {
    "metadata": _METADATA,
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
                    "labels": _WORDS,
                    "annotations": _WORDS,
                    "topologyConstraint": _CONSTRAINT,
                    "resourceSharing": [{}],
                    "spec": {"replicas": int, "minAvailable": int, "podSpec": _POD_SPEC},
                }
            ],
            "podCliqueScalingGroups": [
                {
                    "name": str,
                    "annotations": _WORDS,
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
    "metadata": _METADATA,
    "spec": {
        "topologyConstraint": _PACK,
        "topologyConstraintGroupConfigs": [{"name": str, "topologyConstraint": _PACK}],
        "podgroups": [{"name": str, "minReplicas": int, "podReferences": [{}], "topologyConstraint": _PACK}],
    },
}
_POD_TEMPLATE: dict[str, Any] = {"metadata": _METADATA, "spec": _POD_SPEC}
_JOB_SPEC: dict[str, Any] = {"parallelism": int, "completions": int, "template": _POD_TEMPLATE}
_JOB_TEMPLATE: dict[str, Any] = {"metadata": _METADATA, "spec": _JOB_SPEC}
_JOB_SET_SPEC: dict[str, Any] = {
    "startupPolicy": {"startupPolicyOrder": str},
    "replicatedJobs": [{"name": str, "replicas": int, "dependsOn": [{"name": str}], "template": _JOB_TEMPLATE}],
}
_PATCHED: dict[str, Any] = {"metadata": _METADATA, "spec": _JOB_SET_SPEC}
_TRAIN_JOB_SPEC: dict[str, Any] = {
    "runtimeRef": {"name": str, "kind": str},
    "trainer": {"numNodes": int},
    "runtimePatches": [{"trainingRuntimeSpec": {"template": _PATCHED}}],
}
_LEADER_WORKER_SET_SPEC: dict[str, Any] = {
    "replicas": int,
    "startupPolicy": str,
    "leaderWorkerTemplate": {"size": int, "leaderTemplate": _POD_TEMPLATE, "workerTemplate": _POD_TEMPLATE},
}
_SHAPES: dict[str, Any] = {
    "Job": {"metadata": _METADATA, "spec": _JOB_SPEC},
    "JobSet": {"metadata": _METADATA, "spec": _JOB_SET_SPEC},
    "TrainJob": {"metadata": _METADATA, "spec": _TRAIN_JOB_SPEC},
    "LeaderWorkerSet": {"metadata": _METADATA, "spec": _LEADER_WORKER_SET_SPEC},
    "PodCliqueSet": _POD_CLIQUE_SET,
    "PodGang": _POD_GANG,
    "Pod": {"metadata": _METADATA, "spec": _POD_SPEC},
}


@rule(
    "grove/shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example({**pod_clique_set(), "spec": {"replicas": "one", "template": {"cliques": [{"name": "worker"}]}}}),
)
def shape(manifest: Manifest, _: object) -> Results:
    """A field of the wrong type cannot be judged, and taken for absent it would pass in silence.

    Source: the CRDs of grove.io/v1alpha1 and scheduler.grove.io/v1alpha1, of TrainJob, JobSet and LeaderWorkerSet; in a
    cluster the API server refuses such an object by its schema, but only after mutation, and nobody does for a file on
    the command line.
    """
    found = list(_walk(manifest, _SHAPES.get(str(manifest.get("kind")), {}), ROOT))
    # Whoever could not read it met something that is not in the list above; said less exactly, but said.
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
    elif expected is _WORDS:
        yield from _words(value, path)
    elif not isinstance(value, expected) or isinstance(value, bool):
        yield _wrong(path, value, "a string" if expected is str else "a whole number")


def _words(value: Any, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, _WORDS)
        return
    for key, word in value.items():
        if not isinstance(word, str):
            yield _wrong(path / str(key), word, "a string; quote it")


def _wrong(path: FieldPath, value: Any, wanted: str) -> Finding:
    return Finding(at=path, found=value, why="the value has the wrong type", remedy=f"write {wanted}")
