"""The ClusterTrainingRuntimes that Kubeflow Trainer installs, as far as rules read them.

Without a cluster most TrainJobs name one of these, and without its runtime the gang of a TrainJob is unknown. They are
used only if nothing else tells the runtimes, and every verdict that rests on one says so.

Source: kubeflow/trainer, manifests/base/runtimes, v2.3.0 (the data-cache runtime is an optional overlay of the same).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from webhook.model.admission_request import Request
from webhook.model.facts import ClusterFacts
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.kinds import TRAIN_JOBS
from webhook.model.workloads.trainjob import ANCESTOR, TrainJob

VERSION = "v2.3.0"
_PART = "cluster_training_runtimes"


def _replicated(name: str, step: str | None = None, after: Mapping[str, str] | None = None) -> Manifest:
    """A replicated Job with one pod, for a step of the TrainJob, which starts after others reach a status."""
    metadata = {} if step is None else {"metadata": {"labels": {ANCESTOR: step}}}
    pod = {"spec": {"containers": [{"name": "node" if step in {None, "trainer"} else step}]}}
    waits = {} if not after else {"dependsOn": [{"name": one, "status": status} for one, status in after.items()]}
    return {"name": name, **waits, "template": {**metadata, "spec": {"template": pod}}}


def _runtime(name: str, policy: Manifest, *jobs: Manifest) -> Manifest:
    spec = {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": {"replicatedJobs": list(jobs)}}}
    return {"metadata": {"name": name}, "spec": spec}


def _plain(name: str, policy: Manifest) -> Manifest:
    return _runtime(name, policy, _replicated("node", "trainer"))


def _mpi(name: str) -> Manifest:
    launcher = _replicated("launcher", "trainer", {"node": "Ready"})
    return _runtime(name, {"mpi": {"runLauncherAsNode": True}}, _replicated("node"), launcher)


def _initialized(name: str, *initializers: str) -> Manifest:
    """A runtime whose trainer starts when the initializers are complete."""
    first = [_replicated(one, one) for one in initializers]
    return _runtime(
        name, {"torch": {}}, *first, _replicated("node", "trainer", dict.fromkeys(initializers, "Complete"))
    )


_DATA, _MODEL = "dataset-initializer", "model-initializer"
STOCK_RUNTIMES: Mapping[str, Any] = MappingProxyType(
    {
        str(runtime["metadata"]["name"]): runtime
        for runtime in (
            _plain("torch-distributed", {"torch": {}}),
            _plain("jax-distributed", {"jax": {}}),
            _plain("xgboost-distributed", {"xgboost": {}}),
            _mpi("deepspeed-distributed"),
            _mpi("mlx-distributed"),
            _initialized("torch-distributed-with-cache", _DATA),
            _initialized("torchtune-llama3.2-1b", _DATA, _MODEL),
            _initialized("torchtune-llama3.2-3b", _DATA, _MODEL),
            _initialized("torchtune-qwen2.5-1.5b", _DATA, _MODEL),
        )
    }
)


def with_stock_runtimes(facts: ClusterFacts) -> ClusterFacts:
    """Return the facts with Trainer's own runtimes, if the cluster-wide runtimes are unknown or only known in part."""
    known, partial = facts.cluster_training_runtimes, facts.partial or frozenset()
    unread = facts.unread or {}
    if (known is not None and _PART not in partial) or _PART in unread:
        return facts
    return replace(facts, cluster_training_runtimes={**STOCK_RUNTIMES, **(known or {})}, partial=partial | {_PART})


def assumed(request: Request, facts: ClusterFacts) -> tuple[str, ...]:
    """Return a note if a TrainJob is judged with one of Trainer's own runtimes, else nothing."""
    if request.kind[::2] != (TRAIN_JOBS.api.group, TRAIN_JOBS.api.kind):
        return ()
    try:
        needed = TrainJob(request.object or {}, request.namespace).runtime
    except Malformed:
        # The rules report what is wrong with the object.
        return ()
    stock = STOCK_RUNTIMES.get(needed.name)
    if stock is None or needed.part != _PART or (facts.cluster_training_runtimes or {}).get(needed.name) is not stock:
        return ()
    told = f"the {needed} is taken as Trainer {VERSION} installs it"
    return (f"{told}; add the cluster's own to the files, or use --facts or --live",)
