"""Workloads that another controller runs, by `spec.managedBy`: MultiKueue runs them in another cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, RECORD, known, mutate, stored, validate
from tests.unit.worlds import rules
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import KaiQueue, QueueTree
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, runtimes, train_job
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_gang import no_gang
from webhook.workloads.trainjob import Runtime, TrainJob

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
RUNTIME: Manifest = {"metadata": {"name": "torch"}, "spec": {"template": {"spec": {"replicatedJobs": []}}}}


@pytest.mark.parametrize(
    ("view", "manifest", "own"),
    [
        (Job, job, "kubernetes.io/job-controller"),
        (JobSet, job_set, "jobset.sigs.k8s.io/jobset-controller"),
        (TrainJob, train_job, "trainer.kubeflow.org/trainjob-controller"),
    ],
)
def test_only_a_foreign_controller_is_elsewhere(view: Any, manifest: Any, own: str) -> None:
    assert view(manifest()).managed_elsewhere is None
    assert view(manifest(managedBy=own)).managed_elsewhere is None
    assert view(manifest(managedBy=MULTIKUEUE)).managed_elsewhere == MULTIKUEUE
    assert view(manifest(managedBy="example.com/mine")).managed_elsewhere == "example.com/mine"


@pytest.mark.parametrize("workload", [Job(job(managedBy=MULTIKUEUE)), JobSet(job_set(managedBy=MULTIKUEUE))])
def test_rollcall_makes_no_gang_of_it(workload: Any) -> None:
    found = no_gang(workload)
    assert found is not None
    assert (str(found.at), found.hindrance) == ("spec.managedBy", None)
    assert '"kueue.x-k8s.io/multikueue"' in found.why


def test_the_job_set_of_a_train_job_is_elsewhere_with_it() -> None:
    made = TrainJob(train_job(managedBy=MULTIKUEUE)).job_set(Runtime(RUNTIME))
    assert made.managed_elsewhere == MULTIKUEUE


@pytest.mark.parametrize("manifest", [job(scheduler=None, managedBy=MULTIKUEUE), job_set(managedBy=MULTIKUEUE)])
def test_the_scheduler_is_recorded_for_the_other_cluster(manifest: Manifest) -> None:
    found, _ = mutate(manifest, facts=known(default="koord-scheduler"))
    assert found["metadata"]["labels"][RECORD] == "koord-scheduler"


def test_a_queue_of_the_other_cluster_is_not_looked_for_here() -> None:
    here = ClusterFacts(kai_queues=QueueTree({"default": KaiQueue(None)}), apis=frozenset())
    queued: dict[str, Any] = {"scheduler": "kai-scheduler", "labels": {"kai.scheduler/queue": "theirs"}}
    assert "kai/owner-queue" in rules(validate(job_set(**queued), facts=known(facts=here)))
    verdict = validate(job_set(**queued, managedBy=MULTIKUEUE), facts=known(facts=here))
    assert rules(verdict) == []
    assert [one.rule for one in verdict.unjudged] == ["kai/owner-queue"]


def test_what_is_wrong_in_any_cluster_is_refused() -> None:
    assert rules(validate(job(parallelism=2, completions=5, managedBy=MULTIKUEUE))) == ["owner/completions"]


def test_a_train_job_is_opted_in_by_a_namespace_of_the_other_cluster() -> None:
    facts = known(facts=runtimes(), default="koord-scheduler")
    labelled = stored(train_job(managedBy=MULTIKUEUE), facts=facts, settings=EVERY)
    assert rules(validate(labelled, facts=known(facts=runtimes()))) == []


def test_a_controller_that_is_no_string_is_reported_at_its_place() -> None:
    verdict = validate(job(managedBy=["kueue"]))
    assert [(found.rule, str(found.at)) for found in verdict.findings] == [("owner/shape", "spec.managedBy")]
