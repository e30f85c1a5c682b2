"""What a pod has that not every node has, for pictures: devices by request, and claims of devices."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.model.reading import Malformed, mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate

# More do not fit into a box.
_MOST = 3
# Kubernetes' own resources with a prefix.
_OWN = ("hugepages-", "kubernetes.io/", "attachable-volumes-")


def carried(template: PodTemplate) -> Iterator[str]:
    """Yield the extended resources of a pod with their amounts, and its resource claims; only the first of many."""
    try:
        named = [*_devices(template), *_claims(template)]
    except Malformed:
        # The rules report fields of the wrong type.
        return
    yield from named[:_MOST]
    if len(named) > _MOST:
        yield f"{len(named) - _MOST:,} more devices"


def _devices(template: PodTemplate) -> Iterator[str]:
    for resource in sorted(template.resources):
        if "/" in resource and not resource.startswith(_OWN):
            amount = template.total_request(resource)
            if amount is not None and amount > 0:
                yield f"{float(amount):,.10g} {resource}"


def _claims(template: PodTemplate) -> Iterator[str]:
    for claim in sequence(template.spec.get("resourceClaims")):
        source = mapping(claim).get("resourceClaimTemplateName") or mapping(claim).get("resourceClaimName")
        yield f"claim {text(source) or text(mapping(claim).get('name'))}"
