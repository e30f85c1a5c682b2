"""Say how the facts that a rule lacks are supplied: by which command, or by which right in a cluster that was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from webhook.backends.registry import installed_backends
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Unjudged
from webhook.model.general import EVERY_GENERAL
from webhook.model.kubernetes_kinds import PODS
from webhook.model.node_pods import NODE_PODS, RESERVATIONS
from webhook.model.projections import Projection, Resource

FOLDER = "a folder that `rollcall facts -o DIR` wrote"


@cache
def projections_by_part() -> dict[str, tuple[Projection, ...]]:
    """Return the kinds that each part of the facts is read from."""
    found: dict[str, tuple[Projection, ...]] = {}
    backends = installed_backends().values()
    for one in (NODE_PODS, RESERVATIONS, *EVERY_GENERAL, *(one for backend in backends for one in backend.projections)):
        found[one.part] = (*found.get(one.part, ()), one)
    return found


def resources_of(part: str) -> tuple[Resource, ...]:
    """Return the kinds that a part of the facts is read from, in each version; none for what discovery tells."""
    if part == "bound_gangs":
        return (PODS,)
    return tuple(dict.fromkeys(one.resource for one in projections_by_part().get(part, ())))


def supplied(missing: Iterable[Unjudged], facts: ClusterFacts) -> tuple[Unjudged, ...]:
    """Return these with a remedy: how to supply the facts that are missing."""
    return tuple(_supplied(one, facts) for one in missing)


def _supplied(missing: Unjudged, facts: ClusterFacts) -> Unjudged:
    if not missing.part:
        return missing
    if (unread := (facts.unread or {}).get(missing.part)) is not None:
        return replace(missing, remedy=unread)
    return missing if missing.remedy else replace(missing, remedy=supply_of(missing.part))


def supply_of(part: str) -> str:
    """Return what to do if a part of the facts is unknown."""
    by_hand = kubectl_of(part)
    return f"give --facts {FOLDER}{f', or the output of `{by_hand}`' if by_hand else ''}; or use --live"


def kubectl_of(part: str) -> str | None:
    """Return the command whose output supplies a part of the facts, if there is one."""
    resources = resources_of(part)
    if part == "spec_fields":
        return "kubectl get customresourcedefinitions -o yaml"
    if not resources:
        return None
    # Of ConfigMaps only one is a fact, and others may have what does not belong into a folder.
    selectors = [one.field_selector for one in projections_by_part().get(part, ())]
    where = "".join(f" --field-selector {one}" for one in selectors if "metadata.name=" in one)
    return f"kubectl get {resources[0].qualified}{' -A' if resources[0].namespaced else ''}{where} -o yaml"


def may_not_read(resource: Resource) -> str:
    """Return what to do if the caller may not list a kind."""
    return f"ask for the right to list {resource.qualified}, or for {FOLDER}, and give it with --facts"


def not_served(resource: Resource) -> str:
    """Return why the objects of a kind are unknown in a cluster that does not serve it."""
    return f"the cluster does not serve {resource.qualified}: install it, or disable the scheduler that needs it"


def not_read(what: str, why: str) -> str:
    """Return what to do if a request failed."""
    return f"try again: {what} could not be read ({why})"
