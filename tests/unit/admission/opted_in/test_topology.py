"""Topology that TrainJobs, JobSets, LeaderWorkerSets and Jobs ask for: what is refused, where, and what gangs get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, known, schedulers, validate, with_kai
from webhook.backends.base import Backend
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import HyperNode, KaiLevels, TopologyLayer
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, runtimes, train_job
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of

KEY, REQUIRED, PREFERRED = (
    f"kai.scheduler/topology{end}" for end in ("", "-required-placement", "-preferred-placement")
)
ZONE, RACK = "example.com/zone", "example.com/rack"
RACKS = ClusterFacts(kai_topologies={"dc": KaiLevels((ZONE, RACK), {"rack": RACK})})
SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
MODE, TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"
LAYERS = ClusterFacts(
    network_topologies={
        "default": (
            TopologyLayer("SpineLayer", None, (RACK,)),
            TopologyLayer("NodeTopologyLayer", "SpineLayer", ()),
        )
    }
)
TIERS = ClusterFacts(hyper_nodes={"rack-1": HyperNode(1, "rack"), "zone-1": HyperNode(2, "zone")})
VOLCANO = schedulers({"name": "volcano", "config": {"topology": "hypernode"}})


def near(topology: str = "dc", **levels: str) -> dict[str, str]:
    keys = {"required": REQUIRED, "preferred": PREFERRED}
    return {KEY: topology, **{keys[name]: level for name, level in levels.items()}}


def gather(layer: str, strategy: str = "MustGather") -> str:
    return f'{{"gatherStrategy":[{{"layer":"{layer}","strategy":"{strategy}"}}]}}'


def tier(number: str) -> dict[str, str]:
    return {MODE: "hard", TIER: number}


def said(manifest: Manifest, facts: ClusterFacts, settings: Any = EVERY) -> list[tuple[str, str, Action]]:
    """What the rules about topology find: the rule, the field, and the action."""
    verdict = validate(manifest, facts=facts, settings=settings)
    return [(one.rule, str(one.at), one.action) for one in verdict.findings if "topology" in one.rule]


KAI: dict[str, tuple[dict[str, str], list[tuple[str, str, Action]]]] = {
    "a level": (near(required=RACK), []),
    "an alias of a level": (near(required="rack"), []),
    "a narrower preference": (near(required=ZONE, preferred=RACK), []),
    "a Topology that does not exist": (
        near("racks", required=RACK),
        [("kai/owner-topology", f"metadata.annotations[{KEY}]", Action.DENY)],
    ),
    "a level that does not exist": (
        near(required="example.com/row"),
        [("kai/owner-topology", f"metadata.annotations[{REQUIRED}]", Action.DENY)],
    ),
    "a broader preference": (
        near(required=RACK, preferred=ZONE),
        [("kai/owner-topology", f"metadata.annotations[{PREFERRED}]", Action.DENY)],
    ),
    "no level": (near(), [("kai/owner-topology", f"metadata.annotations[{KEY}]", Action.DENY)]),
    "no Topology": (
        {REQUIRED: RACK},
        [("kai/owner-topology-unnamed", f"metadata.annotations[{REQUIRED}]", Action.WARN)],
    ),
}


@pytest.mark.parametrize("build", [job, job_set, leader_worker_set, train_job])
@pytest.mark.parametrize("case", KAI)
def test_kai_topology_of_a_workload_is_judged_like_that_of_a_pod_group(build: Any, case: str) -> None:
    annotations, expected = KAI[case]
    facts = known(facts=replace(runtimes(), kai_topologies=RACKS.kai_topologies))
    assert said(build(scheduler="kai-scheduler", annotations=annotations), facts) == expected


def test_the_topology_of_a_train_job_is_judged_without_its_runtime() -> None:
    found = train_job(scheduler="kai-scheduler", annotations=near("racks", required=RACK))
    facts = known(facts=RACKS)
    assert said(found, facts) == [("kai/owner-topology", f"metadata.annotations[{KEY}]", Action.DENY)]


@pytest.mark.parametrize("of_runtime", [True, False])
def test_the_job_set_of_a_train_job_wins_and_is_reported_at_the_field_of_the_train_job(of_runtime: bool) -> None:
    wrong = {KEY: "racks"}
    metadata = {"metadata": {"annotations": wrong}}
    patches: dict[str, Any] = (
        {} if of_runtime else {"runtimePatches": [{"trainingRuntimeSpec": {"template": metadata}}]}
    )
    found = train_job(scheduler="kai-scheduler", annotations=near(required=RACK), **patches)
    made = runtimes(annotations=wrong if of_runtime else None)
    verdict = validate(found, facts=known(facts=replace(made, kai_topologies=RACKS.kai_topologies)))
    (finding,) = [one for one in verdict.findings if one.rule == "kai/owner-topology"]
    patch = f"spec.runtimePatches[0].trainingRuntimeSpec.template.metadata.annotations[{KEY}]"
    assert str(finding.at) == ("spec.runtimeRef.name" if of_runtime else patch)
    assert finding.why.startswith("ClusterTrainingRuntime torch: ") is of_runtime


OF_JOBS: dict[str, tuple[str | None, dict[str, str], list[str]]] = {
    "a level": (None, near(required=RACK), []),
    "a missing level": (None, near(required="row"), ["kai/owner-topology"]),
    "no Topology": (None, {REQUIRED: RACK}, ["kai/owner-topology-of-jobs"]),
    "no level": (None, near(), ["kai/owner-topology-of-jobs"]),
    "a level before 0.16": ("0.15.2", near(required=RACK), ["kai/owner-topology-of-jobs"]),
}


@pytest.mark.parametrize("case", OF_JOBS)
def test_kai_topology_of_the_jobs_of_a_job_set(case: str) -> None:
    version, annotations, expected = OF_JOBS[case]
    found = job_set(replicated("node", metadata={"annotations": annotations}), scheduler="kai-scheduler")
    said_of = said(found, known(facts=RACKS), with_kai(version))
    assert [(rule, field.partition("[kai")[0]) for rule, field, _ in said_of] == [
        (rule, "spec.replicatedJobs[0].template.metadata.annotations") for rule in expected
    ]


def test_podgrouper_makes_no_group_of_a_workload_that_it_skips() -> None:
    skipped = {"kai.scheduler/skip-podgrouper": "true", **near("racks", required=RACK)}
    assert said(job(scheduler="kai-scheduler", annotations=skipped), known(facts=RACKS)) == []


ELSEWHERE: dict[str, tuple[Manifest, ClusterFacts, list[str]]] = {
    "KAI's with Koordinator": (job(annotations=near(required=RACK)), RACKS, [KEY, REQUIRED]),
    "Koordinator's with KAI": (job(scheduler="kai-scheduler", annotations={SPEC: gather("SpineLayer")}), RACKS, [SPEC]),
    "Volcano's with kube-scheduler": (job(scheduler="default-scheduler", annotations=tier("1")), TIERS, [MODE, TIER]),
    "KAI's on pods": (
        job(scheduler="kai-scheduler", template=pod_template(annotations=near(required=RACK))),
        RACKS,
        [KEY, REQUIRED],
    ),
    "KAI's on the workers of a LeaderWorkerSet": (
        leader_worker_set(scheduler="kai-scheduler", worker=pod_template(annotations={KEY: "dc"})),
        RACKS,
        [],
    ),
    "Koordinator's on a TrainJob": (train_job(annotations={SPEC: gather("SpineLayer")}), LAYERS, [SPEC]),
    "Koordinator's on the Jobs of a JobSet": (
        job_set(replicated("node", metadata={"annotations": {SPEC: gather("SpineLayer")}})),
        LAYERS,
        [SPEC],
    ),
    "Koordinator's on pods": (job(template=pod_template(annotations={SPEC: gather("SpineLayer")})), LAYERS, []),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_topology_where_the_scheduler_does_not_read_it_is_a_warning(case: str) -> None:
    manifest, facts, keys = ELSEWHERE[case]
    found = [
        (rule, action, field.rpartition("[")[2][:-1]) for rule, field, action in said(manifest, known(facts=facts))
    ]
    assert found == [("owner/topology-unread", Action.WARN, key) for key in keys]


KOORDINATOR: dict[str, tuple[str, ClusterFacts, list[tuple[str, Action]]]] = {
    "a layer": (gather("SpineLayer"), LAYERS, []),
    "a layer that is not declared": (gather("RackLayer"), LAYERS, [("koordinator/owner-topology", Action.WARN)]),
    "a preferred layer that is not declared": (gather("RackLayer", "PreferGather"), LAYERS, []),
    "no ClusterNetworkTopology": (
        gather("SpineLayer"),
        ClusterFacts(network_topologies={}),
        [("koordinator/owner-topology", Action.WARN)],
    ),
    "another strategy": (
        gather("SpineLayer", "mustGather"),
        LAYERS,
        [("koordinator/owner-topology-unread", Action.WARN)],
    ),
    "no JSON": ("SpineLayer", LAYERS, [("koordinator/owner-topology-unread", Action.WARN)]),
}


@pytest.mark.parametrize("case", KOORDINATOR)
def test_koordinator_topology_is_judged_like_that_of_a_pod_group(case: str) -> None:
    written, facts, expected = KOORDINATOR[case]
    at = f"metadata.annotations[{SPEC}]"
    assert said(job(annotations={SPEC: written}), known(facts=facts)) == [(rule, at, how) for rule, how in expected]


def objects(workload: Any, settings: Any, facts: ClusterFacts) -> list[Manifest]:
    """The gang objects of a workload's first gang."""
    (profile,) = [one for name, one in settings.profiles.items() if name != "default-scheduler"]
    backend: Backend[Any] = profile.backend
    return backend.gang_objects(next(iter(gangs_of(workload))), workload.record, facts)


