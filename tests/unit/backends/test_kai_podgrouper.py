"""What podgrouper makes of workloads: where it makes no group, where the group never starts, and what fit packs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, known, validate
from tests.unit.backends.test_kai_packing import KNOWN, packed
from tests.unit.fit.shapes import drawn
from tests.unit.workloads.workloads import mpi_job, pytorch_job, ray_cluster, ray_job, template, view, worker_group
from tests.unit.worlds import settings_of
from webhook.fit.gang_shapes import shapes_of_workload
from webhook.model.findings import Action
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
from webhook.workloads.jobset import JobSet

KAI = "kai-scheduler"
MINIMUM, GRACE = "kai.scheduler/batch-min-member", "kai.scheduler/staleness-grace-period"
REQUIRED, TOPOLOGY = "kai.scheduler/topology-required-placement", "kai.scheduler/topology"
UNGROUPED, ABOVE, STALE, IN_TURN = "kai/owner-ungrouped", "kai/owner-minimum", "kai/owner-stale", "kai/owner-in-turn"
ON_MINIMUM = f"metadata.annotations[{MINIMUM}]"
POLICY = {"schedulingPolicy": {"minAvailable": 9}}
WORKERS = "spec.workerGroupSpecs[0]"


def annotated(value: str, **fields: Any) -> Manifest:
    return job(scheduler=KAI, annotations={MINIMUM: value}, **fields)


def steps(annotations: dict[str, str] | None = None) -> Manifest:
    second = replicated("second", 2, dependsOn=[{"name": "first", "status": "Complete"}])
    return job_set(replicated("first", 1), second, scheduler=KAI, annotations=annotations)


def in_order(annotations: dict[str, str] | None = None) -> Manifest:
    parts = replicated("first", 1), replicated("second", 2)
    order = {"startupPolicyOrder": "InOrder"}
    return job_set(*parts, scheduler=KAI, annotations=annotations, startupPolicy=order)


def of_job(minimum: str | None = None, **spec: Any) -> Manifest:
    metadata = {} if minimum is None else {"metadata": {"annotations": {MINIMUM: minimum}}}
    return job_set(replicated("node", 4, job=spec, **metadata), scheduler=KAI)


def segmented(size: int, segment: int, **policy: Any) -> Manifest:
    manifest = leader_worker_set(size=size, scheduler=KAI)
    manifest["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": segment, **policy}
    return manifest


def near(*, level: str | None = "rack", topology: str | None = "dc") -> Manifest:
    asked = {REQUIRED: level, TOPOLOGY: topology}
    return template(annotations={key: value for key, value in asked.items() if value is not None})


def on_template(key: str, group: str = WORKERS) -> str:
    return f"{group}.template.metadata.annotations[{key}]"


def with_minimum(value: str, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {MINIMUM: value}}}


JOB = "spec.replicatedJobs[0].template"
SPECS = "spec.pytorchReplicaSpecs"
TABLE: dict[str, tuple[Manifest, set[tuple[str, str]]]] = {
    "a minimum that the Job reaches": (annotated("+2"), set()),
    "a minimum of 0": (annotated("0"), {(UNGROUPED, ON_MINIMUM)}),
    "a negative minimum": (annotated("-1"), {(UNGROUPED, ON_MINIMUM)}),
    "a minimum that is no number": (annotated("2 pods"), {(UNGROUPED, ON_MINIMUM)}),
    "a minimum above 32 bits": (annotated("4294967297"), {(UNGROUPED, ON_MINIMUM)}),
    "a minimum above the pods": (annotated("3"), {(ABOVE, ON_MINIMUM)}),
    "a suspended part of no pods": (annotated("3", parallelism=0), set()),
    "a JobSet's minimum that is no number": (with_minimum("half", of_job()), {(UNGROUPED, ON_MINIMUM)}),
    "a Job of a JobSet above its pods": (of_job("5"), {(ABOVE, f"{JOB}.metadata.annotations[{MINIMUM}]")}),
    "a Job of a JobSet with 0": (of_job("0"), {(UNGROUPED, f"{JOB}.metadata.annotations[{MINIMUM}]")}),
    "a Job of a JobSet within its pods": (of_job("3"), set()),
    "fewer completions than parallelism": (of_job(completions=2), {(ABOVE, f"{JOB}.spec.parallelism")}),
    "steps of which one is enough": (steps({MINIMUM: "1"}), {(STALE, ON_MINIMUM)}),
    "steps that are never stale": (steps({MINIMUM: "1", GRACE: "-1s"}), set()),
    "steps that may be stale for long": (steps({MINIMUM: "1", GRACE: "12h"}), set()),
    "steps that may be stale as long as usual": (steps({MINIMUM: "1", GRACE: "60s"}), {(STALE, ON_MINIMUM)}),
    "steps in order": (in_order(), {(STALE, "spec.startupPolicy.startupPolicyOrder")}),
    "steps in order that are never stale": (in_order({GRACE: "-1s"}), set()),
    "two steps in order at once": (in_order({MINIMUM: "2"}), {(IN_TURN, ON_MINIMUM)}),
    "steps that wait for each other": (steps(), {(IN_TURN, ON_MINIMUM)}),
    "parts of which some are enough": (
        job_set(replicated("a"), replicated("b"), scheduler=KAI, annotations={MINIMUM: "1"}),
        {(STALE, ON_MINIMUM)},
    ),
    "one part that starts after two": (
        job_set(
            replicated("a"),
            replicated("b"),
            replicated("c", dependsOn=[{"name": "a", "status": "Complete"}]),
            scheduler=KAI,
            annotations={MINIMUM: "2", GRACE: "-1s"},
        ),
        set(),
    ),
    "segments": (leader_worker_set(size=5, scheduler=KAI, annotations={"kai.scheduler/segment-size": "2"}), set()),
    "one segment of the whole group": (
        leader_worker_set(scheduler=KAI, annotations={"kai.scheduler/segment-size": "3"}),
        set(),
    ),
    "one segment beside the leader, who is counted twice": (
        leader_worker_set(scheduler=KAI, annotations={"kai.scheduler/segment-size": "2"}),
        {(ABOVE, "metadata.annotations[kai.scheduler/segment-size]")},
    ),
    "one segment without the leader": (
        segmented(3, 2, subGroupPolicyType="LeaderExcluded"),
        {(ABOVE, "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize")},
    ),
    "segments of a group whose leader starts first": (
        leader_worker_set(
            size=5, scheduler=KAI, startupPolicy="LeaderReady", annotations={"kai.scheduler/segment-size": "2"}
        ),
        {(UNGROUPED, "metadata.annotations[kai.scheduler/segment-size]")},
    ),
    "segments of one pod": (
        leader_worker_set(scheduler=KAI, annotations={"kai.scheduler/segment-size": "1"}),
        {(UNGROUPED, "metadata.annotations[kai.scheduler/segment-size]")},
    ),
    "more minReplicas than replicas": (
        ray_cluster(worker_group(minReplicas=3), scheduler=KAI),
        {(UNGROUPED, f"{WORKERS}.minReplicas")},
    ),
    "minReplicas without replicas": (
        ray_job(worker_group(replicas=None), scheduler=KAI),
        {(UNGROUPED, "spec.rayClusterSpec.workerGroupSpecs[0].minReplicas")},
    ),
    "a level of no Topology on workers": (
        ray_cluster(worker_group(minReplicas=2, template=near(topology=None)), scheduler=KAI),
        {(UNGROUPED, on_template(REQUIRED))},
    ),
    "a level of no Topology on the head": (
        ray_cluster(worker_group(minReplicas=2), headGroupSpec={"template": near(topology=None)}, scheduler=KAI),
        {(UNGROUPED, "spec.headGroupSpec.template.metadata.annotations[kai.scheduler/topology-required-placement]")},
    ),
    "a Topology without a level on workers": (
        ray_cluster(worker_group(minReplicas=2, template=near(level=None)), scheduler=KAI),
        {("kai/owner-topology-of-jobs", on_template(TOPOLOGY))},
    ),
    "a level that the Topology has": (
        ray_cluster(worker_group(minReplicas=2, template=near()), scheduler=KAI),
        set(),
    ),
    "a level that the Topology lacks": (
        ray_job(worker_group(minReplicas=2, template=near(level="row")), scheduler=KAI),
        {("kai/owner-topology", on_template(REQUIRED, "spec.rayClusterSpec.workerGroupSpecs[0]"))},
    ),
    "a PyTorchJob without a number": (
        pytorch_job(worker=0, scheduler=KAI),
        {(UNGROUPED, f"{SPECS}.Worker.replicas"), ("owner/refused", f"{SPECS}.Worker.replicas")},
    ),
    "a PyTorchJob above its pods": (
        pytorch_job(scheduler=KAI, elasticPolicy={"minReplicas": 6}),
        {(ABOVE, "spec.elasticPolicy.minReplicas")},
    ),
    "an MPIJob above its pods": (
        mpi_job(scheduler=KAI, runPolicy=POLICY),
        {(ABOVE, "spec.runPolicy.schedulingPolicy.minAvailable")},
    ),
    "an MPIJob of launcher and workers": (
        mpi_job(scheduler=KAI, runPolicy={"schedulingPolicy": {"minAvailable": 3}}),
        set(),
    ),
}
# Rules about other things that these workloads have.
_OTHER = ("kai/owner-queue", "kai/ray-minimum", "owner/operator", "owner/name-taken", "kai/owner-no-gang")


@pytest.mark.parametrize(("manifest", "expected"), TABLE.values(), ids=TABLE)
def test_what_podgrouper_makes_no_group_of_or_one_that_never_starts(
    manifest: Manifest, expected: set[tuple[str, str]]
) -> None:
    verdict = validate(manifest, facts=known(facts=KNOWN), settings=settings_of(KAI))
    found = {(finding.rule, str(finding.at)) for finding in verdict.findings if finding.rule not in _OTHER}
    assert found == expected


def of_kai(scheduler: str) -> list[Manifest]:
    """A Job, a JobSet and a RayCluster that are not opted in, whose pods name a scheduler, each with a fault."""
    pods = pod_template({"schedulerName": scheduler})
    order = {"startupPolicyOrder": "InOrder"}
    return [
        job(scheduler=None, annotations={MINIMUM: "all"}, template=pods),
        job_set(
            replicated("a", 1, template=pods), replicated("b", 1, template=pods), scheduler=None, startupPolicy=order
        ),
        ray_cluster(worker_group(minReplicas=3, template=pods), headGroupSpec={"template": pods}, scheduler=None),
    ]


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [(KAI, [[UNGROUPED], [STALE], [UNGROUPED]]), ("yunikorn", [[], [], []])],
)
def test_what_podgrouper_makes_is_judged_where_the_pods_name_kai_alone(
    scheduler: str, expected: list[list[str]]
) -> None:
    findings = [
        validate(manifest, facts=known(facts=KNOWN), settings=settings_of(KAI)).findings
        for manifest in of_kai(scheduler)
    ]
    assert [[one.rule for one in of_one if one.rule.startswith("kai/")] for of_one in findings] == expected


@pytest.mark.parametrize(
    ("version", "minimum", "action"),
    [
        (None, "0", Action.WARN),
        ("0.17.3", "0", Action.DENY),
        ("0.18.0", "0", None),
        ("0.18.0", "-1", Action.DENY),
        (None, "-1", Action.DENY),
        (None, "none", Action.DENY),
    ],
)
def test_a_job_s_minimum_of_0_is_refused_up_to_a_release(
    version: str | None, minimum: str, action: Action | None
) -> None:
    stated: dict[str, Any] = {} if version is None else {"schedulerVersion": version}
    verdict = validate(annotated(minimum), facts=known(facts=KNOWN), settings=settings_of(KAI, **stated))
    found = [finding.action for finding in verdict.findings if finding.rule == UNGROUPED]
    assert found == ([] if action is None else [action])


@pytest.mark.parametrize(
    "manifest",
    [
        pytorch_job(scheduler=KAI, elasticPolicy={"minReplicas": 6}),
        pytorch_job(scheduler=KAI, runPolicy=POLICY),
        mpi_job(scheduler=KAI, runPolicy=POLICY),
    ],
)
def test_a_minimum_that_kai_reads_is_reported_once(manifest: Manifest) -> None:
    verdict = validate(manifest, facts=known(facts=KNOWN), settings=settings_of(KAI))
    (place,) = [finding.at for finding in verdict.findings if finding.rule == ABOVE]
    assert [finding.rule for finding in verdict.findings if finding.at == place] == [ABOVE]


def test_a_minimum_in_a_runtime_is_said_to_be_there() -> None:
    node = replicated("node", 2, metadata={"annotations": {MINIMUM: "9"}})
    facts = replace(runtimes(node), kai_topologies=KNOWN.kai_topologies)
    verdict = validate(train_job(scheduler=KAI), facts=known(facts=facts), settings=settings_of(KAI))
    (finding,) = [finding for finding in verdict.findings if finding.rule == ABOVE]
    assert (str(finding.at), finding.value) == ("spec.runtimeRef.name", "9")
    assert f"spec.template.spec.replicatedJobs[0].template.metadata.annotations[{MINIMUM}]" in finding.why


@pytest.mark.parametrize("version", ["0.16.8", "0.17.0"])
def test_the_remedy_for_steps_names_the_release_that_reads_it(version: str) -> None:
    settings = settings_of(KAI, schedulerVersion=version)
    (finding,) = validate(in_order(), facts=known(facts=KNOWN), settings=settings).findings
    assert (finding.rule, GRACE in finding.remedy, "0.17" in finding.remedy) == (STALE, True, True)
    patient = validate(in_order({GRACE: "-1s"}), facts=known(facts=KNOWN), settings=settings)
    # Before 0.17 podgrouper does not read the annotation.
    assert [found.rule for found in patient.findings] == ([STALE] if version == "0.16.8" else [])


def test_a_minimum_of_a_train_job_is_judged_where_its_author_wrote_it() -> None:
    parts = replicated("a", 1), replicated("b", 1, dependsOn=[{"name": "a", "status": "Complete"}])
    facts = replace(runtimes(*parts), kai_topologies=KNOWN.kai_topologies)

    def judged(**annotations: str) -> list[tuple[str, str]]:
        manifest = train_job(scheduler=KAI, annotations=annotations)
        verdict = validate(manifest, facts=known(facts=facts), settings=settings_of(KAI))
        return [(finding.rule, str(finding.at)) for finding in verdict.findings if finding.rule not in _OTHER]

    assert judged() == [(IN_TURN, ON_MINIMUM)]
    assert judged(**{MINIMUM: "1"}) == [(STALE, ON_MINIMUM)]
    assert judged(**{MINIMUM: "none"}) == [(UNGROUPED, ON_MINIMUM)]
    assert judged(**{MINIMUM: "1", GRACE: "-1s"}) == []


@pytest.mark.parametrize(
    ("manifest", "needs"),
    [
        # With fewer replicas than one group has: the head and one worker of each.
        (ray_cluster(worker_group(replicas=3)), [(2, [("headgroup", 1), ("gpu", 1)])]),
        (ray_cluster(worker_group(minReplicas=0)), [(2, [("headgroup", 1), ("gpu", 2)])]),
        (ray_cluster(worker_group(numOfHosts=4)), [(2, [("headgroup", 1), ("gpu", 4)])]),
        (ray_cluster(worker_group(replicas=3, suspended=True)), [(2, [("headgroup", 1), ("gpu", 1)])]),
        (ray_job(worker_group(replicas=3)), [(2, [("headgroup", 1), ("gpu", 1)])]),
        (pytorch_job(), [(2, [("master", 1), ("worker", 3)])]),
        (pytorch_job(runPolicy={"schedulingPolicy": {"minAvailable": 2}}), [(2, [("master", 1), ("worker", 1)])]),
        (mpi_job(runPolicy={"schedulingPolicy": {"minAvailable": 2}}), [(1, [("worker", 1)])]),
        (mpi_job(), [(1, [("worker", 2)])]),
    ],
)
def test_fit_packs_the_minimum_of_podgrouper(manifest: Manifest, needs: list[Any]) -> None:
    (shape,) = shapes_of_workload(view(manifest))
    assert drawn(packed(shape)) == needs


def test_what_a_group_needs_besides_is_left_out_and_said() -> None:
    def left_out(manifest: Manifest) -> int:
        (shape,) = shapes_of_workload(view(manifest))
        return len(packed(shape).left_out)

    assert left_out(mpi_job()) == 1
    assert left_out(ray_cluster(worker_group(minReplicas=0), enableInTreeAutoscaling=True)) == 1
    assert left_out(ray_cluster()) == 0


@pytest.mark.parametrize(
    ("annotations", "at"),
    [
        ({"gpu-fraction": "0.5"}, None),
        ({"gpu-fraction": "5e-1", "gpu-fraction-num-devices": "2", "mps": "true"}, None),
        ({"gpu-memory": "2000"}, None),
        ({"mps": "false"}, None),
        ({"gpu-fraction": "1"}, "gpu-fraction"),
        ({"gpu-fraction": "0"}, "gpu-fraction"),
        ({"gpu-fraction": "NaN"}, "gpu-fraction"),
        ({"gpu-fraction": "0x1p-2"}, "gpu-fraction"),
        ({"gpu-fraction": "half"}, "gpu-fraction"),
        ({"gpu-memory": "2Gi"}, "gpu-memory"),
        ({"gpu-memory": "0"}, "gpu-memory"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, "gpu-fraction-num-devices"),
        ({"gpu-fraction-num-devices": "2"}, "gpu-fraction-num-devices"),
        ({"mps": "true"}, "mps"),
    ],
)
def test_shares_of_gpus_are_judged_in_sets_and_in_all_other_kinds(annotations: dict[str, str], at: str | None) -> None:
    of_set = pod_clique_set(clique("worker", annotations=annotations), labels={"kai.scheduler/queue": "team-a"})
    of_ray = ray_cluster(worker_group(minReplicas=2, template=template(annotations=annotations)), scheduler=KAI)
    for manifest in (of_set, of_ray):
        verdict = validate(manifest, facts=known(facts=KNOWN), settings=settings_of(KAI))
        found = [finding.at.parts[-1] for finding in verdict.findings if finding.rule == "kai/gpu-sharing"]
        assert found == ([] if at is None else [at])


def test_explain_shows_the_minimum_of_the_group_that_kai_makes() -> None:
    backend = EVERY.profiles[KAI].backend
    cluster = view(ray_cluster(worker_group(replicas=3)))
    assert sorted(backend.own_minimums(cluster).values()) == [1, 1]
    assert dict(EVERY.profiles["volcano"].backend.own_minimums(cluster)) == {}
    assert list(backend.own_minimums(JobSet(of_job("3"))).values()) == [3]
