"""The Workload API under the names of later releases, on the real kube-scheduler 1.37: gangs start whole under those of
1.38, and nothing is written under names that Rollcall does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes, Rollcall, Scheduler
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.renamed_api import GROUP, OF_1_38, UNKNOWN, RenamedApi
from tests.e2e.test_disruption_modes import objects_of
from tests.e2e.test_shape_changes import LEAVES, TREES, Changing
from tests.e2e.workloads import two_cliques
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import POD_GANG, GangKey

Later = Callable[..., HostedReconciler]


@pytest.fixture
def later(plane: ControlPlane, namespace: str) -> Iterator[Later]:
    """A reconciler that sees the API under these names: `later(OF_1_38)`."""
    started: list[HostedReconciler] = []

    def running(names: Mapping[str, str], **config: Any) -> HostedReconciler:
        found = HostedReconciler(RenamedApi(plane, names), configuration(**config), namespace=namespace)
        started.append(found)
        found.until_leading()
        return found

    yield running
    for found in started:
        found.stop()


@pytest.fixture(autouse=True)
def only_1_37(plane: ControlPlane) -> None:
    if plane.version != "1.37":
        pytest.skip("these names are for the API of 1.37")


def test_a_gang_starts_whole_under_the_names_of_1_38(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    rollcall: Rollcall,
    scheduler: Scheduler,
    later: Later,
) -> None:
    scheduler(plane, "kube")
    rollcall(plane, configuration())
    running = later(OF_1_38)
    # Room for two of the three pods.
    nodes(1, cpu=2)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    eventually(lambda: len(objects_of(plane, namespace)) == 4, "its objects are written")
    stays_unbound(played)
    nodes(1, cpu=2)
    is_bound(played, 3)
    made = [one.path.rsplit("/", 2)[1] for one in running.network.changes if GROUP in one.path]
    assert sorted(made) == ["compositepodgroups", "podgroups", "podgroups", "workloads"]
    versions = {
        one.path.split(f"{GROUP}/", 1)[1].split("/", 1)[0] for one in running.network.changes if GROUP in one.path
    }
    assert versions == {"v1beta1"}


def _writes(running: HostedReconciler) -> list[str]:
    """What was done to gang objects: the method and the kind."""
    changes = [one for one in running.network.changes if GROUP in one.path]
    return [f"{one.method} {one.path.rsplit('/', 2)[1]}" for one in changes]


def test_a_running_tree_of_1_38_grows_and_shrinks_in_place(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    rollcall: Rollcall,
    scheduler: Scheduler,
    later: Later,
) -> None:
    scheduler(plane, "kube")
    rollcall(plane, configuration())
    running = later(OF_1_38)
    nodes(1, cpu=3)
    gang = Changing(grove(two_cliques("demo", namespace)).create())
    gang.played.lift_gates()
    is_bound(gang.played, 3)
    top, whole = "compositepodgroups/demo-0.composite", "workloads/demo-0"
    before = gang.objects(*TREES, LEAVES)
    gang.add_helper()
    eventually(lambda: len(gang.objects(LEAVES)) == 3, "the new member has its PodGroup")
    grown = gang.objects(*TREES, LEAVES)
    # Only the Workload is another object.
    assert [name for name, (uid, _) in before.items() if grown[name][0] != uid] == [whole]
    assert grown[top][1]["schedulingPolicy"] == {"gang": {"minGroupCount": 3}}
    (root,) = grown[whole][1]["compositePodGroupTemplates"]
    assert len(root["podGroupTemplates"]) == 3
    # No room for the new member, and all others run.
    helper = gang.played.create_pod(gang.played.cliques[-1], 0)["metadata"]["name"]
    gang.played.lift_gates()
    is_bound(gang.played, 3)
    nodes(1, cpu=1)
    is_bound(gang.played, 4)
    gang.remove_helper()
    eventually(
        lambda: gang.objects(*TREES)[top][1]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}},
        "the gang waits for one group less",
    )
    # The PodGroup goes with its last pod.
    path = f"/api/v1/namespaces/{namespace}/pods/{helper}"
    plane.http.delete(path, params={"gracePeriodSeconds": "0"}).raise_for_status()
    eventually(lambda: len(gang.objects(LEAVES)) == 2, "its PodGroup is gone")
    now = gang.objects(*TREES, LEAVES)
    assert now.keys() == before.keys()
    assert [name for name, (uid, _) in before.items() if now[name][0] != uid] == [whole]
    assert len(gang.played.bound()) == 3
    assert [one for one in _writes(running) if one.startswith("DELETE")] == [
        "DELETE workloads",
        "DELETE workloads",
        "DELETE podgroups",
    ]


@pytest.mark.parametrize(
    ("path", "condition", "reason"),
    [
        (f"{TREES[1]}/demo-0.composite", "CompositePodGroupInitiallyScheduled", "CompositePodGroupError"),
        (f"{LEAVES}/demo-0-worker", "PodGroupInitiallyScheduled", "PodGroupError"),
    ],
    ids=["CompositePodGroup", "PodGroup"],
)
def test_what_kube_scheduler_1_38_says_of_a_group_is_quoted(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    rollcall: Rollcall,
    later: Later,
    path: str,
    condition: str,
    reason: str,
) -> None:
    """The condition is written as by that scheduler, which does not run here."""
    rollcall(plane, configuration())
    running = later(OF_1_38)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    eventually(lambda: len(objects_of(plane, namespace)) == 4, "its objects are written")
    says = "all pods in a pod group hierarchy should have the same priority"
    known = {"type": condition, "status": "False", "reason": reason, "message": says}
    version, plural, name = path.rsplit("/", 2)

    def quoted() -> bool:
        # The scheduler that runs here may write its own condition of that type at any time, so it is written again.
        answer = plane.http.patch(
            f"/apis/{version}/namespaces/{namespace}/{plural}/{name}/status",
            json={"status": {"conditions": [{**known, "lastTransitionTime": "2026-11-30T12:00:00Z"}]}},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.is_success, answer.text
        health = running.reconciler.health.judgement(GangKey(namespace, "demo-0", POD_GANG))
        assert health is not None
        (first, *_) = health.obstacles
        assert first.reason is GangReason.GROUP_ERROR, first
        assert f"({reason}): {says}" in first.why
        return True

    eventually(quoted, "the condition is quoted", timeout=30, pause=0.5)


def test_nothing_is_written_under_names_that_were_not_read(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    rollcall: Rollcall,
    scheduler: Scheduler,
    later: Later,
) -> None:
    """The gang waits, with the reason; no pod of it starts alone."""
    scheduler(plane, "kube")
    rollcall(plane, configuration())
    running = later(UNKNOWN)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    key = GangKey(namespace, "demo-0", POD_GANG)

    def held() -> bool:
        health = running.reconciler.health.judgement(key)
        assert health is not None
        first = health.obstacles[0]
        assert first.reason is GangReason.API_MISSING, first
        assert "which this release of Rollcall has not read" in first.why
        return True

    eventually(held, "it is said why the gang waits", timeout=30)
    stays_unbound(played)
    assert objects_of(plane, namespace) == []
    assert [one.path for one in running.network.exchanges if one.changes_gangs and GROUP in one.path] == []
