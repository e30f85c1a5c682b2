"""Gangs that wait, judged by their stored pods and the facts of today: a proof, an estimate, and how often these are
made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import koordinator
from webhook.fit.feasibility import RoomAnswer, RoomEstimate
from webhook.gangs.members import GangPod, read_gang_pod
from webhook.gangs.pod_reasons import tallies
from webhook.gangs.room import SHAPES_A_LOOK, GangFits
from webhook.gangs.waiting_gang import StoredFits, WaitingGang, has_room_for_rest, pod_shapes
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.node_pods import NodePod, NodePods
from webhook.model.nodes import Nodes, node_of
from webhook.validators.examples import GPU, clique, node, pod_clique_set
from webhook.workloads.job import Job
from webhook.workloads.opted_in_gang import gangs_of
from webhook.workloads.pod_clique_set import PodCliqueSet

SETTINGS = koordinator(standalone=False)


def nodes(number: int) -> ClusterFacts:
    """So many ready nodes with eight GPUs."""
    known = Nodes()
    for index in range(1, number + 1):
        raw = node(f"node-{index}", 8)
        raw["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        read = node_of(raw)
        known[read.name] = read
    return ClusterFacts(nodes=known)


class KnownPods:
    """The pods on nodes, as if a watch had read them."""

    def __init__(self, pods: NodePods | None = None) -> None:
        self.read = pods
        self.changed = False

    @property
    def pods(self) -> NodePods | None:
        return self.read

    def take_changed(self) -> bool:
        changed, self.changed = self.changed, False
        return changed


class Counting(StoredFits):
    """Counts the judgements."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.verdicts = self.estimates = 0

    def verdict(self, gang: WaitingGang, facts: ClusterFacts) -> Any:
        self.verdicts += 1
        return super().verdict(gang, facts)

    def now(self, gang: WaitingGang, facts: ClusterFacts, pods: NodePods) -> RoomEstimate | None:
        self.estimates += 1
        return super().now(gang, facts, pods)


class World:
    """Facts that change, and gangs judged by them."""

    def __init__(self, facts: ClusterFacts, pods: NodePods | None = None) -> None:
        self.facts = facts
        self.node_pods = KnownPods(pods)
        self.judgement = Counting()
        self.fits = GangFits(self.judgement, lambda: self.facts, self.node_pods)


def stored(gang: str, index: int, gpus: int) -> GangPod:
    labels = {"grove.io/podgang": gang, "grove.io/podclique": f"{gang}-worker"}
    metadata = {"name": f"{gang}-worker-{index}", "namespace": "default", "labels": labels}
    resources = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}
    return read_gang_pod({"metadata": metadata, "spec": {"containers": [{"name": "main", "resources": resources}]}})[1]


def gang(name: str = "demo-0", pods: int = 3, gpus: int = 8) -> WaitingGang:
    """A gang of so many workers that all wait."""
    groups = [{"name": f"{name}-worker", "minReplicas": pods, "podReferences": []}]
    podgang = PodGang({"metadata": {"name": name, "namespace": "default"}, "spec": {"podgroups": groups}})
    shapes = pod_shapes(tallies(podgang, [stored(name, index, gpus) for index in range(pods)]))
    record = Record("koord-scheduler")
    return WaitingGang(podgang, None, SETTINGS.profiles["koord-scheduler"], record, shapes, {f"{name}-worker": pods})


def test_a_gang_that_fits_no_node_is_proven_with_its_own_names_until_a_node_comes() -> None:
    world = World(nodes(2))
    found = world.fits.never(gang())
    assert found is not None
    assert found.members == ("demo-0-worker",)
    assert "<" not in found.why + found.remedy
    world.facts = nodes(3)
    assert world.fits.never(gang()) is not None, "nothing said that the facts changed"
    world.fits.changed()
    assert world.fits.never(gang()) is None


def test_a_thousand_gangs_of_one_shape_are_judged_once() -> None:
    world = World(nodes(2))
    found = [world.fits.never(gang(f"demo-{index}")) for index in range(1000)]
    assert [one.members for one in found if one is not None] == [(f"demo-{index}-worker",) for index in range(1000)]
    assert world.judgement.verdicts == 1


def job_without_pods(name: str, gpus: int) -> WaitingGang:
    """A Job of three pods, none of which is made yet."""
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"parallelism": 3, "completions": 3, "template": {"spec": {"containers": [container]}}},
    }
    (own,) = gangs_of(Job(raw))
    profile = SETTINGS.profiles["koord-scheduler"]
    return WaitingGang(
        own, None, profile, Record("koord-scheduler"), {}, dict.fromkeys((m.name for m in own.members), 0)
    )


def test_gangs_without_pods_are_judged_by_the_templates_of_their_own_workloads() -> None:
    world = World(nodes(2))
    assert world.fits.never(job_without_pods("large", 8)) is not None
    assert world.fits.never(job_without_pods("small", 1)) is None
    assert world.fits.never(job_without_pods("small", 8)) is not None, "the template has changed"
    assert world.fits.never(job_without_pods("large", 8)) is not None
    assert world.judgement.verdicts == 3


