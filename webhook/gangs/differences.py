"""Whether an object in the cluster is what it should be, pure.

Compared is what we would send; what others have besides, and what the API server fills in, is theirs. What we sent once
and would no longer send cannot be seen that way, so a digest of what was sent stands on the object.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from webhook.model.findings import shown
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.grove import LABEL_MANAGED_BY
from webhook.model.reading import Manifest
from webhook.model.workloads.podgang import OwnerReference, controller_in

FIELD_MANAGER = MANAGED_BY_ROLLCALL
# On a gang object: what was applied, by which a field that is no longer wanted is told.
APPLIED_ANNOTATION = "rollcall.dev/applied"
_DIGEST_CHARACTERS = 16


def to_apply(desired: Manifest) -> Manifest:
    """`desired` with the digest of itself."""
    content = json.dumps(desired, sort_keys=True, separators=(",", ":"), default=dict).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_ANNOTATION: digest}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def holds(wanted: Any, live: Any) -> bool:
    """Whether `live` has everything that `wanted` has. Lists are compared item by item: ours are whole."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and holds(value, live[key]) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(live, list) and len(live) == len(wanted)
        return same and all(holds(one, other) for one, other in zip(wanted, live, strict=True))
    return bool(wanted == live)


def in_step(wanted: Manifest, live: Manifest) -> bool:
    """Whether `live` needs no write to be `wanted`, which `to_apply` made."""
    wanted_metadata, metadata = wanted["metadata"], live["metadata"]
    owners = metadata.get("ownerReferences", [])
    return (
        holds(wanted["spec"], live.get("spec"))
        and holds(wanted_metadata.get("labels", {}), metadata.get("labels", {}))
        and holds(wanted_metadata.get("annotations", {}), metadata.get("annotations", {}))
        and all(any(holds(owner, found) for found in owners) for owner in wanted_metadata.get("ownerReferences", []))
    )


def first_difference(wanted: Manifest, live: Manifest) -> str:
    """The first field in which `live` is not what `wanted` says, in words."""
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


def is_ours(live: Manifest, uid: str) -> bool:
    """Whether it is an object of Rollcall's that the PodGang, or workload, of that uid controls."""
    controller = controller_in(live["metadata"])
    managed = (live["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
    return managed and controller is not None and controller.uid == uid


def left_behind(live: Manifest, owner: OwnerReference) -> bool:
    """Whether it is of a PodGang, or workload, that had the name of `owner` before, and goes with that."""
    controller = controller_in(live["metadata"])
    return (
        controller is not None
        and (controller.kind, controller.name) == (owner.kind, owner.name)
        and controller.group == owner.group
        and controller.uid != owner.uid
    )


def stranger(live: Manifest, uid: str) -> str | None:
    """Whose the object is, when it is not for the owner of that uid to have; None when it is ours, or nobody's."""
    controller = controller_in(live["metadata"])
    if controller is not None:
        return None if controller.uid == uid else f"{controller.kind} {controller.name}"
    # Without a controller: one that we made and somebody cut loose, or one that was there before.
    manager = (live["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY)
    return None if manager == MANAGED_BY_ROLLCALL else f"whoever made it ({manager or 'it names nobody'})"
