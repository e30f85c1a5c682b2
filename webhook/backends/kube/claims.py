"""The ResourceClaims that the pods of each group share, as far as the workload asks for them.

The field is immutable, and behind the feature gate DRAWorkloadResourceClaims: while that is off, the API server drops
it. So an existing group keeps what it has. Source: k8s.io/api scheduling/v1alpha2 (1.36), v1beta1 (1.37); KEP-5729.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webhook.backends.kube.generation import Generation
from webhook.model import grove
from webhook.model.disruption import is_podclique
from webhook.model.keys import Record, SharedClaim
from webhook.model.reading import Manifest, text
from webhook.model.shared_claims import shared_by
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podgang import PodGang

FIELD = "resourceClaims"


def claims_of(podgang: PodGang, members: Sequence[str], record: Record, spoken: Generation) -> Manifest:
    """The field of the PodGroup, and of the template, of these members."""
    if spoken is Generation.V1ALPHA1 or not record.claims:
        return {}
    found = shared_by(one for member in members for one in _asked(podgang, member, record))
    return {FIELD: [one.manifest for one in found]} if found else {}


def _asked(podgang: PodGang, member: str, record: Record) -> Iterator[SharedClaim]:
    """The claims that the pods of a member are to share."""
    if isinstance(podgang, OptedInGang):
        parts = {part.name for part in podgang.parts.get(member, ())}
        yield from (one.shared for one in record.claims if one.pods in parts)
    else:
        workload = text(podgang.labels.get(grove.LABEL_PART_OF)) or ""
        yield from (one.shared for one in record.claims if is_podclique(member, workload, one.pods))


def kept(spec: Manifest, live: Mapping[str, Any]) -> Manifest:
    """`spec` of a PodGroup or template with the claims of the existing one, even if that has none."""
    found = {key: value for key, value in spec.items() if key != FIELD}
    return {**found, FIELD: live[FIELD]} if live.get(FIELD) else found
