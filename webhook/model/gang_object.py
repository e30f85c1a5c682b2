"""What all gang objects that Rollcall writes have in common: their labels, their owner, and how they are found again.

The labels name the PodGang of today and the gang, which is the PodGang's name when the objects were first made. An
object that stands for several members lists them. By these the gang of a pod is found after Grove has renamed its
PodGang: PodCliques keep their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.bounds import name_text
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name
from webhook.model.reading import EMPTY, Manifest, integer, mapping, sequence, text
from webhook.model.workloads.gang import GANG_LABEL
from webhook.model.workloads.podgang import OwnerReference, PodGang

# On a gang object of a PodGang that stands for several members: their names, separated by commas.
MEMBERS_ANNOTATION = "rollcall.dev/members"
# On the same objects: those members that other gangs have too, whose groups have the gang's name in theirs.
DIVIDED_ANNOTATION = "rollcall.dev/divided"
# On a gang object that was lost while its gang ran, and created again with minimums that the pods on nodes meet.
RESTORED_ANNOTATION = "rollcall.dev/restored"
# On a gang object whose minimum was raised in place: when, as RFC 3339 with microseconds. It is written with the raise.
RAISED_ANNOTATION = "rollcall.dev/raised"
# The value of app.kubernetes.io/managed-by: apply and prune touch only objects with this label.
MANAGED_BY_ROLLCALL = "rollcall"


# Phases of a PodGroup, of any scheduler, whose pods were on nodes.
_STARTED_PHASES = frozenset({"Scheduled", "Running", "Finished", "Failed", "Completed"})
_STARTED_COUNTS = ("scheduled", "running", "succeeded", "failed")
# What is kept of the status of an object that says so.
STARTED = {"started": True}


def says_started(live: Manifest) -> bool:
    """Whether a gang object says that pods of its gang were on nodes. Its scheduler writes that. Raises `Malformed`."""
    status = mapping(live.get("status"))
    if status == STARTED or text(status.get("phase")) in _STARTED_PHASES:
        return True
    return any((integer(status.get(count)) or 0) > 0 for count in _STARTED_COUNTS)


# The conditions of groups of the Workload API that say whether they were placed: of 1.36, of 1.37 and newer, and of
# 1.38. Source: k8s.io/api scheduling/v1alpha2 (v0.36.3), scheduling/v1beta1 (v0.38.0-beta.0).
_PLACED = frozenset({"PodGroupScheduled", "PodGroupInitiallyScheduled", "CompositePodGroupInitiallyScheduled"})
# A scheduler's message may list every node.
_MESSAGE_CHARACTERS = 400


class GroupCondition(NamedTuple):
    """Why kube-scheduler has not placed a group yet, as it says in a condition of the group itself."""

    # `CompositePodGroup demo-0`.
    group: str
    reason: str
    message: str


def not_placed(live: Manifest) -> Manifest | None:
    """The condition that says why a group was not placed, cut to a limit; None if the group has none. Raises
    `Malformed`.
    """
    for raw in sequence(mapping(live.get("status")).get("conditions")):
        condition = mapping(raw)
        kind = text(condition.get("type"))
        if kind in _PLACED and condition.get("status") == "False":
            message = " ".join((text(condition.get("message")) or "").split())
            kept = {"reason": name_text(condition.get("reason")) or "", "message": message[:_MESSAGE_CHARACTERS]}
            return {"type": kind, "status": "False", **kept}
    return None


def group_conditions(objects: Iterable[Manifest]) -> Iterator[GroupCondition]:
    """Why the groups among these objects were not placed, those of groups of groups first. Raises `Malformed`."""
    found = [
        GroupCondition(f"{one['kind']} {one['metadata']['name']}", condition["reason"], condition["message"])
        for one in objects
        if (condition := not_placed(one)) is not None
    ]
    return iter(sorted(found))


def is_raised(desired: Any, live: Any) -> bool:
    """Whether a number in the spec `desired` is larger than in the spec `live`, or has no counterpart there: a minimum
    was raised, or a member is new. Entries of lists are compared by name.
    """
    if isinstance(desired, Mapping):
        before = live if isinstance(live, Mapping) else EMPTY
        return any(is_raised(value, before.get(key)) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        before = _by_name(live if isinstance(live, list | tuple) else ())
        return any(is_raised(entry, before.get(key)) for key, entry in _by_name(desired).items())
    if not isinstance(desired, int) or isinstance(desired, bool):
        return False
    return desired > (live if isinstance(live, int) else 0)


def _by_name(entries: Sequence[Any]) -> dict[Any, Any]:
    return {
        entry["name"] if isinstance(entry, Mapping) and isinstance(entry.get("name"), str) else place: entry
        for place, entry in enumerate(entries)
    }


def raised_at(live: Manifest | None) -> str | None:
    """The value of `rollcall.dev/raised` of a gang object, None if it has none. Raises `Malformed`."""
    return text(mapping(mapping(mapping(live).get("metadata")).get("annotations")).get(RAISED_ANNOTATION))


def is_restored(live: Manifest | None) -> bool:
    """Whether the gang object was lost while its gang ran, and has lower minimums since."""
    return RESTORED_ANNOTATION in mapping(mapping(mapping(live).get("metadata")).get("annotations"))


def unrestored(live: Manifest | None) -> Manifest | None:
    """`live` as if it had never been lost."""
    if live is None or not is_restored(live):
        return live
    annotations = {key: value for key, value in live["metadata"]["annotations"].items() if key != RESTORED_ANNOTATION}
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}


def gang_metadata(
    podgang: PodGang, name: str, labels: Mapping[str, str] = EMPTY, annotations: Mapping[str, str] = EMPTY
) -> Manifest:
    """The metadata of an object of `podgang`: its name, its labels, and the reference that deletes it with its owner.

    A name may be longer than a label's value. In a label it is cut, as it is in a name.
    """
    said = {podgang.gang_label: podgang.name, GANG_LABEL: podgang.gang, **labels}
    if podgang.gang_label != GANG_LABEL and podgang.member_label not in labels:
        annotations = {**annotations, MEMBERS_ANNOTATION: ",".join(member.name for member in podgang.members)}
        if podgang.divided:
            annotations[DIVIDED_ANNOTATION] = ",".join(sorted(podgang.divided))
    metadata: Manifest = {
        "name": name,
        "namespace": podgang.namespace,
        "labels": {
            grove.LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL,
            **{key: cut_name(value, LABEL_VALUE_LIMIT) for key, value in said.items()},
        },
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    if podgang.owner.uid is not None:
        metadata["ownerReferences"] = [owner_reference(podgang.owner)]
    return metadata


def owner_reference(owner: OwnerReference) -> dict[str, Any]:
    """The reference by which the garbage collector deletes an object with its owner."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
