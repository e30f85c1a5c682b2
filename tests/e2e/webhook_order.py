"""What is stored of the same workloads under different orders of webhooks, in a form that can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import path_of

# What workloads are made of, from the user's object down to the pods.
KINDS = (
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("ray.io/v1", "RayCluster"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("kueue.x-k8s.io/v1beta2", "Workload"),
    ("v1", "Pod"),
)
# Of the API server and of clocks, and hashes over what names UIDs or namespaces.
_LEFT_OUT = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "time",
        "controller-revision-hash",
        "ray.io/upgrade-strategy-recreate-hash",
    }
)
# Sets: who comes first adds first.
_SETS = frozenset({"schedulingGates", "ownerReferences", "finalizers"})
_RANDOM = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "TOKEN"),
    # Kueue hashes the UID of the owner into the name of its Workload.
    (re.compile(r"\b((?:job|jobset|trainjob|raycluster|leaderworkerset)-[a-z0-9-]+)-[0-9a-f]{5}\b"), r"\1-HASH"),
)
Stored = Mapping[str, Manifest]


def stored(plane: ControlPlane, namespace: str) -> dict[str, Manifest]:
    """Every object of a namespace by kind and name, without what differs from one creation to the next."""
    found: dict[str, Manifest] = {}
    for api_version, kind in KINDS:
        items = plane.items(path_of(api_version, kind, namespace))
        for raw in sorted(items, key=_order):
            said = _normal({"metadata": raw["metadata"], "spec": raw["spec"]}, namespace)
            place = f"{kind} {_name(raw, namespace)}"
            while place in found:
                place += "'"
            found[place] = said
    return found


def until_quiet(plane: ControlPlane, namespace: str) -> None:
    """Wait until nothing in a namespace is written for a second, which it is not while two writers disagree."""

    def quiet() -> bool:
        before = _versions(plane, namespace)
        # The API server ends it after a second; no event of another kind ends it earlier.
        params = {"watch": "true", "timeoutSeconds": "1", "fieldSelector": "metadata.name=nothing"}
        plane.http.get(path_of("v1", "ConfigMap", namespace), params=params).raise_for_status()
        after = _versions(plane, namespace)
        written = sorted(name for name in after if after[name] != before.get(name))
        assert not written, f"written within a second: {written}"
        return True

    eventually(quiet, f"nothing is written in {namespace}", timeout=60)


def _versions(plane: ControlPlane, namespace: str) -> dict[str, str]:
    return {
        f"{kind} {raw['metadata']['name']}": raw["metadata"]["resourceVersion"]
        for api_version, kind in KINDS
        for raw in plane.items(path_of(api_version, kind, namespace))
    }


def _order(raw: Manifest) -> tuple[str, str]:
    labels = raw["metadata"].get("labels", {})
    return raw["metadata"].get("generateName", ""), labels.get("batch.kubernetes.io/job-completion-index", "")


def _name(raw: Manifest, namespace: str) -> str:
    metadata = raw["metadata"]
    generated = metadata.get("generateName")
    return _text(f"{generated}*" if generated else metadata["name"], namespace)


def _normal(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return {
            _text(key, namespace): _sorted(_normal(one, namespace)) if key in _SETS else _normal(one, namespace)
            for key, one in value.items()
            if key not in _LEFT_OUT and not (key == "name" and "generateName" in value)
        }
    if isinstance(value, list):
        return [_normal(one, namespace) for one in value]
    return _text(value, namespace) if isinstance(value, str) else value


def _sorted(members: list[Any]) -> list[Any]:
    return sorted(members, key=json.dumps)


def _text(value: str, namespace: str) -> str:
    value = value.replace(namespace, "NAMESPACE")
    for pattern, instead in _RANDOM:
        value = pattern.sub(instead, value)
    return value


def gates_of(pod: Manifest) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def differences(one: Stored, other: Stored) -> list[str]:
    """The places where two outcomes differ, each with both values."""
    found = [f"{name}: only in the one" for name in sorted(one.keys() - other.keys())]
    found += [f"{name}: only in the other" for name in sorted(other.keys() - one.keys())]
    for name in sorted(one.keys() & other.keys()):
        first, second = (dict(_leaves(each[name])) for each in (one, other))
        found += [
            f"{name} {place}: {json.dumps(first.get(place))} and {json.dumps(second.get(place))}"
            for place in sorted(first.keys() | second.keys())
            if first.get(place) != second.get(place)
        ]
    return found


def _leaves(value: Any, place: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [leaf for key, one in value.items() for leaf in _leaves(one, f"{place}.{key}")]
    if isinstance(value, list) and value:
        return [leaf for index, one in enumerate(value) for leaf in _leaves(one, f"{place}[{index}]")]
    return [(place, value)]
