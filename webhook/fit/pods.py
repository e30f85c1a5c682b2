"""PodNeeds: what a scheduler must find for each pod of a template: room, a node that it may use, and free ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook.fit.eligibility import Eligibility
from webhook.model.fields import FieldPath


class Port(NamedTuple):
    """A host port. An address of "" or 0.0.0.0 overlaps with all others."""

    number: int
    protocol: str
    address: str


class Apart(NamedTuple):
    """Pods whose labels match must not share a value of node label `key` with this pod. `matches` names the roles of
    the gang that surely match; a node without the label is not restricted.
    """

    key: str
    roles: frozenset[str]
    at: FieldPath


class Spread(NamedTuple):
    """At most `most` pods of the role in each value of node label `key`. Only made where `minDomains` is above the
    number of domains that can exist; other spread constraints prove nothing.
    """

    key: str
    min_domains: int
    most: int
    at: FieldPath


class DeviceNeed(NamedTuple):
    """Different devices that one pod needs of a DeviceClass, at least. `driver` is the one that all of them surely
    have, if known.
    """

    device_class: str
    number: int
    at: FieldPath
    driver: str | None = None


class SharedClaim(NamedTuple):
    """What all pods that name one ResourceClaim need of it together, once."""

    claim: str
    devices: tuple[DeviceNeed, ...]


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What one pod needs. `request` is in the scheduler's units: cpu in milli, all else in units, rounded up per sum;
    "pods" is its pod slots. Resources that the scheduler does not compare are left out.

    `devices` are needed by each pod; those of `shared_devices` once for all pods of the gang that name the claim.
    """

    request: Mapping[str, int]
    eligibility: Eligibility
    ports: tuple[Port, ...] = ()
    apart: tuple[Apart, ...] = ()
    spread: tuple[Spread, ...] = ()
    devices: tuple[DeviceNeed, ...] = ()
    shared_devices: tuple[SharedClaim, ...] = ()
    # Why something about the pod is not judged, in words. What is named here is left out of `request`.
    unjudged: tuple[str, ...] = field(default=())
    # What the scheduler wants of the pod besides, in words: *never* holds without it, and *fits* is not said.
    left_out: tuple[str, ...] = ()
