"""Which workloads a reconciler keeps unpacked."""

from __future__ import annotations

import pytest

from tests.unit.cluster.scripted import Script, client
from webhook.gangs.stores import LATEST, LATEST_BYTES, StoredWorkloads
from webhook.model.bounds import Packed
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Manifest


def workload(namespace: str, size: int) -> Manifest:
    return {"metadata": {"name": "demo", "namespace": namespace}, "spec": {"text": "x" * size}}


def unpackings(sizes: list[int], unpacked: list[Packed]) -> int:
    """How often workloads of these sizes are unpacked that are asked for in turn, the second time."""
    found = StoredWorkloads(client(Script()), POD_CLIQUE_SETS.resource, lambda _: None)
    for index, size in enumerate(sizes):
        assert found.put_unrecorded(workload(f"team-{index}", size))
    for _ in range(2):
        unpacked.clear()
        for index in range(len(sizes)):
            assert found.latest((f"team-{index}", "demo"), lambda raw: raw) is not None
    return len(unpacked)


@pytest.mark.parametrize("sizes", [[1_000_000] * 5, [100_000] * 20, [100] * LATEST], ids=["five", "twenty", "small"])
def test_the_workloads_of_several_namespaces_are_unpacked_once(sizes: list[int], unpacked: list[Packed]) -> None:
    assert unpackings(sizes, unpacked) == 0


@pytest.mark.parametrize("sizes", [[LATEST_BYTES // 4] * 8, [100] * (LATEST + 1)], ids=["too large", "too many"])
def test_no_more_are_kept_than_there_is_room_for(sizes: list[int], unpacked: list[Packed]) -> None:
    assert unpackings(sizes, unpacked) == len(sizes)
