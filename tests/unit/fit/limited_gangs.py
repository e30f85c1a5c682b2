"""Gangs for tests of ceilings, and which ceilings are too low for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.fit.ceilings import allows
from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.packing import KUBE, Ceilings, PodReading, Roles, roles_of
from webhook.model.fields import SPEC, Item
from webhook.model.keys import Record
from webhook.workloads.opted_in_workload import template_at


def container(limits: Mapping[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    """A container with these requests and limits."""
    return {"name": "main", "resources": {"requests": requests, "limits": dict(limits or {})}}


def member(
    name: str = "worker",
    minimum: int = 4,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    limits: Mapping[str, Any] | None = None,
    requests: Mapping[str, Any] | None = None,
    **spec: Any,
) -> MemberShape:
    """A member whose pods have one container, if `spec` has no others."""
    at = SPEC / "templates" / Item(0, name)
    metadata = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    whole = {"containers": [container(limits, **(requests or {}))], **spec}
    return MemberShape(name, at, template_at({"metadata": metadata, "spec": whole}, at), minimum, minimum)


def gang(
    *members: MemberShape,
    quota: str | None = None,
    queues: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    stored: bool = False,
    priority_class: str | None = None,
) -> GangShape:
    """A gang `demo` in the namespace `team`."""
    record = Record(None, quota, tuple((queues or {}).items()), priority_class)
    return GangShape("demo", "team", members or (member(),), record, labels=labels or {}, stored=stored)


def roles(shape: GangShape, reading: PodReading = KUBE) -> Roles:
    """The roles of a gang."""
    return roles_of(shape, reading)


def too_low(found: Ceilings, shape: GangShape, reading: PodReading = KUBE) -> list[str]:
    """The names of the ceilings that do not allow the gang."""
    return [one.name for one in found.ceilings if not allows(one, shape, roles(shape, reading))]
