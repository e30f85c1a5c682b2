"""The queue or quota of the gang of a TrainJob, a JobSet, a LeaderWorkerSet or a Job, and the field that names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.texts import require_like
from tests.unit.admission.opted_in.worlds import known, schedulers, validate, with_kai
from tests.unit.worlds import rules
from webhook.admission.decision import doubtful_facts
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import KaiQueue, Quota, VolcanoQueue
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, runtimes, train_job

MINIMUM = "kai.scheduler/batch-min-member"


KAI_QUEUES = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "team-b": KaiQueue("research"),
        "lost": KaiQueue("gone"),
    }
)
QUEUE = "kai.scheduler/queue"


@pytest.mark.parametrize("queue", ["nobody", "research", "lost"])
@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("TrainJob", f"metadata.labels[{QUEUE}]"),
        ("runtime", "spec.runtimeRef.name"),
        ("patch", f"spec.runtimePatches[0].trainingRuntimeSpec.template.metadata.labels[{QUEUE}]"),
        ("proposal", "spec.runtimeRef.name"),
        ("JobSet", f"metadata.labels[{QUEUE}]"),
        ("pods", f"spec.template.metadata.labels[{QUEUE}]"),
        ("LeaderWorkerSet", f"metadata.labels[{QUEUE}]"),
        ("profile", "metadata.labels[kai.scheduler/queue]"),
    ],
)
def test_a_queue_that_accepts_no_gang_is_refused_at_the_field_that_names_it(kind: str, queue: str, at: str) -> None:
    labels = {QUEUE: queue}
    scheduler, facts = "kai-scheduler", known(facts=replace(KAI_QUEUES, cluster_training_runtimes={}))
    settings = with_kai(**({"defaultQueue": queue} if kind == "profile" else {}))
    template = {"trainingRuntimeSpec": {"template": {"metadata": {"labels": labels}}}}
    manifest: Manifest = {
        "TrainJob": train_job(scheduler=scheduler, labels=labels),
        "patch": train_job(scheduler=scheduler, runtimePatches=[template]),
        "JobSet": job_set(scheduler=scheduler, labels=labels),
        "pods": job(scheduler=scheduler, template=pod_template(labels=labels)),
        "LeaderWorkerSet": leader_worker_set(scheduler=scheduler, labels=labels),
        "profile": leader_worker_set(scheduler=scheduler),
    }.get(kind, train_job(scheduler=scheduler))
    brought = {
        "runtime": runtimes(labels=labels),
        "proposal": runtimes(podGroupPolicy={"kaiScheduler": {"queue": queue}}),
    }
    of_runtime = brought.get(kind, runtimes()).cluster_training_runtimes
    verdict = validate(manifest, facts=replace(facts, cluster_training_runtimes=of_runtime), settings=settings)
    found = [one for one in verdict.denials if one.rule == "kai/owner-queue"]
    assert [str(one.at) for one in found] == [at]


def test_an_invalid_queue_name_is_refused() -> None:
    manifest = job(scheduler="kai-scheduler", labels={QUEUE: "No Queue"}, annotations={MINIMUM: "2"})
    assert rules(validate(manifest, facts=known(facts=KAI_QUEUES), settings=with_kai())) == ["kai/owner-queue"]


def test_without_a_queue_kai_uses_its_own_default() -> None:
    verdict = validate(leader_worker_set(scheduler="kai-scheduler"), facts=known(facts=KAI_QUEUES), settings=with_kai())
    assert verdict.findings == ()


@pytest.mark.parametrize(
    ("of_train_job", "of_runtime", "of_pods", "places"),
    [
        ("team-a", None, None, []),
        ("team-a", "team-a", "team-a", []),
        (None, "team-a", "team-a", []),
        ("team-a", "team-b", None, [("spec.template.metadata.labels", "metadata.labels")]),
        (
            "team-a",
            None,
            "team-b",
            [("spec.template.spec.replicatedJobs[0].template.spec.template.metadata.labels", "metadata.labels")],
        ),
        (
            None,
            "team-a",
            "team-b",
            [
                (
                    "spec.template.spec.replicatedJobs[0].template.spec.template.metadata.labels",
                    "ClusterTrainingRuntime torch, spec.template.metadata.labels",
                )
            ],
        ),
    ],
)
def test_conflicting_queues_are_refused_with_both_fields(
    of_train_job: str | None, of_runtime: str | None, of_pods: str | None, places: list[tuple[str, str]]
) -> None:
    def label(queue: str | None) -> dict[str, str]:
        return {} if queue is None else {QUEUE: queue}

    node = replicated("node", template=pod_template(labels=label(of_pods)))
    facts = known(facts=replace(runtimes(node, labels=label(of_runtime)), kai_queues=KAI_QUEUES.kai_queues))
    verdict = validate(
        train_job(scheduler="kai-scheduler", labels=label(of_train_job)), facts=facts, settings=with_kai()
    )
    found = [one for one in verdict.denials if one.rule == "kai/owner-queue-disagree"]
    patterns = [
        f'ClusterTrainingRuntime torch, {at}[{QUEUE}]: ... {first}[{QUEUE}] says "team-a"' for at, first in places
    ]
    require_like([one.why for one in found], patterns)


def test_a_queue_that_is_not_in_the_cache_is_read_live_before_a_refusal() -> None:
    manifest = job(scheduler="kai-scheduler", labels={QUEUE: "new"})
    verdict = validate(manifest, facts=known(facts=KAI_QUEUES), settings=with_kai())
    assert [str(needed) for needed in doubtful_facts(verdict)] == ["KAI Queue new"]


@pytest.mark.parametrize(
    ("key", "queue", "found"),
    [
        ("scheduling.grove.io/volcano-queue", "team-a", []),
        ("scheduling.volcano.sh/queue-name", "team-a", []),
        ("scheduling.volcano.sh/queue-name", "nobody", ["volcano/owner-queue"]),
        ("scheduling.volcano.sh/queue-name", "No Queue", ["volcano/owner-queue-name"]),
        # Kueue's: it queues by itself, and reads a label.
        ("kueue.x-k8s.io/queue-name", "nobody", ["keys/misplaced"]),
    ],
)
def test_a_volcano_queue_can_be_named_by_either_key(key: str, queue: str, found: list[str]) -> None:
    queues = {name: VolcanoQueue("root", "Open") for name in ("default", "team-a")}
    facts = known(facts=ClusterFacts(volcano_queues=queues))
    settings = schedulers({"name": "volcano"})
    assert rules(validate(job(scheduler="volcano", annotations={key: queue}), facts=facts, settings=settings)) == found
    pods = pod_template(annotations={key: queue})
    assert rules(validate(job(scheduler="volcano", template=pods), facts=facts, settings=settings)) == found


def test_a_quota_is_judged_at_the_workload_and_at_its_pods() -> None:
    facts = known(facts=ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False)}))
    label = "quota.scheduling.koordinator.sh/name"
    for manifest in (
        job(labels={label: "gone"}),
        job(annotations={"scheduling.grove.io/koordinator-quota": "gone"}),
        job(template=pod_template(labels={label: "gone"})),
    ):
        assert rules(validate(manifest, facts=facts)) == ["koordinator/owner-quota"]
    assert validate(job(labels={label: "team-a"}), facts=facts).findings == ()
