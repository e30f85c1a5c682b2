"""`rollcall reconcile` and KAI's Topologies on a real API server, with Grove's and KAI's CRDs and the printed rights.

Neither Grove's operator nor KAI runs: what either would make of a binding is played with kubectl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess

KAI: Manifest = {
    "apiVersion": "rollcall.dev/v1alpha1",
    "kind": "RollcallConfiguration",
    "scheduler": {"profiles": [{"name": "kai-scheduler"}]},
}
BINDINGS, TOPOLOGIES = "clustertopologybindings.grove.io", "topologies.kai.scheduler"
ZONE, RACK, ROW = "example.com/zone", "example.com/rack", "example.com/row"

pytestmark = pytest.mark.beside


@pytest.fixture
def leader(plane: ControlPlane, reconcilers: dict[str, ReconcilerProcess]) -> ReconcilerProcess:
    """The one that writes."""
    if plane.version not in reconcilers:
        reconcilers[plane.version] = ReconcilerProcess(plane, KAI)
    reconcilers[plane.version].until_leading()
    return reconcilers[plane.version]


@pytest.fixture
def bound(plane: ControlPlane) -> Iterator[Callable[..., None]]:
    """Apply a binding: `bound(name, *keys, reference=...)`. What was applied goes with the test."""
    applied: set[str] = set()

    def bind(name: str, *keys: str, reference: str | None = None) -> None:
        levels = [{"domain": f"d{index}", "key": key} for index, key in enumerate(keys)]
        spec: Manifest = {"levels": levels}
        if reference is not None:
            spec["schedulerTopologyBindings"] = [{"schedulerName": "kai-scheduler", "topologyReference": reference}]
        head = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": name}}
        plane.apply({**head, "spec": spec}, check=True)
        applied.add(name)

    yield bind
    for name in applied:
        plane.http.delete(f"/apis/grove.io/v1alpha1/clustertopologybindings/{name}")


def topology(name: str, *keys: str, **metadata: object) -> Manifest:
    levels = [{"nodeLabel": key} for key in keys]
    head = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name, **metadata}}
    return {**head, "spec": {"levels": levels}}


def found(plane: ControlPlane, name: str) -> Manifest | None:
    answer = plane.http.get(f"/apis/kai.scheduler/v1alpha1/topologies/{name}")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    shown: Manifest = answer.raise_for_status().json()
    return shown


def levels(plane: ControlPlane, name: str) -> list[str] | None:
    shown = found(plane, name)
    return None if shown is None else [level["nodeLabel"] for level in shown["spec"]["levels"]]


def until_levels(plane: ControlPlane, name: str, *keys: str) -> Manifest:
    """Wait until the Topology has these, and return it."""

    def has_them() -> Manifest:
        assert levels(plane, name) == list(keys)
        shown = found(plane, name)
        assert shown is not None
        return shown

    return eventually(has_them, f"Topology {name} has the levels {', '.join(keys)}")


def binding_events(plane: ControlPlane, name: str) -> list[tuple[str, str]]:
    """Reason and note of the events on a binding."""
    events = plane.items("/apis/events.k8s.io/v1/namespaces/default/events")
    of_it = [event for event in events if event["regarding"].get("kind") == "ClusterTopologyBinding"]
    return [(event["reason"], event["note"]) for event in of_it if event["regarding"]["name"] == name]


def until_counted(leader: ReconcilerProcess, reason: str, number: int) -> None:
    """Wait until so many bindings have that problem."""

    def counted() -> bool:
        now = leader.metric("rollcall_topology_problems", scheduler="kai-scheduler", reason=reason)
        assert now == number, f"it is {now}"
        return True

    eventually(counted, f"{number} bindings are counted as {reason}")


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_a_topology_is_created_from_a_binding_and_deleted_with_it(
    plane: ControlPlane, leader: ReconcilerProcess, bound: Callable[..., None], cascade: str
) -> None:
    name = f"whole-{cascade}"
    before = leader.metric("rollcall_writes_total")
    bound(name, ZONE, RACK, "kubernetes.io/hostname")
    made = until_levels(plane, name, ZONE, RACK, "kubernetes.io/hostname")
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "rollcall"}
    # Neither fields of others nor the status that Grove's operator writes cause a write.
    plane.kubectl("label", TOPOLOGIES, name, "team=a", check=True)
    status = '{"status": {"observedGeneration": 1}}'
    plane.kubectl("patch", BINDINGS, name, "--subresource=status", "--type=merge", "-p", status, check=True)
    leader.until_settled()
    assert leader.metric("rollcall_writes_total") == before + 1
    if plane.collects_garbage:
        plane.kubectl("delete", BINDINGS, name, f"--cascade={cascade}", check=True)
        eventually(lambda: found(plane, name) is None, "the Topology is gone")
        leader.until_settled()
        assert (found(plane, name), leader.metric("rollcall_writes_total")) == (None, before + 1)


def test_changed_levels_recreate_the_topology_and_changed_aliases_do_not(
    plane: ControlPlane, leader: ReconcilerProcess, bound: Callable[..., None]
) -> None:
    bound("changing", ZONE, RACK)
    first = until_levels(plane, "changing", ZONE, RACK)
    plane.kubectl("label", TOPOLOGIES, "changing", "team=a", check=True)
    alias = [{"op": "add", "path": "/spec/levels/1/alias", "value": "rack"}]
    answer = plane.http.patch(
        "/apis/kai.scheduler/v1alpha1/topologies/changing",
        json=alias,
        headers={"Content-Type": "application/json-patch+json"},
    )
    answer.raise_for_status()
    # Applied again, because the fields that we apply are gone.
    plane.kubectl("annotate", TOPOLOGIES, "changing", "rollcall.dev/applied-", check=True)

    def put_back() -> Manifest | None:
        shown = found(plane, "changing")
        return shown if shown and "rollcall.dev/applied" in shown["metadata"].get("annotations", {}) else None

    second = eventually(put_back, "the annotation is put back")
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["labels"]["team"] == "a"
    assert second["spec"]["levels"] == [{"nodeLabel": ZONE}, {"nodeLabel": RACK, "alias": "rack"}]
    bound("changing", ZONE, ROW, RACK)
    third = until_levels(plane, "changing", ZONE, ROW, RACK)
    assert third["metadata"]["uid"] != first["metadata"]["uid"]
    # Of what others put on the one before nothing is left: it is another object.
    assert third["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "rollcall"}
    assert binding_events(plane, "changing") == []


def test_a_foreign_topology_is_left_unchanged_and_the_binding_gets_an_event(
    plane: ControlPlane, leader: ReconcilerProcess, bound: Callable[..., None]
) -> None:
    plane.apply(topology("foreign", ROW, labels={"app.kubernetes.io/managed-by": "me"}), check=True)
    before = leader.metric("rollcall_writes_total")
    bound("foreign", ZONE, RACK)
    note = (
        f"Topology foreign has the levels {ROW}, and ClusterTopologyBinding foreign has {ZONE}, {RACK}; "
        "it belongs to another manager (me), so it is not changed"
    )
    eventually(lambda: binding_events(plane, "foreign") == [("TopologyDrift", note)], "the binding is told once")
    until_counted(leader, "TopologyDrift", 1)
    assert levels(plane, "foreign") == [ROW]
    assert leader.metric("rollcall_writes_total") == before
    plane.kubectl("delete", TOPOLOGIES, "foreign", check=True)
    until_levels(plane, "foreign", ZONE, RACK)
    until_counted(leader, "TopologyDrift", 0)
    assert binding_events(plane, "foreign") == [("TopologyDrift", note)]


def test_an_externally_managed_topology_is_compared_until_it_agrees(
    plane: ControlPlane, leader: ReconcilerProcess, bound: Callable[..., None]
) -> None:
    before = leader.metric("rollcall_writes_total")
    bound("compared", ZONE, RACK, reference="site")
    until_counted(leader, "TopologyNotFound", 1)
    plane.apply(topology("site", ROW), check=True)
    until_counted(leader, "TopologyDrift", 1)
    until_counted(leader, "TopologyNotFound", 0)
    differs = f"Topology site has the levels {ROW}, and ClusterTopologyBinding compared has {ZONE}, {RACK}"
    expected = [("TopologyDrift", differs), ("TopologyNotFound", "Topology site is missing")]
    eventually(lambda: sorted(binding_events(plane, "compared")) == expected, "the binding has both events")
    plane.kubectl("delete", TOPOLOGIES, "site", check=True)
    plane.apply(topology("site", ZONE, RACK), check=True)
    until_counted(leader, "TopologyDrift", 0)
    until_counted(leader, "TopologyNotFound", 0)
    assert found(plane, "compared") is None
    assert leader.metric("rollcall_writes_total") == before
    plane.kubectl("delete", TOPOLOGIES, "site", check=True)


def test_the_next_leader_recreates_a_topology_that_was_only_deleted(
    plane: ControlPlane,
    reconcilers: dict[str, ReconcilerProcess],
    leader: ReconcilerProcess,
    bound: Callable[..., None],
) -> None:
    bound("held", ZONE)
    until_levels(plane, "held", ZONE)
    hold = ("patch", TOPOLOGIES, "held", "--type=merge", "-p")
    plane.kubectl(*hold, '{"metadata": {"finalizers": ["example.com/hold"]}}', check=True)
    bound("held", ROW)
    eventually(lambda: "deletionTimestamp" in (found(plane, "held") or {})["metadata"], "the first is leaving")
    reconcilers.pop(plane.version).close()
    plane.kubectl(*hold, '{"metadata": {"finalizers": null}}', check=True)
    eventually(lambda: found(plane, "held") is None, "the first is gone")
    reconcilers[plane.version] = ReconcilerProcess(plane, KAI)
    until_levels(plane, "held", ROW)
