"""Changes of the shape of an existing gang, on real API servers and schedulers: an accepted change is written
completely; otherwise the objects are recreated if that harms no pod, or kept, with an event that has the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from tests.e2e.bound_pods import is_bound
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.gang_queues import kai_queue
from tests.e2e.grove_operator import Clique, Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import SERIES, forget_lease
from tests.e2e.test_five_schedulers import KAI_QUEUE
from tests.e2e.test_reconciler import pod_groups
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

pytestmark = pytest.mark.soak


class Changing:
    """A gang whose PodGang a user edits, bypassing the admission that would have refused it."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.plane = played.plane
        self.namespace = played.namespace

    def edit(self, change: Callable[[list[Manifest]], None]) -> None:
        """Change the members of the PodGang."""
        podgang = self.played.podgang("demo-0")
        change(podgang["spec"]["podgroups"])
        path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{self.namespace}/podgangs/demo-0"
        self.plane.http.put(path, json=podgang).raise_for_status()

    def add_helper(self) -> None:
        """A clique more, with one pod."""
        helper = Clique("demo-0-helper", clique("helper", 1), "demo-0", None, 0)
        self.edit(lambda members: members.append({"name": helper.name, "minReplicas": 1, "podReferences": []}))
        self.played.cliques.append(helper)

    def remove_helper(self) -> None:
        """Without it again."""

        def change(members: list[Manifest]) -> None:
            members[:] = [member for member in members if member["name"] != "demo-0-helper"]

        self.edit(change)

    def require(self, **minimums: int) -> None:
        """Other minimums, by clique."""

        def change(members: list[Manifest]) -> None:
            for member in members:
                name = member["name"].removeprefix("demo-0-")
                member["minReplicas"] = minimums.get(name, member["minReplicas"])

        self.edit(change)

    def remove_pods(self) -> None:
        """All of them, and not by Grove, which would make new ones at once."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.plane.http.delete(path, params={"gracePeriodSeconds": "0"}).raise_for_status()
        eventually(lambda: self.played.pods() == [], "the pods are gone")

    def bind_one(self) -> None:
        """Bind one pod to a node, as a scheduler does; the node need not exist."""
        pod = self.played.pods()[0]["metadata"]["name"]
        binding = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/binding"
        self.plane.http.post(path, json=binding).raise_for_status()

    def objects(self, *kinds: str) -> dict[str, tuple[str, Manifest]]:
        """The gang objects: uid and spec by kind and name. What a scheduler writes beside them is left out."""
        found = {}
        for kind in kinds:
            version, _, plural = kind.rpartition("/")
            for one in self.plane.items(f"/apis/{version}/namespaces/{self.namespace}/{plural}"):
                metadata = one["metadata"]
                found[f"{plural}/{metadata['name']}"] = (metadata["uid"], one["spec"])
        return found

    def told(self) -> str:
        """The event about the shape on the PodGang, once it exists."""

        def notes() -> list[str]:
            events = self.plane.items(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
            return [event["note"] for event in events if event["reason"] == "GangShapeFrozen"]

        return eventually(lambda: notes() or None, "the PodGang is told")[-1]

    def look_again(self) -> None:
        """Have the reconciler look, which it would by itself in a while."""
        self.plane.kubectl(
            "label", "--overwrite", "podgangs", "demo-0", "-n", self.namespace, "looked=again", check=True
        )


@pytest.fixture
def changing(grove: Grove, namespace: str) -> Callable[[Manifest], Changing]:
    """Create a gang, its pods freed by Grove."""

    def created(workload: Manifest) -> Changing:
        played = grove(workload).create()
        played.lift_gates()
        return Changing(played)

    return created


TREES = ("scheduling.k8s.io/v1beta1/workloads", "scheduling.k8s.io/v1alpha3/compositepodgroups")
LEAVES = "scheduling.k8s.io/v1beta1/podgroups"


def test_a_tree_gets_an_added_member_while_pods_wait_but_not_once_they_are_bound(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    changing: Callable[[Manifest], Changing],
    nodes: Nodes,
) -> None:
    rollcall(plane, with_gate())
    scheduler(plane, "kube")
    forget_lease(plane)
    # Room for two of three pods.
    nodes(1, cpu=2)
    started = reconciler(with_gate())
    started.until_leading()
    gang = changing(two_cliques("demo", namespace))
    eventually(lambda: len(gang.objects(LEAVES)) == 2, "the PodGroups are there")
    leaves, trees = gang.objects(LEAVES), gang.objects(*TREES)
    gang.add_helper()
    eventually(lambda: len(gang.objects(LEAVES)) == 3, "the new member has its PodGroup")
    # The groups that pods name are the same; what stood above them was recreated.
    assert leaves.items() <= gang.objects(LEAVES).items()
    now = gang.objects(*TREES)
    assert now.keys() == trees.keys()
    assert {uid for uid, _ in now.values()} & {uid for uid, _ in trees.values()} == set()
    assert now["compositepodgroups/demo-0.composite"][1]["schedulingPolicy"] == {"gang": {"minGroupCount": 3}}
    gang.played.create_pod(gang.played.cliques[-1], 0)
    gang.played.lift_gates()
    nodes(1, cpu=8)
    is_bound(gang.played, 4)
    gang.remove_helper()
    note = gang.told()
    assert note.startswith(
        "demo-0-helper is gone: the Workload API does not allow this change, so no object of this gang is written "
        "while any of its pods is on a node"
    )
    assert gang.objects(LEAVES).keys() == {"podgroups/demo-0-helper", *leaves}
    assert gang.objects(*TREES) == now
    # Without pods it is followed.
    gang.remove_pods()
    gang.look_again()
    eventually(lambda: gang.objects(LEAVES).keys() == leaves.keys(), "the member that went has no PodGroup")
    # It has done everything now that it ever does, and so needs all that it may do.
    creating = [
        (f"scheduling.k8s.io/{plural}", "create") for plural in ("workloads", "compositepodgroups", "podgroups")
    ]
    started.uses_all_but(*creating, SERIES)


def with_gate() -> Manifest:
    """kube-scheduler's gangs, with the pod gate."""
    config = configuration()
    config["scheduler"]["profiles"][0]["gate"] = True
    return config


