"""The traps about pods: what they request, which nodes they may use, what keeps them apart."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tests.unit.fit.trap_world import (
    FIXED,
    GPU,
    HOST,
    RACK,
    Mutant,
    instead,
    is_never,
    may_start,
    node,
    of,
    pods,
    taint,
    trap,
    verdict,
)
from webhook.fit.packing import KAI as KAI_READING
from webhook.fit.packing import FitSettings, Packing, Partition
from webhook.fit.pod_needs import Eligibility, SpreadLimit
from webhook.fit.verdict import FitAnswer
from webhook.model.pod_template import total_requests
from webhook.model.quantity import parse_quantity

_KAI = "webhook.backends.kai.backend.KAI"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@trap(1, instead("webhook.admission.workload_fit._OF_TEMPLATES", ()))
def a_verdict_on_a_template_says_that_other_webhooks_may_lower_requests() -> None:
    found = verdict(of(pods(1, {"cpu": "9"})), node())
    assert found.answer is FitAnswer.NEVER
    assert any("webhook" in one for one in found.assumptions)
    assert verdict(of(pods(1, {"cpu": "9"}), stored=True), node()).assumptions == ()


def _as_stored(_: Any) -> Any:
    original = Eligibility.from_spec.__func__  # type: ignore[attr-defined]
    return classmethod(lambda cls, spec, *, stored, resources=(): original(cls, spec, stored=True, resources=resources))


@trap(2, Mutant("webhook.fit.pod_needs.Eligibility.from_spec", _as_stored))
def admission_adds_a_toleration_for_an_extended_resource_and_those_of_a_runtime_class() -> None:
    gpus = node(amounts={GPU: "8"}, taints=[taint(GPU, value="present")])
    may_start(of(pods(1, {GPU: "1"}, limits={GPU: "1"})), gpus)
    is_never(of(pods(1, {GPU: "1"}, limits={GPU: "1"}), stored=True), gpus)
    sandboxed = node(taints=[taint("sandbox")])
    may_start(of(pods(1, {"cpu": "1"}, runtimeClassName="sandboxed")), sandboxed)
    is_never(of(pods(1, {"cpu": "1"})), sandboxed)


def _by_name(judged: Any) -> Any:
    """The first answer about a gang, kept."""
    known: dict[str, Any] = {}
    return lambda shape, *rest: known.setdefault(shape.name, judged(shape, *rest))


@trap(4, Mutant("webhook.admission.workload_fit.gang_fit_of", _by_name))
def a_gang_whose_minimum_or_request_was_lowered_is_judged_by_what_it_is_now() -> None:
    nodes = [node("n0"), node("n1")]
    is_never(of(pods(3, {"cpu": "5"}), stored=True), *nodes)
    may_start(of(pods(2, {"cpu": "5"}), stored=True), *nodes)
    may_start(of(pods(3, {"cpu": "2500m"}), stored=True), *nodes)


@trap(12, instead(_KAI, replace(KAI_READING, requests=replace(KAI_READING.requests, pod_level=True))))
def kai_sees_the_requests_of_containers_alone() -> None:
    whole = of(pods(1, {"cpu": "1"}, resources={"requests": {"cpu": "9"}}))
    may_start(whole, node(), scheduler="kai")
    is_never(whole, node())


@trap(13, instead(_KAI, replace(KAI_READING, requests=replace(KAI_READING.requests, kai_gpus=False))))
def for_kai_the_gpus_of_two_vendors_are_one_pool() -> None:
    shape = of(pods(1, {"amd.com/gpu": "4"}, limits={"amd.com/gpu": "4"}), stored=True)
    nodes = [node(amounts={GPU: "8", "amd.com/gpu": "1"})]
    may_start(shape, *nodes, scheduler="kai")
    is_never(shape, *nodes)


def _every_gpu(spec: Any, **how: Any) -> int:
    return int(total_requests(spec, **how)[GPU])


@trap(13, instead("webhook.fit.resource_requests.whole_gpus", _every_gpu))
def kai_loses_the_gpus_of_a_sidecar_beside_a_container_with_none() -> None:
    side = {"restartPolicy": "Always", "resources": {"limits": {GPU: "4"}}}
    nodes = [node(amounts={GPU: "4"})]
    may_start(of(pods(2, {GPU: "0"}, initContainers=[side])), *nodes, scheduler="kai")
    is_never(of(pods(2, {"cpu": "1"}, initContainers=[side])), *nodes, scheduler="kai")
    is_never(of(pods(2, {GPU: "0"}, initContainers=[side])), *nodes)


def _whole_gpus(original: Any) -> Any:
    def counted(template: Any, **how: Any) -> dict[str, int]:
        found: dict[str, int] = original(template, **how)
        parts = -(-found.get("thousandths of nvidia.com/gpu", 0) // 1000)
        return {GPU: parts, "thousandths of nvidia.com/gpu": 1000 * parts} if parts else found

    return counted


@trap(14, Mutant("webhook.fit.resource_requests._gpus_of_kai", _whole_gpus))
def for_kai_an_annotation_asks_for_a_part_of_a_gpu() -> None:
    half = pods(4, {"cpu": "1"}, annotations={"gpu-fraction": "0.5"})
    may_start(of(half), node(amounts={GPU: "2"}), scheduler="kai")
    is_never(of(pods(5, {"cpu": "1"}, annotations={"gpu-fraction": "0.5"})), node(amounts={GPU: "2"}), scheduler="kai")


def _spread(**fields: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": RACK,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **fields,
    }
    return {"topologySpreadConstraints": [constraint], "labels": {"app": "a"}}


_TWO_RACKS = [node("n0", labels={RACK: "r0"}), node("n1", labels={RACK: "r1"})]


@trap(15, instead(_KAI, replace(KAI_READING, spread=True)))
def kai_has_no_topology_spread() -> None:
    shape = of(pods(5, {"cpu": "1"}, **_spread(minDomains=4)))
    may_start(shape, *_TWO_RACKS, scheduler="kai")
    is_never(shape, *_TWO_RACKS)


def _from_empty(original: Any) -> Any:
    def read(template: Any) -> Any:
        constraints = template.spec.get("topologySpreadConstraints", [])
        naive = tuple(SpreadLimit(one["topologyKey"], 10**6, one["maxSkew"], template.spec_path) for one in constraints)
        return original(template) or naive

    return read


@trap(37, Mutant("webhook.fit.pod_needs.spread_of", _from_empty))
def pods_of_others_raise_the_minimum_of_a_spread() -> None:
    """All pods in the one rack that admits them: those of others are in the second."""
    nodes = [node("n0", labels={RACK: "r0", "pool": "a"}), node("n1", labels={RACK: "r1"})]
    may_start(of(pods(4, {"cpu": "1"}, nodeSelector={"pool": "a"}, **_spread(nodeAffinityPolicy="Ignore"))), *nodes)
    may_start(of(pods(8, {"cpu": "1"}, **_spread(matchLabelKeys=["pod-template-hash"], minDomains=4))), *_TWO_RACKS)


def _one_domain(original: Any) -> Any:
    def packing_of(shape: Any, *rest: Any) -> Packing:
        found: Packing = original(shape, *rest)
        sets = tuple(replace(one, within=Partition(RACK, (RACK,))) for one in found.sets)
        return replace(found, sets=sets)

    return packing_of


@trap(38, Mutant("webhook.backends.kube.backend.packing_of", _one_domain))
def affinity_to_its_own_labels_does_not_keep_a_gang_in_one_domain() -> None:
    term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAffinity": {_REQUIRED: [term]}}
    may_start(of(pods(2, {"cpu": "5"}, labels={"app": "a"}, affinity=affinity)), *_TWO_RACKS)


def _apart(**term: Any) -> dict[str, Any]:
    whole = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}, **term}
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [whole]}}, "labels": {"app": "a", "one": "1"}}


@trap(
    36,
    instead("webhook.fit.pod_needs._covers", lambda term, namespace: True),
    instead("webhook.fit.pod_needs._keys", lambda term, field: iter(())),
)
def anti_affinity_needs_the_label_the_namespace_and_equal_values() -> None:
    nodes = [node("n0"), node("n1")]
    is_never(of(pods(3, {"cpu": "1"}, **_apart())), *nodes)
    # No node has the label.
    may_start(of(pods(3, {"cpu": "1"}, **_apart(topologyKey=RACK))), *nodes)
    may_start(of(pods(3, {"cpu": "1"}, **_apart(namespaces=["other"]))), *nodes)
    may_start(of(pods(3, {"cpu": "1"}, **_apart(namespaceSelector={"matchLabels": {"a": "b"}}))), *nodes)
    # Each pod has a value of its own.
    own = "apps.kubernetes.io/pod-index"
    may_start(of(pods(3, {"cpu": "1"}, **_apart(matchLabelKeys=[own]))), *nodes)


def _naive_sum(per_container: bool, once: bool = False) -> Any:
    def total(spec: Any, **_: Any) -> dict[str, Fraction]:
        found: dict[str, Fraction] = {}
        for holder in ("containers", "initContainers"):
            for container in spec.get(holder, []):
                for name, said in container.get("resources", {}).get("requests", {}).items():
                    amount = parse_quantity(said) or Fraction(0)
                    if per_container:
                        amount = Fraction(math.ceil(amount * 1000), 1000)
                    twice = 2 if once and container.get("restartPolicy") == "Always" else 1
                    found[name] = found.get(name, Fraction(0)) + twice * amount
        return found

    return total


def _with(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


@trap(39, instead("webhook.fit.resource_requests.total_requests", _naive_sum(per_container=False)))
def init_containers_end_before_the_others_start() -> None:
    inits = [_with("init", "8"), _with("other", "5")]
    may_start(of(pods(1, initContainers=inits, containers=[_with("main", "8")])), node())
    is_never(of(pods(1, initContainers=[_with("init", "8001m")], containers=[_with("main", "1")])), node())


@trap(39, instead("webhook.fit.resource_requests.total_requests", _naive_sum(per_container=False, once=True)))
def a_sidecar_counts_once() -> None:
    side = _with("side", "3", restartPolicy="Always")
    may_start(of(pods(1, initContainers=[side], containers=[_with("main", "5")])), node())
    is_never(of(pods(1, initContainers=[side], containers=[_with("main", "5001m")])), node())


@trap(
    40,
    instead("webhook.fit.resource_requests.total_requests", _naive_sum(per_container=True)),
    Mutant(
        "webhook.fit.resource_requests._units",
        lambda original: lambda name, amount, exact: original(name, amount, exact=exact) or 1,
    ),
)
def quantities_are_rounded_once_and_none_is_asked_of_what_is_not_there() -> None:
    halves = [_with("a", "3999500u"), _with("b", "4000500u")]
    may_start(of(pods(1, containers=halves)), node())
    is_never(of(pods(1, containers=[*halves, _with("c", "1u")])), node())
    may_start(of(pods(1, {"cpu": "8e0", "memory": "68719476736"})), node())
    may_start(of(pods(1, {"cpu": "0", "example.com/none": "0"})), node(amounts={"cpu": "0"}))
    may_start(of(pods(1, {"memory": "6553600e1"})), node(amounts={"memory": "64000Ki"}))


@trap(
    42,
    Mutant("webhook.fit.pod_needs._running", lambda original: lambda spec: iter(
        [*original(spec), *(one for one in spec.get("initContainers", []) if "restartPolicy" not in one)])),
    instead("webhook.fit.ground._port_conflicts", lambda roles, kind_of, kinds: tuple(
        sum({1 << kind_of[other.name] for other in roles
             if {port.number for port in one.pods.ports} & {port.number for port in other.pods.ports}})
        for one in roles)),
)  # fmt: skip
def host_ports_of_other_addresses_protocols_or_init_containers_are_no_conflict() -> None:
    def on(name: str, **port: Any) -> Any:
        holder = {**_with("main", "1"), "ports": [{"containerPort": 80, "hostPort": 80, **port}]}
        return pods(1, name=name, containers=[holder])

    is_never(of(on("a"), on("b", hostIP="10.0.0.1")), node())
    may_start(of(on("a", hostIP="10.0.0.2"), on("b", hostIP="10.0.0.1")), node())
    may_start(of(on("a"), on("b", protocol="UDP")), node())
    init = {**_with("init", "1"), "ports": [{"containerPort": 80, "hostPort": 80}]}
    may_start(of(pods(2, initContainers=[init], containers=[_with("main", "1")])), node())


@trap(48, Mutant("webhook.fit.packing.PodReading.restrict", lambda _: lambda self, settings: self))
def a_filter_that_the_profile_disables_is_not_checked() -> None:
    def without(*plugins: str) -> FitSettings:
        return replace(FIXED, disabled_filters=frozenset(plugins))

    closed = node(taints=[taint("team")])
    may_start(of(pods(1, {"cpu": "1"})), closed, settings=without("TaintToleration"))
    is_never(of(pods(1, {"cpu": "1"})), closed)
    may_start(of(pods(1, {"cpu": "9"})), node(), settings=without("NodeResourcesFit"))
    may_start(of(pods(1, nodeSelector={"pool": "a"})), node(), settings=without("NodeAffinity"))
    # No scheduler places a pod that names its node.
    may_start(of(pods(1, {"cpu": "9"}, nodeName="n0")), node())


@trap(49, instead("webhook.fit.pod_needs._EQUAL", frozenset({"", "Equal", "Gt", "Lt"})))
def a_toleration_with_a_comparison_may_match() -> None:
    level = node(taints=[taint("level", value="5")])
    toleration = {"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"}
    may_start(of(pods(1, {"cpu": "1"}, tolerations=[toleration])), level)
    is_never(of(pods(1, {"cpu": "1"})), level)
