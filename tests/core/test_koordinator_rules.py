"""Koordinator's rules beyond their own examples: one table a rule, each row a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.worlds import gang_pod, koordinator, rules, validate
from webhook.model.facts import ClusterFacts, PodGangFacts, PriorityClass, Quota
from webhook.model.reading import Manifest
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


def of_class(value: str, cpu: str | None = None, **pod: Any) -> dict[str, Any]:
    """The same with more of the pod's spec: its keywords."""
    requests = {"cpu": cpu} if cpu else None
    return pod_clique_set(clique("worker", labels={"koordinator.sh/qosClass": value}, requests=requests, pod=pod))


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
    "LSE with whole CPUs stated for the pod": (of_class("LSE", resources={"requests": {"cpu": "4"}}), {}, CLASSES, []),
    "LSE with whole CPUs stated for the pod over parts in its container": (
        of_class("LSE", "1500m", resources={"requests": {"cpu": "4"}}),
        {},
        CLASSES,
        [],
    ),
    "LSE with part of a CPU stated for the pod": (
        of_class("LSE", "1", resources={"requests": {"cpu": "1500m"}}),
        {},
        CLASSES,
        [CPU],
    ),
    "LSE with only memory stated for the pod": (
        of_class("LSE", "2", resources={"requests": {"memory": "1Gi"}}),
        {},
        CLASSES,
        [],
    ),
    "LSR with a number that no PriorityClass stands behind": (
        of_class("LSR", "2", priority=9500),
        {},
        ClusterFacts(priority_classes={}),
        [PRIORITY],
    ),
    "LSR with a number that its class overrules": (
        of_class("LSR", "2", priority=9500, priorityClassName="batch"),
        {},
        CLASSES,
        [PRIORITY],
    ),
    "LSR with a class in the prod band, whatever the number says": (
        of_class("LSR", "2", priority=0, priorityClassName="prod"),
        {},
        CLASSES,
        [],
    ),
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
    numbered = gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=9500, containers=containers)
    assert rules(validate(numbered, facts=ClusterFacts(priority_classes={}))) == []


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
    "an empty name is no quota": (pod_clique_set(annotations={BY_ANNOTATION: ""}), []),
    "an empty name on a clique is no quota beside the set's": (
        pod_clique_set(clique("worker", annotations={BY_ANNOTATION: ""}), annotations={BY_ANNOTATION: "team-a"}),
        [],
    ),
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


NO_LABEL_VALUES = {
    "longer than 63 characters": "q" * 70,
    "with a space": "team a",
    "with a slash": "team/a",
    "ending in a dash": "team-a-",
    "with a line break at its end": "team-a\n",
}


@pytest.mark.parametrize("name", NO_LABEL_VALUES.values(), ids=NO_LABEL_VALUES)
def test_a_quota_s_name_that_no_pod_label_can_have_is_refused_whatever_quotas_there_are(name: str) -> None:
    there = ClusterFacts(elastic_quotas={name: Quota(is_parent=False)})
    for facts in (there, ClusterFacts(elastic_quotas={}), ClusterFacts()):
        for manifest in (
            pod_clique_set(annotations={BY_ANNOTATION: name}),
            pod_clique_set(clique("worker", labels={BY_LABEL: name})),
        ):
            verdict = validate(manifest, facts=facts)
            assert [(finding.rule, finding.found) for finding in verdict.findings] == [("koordinator/quota", name)]
            assert "is no valid one, so no pod could be created" in verdict.findings[0].why
            assert not verdict.allowed
            assert verdict.unjudged == ()


def test_a_quota_s_name_may_be_as_long_as_a_label_s_value() -> None:
    longest = "q" * 63
    facts = ClusterFacts(elastic_quotas={longest: Quota(is_parent=False)})
    assert rules(validate(pod_clique_set(annotations={BY_ANNOTATION: longest}), facts=facts)) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ClusterFacts(), ["koordinator/quota-change"]),
        (ClusterFacts(pod_gangs={}), []),
        (ClusterFacts(pod_gangs={("default", "x"): PodGangFacts("other")}), []),
        (ClusterFacts(pod_gangs={("elsewhere", "demo-0"): PodGangFacts("demo")}), []),
    ],
    ids=["unknown gangs", "no gangs", "another set's gang", "another namespace's gang"],
)
def test_a_quota_is_frozen_while_a_gang_may_live(facts: ClusterFacts, expected: list[str]) -> None:
    old = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"}, annotations={BY_ANNOTATION: "team-a"})
    new = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate(new, old, facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden for finding in verdict.findings)


LIVING = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


