"""Kueue's queues, flavors, topologies and checks for the cluster tests, as administrators write them, and its Workloads
as a test reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import MERGE

API = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_ROOT = f"/apis/{API}"


def resource_flavor(name: str, *, labels: Mapping[str, str] | None = None, topology: str | None = None) -> Manifest:
    """A flavor of the nodes with these labels, or of all."""
    spec: Manifest = {}
    if labels:
        spec["nodeLabels"] = dict(labels)
    if topology is not None:
        spec["topologyName"] = topology
    return _object("ResourceFlavor", name, spec)


def topology(name: str, *levels: str) -> Manifest:
    """A topology of these node labels, the widest first."""
    return _object("Topology", name, {"levels": [{"nodeLabel": level} for level in levels]})


def cluster_queue(name: str, flavor: str, quota: Mapping[str, int | str], **spec: Any) -> Manifest:
    """A ClusterQueue for all namespaces with one flavor; other keywords are fields of its spec: `cohortName`,
    `stopPolicy`, `preemption`, `admissionChecksStrategy`.
    """
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": flavor, "resources": resources}]}
    return _object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})


def local_queue(name: str, namespace: str, queue: str, **spec: Any) -> Manifest:
    """A LocalQueue of a ClusterQueue; other keywords are fields of its spec."""
    return _object("LocalQueue", name, {"clusterQueue": queue, **spec}, namespace)


def admission_check(name: str, controller: str, **spec: Any) -> Manifest:
    """An AdmissionCheck; other keywords are fields of its spec."""
    return _object("AdmissionCheck", name, {"controllerName": controller, **spec})


def priority_class(name: str, value: int) -> Manifest:
    """A WorkloadPriorityClass."""
    return {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


@contextmanager
def queues(plane: ControlPlane, *objects: Manifest) -> Iterator[None]:
    """Have these objects stored. Those of the whole cluster are deleted at the end, the last first."""
    stored = []
    try:
        for one in objects:
            metadata = one["metadata"]
            answer = plane.http.post(path(one["kind"], namespace=metadata.get("namespace")), json=one)
            assert answer.is_success, answer.text
            stored.append(one)
        yield
    finally:
        for one in reversed(stored):
            if "namespace" not in one["metadata"]:
                plane.http.delete(path(one["kind"], one["metadata"]["name"]))


@contextmanager
def one_queue(
    plane: ControlPlane, namespace: str, quota: Mapping[str, int | str], *further: Manifest, **spec: Any
) -> Iterator[str]:
    """A LocalQueue `queue` with its own ClusterQueue and flavor, all of them active; the name that these two have.
    Keywords are fields of the ClusterQueue's spec.
    """
    objects = (
        *further,
        resource_flavor(namespace),
        cluster_queue(namespace, namespace, quota, **spec),
        local_queue("queue", namespace, namespace),
    )
    with queues(plane, *objects):
        if "stopPolicy" not in spec:
            until_condition(plane, "ClusterQueue", namespace, "Active")
        yield namespace


def path(kind: str, name: str = "", namespace: str | None = None) -> str:
    """Where the API has an object of Kueue's."""
    plural = {"Topology": "topologies"}.get(kind, f"{kind.lower()}{'es' if kind.endswith('s') else 's'}")
    place = "" if namespace is None else f"/namespaces/{namespace}"
    return f"{_ROOT}{place}/{plural}" + (f"/{name}" if name else "")


def change(plane: ControlPlane, kind: str, name: str, body: Manifest, namespace: str | None = None) -> None:
    """Merge a patch into an object of Kueue's."""
    plane.http.patch(path(kind, name, namespace), json=body, headers=MERGE).raise_for_status()


def hold(plane: ControlPlane, queue: str) -> None:
    """Have a ClusterQueue admit nothing more."""
    change(plane, "ClusterQueue", queue, {"spec": {"stopPolicy": "Hold"}})


def resume(plane: ControlPlane, queue: str) -> None:
    """Have it admit again."""
    change(plane, "ClusterQueue", queue, {"spec": {"stopPolicy": "None"}})


def workloads(plane: ControlPlane, namespace: str) -> list[Manifest]:
    """Kueue's Workloads of a namespace, by name."""
    found = plane.items(path("Workload", namespace=namespace))
    return sorted(found, key=lambda workload: str(workload["metadata"]["name"]))


def conditions(workload: Manifest) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition, by type."""
    told: Iterable[Manifest] = workload.get("status", {}).get("conditions", ())
    return {one["type"]: (one["status"], one["reason"]) for one in told}


def until_workloads(plane: ControlPlane, namespace: str, count: int, **expected: str) -> list[Manifest]:
    """The Workloads of a namespace once they are so many and each has these conditions: `Admitted="True"`."""

    def there() -> tuple[list[Manifest]] | None:
        found = workloads(plane, namespace)
        seen = {one["metadata"]["name"]: conditions(one) for one in found}
        assert len(found) == count, f"{len(found)} Workloads: {seen}"
        for told in seen.values():
            assert all(told.get(kind, ("False", ""))[0] == status for kind, status in expected.items()), str(seen)
        return (found,)

    wanted = ", ".join(f"{kind}={status}" for kind, status in expected.items())
    return eventually(there, f"{count} Workloads {wanted}")[0]


def until_condition(
    plane: ControlPlane, kind: str, name: str, condition: str, namespace: str | None = None, status: str = "True"
) -> Manifest:
    """An object of Kueue's once it has a condition."""

    def has_it() -> Manifest:
        answer = plane.http.get(path(kind, name, namespace))
        assert answer.status_code == httpx.codes.OK, answer.text
        found: Manifest = answer.json()
        told = conditions(found)
        assert told.get(condition, ("", ""))[0] == status, f"{kind} {name}: {told}"
        return found

    return eventually(has_it, f"{kind} {name} has {condition}={status}")


def _object(kind: str, name: str, spec: Manifest, namespace: str | None = None) -> Manifest:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
