"""The given gangs, written to real API servers: which were accepted, and which rules refused the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.gang_writer import GangWriter, served
from tests.e2e.given_gangs import Hard, recorded_gangs, sample_sets, without_preference
from tests.unit.worlds import validate
from webhook.config.settings import Settings
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import GroveGeneration, PodGang
from webhook.model.keys import Record
from webhook.model.known_objects import HyperNode, TopologyBinding, TopologyLayer
from webhook.model.workload_record import record_of
from webhook.offline.translation import expected_gangs, shown_record
from webhook.workloads.pod_clique_set import PodCliqueSet

KEYS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "example.com/block",
    "rack": "example.com/rack",
    "host": "kubernetes.io/hostname",
}
# The recorded operator knew a rack by this key.
RECORDED_KEYS = {**KEYS, "rack": "rack"}
LAYERS = (
    TopologyLayer("ZoneLayer", None, (KEYS["zone"],)),
    TopologyLayer("BlockLayer", "ZoneLayer", (KEYS["block"],)),
    TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
)
TIERS = {
    domain: HyperNode(tier, key) for tier, (domain, key) in enumerate(reversed(RECORDED_KEYS.items()), start=1)
} | {"other-rack": HyperNode(2, KEYS["rack"])}


def known(plane: ControlPlane, keys: Mapping[str, str] = KEYS) -> ClusterFacts:
    return ClusterFacts(
        apis=served(plane),
        topology_bindings={"dc": TopologyBinding(keys)},
        network_topologies={"default": LAYERS},
        hyper_nodes=TIERS,
    )


def gangs_on(plane: ControlPlane, namespace: str, settings: Settings, facts: ClusterFacts) -> GangWriter:
    return GangWriter(plane, namespace, settings.profiles[settings.default], facts)


def said(error: Inexpressible) -> list[str]:
    return [finding.rule for finding in error.findings] + [missing.rule for missing in error.unjudged]


Recorded = dict[str, tuple[int, set[str]]]


class Samples(NamedTuple):
    """What became of the samples: objects that were accepted, PodGangs by the rule that forbade their objects, and sets
    by the rules of this scheduler that refused them at admission.
    """

    judged: int
    unwritten: dict[str, int]
    refused: dict[str, set[str]]


def write_samples(plane: ControlPlane, namespace: str, settings: Settings) -> Samples:
    """Write what can be written of the samples. A backend that refuses gang objects must have refused the workload."""
    facts = known(plane)
    writer, unwritten, refused = gangs_on(plane, namespace, settings, facts), Counter[str](), {}
    own = {declared.id for declared in writer.profile.backend.rules}
    for name, manifest in sample_sets().items():
        verdict = validate(manifest, settings=settings, facts=facts)
        denied = {finding.rule for finding in verdict.denials} & own
        if denied:
            refused[name] = denied
        workload = PodCliqueSet(manifest)
        for expected in expected_gangs(workload, facts, GroveGeneration.LEGACY):
            try:
                writer.write(expected.raw, record_of(workload, settings.default))
            except Inexpressible as error:
                unwritten.update(said(error))
                assert set(said(error)) <= denied, f"{name} was admitted, and cannot be written: {error}"
    return Samples(writer.judged, dict(unwritten), refused)


def write_recordings(plane: ControlPlane, namespace: str, settings: Settings) -> Recorded:
    """Write the recorded PodGangs in all their states: by recording the objects that were accepted and the rules that
    forbade any. Of the one with topology there is a second form, in which it prefers nothing.
    """
    facts = known(plane, RECORDED_KEYS)
    found: Recorded = {}
    recorded = recorded_gangs()
    recorded["topology, required"] = [without_preference(state) for state in recorded["topology"]]
    for folder, states in recorded.items():
        writer, forbidden = gangs_on(plane, namespace, settings, facts), set[str]()
        for state in states:
            try:
                writer.write(state, shown_record(PodGang(state), writer.profile, facts))
            except Inexpressible as error:
                forbidden |= set(said(error))
        found[folder] = (writer.judged, forbidden)
    return found


def write_case(writer: GangWriter, case: Hard, expected: str | None) -> None:
    """Write a hard case in all its states. Where a refusal is expected, each state is refused."""
    record = Record(writer.profile.name, queues=(("kai.scheduler/queue", "team-a"),))
    for state in case.states:
        if expected is None:
            writer.write(state, record)
            continue
        with pytest.raises(Inexpressible) as error:
            writer.write(state, record)
        assert said(error.value) == [expected]
        assert writer.judged == 0


def are_as_expected(found: Recorded, expected: Mapping[str, int | set[str]]) -> None:
    assert found.keys() == expected.keys()
    for folder, (judged, forbidden) in found.items():
        wanted = expected[folder]
        if isinstance(wanted, int):
            assert judged >= wanted, folder
            assert forbidden == set(), folder
        else:
            assert forbidden == wanted, folder
