"""Whether gangs can ever start, as admission says it: for whom, when, and how often."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.texts import is_like, require_like
from tests.unit.worlds import koordinator, rules, settings_of, validate
from webhook.admission import workload_fit
from webhook.admission.workload_fit import fits_of, gang_fit_of
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.fit.packing import FitSettings, GangFit, Growth
from webhook.fit.verdict import FitAnswer, FitScope
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import PodGangFacts, Quota, TopologyBinding
from webhook.model.kueue_objects import AdmissionCheck, ClusterQueue, LocalQueue
from webhook.model.nodes import Nodes, node_of
from webhook.model.reading import Manifest
from webhook.server.admission_review import MAX_MESSAGE_BYTES, MAX_WARNING_BYTES
from webhook.validators.examples import (
    GPU,
    clique,
    job,
    node,
    nodes,
    pod_clique_set,
    racks,
    replicated,
    required,
    runtimes,
    scaling_group,
    train_job,
)
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import TrainJob

FOUR = nodes(4, gpus=8)
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def of_gpus(pods: int = 2, gpus: str = "8", **fields: Any) -> Manifest:
    return pod_clique_set(clique("worker", replicas=pods, requests={GPU: gpus}), **fields)


def gpu_job(pods: int = 5, gpus: str = "8", **fields: Any) -> Manifest:
    container = {"name": "main", "image": "x", "resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return job(parallelism=pods, completions=pods, template=template, **fields)


def found(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.rule, one.why) for one in verdict.findings if one.rule.startswith("fit/")]


def denying(**rule_actions: str) -> Settings:
    actions = {name.replace("_", "/"): action for name, action in rule_actions.items()}
    document = configuration_of({"name": "koord-scheduler", "gate": False})
    document["enforcement"] = {"rules": actions}
    return replace(settings_from(document, "test"), standalone=True)


def test_a_gang_that_never_fits_is_a_warning_with_its_witness() -> None:
    verdict = validate(of_gpus(5), facts=FOUR)
    assert verdict.allowed
    assert found(verdict) == [("fit/total", "5 pods of 8 nvidia.com/gpu; 4 nodes of 8 take one each")]
    assert verdict.unjudged == validate(of_gpus(5)).unjudged


def test_without_any_fact_about_room_nothing_is_said_and_nothing_is_unjudged() -> None:
    assert found(validate(of_gpus(100_000, "64"))) == []


def test_a_hundred_thousand_pods_of_64_gpus_each_are_found() -> None:
    assert [rule for rule, _ in found(validate(of_gpus(100_000, "64"), facts=FOUR))] == ["fit/node"]


def test_it_denies_where_the_configuration_says_so() -> None:
    verdict = validate(of_gpus(5), facts=FOUR, settings=denying(fit_total="deny"))
    assert not verdict.allowed
    assert rules(verdict)[0] == "fit/total"


def test_one_gang_has_one_finding_and_gangs_with_the_same_proof_share_it() -> None:
    groups = [scaling_group("a", "one", replicas=3), scaling_group("b", "two", replicas=2)]
    cliques = [clique(name, replicas=1, requests={GPU: "16"}) for name in ("one", "two")]
    verdict = validate(pod_clique_set(*cliques, groups=groups), facts=FOUR)
    ((rule, why),) = found(verdict)
    assert rule == "fit/node"
    assert is_like(why, "a pod of one and two requests 16 nvidia.com/gpu; ... has 8")


def test_what_only_the_nodes_there_are_prove_is_silent_where_the_cluster_may_grow() -> None:
    growing = replace(koordinator(), fit=FitSettings(nodes=Growth.MAY_GROW))
    assert found(validate(of_gpus(5), facts=FOUR, settings=growing)) == []
    quota = replace(FOUR, elastic_quotas={"team-a": Quota(is_parent=False, max={GPU: 16})})
    named = of_gpus(3, annotations={"scheduling.grove.io/koordinator-quota": "team-a"})
    assert [rule for rule, _ in found(validate(named, facts=quota, settings=growing))] == ["fit/quota"]


def test_an_update_is_warned_of_only_if_its_spec_changed() -> None:
    old = of_gpus(5)
    same = deepcopy(old)
    same["metadata"]["labels"] = {"team": "a"}
    assert found(validate(same, old, facts=FOUR)) == []
    assert len(found(validate(of_gpus(6), old, facts=FOUR))) == 1


def test_an_update_of_a_set_that_has_gangs_is_not_judged_as_its_pods_may_be_replaced_one_by_one() -> None:
    strict = denying(fit_total="deny")
    living = replace(FOUR, pod_gangs={("default", "demo-0"): PodGangFacts("demo")})
    assert found(validate(of_gpus(6), of_gpus(5), facts=living, settings=strict)) == []
    other = replace(FOUR, pod_gangs={("default", "other-0"): PodGangFacts("other")})
    assert len(found(validate(of_gpus(6), of_gpus(5), facts=other, settings=strict))) == 1


def test_an_update_is_not_refused_for_an_old_fault_and_is_for_a_new_one() -> None:
    strict = denying(fit_total="deny", fit_node="deny")
    stored = of_gpus(5)
    stored["metadata"]["labels"] = {"rollcall.dev/scheduler": "koord-scheduler"}
    changed = deepcopy(stored)
    changed["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["nodeSelector"] = {}
    assert validate(changed, stored, facts=FOUR, settings=strict).allowed
    more = of_gpus(6)
    more["metadata"]["labels"] = stored["metadata"]["labels"]
    assert not validate(more, stored, facts=FOUR, settings=strict).allowed


def test_members_already_on_nodes_are_not_counted_as_still_to_be_placed() -> None:
    old = gpu_job(5)
    running = gpu_job(6)
    running["status"] = {"active": 5}
    assert found(validate(running, old, facts=FOUR)) == []
    ended = gpu_job(6)
    ended["status"] = {"succeeded": 2}
    assert found(validate(ended, old, facts=FOUR)) == []
    waiting = gpu_job(6)
    assert [rule for rule, _ in found(validate(waiting, old, facts=FOUR))] == ["fit/total"]


@pytest.mark.parametrize(
    "manifest",
    [
        gpu_job(5, managedBy="kueue.x-k8s.io/multikueue"),
        {**gpu_job(5), "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        gpu_job(5, scheduler="none"),
    ],
    ids=["managed elsewhere", "finished", "opted out"],
)
def test_a_workload_whose_pods_are_not_made_here_is_not_judged(manifest: Manifest) -> None:
    assert found(validate(manifest, facts=FOUR)) == []


def test_pods_that_kueue_holds_may_get_the_tolerations_of_a_flavor() -> None:
    taints = [{"key": "gpu-pool", "value": "a", "effect": "NoSchedule"}]
    tainted = Nodes()
    for name in ("node-1", "node-2"):
        one = node(name, 8)
        one["spec"] = {"taints": taints}
        tainted[name] = node_of(one)
    facts = ClusterFacts(
        nodes=tainted,
        local_queues={("default", "team"): LocalQueue("gpus", active=True)},
        cluster_queues={"gpus": ClusterQueue(active=True)},
    )
    assert [rule for rule, _ in found(validate(gpu_job(2), facts=facts))] == ["fit/node"]
    assert found(validate(gpu_job(2, labels=QUEUE), facts=facts)) == []
    assert [rule for rule, _ in found(validate(gpu_job(3, labels=QUEUE), facts=facts))] == ["fit/total"]


def test_kueue_may_start_a_job_with_fewer_pods_than_it_asks_for() -> None:
    facts = replace(
        FOUR,
        local_queues={("default", "team"): LocalQueue("gpus", active=True)},
        cluster_queues={"gpus": ClusterQueue(active=True)},
    )
    partly = {
        "kueue.x-k8s.io/job-min-parallelism": "4",
        "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
    }
    assert found(validate(gpu_job(5, labels=QUEUE, annotations=partly), facts=facts)) == []
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    assert found(validate(gpu_job(5, labels=QUEUE, annotations=elastic), facts=facts)) == []
    assert len(found(validate(gpu_job(5, labels=QUEUE), facts=facts))) == 1


def test_what_another_cluster_may_run_is_not_judged_by_the_nodes_here() -> None:
    facts = replace(
        FOUR,
        local_queues={("default", "team"): LocalQueue("gpus", active=True)},
        cluster_queues={"gpus": ClusterQueue(checks=("elsewhere",), active=True)},
        admission_checks={"elsewhere": AdmissionCheck("kueue.x-k8s.io/multikueue", active=True)},
    )
    assert found(validate(gpu_job(5, labels=QUEUE), facts=facts)) == []
    here = replace(facts, admission_checks={"elsewhere": AdmissionCheck("example.com/check", active=True)})
    assert len(found(validate(gpu_job(5, labels=QUEUE), facts=here))) == 1


def test_a_train_job_is_judged_by_the_pods_of_its_runtime_at_the_field_that_names_it() -> None:
    container = {"name": "node", "image": "x", "resources": {"requests": {GPU: "16"}}}
    facts = replace(runtimes(replicated("node", 2, template={"spec": {"containers": [container]}})), nodes=FOUR.nodes)
    verdict = validate(train_job(), facts=facts)
    assert [(one.rule, str(one.at)) for one in verdict.findings if one.rule.startswith("fit/")] == [
        ("fit/node", "spec.runtimeRef.name")
    ]
    named = TrainJob(train_job())
    settings = koordinator()
    (judged,) = fits_of(named, settings.profiles["koord-scheduler"], facts, settings)
    assert judged.verdict.answer is FitAnswer.NEVER


def test_the_gangs_of_one_decision_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counting(*given: Any, **named: Any) -> Any:
        calls.append(given[0].name)
        return gang_fit_of(*given, **named)

    monkeypatch.setattr(workload_fit, "gang_fit_of", counting)
    validate(of_gpus(5), facts=FOUR)
    assert calls == ["demo-0-<epoch>"]


def test_many_scaling_groups_take_no_more_than_a_bounded_number_of_judgements() -> None:
    names = [f"c{index}" for index in range(200)]
    groups = [scaling_group(f"g-{name}", name, replicas=3) for name in names]
    manifest = pod_clique_set(*(clique(name, replicas=1, requests={GPU: "1"}) for name in names), groups=groups)
    settings = koordinator()
    judged = fits_of(PodCliqueSet(manifest), settings.profiles["koord-scheduler"], FOUR, settings)
    assert 1 <= len(judged) <= 32


def test_a_topology_of_a_scheduler_is_judged_with_its_domains() -> None:
    verdict = validate(of_gpus(3, topologyConstraint=required("rack")), facts=racks(2, 2, gpus=8))
    assert found(verdict) == [
        ("fit/topology", "3 pods of 8 nvidia.com/gpu need one rack; the largest rack r1 has room for 2")
    ]


def test_kai_joins_the_values_of_a_path_with_dots_so_two_paths_may_be_one_domain() -> None:
    zone, rack = "example.com/zone", "example.com/rack"

    def warned(first: tuple[str, str], second: tuple[str, str]) -> list[str]:
        known = Nodes()
        for name, (in_zone, in_rack) in (("node-1", first), ("node-2", second)):
            known[name] = node_of(node(name, 8, {zone: in_zone, rack: in_rack}))
        facts = ClusterFacts(
            nodes=known,
            topology_bindings={"dc": TopologyBinding({"zone": zone, "rack": rack})},
            kai_topologies={"dc": (zone, rack)},
        )
        asked = of_gpus(2, labels={"kai.scheduler/queue": "team"}, topologyConstraint=required("rack"))
        return [rule for rule, _ in found(validate(asked, facts=facts, settings=settings_of("kai-scheduler")))]

    assert warned(("a", "b"), ("a", "c")) == ["fit/topology"]
    assert warned(("a.b", "c"), ("a", "b.c")) == []


def test_a_scheduler_of_which_nothing_is_known_gives_no_verdict() -> None:
    settings = settings_of("lpx-scheduler")
    (judged,) = fits_of(PodCliqueSet(of_gpus(5)), settings.profiles["lpx-scheduler"], FOUR, settings)
    assert judged.verdict.answer is FitAnswer.UNKNOWN
    require_like(judged.verdict.causes, ["...this scheduler places ..."])


def test_pods_that_start_one_by_one_are_judged_one_by_one() -> None:
    settings = settings_of("default-scheduler")
    assert found(validate(of_gpus(5), facts=FOUR, settings=settings)) == []
    assert [rule for rule, _ in found(validate(of_gpus(5, "9"), facts=FOUR, settings=settings))] == ["fit/node"]


def test_a_job_of_a_job_set_is_judged_with_its_job_set_only() -> None:
    part = gpu_job(5)
    part["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "1", "controller": True}
    ]
    assert found(validate(part, facts=FOUR)) == []


def test_a_warning_is_short_enough_to_be_told_whole() -> None:
    long = "w" * 60
    manifest = pod_clique_set(clique(long, replicas=3, requests={GPU: "8"}), topologyConstraint=required("rack"))
    manifest["metadata"]["name"] = "d" * 60
    for one in validate(manifest, facts=racks(2, 2, gpus=8)).findings:
        assert len(str(one).encode()) <= MAX_WARNING_BYTES, str(one)
    assert MAX_WARNING_BYTES < MAX_MESSAGE_BYTES


def test_scopes_are_those_of_the_proof() -> None:
    settings = koordinator()
    profile = settings.profiles["koord-scheduler"]
    (judged,) = fits_of(PodCliqueSet(of_gpus(5)), profile, FOUR, settings)
    assert judged.verdict.scope is FitScope.ON_THESE_NODES
    (fitting,) = fits_of(PodCliqueSet(of_gpus(4)), profile, FOUR, settings)
    assert fitting.verdict.answer is FitAnswer.FITS


def gangs_of_set(workload: PodCliqueSet, facts: ClusterFacts) -> list[GangFit]:
    settings = koordinator()
    return fits_of(workload, settings.profiles["koord-scheduler"], facts, settings)


def test_where_nodes_all_differ_fewer_gangs_of_a_set_are_judged() -> None:
    cliques = [clique(f"c{index}", requests={"cpu": "1"}) for index in range(60)]
    groups = [
        scaling_group(f"g{place}", *(f"c{index}" for index in range(place, 60, 5)), replicas=2) for place in range(5)
    ]
    workload = PodCliqueSet(pod_clique_set(*cliques, groups=groups))
    assert len(gangs_of_set(workload, nodes(4))) == 6
    unlike = Nodes()
    for index in range(2_600):
        one = node(f"n{index}")
        one["status"] = {"allocatable": {"cpu": f"{8000 + index}m", "memory": "64Gi", "pods": "110"}}
        unlike[f"n{index}"] = node_of(one)
        if len(unlike) in {700, 2_600}:
            expected = {700: 2, 2_600: 1}[len(unlike)]
            assert len(gangs_of_set(workload, ClusterFacts(nodes=unlike))) == expected


def test_of_a_gang_with_very_many_roles_only_some_are_held_against_the_nodes() -> None:
    cliques = [clique(f"c{index}", replicas=1, requests={GPU: "1"}) for index in range(200)]
    settings = koordinator()
    profile = settings.profiles["koord-scheduler"]
    (judged,) = fits_of(PodCliqueSet(pod_clique_set(*cliques)), profile, FOUR, settings)
    assert judged.verdict.answer is FitAnswer.UNKNOWN
    assert judged.verdict.causes[0] == "all but 24 of its 200 roles"
    cliques[0] = clique("c0", replicas=1, requests={GPU: "16"})
    (judged,) = fits_of(PodCliqueSet(pod_clique_set(*cliques)), profile, FOUR, settings)
    assert judged.verdict.answer is FitAnswer.NEVER
    # In a merged group, pods above the minimum of a role that is left out are counted for the others.
    cliques[199] = clique("c199", replicas=3, minimum=1, requests={GPU: "1"})
    (judged,) = fits_of(PodCliqueSet(pod_clique_set(*cliques)), profile, FOUR, settings)
    assert judged.verdict.answer is FitAnswer.UNKNOWN


@pytest.mark.parametrize(
    "pod",
    [
        {"initContainers": [{"name": f"c{index}", "image": "x"} for index in range(512)]},
        {"initContainers": [{"name": "c", "resources": {"limits": {f"example.com/{n}": "1" for n in range(4_096)}}}]},
    ],
    ids=["containers", "amounts"],
)
def test_a_gang_of_pods_with_very_many_containers_or_amounts_is_not_judged(pod: Manifest) -> None:
    raw = pod_clique_set(clique("worker", replicas=5, requests={GPU: "8"}, pod=pod))
    (judged,) = fits_of(PodCliqueSet(raw), koordinator().profiles["koord-scheduler"], FOUR, koordinator())
    assert judged.verdict.answer is FitAnswer.UNKNOWN
    require_like(judged.verdict.causes, ["...more containers, or ..."])
