"""How workloads of declared kinds are admitted: the choice, the record, and what refuses them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from tests.texts import is_like
from tests.unit.admission.opted_in.worlds import EVERY, known, mutate, stored, validate
from tests.unit.workloads.workloads import (
    RECORD,
    deployment,
    disaggregated_set,
    mpi_job,
    pytorch_job,
    ray_cluster,
    ray_job,
    spark_application,
    template,
    volcano_job,
    worker_group,
    workload,
)
from tests.unit.worlds import request
from webhook import admission
from webhook.admission.decision import required_facts
from webhook.errors import TooManyParts
from webhook.model.facts import NO_FACTS
from webhook.model.keys import Needed
from webhook.model.reading import Manifest
from webhook.validators.examples import stateful_set

OPTED_IN = known(default="koord-scheduler")
# What KAI's podgrouper does with such a workload.
GROUPED_OTHERWISE = {
    ("kai-scheduler", "RayCluster"): {"kai/ray-minimum"},
    ("kai-scheduler", "RayJob"): {"kai/ray-minimum"},
    # Volcano makes the gang of its own Job.
    **{
        (scheduler, "Job"): {"owner/gang-unread"}
        for scheduler in ("koord-scheduler", "kai-scheduler", "default-scheduler")
    },
}


def _marked(manifest: Manifest) -> list[str]:
    """The paths of the labels that mutation writes."""
    before = deepcopy(manifest)
    found, verdict = mutate(manifest, facts=OPTED_IN)
    assert jsonpatch.apply_patch(before, list(verdict.patch)) == found
    assert mutate(found, facts=OPTED_IN)[1].patch == (), "a second call changes nothing"
    return sorted(".".join(path) for path in _labelled(found, ()))


def _labelled(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        if RECORD in value:
            assert value[RECORD] == "koord-scheduler"
            yield path
        for key, below in value.items():
            yield from _labelled(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _labelled(below, (*path, str(index)))


@pytest.mark.parametrize(
    ("manifest", "paths"),
    [
        (
            ray_cluster(scheduler=None),
            ["headGroupSpec.template.metadata.labels", "workerGroupSpecs.0.template.metadata.labels"],
        ),
        (
            # The operator copies the labels of a RayJob to its RayCluster.
            ray_job(scheduler=None, submitterPodTemplate=template()),
            [
                "rayClusterSpec.headGroupSpec.template.metadata.labels",
                "rayClusterSpec.workerGroupSpecs.0.template.metadata.labels",
            ],
        ),
        (
            pytorch_job(scheduler=None),
            [
                "pytorchReplicaSpecs.Master.template.metadata.labels",
                "pytorchReplicaSpecs.Worker.template.metadata.labels",
            ],
        ),
        (mpi_job(scheduler=None), ["mpiReplicaSpecs.Worker.template.metadata.labels"]),
        (spark_application(scheduler=None), ["driver.labels", "executor.labels"]),
        (
            disaggregated_set(scheduler=None),
            [
                *(f"roles.{index}.metadata.labels" for index in (0, 1)),
                *(f"roles.{index}.spec.leaderWorkerTemplate.workerTemplate.metadata.labels" for index in (0, 1)),
            ],
        ),
        (volcano_job(scheduler=None), []),
    ],
)
def test_a_namespace_opts_a_workload_in_and_the_record_is_written_where_its_pods_get_it(
    manifest: Manifest, paths: list[str]
) -> None:
    assert _marked(manifest) == sorted(["metadata.labels", *(f"spec.{path}" for path in paths)])


@pytest.mark.parametrize("make", [deployment, stateful_set])
def test_a_namespace_does_not_opt_in_what_is_a_gang_only_on_request(make: Any) -> None:
    assert _marked(make(scheduler=None)) == []
    asked = request(make(scheduler=None))
    assert required_facts(asked, NO_FACTS, kinds=EVERY.kinds) == ()
    assert _marked(make()) == ["metadata.labels", "spec.template.metadata.labels"]


def test_the_namespace_of_a_new_workload_is_read_before_it_is_chosen_for() -> None:
    asked = request(ray_cluster(scheduler=None))
    assert required_facts(asked, NO_FACTS, kinds=EVERY.kinds) == (Needed("namespaces", "default"),)


def test_an_update_keeps_the_record_in_the_templates() -> None:
    """`kubectl apply` replaces the whole list of worker groups by the user's, in which it is missing."""
    before = stored(ray_cluster(scheduler=None), facts=OPTED_IN)
    after = ray_cluster(worker_group(replicas=3), worker_group("more"), scheduler=None)
    found, _ = mutate(after, before, facts=OPTED_IN)
    assert found["metadata"]["labels"] == {RECORD: "koord-scheduler"}
    templates = [group["template"] for group in found["spec"]["workerGroupSpecs"]]
    templates.append(found["spec"]["headGroupSpec"]["template"])
    assert [one["metadata"] for one in templates] == [{"labels": {RECORD: "koord-scheduler"}}] * 3


@pytest.mark.parametrize("make", [ray_cluster, ray_job, pytorch_job, spark_application, disaggregated_set])
def test_the_user_s_manifest_applied_again_changes_nothing(make: Any) -> None:
    """A changed template would be a rollout of a DisaggregatedSet, and a second cluster of a RayService."""
    before = stored(make(scheduler=None), facts=OPTED_IN)
    assert mutate(make(scheduler=None), before, facts=OPTED_IN)[0] == before


