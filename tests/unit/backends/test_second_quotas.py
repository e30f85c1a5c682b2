"""Queues and quotas of the schedulers that limit a gang which Kueue has already counted, and KAI's fixed minimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.admission.opted_in.worlds import schedulers
from tests.unit.worlds import validate
from webhook.backends.kai.keys import QUEUE_FACTS as KAI_QUEUES
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.backends.volcano.keys import QUEUE_FACTS as VOLCANO_QUEUES
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import ElasticQuotas, KaiQueue, QueueTree, Quota, VolcanoQueue
from webhook.model.kueue import KueueSettings
from webhook.model.kueue_objects import ClusterQueue, LocalQueue
from webhook.model.projections import Projection
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, runtimes, train_job

QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
WELL = ClusterFacts(
    local_queues={("default", "research"): LocalQueue("gpus", active=True)},
    cluster_queues={"gpus": ClusterQueue(active=True)},
    kai_queues=QueueTree(
        {
            "limited": KaiQueue(None, limit={"gpu": 8000}),
            "below": KaiQueue("limited"),
            "free": KaiQueue("root"),
            "root": KaiQueue(None),
            "default-queue": KaiQueue("limited"),
            "circle": KaiQueue("circle"),
        }
    ),
    volcano_queues=QueueTree(
        {
            "root": VolcanoQueue(None, "Open", {"cpu": 4000}),
            "default": VolcanoQueue("root", "Open"),
            "capped": VolcanoQueue("root", "Open", {"cpu": 4000}),
        }
    ),
    elastic_quotas=ElasticQuotas(
        {"max": Quota(is_parent=False, max={"cpu": 4000}), "free": Quota(is_parent=False)},
    ),
)
KAI, QUOTA = "kai.scheduler/queue", "quota.scheduling.koordinator.sh/name"


def told(manifest: Manifest, facts: ClusterFacts = WELL, kueue: KueueSettings | None = None) -> list[tuple[str, str]]:
    scheduler = manifest["metadata"]["labels"]["rollcall.dev/scheduler"]
    settings = replace(schedulers({"name": scheduler}), kueue=kueue or KueueSettings())
    found = validate(manifest, settings=settings, facts=facts).findings
    return [(one.rule, one.why) for one in found if one.rule.startswith("kueue/")]


def _on(scheduler: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Manifest:
    return job_set(scheduler=scheduler, labels={**QUEUED, **(labels or {})}, annotations=annotations)


def _volcano(queue: str) -> Manifest:
    return _on("volcano", annotations={"scheduling.volcano.sh/queue-name": queue})


@pytest.mark.parametrize(
    ("manifest", "limit"),
    [
        (_on("kai-scheduler", {KAI: "limited"}), 'the KAI Queue "limited" has a limit'),
        (_on("kai-scheduler", {KAI: "below"}), 'the KAI Queue "limited", which is above "below", has a limit'),
        (_on("kai-scheduler", {KAI: "free"}), None),
        (_on("kai-scheduler", {KAI: "circle"}), None),
        (_on("kai-scheduler"), 'the KAI Queue "limited", which is above "default-queue", has a limit'),
        (_volcano("capped"), 'the Volcano Queue "capped" has a limit'),
        (_volcano("default"), None),
        (_on("koord-scheduler", {QUOTA: "max"}), 'the ElasticQuota "max" has a limit'),
        (_on("koord-scheduler", {QUOTA: "free"}), None),
        (_on("koord-scheduler"), None),
    ],
)
def test_a_second_quota_is_told(manifest: Manifest, limit: str | None) -> None:
    expected = Text(f", and {limit}, too: ")
    assert told(manifest) == ([] if limit is None else [("kueue/two-quotas", expected)])


def test_a_scheduler_s_own_limit_without_kueue_is_no_matter() -> None:
    assert told(job_set(scheduler="kai-scheduler", labels={KAI: "limited"})) == []


def test_the_queue_of_a_train_job_is_that_of_its_job_set() -> None:
    known = runtimes(labels={"rollcall.dev/scheduler": "kai-scheduler"})
    facts = replace(WELL, cluster_training_runtimes=known.cluster_training_runtimes)
    manifest = train_job(scheduler="kai-scheduler", labels={**QUEUED, KAI: "limited"})
    assert [rule for rule, _ in told(manifest, facts)] == ["kueue/two-quotas"]


@pytest.mark.parametrize(
    ("projection", "spec", "limited"),
    [
        (KAI_QUEUES, {"resources": {"gpu": {"limit": -1, "quota": 4}}}, False),
        (KAI_QUEUES, {"resources": {"gpu": {"limit": -1}, "cpu": {"limit": 4000}}}, True),
        (KAI_QUEUES, {"resources": {"gpu": {"quota": 4}}}, False),
        (KAI_QUEUES, {}, False),
        (VOLCANO_QUEUES, {"capability": {"cpu": "4"}}, True),
        (VOLCANO_QUEUES, {"weight": 1}, False),
        (ELASTIC_QUOTAS, {"max": {"cpu": "4"}, "min": {}}, True),
        (ELASTIC_QUOTAS, {"min": {"cpu": "4"}}, False),
    ],
)
def test_a_limit_is_kept_of_a_queue(projection: Projection, spec: dict[str, Any], limited: bool) -> None:
    read = projection.read({"metadata": {"name": "team", "namespace": "default"}, "spec": spec})
    assert read is not None
    assert read[1].limited is limited


def _least(minimum: str, **annotations: str) -> Manifest:
    stated = {"kai.scheduler/batch-min-member": minimum}
    stated |= {f"kueue.x-k8s.io/job-{key.replace('_', '-')}": value for key, value in annotations.items()}
    labels = {**QUEUED, KAI: "free"}
    counts: dict[str, Any] = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
    return job(scheduler="kai-scheduler", labels=labels, annotations=stated, **counts)


@pytest.mark.parametrize(
    ("manifest", "kueue", "expected"),
    [
        (_least("4"), None, []),
        (_least("1"), None, []),
        (_least("x"), None, []),
        (_least("2"), None, ["kueue/kai-ready-minimum"]),
        (_least("2"), KueueSettings(pods_ready_seconds=None), []),
        (_least("4", min_parallelism="2"), None, ["kueue/kai-minimum"]),
        (_least("2", min_parallelism="2"), None, []),
    ],
)
def test_the_minimum_of_kai_is_held_against_kueue_s_counts(
    manifest: Manifest, kueue: KueueSettings | None, expected: list[str]
) -> None:
    assert [rule for rule, _ in told(manifest, kueue=kueue)] == expected
