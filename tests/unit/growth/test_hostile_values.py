"""Single values that are long, large or deep: read in bounded time, and never an internal error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.growth.reviews import Grown, judge, settings_for
from webhook.backends.koordinator.gang_groups import UnreadableSetting, read_groups, read_topology
from webhook.backends.registry import installed_backends
from webhook.model.facts import ClusterFacts
from webhook.model.quantity import nanoseconds, parse_quantity
from webhook.validators.examples import clique, pod_clique_set

LONG = 300_000


@pytest.mark.parametrize("written", ["1h" * LONG, "1" * LONG, "." * LONG, "-" * LONG])
def test_a_duration_with_too_many_parts_is_invalid(written: str) -> None:
    assert nanoseconds(written) is None


@pytest.mark.parametrize("read", [read_groups, read_topology])
def test_an_annotation_that_no_api_server_stores_is_not_read(read: Any) -> None:
    with pytest.raises(UnreadableSetting, match="longer than the API server allows"):
        read("[" * LONG)


@pytest.mark.parametrize("written", ["1e999999", "9" * LONG, "1e-999999", "." * LONG, "1" + "0" * LONG + "Ki"])
def test_a_quantity_that_is_too_large_to_compute_is_invalid(written: str) -> None:
    assert parse_quantity(written) is None


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("scheduler", installed_backends())
@pytest.mark.parametrize("value", ["a" * LONG, "-" * LONG, "é\u202e" * LONG, "a." * LONG, "9" * LONG, 2**63, -(2**63)])
def test_a_long_value_wherever_a_set_names_something_is_judged(value: str | int, scheduler: str) -> None:
    named = str(value)
    member = clique(
        named,
        labels={"kai.scheduler/queue": named, "koordinator.sh/qosClass": named},
        annotations={"scheduling.grove.io/volcano-queue": named, "grove.io/mnnvl-group": named},
        requests={"nvidia.com/gpu": named},
        topologyConstraint={"topologyName": named, "packDomain": named},
        pod={"schedulingGroup": _deep(200), "priorityClassName": named},
    )
    manifest = pod_clique_set(member, annotations={"scheduling.grove.io/koordinator-quota": named})
    manifest["spec"]["replicas"] = value if isinstance(value, int) else 1
    settings = settings_for((scheduler,), {})
    for old in (None, manifest):
        judge(Grown(manifest, old, ClusterFacts()), settings)
