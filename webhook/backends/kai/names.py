"""The names of KAI's PodGroups and of the leaves in them: shared by what stamps pods and what writes objects."""

from __future__ import annotations

import hashlib

from webhook.model.naming import label_name

_OBJECT_LIMIT = 253
_HASH_CHARACTERS = 8


def pod_group(namespace: str, podgang: str) -> str:
    """The name of a PodGang's PodGroup, unique in the cluster: up to 2026-08 KAI's scheduler tells PodGroups by their
    bare names, and two gangs of one name in two namespaces half start (seen with v0.16.8; fixed by #2095).
    """
    full = f"{namespace}/{podgang}"
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{podgang[: _OBJECT_LIMIT - _HASH_CHARACTERS - 1].rstrip('-.')}-{digest}"


def leaf(podclique: str) -> str:
    """The name of a PodClique's subgroup: a DNS label, which a PodClique's name need not be."""
    return label_name(podclique, "leaf")