KOORD = schedulers({"name": "koord-scheduler"})


def test_the_pod_groups_of_koordinator_get_the_topology_of_the_workload() -> None:
    found = JobSet(job_set(replicated("a"), replicated("b"), annotations={SPEC: gather("SpineLayer")}))
    made = objects(found, KOORD, LAYERS)
    assert [one["metadata"]["annotations"][SPEC] for one in made] == [gather("SpineLayer")] * 2


def test_the_pod_groups_of_koordinator_get_the_topology_of_the_pods() -> None:
    pods = pod_template(annotations={SPEC: gather("SpineLayer")})
    (made,) = objects(LeaderWorkerSet(leader_worker_set(leader=pods, worker=pods)), KOORD, LAYERS)
    assert made["metadata"]["annotations"][SPEC] == gather("SpineLayer")


def test_parts_of_one_gang_with_different_topologies_are_warned_of_and_get_none() -> None:
    pods = pod_template(annotations={SPEC: gather("SpineLayer")})
    steps = [replicated("a"), replicated("b", template=pods)]
    at = f"spec.replicatedJobs[1].template.spec.template.metadata.annotations[{SPEC}]"
    assert said(job_set(*steps), known(facts=LAYERS)) == [("koordinator/owner-topology-differs", at, Action.WARN)]
    assert [SPEC in one["metadata"]["annotations"] for one in objects(JobSet(job_set(*steps)), KOORD, LAYERS)] == [
        False,
        False,
    ]
    # In turn, each is its own gang.
    in_turn = job_set(*steps, startupPolicy={"startupPolicyOrder": "InOrder"})
    assert said(in_turn, known(facts=LAYERS)) == []
    assert SPEC not in objects(JobSet(in_turn), KOORD, LAYERS)[0]["metadata"]["annotations"]