def set_without_pods(index: int) -> WaitingGang:
    """One of the gangs of a PodCliqueSet, none of whose pods is made yet."""
    container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
    clique = {"name": "worker", "spec": {"replicas": 3, "minAvailable": 3, "podSpec": {"containers": [container]}}}
    raw = {
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"replicas": 9, "template": {"cliques": [clique]}},
    }
    whole = gang(f"demo-{index}")
    return whole._replace(workload=PodCliqueSet(raw), pods={}, counts=dict.fromkeys(whole.counts, 0))


def test_the_replicas_of_a_set_without_pods_are_judged_once() -> None:
    world = World(nodes(2))
    assert all(world.fits.never(set_without_pods(index)) is not None for index in range(9))
    assert world.judgement.verdicts == 1


def test_a_look_judges_so_many_shapes_and_the_next_one_goes_on() -> None:
    world = World(nodes(2))
    gangs = [gang(pods=3 + index) for index in range(SHAPES_A_LOOK + 1)]
    assert [world.fits.never(one) is not None for one in gangs] == [True] * SHAPES_A_LOOK + [False]
    assert world.fits.take_behind()
    world.fits.look()
    assert world.fits.never(gangs[-1]) is not None
    assert not world.fits.take_behind()


def used(node: str, gang_name: str, gpus: int, namespace: str = "team-b") -> tuple[tuple[str, str], NodePod]:
    return (namespace, f"{gang_name}-{node}"), NodePod(node, (("pods", 1), (GPU, gpus)), gang_name)


def test_what_a_gang_lacks_now_is_estimated_from_the_pods_on_nodes() -> None:
    world = World(nodes(3), NodePods(dict([used("node-1", "secret", 8)])))
    assert world.fits.never(gang()) is None
    found = world.fits.now(gang())
    assert found is not None
    assert found.answer is RoomAnswer.SHORT
    assert "secret" not in repr(found)
    assert found.why == "3 pods of 8 nvidia.com/gpu; 2 nodes of 8 take one each"
    assert found.leaving is None


def test_an_estimate_is_kept_until_pods_come_or_go_and_some_time_has_passed() -> None:
    pods = NodePods(dict([used("node-1", "other", 8)]))
    world = World(nodes(3), pods)
    assert not world.fits.look()
    world.fits.now(gang())
    world.fits.now(gang("demo-1"))
    assert world.judgement.estimates == 1
    del pods["team-b", "other-node-1"]
    world.node_pods.changed = True
    assert world.fits.look()
    found = world.fits.now(gang())
    assert found is not None
    assert found.answer is RoomAnswer.ROOM
    world.node_pods.changed = True
    assert not world.fits.look()


def test_without_the_pods_on_nodes_nothing_is_estimated_and_nothing_kept() -> None:
    world = World(nodes(3))
    assert world.fits.now(gang()) is None
    world.node_pods.read = NodePods(dict([used("node-1", "other", 8)]))
    assert world.fits.now(gang()) is not None


def test_unknown_nodes_prove_nothing() -> None:
    world = World(replace(nodes(2), nodes=None), NodePods())
    assert (world.fits.never(gang()), world.fits.now(gang())) == (None, None)


def rest_of(world: World, *, workload: PodCliqueSet | None) -> bool | None:
    """Whether there is room for the second worker of a gang, whose leader and first worker are on node-1 and node-2."""
    members = {"demo-0-leader": 1, "demo-0-worker": 2}
    groups = [{"name": name, "minReplicas": pods, "podReferences": []} for name, pods in members.items()]
    podgang = PodGang({"metadata": {"name": "demo-0", "namespace": "default"}, "spec": {"podgroups": groups}})
    leader = stored("demo-0", 0, 8)._replace(
        name="demo-0-leader-0", podclique="demo-0-leader", node="node-1", needs=None
    )
    first = stored("demo-0", 0, 8)._replace(node="node-2", needs=None)
    counted = tallies(podgang, [leader, first, stored("demo-0", 1, 8)])
    profile = SETTINGS.profiles["koord-scheduler"]
    return has_room_for_rest(podgang, workload, counted, profile, Record("koord-scheduler"), world.fits)


@pytest.mark.parametrize(("number", "has_room"), [(3, True), (2, False)])
def test_a_member_whose_pods_are_all_on_nodes_is_judged_by_its_template(number: int, *, has_room: bool) -> None:
    own = (used(f"node-{index}", "demo-0", 8, "default") for index in (1, 2))
    world = World(nodes(number), NodePods(dict(own)))
    workload = PodCliqueSet(pod_clique_set(*(clique(name, requests={GPU: "8"}) for name in ("worker", "leader"))))
    assert rest_of(world, workload=workload) is has_room


def test_without_the_template_there_is_no_estimate_for_such_a_gang() -> None:
    assert rest_of(World(nodes(3), NodePods()), workload=None) is None
