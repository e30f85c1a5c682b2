"""The objects that a PodGang needs, or the reason why it is skipped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.unit.reconciler.opted_in_workloads import job, job_set
from tests.unit.worlds import koordinator, settings_of
from webhook.config.file import settings_from
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.gangs.object_plan import GangPlan, SkipReason, plan
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.known_workloads import WorkloadFacts
from webhook.workloads.opted_in_gang import OptedInGang, gangs_of
from webhook.workloads.opted_in_workload import OptedInWorkload

SETTINGS = koordinator(standalone=False)


def podgang(labels: dict[str, str] | None = None, **metadata: Any) -> PodGang:
    own = {"app.kubernetes.io/part-of": "demo"} if labels is None else labels
    member = {"name": "demo-0-worker", "minReplicas": 2, "podReferences": []}
    return PodGang(
        {
            "metadata": {"name": "demo-0", "namespace": "team-a", "uid": "5f1d", "labels": own, **metadata},
            "spec": {"podgroups": [member]},
        }
    )


def recorded_for(scheduler: str | None, **record: Any) -> ClusterFacts:
    return ClusterFacts(pod_clique_sets={("team-a", "demo"): Record(scheduler, **record)})


def test_the_objects_are_for_the_scheduler_that_the_workload_recorded() -> None:
    planned = plan(podgang(), recorded_for("koord-scheduler"), SETTINGS)
    assert isinstance(planned, GangPlan)
    assert planned.profile.name == "koord-scheduler"
    assert [found["metadata"]["name"] for found in planned.objects] == ["demo-0-worker"]


def test_a_podgang_without_a_workload_names_its_scheduler_itself() -> None:
    planned = plan(podgang({"rollcall.dev/scheduler": "koord-scheduler"}), NO_FACTS, SETTINGS)
    assert isinstance(planned, GangPlan)
    assert plan(podgang({}), NO_FACTS, SETTINGS) is SkipReason.UNRECORDED


ALONE = {
    "leaving": (podgang(deletionTimestamp="2026-01-01T00:00:00Z"), recorded_for("koord-scheduler"), SkipReason.LEAVING),
    "older than Rollcall": (podgang(), recorded_for(None), SkipReason.UNRECORDED),
    "a scheduler that is not enabled": (podgang(), recorded_for("slurm"), SkipReason.NO_PROFILE),
    "written by Grove": (
        podgang({"app.kubernetes.io/part-of": "demo", "grove.io/scheduler-name": "kai-scheduler"}),
        recorded_for("kai-scheduler"),
        SkipReason.GROVE,
    ),
    "written by an external owner": (
        podgang({"app.kubernetes.io/part-of": "demo", "grove.io/external-workload-managed": "true"}),
        recorded_for("koord-scheduler"),
        SkipReason.EXTERNAL,
    ),
}


@pytest.mark.parametrize(("gang", "facts", "why"), ALONE.values(), ids=ALONE)
def test_gangs_of_another_system_are_skipped(gang: PodGang, facts: ClusterFacts, why: SkipReason) -> None:
    assert plan(gang, facts, SETTINGS) is why


@pytest.mark.parametrize("why", [SkipReason.LEAVING, SkipReason.GROVE, SkipReason.EXTERNAL])
def test_an_empty_podgang_that_is_leaving_or_of_another_writer_is_skipped_for_that(why: SkipReason) -> None:
    (gang,) = (gang for gang, _, reason in ALONE.values() if reason is why)
    assert plan(gang, NO_FACTS, SETTINGS, empty=True) is why


@pytest.mark.parametrize("facts", [NO_FACTS, recorded_for("koord-scheduler"), recorded_for(None)])
def test_an_empty_podgang_is_skipped_whatever_is_known_of_its_workload(facts: ClusterFacts) -> None:
    assert plan(podgang(), facts, SETTINGS, empty=True) is SkipReason.EMPTY


@pytest.mark.parametrize("facts", [NO_FACTS, ClusterFacts(pod_clique_sets={})])
def test_the_plan_waits_for_an_unknown_workload(facts: ClusterFacts) -> None:
    with pytest.raises(FactsUnavailable, match="PodCliqueSet team-a/demo "):
        plan(podgang(), facts, SETTINGS)


def test_a_gang_that_its_scheduler_cannot_express_is_not_partly_planned() -> None:
    gang = podgang()
    constraint = {"packConstraint": {"required": "example.com/rack"}}
    gang.raw["spec"]["topologyConstraintGroupConfigs"] = [
        {"name": "g", "podGroupNames": ["demo-0-worker"], "topologyConstraint": constraint}
    ]
    with pytest.raises(Inexpressible):
        plan(PodGang(gang.raw), recorded_for("koord-scheduler"), SETTINGS)


def opted_in_gang(workload: type[OptedInWorkload], raw: dict[str, Any], scheduler: str) -> OptedInGang:
    raw["metadata"]["labels"] = {"rollcall.dev/scheduler": scheduler}
    (found,) = gangs_of(workload(raw))
    return found


def test_the_gang_of_an_opted_in_workload_is_never_empty() -> None:
    gang = opted_in_gang(Job, job(), "koord-scheduler")
    assert plan(gang, NO_FACTS, SETTINGS, empty=True) == plan(gang, NO_FACTS, SETTINGS)


def test_a_job_set_without_a_queue_uses_the_queue_of_its_train_job() -> None:
    made = job_set("x", ("node", 4))
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "x", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    queues = ((VOLCANO_QUEUE, "research"),)
    facts = ClusterFacts(train_jobs={("team-a", "x"): WorkloadFacts(Record("volcano", queues=queues))})
    planned = plan(opted_in_gang(JobSet, made, "volcano"), facts, settings_of("volcano", standalone=False))
    assert isinstance(planned, GangPlan)
    (group,) = planned.objects
    assert (group["spec"]["queue"], group["spec"]["minMember"]) == ("research", 4)
    assert group["metadata"]["labels"]["rollcall.dev/gang"] == "x"


SKIPPED_JOBS: dict[str, tuple[dict[str, Any], str, SkipReason]] = {
    "the gang of its scheduler": ({}, "kai-scheduler", SkipReason.SCHEDULER),
    "a scheduler that is not enabled": ({}, "volcano", SkipReason.NO_PROFILE),
    "suspended": ({"suspend": True}, "koord-scheduler", SkipReason.SUSPENDED),
    "suspended, and claimed besides": (
        {"suspend": True, "scheduling": {"schedulingPolicy": {}}},
        "koord-scheduler",
        SkipReason.SUSPENDED,
    ),
    "a gang of its own controller": ({"scheduling": {"schedulingPolicy": {}}}, "koord-scheduler", SkipReason.CLAIMED),
}


@pytest.mark.parametrize(("spec", "scheduler", "why"), SKIPPED_JOBS.values(), ids=SKIPPED_JOBS)
def test_objects_of_a_job_that_are_not_rollcall_s_are_skipped(
    spec: dict[str, Any], scheduler: str, why: SkipReason
) -> None:
    document = configuration_of("koord-scheduler", "kai-scheduler")
    gang = opted_in_gang(Job, job(**spec), scheduler)
    assert plan(gang, NO_FACTS, settings_from(document, "test")) is why


def test_a_job_whose_scheduler_has_no_gangs_needs_no_objects() -> None:
    planned = plan(opted_in_gang(Job, job(), "default-scheduler"), NO_FACTS, SETTINGS)
    assert isinstance(planned, GangPlan)
    assert planned.objects == []
