"""Short ways to write gangs and rooms by hand."""

from __future__ import annotations

from typing import Any

from webhook.fit.packing import GroupNeed, Need, NodeClass, Packing, PackingRole, Partition, PodsNeed, Room
from webhook.fit.pod_needs import Eligibility, PodNeeds
from webhook.fit.verdict import FitAnswer, FitVerdict, Witness
from webhook.model.fields import FieldPath

AT = FieldPath(("spec",))
GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = Partition("rack", ("rack",), AT / "rack")
ZONES = Partition("zone", (ZONE,), AT / "zone")


def role(name: str, gpus: int = 0, *, cpu: int = 1000, **needs: Any) -> PackingRole:
    """A role whose pods request GPUs, cpu in milli, and a slot."""
    return PackingRole(name, AT / name, PodNeeds({"pods": 1, "cpu": cpu, GPU: gpus}, Eligibility(), **needs))


def nodes(
    number: int | None, gpus: int, roles: str = "worker", *, labels: dict[str, str] | None = None, **more: Any
) -> NodeClass:
    """Nodes of 64 cores and 110 slots, for roles named in a text. Their names begin with their rack, if any."""
    labels = labels or {}
    capacity = {"pods": 110, "cpu": 64_000, GPU: gpus, **more.pop("capacity", {})}
    names = tuple(f"{labels.get('rack', 'node')}-{index}" for index in range(number or 0))
    return NodeClass(capacity, labels, number, frozenset(roles.split()), names, **more)


def room(*classes: NodeClass, **more: Any) -> Room:
    """A room of classes."""
    return Room(classes, **more)


def gang(*needs: Need, count: int | None = None, within: Partition | None = None, name: str = "gang") -> GroupNeed:
    """All of some needs, or a number of them."""
    return GroupNeed(name, needs, len(needs) if count is None else count, within)


def packing(*sets: Need, **more: Any) -> Packing:
    """A packing of sets."""
    return Packing(sets, **more)


def pods(one: PackingRole, count: int, within: Partition | None = None) -> PodsNeed:
    """Pods of a role."""
    return PodsNeed(one, count, within)


WORKER = role("worker", 8)


def single(reasons: tuple[str, ...]) -> str:
    """The reason, where there is one alone."""
    (reason,) = reasons
    return reason


def never(verdict: FitVerdict) -> Witness:
    """The proof of a verdict."""
    assert verdict.answer is FitAnswer.NEVER, verdict
    assert verdict.witness is not None
    return verdict.witness
