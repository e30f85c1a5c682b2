"""The cached part of texts, lists, labels and manifests of any length."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.bounds import (
    KEPT_BYTES,
    MOST_CHARACTERS,
    MOST_ITEMS,
    Packed,
    is_cut,
    labels_kept,
    list_kept,
    name_text,
    names_kept,
    unpacked,
    weight,
)
from webhook.model.capabilities import Disruption
from webhook.model.reading import Malformed


@dataclass(frozen=True, slots=True)
class Slotted:
    one: str
    other: object = None


def test_a_text_that_can_be_a_name_is_kept() -> None:
    assert name_text("a" * 253) == "a" * 253
    assert name_text("") is None
    assert name_text(None) is None


def test_a_longer_text_becomes_a_unique_text_that_is_not_a_name() -> None:
    one, other = name_text("a" * 254), name_text("a" * 255)
    assert one is not None
    assert one != other
    assert len(one) < 253
    assert "…" in one


def test_a_text_of_another_type_is_malformed() -> None:
    with pytest.raises(Malformed):
        name_text(7)


@given(st.lists(st.text(), max_size=MOST_ITEMS * 2).map(tuple), st.lists(st.text(), max_size=MOST_ITEMS * 2).map(tuple))
def test_cached_lists_are_equal_if_the_lists_are(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (list_kept(one) == list_kept(other)) == (one == other)


def test_the_first_items_of_a_list_that_is_too_long_are_kept() -> None:
    kept = list_kept(tuple(f"team/{number}" for number in range(10_000)))
    assert kept[: MOST_ITEMS - 1] == tuple(f"team/{number}" for number in range(MOST_ITEMS - 1))
    assert len(kept) == MOST_ITEMS
    assert is_cut(kept)
    assert not is_cut(("team/a",))


def test_lists_that_differ_only_in_dropped_items_stay_different() -> None:
    one = tuple(f"team/{number}" for number in range(1000))
    assert list_kept(one) != list_kept((*one[:-1], "team/other"))


def test_one_text_can_be_too_long_for_a_list() -> None:
    assert sum(map(len, list_kept(("a" * (MOST_CHARACTERS + 1), "b")))) < 100


def test_too_many_names_count_as_unknown() -> None:
    assert names_kept(frozenset("ab")) == frozenset("ab")
    assert names_kept(frozenset(map(str, range(MOST_ITEMS + 1)))) is None


def test_wanted_labels_are_kept_among_thousands() -> None:
    labels = {f"a{number}": "v" for number in range(5000)} | {"rollcall.dev/scheduler": "kai-scheduler"}
    kept, whole = labels_kept(labels, first="rollcall.dev/")
    assert kept["rollcall.dev/scheduler"] == "kai-scheduler"
    assert len(kept) == MOST_ITEMS
    assert not whole
    assert labels_kept({"a": "b"}, first="rollcall.dev/") == ({"a": "b"}, True)


def test_a_packed_manifest_is_unpacked_unchanged() -> None:
    manifest = {"spec": {"names": [f"n{number}" for number in range(5000)], "large": 2**70, "half": "\ud800"}}
    kept = Packed.pack(manifest)
    assert len(kept) < KEPT_BYTES
    assert unpacked(kept) == manifest
    assert unpacked(manifest) == manifest


@pytest.mark.parametrize("spec", [{}, {"minMember": 2}, {"large": 2**70}, {"half": "\ud800"}])
def test_a_small_manifest_is_unpacked_unchanged(spec: dict[str, object]) -> None:
    assert Packed.pack({"spec": spec}).manifest() == {"spec": spec}


def test_a_gang_object_is_packed_to_a_third() -> None:
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "uid": "8a1b3c53-8a20-4bd1"}
    metadata = {
        "name": "demo-0-worker",
        "namespace": "team-a",
        "uid": "8f5a3c53-8a20-4bdd-9c37-cdc9be87e63b",
        "labels": {"app.kubernetes.io/managed-by": "rollcall", "grove.io/podgang": "demo-0"},
        "annotations": {"gang.scheduling.koordinator.sh/mode": "Strict", "rollcall.dev/applied": "01a3f567"},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    manifest = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata}
    kept = Packed.pack(manifest)
    assert kept.manifest() == manifest
    assert 3 * len(kept) < len(str(manifest))


@pytest.mark.parametrize(
    "value",
    [
        "x" * KEPT_BYTES,
        ["x"] * KEPT_BYTES,
        {"a": {"b": "x" * KEPT_BYTES}},
        Slotted("a", frozenset({"x" * KEPT_BYTES})),
        (("team", "a"), Slotted("x" * KEPT_BYTES)),
    ],
    ids=["text", "list", "mapping", "set in a dataclass", "dataclass in a tuple"],
)
def test_heavy_values_are_counted_at_any_depth(value: object) -> None:
    assert weight(value) > KEPT_BYTES


def test_shared_and_repeated_values_count_as_weightless() -> None:
    shared = "x" * (KEPT_BYTES // 2)
    assert weight([shared, shared, shared]) < KEPT_BYTES
    assert weight(Disruption.ALL) < 200