@pytest.mark.parametrize(
    ("before", "facts", "why"),
    [
        ({BY_ANNOTATION: "team-a"}, LIVING, "the pods of its gangs are charged to team-a"),
        (
            {BY_ANNOTATION: "team-a"},
            ClusterFacts(),
            "the pods of its gangs are charged to team-a, and whether any still exists is unknown",
        ),
        ({}, LIVING, "the pods of its gangs are charged to no named quota"),
    ],
    ids=["from a quota", "from a quota, unknown gangs", "from none"],
)
def test_a_frozen_quota_says_what_is_known_of_the_gangs(before: Any, facts: ClusterFacts, why: str) -> None:
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    old = pod_clique_set(labels=labels, annotations=before)
    new = pod_clique_set(labels=labels, annotations={BY_ANNOTATION: "team-b"})
    (finding,) = validate(new, old, facts=facts).findings
    assert (finding.rule, finding.why) == ("koordinator/quota-change", why)


def test_an_empty_quota_is_the_same_as_none_in_a_change_too() -> None:
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    old, new = pod_clique_set(labels=labels), pod_clique_set(labels=labels, annotations={BY_ANNOTATION: ""})
    assert validate(new, old, facts=LIVING).findings == ()


def container(name: str, **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "example.com/main", "resources": resources}


def with_containers(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    return pod_clique_set(clique("worker", pod={"containers": list(containers), **pod}))


SHARE = {"koordinator.sh/gpu-memory-ratio": "50"}
SPEC = "spec.template.cliques[0].spec.podSpec"
DEVICES: dict[str, tuple[Any, list[str]]] = {
    "a vendor's GPUs alone": (with_containers(container("a", requests=GPU)), []),
    "Koordinator's share alone": (with_containers(container("a", requests=SHARE)), []),
    "KAI's share alone": (pod_clique_set(clique("worker", annotations={"gpu-fraction": "0.5"})), []),
    "both in one container": (
        with_containers(container("a", requests={**GPU, **SHARE})),
        [f"{SPEC}.containers[0].resources.requests[koordinator.sh/gpu-memory-ratio]"],
    ),
    "both in different containers of the pod": (
        with_containers(container("a", requests=GPU), container("b", limits=SHARE)),
        [f"{SPEC}.containers[1].resources.limits[koordinator.sh/gpu-memory-ratio]"],
    ),
    "the share in an init container": (
        with_containers(container("a", requests=GPU), initContainers=[container("warm", requests=SHARE)]),
        [f"{SPEC}.initContainers[0].resources.requests[koordinator.sh/gpu-memory-ratio]"],
    ),
    "AMD's GPUs and Koordinator's whole ones": (
        with_containers(container("a", requests={"amd.com/gpu": "1", "koordinator.sh/gpu": "100"})),
        [f"{SPEC}.containers[0].resources.requests[koordinator.sh/gpu]"],
    ),
    "Hygon's DCUs and shared GPUs": (
        with_containers(container("a", requests={"dcu.com/gpu": "1", "koordinator.sh/gpu.shared": "1"})),
        [f"{SPEC}.containers[0].resources.requests[koordinator.sh/gpu.shared]"],
    ),
    "a vendor's GPUs and CPUs for batch work": (
        pod_clique_set(
            clique(
                "worker",
                labels={"koordinator.sh/qosClass": "BE"},
                requests={**GPU, "kubernetes.io/batch-cpu": "4000"},
                pod={"priorityClassName": "koord-batch"},
            )
        ),
        [],
    ),
    "each in a clique of its own": (
        pod_clique_set(clique("leader", requests=SHARE), clique("worker", requests=GPU)),
        [],
    ),
}


@pytest.mark.parametrize(("manifest", "places"), DEVICES.values(), ids=DEVICES)
def test_a_pod_that_asks_for_whole_gpus_and_for_shares_is_refused(manifest: Any, places: list[str]) -> None:
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("koordinator/device-requests", place) for place in places
    ]
    assert verdict.allowed is not bool(places)


def test_whole_gpus_and_shares_are_refused_at_the_pod_too() -> None:
    verdict = validate(gang_pod(containers=[container("main", limits={**GPU, **SHARE})]))
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("koordinator/device-requests", "spec.containers[0].resources.limits[koordinator.sh/gpu-memory-ratio]")
    ]


