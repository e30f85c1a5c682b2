"""Whether an object in the cluster matches the object that Rollcall wants (no I/O).

Only the fields that Rollcall would send are compared. Fields set by others or defaulted by the API server are ignored.
This does not show a field that Rollcall sent earlier and no longer wants, so a digest of the applied object is stored
in an annotation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Sequence
from typing import Any

from webhook.model.findings import shown
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.grove import LABEL_MANAGED_BY
from webhook.model.reading import Manifest
from webhook.model.workloads.podgang import PodGang, controller_in

FIELD_MANAGER = MANAGED_BY_ROLLCALL
# Digest of what was applied to a gang object: shows that a field is no longer wanted.
APPLIED_ANNOTATION = "rollcall.dev/applied"
_DIGEST_CHARACTERS = 16


def to_apply(desired: Manifest) -> Manifest:
    """A copy of `desired` with an annotation that holds its digest."""
    content = json.dumps(desired, sort_keys=True, separators=(",", ":"), default=dict).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_ANNOTATION: digest}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def holds(wanted: Any, live: Any) -> bool:
    """Whether `live` has everything in `wanted`. Lists must be equal in length and match item by item."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and holds(value, live[key]) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(live, list) and len(live) == len(wanted)
        return same and all(holds(one, other) for one, other in zip(wanted, live, strict=True))
    return bool(wanted == live)


def in_step(wanted: Manifest, live: Manifest) -> bool:
    """Whether `live` needs no write to become `wanted`, which `to_apply` made."""
    wanted_metadata, metadata = wanted["metadata"], live["metadata"]
    owners = metadata.get("ownerReferences", [])
    return (
        holds(wanted["spec"], live.get("spec"))
        and holds(wanted_metadata.get("labels", {}), metadata.get("labels", {}))
        and holds(wanted_metadata.get("annotations", {}), metadata.get("annotations", {}))
        and all(any(holds(owner, found) for found in owners) for owner in wanted_metadata.get("ownerReferences", []))
    )


def first_difference(wanted: Manifest, live: Manifest) -> str:
    """The first field in which `live` differs from `wanted`, as a text."""
    for part in ("spec", "metadata"):
        if (found := _differs(wanted[part], live.get(part), part)) is not None:
            return found
    return "it was changed since it was applied"


def _differs(wanted: Any, live: Any, path: str) -> str | None:
    if path == "metadata.ownerReferences" or path.endswith(APPLIED_ANNOTATION):
        return None
    if isinstance(wanted, dict) and isinstance(live, dict):
        below = (_differs(value, live.get(key), f"{path}.{key}") for key, value in wanted.items())
        return next((found for found in below if found is not None), None)
    return None if holds(wanted, live) else f"{path} is {shown(live)}, and should be {shown(wanted)}"


def with_replaced(own: Sequence[Manifest], replaced: Iterable[Manifest | None]) -> list[Manifest]:
    """The existing objects of a gang, and those of another gang that would become its own: a change of these may be
    refused as well.
    """
    uids = {live["metadata"].get("uid") for live in own}
    return [*own, *(live for live in replaced if live is not None and live["metadata"].get("uid") not in uids)]


def owner_of_ours(live: Manifest) -> str | None:
    """The uid of what controls an object that Rollcall manages; None for every other object."""
    controller = controller_in(live["metadata"]) if _is_managed(live) else None
    return None if controller is None else controller.uid


def is_ours(live: Manifest, owners: Container[str]) -> bool:
    """Whether Rollcall manages the object and something with one of these uids controls it."""
    return owner_of_ours(live) in owners


def left_behind(live: Manifest, podgang: PodGang) -> bool:
    """Whether the object belongs to an earlier PodGang or workload of the same name; the garbage collector deletes
    it.
    """
    controller = controller_in(live["metadata"])
    if controller is None or controller.uid in podgang.owners:
        return False
    return controller[:3] in {podgang.owner[:3], podgang.reference[:3]}


def other_owner(live: Manifest, podgang: PodGang) -> str | None:
    """The owner of the object if Rollcall may not write it for `podgang`; None if it may."""
    return stranger(live, podgang.owners)


def stranger(live: Manifest, owners: Container[str]) -> str | None:
    """The owner of the object if its uid is not one of these; None if the object is ours or has no owner."""
    controller = controller_in(live["metadata"])
    if controller is not None:
        return None if controller.uid in owners else f"{controller.kind} {controller.name}"
    # No controller: Rollcall made it and its ownerReference was removed, or it existed before.
    manager = (live["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY)
    return (
        None
        if manager == MANAGED_BY_ROLLCALL
        else f"another manager ({manager or 'it has no label ' + LABEL_MANAGED_BY})"
    )


def _is_managed(live: Manifest) -> bool:
    return bool((live["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL)
