"""Variants of the sound backend that are broken in one way each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.conformance.sound import MappedBackend, RackedBackend, SoundBackend, topology
from webhook.backends.base import BackendSettings, GangMember, PodChanges
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding
from webhook.model.gang_objects import Frozen, Stage
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.model.topology_tree import NodeTopology


def broken(**members: Any) -> type[SoundBackend]:
    """The sound backend with something else in it."""
    return type("BrokenBackend", (SoundBackend,), members)


def mapped(**members: Any) -> type[SoundBackend]:
    """The one with Maps, with something else in it."""
    return type("BrokenBackend", (MappedBackend,), members)


def racked(**members: Any) -> type[SoundBackend]:
    """The one with Maps of nodes, with something else in it."""
    return type("BrokenBackend", (RackedBackend,), members)


def racking(change: Callable[[list[Manifest]], list[Manifest]]) -> type[SoundBackend]:
    """A backend that writes these Maps of nodes."""

    def node_topology_objects(self: RackedBackend, *given: Any) -> NodeTopology:
        made = RackedBackend.node_topology_objects(self, *given)
        return made._replace(objects=tuple(change(list(made.objects))))

    return racked(node_topology_objects=node_topology_objects)


def mapping_out(change: Callable[[list[Manifest]], list[Manifest]]) -> type[SoundBackend]:
    """A backend that writes these Maps."""
    return mapped(topology_objects=lambda self, binding: change(MappedBackend.topology_objects(self, binding)))


def preparing(change: Callable[[GangMember, PodChanges], PodChanges]) -> type[SoundBackend]:
    """A backend that prepares pods in this way."""

    def prepare_pod(self: SoundBackend, member: GangMember) -> PodChanges:
        return change(member, SoundBackend.prepare_pod(self, member))

    return broken(prepare_pod=prepare_pod)


def translating(change: Callable[[PodGang, list[Manifest]], list[Manifest]]) -> type[SoundBackend]:
    """A backend that translates to these objects."""

    def gang_objects(self: SoundBackend, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return change(podgang, SoundBackend.gang_objects(self, podgang, record, facts))

    return broken(gang_objects=gang_objects)


def adopting(adopt: Callable[[Manifest, Any], Manifest]) -> type[SoundBackend]:
    """A backend that adopts in this way."""
    return broken(adopt=lambda self, desired, live: adopt(desired, live))


def settling(settle: Callable[[Any, Any], Any]) -> type[SoundBackend]:
    """A backend that settles the objects of a gang in this way."""
    return broken(settle=lambda self, desired, live: settle(desired, live))


def freezing(recreated: Callable[[Any, Any], Any]) -> type[SoundBackend]:
    """One that lets no gang change but without pods; None is to say that it does not change."""

    def frozen(self: SoundBackend, desired: Any, live: Any) -> Frozen | None:
        going = recreated(desired, live)
        return None if going is None else Frozen("its members", "they are frozen", Stage.EMPTY, tuple(going))

    return broken(frozen=frozen)


def judging(*findings: Finding, **fields: Any) -> type[SoundBackend]:
    """A backend whose rule always has these findings about a workload with topology."""
    return broken(rules=(replace(topology, check=lambda workload, context: iter(findings), **fields),))


def raising(*_: Any) -> Any:
    raise KeyError("spec")


def with_metadata(found: Manifest, **fields: Any) -> Manifest:
    return {**found, "metadata": {**found["metadata"], **fields}}


def named(objects: list[Manifest], name: Callable[[int, str], str]) -> list[Manifest]:
    return [with_metadata(found, name=name(at, found["metadata"]["name"])) for at, found in enumerate(objects)]


def referring(objects: list[Manifest]) -> list[Manifest]:
    """The objects with their references in the other form of Kubernetes."""
    gang, *parts = objects
    return [gang, *({**part, "spec": {"gangRef": {"name": part["spec"]["gangName"]}}} for part in parts)]


def vandal(podgang: PodGang, objects: list[Manifest]) -> list[Manifest]:
    podgang.raw["metadata"]["labels"]["touched"] = "yes"
    return objects


def emptied(desired: Manifest, live: Any) -> Manifest:
    desired["spec"].pop("queue", None)
    return desired


class Strict(BackendSettings):
    queue: str


class Lenient(BackendSettings, extra="ignore"):
    queue: str = "all"
