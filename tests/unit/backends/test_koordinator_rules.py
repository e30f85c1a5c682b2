"""Koordinator's rules beyond their own examples: one table per rule, one sentence per row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import gang_pod, koordinator, rules, validate
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import PodGangFacts
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
def test_multi_node_nvlink_is_refused_in_every_field_that_grove_reads(manifest: Any, places: list[str]) -> None:
    verdict = validate(manifest)
    assert [str(finding.at) for finding in verdict.findings if finding.rule == "koordinator/mnnvl"] == places
    assert verdict.allowed is not bool(places)


SHARED = {"name": "gpu", "scope": "AllReplicas"}
CLAIMS = {
    "claims of the pod spec": (
        pod_clique_set(clique("worker", pod={"resourceClaims": [{"name": "gpu"}]})),
        "spec.template.cliques[0].spec.podSpec.resourceClaims",
    ),
    "templates of the set": (
        pod_clique_set(
            resourceClaimTemplates=[{"name": "gpu", "templateSpec": {"spec": {"devices": {"requests": [{}]}}}}]
        ),
        "spec.template.resourceClaimTemplates",
    ),
    "sharing over the set": (pod_clique_set(resourceSharing=[SHARED]), "spec.template.resourceSharing"),
    "sharing over a clique": (
        pod_clique_set(clique("worker", resourceSharing=[SHARED])),
        "spec.template.cliques[0].resourceSharing",
    ),
    "sharing over a scaling group": (
        pod_clique_set(groups=[scaling_group("decode", "worker", resourceSharing=[SHARED])]),
        "spec.template.podCliqueScalingGroups[0].resourceSharing",
    ),
}


@pytest.mark.parametrize(("manifest", "place"), CLAIMS.values(), ids=CLAIMS)
def test_resource_claims_are_refused_in_every_field_of_a_set(manifest: Any, place: str) -> None:
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [("koordinator/resource-claims", place)]


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
        with_containers(container("a", requests={"dcu.com/gpu": "1", **SHARE, "koordinator.sh/gpu.shared": "1"})),
        [f"{SPEC}.containers[0].resources.requests[koordinator.sh/gpu-memory-ratio]"],
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
def test_a_reservation_key_is_refused_in_every_field_that_reaches_a_pod(manifest: Any, places: list[str]) -> None:
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


def test_a_set_s_priority_class_only_gets_advice_because_it_reaches_no_pod() -> None:
    verdict = validate(pod_clique_set(clique("worker"), priorityClassName="high"))
    assert verdict.allowed
    assert rules(verdict) == ["koordinator/priority-class"]


def test_only_waiting_is_always_refused_for_grove() -> None:
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
def test_the_members_of_a_gang_with_pods_cannot_change(
    old: Manifest, new: Manifest, told: list[tuple[str, str, str]]
) -> None:
    living = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})
    found = validate(new, old, facts=living).findings
    assert [(finding.rule, str(finding.at), finding.value) for finding in found] == told
    assert all(finding.forbidden for finding in found)
    assert validate(new, old, facts=ClusterFacts(pod_gangs={})).findings == ()
    unknown = validate(new, old).findings
    assert len(unknown) == len(told)
    assert all("unknown" in finding.why for finding in unknown)
