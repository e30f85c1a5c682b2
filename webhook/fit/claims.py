"""The ResourceClaims of a pod: what each requests, and with whom it is shared.

A claim that a pod names is one for all pods that name it. A claim from a template is one for each pod, or one for each
group of pods whose PodGroup lists it (the gate DRAWorkloadResourceClaims of Kubernetes 1.37). What cannot be told is
left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.fit.shape import GangShape
from webhook.model.devices import Claim
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath, Item
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate

_GROUPS = ("schedulingGroup", "workloadRef")


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
    listed = _listed_by_groups(shape)
    grouped_elsewhere = any(template.spec.get(field) for field in _GROUPS)
    found: list[PodClaim] = []
    for index, entry in enumerate(sequence(template.spec.get("resourceClaims"))):
        stated = mapping(entry)
        name, from_template = text(stated.get("resourceClaimName")), text(stated.get("resourceClaimTemplateName"))
        own = text(stated.get("name")) or ""
        if grouped_elsewhere or own in listed or (name is None) == (from_template is None):
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
    unknown = tuple(f"the requests of the {one.called} are unknown" for one in found if one.requests is None)
    return found, tuple(dict.fromkeys(unknown))


def _listed_by_groups(shape: GangShape) -> frozenset[str]:
    """Return the names of claims that the PodGroups of a gang list. Those of Rollcall list none, and the Job controller
    takes them from the Job.
    """
    if shape.opted_in is None:
        return frozenset()
    return frozenset(name for spec in _job_specs(shape.opted_in.workload.raw) for name in _listed(spec))


def _job_specs(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    spec = mapping(raw.get("spec"))
    yield spec
    for job in sequence(spec.get("replicatedJobs")):
        yield mapping(mapping(mapping(job).get("template")).get("spec"))


def _listed(spec: Mapping[str, Any]) -> Iterator[str]:
    for entry in sequence(mapping(spec.get("scheduling")).get("resourceClaims")):
        yield text(mapping(entry).get("name")) or ""
