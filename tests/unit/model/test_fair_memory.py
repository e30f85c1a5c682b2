"""A bounded memory that namespaces share."""

from __future__ import annotations

from webhook.model.bounds import FairMemory, share_of


def test_one_namespace_leaves_a_quarter_to_the_others() -> None:
    memory: FairMemory[str, int] = FairMemory(8)
    for number in range(2):
        memory.put("quiet", f"q{number}", number)
    for number in range(100):
        memory.put("crowd", f"c{number}", number)
    assert [memory.get(f"q{number}") for number in range(2)] == [0, 1]
    assert [number for number in range(100) if memory.get(f"c{number}") is not None] == list(range(94, 100))


def test_what_was_asked_for_last_is_kept() -> None:
    memory: FairMemory[str, int] = FairMemory(4)
    for name in "abcd":
        memory.put(name, name, 1)
    assert memory.get("a") == 1
    memory.put("e", "e", 1)
    assert [memory.get(name) for name in "abcde"] == [1, None, 1, 1, 1]
    assert len(memory) == 4


def test_nothing_is_kept_of_a_namespace_without_entries() -> None:
    memory: FairMemory[str, int] = FairMemory(4)
    memory.put("a", "key", 1)
    memory.put("b", "key", 2)
    assert memory.get("key") == 2
    memory.drop("key")
    memory.drop("key")
    assert (len(memory), memory._of) == (0, {})


def test_entries_count_by_their_weight_and_the_last_one_is_always_kept() -> None:
    memory: FairMemory[str, str] = FairMemory(12)
    for name, weight in (("a", 3), ("b", 3), ("c", 3)):
        memory.put(name, name, name, weight)
    memory.put("d", "d", "d", 6)
    assert [memory.get(name) for name in "abcd"] == [None, "b", "c", "d"]
    for name in "xy":
        memory.put("crowd", name, name, 6)
    assert [memory.get(name) for name in "bcdxy"] == [None, None, "d", None, "y"]
    memory.put("crowd", "z", "z", 100)
    assert [memory.get(name) for name in "dyz"] == [None, None, "z"]
    memory.put("crowd", "z", "z", 1)
    memory.drop("z")
    assert (len(memory), memory._weight, memory._weights) == (0, 0, {})


def test_a_share_is_three_quarters_and_at_least_one() -> None:
    assert [share_of(most) for most in (1, 2, 4, 8, 2048)] == [1, 1, 3, 6, 1536]
