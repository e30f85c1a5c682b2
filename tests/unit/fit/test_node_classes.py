"""The nodes of a cluster by class for one gang: what is told apart, what counts, and when nothing is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.fit.gangs import AT, GPU, HOST, gang, packing, pods
from tests.unit.fit.trap_world import node as node_manifest
from webhook.fit import node_classes
from webhook.fit.node_classes import memory_of_gpu, room_of
from webhook.fit.packing import (
    KAI,
    KUBE,
    OWN_VALUE,
    VOLCANO,
    FitSettings,
    Growth,
    NodeClass,
    NodeTemplate,
    Packing,
    PackingRole,
    Partition,
    PodReading,
    Room,
)
from webhook.fit.pod_needs import AntiAffinity, DeviceNeed, Eligibility, PodNeeds, Requirement, SpreadLimit
from webhook.fit.resource_requests import GPU_MEMORY, GPU_PARTS, UNBOUNDED, DevicesByNode, NodeDevices
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.nodes import LIMITLESS, NodeGrower, Nodes, Taint, node_of
from webhook.model.reading import Manifest
from webhook.model.resources import DeviceClass

RACK = Partition("rack", ("rack",))
FIXED = FitSettings(nodes=Growth.FIXED)
GI = 1024**3


def facts(*manifests: Manifest, **parts: Any) -> ClusterFacts:
    found = Nodes()
    for raw in manifests:
        found[raw["metadata"]["name"]] = node_of(raw)
    return ClusterFacts(nodes=found, **parts)


def role(request: Mapping[str, int] | None = None, name: str = "worker", **needs: Any) -> PackingRole:
    eligibility = needs.pop("eligibility", Eligibility())
    return PackingRole(name, AT, PodNeeds({"pods": 1, **(request or {"cpu": 1000})}, eligibility, **needs))


def room(
    *roles: PackingRole,
    known: ClusterFacts,
    within: Partition | None = None,
    settings: FitSettings = FIXED,
    reading: PodReading = KUBE,
    devices: Mapping[str, Mapping[str, int]] | None = None,
) -> Room:
    asked = packing(*(pods(one, 2, within) for one in roles or (role(),)))
    found = room_of(asked, known, settings, reading, devices)
    assert found is not None
    return found


def unknown_of(*roles: PackingRole, known: ClusterFacts) -> str:
    """Why a room proves nothing, because the work for it would be too large or it was not read."""
    unknown = room(*roles, known=known).unknown
    assert unknown is not None
    return unknown


def classes(found: Room) -> list[tuple[dict[str, int], dict[str, str], list[str], tuple[str, ...]]]:
    return [(dict(one.capacity), dict(one.labels), sorted(one.roles), one.nodes) for one in found.classes]


def test_without_nodes_there_is_no_room_to_judge() -> None:
    assert room_of(Packing(()), ClusterFacts(), FIXED, KUBE) is None


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        (facts(), "no node is known"),
        (facts(node_manifest(), partial=frozenset({"nodes"})), "only some of the nodes"),
        (facts(node_manifest(amounts={"cpu": "lots"})), "node n0 could not be read"),
    ],
)
def test_nodes_that_are_not_all_known_prove_nothing(known: ClusterFacts, unknown: str) -> None:
    assert unknown in unknown_of(known=known)
    assert room(known=known).classes == ()


def test_nodes_are_told_apart_by_what_the_gang_requests_only() -> None:
    known = facts(
        node_manifest("a", {"memory": "32Gi"}, labels={"rack": "r1"}),
        node_manifest("b", {"memory": "16Gi"}, labels={"rack": "r2"}),
        node_manifest("c", {"cpu": "4"}, unschedulable=True),
    )
    assert classes(room(known=known)) == [
        ({"cpu": 8000, "pods": 110}, {}, ["worker"], ("a", "b")),
        ({"cpu": 4000, "pods": 110}, {}, ["worker"], ("c",)),
    ]
    assert classes(room(known=known, within=RACK)) == [
        ({"cpu": 8000, "pods": 110}, {"rack": "r1"}, ["worker"], ("a",)),
        ({"cpu": 8000, "pods": 110}, {"rack": "r2"}, ["worker"], ("b",)),
        ({"cpu": 4000, "pods": 110}, {}, ["worker"], ("c",)),
    ]


def test_a_label_that_only_a_role_reads_is_not_a_part_of_a_class() -> None:
    known = facts(*(node_manifest(name, labels={"pool": pool}) for name, pool in (("a", "x"), ("b", "y"), ("c", "z"))))
    one = role(eligibility=Eligibility((("pool", "x"),)))
    other = role(name="other", eligibility=Eligibility((("none", "x"),)))
    assert classes(room(one, other, known=known)) == [
        ({"cpu": 8000, "pods": 110}, {}, ["worker"], ("a",)),
        ({"cpu": 8000, "pods": 110}, {}, [], ("b", "c")),
    ]


def test_taints_decide_which_roles_may_use_a_node() -> None:
    team = {"key": "team", "value": "", "effect": "NoSchedule"}
    starting = {"key": "starting", "value": "", "effect": "NoSchedule"}
    known = facts(node_manifest("a", taints=[team]), node_manifest("b", taints=[starting]))
    assert [one.roles for one in room(known=known).classes] == [frozenset()]
    pool = NodeGrower((Taint("starting", "", "NoSchedule"),))
    found = room(known=replace(known, node_pools={"pool": pool}))
    assert [(sorted(one.roles), one.nodes) for one in found.classes] == [([], ("a",)), (["worker"], ("b",))]


MANY = [node_manifest(f"n{number:03}", labels={"rack": f"r{number % 2}"}) for number in range(100)]


@pytest.mark.parametrize(
    ("one", "within"),
    [
        (role(apart=(AntiAffinity(HOST, frozenset({"worker"}), AT),)), None),
        (role(spread=(SpreadLimit(HOST, 200, 1, AT),)), None),
        (role(), Partition("host", (HOST,))),
    ],
    ids=["apart", "spread", "partition"],
)
def test_many_nodes_with_a_value_each_are_one_class(one: PackingRole, within: Partition | None) -> None:
    unlabelled = node_manifest("x")
    del unlabelled["metadata"]["labels"][HOST]
    found = room(one, known=facts(*MANY, unlabelled), within=within)
    assert [(one.number, one.labels) for one in found.classes] == [(100, {HOST: OWN_VALUE}), (1, {})]


def test_a_role_that_names_some_of_many_nodes_tells_them_apart() -> None:
    one = role(eligibility=Eligibility(((HOST, "n007"),)), apart=(AntiAffinity(HOST, frozenset({"worker"}), AT),))
    found = room(one, known=facts(*MANY))
    assert [(one.number, one.labels, sorted(one.roles)) for one in found.classes] == [
        (99, {}, []),
        (1, {HOST: OWN_VALUE}, ["worker"]),
    ]


def test_the_name_of_a_node_tells_it_apart() -> None:
    spec = {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n007"]}]}
                    ]
                }
            }
        }
    }
    found = room(role(eligibility=Eligibility.from_spec(spec, stored=True)), known=facts(*MANY))
    assert [(one.number, sorted(one.roles)) for one in found.classes] == [(99, ["worker"]), (1, [])]


def test_domains_that_name_their_nodes_divide_them() -> None:
    members = {"s0": frozenset({"n000", "n001"}), "s1": frozenset({"n002"}), "all": frozenset({"n000", "n001", "n002"})}
    found = room(known=facts(*MANY[:4]), within=Partition("switch", members=members))
    assert [one.nodes for one in found.classes] == [("n000", "n001"), ("n002",), ("n003",)]


def test_devices_of_claims_divide_nodes_for_roles_that_need_some() -> None:
    devices = {"n000": {"gpu.nvidia.com": 8, "": 9}}
    asks = role(devices=(DeviceNeed("gpus", 1, AT),))
    found = room(asks, known=facts(*MANY[:2]), devices=devices)
    assert [(one.nodes, one.devices) for one in found.classes] == [
        (("n000",), {"gpu.nvidia.com": 8, "": 9}),
        (("n001",), {}),
    ]
    assert len(room(known=facts(*MANY[:2]), devices=devices).classes) == 1


def test_volcano_adds_what_a_node_oversubscribes() -> None:
    more = node_manifest(annotations={"volcano.sh/oversubscription-cpu": "1000"})
    assert [one.capacity["cpu"] for one in room(known=facts(more), reading=VOLCANO).classes] == [9000]
    assert [one.capacity["cpu"] for one in room(known=facts(more)).classes] == [8000]


def test_kai_counts_all_gpus_of_a_node_as_one_pool() -> None:
    one = node_manifest(amounts={GPU: "4", "example.com/gpu": "1"}, labels={"nvidia.com/gpu.memory": "40536"})
    asks = role({GPU: 1, GPU_PARTS: 1000, GPU_MEMORY: 100})
    (found,) = room(asks, known=facts(one), reading=KAI, devices={"n0": {"": 2}}).classes
    assert found.capacity == {"pods": 110, GPU: 7, GPU_PARTS: 7000, GPU_MEMORY: 7 * 40536}


@pytest.mark.parametrize(
    ("label", "mebibytes"), [(None, 0), ("40536", 40536), ("many", 0), (str(40 * GI), 40 * 1024), (str(GI + 1), 1025)]
)
def test_kai_reads_the_memory_of_gpus_in_mebibytes_or_bytes(label: str | None, mebibytes: int) -> None:
    assert memory_of_gpu(label) == mebibytes


SLICES = Api("resource.k8s.io", "v1", "ResourceSlice")
CLASSES = Api("resource.k8s.io", "v1", "DeviceClass")
GPU_NODE, PLAIN = node_manifest("a", {GPU: "8"}), node_manifest("b")
UNSURE: dict[str, tuple[ClusterFacts, PodReading, set[str]]] = {
    "some node has it": (facts(GPU_NODE, PLAIN), KUBE, set()),
    "no node has it": (facts(PLAIN), KUBE, {GPU}),
    "no node has it now": (facts(node_manifest(amounts={GPU: "0"})), KUBE, {GPU}),
    "one node has it no more": (facts(GPU_NODE, node_manifest("b", {GPU: "0"})), KUBE, {GPU}),
    "one node has it no more, for KAI": (facts(GPU_NODE, node_manifest("b", {GPU: "0"})), KAI, {GPU}),
    "a DeviceClass stands for it": (
        facts(GPU_NODE, PLAIN, device_classes={"gpus": DeviceClass(resource=GPU)}),
        KUBE,
        {GPU},
    ),
    "a DeviceClass stands for it, and every node has a plugin": (
        # With none at the moment, a node gives those of its ResourceSlices, which may be more.
        facts(GPU_NODE, device_classes={"gpus": DeviceClass(resource=GPU)}),
        KUBE,
        {GPU},
    ),
    "other DeviceClasses": (facts(GPU_NODE, PLAIN, device_classes={"x": DeviceClass()}), KUBE, set()),
    "DeviceClasses that could not be read": (facts(GPU_NODE, PLAIN, apis=frozenset({CLASSES})), KUBE, {GPU}),
    "DeviceClasses of one folder": (
        facts(
            GPU_NODE,
            PLAIN,
            device_classes={"x": DeviceClass()},
            apis=frozenset({CLASSES}),
            partial=frozenset({"device_classes"}),
        ),
        KUBE,
        {GPU},
    ),
    "Volcano does not read DeviceClasses": (facts(GPU_NODE, PLAIN, apis=frozenset({CLASSES})), VOLCANO, set()),
    "slices that KAI counts and that could not be read": (facts(GPU_NODE, apis=frozenset({SLICES})), KAI, {GPU}),
    "no slices": (facts(GPU_NODE, apis=frozenset()), KAI, set()),
}


@pytest.mark.parametrize(("known", "reading", "unsure"), UNSURE.values(), ids=UNSURE)
def test_of_some_devices_nodes_may_have_more_than_is_known(
    known: ClusterFacts, reading: PodReading, unsure: set[str]
) -> None:
    assert room(role({GPU: 1}), known=known, reading=reading).unsure == unsure


def test_gpus_that_a_manager_divides_are_unsure() -> None:
    mig = "nvidia.com/mig-1g.5gb"
    managed = node_manifest(amounts={mig: "7"}, labels={"nvidia.com/mig.config.state": "success"})
    assert room(role({mig: 1}), known=facts(managed)).unsure == {mig}
    assert room(role({mig: 1}), known=facts(node_manifest(amounts={mig: "7"}))).unsure == set()


H100 = NodeTemplate(
    "h100",
    {"cpu": "100", "memory": "100Gi", GPU: "8"},
    {"pool": "h100"},
    (Taint("team", "", "NoSchedule"),),
    3,
)


def test_a_node_group_of_the_configuration_is_a_class_of_its_own() -> None:
    grouped = replace(FIXED, templates=(H100, NodeTemplate("cpu", {"cpu": "1", "memory": "1Gi", "pods": "10"}, {})))
    found = room(role({"cpu": 1, GPU: 1, "ephemeral-storage": 5}), known=facts(), settings=grouped)
    assert found.classes == (
        NodeClass(
            {"cpu": 105_000, GPU: 8, "ephemeral-storage": LIMITLESS, "pods": LIMITLESS},
            {},
            3,
            frozenset(),
            ("h100",),
            future=True,
        ),
        NodeClass(
            {"cpu": 1050, GPU: 0, "ephemeral-storage": LIMITLESS, "pods": 10},
            {},
            None,
            frozenset({"worker"}),
            ("cpu",),
            future=True,
        ),
    )


def test_nodes_of_a_group_have_their_own_host_name_and_any_value_of_what_is_not_stated() -> None:
    one = role(eligibility=Eligibility(((HOST, "n9"), ("pool", "h100")), tolerations=()))
    untainted = replace(FIXED, templates=(replace(H100, taints=()),))
    (found,) = room(one, known=facts(), settings=untainted, within=Partition("place", ("rack", HOST))).classes
    assert (found.labels, found.roles, found.future) == ({HOST: OWN_VALUE}, frozenset({"worker"}), True)


def test_a_new_node_may_get_any_value_of_a_label_that_its_group_does_not_name() -> None:
    zone, pool = "topology.kubernetes.io/zone", "pool"
    untainted = replace(FIXED, templates=(replace(H100, taints=()),))
    for selector, fits in (((zone, "a"), True), ((pool, "h100"), True), ((pool, "cpu"), False)):
        (found,) = room(role(eligibility=Eligibility((selector,))), known=facts(), settings=untainted).classes
        assert (found.roles == {"worker"}) is fits, selector


def test_a_new_node_may_have_any_number_of_devices() -> None:
    known = DevicesByNode(NodeDevices({"n0": {"a": 2}}, {"a": 0}, frozenset()))
    untainted = replace(FIXED, templates=(replace(H100, taints=()),))
    claiming = role(devices=(DeviceNeed("gpu", 4, AT, "a"),))
    found = room(claiming, known=facts(node_manifest("n0")), settings=untainted, devices=known)
    assert [dict(one.devices) for one in found.classes] == [{"a": 2, "": 2}, {"a": UNBOUNDED, "": UNBOUNDED}]
    found = room(role({GPU: 1}), known=facts(), settings=untainted, reading=KAI, devices=known)
    assert [one.capacity[GPU] for one in found.classes] == [8 + UNBOUNDED]


def test_nodes_with_a_memory_of_gpus_of_their_own_are_told_apart() -> None:
    nodes = [node_manifest(f"n{one}", {GPU: "1"}, labels={"nvidia.com/gpu.memory": f"{40 + one}"}) for one in range(40)]
    found = room(role({GPU_MEMORY: 100}), known=facts(*nodes), reading=KAI)
    assert sorted(one.capacity[GPU_MEMORY] for one in found.classes) == list(range(40, 80))


def test_a_node_group_that_has_no_nodes_gives_no_room_and_shows_no_devices() -> None:
    empty = replace(FIXED, templates=(replace(H100, most=0, taints=()),))
    found = room(role({GPU: 1}), known=facts(node_manifest()), settings=empty)
    assert [one.nodes for one in found.classes] == [("n0",)]
    assert found.unsure == {GPU}


def test_the_same_question_has_the_same_room_until_a_node_changes() -> None:
    known = facts(*MANY)
    assert known.nodes is not None
    first = room(known=known, within=RACK)
    assert room(known=known, within=RACK) is first
    known.nodes["n000"] = node_of(node_manifest("n000", labels={"rack": "r0"}, unschedulable=True))
    assert room(known=known, within=RACK) is first, "a node that was cordoned gives the same room"
    known.nodes["n000"] = node_of(node_manifest("n000", {"cpu": "9"}, labels={"rack": "r0"}))
    changed = room(known=known, within=RACK)
    assert [(one.number, one.labels["rack"]) for one in changed.classes] == [(1, "r0"), (50, "r1"), (49, "r0")]
    growing = room(known=known, within=RACK, settings=FitSettings(nodes=Growth.MAY_GROW))
    assert (growing.grows, changed.grows) == (True, False)


def test_the_work_is_bounded_for_labels_and_for_roles() -> None:
    labels = {f"k{index}": "v" for index in range(30)}
    selected = role(eligibility=Eligibility(tuple(labels.items())))
    known = facts(node_manifest(labels=labels))
    assert "too many labels" in unknown_of(selected, known=known)
    many = [role(name=f"r{index}", eligibility=Eligibility((("rack", f"r{index}"),))) for index in range(3000)]
    racks = facts(*(node_manifest(f"n{index}", labels={"rack": f"r{index // 2}"}) for index in range(200)))
    assert "pods of the gang differ" in unknown_of(*many, known=racks)


def test_the_work_is_bounded_for_long_affinities() -> None:
    racks = facts(*(node_manifest(f"n{index}", labels={"rack": f"r{index}"}) for index in range(30)))
    terms = tuple((Requirement("rack", "NotIn", (str(index),)),) for index in range(64))
    affine = [role(name=f"r{index}", eligibility=Eligibility((("x", str(index)),), terms)) for index in range(24)]
    assert room(*affine[:12], known=racks).unknown is None
    many = facts(*(node_manifest(f"n{index}", labels={"rack": f"r{index // 2}"}) for index in range(200)))
    assert "pods of the gang differ" in unknown_of(*affine, known=many)


def test_the_work_is_bounded_for_nodes_that_all_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_classes, "_MOST_PAIRS", 600)
    unlike = facts(*(node_manifest(f"n{index}", {"cpu": f"{index + 1}m"}) for index in range(26)))
    assert room(known=unlike).unknown is None
    alike = [role(name=f"r{index}") for index in range(24)]
    assert room(*alike[:23], known=unlike).unknown is None
    assert "nodes differ" in unknown_of(*alike, known=unlike)


def test_a_number_that_each_of_many_nodes_has_alone_is_not_compared() -> None:
    asked = role(eligibility=Eligibility(terms=((Requirement("serial", "Gt", ("5",)),),)))
    few = facts(*(node_manifest(f"n{index}", labels={"serial": str(index)}) for index in range(32)))
    assert [one.number for one in room(asked, known=few).classes if one.roles] == [26]
    many = facts(*(node_manifest(f"n{index}", labels={"serial": str(index)}) for index in range(33)))
    assert "pods of the gang differ" in unknown_of(asked, known=many)


def test_the_roles_of_equal_nodes_that_are_named_one_by_one_are_bounded() -> None:
    known = facts(*(node_manifest(f"n{index}") for index in range(2_000)))
    names = frozenset(f"n{index}" for index in range(2_000))
    terms = ((Requirement(HOST, "In", names),),)
    roles = [role(name=f"r{index}", eligibility=Eligibility((("x", str(index)),), terms)) for index in range(12)]
    assert "pods of the gang differ" in unknown_of(*roles, known=known)
    assert room(roles[0], known=known).unknown is None


def test_needs_inside_groups_are_read() -> None:
    inner = gang(pods(role(), 1, RACK), within=Partition("zone", ("zone",)))
    known = facts(node_manifest(labels={"rack": "r1", "zone": "z1"}))
    found = room_of(packing(gang(inner, inner)), known, FIXED, KUBE)
    assert found is not None
    assert [one.labels for one in found.classes] == [{"rack": "r1", "zone": "z1"}]
