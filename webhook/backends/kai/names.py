"""The names of KAI's PodGroups and their leaves. Used to stamp pods and to write objects."""

from __future__ import annotations

import hashlib

from webhook.model.naming import label_name

_OBJECT_LIMIT = 253
_HASH_CHARACTERS = 8


def pod_group(namespace: str, podgang: str) -> str:
    """The name of a PodGang's PodGroup, unique in the cluster. Up to 2026-08 KAI's scheduler identifies PodGroups by
    name without namespace, and two gangs with one name in two namespaces half start (seen with v0.16.8; fixed by
    #2095).
    """
    full = f"{namespace}/{podgang}"
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{podgang[: _OBJECT_LIMIT - _HASH_CHARACTERS - 1].rstrip('-.')}-{digest}"


def leaf(podclique: str) -> str:
    """The name of a PodClique's subgroup: a DNS label. A PodClique's name need not be a DNS label."""
    return label_name(podclique, "leaf")
