"""The cached part of each object, whatever its author wrote: measured for every registered projection."""

from __future__ import annotations

from collections.abc import Sized

import pytest

from tests.unit.cluster.hostile import SAMPLES, attacks, projections
from tests.unit.kept_bytes import bytes_of
from webhook.cluster.watch import Index
from webhook.model.projections import Projection

# Objects of each kind, and the fewest with one field enlarged.
OBJECTS, FEWEST = 20, 2
# Much more than is kept, and little enough for a test; `python -m benchmarks.kept` takes what the API server would.
OBJECT_BYTES = 64 * 1024


@pytest.mark.parametrize("projection", projections(), ids=lambda one: f"{one.part}-{one.resource.api.version}")
def test_hostile_objects_use_a_bounded_amount_of_memory_each(projection: Projection) -> None:
    ways = list(attacks(SAMPLES[projection.part], OBJECT_BYTES))
    each = max(FEWEST, OBJECTS // len(ways))
    for attack in ways:
        index = Index(projection)
        empty = bytes_of(index)
        for number in range(each):
            index.put(attack.object(number))
        # The indexes by key, by name and by what entries have in common come besides.
        assert (bytes_of(index) - empty) / each < 2 * projection.most, attack.field


@pytest.mark.parametrize("projection", projections(), ids=lambda one: f"{one.part}-{one.resource.api.version}")
def test_the_sample_of_each_kind_is_read(projection: Projection) -> None:
    """Or growing its fields would show nothing."""
    index = Index(projection)
    raw = SAMPLES[projection.part]
    index.put({**raw, "metadata": {**raw["metadata"], "name": "demo", "namespace": "team"}})
    assert len(index.entries) == 1
    assert not index.left_out


@pytest.mark.exhaustive
@pytest.mark.parametrize("projection", projections(), ids=lambda one: f"{one.part}-{one.resource.api.version}")
def test_deleting_the_objects_frees_all_memory(projection: Projection) -> None:
    index = Index(projection)
    ways = attacks(SAMPLES[projection.part], OBJECT_BYTES)
    raws = [attack.object(number) for number, attack in enumerate(ways)]
    for raw in raws:
        index.put(raw)
    for raw in raws:
        index.drop(raw)
    assert not index.entries
    assert not index.left_out
    # What finds entries by what they have in common is empty as well.
    assert not any(found for found in getattr(index.entries, "__dict__", {}).values() if isinstance(found, Sized))
