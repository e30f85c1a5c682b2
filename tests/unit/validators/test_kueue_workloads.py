"""Jobs, JobSets, LeaderWorkerSets and TrainJobs behind Kueue: what is told of them, and that ordinary use is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.admission.opted_in.worlds import schedulers
from tests.unit.worlds import rules, validate
from webhook.config.settings import Settings
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_objects import PriorityClass
from webhook.model.kueue import KueueSettings
from webhook.model.kueue_objects import ClusterQueue, LocalQueue
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.validators.examples import (
    clique,
    job,
    job_set,
    leader_worker_set,
    pod_clique_set,
    pod_template,
    replicated,
    runtimes,
    train_job,
)

QUEUE = "kueue.x-k8s.io/queue-name"
QUEUED = {QUEUE: "research"}
WELL = ClusterFacts(
    local_queues={("default", "research"): LocalQueue("gpus", active=True)},
    cluster_queues={"gpus": ClusterQueue(active=True)},
)
DEFAULT = KueueSettings()
OFF = KueueSettings(pods_ready_seconds=None, recovery_seconds=None)
SHORT = KueueSettings(pods_ready_seconds=300)
LONG = KueueSettings(pods_ready_seconds=14_400)
UNSCHEDULED = KueueSettings(unscheduled_seconds=300)
STATED = KueueSettings(workload_timeouts=True)
WAITS_SHORT, WAITS_LONG = (
    {"kueue.x-k8s.io/wait-for-pods-ready": f'{{"timeoutSeconds": {seconds}}}'} for seconds in (300, 7200)
)
BLOCKS = KueueSettings(block_admission=True)
COUNTS = KueueSettings(backoff_limit=3)
DELETES = KueueSettings(backoff_limit=3, deletes_deactivated=True)
STEPS = (replicated("one", 1), replicated("two"), replicated("three"))
DOWNLOAD = (
    replicated("download", 1),
    replicated("node", dependsOn=[{"name": "download", "status": "Complete"}]),
)
READY = (replicated("driver", 1), replicated("node", dependsOn=[{"name": "driver", "status": "Ready"}]))
IN_ORDER: dict[str, Any] = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
LEAST = "kueue.x-k8s.io/job-min-parallelism"


def with_kueue(found: KueueSettings, **profile: Any) -> Settings:
    every = (profile or {"name": "koord-scheduler"}, {"name": "default-scheduler"})
    return replace(schedulers(*every), kueue=found)


def told(
    manifest: Manifest,
    kueue: KueueSettings = DEFAULT,
    facts: ClusterFacts = WELL,
    old: Manifest | None = None,
    **profile: Any,
) -> list[str]:
    verdict = validate(manifest, old, settings=with_kueue(kueue, **profile), facts=facts)
    assert verdict.denials == () or all(found.rule == "kueue/preset-key" for found in verdict.denials)
    return [f"{found.rule} {found.at}" for found in verdict.findings if found.rule.startswith("kueue/")]


AT_QUEUE = f"metadata.labels[{QUEUE}]"
ORDINARY: Mapping[str, Manifest] = {
    "a Job": job(labels=QUEUED),
    "a JobSet": job_set(labels=QUEUED),
    "a JobSet in order": job_set(*STEPS[:2], labels=QUEUED, **IN_ORDER),
    "a JobSet whose workers wait for the driver": job_set(*READY, labels=QUEUED),
    "a LeaderWorkerSet": leader_worker_set(labels=QUEUED),
    "a TrainJob": train_job(labels=QUEUED),
    "a Job with partial admission": job(
        labels=QUEUED, annotations={LEAST: "1", "kueue.x-k8s.io/job-completions-equal-parallelism": "t"}
    ),
}


@pytest.mark.parametrize("manifest", ORDINARY.values(), ids=ORDINARY)
@pytest.mark.parametrize("kueue", [DEFAULT, OFF, LONG], ids=["default", "off", "long"])
@pytest.mark.parametrize("scheduler", ["koord-scheduler", "volcano", "default-scheduler"])
def test_ordinary_use_is_quiet(manifest: Manifest, kueue: KueueSettings, scheduler: str) -> None:
    manifest = {**manifest, "metadata": {**manifest["metadata"]}}
    manifest["metadata"]["labels"] = {**manifest["metadata"]["labels"], "rollcall.dev/scheduler": scheduler}
    facts = replace(
        runtimes(labels={"rollcall.dev/scheduler": scheduler}),
        local_queues=WELL.local_queues,
        cluster_queues=WELL.cluster_queues,
    )
    config = {"gangScheduling": True} if scheduler == "default-scheduler" else {}
    settings = replace(schedulers({"name": scheduler, "config": config}), kueue=kueue)
    verdict = validate(manifest, settings=settings, facts=facts)
    assert [found for found in rules(verdict) if found.startswith("kueue/")] == []
    assert [one.rule for one in verdict.unjudged if one.rule.startswith("kueue/")] == []


@pytest.mark.parametrize(
    ("manifest", "kueue", "expected"),
    [
        (job(labels=QUEUED), SHORT, [f"kueue/ready-timeout {AT_QUEUE}"]),
        (job(labels=QUEUED, parallelism=1, completions=1), SHORT, []),
        (job(labels=QUEUED), UNSCHEDULED, [f"kueue/ready-timeout {AT_QUEUE}"]),
        (job(labels=QUEUED, annotations=WAITS_SHORT), STATED, [f"kueue/ready-timeout {AT_QUEUE}"]),
        (job(labels=QUEUED, annotations=WAITS_SHORT), DEFAULT, []),
        (job(labels=QUEUED, annotations=WAITS_LONG), replace(SHORT, workload_timeouts=True), []),
        (job_set(*DOWNLOAD, labels=QUEUED, annotations=WAITS_LONG), STATED, []),
        (
            job_set(*DOWNLOAD, labels=QUEUED, annotations=WAITS_LONG),
            replace(STATED, unscheduled_seconds=1800),
            ["kueue/ready-in-turn spec.replicatedJobs[1].dependsOn"],
        ),
        (job(), SHORT, []),
        (job(labels=QUEUED), replace(SHORT, frameworks=frozenset({"pod"})), []),
        (job_set(*STEPS, labels=QUEUED, **IN_ORDER), DEFAULT, [f"kueue/ready-timeout {AT_QUEUE}"]),
        (job_set(*STEPS, labels=QUEUED, **IN_ORDER), LONG, []),
        (job_set(*DOWNLOAD, labels=QUEUED), DEFAULT, ["kueue/ready-in-turn spec.replicatedJobs[1].dependsOn"]),
        (job_set(*DOWNLOAD, labels=QUEUED), LONG, []),
        (job_set(*DOWNLOAD, labels=QUEUED), OFF, []),
        (job_set(*DOWNLOAD), DEFAULT, []),
        (job(labels=QUEUED), BLOCKS, [f"kueue/block-admission {AT_QUEUE}"]),
        (job(labels=QUEUED, managedBy="kueue.x-k8s.io/multikueue"), BLOCKS, []),
        (job(labels=QUEUED), replace(BLOCKS, pods_ready_seconds=None), []),
        (leader_worker_set(labels=QUEUED), COUNTS, [f"kueue/gives-up {AT_QUEUE}"]),
        (job(labels=QUEUED), replace(COUNTS, pods_ready_seconds=None), []),
        (
            job(labels=QUEUED, annotations=ELASTIC),
            DEFAULT,
            ["kueue/elastic-job metadata.annotations[kueue.x-k8s.io/elastic-job]"],
        ),
        (job(annotations=ELASTIC), DEFAULT, []),
        (job(labels=QUEUED, annotations={"kueue.x-k8s.io/elastic-job": "false"}), DEFAULT, []),
    ],
)
def test_what_contradicts_kueue_is_told(manifest: Manifest, kueue: KueueSettings, expected: list[str]) -> None:
    assert told(manifest, kueue) == expected


def test_a_scheduler_without_gangs_draws_no_warning_about_gangs() -> None:
    manifest = job(scheduler="default-scheduler", labels=QUEUED, annotations=ELASTIC)
    assert told(manifest, replace(BLOCKS, pods_ready_seconds=60, backoff_limit=1)) == []


def test_a_step_of_a_train_job_is_told_at_its_runtime() -> None:
    facts = replace(
        runtimes(*DOWNLOAD, labels={"rollcall.dev/scheduler": "koord-scheduler"}),
        local_queues=WELL.local_queues,
        cluster_queues=WELL.cluster_queues,
    )
    verdict = validate(train_job(labels=QUEUED), settings=with_kueue(DEFAULT), facts=facts)
    found = [one for one in verdict.findings if one.rule == "kueue/ready-in-turn"]
    assert [str(one.at) for one in found] == ["spec.runtimeRef.name"]
    assert "ClusterTrainingRuntime torch, spec.template.spec.replicatedJobs[1].dependsOn" in found[0].why


OLD, NEW = (Api("kueue.x-k8s.io", version, "LocalQueue") for version in ("v1beta1", "v1beta2"))
# The stated release and the versions that the cluster serves; then whether another scheduler is refused, None: unknown.
LIBRARY: dict[str, tuple[str | None, frozenset[Api] | None, bool | None]] = {
    "0.19 is stated": ("0.19", None, True),
    "0.20 is stated": ("0.20", None, False),
    "what is stated comes first": ("0.20", frozenset({OLD, NEW}), False),
    "both versions are served": (None, frozenset({OLD, NEW}), True),
    "only the newer version is served": (None, frozenset({NEW}), False),
    "nothing is known": (None, None, None),
}


@pytest.mark.parametrize("case", LIBRARY)
def test_a_scheduler_in_the_template_is_refused_only_up_to_the_release_that_ignores_it(case: str) -> None:
    stated, apis, refused = LIBRARY[case]
    release = None if stated is None else Version.parse(stated)
    rack = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    template = pod_template({"schedulerName": "koord-scheduler"}, annotations=rack)
    verdict = validate(
        job(labels=QUEUED, template=template),
        settings=with_kueue(KueueSettings(scheduler_library=True, release=release)),
        facts=replace(WELL, apis=apis),
    )
    at = "spec.template.spec.schedulerName"
    found = [str(one.at) for one in verdict.denials if one.rule == "kueue/scheduler-library"]
    unknown = [str(one.at) for one in verdict.unjudged if one.rule == "kueue/scheduler-library"]
    assert (found, unknown) == ([at] if refused else [], [at] if refused is None else [])


@pytest.mark.parametrize(("name", "expected"), [("urgent", 1), ("default", 0)])
def test_the_priority_class_that_kueue_writes_itself_is_not_told(name: str, expected: int) -> None:
    labels = {**QUEUED, "kueue.x-k8s.io/priority-class": name}
    facts = replace(WELL, priority_classes={"high": PriorityClass(1000, is_default=False)})
    assert (
        told(job(labels=labels), facts=facts)
        == ["kueue/priority metadata.labels[kueue.x-k8s.io/priority-class]"][:expected]
    )


def test_a_deleted_job_is_named() -> None:
    verdict = validate(job(labels=QUEUED), settings=with_kueue(DELETES), facts=WELL)
    assert [found.why for found in verdict.findings] == [Text("the 4. time", "after 30m", "koord-scheduler")]


def test_a_setting_of_kueue_is_told_at_creation_only() -> None:
    found = job(labels=QUEUED)
    labelled = job(labels={**QUEUED, "team": "a"})
    every = replace(SHORT, block_admission=True, backoff_limit=1)
    assert len(told(found, every)) == 3
    assert told(labelled, every, old=found) == []


# The LocalQueue


@pytest.mark.parametrize(
    ("queue", "above", "why"),
    [
        (None, None, Text("no such LocalQueue")),
        (
            LocalQueue("gpus", stop_policy="Hold", active=False),
            ClusterQueue(active=True),
            Text('stopPolicy "Hold"'),
        ),
        (
            LocalQueue("gpus", active=False),
            None,
            'its ClusterQueue "gpus" does not exist, so Kueue keeps the workload suspended',
        ),
        (
            LocalQueue("gpus", active=False),
            ClusterQueue(stop_policy="HoldAndDrain", active=False, reason="Stopped"),
            'its ClusterQueue "gpus" has stopPolicy "HoldAndDrain", so Kueue keeps the workload suspended',
        ),
        (
            LocalQueue("gpus", active=False),
            ClusterQueue(
                active=False, reason="FlavorNotFound", message="references missing ResourceFlavor(s): [secret]"
            ),
            'its ClusterQueue "gpus" is inactive (FlavorNotFound), so Kueue keeps the workload suspended',
        ),
        (
            LocalQueue("gpus", active=False, reason="ClusterQueueIsInactive"),
            ClusterQueue(),
            Text("LocalQueue inactive", "(ClusterQueueIsInactive)"),
        ),
        (LocalQueue("gpus"), ClusterQueue(), ""),
        (LocalQueue("gpus", active=True), ClusterQueue(active=True), ""),
    ],
)
def test_a_queue_that_admits_nothing_is_told(queue: LocalQueue | None, above: ClusterQueue | None, why: str) -> None:
    # A queue of that name in another namespace is no reason to be quiet.
    queues = {("other", "research"): LocalQueue("gpus", active=True)}
    facts = ClusterFacts(
        local_queues=queues if queue is None else {**queues, ("default", "research"): queue},
        cluster_queues={} if above is None else {"gpus": above},
    )
    verdict = validate(job(labels=QUEUED), settings=with_kueue(DEFAULT), facts=facts)
    assert [(found.rule, found.why) for found in verdict.findings] == ([("kueue/local-queue", why)] if why else [])


def test_an_unknown_queue_is_not_judged() -> None:
    verdict = validate(job(labels=QUEUED), settings=with_kueue(DEFAULT), facts=NO_FACTS)
    assert (rules(verdict), [one.rule for one in verdict.unjudged]) == ([], ["kueue/local-queue"])


def test_a_queue_in_a_cluster_without_kueue_is_no_matter() -> None:
    facts = ClusterFacts(apis=frozenset())
    verdict = validate(job(labels=QUEUED), settings=with_kueue(DEFAULT), facts=replace(facts))
    assert [one.rule for one in verdict.unjudged if one.rule.startswith("kueue/")] == []


# Keys in templates


def _preset(**marks: Mapping[str, str]) -> Manifest:
    return job(labels=QUEUED, template=pod_template(**marks))


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (_preset(labels={"kueue.x-k8s.io/podset": "main"}), []),
        (_preset(labels={"kueue.x-k8s.io/podset": "node"}), ["labels[kueue.x-k8s.io/podset]"]),
        (_preset(labels={"kueue.x-k8s.io/cluster-queue-name": "gpus"}), []),
        (
            _preset(labels={"kueue.x-k8s.io/cluster-queue-name": "cpus"}),
            ["labels[kueue.x-k8s.io/cluster-queue-name]"],
        ),
        (
            _preset(annotations={"kueue.x-k8s.io/workload": "job-demo-1"}),
            ["annotations[kueue.x-k8s.io/workload]"],
        ),
        ({**_preset(annotations={"kueue.x-k8s.io/workload": "job-demo-1"}), "status": {"active": 2}}, []),
        (job(template=pod_template(annotations={"kueue.x-k8s.io/workload": "job-demo-1"})), []),
    ],
)
def test_a_key_that_kueue_writes_with_another_value_is_refused(manifest: Manifest, expected: list[str]) -> None:
    assert told(manifest) == [f"kueue/preset-key spec.template.metadata.{place}" for place in expected]


def _waiting(*, suspend: bool = True, **marks: Mapping[str, str]) -> Manifest:
    return job_set(replicated("node", template=pod_template(**marks)), labels=QUEUED, suspend=suspend)


PLACE = "spec.replicatedJobs[0].template.spec.template.metadata"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (_waiting(labels={"a": "1"}), _waiting(labels={"a": "2"}), [f"{PLACE}.labels.a"]),
        (_waiting(annotations={"a": "1"}), _waiting(), [f"{PLACE}.annotations.a"]),
        (_waiting(), _waiting(labels={"kueue.x-k8s.io/podset": "node"}), []),
        (_waiting(suspend=False, labels={"a": "1"}), _waiting(), []),
        (_waiting(labels={"a": "1"}), _waiting(labels={"a": "1"}), []),
    ],
)
def test_a_changed_mark_of_a_suspended_template_is_told(old: Manifest, new: Manifest, expected: list[str]) -> None:
    assert told(new, old=old) == [f"kueue/template-labels {place}" for place in expected]


# Pod groups of PodCliqueSets


def _grouped(minimum: int, **annotations: str) -> Manifest:
    marks = {"kueue.x-k8s.io/pod-group-name": "demo", "kueue.x-k8s.io/pod-group-total-count": "4", **annotations}
    return pod_clique_set(clique("worker", replicas=4, minimum=minimum, labels=QUEUED, annotations=marks))


@pytest.mark.parametrize(
    ("manifest", "kueue", "expected"),
    [
        (_grouped(4), DEFAULT, []),
        (_grouped(2), DEFAULT, ["kueue/ready-minimum spec.template.cliques[0].spec.minAvailable"]),
        (_grouped(2), OFF, []),
        (pod_clique_set(clique("worker", replicas=4, minimum=2)), DEFAULT, []),
    ],
)
def test_a_pod_group_that_runs_with_fewer_pods_is_told(
    manifest: Manifest, kueue: KueueSettings, expected: list[str]
) -> None:
    assert [one for one in told(manifest, kueue) if one.startswith("kueue/ready")] == expected
