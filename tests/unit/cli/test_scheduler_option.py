"""`--scheduler NAME` judges as the label does, rule by rule, for every kind and every scheduler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from webhook.config.defaults import default_settings, force_scheduler
from webhook.config.settings import Settings
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.model.projections import key_of
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.offline.judgement import judge, kind_of, objects_in
from webhook.offline.manifests import Document, read_file
from webhook.offline.report_summary import rules_by_id
from webhook.offline.worlds import one_world
from webhook.validators.examples import (
    disaggregated_set,
    job,
    job_set,
    leader_worker_set,
    ray_cluster,
    replicated,
    runtimes,
    stateful_set,
    train_job,
)
from webhook.validators.registry import Example, Subject

EVERY = replace(default_settings(), standalone=True)
SCHEDULERS = tuple(EVERY.profiles)
SETS = ("grove.io", "PodCliqueSet")
SAMPLES = os.environ.get("ROLLCALL_SAMPLES")
_PLAIN = {"containers": [{"name": "main", "image": "example.com/main"}]}


def _other(kind: str, group: str, **spec: Any) -> Manifest:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "demo", "namespace": "default"}, "spec": spec}


def _replicas(name: str, number: int) -> dict[str, Any]:
    return {name: {"replicas": number, "template": {"spec": _PLAIN}}}


KINDS = {
    "Job": job(scheduler=None),
    "JobSet": job_set(scheduler=None),
    "JobSet in order": job_set(
        replicated("a"), replicated("b"), scheduler=None, startupPolicy={"startupPolicyOrder": "InOrder"}
    ),
    "LeaderWorkerSet": leader_worker_set(scheduler=None),
    "RayCluster": ray_cluster(scheduler=None),
    "DisaggregatedSet": disaggregated_set(scheduler=None),
    "TrainJob": train_job(scheduler=None),
    "PyTorchJob": _other("PyTorchJob", "kubeflow.org/v1", pytorchReplicaSpecs=_replicas("Worker", 4)),
    "MPIJob": _other(
        "MPIJob", "kubeflow.org/v2beta1", mpiReplicaSpecs={**_replicas("Launcher", 1), **_replicas("Worker", 2)}
    ),
    "Volcano Job": _other(
        "Job",
        "batch.volcano.sh/v1alpha1",
        minAvailable=2,
        tasks=[{"name": "w", "replicas": 2, "template": {"spec": _PLAIN}}],
    ),
    "StatefulSet": stateful_set(scheduler=None),
}


def _examples() -> Iterator[tuple[str, Example]]:
    """Every example of a rule about whole workloads and their pods."""
    about = {Subject.OPTED_IN, Subject.ANY_WORKLOAD, Subject.WORKLOAD, Subject.POD}
    for rule, _ in rules_by_id().values():
        if rule.subject in about:
            yield f"{rule.id} passes", rule.passes
            yield f"{rule.id} fails", rule.fails


def _labelled(manifest: Manifest, scheduler: str | None, settings: Settings = EVERY) -> Manifest:
    """A manifest whose workloads have this label, or none."""
    labelled = deepcopy(manifest)
    for raw, _ in objects_in(labelled):
        kind = kind_of(raw)[::2]
        if kind == SETS or kind in settings.kinds:
            metadata = raw.setdefault("metadata", {})
            labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != SCHEDULER_LABEL}
            metadata["labels"] = labels if scheduler is None else {**labels, SCHEDULER_LABEL: scheduler}
    return labelled


def _in_namespaces(facts: ClusterFacts, scheduler: str, namespaces: set[str]) -> ClusterFacts:
    """The facts with the label on these namespaces: Trainer copies no label of a TrainJob."""
    return replace(
        facts,
        namespaces={
            **(facts.namespaces or {}),
            **{name: Namespace({SCHEDULER_LABEL: scheduler}) for name in namespaces},
        },
    )


def _said(manifest: Manifest, facts: ClusterFacts, settings: Settings) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for judgement in judge(deepcopy(manifest), facts, settings):
        verdict, kind = judgement.verdict, judgement.kind
        if judgement.is_workload:
            found += [(kind, one.rule, str(one.at), str(one.value), str(one.action)) for one in verdict.findings]
            found += [(kind, one.rule, str(one.at), "not judged") for one in verdict.unjudged]
            found.append((kind, verdict.scheduler or "", "" if verdict.omission is None else verdict.omission.reason))
    return sorted(found)


def _asks(manifest: Manifest) -> bool:
    """Whether the option takes every workload for a gang: services only if they ask for one."""
    return not any(kind_of(raw).kind in {"Deployment", "StatefulSet"} for raw, _ in objects_in(manifest))


def _agree(manifest: Manifest, facts: ClusterFacts, settings: Settings, scheduler: str) -> None:
    forced = force_scheduler(settings, scheduler)
    jobs = {
        raw["metadata"].get("namespace", "default")
        for raw, _ in objects_in(manifest)
        if kind_of(raw).kind == "TrainJob"
    }
    bare = _said(_labelled(manifest, None), facts, forced)
    # Trainer copies no label of a TrainJob, so its namespace needs it, too.
    opted_in = _in_namespaces(facts, scheduler, jobs) if jobs else facts
    assert bare == _said(_labelled(manifest, scheduler), opted_in, settings)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_option_judges_a_workload_of_each_kind_as_its_label_does(kind: str, scheduler: str) -> None:
    if _asks(KINDS[kind]):
        _agree(KINDS[kind], runtimes() if kind == "TrainJob" else NO_FACTS, EVERY, scheduler)
    naming = deepcopy(KINDS[kind])
    naming_pods(naming, "volcano")
    _agree(naming, runtimes() if kind == "TrainJob" else NO_FACTS, EVERY, scheduler)


def naming_pods(value: Any, scheduler: str) -> None:
    """Let every pod template name a scheduler."""
    if isinstance(value, dict):
        if "containers" in value:
            value["schedulerName"] = scheduler
        for below in value.values():
            naming_pods(below, scheduler)
    elif isinstance(value, list):
        for below in value:
            naming_pods(below, scheduler)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_option_judges_every_example_of_a_rule_as_its_label_does(scheduler: str) -> None:
    names = [name for name, example in _examples() if _asks(example.object)]
    assert len(names) > 150
    for _, example in _examples():
        if _asks(example.object):
            _agree(example.object, example.facts, EVERY, scheduler)


@pytest.mark.exhaustive
@pytest.mark.skipif(SAMPLES is None, reason="ROLLCALL_SAMPLES names no folder of samples")
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_option_judges_every_sample_as_its_label_does(scheduler: str) -> None:
    assert SAMPLES is not None
    forced = force_scheduler(EVERY, scheduler)
    paths = sorted(path for path in Path(SAMPLES).rglob("*.yaml"))
    assert len(paths) > 100
    for path in paths:
        documents: list[Document] = []
        with suppress(InputError):
            documents = read_file(path)
        if not all(_asks(document.manifest) for document in documents):
            continue
        bare = [replace(one, manifest=_labelled(one.manifest, None)) for one in documents]
        labelled = [replace(one, manifest=_labelled(one.manifest, scheduler)) for one in documents]
        objects = [raw for one in documents for raw, _ in objects_in(one.manifest)]
        jobs = {str(key_of(raw)[0]) for raw in objects if kind_of(raw).kind == "TrainJob"}
        facts = one_world(NO_FACTS, bare, EVERY.kinds)
        opted_in = _in_namespaces(one_world(NO_FACTS, labelled, EVERY.kinds), scheduler, jobs)
        ours = [_said(one.manifest, facts, forced) for one in bare]
        assert ours == [
            _said(one.manifest, opted_in if jobs else replace(opted_in, namespaces=facts.namespaces), EVERY)
            for one in labelled
        ], path


def test_services_that_ask_for_no_gang_are_not_taken_for_gangs() -> None:
    service = stateful_set(scheduler=None)
    web = {**_labelled(service, None), "kind": "Deployment"}
    for manifest in (service, web):
        (judgement,) = judge(deepcopy(manifest), NO_FACTS, force_scheduler(EVERY, "volcano"))
        assert judgement.verdict.omission is not None
        assert (judgement.judged, judgement.verdict.findings) == (False, ())
        naming_pods(manifest, "volcano")
        (judgement,) = judge(deepcopy(manifest), NO_FACTS, force_scheduler(EVERY, "volcano"))
        assert (judgement.judged, judgement.verdict.scheduler) == (True, "volcano")
