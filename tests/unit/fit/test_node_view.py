"""What is kept of the nodes for a gang: after any change the room is that of nodes that are read for the first time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.fit.gangs import AT, GPU, HOST, packing, pods
from tests.unit.fit.trap_world import node as node_manifest
from webhook.fit.node_classes import room_of
from webhook.fit.packing import KAI, KUBE, FitSettings, Growth, Packing, PackingRole, Partition, PodReading, Room
from webhook.fit.pod_needs import AntiAffinity, DeviceNeed, Eligibility, PodNeeds, Requirement, SpreadLimit
from webhook.fit.resource_requests import GPU_MEMORY
from webhook.model.facts import ClusterFacts
from webhook.model.nodes import Node, Nodes, node_of

FIXED = FitSettings(nodes=Growth.FIXED)
MEMBERS = {"left": frozenset({"n0", "n1", "n2"}), "right": frozenset({"n3", "n40"})}
DEVICES = {"n1": {"": 2, "a": 2}, "n5": {"": 4, "b": 4}}


def role(name: str, request: dict[str, int], **needs: Any) -> PackingRole:
    eligibility = needs.pop("eligibility", Eligibility())
    return PackingRole(name, AT, PodNeeds({"pods": 1, **request}, eligibility, **needs))


def on(*pairs: tuple[str, str], node: str | None = None) -> Eligibility:
    return Eligibility(pairs, node_name=node)


NEAR = Eligibility(
    terms=(
        (Requirement("metadata.name", "In", ("n3", "n4"), field=True),),
        (in_zone := Requirement("zone", "In", ("z1",)),),
    )
)
ABOVE = Eligibility(terms=((Requirement("number", "Gt", ("3",)),),))
QUESTIONS: dict[str, tuple[Packing, PodReading]] = {
    "anywhere": (packing(pods(role("a", {"cpu": 1000}), 2)), KUBE),
    "a rack": (packing(pods(role("a", {"cpu": 1000, GPU: 1}), 2, Partition("rack", ("rack",)))), KUBE),
    "a host and a zone": (packing(pods(role("a", {"cpu": 1000}), 2, Partition("host", (HOST, "zone")))), KUBE),
    "a node by name": (
        packing(
            pods(role("a", {"cpu": 1}, eligibility=on(node="n2")), 1), pods(role("b", {GPU: 1}, eligibility=NEAR), 1)
        ),
        KUBE,
    ),
    "hosts by label": (
        packing(pods(role("a", {"cpu": 1}, eligibility=on((HOST, "n7"))), 1), pods(role("b", {"cpu": 2}), 1)),
        KUBE,
    ),
    "numbers": (packing(pods(role("a", {"cpu": 1}, eligibility=ABOVE), 1)), KUBE),
    "members": (packing(pods(role("a", {"cpu": 1}), 1, Partition("tier", members=MEMBERS))), KUBE),
    "devices": (packing(pods(role("a", {"cpu": 1}, devices=(DeviceNeed("gpu", 1, AT, "a"),)), 1)), KUBE),
    "memory of GPUs": (packing(pods(role("a", {GPU_MEMORY: 100, GPU: 1}), 1)), KAI),
    "apart and spread": (
        packing(
            pods(
                role(
                    "a",
                    {"cpu": 1},
                    apart=(AntiAffinity("rack", frozenset({"a"}), AT),),
                    spread=(SpreadLimit("zone", 2, 2, AT),),
                ),
                2,
            )
        ),
        KUBE,
    ),
}


def some_node(name: str, draw: random.Random) -> Node:
    """A node of few shapes. A label or two are of that node alone."""
    labels = {HOST: "n7" if draw.random() < 0.01 else name, "other": str(draw.randrange(9))}
    labels |= {key: draw.choice(values) for key, values in LABELS.items() if draw.random() < 0.8}
    amounts = {"cpu": draw.choice(["1", "8"]), "pods": "110"}
    if draw.random() < 0.7:
        amounts[GPU] = draw.choice(["0", "4", "8"])
    taints = [{"key": draw.choice(["team", "node.kubernetes.io/not-ready"]), "effect": "NoSchedule"}]
    return node_of(node_manifest(name, amounts=amounts, labels=labels, taints=taints if draw.random() < 0.3 else []))


LABELS = {
    "rack": ["r1", "r2", "r3"],
    "zone": ["z1", "z2"],
    "number": ["1", "5", "x"],
    "nvidia.com/gpu.memory": ["40", "80"],
}


def of(question: str, nodes: Nodes) -> Room:
    asked, reading = QUESTIONS[question]
    found = room_of(asked, ClusterFacts(nodes=nodes), FIXED, reading, DEVICES)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 6))])
def test_a_kept_room_is_the_one_that_nodes_would_give_at_first(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - no secret
    names = [f"n{number}" for number in range(45)]
    nodes = Nodes((name, some_node(name, draw)) for name in names)
    for step in range(150):
        name = draw.choice(names)
        if name in nodes and draw.random() < 0.1:
            del nodes[name]
        else:
            nodes[name] = some_node(name, draw)
        if step % 7:
            continue
        for question in QUESTIONS:
            assert of(question, nodes) == of(question, Nodes(nodes)), (step, question)
            assert of(question, nodes) is of(question, nodes)


def test_a_room_stays_while_the_gang_cannot_see_the_change() -> None:
    draw = random.Random(1)  # noqa: S311 - no secret
    nodes = Nodes((name, some_node(name, draw)) for name in (f"n{number}" for number in range(45)))
    kept = {question: of(question, nodes) for question in QUESTIONS}
    before = nodes["n9"]
    nodes["n9"] = before._replace(labels=before.labels.from_mapping({**before.labels, "unseen": "x"}))
    assert [question for question in QUESTIONS if of(question, nodes) is not kept[question]] == []
    del nodes["n9"]
    assert [question for question in QUESTIONS if of(question, nodes) == kept[question]] == []


def test_a_room_has_all_nodes_after_many_changes_of_few() -> None:
    nodes = Nodes([("n0", node_of(node_manifest("n0", amounts={"cpu": "8"})))])
    for cores in range(1, 200):
        nodes["n1"] = node_of(node_manifest("n1", amounts={"cpu": str(cores)}))
        capacities = [one.capacity["cpu"] for one in of("anywhere", nodes).classes]
        assert capacities == ([8000] if cores == 8 else [8000, 1000 * cores])


def test_equal_nodes_in_a_hundred_domains_are_a_hundred_classes() -> None:
    nodes = Nodes((f"n{number}", node_of(node_manifest(f"n{number}"))) for number in range(200))
    racks = {f"rack-{number}": frozenset({f"n{number}", f"n{number + 100}"}) for number in range(100)}
    asked = packing(pods(role("a", {"cpu": 1}), 2, Partition("rack", members=racks)))
    room = room_of(asked, ClusterFacts(nodes=nodes), FIXED, KUBE)
    assert room is not None
    assert [one.number for one in room.classes] == [2] * 100
