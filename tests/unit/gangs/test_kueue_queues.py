"""Who is ahead of a gang in Kueue's queues, and what a message of Kueue may show in a namespace."""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.unit.cluster.scripted import Script, client
from tests.unit.gangs.queued_gangs import ELSEWHERE, condition, health, job, lacks, queued_facts, workload
from tests.unit.growth.step_counts import growing
from tests.unit.worlds import koordinator
from webhook.gangs.key import GangKey
from webhook.gangs.kueue_hold import quoted
from webhook.gangs.kueue_queue import Ahead, FollowedWorkloads, QueuePlaces
from webhook.gangs.workload_gangs import OptedInGangs
from webhook.model.keys import ObjectKey
from webhook.model.kueue_objects import KueueWorkload, KueueWorkloads, LocalQueue

MINE = ("team-a", "mine")


def waiting(name: str, at: str, *, namespace: str = "team-a", priority: int = 0) -> tuple[ObjectKey, KueueWorkload]:
    spec = {"priority": priority, "queueName": "main"}
    return workload(name, namespace=namespace, owner=name, created=at, spec=spec)


def places(*found: tuple[ObjectKey, KueueWorkload]) -> QueuePlaces:
    return QueuePlaces(dict(found))


QUEUES = {("team-a", "main"): LocalQueue("research"), ("team-b", "main"): LocalQueue("research")}


def test_workloads_that_are_no_longer_read_are_not_ahead_of_anyone() -> None:
    found = FollowedWorkloads()
    # Entries come before the first list is complete.
    found.note_served(served=False)
    found.places.put(*waiting("earlier", "09:00:00"))
    found.note_served(served=True)
    assert found.places.ahead_of(("team-a", "earlier"), QUEUES) == Ahead(0, (), ())
    found.note_served(served=False)
    found.places.put(*waiting("mine", "10:00:00"))
    found.note_served(served=True)
    assert found.places.ahead_of(MINE, QUEUES) == Ahead(0, (), ())


def kept(*gangs: GangKey) -> OptedInGangs:
    found = OptedInGangs(client(Script()), koordinator(standalone=False), lambda _: None, lambda _: None)
    for gang in gangs:
        found._move(gang, (gang.kind, *gang.workload_key))
    return found


def group(name: str) -> GangKey:
    return GangKey("team-a", f"serve-{name}", "LeaderWorkerSet", "serve")


def test_the_workload_of_one_group_concerns_the_gangs_of_that_group_only() -> None:
    serve, cut = ("LeaderWorkerSet", "team-a", "serve"), group("x" * 50)
    groups = [*map(group, ("1", "1-5f8", "12-5f8", "2")), cut]
    assert set(kept(*groups).gangs_of_groups(serve, {"1"})) == {group("1"), group("1-5f8"), cut}
    assert set(kept(*groups).gangs_of_groups(serve, {None})) == set(groups)
    train = GangKey("team-a", "train", "Job", "train")
    assert list(kept(train).gangs_of_groups(("Job", "team-a", "train"), {"1"})) == [train]


def test_those_with_a_higher_priority_and_those_that_came_before_are_ahead() -> None:
    found = places(
        waiting("mine", "10:00:00"),
        waiting("later", "11:00:00"),
        waiting("earlier", "09:00:00"),
        waiting("urgent", "11:30:00", priority=10, namespace="team-b"),
        waiting("lesser", "08:00:00", priority=-1),
    )
    assert found.ahead_of(MINE, QUEUES) == Ahead(
        2, (("team-b", "urgent"), ("team-a", "earlier")), (("team-a", "earlier"),)
    )


def test_a_workload_that_kueue_evicted_goes_behind_those_that_came_since() -> None:
    late = condition("Evicted", "PodsReadyTimeout", status=True, at="10:30:00")
    key, evicted = workload("evicted", late, owner="evicted", created="08:00:00")
    found = places((key, evicted), waiting("mine", "10:00:00"))
    assert found.ahead_of(MINE, QUEUES) == Ahead(0, (), ())
    assert found.ahead_of(key, QUEUES) == Ahead(1, (MINE,), (MINE,))


@pytest.mark.parametrize(
    "said",
    [
        condition("QuotaReserved", "QuotaReserved", status=True),
        condition("QuotaReserved", "Inadmissible", "ClusterQueue x is inactive"),
        condition("QuotaReserved", "AdmissionGated", "Admission is gated by: a/b"),
        condition("Finished", "Succeeded", status=True),
    ],
    ids=["with quota", "in a stopped queue", "gated", "finished"],
)
def test_a_workload_that_does_not_wait_is_not_ahead(said: dict[str, str]) -> None:
    other = workload("other", said, owner="other", created="08:00:00")
    assert places(waiting("mine", "10:00:00"), other).ahead_of(MINE, QUEUES) == Ahead(0, (), ())


def test_the_order_follows_each_change_of_a_workload_and_of_a_local_queue() -> None:
    first = waiting("first", "09:00:00", namespace="team-b")
    found = places(first, waiting("mine", "10:00:00"))
    apart = {**QUEUES, ("team-b", "main"): LocalQueue("other")}
    assert found.ahead_of(MINE, QUEUES) == Ahead(1, (first[0],), ())
    found.put_queue(("team-b", "main"), apart["team-b", "main"])
    assert found.ahead_of(MINE, apart) == Ahead(0, (), ())
    found.put_queue(("team-b", "main"), None)
    assert found.ahead_of(MINE, {}) == Ahead(0, (), ())
    found.put_queue(("team-b", "main"), QUEUES["team-b", "main"])
    assert found.ahead_of(MINE, QUEUES) == Ahead(1, (first[0],), ())
    found.put(*workload("first", condition("QuotaReserved", status=True), namespace="team-b", owner="first"))
    assert found.ahead_of(MINE, QUEUES) == Ahead(0, (), ())
    found.put(MINE, None)
    assert found.ahead_of(MINE, QUEUES) is None


