"""Nodes as facts: what is kept, that heartbeats change nothing, the most devices, and groups of equal nodes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from webhook.cluster.watch import Index
from webhook.model import nodes as of_nodes
from webhook.model.bounds import Row
from webhook.model.facts import ClusterFacts
from webhook.model.nodes import LIMITLESS, NODES, SOME, NodeGroup, Nodes, Taint, node_of
from webhook.model.reading import Manifest

GPU, HOST, RACK = "nvidia.com/gpu", "kubernetes.io/hostname", "example.com/rack"


def manifest(name: str = "n1", *, labels: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> Manifest:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-23T21:00:00Z"}
    said: Manifest = {"allocatable": {"cpu": "7500m", "memory": "1Gi", "pods": "110", GPU: "8"}, "conditions": [ready]}
    said |= status or {}
    return {"metadata": {"name": name, "labels": {HOST: name, **(labels or {})}}, "spec": spec, "status": said}


def nodes(*manifests: Manifest) -> Nodes:
    found = Nodes()
    for raw in manifests:
        node = node_of(raw)
        found[node.name] = node
    return found


def test_a_node_is_what_schedulers_read_of_it() -> None:
    raw = manifest(labels={RACK: "r1"}, unschedulable=True, taints=[{"key": "team", "effect": "NoSchedule"}])
    raw["metadata"]["annotations"] = {"volcano.sh/oversubscription-cpu": "1500.2", "other": "x"}
    node = node_of(raw)
    assert node.allocatable == {"cpu": 7500, "memory": 1024**3, "pods": 110, GPU: 8}
    assert node.highest == node.allocatable
    assert node.labels == {HOST: "n1", RACK: "r1"}
    assert node.taints == (Taint("team", "", "NoSchedule"),)
    assert (node.ready, node.unschedulable, node.problem) == (True, True, None)
    assert node.oversubscribed == {"cpu": 1501}


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("12", 12),
        ("1e3", 1000),
        ("inf", LIMITLESS),
        ("1_0", None),
        ("-5", None),
        ("nan", None),
        ("0x1p4", 16),
        ("", None),
    ],
)
def test_what_volcano_oversubscribes_is_a_number_of_go(written: str, amount: int | None) -> None:
    raw = manifest()
    raw["metadata"]["annotations"] = {"volcano.sh/oversubscription-memory": written}
    assert node_of(raw).oversubscribed == (None if amount is None else {"memory": amount})


def test_amounts_are_rounded_up() -> None:
    node = node_of(manifest(status={"allocatable": {"cpu": "0.0001", "memory": "1500m", "pods": 3}}))
    assert node.allocatable == {"cpu": 1, "memory": 2, "pods": 3}


def test_of_devices_and_storage_capacity_counts_and_of_the_rest_allocatable() -> None:
    status = {
        "allocatable": {"cpu": "7", GPU: "4", "pods": "100"},
        "capacity": {"cpu": "8", GPU: "8", "pods": "110", "ephemeral-storage": "5"},
    }
    assert node_of(manifest(status=status)).highest == {"cpu": 7000, GPU: 8, "pods": 100, "ephemeral-storage": 5}


def test_a_node_keeps_the_most_devices_that_it_ever_had() -> None:
    found = nodes(manifest(), manifest(status={"allocatable": {"cpu": "4", GPU: "0"}}))
    assert found["n1"].allocatable == {"cpu": 4000, GPU: 0}
    assert found["n1"].highest == {"cpu": 4000, GPU: 8}
    found["n1"] = node_of(manifest(status={"allocatable": {"cpu": "4"}}))
    assert found["n1"].highest == {"cpu": 4000, GPU: 8}
    assert Nodes(found)["n1"].highest == {"cpu": 4000, GPU: 8}, "also in a copy"
    del found["n1"]
    found["n1"] = node_of(manifest(status={"allocatable": {"cpu": "4"}}))
    assert found["n1"].highest == {"cpu": 4000}, "another node of that name"


def test_a_heartbeat_changes_no_fact_and_wakes_no_rule() -> None:
    changed: list[Any] = []
    index = Index(NODES, changed.append)
    index.put(manifest())
    before, found = index.entries["n1"], index.entries
    assert isinstance(found, Nodes)
    groups = found.groups((HOST,))
    kept = found.remembered("question", object)
    beat = manifest()
    beat["metadata"] |= {"resourceVersion": "2", "managedFields": [{"time": "later"}]}
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-23T21:05:00Z"
    beat["status"] |= {"images": [{"names": ["example.com/large"]}], "volumesInUse": ["x"], "nodeInfo": {"bootID": "b"}}
    index.put(beat)
    assert changed == ["n1"]
    assert found["n1"] == before
    assert found.groups((HOST,)) is groups
    assert found.remembered("question", object) is kept


def test_a_change_of_readiness_or_allocatable_changes_only_that_node() -> None:
    changed: list[Any] = []
    index = Index(NODES, changed.append)
    for name in ("n1", "n2"):
        index.put(manifest(name))
    found, second = index.entries, index.entries["n2"]
    assert isinstance(found, Nodes)
    kept = found.remembered("question", object)
    index.put(manifest("n1", status={"conditions": [{"type": "Ready", "status": "Unknown"}]}))
    assert (changed, found["n1"].ready, found["n2"] is second) == (["n1", "n2", "n1"], False, True)
    assert found.remembered("question", object) is kept, "readiness passes, so no room depends on it"
    index.put(manifest("n1", status={"allocatable": {"cpu": "1"}}))
    assert (len(changed), dict(found["n1"].allocatable), found["n2"] is second) == (4, {"cpu": 1000}, True)
    assert found.remembered("question", object) is not kept


UNREADABLE: dict[str, Manifest] = {
    "a text for labels": {"metadata": {"name": "n1", "labels": "x"}},
    "a wrong amount": manifest(status={"allocatable": {"cpu": "lots"}}),
    "a wrong taint": manifest(taints=["x"]),
    "very many labels": manifest(labels={f"k{index}": "v" for index in range(513)}),
    "very long labels": manifest(labels={"k" * 40_000: "v"}),
    "very many resources": manifest(status={"capacity": {f"a.b/{index}": "1" for index in range(129)}}),
    "very many taints": manifest(taints=[{"key": f"k{index}"} for index in range(65)]),
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_a_node_that_cannot_be_read_is_not_left_out(raw: Manifest) -> None:
    """Or the others would look like all nodes."""
    index = Index(NODES)
    index.put(raw)
    assert isinstance(index.entries, Nodes)
    assert not index.left_out
    assert index.entries.problem is not None
    assert index.entries.problem.startswith("node n1 could not be read: ")
    index.put(manifest())
    assert index.entries.problem is None


def test_nodes_are_grouped_by_what_they_have_and_by_labels() -> None:
    found = nodes(
        manifest("n1", labels={RACK: "r1"}),
        manifest("n2", labels={RACK: "r1"}),
        manifest("n3", labels={RACK: "r2"}),
        manifest("n4", labels={RACK: "r2"}, taints=[{"key": "team", "effect": "NoSchedule"}]),
        manifest("n5"),
    )
    assert grouped(found, RACK) == [(("r1",), ["n1", "n2"]), (("r2",), ["n3"]), (("r2",), ["n4"]), ((None,), ["n5"])]
    assert grouped(found) == [((), ["n1", "n2", "n3", "n5"]), ((), ["n4"])]
    present = found.groups((), (RACK,))
    assert [group.values for group in present] == [(SOME,), (SOME,), (None,)]
    assert (found.values_of(RACK), found.values_of("none")) == ({"r1": 2, "r2": 2}, {})
    assert (found.is_unique(HOST), found.is_unique(RACK)) == (True, False)


def grouped(found: Nodes, *keys: str) -> list[tuple[Any, list[str]]]:
    return [(group.values, list(names)) for group, names in found.groups(keys).items()]


def _moved(found: Nodes) -> None:
    found["n1"] = node_of(manifest("n1", labels={RACK: "r2"}))


def _added(found: Nodes) -> None:
    found["n9"] = node_of(manifest("n9", labels={RACK: "r9", "new": "x"}))


def _deleted(found: Nodes) -> None:
    del found["n1"]


def _popped(found: Nodes) -> None:
    found.pop("n1")
    found.pop("n1", None)


def _updated(found: Nodes) -> None:
    found.update({"n8": node_of(manifest("n8", status={"allocatable": {"cpu": "1"}}))})


def _cleared(found: Nodes) -> None:
    found.clear()


@pytest.mark.parametrize("change", [_moved, _added, _deleted, _popped, _updated, _cleared])
def test_groups_follow_every_change(change: Callable[[Nodes], None]) -> None:
    found = nodes(manifest("n1", labels={RACK: "r1"}), manifest("n2", labels={RACK: "r2"}))
    for keys in ((), (RACK,), (HOST, RACK)):
        found.groups(keys)
    found.values_of(RACK)
    change(found)
    fresh = Nodes(found)
    for keys in ((), (RACK,), (HOST, RACK)):
        assert _as_sets(found.groups(keys)) == _as_sets(fresh.groups(keys))
    for key in (HOST, RACK, "new"):
        assert (found.values_of(key), found.has_key(key)) == (fresh.values_of(key), fresh.has_key(key))


def _as_sets(groups: Any) -> dict[NodeGroup, set[str]]:
    return {group: set(names) for group, names in groups.items()}


def test_the_work_of_a_change_does_not_grow_with_the_number_of_nodes() -> None:
    def lines_of_a_change(number: int) -> int:
        found = nodes(*(manifest(f"n{index}", labels={RACK: f"r{index % 5}"}) for index in range(number)))
        found.groups((RACK,))
        found.groups((HOST,))
        found.values_of(RACK)
        node, lines = node_of(manifest("n3", labels={RACK: "r4"})), 0

        def trace(*_: Any) -> Any:
            nonlocal lines
            lines += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            found["n3"] = node
        finally:
            sys.settrace(before)
        return lines

    assert lines_of_a_change(500) <= lines_of_a_change(50) * 1.2


def test_what_is_remembered_and_followed_is_bounded() -> None:
    found = nodes(manifest())
    for number in range(2000):
        found.remembered(number, object)
        found.groups((f"k{number}",))
        found.values_of(f"k{number}")
    assert len(found._remembered) <= 64
    assert len(found._groupings) <= 32
    assert len(found._counts) <= 256


class Heavy:
    weight = 25_000


def test_fewer_views_are_kept_if_they_are_heavy() -> None:
    found = nodes(manifest())
    first, second, third = (found.view(name, Heavy) for name in "abc")
    assert found.view("c", Heavy) is third
    assert found.view("b", Heavy) is second
    assert found.view("a", Heavy) is not first


def test_fewer_groupings_are_kept_if_all_nodes_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_nodes, "_MOST_KEPT", 600)
    found = nodes(*(manifest(f"n{number}", labels={"name": str(number)}) for number in range(30)))
    first = found.groups(("name",))
    for number in range(19):
        found.groups(("name", f"k{number}"))
    assert found.groups(("name",)) is first
    for number in range(20):
        found.groups(("name", f"k{number}"))
    assert found.groups(("name",)) is not first
    assert len(found._groupings) == 20


def test_rows_are_equal_by_their_entries_and_share_their_keys() -> None:
    first, second = Row.from_mapping({"b": 1, "a": 2}), Row.from_mapping({"a": 2, "b": 1})
    assert (first == second, hash(first) == hash(second), first.places is second.places) == (True, True, True)
    assert first == {"a": 2, "b": 1}
    assert first != Row.from_mapping({"a": 2, "c": 1})
    assert (first.get("a"), first.get("x", 7), list(first), repr(first)) == (2, 7, ["a", "b"], "Row({'a': 2, 'b': 1})")


def test_a_node_takes_less_than_twelve_kilobytes() -> None:
    """So 5,000 take less than 60 MB. Each has a hundred labels, as node feature discovery writes them.

    The interpreter's table of interned strings grows by megabytes now and then: with one of two clusters at most.
    """
    assert 0 < min(bytes_of_nodes("a"), bytes_of_nodes("b")) < 300 * 12_000


def bytes_of_nodes(cluster: str) -> int:
    """What 300 nodes take in memory, with the groups of those that are equal."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{index}": "true" for index in range(100)}
    raws = [orjson.dumps(manifest(labels={**labels, RACK: f"r{number // 40}"})) for number in range(50)]
    index = Index(NODES)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(300):
            raw = orjson.loads(raws[number % 50])
            raw["metadata"] |= {"name": f"node-{cluster}-{number}", "uid": f"{number:032}"}
            raw["metadata"]["labels"][HOST] = f"node-{cluster}-{number}"
            index.put(raw)
        facts = ClusterFacts(nodes=index.entries)  # type: ignore[arg-type]
        assert facts.nodes is not None
        facts.nodes.groups((RACK,))
        facts.nodes.groups((HOST,))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(facts.nodes) == 300
    return after - before
