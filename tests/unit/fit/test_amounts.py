from __future__ import annotations

import pytest

from webhook.fit.verdict import amount_text, count_text, resource_amount_text, sentence_list


@pytest.mark.parametrize(
    ("resource", "number", "shown"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 64_000, "64"),
        ("memory", 64 << 30, "64Gi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("memory", 263_856_120 << 10, "251.6Gi"),
        ("ephemeral-storage", 3 << 20, "3Mi"),
        ("hugepages-2Mi", 1 << 30, "1Gi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(resource: str, number: int, shown: str) -> None:
    assert amount_text(resource, number) == shown
    assert resource_amount_text(resource, number) == f"{shown} {resource}"


def test_numbers_agree_with_their_nouns() -> None:
    assert [count_text(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
    assert [sentence_list(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
