"""Topology objects for KAI: the topology of a binding, when it is recreated, and which ones are left unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.topology_bindings import OWNER
from tests.unit.worlds import settings_of
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import ClusterTopologyBinding
from webhook.model.known_objects import TopologyBinding
from webhook.model.topology_tree import DriftReason, TopologyDrift

KAI = settings_of("kai-scheduler").profiles["kai-scheduler"].backend


def binding(*keys: str, reference: str | None = None) -> ClusterTopologyBinding:
    spec: dict[str, Any] = {"levels": [{"domain": f"d{index}", "key": key} for index, key in enumerate(keys)]}
    if reference is not None:
        spec["schedulerTopologyBindings"] = [{"schedulerName": "kai-scheduler", "topologyReference": reference}]
    return ClusterTopologyBinding({"metadata": {"name": "dc", "uid": "77"}, "spec": spec})


def test_a_binding_becomes_a_topology_with_its_name_and_ordered_keys() -> None:
    assert KAI.topology_objects(binding("example.com/zone", "example.com/rack", "kubernetes.io/hostname")) == [
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {
                "name": "dc",
                "labels": {"app.kubernetes.io/managed-by": "rollcall"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "levels": [
                    {"nodeLabel": "example.com/zone"},
                    {"nodeLabel": "example.com/rack"},
                    {"nodeLabel": "kubernetes.io/hostname"},
                ]
            },
        }
    ]


def test_an_externally_managed_topology_is_only_compared() -> None:
    kept = binding("example.com/zone", reference="racks")
    assert KAI.topology_objects(kept) == []
    assert KAI.topology_drift(kept, None) == TopologyDrift("racks", DriftReason.NOT_FOUND, "Topology racks is missing")
    assert KAI.topology_drift(kept, {"spec": {"levels": [{"nodeLabel": "example.com/zone", "alias": "z"}]}}) is None
    drift = KAI.topology_drift(kept, {"spec": {"levels": [{"nodeLabel": "example.com/row"}]}})
    assert drift is not None
    assert drift.reason == "Drift"
    assert drift.message == (
        "Topology racks has the levels example.com/row, and ClusterTopologyBinding dc has example.com/zone"
    )


def test_foreign_aliases_of_levels_are_kept() -> None:
    (desired,) = KAI.topology_objects(binding("example.com/zone", "example.com/rack"))
    named = [{"nodeLabel": "example.com/zone"}, {"nodeLabel": "example.com/rack", "alias": "rack"}]
    assert KAI.adopt(desired, {"spec": {"levels": named}}) == {**desired, "spec": {"levels": named}}
    assert KAI.adopt(desired, {"spec": {"levels": named[::-1]}}) == desired
    assert KAI.adopt(desired, None) == desired


REMADE = {
    "the same": (["example.com/zone", "example.com/rack"], False),
    "another key": (["example.com/zone", "example.com/row"], True),
    "another order": (["example.com/rack", "example.com/zone"], True),
    "one less": (["example.com/zone"], True),
}


@pytest.mark.parametrize(("keys", "remade"), REMADE.values(), ids=REMADE)
def test_a_topology_is_recreated_if_its_keys_or_their_order_change(keys: list[str], remade: bool) -> None:
    (desired,) = KAI.topology_objects(binding("example.com/zone", "example.com/rack"))
    live = {"spec": {"levels": [{"nodeLabel": key, "alias": key[-3:]} for key in keys]}}
    assert KAI.topology_must_be_remade(desired, live) is remade


DRIFTS = {
    "in step": ({"dc": ("example.com/zone", "example.com/rack")}, {}, []),
    "other order": (
        {"dc": ("example.com/rack", "example.com/zone")},
        {},
        [
            "kai-scheduler: Topology dc has the levels example.com/rack, example.com/zone, "
            "and ClusterTopologyBinding dc has example.com/zone, example.com/rack"
        ],
    ),
    "yet to be made": ({}, {}, []),
    "externally managed, and missing": (
        {},
        {"kai-scheduler": "racks"},
        ["kai-scheduler: Topology racks is missing"],
    ),
    "kept for another scheduler": ({}, {"other": "racks"}, []),
    "unknown": (None, {"kai-scheduler": "racks"}, []),
}


@pytest.mark.parametrize(("topologies", "references", "told"), DRIFTS.values(), ids=DRIFTS)
def test_drift_is_reported_at_the_start_and_when_it_begins(
    topologies: dict[str, tuple[str, ...]] | None, references: dict[str, str], told: list[str]
) -> None:
    bound = {"dc": TopologyBinding({"zone": "example.com/zone", "rack": "example.com/rack"}, references)}
    assert list(KAI.init(ClusterFacts(topology_bindings=bound, kai_topologies=topologies))) == told


IMPOSSIBLE = {
    "none": [],
    "too many": [f"example.com/l{index}" for index in range(17)],
    "one without a key": ["example.com/rack", ""],
    "one twice": ["example.com/rack", "example.com/rack"],
    "the host above another": ["kubernetes.io/hostname", "example.com/rack"],
}


@pytest.mark.parametrize("keys", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_no_topology_is_created_from_levels_that_KAI_would_refuse(keys: list[str]) -> None:
    with pytest.raises(Inexpressible):
        KAI.topology_objects(binding(*keys))
