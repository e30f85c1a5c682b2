"""Node: what a scheduler can use of a node, as a small value, and how a kubelet's heartbeat leaves it unchanged.

A node keeps the most devices that it ever had: while a device plugin restarts the kubelet states none.
Source: Kubernetes 1.37, pkg/kubelet/cm/devicemanager/manager.go (GetCapacity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.model.amounts import LARGEST_AMOUNT
from webhook.model.bounds import name_text
from webhook.model.projections import name_of
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Malformed, Manifest, flag, mapping, sequence, text
from webhook.model.rows import Row

# Labels of node feature discovery are a hundred and more. A node with more than these is not known well enough.
_MOST_LABELS, _MOST_LABEL_CHARACTERS = 512, 32 * 1024
_MOST_RESOURCES, _MOST_TAINTS = 128, 64
# What one node may take in the facts. A node is never left out, as others would then look like all nodes.
NODE_BYTES = 256 * 1024
# Volcano adds these to allocatable: CPU in milli, memory in bytes.
OVERSUBSCRIPTION = {"cpu": "volcano.sh/oversubscription-cpu", "memory": "volcano.sh/oversubscription-memory"}
# More than any node has.
LIMITLESS = 2**62


class Taint(NamedTuple):
    """A taint of a node."""

    key: str
    value: str
    effect: str


class Node(NamedTuple):
    """A node. `allocatable` is in the units of schedulers: cpu in milli, everything else in units, rounded up.

    `highest` is the most that it can have without pods: for devices and storage the highest of allocatable, capacity
    and all earlier values. `oversubscribed` is what Volcano adds. `problem` says why the rest is not known, if so.
    """

    name: str
    allocatable: Row[int]
    highest: Row[int]
    labels: Row[str]
    taints: tuple[Taint, ...] = ()
    ready: bool = False
    unschedulable: bool = False
    oversubscribed: Row[int] | None = None
    problem: str | None = None

    def after(self, before: Node) -> Node:
        """This node with the devices that it had before."""
        more = {
            resource: amount
            for resource, amount in before.highest.items()
            if _may_vanish(resource) and amount > self.highest.get(resource, 0)
        }
        return self._replace(highest=_row_of(self.highest, more)) if more else self

    def looks_like(self, other: Node) -> bool:
        """Whether both give the same room: they differ at most in what passes, as readiness."""
        return (
            self.highest == other.highest
            and self.labels == other.labels
            and self.taints == other.taints
            and self.oversubscribed == other.oversubscribed
            and self.problem == other.problem
        )


_NOTHING: Row[int] = Row.of({})
_NO_LABELS: Row[str] = Row.of({})


def _may_vanish(resource: str) -> bool:
    """Whether a node states less of a resource for a while: devices, and storage before it was measured."""
    return "/" in resource or resource == "ephemeral-storage"


def is_device(resource: str) -> bool:
    """Return whether a resource is an extended one, as device plugins have."""
    return "/" in resource and "kubernetes.io/" not in resource


def node_of(raw: Manifest) -> Node:
    """Return the projection of a Node. A node that cannot be read has a `problem`. Raises `Missing`."""
    name = name_of(raw)
    try:
        return _read(name, raw)
    except Malformed as error:
        return Node(name, _NOTHING, _NOTHING, _NO_LABELS, problem=str(error))


def _read(name: str, raw: Manifest) -> Node:
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    labels = mapping(metadata.get("labels"))
    capacity = mapping(status.get("capacity"))
    # The API server sets a missing allocatable to the capacity.
    allocatable = capacity if status.get("allocatable") is None else mapping(status["allocatable"])
    taints = sequence(spec.get("taints"))
    problem = _too_large(labels, allocatable, capacity, taints)
    if problem is not None:
        return Node(name, _NOTHING, _NOTHING, _NO_LABELS, problem=problem)
    amounts = _amounts(allocatable)
    devices = {resource: amount for resource, amount in _amounts(capacity).items() if _may_vanish(resource)}
    return Node(
        name,
        amounts,
        _row_of(amounts, devices),
        Row.of({key: text(value) or "" for key, value in labels.items()}),
        tuple(taint_of(one) for one in taints),
        any(mapping(one).get("type") == "Ready" and one.get("status") == "True" for one in _conditions(status)),
        flag(spec.get("unschedulable")),
        _oversubscribed(mapping(metadata.get("annotations"))),
    )


def _conditions(status: Mapping[str, Any]) -> Any:
    return sequence(status.get("conditions"))


def _too_large(labels: Any, allocatable: Any, capacity: Any, taints: Any) -> str | None:
    """Why a node is not known, if it has more of something than is kept."""
    characters = sum(len(key) + len(str(value)) for key, value in labels.items())
    if len(labels) > _MOST_LABELS or characters > _MOST_LABEL_CHARACTERS:
        return "it has more labels than are kept"
    if max(len(allocatable), len(capacity)) > _MOST_RESOURCES:
        return "it has more resources than are kept"
    return "it has more taints than are kept" if len(taints) > _MOST_TAINTS else None


def taint_of(raw: object) -> Taint:
    """Return a taint as a node, or a NodePool, states it. Raises `Malformed`."""
    one = mapping(raw)
    return _known_taint(*(name_text(one.get(field)) or "" for field in ("key", "value", "effect")))


@lru_cache(maxsize=4096)
def _known_taint(key: str, value: str, effect: str) -> Taint:
    return Taint(key, value, effect)


def _amounts(found: Mapping[str, Any]) -> Row[int]:
    return _shared_row(tuple(sorted((resource, amount_of(resource, said)) for resource, said in found.items())))


def amount_of(resource: str, said: object) -> int:
    """Return a quantity of a resource in the units of schedulers, rounded up. Raises `Malformed`."""
    amount = _amount_of_text(resource, said) if isinstance(said, str) else _amount(resource, said)
    if amount is None:
        raise Malformed(said, f"a quantity of {resource[:80]}")
    return amount


@lru_cache(maxsize=16384)
def _amount_of_text(resource: str, said: str) -> int | None:
    return _amount(resource, said)


def _amount(resource: str, said: object) -> int | None:
    """An amount in the units of schedulers; None for one that the API server does not keep."""
    number = parse_quantity(said)
    amount = None if number is None else math.ceil(number * 1000 if resource == "cpu" else number)
    return amount if amount is not None and 0 <= amount <= LARGEST_AMOUNT else None


def _row_of(known: Mapping[str, int], more: Mapping[str, int]) -> Row[int]:
    """Return the amounts `known`, raised to those of `more`."""
    both = {**known, **{resource: max(amount, known.get(resource, 0)) for resource, amount in more.items()}}
    return _shared_row(tuple(sorted(both.items())))


@lru_cache(maxsize=8192)
def _shared_row(items: tuple[tuple[str, int], ...]) -> Row[int]:
    return Row.of(dict(items))


def _oversubscribed(annotations: Mapping[str, Any]) -> Row[int] | None:
    found = {
        resource: amount
        for resource, key in OVERSUBSCRIPTION.items()
        if key in annotations and (amount := _whole(name_text(annotations[key]) or "")) > 0
    }
    return _shared_row(tuple(sorted(found.items()))) if found else None


def _whole(written: str) -> int:
    """Return a number as Volcano reads it (Go's ParseFloat), rounded up; 0 if it is not a number."""
    try:
        number = float.fromhex(written) if "0x" in written.lower() else float("" if "_" in written else written)
    except OverflowError:
        return LIMITLESS
    except ValueError:
        return 0
    if math.isnan(number):
        return 0
    return LIMITLESS if number > LIMITLESS else math.ceil(max(number, 0.0))
