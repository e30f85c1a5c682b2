"""The names of gang objects: pure functions, shared by what stamps a pod and what writes the object.

If the two ever differed, a scheduler would hold the pods for a group that never comes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

# Koordinator reads the PodGroup's name from a pod label, and a label value has at most 63 characters.
LABEL_VALUE_LIMIT = 63
_HASH_CHARACTERS = 10
# A part of a gang object is mostly named by a DNS label; Grove's names may have dots, and be longer.
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_HASH_CHARACTERS = 20
# RFC 1123 subdomain: what most objects are called.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_LIMIT = 253


def pod_group_name(podgang: str, podgroup: str, limit: int = LABEL_VALUE_LIMIT) -> str:
    """The PodGroup's name for one member of a PodGang: `{podgang}-{podgroup}`, at most `limit` characters.

    Grove names a member after its PodClique, which mostly starts with the PodGang's name; the prefix is not repeated
    then, nor where the only member is called as the gang is. A longer name is cut and ends in ten hex digits of the
    SHA-256 of the full one.
    """
    full = podgroup if podgroup == podgang or podgroup.startswith(f"{podgang}-") else f"{podgang}-{podgroup}"
    return cut_name(full, limit)


def cut_name(full: str, limit: int) -> str:
    """`full` if it fits, else its start and a hash of the whole, `limit` characters at most."""
    if len(full) <= limit:
        return full
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{full[: limit - _HASH_CHARACTERS - 1].rstrip('-._')}-{digest}"


def is_subdomain(name: str) -> bool:
    """Whether an object can have that name."""
    return len(name) <= NAME_LIMIT and _SUBDOMAIN.fullmatch(name) is not None


def label_name(name: str, kind: str, taken: Container[str] = ()) -> str:
    """`name` where that is a DNS label and none of those `taken`, else `kind` and a hash of it."""
    if _LABEL.fullmatch(name) and name not in taken:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_LABEL_HASH_CHARACTERS]
    return f"{kind}-{digest}"
