"""A DynamoGraphDeployment on the real koord-scheduler: it is judged in both versions, and the PodCliqueSet that
Dynamo's operator makes of it is the gang.
"""

from __future__ import annotations

import time

import pytest

from tests.e2e.bound_pods import QUIET_SECONDS, is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.dynamo_operator import GROUP, KIND, PLURAL, component, definition, graph, older_graph, pod_clique_set_of
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.opted_in_cluster import KOORDINATOR, LABEL, POD_GROUPS, opted_in
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, found, listed, path_of

pytestmark = pytest.mark.beside


@pytest.fixture
def judged(plane: ControlPlane, rollcall: Rollcall, namespace: str) -> ControlPlane:
    """A cluster that serves DynamoGraphDeployments, with Rollcall's webhook, and an opted-in namespace."""
    crd = definition()
    if found(plane, crd["apiVersion"], crd["kind"], None, crd["metadata"]["name"]) is None:
        created(plane, crd)

    def served() -> bool:
        paths = [f"/apis/{GROUP}/{version}/{PLURAL}" for version in ("v1beta1", "v1alpha1")]
        return all(plane.http.get(path).is_success for path in paths)

    eventually(served, "both versions are served", timeout=30)
    rollcall(plane, KOORDINATOR.config)
    opted_in(plane, namespace, KOORDINATOR.name)
    return plane


@pytest.fixture
def ready(judged: ControlPlane, reconciler: Reconcilers, scheduler: Scheduler) -> ControlPlane:
    """The same with koord-scheduler and the reconciler."""
    scheduler(judged, KOORDINATOR.scheduler)
    reconciler(KOORDINATOR.config).until_leading()
    return judged


def pod_groups(plane: ControlPlane, namespace: str) -> list[Manifest]:
    """The gang objects of the namespace."""
    return listed(plane, POD_GROUPS, "PodGroup", namespace)


def has_no_gang_objects(plane: ControlPlane, namespace: str) -> None:
    """There are none, and for as long as the reconciler would need there will be none."""
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        assert pod_groups(plane, namespace) == []
        time.sleep(0.25)


def test_a_graph_starts_whole_or_not_at_all_through_grove(
    ready: ControlPlane, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=4)
    asked = graph("vllm", namespace, component("Frontend"), component("decode", nodes=2), component("prefill", nodes=2))
    stored = created(ready, asked)
    assert stored["spec"] == asked["spec"], "Dynamo's operator reads what the user wrote"
    assert stored["metadata"]["labels"] == {LABEL: "koord-scheduler"}
    has_no_gang_objects(ready, namespace)
    # One frontend, and a leader and a worker of each of two components: five pods for a node of four.
    played = grove(pod_clique_set_of(stored)).create()
    assert len(played.pods()) == 5
    played.lift_gates()
    groups = sorted(clique.name for clique in played.cliques)
    eventually(
        lambda: sorted(one["metadata"]["name"] for one in pod_groups(ready, namespace)) == groups,
        "there is a PodGroup for each clique",
    )
    owners = {owner["kind"] for one in pod_groups(ready, namespace) for owner in one["metadata"]["ownerReferences"]}
    assert KIND not in owners, owners
    stays_unbound(played)
    nodes(1, cpu=1)
    is_bound(played, 5)
    assert sorted(one["metadata"]["name"] for one in pod_groups(ready, namespace)) == groups


@pytest.mark.soak
def test_a_graph_waits_for_the_pods_of_all_its_nodes(
    ready: ControlPlane, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=8)
    stored = created(ready, graph("vllm", namespace, component("Frontend"), component("decode", nodes=3)))
    played = grove(pod_clique_set_of(stored)).create(without="vllm-0-decode-0-decode-wkr")
    played.lift_gates()
    stays_unbound(played)
    worker = next(clique for clique in played.cliques if clique.name == "vllm-0-decode-0-decode-wkr")
    played.create_pod(worker, 1)
    played.lift_gates()
    is_bound(played, 4)


@pytest.mark.parametrize("written", ["v1beta1", "v1alpha1"])
def test_a_graph_is_refused_at_the_field_of_the_version_in_which_it_is_written(
    judged: ControlPlane, namespace: str, written: str
) -> None:
    elsewhere: Manifest = {"schedulerName": "volcano"}
    asked, place = {
        "v1beta1": (
            graph("wrong", namespace, component("decode", podTemplate={"spec": elsewhere})),
            "spec.components[0].podTemplate.spec.schedulerName",
        ),
        "v1alpha1": (
            older_graph("wrong", namespace, Decode={"replicas": 1, "extraPodSpec": elsewhere}),
            "spec.services.Decode.extraPodSpec.schedulerName",
        ),
    }[written]
    answer = judged.http.post(path_of(asked["apiVersion"], KIND, namespace), json=asked)
    assert answer.status_code == 422, answer.text
    assert f"owner/scheduler-name at {place}" in answer.json()["message"]


def test_an_older_graph_is_stored_as_it_was_written(ready: ControlPlane, namespace: str) -> None:
    asked = older_graph("older", namespace, Frontend={"replicas": 1}, Decode={"multinode": {"nodeCount": 2}})
    stored = created(ready, asked)
    assert stored["spec"] == asked["spec"]
    assert stored["metadata"]["labels"] == {LABEL: "koord-scheduler"}
    has_no_gang_objects(ready, namespace)
