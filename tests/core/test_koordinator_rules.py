"""Koordinator's rules beyond their own examples: one table a rule, each row a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.worlds import gang_pod, koordinator, rules, validate
from webhook.model.facts import ClusterFacts, PodGangFacts, PriorityClass, Quota
from webhook.validators.examples import clique, pod_clique_set, scaling_group

GPU = {"nvidia.com/gpu": "8"}
GROUP = "grove.io/mnnvl-group"


def gpu_clique(name: str = "worker", **fields: Any) -> dict[str, Any]:
    return clique(name, requests=GPU, **fields)


MNNVL = {
    "a group on the set reaches its GPU cliques": (
        pod_clique_set(gpu_clique(), annotations={GROUP: "train"}),
        ["metadata.annotations[grove.io/mnnvl-group]"],
    ),
    "two GPU cliques under one group of the set are one finding": (
        pod_clique_set(gpu_clique("leader"), gpu_clique("worker"), annotations={GROUP: "train"}),
        ["metadata.annotations[grove.io/mnnvl-group]"],
    ),
    "a group on the clique": (
        pod_clique_set(clique("leader"), gpu_clique(annotations={GROUP: "train"})),
        ["spec.template.cliques[1].annotations[grove.io/mnnvl-group]"],
    ),
    "a group on the scaling group reaches its cliques only": (
        pod_clique_set(
            gpu_clique("leader"),
            gpu_clique("worker"),
            groups=[scaling_group("decode", "worker", annotations={GROUP: "train"})],
        ),
        ["spec.template.podCliqueScalingGroups[0].annotations[grove.io/mnnvl-group]"],
    ),
    "a clique opts out of the set's group": (
        pod_clique_set(gpu_clique(annotations={GROUP: "none"}), annotations={GROUP: "train"}),
        [],
    ),
    "a scaling group opts out of the set's group": (
        pod_clique_set(
            gpu_clique(),
            groups=[scaling_group("decode", "worker", annotations={GROUP: "none"})],
            annotations={GROUP: "t"},
        ),
        [],
    ),
    "a clique opts in where its scaling group opted out": (
        pod_clique_set(
            gpu_clique(annotations={GROUP: "train"}),
            groups=[scaling_group("decode", "worker", annotations={GROUP: "none"})],
        ),
        ["spec.template.cliques[0].annotations[grove.io/mnnvl-group]"],
    ),
    "a clique without GPUs is no member": (pod_clique_set(clique("worker"), annotations={GROUP: "train"}), []),
    "zero GPUs are none": (
        pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "0"}), annotations={GROUP: "train"}),
        [],
    ),
    "a limit asks for a GPU too": (
        pod_clique_set(
            clique("worker", pod={"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}),
            annotations={GROUP: "train"},
        ),
        ["metadata.annotations[grove.io/mnnvl-group]"],
    ),
    "an init container asks for a GPU too": (
        pod_clique_set(
            clique("worker", pod={"initContainers": [{"name": "warm", "resources": {"requests": GPU}}]}),
            annotations={GROUP: "train"},
        ),
        ["metadata.annotations[grove.io/mnnvl-group]"],
    ),
    "the annotation of older manifests, whatever the cliques ask for": (
        pod_clique_set(clique("worker"), annotations={"grove.io/auto-mnnvl": "enabled"}),
        ["metadata.annotations[grove.io/auto-mnnvl]"],
    ),
    "the annotation of older manifests, switched off": (
        pod_clique_set(gpu_clique(), annotations={"grove.io/auto-mnnvl": "disabled"}),
        [],
    ),
}


@pytest.mark.parametrize(("manifest", "places"), MNNVL.values(), ids=MNNVL)
def test_multi_node_nvlink_is_refused_where_grove_resolves_it(manifest: Any, places: list[str]) -> None:
    verdict = validate(manifest)
    assert [str(finding.at) for finding in verdict.findings if finding.rule == "koordinator/mnnvl"] == places
    assert verdict.allowed is not bool(places)


CLAIMS = {
    "claims of the pod spec": (
        pod_clique_set(clique("worker", pod={"resourceClaims": [{"name": "gpu"}]})),
        "spec.template.cliques[0].spec.podSpec.resourceClaims",
    ),
    "templates of the set": (
        pod_clique_set(resourceClaimTemplates=[{"name": "gpu"}]),
        "spec.template.resourceClaimTemplates",
    ),
    "sharing over the set": (pod_clique_set(resourceSharing=[{"name": "gpu"}]), "spec.template.resourceSharing"),
    "sharing over a clique": (
        pod_clique_set(clique("worker", resourceSharing=[{"name": "gpu"}])),
        "spec.template.cliques[0].resourceSharing",
    ),
    "sharing over a scaling group": (
        pod_clique_set(groups=[scaling_group("decode", "worker", resourceSharing=[{"name": "gpu"}])]),
        "spec.template.podCliqueScalingGroups[0].resourceSharing",
    ),
}


@pytest.mark.parametrize(("manifest", "place"), CLAIMS.values(), ids=CLAIMS)
def test_resource_claims_are_refused_wherever_a_set_makes_them(manifest: Any, place: str) -> None:
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [("koordinator/resource-claims", place)]


CLASSES = ClusterFacts(
    priority_classes={
        "prod": PriorityClass(9500, is_default=False),
        "batch": PriorityClass(5000, is_default=False),
        "plain": PriorityClass(100, is_default=False),
    }
)
BY_DEFAULT_PROD = ClusterFacts(priority_classes={"prod": PriorityClass(9000, is_default=True)})
PRIORITY, CPU = "koordinator/qos-priority", "koordinator/qos-cpu"


def qos(value: str | None, priority: str | None = None, cpu: str | None = "2", **labels: str) -> dict[str, Any]:
    every = {**labels, **({"koordinator.sh/qosClass": value} if value else {})}
    pod = {"priorityClassName": priority} if priority else {}
    return pod_clique_set(clique("worker", labels=every, requests={"cpu": cpu} if cpu else None, pod=pod))


QOS: dict[str, tuple[Any, Any, ClusterFacts, list[str]]] = {
    "BE with no priority": (qos("BE"), {}, CLASSES, [PRIORITY]),
    "BE in the prod band": (qos("BE", "prod"), {}, CLASSES, [PRIORITY]),
    "BE in the batch band": (qos("BE", "batch"), {}, CLASSES, []),
    "LSR in the prod band": (qos("LSR", "prod"), {}, CLASSES, []),
    "LSR in the batch band": (qos("LSR", "batch"), {}, CLASSES, [PRIORITY]),
    "LSR with a priority outside every band": (qos("LSR", "plain"), {}, CLASSES, [PRIORITY]),
    "LSR with the cluster's default class in the prod band": (qos("LSR"), {}, BY_DEFAULT_PROD, []),
    "LSR with Koordinator's own class, without facts": (qos("LSR", "koord-prod"), {}, ClusterFacts(), []),
    "LSR with the band by label": (
        qos("LSR", **{"koordinator.sh/priority-class": "koord-prod"}),
        {},
        ClusterFacts(),
        [],
    ),
    "LSR with a label that names no band": (
        qos("LSR", "prod", **{"koordinator.sh/priority-class": "prod"}),
        {},
        CLASSES,
        [PRIORITY],
    ),
    "LSR with part of a CPU": (qos("LSR", "prod", cpu="1500m"), {}, CLASSES, [CPU]),
    "LSR with thousands of millicores that are whole": (qos("LSR", "prod", cpu="2000m"), {}, CLASSES, []),
    "LSE without any CPU": (qos("LSE", cpu=None), {}, CLASSES, [CPU]),
    "LSE may have any priority": (qos("LSE"), {}, CLASSES, []),
    "LS may have anything": (qos("LS", cpu="10m"), {}, CLASSES, []),
    "the profile's default class is judged too": (
        qos(None, "prod", cpu="1500m"),
        {"defaultQoSClass": "LSR"},
        CLASSES,
        [CPU],
    ),
    "a class of its own wins over the profile's": (qos("LS", cpu="10m"), {"defaultQoSClass": "LSR"}, CLASSES, []),
    "an unknown class": (qos("Guaranteed"), {}, CLASSES, ["koordinator/qos-class"]),
}


@pytest.mark.parametrize(("manifest", "config", "facts", "expected"), QOS.values(), ids=QOS)
def test_quality_of_service(manifest: Any, config: Any, facts: ClusterFacts, expected: list[str]) -> None:
    assert rules(validate(manifest, settings=koordinator(config), facts=facts)) == expected


def test_a_priority_that_no_fact_tells_is_not_judged() -> None:
    verdict = validate(qos("LSR"))
    assert [(unjudged.rule, unjudged.needs) for unjudged in verdict.unjudged] == [(PRIORITY, "the PriorityClasses")]


def test_the_class_of_a_pod_is_judged_by_the_priority_that_the_api_server_resolved() -> None:
    refused = gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=0)
    assert rules(validate(refused)) == [PRIORITY, CPU]
    containers = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    admitted = gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=9000, containers=containers)
    assert rules(validate(admitted)) == []


QUOTAS = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False), "all": Quota(is_parent=True)})
BY_ANNOTATION = "scheduling.grove.io/koordinator-quota"
BY_LABEL = "quota.scheduling.koordinator.sh/name"
QUOTA: dict[str, tuple[Any, list[str]]] = {
    "a leaf that exists": (pod_clique_set(annotations={BY_ANNOTATION: "team-a"}), []),
    "by Koordinator's own label on a clique": (
        pod_clique_set(clique("worker", labels={BY_LABEL: "nobody"})),
        ["koordinator/quota"],
    ),
    "a parent": (pod_clique_set(annotations={BY_ANNOTATION: "all"}), ["koordinator/quota"]),
    "the root of all": (pod_clique_set(annotations={BY_ANNOTATION: "koordinator-root-quota"}), ["koordinator/quota"]),
    "one that Koordinator makes itself": (pod_clique_set(annotations={BY_ANNOTATION: "koordinator-default-quota"}), []),
    "two cliques that disagree": (
        pod_clique_set(
            clique("leader", annotations={BY_ANNOTATION: "team-a"}), clique("worker", labels={BY_LABEL: "team-b"})
        ),
        ["koordinator/quota", "koordinator/quota-disagree"],
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), QUOTA.values(), ids=QUOTA)
def test_quota(manifest: Any, expected: list[str]) -> None:
    assert rules(validate(manifest, facts=QUOTAS)) == expected


def test_a_quota_is_not_judged_without_knowing_the_quotas_but_the_root_is_always_refused() -> None:
    verdict = validate(pod_clique_set(annotations={BY_ANNOTATION: "team-a"}))
    assert [unjudged.rule for unjudged in verdict.unjudged] == ["koordinator/quota"]
    assert rules(validate(pod_clique_set(annotations={BY_ANNOTATION: "koordinator-root-quota"}))) == [
        "koordinator/quota"
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ClusterFacts(), ["koordinator/quota-change"]),
        (ClusterFacts(pod_gangs={}), []),
        (ClusterFacts(pod_gangs={("default", "x"): PodGangFacts("other", bound=True)}), []),
        (ClusterFacts(pod_gangs={("elsewhere", "demo-0"): PodGangFacts("demo", bound=True)}), []),
    ],
    ids=["unknown gangs", "no gangs", "another set's gang", "another namespace's gang"],
)
def test_a_quota_is_frozen_while_a_gang_may_live(facts: ClusterFacts, expected: list[str]) -> None:
    old = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"}, annotations={BY_ANNOTATION: "team-a"})
    new = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate(new, old, facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden for finding in verdict.findings)


def test_the_set_s_priority_class_is_advice_because_it_reaches_no_pod() -> None:
    verdict = validate(pod_clique_set(clique("worker"), priorityClassName="high"))
    assert verdict.allowed
    assert rules(verdict) == ["koordinator/priority-class"]


def test_only_waiting_is_refused_for_grove_whatever_the_set_says() -> None:
    verdict = validate(pod_clique_set(), settings=koordinator({"matchPolicy": "only-waiting"}))
    assert rules(verdict) == ["koordinator/only-waiting"]
    assert not verdict.allowed