RESERVE = "scheduling.koordinator.sh/reserve-pod"
RESERVING: dict[str, tuple[Any, list[str]]] = {
    "in a clique's template": (
        pod_clique_set(clique("leader"), clique("worker", annotations={RESERVE: "true"})),
        [f"spec.template.cliques[1].annotations[{RESERVE}]"],
    ),
    "whatever it says": (
        pod_clique_set(clique("worker", annotations={RESERVE: "false"})),
        [f"spec.template.cliques[0].annotations[{RESERVE}]"],
    ),
    "also when it says nothing": (
        pod_clique_set(clique("worker", annotations={RESERVE: ""})),
        [f"spec.template.cliques[0].annotations[{RESERVE}]"],
    ),
    "on a pod": (gang_pod(annotations={RESERVE: "true"}), [f"metadata.annotations[{RESERVE}]"]),
    "on the set, from where it reaches no pod": (pod_clique_set(annotations={RESERVE: "true"}), []),
    "as a label": (pod_clique_set(clique("worker", labels={RESERVE: "true"})), []),
}


@pytest.mark.parametrize(("manifest", "places"), RESERVING.values(), ids=RESERVING)
def test_the_mark_of_a_reservation_is_refused_wherever_it_reaches_a_pod(manifest: Any, places: list[str]) -> None:
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("koordinator/reserve-pod", place) for place in places
    ]


CLAIMED: dict[str, tuple[Any, list[str]]] = {
    "another gang's PodGroup by label": (
        clique("worker", labels={"pod-group.scheduling.sigs.k8s.io": "other"}),
        ["spec.template.cliques[0].labels[pod-group.scheduling.sigs.k8s.io]"],
    ),
    "that label without a value": (clique("worker", labels={"pod-group.scheduling.sigs.k8s.io": ""}), []),
    "a group's name without a value": (clique("worker", annotations={"scheduling.k8s.io/group-name": ""}), []),
    "a pod that is kept from KAI's podgrouper": (
        clique("worker", annotations={"kai.scheduler/skip-podgrouper": "true"}),
        ["spec.template.cliques[0].annotations[kai.scheduler/skip-podgrouper]"],
    ),
    "a pod that is not kept from it": (clique("worker", annotations={"kai.scheduler/skip-podgrouper": "false"}), []),
}


@pytest.mark.parametrize(("member", "places"), CLAIMED.values(), ids=CLAIMED)
def test_a_template_that_another_gang_claims_is_refused(member: Any, places: list[str]) -> None:
    verdict = validate(pod_clique_set(member))
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("koordinator/claimed-pods", place) for place in places
    ]


def test_the_set_s_priority_class_is_advice_because_it_reaches_no_pod() -> None:
    verdict = validate(pod_clique_set(clique("worker"), priorityClassName="high"))
    assert verdict.allowed
    assert rules(verdict) == ["koordinator/priority-class"]


def test_only_waiting_is_refused_for_grove_whatever_the_set_says() -> None:
    verdict = validate(pod_clique_set(), settings=koordinator({"matchPolicy": "only-waiting"}))
    assert rules(verdict) == ["koordinator/only-waiting"]
    assert not verdict.allowed


MEMBERS = {
    "more replicas": (pod_clique_set(clique("a", replicas=2)), pod_clique_set(clique("a", replicas=4)), []),
    "other order": (pod_clique_set(clique("a"), clique("b")), pod_clique_set(clique("b"), clique("a")), []),
    "a clique that is removed": (
        pod_clique_set(clique("a"), clique("b")),
        pod_clique_set(clique("a")),
        [("koordinator/frozen-members", "spec.template.cliques", "b")],
    ),
    "a base gang that grows by a scaling group's replica": (
        pod_clique_set(clique("a"), groups=[scaling_group("g", "a", replicas=4, minAvailable=1)]),
        pod_clique_set(clique("a"), groups=[scaling_group("g", "a", replicas=4, minAvailable=2)]),
        [("koordinator/frozen-members", "spec.template.podCliqueScalingGroups", "g-1/a")],
    ),
    "scaled gangs that come": (
        pod_clique_set(clique("a"), groups=[scaling_group("g", "a", replicas=2, minAvailable=1)]),
        pod_clique_set(clique("a"), groups=[scaling_group("g", "a", replicas=4, minAvailable=1)]),
        [],
    ),
}


@pytest.mark.parametrize(("old", "new", "told"), MEMBERS.values(), ids=MEMBERS)
def test_the_members_of_a_living_gang_stay_who_they_are(
    old: Manifest, new: Manifest, told: list[tuple[str, str, str]]
) -> None:
    living = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})
    found = validate(new, old, facts=living).findings
    assert [(finding.rule, str(finding.at), finding.found) for finding in found] == told
    assert all(finding.forbidden for finding in found)
    assert validate(new, old, facts=ClusterFacts(pod_gangs={})).findings == ()
    unknown = validate(new, old).findings
    assert len(unknown) == len(told)
    assert all("unknown" in finding.why for finding in unknown)