@pytest.mark.parametrize("facts", [LAYERS, ClusterFacts(network_topologies={})])
def test_a_layer_that_does_not_exist_is_left_out_of_the_pod_groups(facts: ClusterFacts) -> None:
    found = JobSet(job_set(annotations={SPEC: gather("RackLayer")}))
    assert SPEC not in objects(found, KOORD, facts)[0]["metadata"]["annotations"]


def test_no_pod_group_is_made_while_the_layers_are_unknown() -> None:
    with pytest.raises(Inexpressible):
        objects(JobSet(job_set(annotations={SPEC: gather("RackLayer")})), KOORD, ClusterFacts())


TIERED: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "a tier": (tier("2"), []),
    "a tier above all": (tier("3"), [("volcano/owner-topology", TIER)]),
    "tier 0": (tier("0"), [("volcano/owner-topology", TIER)]),
    "no number": (tier("rack"), [("volcano/owner-topology", TIER)]),
    "no tier": ({MODE: "hard"}, [("volcano/owner-topology", MODE)]),
    "soft": ({MODE: "Soft"}, []),
}


@pytest.mark.parametrize("case", TIERED)
def test_volcano_topology_is_judged_like_that_of_a_pod_group(case: str) -> None:
    annotations, expected = TIERED[case]
    found = job(scheduler="volcano", annotations=annotations)
    assert said(found, known(facts=TIERS), VOLCANO) == [
        (rule, f"metadata.annotations[{key}]", Action.WARN) for rule, key in expected
    ]


def test_volcano_topology_without_the_plugin_is_a_warning_and_is_not_written() -> None:
    off = schedulers({"name": "volcano"})
    found = job_set(scheduler="volcano", annotations=tier("1"))
    at = f"metadata.annotations[{MODE}]"
    assert said(found, known(facts=TIERS), off) == [("volcano/owner-topology-off", at, Action.WARN)]
    assert "networkTopology" not in objects(JobSet(found), off, TIERS)[0]["spec"]


def test_the_pod_group_of_volcano_gets_the_topology_of_the_workload_and_of_its_parts() -> None:
    pods = pod_template(annotations=tier("1"))
    found = job_set(replicated("a"), replicated("b", template=pods), scheduler="volcano", annotations=tier("2"))
    (made,) = objects(JobSet(found), VOLCANO, TIERS)
    assert made["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}
    first, second = made["spec"]["subGroupPolicy"]
    assert "networkTopology" not in first
    assert second["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}


@pytest.mark.parametrize("number", ["0", "-1", "3"])
def test_a_tier_that_volcano_cannot_follow_is_left_out_of_the_pod_group(number: str) -> None:
    (made, *_) = objects(JobSet(job_set(scheduler="volcano", annotations=tier(number))), VOLCANO, TIERS)
    assert "networkTopology" not in made["spec"]


def test_the_topology_that_trainers_volcano_plugin_writes_is_judged_at_the_runtime() -> None:
    facts = runtimes(podGroupPolicy={"volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 3}}})
    facts = known(facts=replace(facts, hyper_nodes=TIERS.hyper_nodes))
    verdict = validate(train_job(scheduler="volcano"), facts=facts, settings=VOLCANO)
    (found,) = [one for one in verdict.findings if one.rule == "volcano/owner-topology"]
    assert str(found.at) == "spec.runtimeRef.name"
    assert found.why.startswith("ClusterTrainingRuntime torch, spec.podGroupPolicy.volcano.networkTopology: the widest")
