"""ResourceClaims that all pods of a group share, and the annotation by which a workload asks for them.

A pod's claim is shared if the pod's group lists an equal entry: the same name, and the same ResourceClaim or
ResourceClaimTemplate. From a template one claim is then made for the group, and not for each pod. The group is the one
consumer of a shared claim, so more than 256 pods may use it. Source: KEP-5729; k8s.io/api scheduling/v1beta1, core/v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from webhook.model.bounds import MOST_CHARACTERS, MOST_ITEMS, name_text
from webhook.model.keys import PodsClaim, SharedClaim
from webhook.model.reading import mapping, sequence, text

# On a workload: the names of claims of its pods, with commas between them.
CLAIMS_ANNOTATION = "rollcall.dev/group-claims"
# The most claims of one group that the API server accepts (k8s.io/api scheduling/v1beta1: maxItems).
MAX_CLAIMS = 4
# The annotation may have 256 KiB. Names beyond these are not read, and a rule reports that.
_READ_BYTES = 2048


def asked_in(annotations: Mapping[str, Any]) -> list[str]:
    """The names of the claims that a workload asks to be shared. Raises `Malformed`."""
    stated = (text(annotations.get(CLAIMS_ANNOTATION)) or "")[:_READ_BYTES]
    return list(dict.fromkeys(name for one in stated.split(",") if (name := one.strip())))


def claims_in(spec: Mapping[str, Any]) -> Iterator[SharedClaim]:
    """The `resourceClaims` of a group, a template or a pod. Raises `Malformed`."""
    for entry in map(mapping, sequence(spec.get("resourceClaims"))):
        claim, template = entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName")
        yield SharedClaim(name_text(entry.get("name")) or "", name_text(claim), name_text(template))


def pods_claims(
    annotations: Mapping[str, Any], templates: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[PodsClaim, ...]:
    """The claims that a workload asks to be shared; none if they are too many to keep. `templates` are the pods' names,
    as `PodsClaim` has them, and specs. Raises `Malformed`.
    """
    if not (asked := frozenset(asked_in(annotations)[:MAX_CLAIMS])):
        return ()
    every = (PodsClaim(pods, one) for pods, spec in templates for one in claims_in(spec) if one.name in asked)
    found = tuple(islice(dict.fromkeys(every), MOST_ITEMS + 1))
    characters = sum(len(text or "") for one in found for text in (one.pods, *one.shared))
    return found if len(found) <= MOST_ITEMS and characters <= MOST_CHARACTERS else ()


def shared_by(claims: Iterable[SharedClaim]) -> list[SharedClaim]:
    """The claims that one group lists, of those that its pods are to share. Pods that name different sources under one
    name share none of them.
    """
    sources: dict[str, set[SharedClaim]] = {}
    for one in claims:
        sources.setdefault(one.name, set()).add(one)
    return [next(iter(found)) for _, found in sorted(sources.items()) if len(found) == 1]
