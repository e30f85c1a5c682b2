"""Amounts as people write them."""

from __future__ import annotations

import pytest

from webhook.fit.amounts import amount_text, in_order


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 250, "250m"),
        ("cpu", 64_000, "64"),
        ("memory", 64 * 1024**3, "64Gi"),
        ("memory", 2 * 1024**4, "2048Gi"),
        ("memory", 16 * 1024**4, "16Ti"),
        ("memory", 1_000_000_000, "953.7Mi"),
        ("memory", 0, "0"),
        ("ephemeral-storage", 100 * 1024**3, "100Gi"),
        ("hugepages-2Mi", 1024**3, "1024Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 110, "110"),
    ],
)
def test_an_amount_is_written_as_in_a_manifest(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


def test_devices_come_first_and_pod_slots_last() -> None:
    every = ["pods", "memory", "cpu", "nvidia.com/gpu", "hugepages-2Mi", "example.com/nic"]
    assert in_order(every) == ["example.com/nic", "nvidia.com/gpu", "cpu", "memory", "hugepages-2Mi", "pods"]