def test_without_the_local_queues_only_the_own_queue_counts() -> None:
    found = places(waiting("b", "09:00:00", namespace="team-b"), waiting("a", "09:00:00"), waiting("mine", "10:00:00"))
    assert found.ahead_of(MINE, None) == Ahead(1, (("team-a", "a"),), (("team-a", "a"),))


def test_the_places_of_many_workloads_take_no_steps_that_grow_with_their_square() -> None:
    def work(count: int) -> None:
        every = [
            waiting(f"w{index:05}", f"{index // 3600 % 24:02}:{index // 60 % 60:02}:{index % 60:02}", namespace=team)
            for index, team in zip(range(count), cycle(("team-a", "team-b")), strict=False)
        ]
        found = places(*every)
        assert found.ahead_of(every[-1][0], QUEUES) is not None
        assert sum(one.number for key, _ in every if (one := found.ahead_of(key, QUEUES)) is not None) > count

    assert growing(work, 40) == []


def test_a_tenant_s_many_local_queues_take_no_steps_that_grow_with_their_square() -> None:
    def work(count: int) -> None:
        every = [("team-a", f"w{index:05}") for index in range(count)]
        local = {("team-a", name): LocalQueue("research") for _, name in every}
        found = QueuePlaces({key: KueueWorkload(queue=key[1], created=key[1]) for key in every})
        assert [found.ahead_of(key, local) for key in every[:2]] == [
            Ahead(0, (), ()),
            Ahead(1, (every[0],), (every[0],)),
        ]
        for key in every[:-1]:
            assert found.ahead_of(every[-1], local) is not None
            found.put(key, None)
        assert found.ahead_of(every[-1], local) == Ahead(0, (), ())

    assert growing(work, 40) == []


def test_a_text_names_those_ahead_of_the_own_namespace_and_counts_the_others() -> None:
    said = condition("QuotaReserved", "Pending", lacks("2", "cpu", "f"))
    facts = queued_facts(
        workload("mine", said, created="10:00:00"),
        waiting("earlier", "09:00:00"),
        waiting("secret", "09:30:00", namespace="team-b"),
    )
    found = health(facts)
    assert found.why == (
        "ClusterQueue research is short of 2 cpu in flavor f; about 2 workloads are ahead of it (among them Job "
        "earlier)"
    )
    # Only for a user who may read both namespaces.
    assert found.as_json()["kueue"] == {
        "workload": "mine",
        "localQueue": "main",
        "clusterQueue": "research",
        "ahead": 2,
        "next": ["team-a/earlier", "team-b/secret"],
    }


QUOTES = {
    "the object is elsewhere": (
        "waiting for job team-b/big",
        f"waiting for job {ELSEWHERE}",
    ),
    "an object of the own namespace": (
        "Exceeded the PodsReady timeout team-a/train",
        "Exceeded the PodsReady timeout team-a/train",
    ),
    "a resource and a path of nodes": (
        "short of nvidia.com/gpu on topology.kubernetes.io/rack, /dev/team-b/x",
        "short of nvidia.com/gpu on topology.kubernetes.io/rack, /dev/team-b/x",
    ),
    "a message that was cut": (
        "Preempted to accommodate a workload (UID: 8e0c-1f...",
        "Preempted to accommodate a workload",
    ),
    "two lines": ("one\n  two.", "one two"),
}


@pytest.mark.parametrize("case", QUOTES)
def test_a_message_of_kueue_names_no_object_of_another_namespace(case: str) -> None:
    message, expected = QUOTES[case]
    assert quoted(message, "team-a", {"team-a", "team-b"}) == expected


def test_while_the_namespaces_are_unknown_every_pair_may_be_an_object_elsewhere() -> None:
    assert quoted("after other/thing", "team-a", None) == f"after {ELSEWHERE}"


def test_a_long_message_is_cut() -> None:
    found = quoted("x" * 5000, "team-a", None)
    assert (len(found), found[-3:]) == (300, "...")


def test_a_prebuilt_workload_is_found_by_its_name() -> None:
    named = job(annotations={"kueue.x-k8s.io/prebuilt-workload-name": "mine"}, uid="another")
    found = health(queued_facts(workload("mine", owner="nothing")), named)
    assert found.kueue_workload == ("team-a", "mine")


def test_the_workload_of_an_elastic_job_is_the_newest_that_has_not_ended() -> None:
    ended = workload("third", condition("Finished", "OutOfSync", status=True), created="12:00:00")
    found = health(queued_facts(workload("first", created="09:00:00"), workload("second", created="10:00:00"), ended))
    assert found.kueue_workload == ("team-a", "second")


def test_a_gang_waits_by_the_workload_of_the_object_that_made_its_own() -> None:
    reference = {"apiVersion": "example.com/v1", "kind": "Made", "name": "top", "uid": "job-top", "controller": True}
    known = KueueWorkloads(dict([workload("of-top", owner="top"), workload("of-job", created="08:00:00")]))
    found = health(queued_facts(kueue_workloads=known), job(ownerReferences=[reference]))
    assert found.kueue_workload == ("team-a", "of-top")