# Of 1.35 and 1.36, where a merged gang's minimum is frozen: the kinds of its objects.
MERGED: dict[str, dict[str, tuple[str, ...]]] = {
    "1.35": {"merged": ("scheduling.k8s.io/v1alpha1/workloads",)},
    "1.36": {"merged": ("scheduling.k8s.io/v1alpha2/workloads", "scheduling.k8s.io/v1alpha2/podgroups")},
    "1.37": {},
}


@pytest.mark.beside
@pytest.mark.cases(MERGED)
def test_an_immutable_minimum_is_recreated_and_the_gang_starts_with_it(
    plane: ControlPlane,
    case: tuple[str, ...],
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    changing: Callable[[Manifest], Changing],
    nodes: Nodes,
) -> None:
    rollcall(plane, configuration())
    scheduler(plane, "kube")
    nodes(1, cpu=2)
    reconciler(configuration()).until_leading()
    gang = changing(two_cliques("demo", namespace))
    eventually(lambda: len(gang.objects(*case)) == len(case), "the objects are there")
    before = gang.objects(*case)
    gang.require(leader=2)
    if len(case) > 1:
        # A PodGroup goes only after its pods.
        assert "the minimum of the whole gang goes from 3 to 4" in gang.told()
        assert gang.objects(*case) == before
        gang.remove_pods()
        gang.look_again()

    def recreated() -> bool:
        now = gang.objects(*case)
        return now.keys() == before.keys() and not any(now[key][0] == before[key][0] for key in before)

    eventually(recreated, "the objects are recreated", timeout=30)
    if len(case) > 1:
        gang.played.create_pods()
    leader = gang.played.cliques[0]
    gang.played.create_pod(leader, 1)
    gang.played.lift_gates()
    nodes(1, cpu=2)
    is_bound(gang.played, 4)


def with_kai() -> Manifest:
    """koord-scheduler and kai-scheduler."""
    config = deepcopy(gated())
    config["scheduler"]["profiles"].append({"name": "kai-scheduler"})
    return config


@pytest.mark.beside
def test_koordinator_s_members_change_only_without_pods(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    changing: Callable[[Manifest], Changing],
    nodes: Nodes,
) -> None:
    rollcall(plane, with_kai())
    scheduler(plane, "koordinator")
    reconciler(with_kai()).until_leading()
    gang = changing(two_cliques("demo", namespace))
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "the PodGroups are there")
    before = pod_groups(plane, namespace)
    gang.add_helper()
    assert gang.told().startswith("demo-0-helper is new: Koordinator ignores a change of a gang's members")
    after = pod_groups(plane, namespace)
    assert {name: found["metadata"]["uid"] for name, found in after.items()} == {
        name: found["metadata"]["uid"] for name, found in before.items()
    }
    gang.remove_pods()
    gang.look_again()
    eventually(lambda: len(pod_groups(plane, namespace)) == 3, "the PodGroups are recreated")
    nodes(1, cpu=8)
    gang.played.create_pods()
    gang.played.lift_gates()
    is_bound(gang.played, 4)


@pytest.fixture
def kai_gang(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    namespace: str,
    changing: Callable[[Manifest], Changing],
) -> Changing:
    """A gang of two pods, for kai-scheduler."""
    plane.apply(kai_queue(namespace), check=True)
    rollcall(plane, with_kai())
    reconciler(with_kai()).until_leading()
    labels = {KAI_QUEUE: namespace, "rollcall.dev/scheduler": "kai-scheduler"}
    return changing(pod_clique_set("demo", namespace, clique("worker", 2), labels=labels))


@pytest.mark.beside
def test_kai_s_minimum_is_raised_before_a_pod_is_bound_and_not_after(kai_gang: Changing) -> None:

    def minimums() -> list[int]:
        found = kai_gang.objects("scheduling.run.ai/v2alpha2/podgroups").values()
        return [leaf["minMember"] for _, spec in found for leaf in spec["subGroups"]]

    eventually(lambda: minimums() == [2], "the PodGroup is there")
    kai_gang.require(worker=3)
    eventually(lambda: minimums() == [3], "the minimum is raised")
    kai_gang.bind_one()
    kai_gang.require(worker=4)
    assert "the minimum of demo-0-worker goes from 3 to 4: kai-scheduler evicts a running gang" in kai_gang.told()
    assert minimums() == [3]
    kai_gang.require(worker=1)
    eventually(lambda: minimums() == [1], "a lower one is written")


@pytest.mark.beside
def test_kai_s_lost_group_has_low_minimums_until_no_pod_is_on_a_node(
    plane: ControlPlane, namespace: str, kai_gang: Changing
) -> None:
    path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"

    def group() -> tuple[list[int], bool]:
        found = plane.items(path)
        minimums = [leaf["minMember"] for one in found for leaf in one["spec"]["subGroups"]]
        return minimums, any("rollcall.dev/restored" in one["metadata"]["annotations"] for one in found)

    eventually(lambda: group() == ([2], False), "the PodGroup is there")
    kai_gang.bind_one()
    plane.http.delete(path).raise_for_status()
    eventually(lambda: group() == ([1], True), "it is restored for the pod that runs")
    kai_gang.remove_pods()
    eventually(lambda: group() == ([2], False), "it is that of a whole gang again")
