"""The traps about nodes, domains, and what a scheduler places together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.fit.trap_world import (
    FIXED,
    FLAT,
    GPU,
    KUBE,
    RACK,
    ZONE,
    Mutant,
    backend_of,
    facts_of,
    instead,
    is_never,
    manifest,
    may_start,
    node,
    of,
    pods,
    taint,
    trap,
)
from webhook.backends.volcano.gangs import tier_of
from webhook.fit.feasibility import judge
from webhook.fit.gang_shapes import shape_of_gang, shapes_of_workload
from webhook.fit.node_classes import room_of
from webhook.fit.packing import FIXED as NO_GROWTH
from webhook.fit.packing import (
    KOORDINATOR,
    VOLCANO,
    FitSettings,
    GroupNeed,
    Growth,
    Packing,
    Partition,
    PodsNeed,
    roles_of,
)
from webhook.fit.verdict import FitAnswer
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.validators.examples import replicated, runtimes, train_job
from webhook.workloads.trainjob import TrainJob


@trap(5, instead("webhook.fit.node_classes._unsure", lambda *_: iter(())))
def a_device_plugin_may_not_have_started() -> None:
    shape = of(pods(1, {GPU: "1"}, limits={GPU: "1"}), stored=True)
    may_start(shape, node(amounts={GPU: "0"}), node("n1"))
    is_never(of(pods(9, {GPU: "1"}), stored=True), node(amounts={GPU: "8"}), node("n1"))


@trap(6, Mutant("webhook.model.nodes._row_of", lambda _: lambda known, more: known))
def devices_that_are_broken_now_come_back() -> None:
    half = node(amounts={GPU: "4"}, capacity={GPU: "8"})
    may_start(of(pods(8, {GPU: "1"}), stored=True), half)
    is_never(of(pods(9, {GPU: "1"}), stored=True), half)


@trap(7, instead("webhook.fit.pod_needs.is_transient", lambda taint: False))
def a_node_that_is_cordoned_or_not_ready_comes_back() -> None:
    passing = [
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/memory-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/disrupted",
        "node.cilium.io/agent-not-ready",
        "node.cluster.x-k8s.io/uninitialized",
        "node.gardener.cloud/critical-components-not-ready",
        "aws-node-termination-handler/spot-itn",
        "medik8s.io/remediation",
    ]
    closed = [node(f"n{index}", taints=[taint(key)], unschedulable=True) for index, key in enumerate(passing)]
    may_start(of(pods(10, {"cpu": "5"}), stored=True), *closed)
    is_never(of(pods(11, {"cpu": "5"}), stored=True), *closed)
    is_never(of(pods(1, {"cpu": "5"}), stored=True), node(taints=[taint("team")]))


@trap(8, instead("webhook.fit.pod_needs._BLOCKING", frozenset({"NoSchedule", "NoExecute", "PreferNoSchedule"})))
def a_taint_that_only_discourages_blocks_nothing() -> None:
    may_start(of(pods(1, {"cpu": "1"})), node(taints=[taint("soft", "PreferNoSchedule")]))


_POOL = manifest("NodePool", "default", "karpenter.sh/v1", {"template": {"spec": {}}})


@trap(9, instead("webhook.fit.node_classes.growth_of", lambda facts, settings: NO_GROWTH))
def a_cluster_that_may_grow_has_room_that_is_not_there() -> None:
    shape = of(pods(1, {"cpu": "9"}))
    may_start(shape, node(), settings=FitSettings(nodes=Growth.MAY_GROW))
    may_start(shape, node(), _POOL, settings=FitSettings())
    is_never(shape, node(), _POOL, settings=FIXED)


@trap(10, instead("webhook.fit.node_classes._why_unknown", lambda nodes, facts, settings: None))
def a_list_of_nodes_that_may_be_cut_proves_nothing() -> None:
    shape = of(pods(1, {"cpu": "9"}))
    may_start(shape, facts=facts_of(node(), partial=frozenset({"nodes"})))
    may_start(shape, facts=facts_of())
    may_start(shape, {"apiVersion": "v1", "kind": "NodeList", "items": []})
    is_never(shape, node())


_CLASS = manifest("DeviceClass", "gpus", "resource.k8s.io/v1", {"extendedResourceName": GPU})
_MIXED = [node(amounts={GPU: "8"}), node("n1")]


@trap(
    11,
    instead("webhook.fit.node_classes._named_by_class", lambda *_: iter(())),
    Mutant("webhook.fit.resource_requests.RequestRules.ignores", lambda _: lambda self, resource: False),
)
def an_extended_resource_may_be_a_device_class_or_be_ignored() -> None:
    shape = of(pods(2, {GPU: "8"}), stored=True)
    is_never(shape, *_MIXED, {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClassList", "items": []})
    may_start(shape, *_MIXED, _CLASS)
    may_start(shape, *_MIXED, settings=replace(FIXED, ignored_resources=frozenset({GPU})))
    may_start(shape, *_MIXED, settings=replace(FIXED, ignored_groups=frozenset({"nvidia.com"})))


@trap(16, instead("webhook.backends.volcano.backend.VOLCANO", replace(VOLCANO, oversubscribes=False)))
def volcano_adds_what_a_node_oversubscribes() -> None:
    more = node(annotations={"volcano.sh/oversubscription-cpu": "1000"})
    may_start(of(pods(1, {"cpu": "9"})), more, scheduler="volcano")
    is_never(of(pods(1, {"cpu": "9001m"})), more, scheduler="volcano")


@trap(
    17,
    instead(
        "webhook.backends.volcano.backend.VOLCANO", replace(VOLCANO, requests=replace(VOLCANO.requests, unsure=()))
    ),
)
def volcano_places_virtual_gpus_in_its_own_way() -> None:
    shape = of(pods(1, {"volcano.sh/vgpu-number": "4"}), stored=True)
    may_start(shape, node(amounts={"volcano.sh/vgpu-number": "1"}), scheduler="volcano")
    is_never(shape, node(amounts={"volcano.sh/vgpu-number": "1"}))


@trap(18, instead("webhook.backends.volcano.backend._is_best_effort", lambda roles, member: False))
def volcano_starts_a_gang_without_its_best_effort_pods() -> None:
    shape = of(pods(1, {"cpu": "1"}), pods(200, name="helper"))
    may_start(shape, node(), scheduler="volcano")
    is_never(shape, node())


def _hyper_node(name: str, tier: int, *members: str, kind: str = "Node") -> dict[str, Any]:
    found = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
    spec = {"tier": tier, "tierName": RACK if tier == 1 else "top", "members": found}
    return manifest("HyperNode", name, "topology.volcano.sh/v1alpha1", spec)


_HYPER_NODES = [
    _hyper_node("r0", 1, "n0"),
    _hyper_node("r1", 1, "n1"),
    _hyper_node("all", 2, "r0", "r1", kind="HyperNode"),
]
_BINDING = manifest(
    "ClusterTopologyBinding",
    "dc",
    "grove.io/v1alpha1",
    {"levels": [{"domain": "zone", "key": ZONE}, {"domain": "rack", "key": RACK}]},
)


def _whatever_is_stated(_: Any) -> Any:
    return lambda key, shape, settings, facts: tier_of(key, shape.topology_name, facts)


@trap(19, Mutant("webhook.backends.volcano.backend._tier", _whatever_is_stated))
def volcano_ignores_a_topology_with_the_plugin_off_or_without_hyper_nodes() -> None:
    shape = of(pods(2, {"cpu": "5"}), required=RACK)._replace(topology_name="dc")
    nodes = [node("n0", labels={RACK: "r0"}), node("n1", labels={RACK: "r1"}), _BINDING]
    on = {"topology": "hypernode"}
    is_never(shape, *nodes, *_HYPER_NODES, scheduler="volcano", config=on)
    may_start(shape, *nodes, *_HYPER_NODES, scheduler="volcano", config={"topology": "off"})
    may_start(shape, *nodes, scheduler="volcano", config=on)
    # A HyperNode with two parents, with which Volcano knows no domain.
    twice = _hyper_node("twice", 2, "r0", kind="HyperNode")
    may_start(shape, *nodes, *_HYPER_NODES, twice, scheduler="volcano", config=on)


_NETWORK = manifest(
    "ClusterNetworkTopology",
    "default",
    "scheduling.koordinator.sh/v1alpha1",
    {
        "networkTopologySpec": [
            {"topologyLayer": "ZoneLayer", "labelKey": [ZONE]},
            {"topologyLayer": "RackLayer", "labelKey": [RACK], "parentTopologyLayer": "ZoneLayer"},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
        ]
    },
)
_RACKS = [node(f"n{index}", labels={RACK: f"r{index}", ZONE: "z"}) for index in range(3)]


def _all_replicas(original: Any) -> Any:
    def needs_in(members: Any, *rest: Any) -> Any:
        return original([one._replace(minimum=one.pods) for one in members], *rest)

    return needs_in


@trap(22, Mutant("webhook.backends.koordinator.backend.needs_in", _all_replicas))
def only_the_minimum_must_be_in_one_domain() -> None:
    shape = of(pods(1, {"cpu": "5"})._replace(minimum=1, pods=3), pods(1, {"cpu": "2"}, "leader"), required=RACK)
    may_start(shape, *_RACKS, _NETWORK, scheduler="koordinator")
    is_never(of(pods(2, {"cpu": "5"}), required=RACK), *_RACKS, _NETWORK, scheduler="koordinator")


_SURE = replace(KOORDINATOR, requests=replace(KOORDINATOR.requests, unsure=()))


@trap(26, instead("webhook.backends.koordinator.backend.KOORDINATOR", _SURE))
def what_a_busy_cluster_has_of_batch_resources_says_nothing_of_an_idle_one() -> None:
    shape = of(pods(1, {"kubernetes.io/batch-cpu": "4000"}), stored=True)
    busy = node(amounts={"kubernetes.io/batch-cpu": "1000"})
    may_start(shape, busy, scheduler="koordinator")
    is_never(shape, busy)


def _raw(original: Any) -> Any:
    def read(raw: dict[str, Any]) -> Any:
        amounts = raw["metadata"].get("annotations", {}).get("cpu-of-the-machine")
        status = {**raw["status"], "allocatable": {**raw["status"]["allocatable"], "cpu": amounts or "8"}}
        return original({**raw, "status": status})

    return read


@trap(27, Mutant("webhook.model.nodes.node_of", _raw))
def an_amplified_node_has_what_it_says() -> None:
    annotations = {
        "node.koordinator.sh/resource-amplification-ratio": '{"cpu":2}',
        "node.koordinator.sh/raw-allocatable": '{"cpu":"8"}',
        "cpu-of-the-machine": "8",
    }
    may_start(of(pods(1, {"cpu": "16"})), node(amounts={"cpu": "16"}, annotations=annotations), scheduler="koordinator")


@trap(28, instead("webhook.backends.koordinator.backend.KOORDINATOR", _SURE))
def koordinator_renames_its_older_resources() -> None:
    for name in ("koordinator.sh/gpu", "batch.koordinator.sh/cpu", "kubernetes.io/mid-memory"):
        may_start(of(pods(1, {name: "50"}), stored=True), node(amounts={name: "1"}), scheduler="koordinator")


@trap(29, instead("webhook.backends.koordinator.backend.sum", lambda _: 2))
def a_single_pod_starts_in_any_domain_or_none() -> None:
    outside = [node("n0"), node("n1", {"cpu": "2"}, labels={RACK: "r0", ZONE: "z"})]
    may_start(of(pods(1, {"cpu": "5"}), required=ZONE), *outside, _NETWORK, scheduler="koordinator")
    is_never(of(pods(2, {"cpu": "2"}), required=ZONE), *outside, _NETWORK, scheduler="koordinator")


def _no_own_domain(original: Any) -> Any:
    def made(*arguments: Any, own_domain: bool = False, **fields: Any) -> Partition:
        found: Partition = original(*arguments, **fields)
        return found

    return made


@trap(30, Mutant("webhook.backends.koordinator.backend.Partition", _no_own_domain))
def a_node_without_the_label_of_the_lowest_layer_is_a_domain() -> None:
    may_start(of(pods(2, {"cpu": "4"}), required=RACK), node(), _NETWORK, scheduler="koordinator")
    is_never(of(pods(2, {"cpu": "4"}), required=ZONE), node(), _NETWORK, scheduler="koordinator")


@trap(30, instead("webhook.backends.koordinator.backend.are_domains", lambda *_: True))
def racks_of_one_name_in_two_zones_are_one_rack_in_either_zone() -> None:
    # koord-scheduler has both racks r0 below the zone of the node that it saw first: one zone with two nodes.
    same = [node("n0", labels={RACK: "r0", ZONE: "a"}), node("n1", labels={RACK: "r0", ZONE: "b"})]
    apart = [node("n0", labels={RACK: "r0", ZONE: "a"}), node("n1", labels={RACK: "r1", ZONE: "b"})]
    shape = of(pods(2, {"cpu": "5"}), required=ZONE)
    may_start(shape, *same, _NETWORK, scheduler="koordinator")
    is_never(shape, *apart, _NETWORK, scheduler="koordinator")
    # A node without the label is a rack of its own name.
    alone = [node("n0", labels={RACK: "n1", ZONE: "a"}), node("n1", labels={ZONE: "b"})]
    may_start(shape, *alone, _NETWORK, scheduler="koordinator")
    may_start(of(pods(2, {"cpu": "5"}), required=RACK), *alone, _NETWORK, scheduler="koordinator")
    is_never(of(pods(2, {"cpu": "5"}), required=RACK), *apart, _NETWORK, scheduler="koordinator")


@trap(31, instead("webhook.backends.kube.backend.no_domain", lambda key, at: Partition(key, (key,), at)))
def a_topology_counts_only_with_the_gate_of_the_scheduler() -> None:
    shape = of(pods(2, {"cpu": "5"}), required=RACK)
    is_never(shape, *_RACKS)
    may_start(shape, *_RACKS, config={**KUBE, "schedulerGates": ["GenericWorkload", "CompositePodGroup"]})
    may_start(shape, *_RACKS, config={"gangScheduling": True})


def _stored(status: dict[str, Any], **spec: Any) -> Any:
    """The shape of a stored gang of one pod."""
    names = [{"name": "w", "minReplicas": 1, "podReferences": [{"namespace": "team", "name": "w-0"}]}]
    gang = PodGang({"metadata": {"name": "demo-0", "namespace": "team"}, "spec": {"podgroups": names}})
    pod = Pod({"metadata": {"name": "w-0"}, "spec": {"containers": [], **spec}, "status": status})
    return shape_of_gang(gang, {"w": [pod]}, Record("any"))


@trap(32, instead("webhook.fit.gang_shapes._is_fresh", lambda pod: True))
def members_that_are_on_nodes_are_not_placed_again() -> None:
    assert _stored({"phase": "Pending"}) is not None
    assert _stored({"phase": "Running"}, nodeName="n0") is None


@trap(33, instead("webhook.fit.gang_shapes._is_fresh", lambda pod: True))
def pods_that_have_succeeded_may_count() -> None:
    assert _stored({"phase": "Succeeded"}) is None


def _of_parts(enough: int, *members: Any, nodes: Any = _RACKS) -> FitAnswer:
    shape, facts, backend = of(*members), facts_of(*nodes), backend_of()
    reading = backend.pod_reading(FIXED)
    roles = roles_of(shape, reading)
    needs = tuple(PodsNeed(roles.role_of(one), one.minimum) for one in shape.members)
    packing = Packing((GroupNeed("tree", needs, enough),))
    return judge(packing, room_of(packing, facts, FIXED, reading)).answer


@trap(34, Mutant("webhook.fit.domains.NeedPart.chooses", lambda _: property(lambda self: False)))
def of_several_children_the_cheapest_are_enough() -> None:
    large, small, nowhere = pods(2, {"cpu": "8"}, "a"), pods(3, {"cpu": "8"}, "b"), pods(1, {"cpu": "9"}, "c")
    assert _of_parts(1, large, small, nowhere) is not FitAnswer.NEVER
    assert _of_parts(2, large, small, nowhere) is FitAnswer.NEVER
    assert _of_parts(1, nowhere) is FitAnswer.NEVER


@trap(35, Mutant("webhook.backends.kube.backend.pack_members_apart", lambda _: _together))
def groups_of_one_workload_start_one_by_one_before_there_were_trees() -> None:
    shape = of(pods(2, {"cpu": "8"}, "a"), pods(2, {"cpu": "8"}, "b"))
    is_never(shape, *_RACKS)
    apart = {"gangScheduling": True, "flat": "allow"}
    may_start(shape, facts=facts_of(*_RACKS, apis=FLAT), config=apart)
    is_never(shape, facts=facts_of(*_RACKS, apis=FLAT), config={"gangScheduling": True})


def _together(shape: Any, roles: Any) -> Packing:
    needs = tuple(PodsNeed(roles.role_of(one), one.minimum) for one in shape.needed)
    return Packing((GroupNeed("all", needs, len(needs)),))


def _less_reserved(original: Any) -> Any:
    def capacity_of(*arguments: Any) -> dict[str, int]:
        found: dict[str, int] = original(*arguments)
        return {name: amount - amount // 20 if name == "cpu" else amount for name, amount in found.items()}

    return capacity_of


@trap(41, Mutant("webhook.fit.node_classes.capacity_of", _less_reserved))
def what_others_use_is_not_subtracted() -> None:
    daemon = {"metadata": {"name": "daemon", "namespace": "kube-system"}, "apiVersion": "v1", "kind": "Pod"}
    uses = {"nodeName": "n0", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    may_start(of(pods(1, {"cpu": "8"})), node(capacity={"cpu": "9"}), {**daemon, "spec": uses})


_LEVELS = manifest("Topology", "dc", "kai.scheduler/v1alpha1", {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]})


def _by_tuple(original: Any) -> Any:
    def membership(node: Any, partition: Any, of_nodes: Any) -> Any:
        found = original(node, partition, of_nodes)
        values = [str(node.labels.get(key)) for key in partition.keys]
        return found._replace(names=("/".join(values),)) if found.names else found

    return membership


@trap(47, Mutant("webhook.fit.domains.membership_of", _by_tuple))
def kai_joins_the_values_of_a_domain_with_dots() -> None:
    shape = of(pods(2, {"cpu": "5"}), required=RACK)._replace(topology_name="dc")
    joined = [node("n0", labels={ZONE: "a.b", RACK: "c"}), node("n1", labels={ZONE: "a", RACK: "b.c"})]
    may_start(shape, *joined, _LEVELS, _BINDING, scheduler="kai")
    split = [node("n0", labels={ZONE: "a", RACK: "c"}), node("n1", labels={ZONE: "b", RACK: "c"})]
    is_never(shape, *split, _LEVELS, _BINDING, scheduler="kai")


@trap(3, instead("webhook.fit.gang_shapes.changes_pods", lambda workload: False))
def a_train_job_may_replace_what_its_runtime_says_about_pods() -> None:
    facts = runtimes(replicated("node", 2))
    ((_, runtime),) = (facts.cluster_training_runtimes or {}).items()
    changes: tuple[dict[str, Any], ...] = (
        {"podTemplateOverrides": [{}]},
        {"initializer": {"dataset": {}}},
    )
    for changed in changes:
        stated = train_job()
        stated["spec"] |= changed
        assert shapes_of_workload(TrainJob(stated).job_set_of(runtime)) == []