@pytest.mark.parametrize("make", [ray_cluster, pytorch_job, spark_application, disaggregated_set, deployment])
def test_an_update_changes_no_template_without_the_record(make: Any) -> None:
    """The controller would replace its pods."""
    before = make()
    found, verdict = mutate(deepcopy(before), before, facts=OPTED_IN)
    assert (found, verdict.patch) == (before, ())


def test_an_older_workload_stays_as_it_is() -> None:
    old = ray_cluster(scheduler=None)
    found, verdict = mutate(old, old, facts=OPTED_IN)
    assert (found, verdict.patch) == (old, ())
    assert validate(old, old, facts=OPTED_IN).allowed


def test_a_part_of_a_workload_is_no_workload_of_its_own() -> None:
    """A StatefulSet of a LeaderWorkerSet, labelled by a user: the gang is that of the LeaderWorkerSet."""
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "demo", "controller": True}
    made = stateful_set()
    made["metadata"]["ownerReferences"] = [{**owner, "uid": "1"}]
    assert mutate(made)[1].patch == ()
    assert validate(made).allowed


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (
            spark_application(dynamicAllocation={"enabled": True}),
            "owner/incomplete at spec.dynamicAllocation.enabled: true: Spark ... executors ...",
        ),
        (
            stateful_set(),
            "owner/incomplete at spec.podManagementPolicy: null: ... with podManagementPolicy Parallel",
        ),
        (
            ray_cluster(worker_group(template={"spec": {"containers": [], "schedulerName": "volcano"}})),
            "owner/scheduler-name at spec.workerGroupSpecs[0].template.spec.schedulerName",
        ),
    ],
)
def test_what_never_starts_is_refused(manifest: Manifest, message: str) -> None:
    verdict = validate(manifest)
    assert not verdict.allowed
    assert is_like(str(verdict.denials[0]), f"{message}...")


@pytest.mark.parametrize(
    "manifest",
    [ray_cluster(), ray_job(), pytorch_job(), mpi_job(), spark_application(), disaggregated_set(), volcano_job()],
    ids=lambda one: one["kind"],
)
@pytest.mark.parametrize("scheduler", ["koord-scheduler", "volcano", "kai-scheduler", "default-scheduler"])
def test_a_usual_workload_has_no_refusal_on_any_scheduler(manifest: Manifest, scheduler: str) -> None:
    manifest = deepcopy(manifest)
    manifest["metadata"]["labels"] = {RECORD: scheduler, "kai.scheduler/queue": "team-a"}
    verdict = validate(manifest)
    assert verdict.allowed, verdict.denials
    assert {one.rule for one in verdict.findings} == GROUPED_OTHERWISE.get((scheduler, manifest["kind"]), set())


@pytest.mark.parametrize(
    ("manifest", "at", "remedy"),
    [
        (ray_cluster(worker_group(replicas="2")), "spec.workerGroupSpecs[0].replicas", "write a whole number"),
        (ray_cluster(suspend={}), "spec.suspend", "write a string or a whole number or true or false"),
        (ray_cluster(workerGroupSpecs=[None]), "spec.workerGroupSpecs[0]", "write an object"),
        (ray_cluster(workerGroupSpecs="many"), "spec.workerGroupSpecs", "write a list"),
        (
            pytorch_job(pytorchReplicaSpecs={"Worker": {"replicas": True}}),
            "spec.pytorchReplicaSpecs.Worker.replicas",
            "write a whole number",
        ),
        (
            ray_cluster(worker_group(template={"metadata": {"labels": ["a"]}})),
            "spec.workerGroupSpecs[0].template.metadata.labels",
            "write a map of strings",
        ),
        (spark_application(executor={"labels": ["a"]}), "spec.executor.labels", "write a map of strings"),
        (disaggregated_set() | {"metadata": {"labels": []}}, "metadata.labels", "write a map of strings"),
    ],
)
def test_a_field_of_the_wrong_type_is_reported_with_its_place(manifest: Manifest, at: str, remedy: str) -> None:
    verdict = validate(manifest)
    assert [(one.rule, str(one.at), one.remedy) for one in verdict.denials] == [("owner/shape", at, remedy)]


def test_too_many_parts_are_not_judged() -> None:
    many = ray_cluster(*({"groupName": f"g{index}"} for index in range(10_001)))
    with pytest.raises(TooManyParts, match=r"workerGroupSpecs\[\*\]"):
        admission.validate(request(many), NO_FACTS, EVERY)


def test_another_kind_with_the_same_name_is_not_this_kind() -> None:
    other = workload("ray.example.com/v1", "RayCluster", {"workerGroupSpecs": "anything"})
    assert validate(other).findings == ()


@pytest.mark.parametrize("scheduler", ["koord-scheduler", "kai-scheduler"])
@pytest.mark.parametrize(
    ("instances", "rule"), [(3, "owner/operator"), (2, "owner/operator"), (1, "owner/gang-unread")]
)
def test_a_gang_that_another_scheduler_reads_is_reported_once_with_its_value(
    scheduler: str, instances: int, rule: str
) -> None:
    asked = spark_application(scheduler=scheduler, batchScheduler="volcano", executor={"instances": instances})
    findings = [one for one in validate(asked, facts=OPTED_IN).findings if str(one.at) == "spec.batchScheduler"]
    assert [(one.rule, one.value) for one in findings] == [(rule, "volcano")]
