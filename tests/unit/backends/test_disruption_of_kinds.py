"""The disruption mode of the gangs of each kind of workload on kube-scheduler, and what the other schedulers say to a
workload that asks to be preempted as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY
from tests.unit.backends.kube_gangs import TREE, V1ALPHA2
from tests.unit.workloads import workloads as shaped
from tests.unit.worlds import rules, settings_of, validate
from webhook.config.settings import Settings
from webhook.model.capabilities import DISRUPTION_LABEL
from webhook.model.facts import ClusterFacts
from webhook.model.grove import NEWEST
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.model.workload_record import record_of
from webhook.offline.judgement import kind_of
from webhook.offline.translation import disruption_modes, expected_gangs, gang_objects
from webhook.validators.examples import (
    clique,
    job,
    job_set,
    leader_worker_set,
    pod_clique_set,
    replicated,
    runtimes,
    scaling_group,
    train_job,
)
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

KUBE = "default-scheduler"
GROUPS = [scaling_group("prefill", "worker", replicas=3, minAvailable=1)]
# Workloads whose gangs need every pod that they have, or may get.
WHOLE: dict[str, Manifest] = {
    "PodCliqueSet": pod_clique_set(clique("leader", replicas=1), clique("worker")),
    "PodCliqueSet with scaled gangs": pod_clique_set(clique("router"), clique("worker"), groups=GROUPS),
    "Job": job(scheduler=KUBE),
    "JobSet": job_set(replicated("leader"), replicated("worker"), scheduler=KUBE),
    "LeaderWorkerSet": leader_worker_set(scheduler=KUBE),
    "RayCluster": shaped.ray_cluster(scheduler=KUBE),
    "PyTorchJob": shaped.pytorch_job(scheduler=KUBE),
    "MPIJob": shaped.mpi_job(scheduler=KUBE),
    "SparkApplication": shaped.spark_application(scheduler=KUBE),
    "Deployment": shaped.deployment(scheduler=KUBE),
    "DisaggregatedSet": shaped.disaggregated_set(scheduler=KUBE),
}
_ELASTIC = {"minReplicas": 3, "maxReplicas": 4}
# And those whose gangs have, or may get, more.
SPARE: dict[str, Manifest] = {
    "PodCliqueSet": pod_clique_set(clique("worker", replicas=4, minimum=2)),
    "RayCluster with more than its minimum": shaped.ray_cluster(scheduler=KUBE, enableInTreeAutoscaling=True),
    "RayCluster at its minimum": shaped.ray_cluster(
        shaped.worker_group(minReplicas=2), scheduler=KUBE, enableInTreeAutoscaling=True
    ),
    "PyTorchJob at its minimum": shaped.pytorch_job(scheduler=KUBE, master=None, elasticPolicy=_ELASTIC),
}


def settings(scheduler: str = KUBE, **config: Any) -> Settings:
    """One scheduler, and every kind of workload."""
    return replace(settings_of(scheduler, config), kinds=EVERY.kinds)


ON = settings(gangScheduling=True)
FACTS = ClusterFacts(apis=TREE)


def labelled(manifest: Manifest, mode: str | None) -> Manifest:
    found = deepcopy(manifest)
    if mode is not None:
        found["metadata"].setdefault("labels", {})[DISRUPTION_LABEL] = mode
    return found


def view(manifest: Manifest) -> PodCliqueSet | OptedInWorkload:
    group, _, kind = kind_of(manifest)
    return PodCliqueSet(manifest) if kind == "PodCliqueSet" else ON.kinds.views[group, kind](manifest)


def modes(manifest: Manifest, label: str | None = None) -> list[str]:
    """The modes of the gangs that a workload gets, as `explain` shows them."""
    found = disruption_modes(view(labelled(manifest, label)), ON.profiles[KUBE], FACTS)
    return [str(mode) for mode in found]


def test_a_ray_job_shows_the_mode_of_its_ray_cluster_which_gets_its_labels() -> None:
    assert modes(shaped.ray_job(scheduler=KUBE)) == ["all"]
    assert modes(shaped.ray_job(scheduler=KUBE), "single") == ["single"]
    assert modes(shaped.ray_job(scheduler=KUBE, managedBy="kueue.x-k8s.io/multikueue")) == []


@pytest.mark.parametrize("manifest", WHOLE.values(), ids=WHOLE)
def test_gangs_of_every_kind_that_need_every_pod_are_preempted_whole_unless_their_label_says_otherwise(
    manifest: Manifest,
) -> None:
    assert modes(manifest) == modes(manifest, "auto") == modes(manifest, "all") == ["all"]
    assert modes(manifest, "single") == ["single"]


def test_the_gang_of_a_train_job_follows_the_label_of_the_train_job() -> None:
    facts = replace(runtimes(), apis=TREE)
    for label, expected in ((None, "all"), ("single", "single")):
        workload = view(labelled(train_job(scheduler=KUBE), label))
        assert [str(mode) for mode in disruption_modes(workload, ON.profiles[KUBE], facts)] == [expected]


@pytest.mark.parametrize("manifest", SPARE.values(), ids=SPARE)
def test_gangs_that_may_have_spare_pods_are_not_preempted_whole_unless_their_label_says_so(manifest: Manifest) -> None:
    assert modes(manifest) == ["single"]
    assert modes(manifest, "all") == ["all"]


def objects_of(manifest: Manifest, facts: ClusterFacts) -> Iterator[list[Manifest]]:
    """The objects of each gang of a workload."""
    workload = view(manifest)
    own = record_of(workload, KUBE) if isinstance(workload, PodCliqueSet) else workload.record
    record = replace(own, scheduler=KUBE)
    for gang in expected_gangs(workload, facts, NEWEST):
        yield gang_objects(gang, record, ON.profiles[KUBE], facts)


@pytest.mark.parametrize("apis", [V1ALPHA2, TREE], ids=["1.36", "1.37"])
@pytest.mark.parametrize("manifest", WHOLE.values(), ids=WHOLE)
def test_a_living_gang_of_every_kind_keeps_its_mode_when_its_label_changes(
    manifest: Manifest, apis: frozenset[Api]
) -> None:
    facts, backend = ClusterFacts(apis=apis), ON.profiles[KUBE].backend
    living = list(objects_of(labelled(manifest, "single"), facts))
    assert living
    for live, desired in zip(living, objects_of(labelled(manifest, "all"), facts), strict=True):
        assert desired != live
        settled = backend.settle(desired, live)
        wanted = [backend.adopt(one, other) for one, other in zip(settled, live, strict=True)]
        # Nothing is written, and no event says that something is frozen.
        assert wanted == live
        assert backend.frozen(wanted, live) is None


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "koordinator": ("koord-scheduler", {}),
    "coscheduling": ("scheduler-plugins-scheduler", {}),
    "lpx": ("lpx-scheduler", {}),
    "volcano": ("volcano", {}),
    "kai": ("kai-scheduler", {"defaultQueue": "team-a"}),
}
# They take pods above the minimum one by one, and leave a gang at its minimum whole.
KEEP_THE_MINIMUM = {"volcano", "kai"}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("kind", ["PodCliqueSet", "Job", "RayCluster"])
def test_a_scheduler_that_takes_single_pods_says_so_to_a_workload_that_asks_to_be_preempted_whole(
    name: str, kind: str
) -> None:
    scheduler, config = OTHERS[name]
    given = settings(scheduler, **config)

    def said(manifest: Manifest, mode: str | None) -> bool:
        found = labelled(manifest, mode)
        found["metadata"].setdefault("labels", {})["rollcall.dev/scheduler"] = scheduler
        return f"{name}/disruption-ignored" in rules(validate(found, settings=given))

    assert said(WHOLE[kind], "all") is (name not in KEEP_THE_MINIMUM)
    assert not said(WHOLE[kind], "single")
    assert not said(WHOLE[kind], None)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("manifest", SPARE.values(), ids=SPARE)
def test_every_other_scheduler_takes_spare_pods_one_by_one(name: str, manifest: Manifest) -> None:
    scheduler, config = OTHERS[name]
    found = labelled(manifest, "all")
    found["metadata"]["labels"]["rollcall.dev/scheduler"] = scheduler
    verdict = validate(found, settings=settings(scheduler, **config))
    assert f"{name}/disruption-ignored" in rules(verdict)
