"""Trainer's own runtimes: used where nothing else tells the runtimes, and never without saying so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from webhook.config.defaults import default_settings, force_scheduler
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed
from webhook.offline.fact_files import facts_from
from webhook.offline.judgement import STOCK_RUNTIMES, Judgement, add_stock_runtimes, judge
from webhook.offline.manifests import read_text
from webhook.offline.worlds import one_world
from webhook.workloads.kueue_integration import workload_with_pods
from webhook.workloads.trainjob import TrainJob

TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, labels: {rollcall.dev/scheduler: koord-scheduler}}
spec:
  runtimeRef: {name: NAME}
  trainer: {numNodes: 4}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {rollcall.dev/scheduler: koord-scheduler}}
"""
OWN = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed}
spec: {template: {spec: {replicatedJobs: [{name: own}]}}}
"""


def judged(text: str, facts: ClusterFacts = NO_FACTS) -> Judgement:
    documents = read_text(text, "train.yaml")
    settings = force_scheduler(default_settings(), "koord-scheduler")
    known = one_world(facts, documents)
    every = (one for document in documents for one in judge(document.manifest, known, settings))
    (found,) = (one for one in every if one.has_rules)
    return found


def takes_trainers_own(judgement: Judgement) -> bool:
    """Whether a note says that a runtime is taken as Trainer installs it."""
    return any("torch-distributed is taken as Trainer v2.3.0" in note for note in judgement.verdict.notes)


def counts(name: str, facts: ClusterFacts) -> Sequence[tuple[str, int, tuple[str, ...]]]:
    spec = {"runtimeRef": {"name": name}, "trainer": {"numNodes": 4}}
    made = workload_with_pods(TrainJob({"metadata": {"name": "train"}, "spec": spec}), facts)
    return [(part.name, part.pods, part.after) for part in made.parts] if made is not None else []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("torch-distributed", [("node", 4, ())]),
        ("jax-distributed", [("node", 4, ())]),
        ("xgboost-distributed", [("node", 4, ())]),
        # The launcher is one of the four nodes, and waits until the others are ready.
        ("deepspeed-distributed", [("node", 3, ()), ("launcher", 1, ("node",))]),
        ("mlx-distributed", [("node", 3, ()), ("launcher", 1, ("node",))]),
        ("torch-distributed-with-cache", [("dataset-initializer", 1, ()), ("node", 4, ("dataset-initializer",))]),
        (
            "torchtune-llama3.2-1b",
            [
                ("dataset-initializer", 1, ()),
                ("model-initializer", 1, ()),
                ("node", 4, ("dataset-initializer", "model-initializer")),
            ],
        ),
    ],
)
def test_the_pods_of_a_train_job_with_one_of_trainers_runtimes_are_known(
    name: str, parts: list[tuple[str, int, tuple[str, ...]]]
) -> None:
    assert counts(name, add_stock_runtimes(NO_FACTS)) == parts


def test_a_verdict_with_one_of_trainers_runtimes_says_so() -> None:
    found = judged(TRAIN_JOB.replace("NAME", "torch-distributed"))
    assert takes_trainers_own(found)
    assert found.verdict.unjudged == ()


def test_the_runtime_in_the_files_or_in_the_facts_is_used_instead() -> None:
    job = TRAIN_JOB.replace("NAME", "torch-distributed")
    assert takes_trainers_own(judged(job))
    assert not takes_trainers_own(judged(f"{job}---{OWN}"))
    assert not takes_trainers_own(judged(job, facts_from(read_text(OWN, "facts.yaml"))))


def test_an_unknown_runtime_is_not_judged_rather_than_missing() -> None:
    (missing,) = judged(TRAIN_JOB.replace("NAME", "ours")).verdict.unjudged
    assert (missing.rule, missing.needs) == ("owner/runtime", "the ClusterTrainingRuntime ours")
    assert "`kubectl get clustertrainingruntimes.trainer.kubeflow.org -o yaml`" in missing.remedy


def test_runtimes_of_a_cluster_are_not_mixed_with_trainers_own() -> None:
    known = facts_from(read_text(OWN, "facts.yaml"))
    assert add_stock_runtimes(known) is known
    unread = ClusterFacts(unread={"cluster_training_runtimes": "ask for the right"})
    assert add_stock_runtimes(unread) is unread, "the reason why they are unknown is reported instead"


def test_the_names_are_those_that_trainer_installs() -> None:
    assert sorted(STOCK_RUNTIMES) == [
        "deepspeed-distributed",
        "jax-distributed",
        "mlx-distributed",
        "torch-distributed",
        "torch-distributed-with-cache",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
        "xgboost-distributed",
    ]
    assert Needed("cluster_training_runtimes", "jax-distributed").key in STOCK_RUNTIMES
