"""PodGangMaps: which PodGangs a replica of a PodCliqueSet has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from webhook.model.bounds import KEPT_BYTES, weight
from webhook.model.pod_gang_map import POD_GANG_MAPS, PodGangMap, short_name
from webhook.model.reading import Malformed

ANCHOR = {"role": "Anchor", "epoch": "100", "podCliques": {"router": 2}, "pcsgReplicaIndices": {"decode": [0]}}
TAIL = {"role": "Tail", "epoch": "101", "pcsgReplicaIndices": {"decode": [1]}, "dependsOn": ["100"]}
SCALE_OUT = {"role": "ScaleOut", "epoch": "102", "pcsgReplicaIndices": {"decode": [2, 3]}, "dependsOn": ["100"]}


def read(*entries: Mapping[str, object], name: str = "demo-0") -> PodGangMap:
    raw = {"metadata": {"namespace": "team-a", "name": name}, "spec": {"entries": list(entries)}}
    found = POD_GANG_MAPS.read(raw)
    assert found is not None
    key, value = found
    assert key == ("team-a", name)
    assert isinstance(value, PodGangMap)
    return value


def roles(found: PodGangMap, *podgangs: str) -> list[str | None]:
    entries = [found.entry_of(podgang) for podgang in podgangs]
    return [None if entry is None else entry.role for entry in entries]


def test_finds_the_entry_of_a_pod_gang_by_its_name() -> None:
    found = read(ANCHOR, TAIL, SCALE_OUT)
    assert roles(found, "demo-0-100", "demo-0-101-decode-1", "demo-0-102-decode-3") == ["Anchor", "Tail", "ScaleOut"]


def test_a_pod_gang_of_the_older_generation_has_no_entry() -> None:
    found = read(ANCHOR, TAIL)
    assert roles(found, "demo-0", "demo-0-decode-0", "demo-0-101-decode-0", "demo-0-102") == [None] * 4


def test_the_pod_gangs_of_an_entry_wait_for_its_anchors() -> None:
    found = read(ANCHOR, TAIL, SCALE_OUT)
    assert found.anchors_of("demo-0-102-decode-2") == ["demo-0-100"]
    assert found.anchors_of("demo-0-100") == []
    assert found.anchors_of("demo-0") == []


def test_knows_which_pod_cliques_any_entry_contains() -> None:
    found = read(ANCHOR, TAIL)
    names = ("demo-0-router", "demo-0-decode-1-worker", "demo-0-decode-2-worker", "demo-0-frontend", "other-0-router")
    assert [any(found.entries_with(name)) for name in names] == [True, True, False, False, False]


def test_group_and_clique_names_may_contain_dashes_and_digits() -> None:
    found = read({"role": "Tail", "epoch": "7", "pcsgReplicaIndices": {"a-1": [4]}})
    assert any(found.entries_with("demo-0-a-1-4-b-2"))
    assert not any(found.entries_with("demo-0-a-1-b-2"))
    assert roles(found, "demo-0-7-a-1-4", "demo-0-7-a-1") == ["Tail", None]


def test_what_has_no_pods_is_not_contained() -> None:
    found = read({"role": "Anchor", "epoch": "7", "podCliques": {"router": 0}, "pcsgReplicaIndices": {"decode": []}})
    assert not any(found.entries_with("demo-0-router"))
    assert not any(found.entries_with("demo-0-decode-0-worker"))


def test_a_name_over_63_characters_is_cut_as_grove_cuts_it() -> None:
    name = "a" * 40 + "-0"
    long = f"{name}-1795344276589742021-decode-1"
    cut = "a" * 29 + "-h" + "b2df759a393c77306211ab94c9f37871"
    assert short_name(long) == cut
    found = read({**TAIL, "epoch": "1795344276589742021"}, name=name)
    # The first releases did not cut names.
    assert roles(found, cut, long) == ["Tail", "Tail"]


def steps_of_a_scale_out(count: int) -> PodGangMap:
    """Each step adds an entry."""
    steps = (
        {**SCALE_OUT, "epoch": f"{102 + index}", "pcsgReplicaIndices": {"decode": [index]}} for index in range(count)
    )
    return read(ANCHOR, *steps)


def test_two_hundred_steps_of_a_scale_out_are_kept() -> None:
    found = steps_of_a_scale_out(200)
    assert weight(found) < KEPT_BYTES
    assert found.anchors_of("demo-0-301-decode-199") == ["demo-0-100"]
    assert any(found.entries_with("demo-0-decode-199-worker"))
    assert not any(found.entries_with("demo-0-decode-200-worker"))
    assert found.entries[:2] == steps_of_a_scale_out(1).entries


def test_a_map_of_thousands_of_entries_is_too_large_to_be_kept() -> None:
    """Though it packs well: it would be unpacked for each question."""
    assert weight(steps_of_a_scale_out(2000)) > KEPT_BYTES


def test_a_replica_index_of_thousands_of_digits_is_in_no_group() -> None:
    found = read(ANCHOR, TAIL)
    digits = "1" * 5000
    assert not any(found.entries_with(f"demo-0-decode-{digits}-worker"))
    assert found.entry_of(f"demo-0-101-decode-{digits}") is None


@pytest.mark.parametrize(
    "entry",
    [
        "Anchor",
        {"role": 1},
        {"epoch": 1795344276589742021},
        {"podCliques": ["router"]},
        {"podCliques": {"router": "2"}},
        {"podCliques": {"router": 1.5}},
        {"podCliques": {"router": True}},
        {"pcsgReplicaIndices": {"decode": "0"}},
        {"pcsgReplicaIndices": {"decode": ""}},
        {"pcsgReplicaIndices": {"decode": {}}},
        {"pcsgReplicaIndices": {"decode": ["0"]}},
        {"dependsOn": "100"},
        {"dependsOn": [100]},
    ],
    ids=str,
)
def test_an_entry_of_a_wrong_type_is_malformed(entry: object) -> None:
    with pytest.raises(Malformed):
        POD_GANG_MAPS.read({"metadata": {"name": "demo-0"}, "spec": {"entries": [entry]}})


@pytest.mark.parametrize("raw", [{"spec": []}, {"spec": {"entries": {}}}, {"metadata": {}}], ids=str)
def test_a_map_of_a_wrong_type_is_malformed(raw: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        POD_GANG_MAPS.read({"metadata": {"name": "demo-0"}, **raw})


def test_a_map_without_entries_has_no_pod_gangs() -> None:
    assert read().entries == ()
    assert read().entry_of("demo-0") is None
