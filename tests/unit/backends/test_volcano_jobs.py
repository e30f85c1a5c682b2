"""Volcano Jobs and the PodGroups that operators make for Volcano: their minimums, their queues, and what fit says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import known, validate
from tests.unit.workloads.workloads import (
    deployment,
    mpi_job,
    pytorch_job,
    ray_cluster,
    ray_job,
    spark_application,
    template,
    view,
)
from tests.unit.worlds import settings_of
from webhook.admission.workload_fit import fits_of
from webhook.config.settings import Settings
from webhook.fit.verdict import FitAnswer
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import VolcanoQueue
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.examples import job_set, pod_template, replicated, volcano_job, volcano_task

SMALL = VolcanoQueue("root", "Open", {"cpu": 4000, "memory": 8 * 2**30}, {})
QUEUES = ClusterFacts(
    volcano_queues={
        "root": VolcanoQueue(None, "Open"),
        "small": SMALL,
        "closed": VolcanoQueue("root", "Closed"),
        "teams": VolcanoQueue("root", "Open"),
        "team-a": VolcanoQueue("teams", "Open"),
    }
)
MINIMUM, IN_TURN, QUEUE = "volcano/job-minimum", "volcano/job-in-turn", "volcano/owner-queue"
BY_KUBERAY = {"labels": {"rollcall.dev/scheduler": "volcano", "volcano.sh/queue-name": "nobody"}}


def task(name: str, replicas: int, *, after: str | None = None, cpu: str | None = None, **fields: Any) -> Manifest:
    found = volcano_task(name, replicas, **fields)
    if after is not None:
        found["dependsOn"] = {"name": [after]}
    if cpu is not None:
        found["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return found


def of_job(*tasks: Manifest, **spec: Any) -> Manifest:
    return volcano_job(*tasks, **{"queue": "small", **spec})


def named(manifest: Manifest, **metadata: Any) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def judged(manifest: Manifest, facts: ClusterFacts = QUEUES, settings: Settings | None = None) -> set[tuple[str, str]]:
    verdict = validate(manifest, facts=known(facts=facts), settings=settings or settings_of("volcano"))
    return {(finding.rule, str(finding.at)) for finding in verdict.findings}


HEAD, TAIL = task("head", 4), task("tail", 2, after="head")
IN_OPTIONS = "spec.batchSchedulerOptions.queue"
ON_POLICY = "spec.runPolicy.schedulingPolicy"
TABLE: dict[str, tuple[Manifest, set[tuple[str, str]]]] = {
    "a minimum that its tasks have": (of_job(HEAD, minAvailable=4), set()),
    "a minimum above all tasks": (of_job(HEAD, task("other", 1), minAvailable=6), {(MINIMUM, "spec.minAvailable")}),
    "a negative minimum": (of_job(HEAD, minAvailable=-1), {(MINIMUM, "spec.minAvailable")}),
    "a task above its replicas": (
        of_job(task("head", 2, minAvailable=3), minAvailable=1),
        {(MINIMUM, "spec.tasks[0].minAvailable")},
    ),
    "a minimum without later tasks": (of_job(HEAD, TAIL, minAvailable=1), set()),
    "a minimum of all first pods": (of_job(HEAD, TAIL, minAvailable=4), set()),
    "a minimum with later pods": (of_job(HEAD, TAIL, minAvailable=5), {(IN_TURN, "spec.minAvailable")}),
    "a later task that states a minimum": (
        of_job(task("head", 4, minAvailable=1), task("tail", 2, after="head", minAvailable=1), minAvailable=2),
        {(IN_TURN, "spec.tasks[1].minAvailable")},
    ),
    "a later task that needs none": (
        of_job(task("head", 4, minAvailable=1), task("tail", 2, after="head", minAvailable=0), minAvailable=2),
        set(),
    ),
    "a queue that is missing": (of_job(HEAD, queue="nobody"), {(QUEUE, "spec.queue")}),
    "a queue that is closed": (of_job(HEAD, queue="closed"), {(QUEUE, "spec.queue")}),
    "a queue with children": (of_job(HEAD, queue="teams"), {(QUEUE, "spec.queue")}),
    "no queue, and no default": (volcano_job(HEAD), {(QUEUE, "spec.queue")}),
    "a SparkApplication's queue": (
        spark_application(scheduler="volcano", batchScheduler="volcano", batchSchedulerOptions={"queue": "nobody"}),
        {(QUEUE, IN_OPTIONS), ("owner/operator", "spec.batchScheduler")},
    ),
    "a SparkApplication without a queue": (
        spark_application(scheduler="volcano", batchScheduler="volcano", executor={"instances": 1}),
        {(QUEUE, IN_OPTIONS)},
    ),
    "a SparkApplication of yunikorn": (
        spark_application(scheduler="volcano", batchScheduler="yunikorn"),
        {("owner/gang-unread", "spec.batchScheduler")},
    ),
    "a SparkApplication larger than its queue": (
        spark_application(
            scheduler="volcano",
            batchScheduler="volcano",
            batchSchedulerOptions={"queue": "small"},
            executor={"instances": 1, "cores": 1, "memory": "8g"},
            driver={"cores": 1, "memory": "512m"},
        ),
        {("volcano/owner-spark-queue", IN_OPTIONS)},
    ),
    "a SparkApplication with more than its queue's cores": (
        spark_application(scheduler="volcano", batchScheduler="volcano", batchSchedulerOptions={"queue": "small"}),
        {("volcano/owner-spark-queue", IN_OPTIONS), ("owner/operator", "spec.batchScheduler")},
    ),
    "stated resources within the queue": (
        spark_application(
            scheduler="volcano",
            batchScheduler="volcano",
            batchSchedulerOptions={"queue": "small", "resources": {"cpu": "4"}},
            executor={"instances": 1, "coreRequest": "8"},
        ),
        set(),
    ),
    "a PyTorchJob's queue": (
        pytorch_job(scheduler="volcano", runPolicy={"schedulingPolicy": {"queue": "nobody"}}),
        {(QUEUE, f"{ON_POLICY}.queue"), ("owner/operator", ON_POLICY)},
    ),
    "an MPIJob's queue, and too high a minimum": (
        mpi_job(scheduler="volcano", runPolicy={"schedulingPolicy": {"queue": "closed", "minAvailable": 7}}),
        {
            (QUEUE, f"{ON_POLICY}.queue"),
            ("owner/operator", ON_POLICY),
            ("owner/operator", f"{ON_POLICY}.minAvailable"),
        },
    ),
    "a RayCluster's queue": (
        named(ray_cluster(scheduler=None), **BY_KUBERAY),
        {
            (QUEUE, "metadata.labels[volcano.sh/queue-name]"),
            ("owner/operator", "metadata.labels[volcano.sh/queue-name]"),
        },
    ),
    "a RayJob's queue by its annotation": (
        named(ray_job(scheduler="volcano"), annotations={"scheduling.volcano.sh/queue-name": "small"}),
        set(),
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), TABLE.values(), ids=TABLE)
def test_the_minimum_and_the_queue_of_a_group_that_an_operator_makes(
    manifest: Manifest, expected: set[tuple[str, str]]
) -> None:
    assert judged(manifest) == expected


@pytest.mark.parametrize("scheduler", ["volcano", "kai-scheduler"])
def test_a_group_that_something_else_makes_is_not_in_the_queue_of_the_profile(scheduler: str) -> None:
    facts = ClusterFacts(volcano_queues={"small": SMALL}, kai_queues={})
    settings = settings_of(scheduler, {"defaultQueue": "gone"})
    for manifest in (of_job(HEAD, scheduler=scheduler), spark_application(scheduler=scheduler, batchScheduler="other")):
        rules = {rule for rule, _ in judged(manifest, facts, settings)}
        assert not rules & {"volcano/owner-queue", "kai/owner-queue", "kai/owner-no-queue"}


def partitions(total: int, size: int, **policy: Any) -> Manifest:
    return {"totalPartitions": total, "partitionSize": size, **policy}


@pytest.mark.parametrize(
    ("manifest", "answer"),
    [
        (of_job(task("a", 6, cpu="1")), FitAnswer.NEVER),
        (of_job(task("a", 6, cpu="1"), minAvailable=5), FitAnswer.NEVER),
        (of_job(task("a", 6, cpu="1"), minAvailable=4), FitAnswer.UNKNOWN),
        # Volcano's webhook writes the pods of minPartitions as the minimum of the task.
        (of_job(task("a", 6, cpu="1", partitionPolicy=partitions(3, 2, minPartitions=3))), FitAnswer.NEVER),
        (of_job(task("a", 6, cpu="1", partitionPolicy=partitions(3, 2, minPartitions=2))), FitAnswer.UNKNOWN),
        # At least one pod of the large task is needed: the other has only three.
        (of_job(task("a", 3), task("b", 3, cpu="5"), minAvailable=4), FitAnswer.NEVER),
        (of_job(task("a", 3), task("b", 3, cpu="5"), minAvailable=3), FitAnswer.UNKNOWN),
        # The minimum of each task counts if these are no more than the Job's.
        (of_job(task("a", 3, minAvailable=2), task("b", 3, cpu="5", minAvailable=1), minAvailable=3), FitAnswer.NEVER),
        (of_job(task("a", 2, cpu="1"), task("b", 9, cpu="1", after="a"), minAvailable=2), FitAnswer.UNKNOWN),
    ],
)
def test_fit_counts_what_the_gang_of_a_volcano_job_surely_needs(manifest: Manifest, answer: FitAnswer) -> None:
    settings = settings_of("volcano")
    (fit,) = fits_of(view(manifest, settings), settings.profiles["volcano"], QUEUES, settings)
    assert fit.verdict.answer is answer
    if fit.verdict.witness is not None:
        assert str(fit.verdict.witness.at) == "spec.queue"


@pytest.mark.parametrize(
    "manifest",
    [
        of_job(HEAD, TAIL, minAvailable=6),
        of_job(task("a", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})),
        of_job(task("a", 2, template=pod_template({"schedulerName": "default-scheduler"}))),
    ],
)
def test_no_gang_of_a_volcano_job_is_claimed_that_is_not_known(manifest: Manifest) -> None:
    settings = settings_of("volcano")
    assert fits_of(view(manifest, settings), settings.profiles["volcano"], QUEUES, settings) == []
    assert (
        fits_of(view(of_job(HEAD), settings), settings_of("lpx-scheduler").profiles["lpx-scheduler"], QUEUES, settings)
        == []
    )


CLAIMS = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}


@pytest.mark.parametrize(("scheduler", "system"), [("koord-scheduler", "koordinator"), ("volcano", "volcano")])
def test_resource_claims_are_said_of_every_kind(scheduler: str, system: str) -> None:
    claimed = pod_template(CLAIMS)
    of_set = job_set(replicated("node", template=claimed), scheduler=scheduler)
    of_mpi = mpi_job(scheduler=scheduler)
    of_mpi["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = claimed
    for manifest, at in (
        (of_set, "spec.replicatedJobs[0].template.spec.template.spec.resourceClaims"),
        (of_mpi, "spec.mpiReplicaSpecs.Worker.template.spec.resourceClaims"),
        (of_job(task("a", 2, template=claimed), scheduler=scheduler), "spec.tasks[0].template.spec.resourceClaims"),
    ):
        assert (f"{system}/owner-resource-claims", at) in judged(manifest, settings=settings_of(scheduler))


def test_a_gang_of_volcano_is_said_to_be_unread_by_another_scheduler() -> None:
    assert ("owner/gang-unread", "spec") in judged(
        of_job(HEAD, scheduler="koord-scheduler"), settings=settings_of("koord-scheduler")
    )
    assert judged(deployment(scheduler="volcano", template=template())) == {
        (QUEUE, "metadata.annotations[scheduling.grove.io/volcano-queue]")
    }


def test_explain_shows_what_volcano_surely_needs_of_each_task() -> None:
    settings = settings_of("volcano")
    backend = settings.profiles["volcano"].backend
    manifest = of_job(task("a", 4, minAvailable=2), task("b", 2, minAvailable=1), minAvailable=3)
    assert {str(at): least for at, least in backend.own_minimums(view(manifest, settings)).items()} == {
        "spec.tasks[0].template": 2,
        "spec.tasks[1].template": 1,
    }
    assert not backend.own_minimums(view(of_job(HEAD, TAIL, minAvailable=6), settings))


SHAPE = "volcano/job-shape"


def with_policies(*policies: Manifest) -> Manifest:
    return of_job(task("a", 2), policies=list(policies))


ON_FAILURE = {"event": "PodFailed", "action": "RestartJob"}
REFUSED: dict[str, tuple[Manifest, set[str]]] = {
    "a good Job": (
        of_job(task("a", 2), task("b", 1, after="a"), plugins={"svc": [], "ssh": []}, policies=[ON_FAILURE]),
        set(),
    ),
    "a task without a name": (of_job({**task("a", 1), "name": ""}), set()),
    "a name twice": (of_job(task("a", 2), task("a", 1)), {"spec.tasks[1].name"}),
    "a name that Volcano gives": (of_job(task("default1", 2), {**task("a", 1), "name": None}), {"spec.tasks[1].name"}),
    "a name with capitals": (of_job(task("A_b", 2)), {"spec.tasks[0].name"}),
    "a long name": (of_job(task("a" * 64, 2)), {"spec.tasks[0].name"}),
    "no replicas": (of_job(task("a", 2), task("b", 0)), set()),
    "replicas below 0": (of_job(task("a", 2), task("b", -1)), {"spec.tasks[1].replicas"}),
    "maxRetry below 0": (of_job(task("a", 2), maxRetry=-1), {"spec.maxRetry"}),
    "a time to live below 0": (of_job(task("a", 2), ttlSecondsAfterFinished=-1), {"spec.ttlSecondsAfterFinished"}),
    "an unknown plugin": (of_job(task("a", 2), plugins={"nosuch": []}), {"spec.plugins.nosuch"}),
    "two policies of one event": (
        with_policies(ON_FAILURE, {"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}),
        {"spec.policies[1].events"},
    ),
    "two policies of one exit code": (
        with_policies({"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}),
        {"spec.policies[1].exitCode"},
    ),
    "every event and one": (
        with_policies(ON_FAILURE, {"event": "*", "action": "AbortJob"}),
        {"spec.policies[1].event"},
    ),
    "every event, and an exit code": (
        with_policies({"event": "*", "action": "RestartJob"}, {"exitCode": 137, "action": "AbortJob"}),
        set(),
    ),
    "an event once in one policy": (with_policies({**ON_FAILURE, "events": ["PodFailed"]}), set()),
    "an unknown event": (with_policies({"event": "PodFaild", "action": "AbortJob"}), {"spec.policies[0].event"}),
    "an unknown action": (with_policies({"event": "PodFailed", "action": "Abort"}), {"spec.policies[0].action"}),
    "an event and an exit code": (with_policies({**ON_FAILURE, "exitCode": 3}), {"spec.policies[0]"}),
    "neither of them": (with_policies({"action": "AbortJob"}), {"spec.policies[0]"}),
    "no failure": (with_policies({"exitCode": 0, "action": "AbortJob"}), {"spec.policies[0].exitCode"}),
    "the policy of a task": (
        of_job(task("a", 2, policies=[ON_FAILURE, ON_FAILURE])),
        {"spec.tasks[0].policies[1].event"},
    ),
    "after a task that is missing": (of_job(task("a", 2, after="zz")), {"spec.tasks[0].dependsOn.name[0]"}),
    "after one task twice": (
        of_job(task("a", 2), task("b", 1, dependsOn={"name": ["a", "a"]})),
        {"spec.tasks[1].dependsOn.name[1]"},
    ),
    "no task that starts MPI": (of_job(task("a", 2), plugins={"mpi": ["--worker=a"]}), {"spec.plugins.mpi"}),
    "a task that starts MPI": (of_job(task("master", 1), task("a", 2), plugins={"mpi": []}), set()),
    "the task that starts MPI": (of_job(task("a", 1), plugins={"mpi": ["--port=22", "--master=a"]}), set()),
    "no task": (of_job(tasks=[]), {"spec.tasks"}),
    "a long name of a pod": (named(of_job(task("a", 2)), name="b" * 60), {"metadata.name"}),
    "the longest name of a pod": (named(of_job(task("a", 2)), name="b" * 59), set()),
    "partitions of all replicas": (of_job(task("a", 6, partitionPolicy=partitions(2, 3))), set()),
    "partitions of fewer": (
        of_job(task("a", 8, partitionPolicy=partitions(2, 3))),
        {"spec.tasks[0].partitionPolicy.totalPartitions"},
    ),
    "partitions without pods": (
        of_job(task("a", 6, partitionPolicy=partitions(2, 0))),
        {"spec.tasks[0].partitionPolicy.partitionSize"},
    ),
    "another minimum than its partitions": (
        of_job(task("a", 6, minAvailable=2, partitionPolicy=partitions(2, 3, minPartitions=1))),
        {"spec.tasks[0].partitionPolicy.minPartitions"},
    ),
    "two tiers": (
        of_job(task("a", 2), networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
        {"spec.networkTopology.highestTierName"},
    ),
    "two tiers of partitions": (
        of_job(
            task(
                "a",
                6,
                partitionPolicy=partitions(2, 3, networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
            )
        ),
        {"spec.tasks[0].partitionPolicy.networkTopology.highestTierName"},
    ),
    "volumes": (
        of_job(
            task("a", 2),
            volumes=[{"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/b", "volumeClaim": {}}],
        ),
        set(),
    ),
    "wrong volumes": (
        of_job(
            task("a", 2),
            volumes=[
                {"volumeClaimName": "a"},
                {"mountPath": "/b"},
                {"mountPath": "/b", "volumeClaim": {}},
                {"mountPath": "/c", "volumeClaim": {}, "volumeClaimName": "c"},
                {"mountPath": "/d", "volumeClaimName": "A_b"},
            ],
        ),
        {
            "spec.volumes[0].mountPath",
            "spec.volumes[1].volumeClaimName",
            "spec.volumes[2].mountPath",
            "spec.volumes[3].volumeClaimName",
            "spec.volumes[4].volumeClaimName",
        },
    ),
    "policies that are no list": (of_job(task("a", 2), policies=7), {"spec.policies"}),
    "a plugin that is a name": (of_job(task("a", 2), plugins="svc"), {"spec.plugins"}),
    "a task with a number as policy": (of_job(task("a", 2, policies=[7])), {"spec.tasks[0].policies[0]"}),
    "after itself": (of_job(task("a", 2, after="a")), {"spec.tasks[0].dependsOn.name[0]"}),
    "a cycle": (
        of_job(task("a", 2, after="c"), task("b", 1, after="a"), task("c", 1, after="b")),
        {"spec.tasks[0].dependsOn.name[0]"},
    ),
}


@pytest.mark.parametrize(("manifest", "fields"), REFUSED.values(), ids=REFUSED)
def test_what_volcano_refuses_in_a_job_is_found_at_its_field(manifest: Manifest, fields: set[str]) -> None:
    assert {field for rule, field in judged(manifest) if rule == SHAPE} == fields


@pytest.mark.parametrize(("manifest", "fields"), REFUSED.values(), ids=REFUSED)
def test_what_volcano_refuses_in_a_job_is_found_whichever_scheduler_it_is_for(
    manifest: Manifest, fields: set[str]
) -> None:
    other = named(manifest, labels={SCHEDULER_LABEL: "kai-scheduler"})
    assert {field for rule, field in judged(other, settings=settings_of("kai-scheduler")) if rule == SHAPE} == fields


def test_a_minimum_above_all_pods_is_found_for_another_scheduler_too() -> None:
    other = of_job(HEAD, task("other", 1), minAvailable=6, scheduler="kai-scheduler")
    rules = judged(other, settings=settings_of("kai-scheduler"))
    assert (MINIMUM, "spec.minAvailable") in rules
    assert IN_TURN not in {rule for rule, _ in rules}


def test_a_minimum_is_not_judged_against_an_order_that_cannot_be() -> None:
    circle = of_job(task("a", 2, after="b"), task("b", 2, after="a"), minAvailable=4)
    part = of_job(HEAD, task("a", 2, after="b"), task("b", 2, after="a"), minAvailable=6)
    nobody = of_job(HEAD, task("a", 2, after="nobody"), minAvailable=6)
    for manifest in (circle, part, nobody):
        assert {rule for rule, _ in judged(manifest)} == {SHAPE}


@pytest.mark.parametrize("manifest", [one for one, fields in REFUSED.values() if fields])
def test_what_volcano_refuses_in_a_job_is_denied(manifest: Manifest) -> None:
    assert not validate(manifest, facts=known(facts=QUEUES), settings=settings_of("volcano")).allowed


def test_the_reason_of_a_minimum_below_zero_is_its_sign() -> None:
    verdict = validate(
        of_job(task("a", 2), minAvailable=-1), facts=known(facts=QUEUES), settings=settings_of("volcano")
    )
    (wrong,) = [one for one in verdict.findings if one.rule == MINIMUM]
    assert wrong.why.startswith("a minimum is not below 0")
    assert wrong.instead == (2,)
