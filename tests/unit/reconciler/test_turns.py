"""The order in which gangs of several namespaces get their turns."""

from __future__ import annotations

from webhook.gangs.key import GangKey
from webhook.reconciler.held_gangs import Turns


def gangs(*written: str) -> list[GangKey]:
    return [GangKey(*one.split("/")) for one in written]


def test_namespaces_alternate_and_keep_the_order_of_their_gangs() -> None:
    turns: Turns[GangKey] = Turns()
    for key in gangs("a/3", "a/1", "a/2", "b/1", "c/2", "c/1"):
        turns.put(key)
    assert list(turns.namespaces) == ["a", "b", "c"]
    assert [turns.take() for _ in range(6)] == gangs("a/3", "b/1", "c/2", "a/1", "c/1", "a/2")
    assert list(turns.namespaces) == []


def test_a_namespace_that_may_have_no_turn_keeps_its_place() -> None:
    turns: Turns[GangKey] = Turns()
    for key in gangs("a/1", "a/2", "b/1"):
        turns.put(key)
    assert turns.take(lambda namespace: namespace != "a") == gangs("b/1")[0]
    assert turns.take(lambda _: False) is None
    assert [turns.take(lambda _: True) for _ in range(3)] == [*gangs("a/1", "a/2"), None]
