"""Pods of a kind that no shape declares, on a real API server: the reconciler counts those that should be in a gang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.declared_workloads import training
from tests.e2e.fixture_types import Reconcilers
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.network import Network
from tests.e2e.opted_in_cluster import KOORDINATOR, opted_in
from tests.e2e.opted_in_workloads import pod_template
from tests.e2e.pod_life import let_succeed
from tests.e2e.programs import eventually
from tests.e2e.test_declared_gangs import serve
from tests.e2e.workload_objects import controller_reference, created, until_pods
from webhook.reconciler import unknown_kinds

METRIC = "rollcall_escaped_pods"
UNKNOWN = {"scheduler": "koord-scheduler", "escape": "unknownKind"}


@pytest.fixture
def elsewhere(plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A second namespace."""
    name = f"{namespace}-elsewhere"
    plane.http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield name
    plane.http.delete(f"/api/v1/namespaces/{name}").raise_for_status()
    plane.http.delete(f"/api/v1/namespaces/{name}/pods", params={"gracePeriodSeconds": "0"})


@pytest.fixture
def counting(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostedReconciler]:
    """A reconciler that counts once a second."""
    monkeypatch.setattr(unknown_kinds, "PERIOD_SECONDS", 0.5)
    found = HostedReconciler(Network(plane), KOORDINATOR.config)
    yield found
    found.stop()


def unknown(plane: ControlPlane, namespace: str, **spec: Any) -> list[Manifest]:
    """A Training with two pods."""
    owner = created(plane, training().workload(namespace))
    metadata: Manifest = {"namespace": namespace, "ownerReferences": [controller_reference(owner)]}
    body = {"apiVersion": "v1", "kind": "Pod", "spec": pod_template(**spec)["spec"]}
    return [created(plane, {**body, "metadata": {**metadata, "name": f"run-{index}"}}) for index in range(2)]


def delete(plane: ControlPlane, pod: Manifest) -> None:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    plane.http.delete(path, params={"gracePeriodSeconds": "0"}).raise_for_status()


def test_pods_of_an_unknown_kind_are_counted_until_they_end(
    plane: ControlPlane, namespace: str, elsewhere: str, reconciler: Reconcilers, counting: HostedReconciler
) -> None:
    """In an opted-in namespace, and elsewhere if they name a gang scheduler. Pods of a Deployment are not."""
    serve(plane, training())
    opted_in(plane, namespace, "koord-scheduler", asks=False)
    labels = {"app": "serve"}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod_template(labels=labels)}
    metadata = {"name": "serve", "namespace": namespace}
    created(plane, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    until_pods(plane, namespace, "app=serve", 1)
    within = unknown(plane, namespace)
    named = unknown(plane, elsewhere, schedulerName="koord-scheduler")

    def counts(expected: int) -> None:
        eventually(lambda: counting.metric(METRIC, **UNKNOWN) == expected, f"{expected} pods are counted", timeout=60)

    counts(4)
    # A process with the rights of an installation.
    installed = reconciler(KOORDINATOR.config)
    installed.until_leading()
    eventually(lambda: installed.metric(METRIC, **UNKNOWN) == 4, "it counts the same", timeout=30)
    assert installed.metric("rollcall_unknown_kinds_failing") == 0
    delete(plane, within[0])
    counts(3)
    let_succeed(plane, [named[0]])
    counts(2)
    for pod in (within[1], named[1]):
        delete(plane, pod)
    counts(0)
    counting.check()
