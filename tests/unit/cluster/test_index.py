"""The cost of one event, and the handling of objects that are not cached."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from tests.unit.cluster.hostile import SAMPLES, attacks, projections
from tests.unit.cluster.scripted import namespace, quota
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.cluster.watch import EVENTS_SHARE, Index, rest_after
from webhook.model.known_objects import Quota
from webhook.model.projections import NAMESPACES, Projection, key_of
from webhook.model.reading import Manifest

Each = pytest.mark.parametrize("projection", projections(), ids=lambda one: f"{one.part}-{one.resource.api.version}")
SMALL = NAMESPACES._replace(most=2048)
OWN = Projection(
    "", ELASTIC_QUOTAS.resource, lambda raw: (key_of(raw), str(raw["metadata"]["labels"])), keyed_by_object=True
)


def steps(act: Callable[[], Any]) -> int:
    """The lines of Python that run."""
    count = 0

    def trace(*_: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def filled(projection: Projection, objects: int, where: str) -> Index:
    """An index of so many objects that are alike: in what they name, or even in their own names."""
    index = Index(projection)
    for number in range(objects):
        index.put(alike(projection, number, where))
    return index


def alike(projection: Projection, number: int, where: str) -> Manifest:
    names = {
        "names": {"name": f"n{number}", "namespace": "team"},
        "namespaces": {"name": "n", "namespace": f"t{number}"},
    }
    raw = SAMPLES[projection.part]
    return {**raw, "metadata": {**raw["metadata"], **names[where]}}


@pytest.mark.parametrize(
    ("where", "act"),
    [
        pytest.param("names", Index.put, id="names-put", marks=pytest.mark.exhaustive),
        pytest.param("names", Index.drop, id="names-drop", marks=pytest.mark.exhaustive),
        pytest.param("namespaces", Index.put, id="namespaces-put", marks=pytest.mark.exhaustive),
        pytest.param("namespaces", Index.drop, id="namespaces-drop"),
    ],
)
@Each
def test_the_cost_of_an_event_does_not_grow_with_the_number_of_objects(
    projection: Projection, where: str, act: Callable[[Index, Manifest], None]
) -> None:
    raw = alike(projection, 7, where)
    few, many = (filled(projection, count, where) for count in (50, 200))
    assert steps(lambda: act(many, raw)) <= 1.2 * steps(lambda: act(few, raw)) + 20


def test_quotas_with_one_name_in_thousands_of_namespaces_can_be_deleted_one_by_one() -> None:
    index = Index(ELASTIC_QUOTAS)
    for number in range(2000):
        index.put(quota("shared", f"team-{number}", parent=number == 0))
    for number in range(1, 2000):
        index.drop(quota("shared", f"team-{number}"))
    assert index.entries == {"shared": Quota(is_parent=True)}
    index.drop(quota("shared", "team-0"))
    assert index.entries == {}


def test_under_a_shared_key_the_latest_object_is_known() -> None:
    index = Index(ELASTIC_QUOTAS)
    for where, parent in (("a", True), ("b", False), ("a", True)):
        index.put(quota("shared", where, parent=parent))
    assert index.entries["shared"].is_parent
    index.drop(quota("shared", "a"))
    assert not index.entries["shared"].is_parent


def test_an_object_that_is_too_large_is_left_out_and_comes_back_when_it_is_smaller() -> None:
    index = Index(SMALL)
    index.put(namespace("team", stage="a"))
    index.put(namespace("team", **{f"key-{number}": "v" * 60 for number in range(40)}))
    assert index.entries == {}
    assert index.left_out == {("default", "team")}
    index.put(namespace("team", stage="b"))
    assert list(index.entries) == ["team"]
    assert index.left_out == set()


def test_a_left_out_object_is_forgotten_when_it_is_deleted() -> None:
    index = Index(SMALL._replace(most=1))
    for name in ("a", "b"):
        index.put(namespace(name))
    index.drop(namespace("a"))
    assert index.left_out == {("default", "b")}
    index.clear()
    assert index.left_out == set()


def test_objects_whose_key_is_their_own_are_kept_once() -> None:
    told: list[Any] = []
    index = Index(OWN, told.append)
    for parent in (False, True, True):
        index.put(quota("a", "team", parent=parent))
    index.put(quota("b", "team"))
    assert index.entries.keys() == {("team", "a"), ("team", "b")}
    index.drop(quota("a", "team"))
    index.drop(quota("a", "team"))
    index.clear()
    assert index.entries == {}
    assert told == [("team", name) for name in "aabab"]


def test_objects_that_are_not_cached_are_logged_at_growing_intervals() -> None:
    index = Index(SMALL._replace(most=1))
    with structlog.testing.capture_logs() as lines:
        for number in range(1000):
            index.put(namespace(f"n{number}"))
    assert [line["count"] for line in lines] == [2**power for power in range(10)]
    assert {line["event"] for line in lines} == {"object not kept"}


@Each
def test_a_log_line_about_an_object_has_a_length_limit(projection: Projection) -> None:
    index = Index(projection)
    with structlog.testing.capture_logs() as lines:
        for number, attack in enumerate(attacks(SAMPLES[projection.part], 20 * 1024)):
            raw = attack.object(number)
            index.put(raw)
            index.put({**raw, "spec": attack.field, "metadata": {**raw["metadata"], "labels": attack.field}})
    assert all(len(str(line)) < 1024 for line in lines)


def test_a_kind_pauses_after_an_event_that_took_long() -> None:
    assert rest_after(0.0001) == 0
    assert rest_after(0.1) == pytest.approx(0.1 / EVENTS_SHARE - 0.1)
