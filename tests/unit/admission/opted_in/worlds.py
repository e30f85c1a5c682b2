"""Pods as the controllers of TrainJob, JobSet, LeaderWorkerSet and Job create them, and facts about such workloads."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.configurations import configuration_of, settings_from_document
from tests.unit.worlds import request
from webhook import admission
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.workloads.known_workloads import PROJECTIONS

RECORD = "rollcall.dev/scheduler"
_KINDS = {projection.resource.api.kind: projection for projection in PROJECTIONS}


def schedulers(*profiles: Mapping[str, Any], standalone: bool = False, default: str | None = None) -> Settings:
    """Settings with these profiles, of which the first is the default. No pod gate: that has tests of its own."""
    document = configuration_of(*({"gate": False, **profile} for profile in profiles), default=default)
    return settings_from_document(document, standalone=standalone)


EVERY = schedulers(
    {"name": "koord-scheduler"},
    {"name": "volcano"},
    {"name": "kai-scheduler"},
    {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}},
)


def known(*manifests: Manifest, facts: ClusterFacts = NO_FACTS, **namespaces: str) -> ClusterFacts:
    """Facts with these workloads, and namespaces that choose a scheduler."""
    parts: dict[str, dict[Any, Any]] = {projection.part: {} for projection in PROJECTIONS}
    for projection in PROJECTIONS:
        parts[projection.part].update(getattr(facts, projection.part) or {})
    for manifest in manifests:
        projection = _KINDS[manifest["kind"]]
        read = projection.read(deepcopy(manifest))
        assert read is not None
        key, value = read
        parts[projection.part][key] = value
    labelled = {name: Namespace({RECORD: scheduler}) for name, scheduler in namespaces.items()}
    changed: dict[str, Any] = {**parts, "namespaces": labelled}
    return replace(facts, **changed)


def mutate(
    manifest: Manifest, old: Manifest | None = None, *, facts: ClusterFacts = NO_FACTS, settings: Settings = EVERY
) -> tuple[Manifest, Verdict]:
    """An object as mutation leaves it, and the verdict."""
    asked = request(manifest, old)
    verdict = admission.mutate(asked, facts, settings)
    assert asked.object is not None
    return asked.object, verdict


def stored(manifest: Manifest, *, facts: ClusterFacts = NO_FACTS, settings: Settings = EVERY) -> Manifest:
    """An object as it is stored after its creation."""
    return mutate(manifest, facts=facts, settings=settings)[0]


def validate(
    manifest: Manifest, old: Manifest | None = None, *, facts: ClusterFacts = NO_FACTS, settings: Settings = EVERY
) -> Verdict:
    """The verdict on an object that mutation has seen."""
    asked = request(manifest, old)
    admission.mutate(asked, facts, settings)
    return admission.validate(asked, facts, settings)


def _pod(name: str, controller: tuple[str, str, str], labels: dict[str, str], template: Manifest | None) -> Manifest:
    given = deepcopy(template or {})
    version, kind, owner = controller
    metadata = given.get("metadata") or {}
    reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": "1", "controller": True}
    named = {"generateName": name} if name.endswith("-") else {"name": name}
    spec = {"containers": [{"name": "node", "image": "example.com/node"}], "schedulerName": "default-scheduler"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **named,
            "namespace": "default",
            "labels": {**(metadata.get("labels") or {}), **labels},
            **({"annotations": metadata["annotations"]} if metadata.get("annotations") else {}),
            "ownerReferences": [reference],
        },
        "spec": {**spec, **(given.get("spec") or {})},
    }


def recorded(scheduler: str = "koord-scheduler", **labels: str) -> Manifest:
    """What is left of a pod template once the workload's scheduler is recorded in it."""
    return {"metadata": {"labels": {RECORD: scheduler, **labels}}}


def job_pod(job: str, template: Manifest | None = None, **labels: str) -> Manifest:
    """A pod of a Job."""
    own = {"batch.kubernetes.io/job-name": job, **labels}
    return _pod(f"{job}-", ("batch/v1", "Job", job), own, template)


def job_set_pod(job_set: str, part: str, index: int = 0, template: Manifest | None = None) -> Manifest:
    """A pod of one of a JobSet's Jobs."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": job_set,
        "jobset.sigs.k8s.io/replicatedjob-name": part,
        "jobset.sigs.k8s.io/job-index": str(index),
    }
    return job_pod(f"{job_set}-{part}-{index}", template, **labels)


def leader_pod(lws: str, group: int, template: Manifest | None = None, revision: str = "5f8") -> Manifest:
    """The leader of a LeaderWorkerSet's group, before LeaderWorkerSet's own webhook has seen it."""
    labels = {
        "leaderworkerset.sigs.k8s.io/name": lws,
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
    }
    return _pod(f"{lws}-{group}", ("apps/v1", "StatefulSet", lws), labels, template)


def worker_pod(lws: str, group: int, index: int, template: Manifest | None = None, revision: str = "5f8") -> Manifest:
    """A worker of a LeaderWorkerSet's group, before LeaderWorkerSet's own webhook has seen it."""
    labels = {
        "leaderworkerset.sigs.k8s.io/name": lws,
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
    }
    return _pod(f"{lws}-{group}-{index}", ("apps/v1", "StatefulSet", f"{lws}-{group}"), labels, template)


def with_kai(version: str | None = None, **config: Any) -> Any:
    stated = {} if version is None else {"schedulerVersion": version}
    return schedulers({"name": "kai-scheduler", "config": config, **stated})
