"""Which Workload of Kueue stands for a gang, among many that name the same owner."""

from __future__ import annotations

from tests.unit.gangs.judged_gangs import whole
from tests.unit.gangs.queued_gangs import job, queued_facts
from tests.unit.growth.step_counts import Cost, growing
from webhook.gangs.kueue_hold import workload_of
from webhook.gangs.members import GangPod
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.kueue_objects import KueueWorkload, KueueWorkloads
from webhook.validators.examples import leader_worker_set
from webhook.workloads.job import Job
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of, group_gang

SET = leader_worker_set()
SET["metadata"] |= {"uid": "u-set", "namespace": "team-a"}
SERVE = LeaderWorkerSet(SET)
POD = whole()[0]


def in_group(group: str) -> list[GangPod]:
    return [POD._replace(namespace="team-a", group=group)]


def of_groups(count: int) -> dict[ObjectKey, KueueWorkload]:
    """The Workloads that Kueue makes for so many groups: their names are hashes."""
    return {
        ("team-a", f"lws-{index:05}"): KueueWorkload(job_uid="u-set", component_index=str(index))
        for index in range(count)
    }


def facts_of(known: dict[ObjectKey, KueueWorkload]) -> ClusterFacts:
    return queued_facts(*known.items())


def test_the_workload_of_a_group_is_found_by_the_index_of_the_group_whatever_its_revision() -> None:
    found = workload_of(group_gang(SERVE, "1-5f8"), in_group("1-5f8"), facts_of(of_groups(3)))
    assert found is not None
    assert found.key == ("team-a", "lws-00001")


def test_a_workload_of_another_namespace_that_names_the_owner_is_not_the_gangs() -> None:
    (gang,) = gangs_of(Job(job()))
    forged = {("team-b", "forged"): KueueWorkload(job_uid="job-train")}
    assert workload_of(gang, (), facts_of(forged)) is None


def test_the_workloads_of_many_groups_are_found_in_steps_that_do_not_grow_with_their_square() -> None:
    def work(count: int) -> None:
        known = facts_of(of_groups(count))
        for index in range(count):
            group = f"{index}-5f8"
            assert workload_of(group_gang(SERVE, group), in_group(group), known) is not None

    assert growing(work, 30) == []


def test_forged_workloads_of_one_owner_make_the_judgement_of_its_gangs_no_slower() -> None:
    (gang,) = gangs_of(Job(job()))

    def steps(count: int) -> int:
        many = {("team-a", f"forged-{index}"): KueueWorkload(job_uid="job-train") for index in range(count)}
        facts = queued_facts(kueue_workloads=KueueWorkloads(many))
        cost = Cost(lambda: workload_of(gang, (), facts))
        return cost.runs.total()

    # What is computed once does not count.
    steps(1)
    # A limited number of them is compared.
    assert 0 < steps(1200) == steps(300)
