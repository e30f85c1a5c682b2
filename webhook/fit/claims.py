"""The ResourceClaims of a pod: what each requests, and with whom it is shared.

A claim that a pod names is one for all pods that name it. A claim from a template is one for each pod, or one for all
pods of a PodGroup that lists it (the gate DRAWorkloadResourceClaims of Kubernetes 1.37). So claims of pods that name a
PodGroup of others are left out, and so are those that a workload asks its gangs to share. A workload that lists claims
for its PodGroup has no gangs here at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.fit.shape import GangShape
from webhook.model.devices import ALLOCATED, Claim
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath, Item
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate

_GROUPS = ("schedulingGroup", "workloadRef")
# Further claims of a pod are not read: without them it needs less.
_MOST_CLAIMS = 16


class PodClaim(NamedTuple):
    """A claim of a pod, at the entry that names it. `name` is that of the ResourceClaim that pods share, None for one
    that is made for each pod. `requests` is None if they are unknown.
    """

    at: FieldPath
    requests: Claim
    name: str | None = None
    # In messages.
    called: str = ""


def claims_of(template: PodTemplate, shape: GangShape, facts: ClusterFacts) -> tuple[list[PodClaim], tuple[str, ...]]:
    """Return the claims of each pod of a template, and what is unknown of them, in words. Raises `Malformed`."""
    # Rollcall's PodGroups list only the claims that the workload asks for, and stored pods are in these.
    grouped_elsewhere = not shape.stored and any(template.spec.get(field) for field in _GROUPS)
    asked = {one.shared.name for one in shape.record.claims}
    found: list[PodClaim] = []
    stated_claims = sequence(template.spec.get("resourceClaims"))
    for index, entry in enumerate(stated_claims[:_MOST_CLAIMS]):
        stated = mapping(entry)
        name, from_template = text(stated.get("resourceClaimName")), text(stated.get("resourceClaimTemplateName"))
        own = text(stated.get("name")) or ""
        if grouped_elsewhere or own in asked or (name is None) == (from_template is None):
            # Which pods share it depends on a group that is not known here.
            continue
        at = template.spec_path / "resourceClaims" / Item(index, own)
        if name is not None:
            known: Mapping[Any, Claim] | None = facts.resource_claims
            found.append(PodClaim(at, (known or {}).get((shape.namespace, name)), name, f"ResourceClaim {name}"))
        else:
            known = facts.resource_claim_templates
            requests = (known or {}).get((shape.namespace, from_template or ""))
            found.append(PodClaim(at, requests, None, f"ResourceClaimTemplate {from_template}"))
    unknown = dict.fromkeys(why for one in found if (why := _unknown(one)) is not None)
    if len(stated_claims) > _MOST_CLAIMS:
        unknown[f"the ResourceClaims of a pod above {_MOST_CLAIMS}"] = None
    return found, tuple(unknown)


def _unknown(claim: PodClaim) -> str | None:
    """Return why a claim is not judged, in words."""
    if claim.requests is None:
        return f"the requests of the {claim.called} are unknown"
    if claim.requests == ALLOCATED and claim.name is not None:
        return f"the {claim.called} has its devices, and which nodes reach these is not known"
    return None
