"""`rollcall reconcile` on real control planes: gangs start without kubectl, and their objects stay in step."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Reconcilers
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

POD_GROUPS = "podgroups.scheduling.sigs.k8s.io"


def pod_groups(plane: ControlPlane, namespace: str) -> dict[str, Manifest]:
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    return {found["metadata"]["name"]: found for found in plane.items(path)}


@pytest.mark.beside
def test_an_unchanged_cluster_causes_no_writes_and_foreign_changes_are_reverted(
    plane: ControlPlane,
    server: RollcallServer,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    started = reconciler()
    started.until_leading()
    played = grove(two_cliques("demo", namespace)).create()
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "the PodGroups are there")
    started.until_settled()
    before = started.metric("rollcall_writes_total")
    # The scheduler's status, a user's label, and a PodGang's status cause no write here.
    status = '{"status": {"phase": "Scheduled", "scheduled": 2}}'
    patch = ("patch", POD_GROUPS, "demo-0-worker", "-n", namespace, "--type=merge", "-p")
    plane.kubectl(*patch, status, check=True)
    plane.kubectl("label", POD_GROUPS, "demo-0-worker", "-n", namespace, "team=a", check=True)
    plane.kubectl("label", "podgangs", "demo-0", "-n", namespace, "touched=yes", check=True)
    started.until_settled()
    assert started.metric("rollcall_writes_total") == before
    plane.kubectl(*patch, '{"spec": {"minMember": 1}}', check=True)
    put_back = ("demo-0-worker", 2, True, "a")
    eventually(lambda: shown(plane, namespace, "demo-0-worker") == put_back, "the minimum is put back")
    plane.kubectl("delete", POD_GROUPS, "demo-0-leader", "-n", namespace, check=True)
    eventually(lambda: "demo-0-leader" in pod_groups(plane, namespace), "what was deleted is there again")
    # Leaving with its PodCliqueSet, by the garbage collector.
    plane.kubectl("delete", "podcliquesets.grove.io", played.name, "-n", namespace, check=True)
    eventually(lambda: pod_groups(plane, namespace) == {}, "the PodGroups are gone")
    assert started.metric("rollcall_writes_total", action="delete") == 0


def shown(plane: ControlPlane, namespace: str, name: str) -> tuple[str, int, bool, str]:
    """Name, minimum, whether it has a status still (a scheduler may have written another), and the user's label."""
    found = pod_groups(plane, namespace)[name]
    return (
        name,
        found["spec"]["minMember"],
        bool(found["status"].get("phase")),
        found["metadata"]["labels"].get("team", ""),
    )


@pytest.mark.beside
def test_a_foreign_pod_group_is_left_unchanged_and_the_gang_gets_an_event(
    plane: ControlPlane,
    server: RollcallServer,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    reconciler().until_leading()
    foreign = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "demo-0-leader", "namespace": namespace, "labels": {"app.kubernetes.io/managed-by": "me"}},
        "spec": {"minMember": 7},
    }
    plane.apply(foreign, check=True)
    grove(two_cliques("demo", namespace)).create()

    def told() -> list[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        return [event["note"] for event in plane.items(path) if event["reason"] == "GangObjectOwned"]

    (note,) = eventually(lambda: told() or None, "the PodGang is told")
    assert note.startswith(
        "PodGroup demo-0-leader belongs to another manager (me), so no object of this gang is written"
    )
    assert set(pod_groups(plane, namespace)) == {"demo-0-leader"}
    assert pod_groups(plane, namespace)["demo-0-leader"]["spec"]["minMember"] == 7
    plane.kubectl("delete", POD_GROUPS, "demo-0-leader", "-n", namespace, check=True)
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "the gang's own are written")


@pytest.mark.long
def test_when_the_leader_is_killed_another_takes_over(
    plane: ControlPlane,
    server: RollcallServer,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    first = reconciler()
    first.until_leading()
    second = reconciler()
    second.until_ready()
    assert second.metric("rollcall_leads") == 0
    first.program.stop(kill=True)
    grove(two_cliques("demo", namespace)).create()
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "the second writes", timeout=40)
    # Told to stop, it gives the lease up, and the third need not wait for it to run out.
    third = reconciler()
    third.until_ready()
    second.program.stop()
    eventually(lambda: third.metric("rollcall_leads") == 1, "the third leads", timeout=8)


@pytest.mark.beside
def test_gang_objects_follow_the_replicas_of_a_scaling_group(
    plane: ControlPlane,
    server: RollcallServer,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    reconciler().until_leading()
    groups = [{"name": "pool", "cliqueNames": ["worker"], "replicas": 2, "minAvailable": 1}]
    played = grove(pod_clique_set("demo", namespace, clique("leader", 1), clique("worker", 2), groups=groups)).create()
    expected = {"demo-0-leader", "demo-0-pool-0-worker", "demo-0-pool-1-worker", "demo-0-pool-0-demo-0-pool-1-worker"}
    eventually(lambda: len(pod_groups(plane, namespace)) == 3, "base and scaled gang have their PodGroups")
    assert set(pod_groups(plane, namespace)) <= expected
    # Released for a rolling update: the minimums stay.
    for name in played.podgangs:
        podgang = played.podgang(name)
        for member in podgang["spec"]["podgroups"]:
            member["minReplicas"] = 0
        path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs/{name}"
        plane.http.put(path, json=podgang).raise_for_status()
    assert {found["spec"]["minMember"] for found in pod_groups(plane, namespace).values()} == {1, 2}
    # A member that goes takes its PodGroup along, where no pods are in the way.
    plane.http.delete(f"/api/v1/namespaces/{namespace}/pods").raise_for_status()
    podgang = played.podgang("demo-0")
    podgang["spec"]["podgroups"] = podgang["spec"]["podgroups"][:1]
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs/demo-0"
    plane.http.put(path, json=podgang).raise_for_status()
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "what is no longer needed is pruned")
