"""What every gang object that Rollcall writes has in common: whose it is, and whom it goes with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model import grove
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name
from webhook.model.reading import EMPTY, Manifest
from webhook.model.workloads.podgang import PodGang

# The value of app.kubernetes.io/managed-by: apply and prune touch only what bears it.
MANAGED_BY_ROLLCALL = "rollcall"


def gang_metadata(
    podgang: PodGang, name: str, labels: Mapping[str, str] = EMPTY, annotations: Mapping[str, str] = EMPTY
) -> Manifest:
    """The metadata of an object of `podgang`: named, labelled, and gone when the PodGang is.

    Labels say names, and a name may be longer than a label's value: it is cut there, as it is in a name.
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
    """The reference that makes the garbage collector remove the object with its PodGang, or with its workload."""
    owner = podgang.owner
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
