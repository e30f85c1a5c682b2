"""What all gang objects that Rollcall writes have in common: their labels and their owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model import grove
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name
from webhook.model.reading import EMPTY, Manifest
from webhook.model.workloads.podgang import PodGang

# The value of app.kubernetes.io/managed-by: apply and prune touch only objects with this label.
MANAGED_BY_ROLLCALL = "rollcall"


def gang_metadata(
    podgang: PodGang, name: str, labels: Mapping[str, str] = EMPTY, annotations: Mapping[str, str] = EMPTY
) -> Manifest:
    """The metadata of an object of `podgang`: its name, its labels, and the reference that deletes it with the PodGang.

    A name may be longer than a label's value. In a label it is cut, as it is in a name.
    """
    said = {podgang.gang_label: podgang.name, **labels}
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
    if podgang.uid is not None:
        metadata["ownerReferences"] = [owner_reference(podgang)]
    return metadata


def owner_reference(podgang: PodGang) -> dict[str, Any]:
    """The reference by which the garbage collector deletes the object with its PodGang, or with its workload."""
    owner = podgang.owner
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
