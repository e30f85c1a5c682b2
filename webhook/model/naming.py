"""The names of gang objects: pure functions, used to stamp pods and to write the objects.

If the two names ever differed, a scheduler would hold the pods for a group that never exists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

# Koordinator reads the PodGroup's name from a pod label, and a label value has at most 63 characters.
LABEL_VALUE_LIMIT = 63
_HASH_CHARACTERS = 10
# Parts of a gang object usually have a DNS label as name. Grove's names may contain dots and be longer.
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# RFC 1035: the form of a Service's name.
_SERVICE = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_HASH_CHARACTERS = 20
# RFC 1123 subdomain: the form of most object names.
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
NAME_LIMIT = 253
# The name of a namespace, an RFC 1123 label, as a configuration and its JSON Schema have it.
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
# IsDomainPrefixedPath of k8s.io/apimachinery.
_DOMAIN_AND_PATH = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
# The name of a key of labels or annotations, and the value of a label.
_KEY_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")


def pod_group_name(podgang: str, podgroup: str, limit: int = LABEL_VALUE_LIMIT) -> str:
    """The PodGroup's name for one member of a PodGang: `{podgang}-{podgroup}`, at most `limit` characters.

    Grove names a member after its PodClique, whose name usually starts with the PodGang's name. The prefix is then not
    repeated, nor if the only member has the gang's name. A longer name is cut and ends in ten hex digits of the SHA-256
    of the full name.
    """
    full = podgroup if podgroup == podgang or podgroup.startswith(f"{podgang}-") else f"{podgang}-{podgroup}"
    return cut_name(full, limit)


def cut_name(full: str, limit: int) -> str:
    """`full` if it fits, else its start and a hash of the whole; at most `limit` characters."""
    if len(full) <= limit:
        return full
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{full[: limit - _HASH_CHARACTERS - 1].rstrip('-._')}-{digest}"


def is_subdomain(name: str) -> bool:
    """Whether an object can have that name."""
    if len(name) > NAME_LIMIT:
        return False
    # Most names are one word.
    return (name.isascii() and name.isalnum() and name.islower()) or _SUBDOMAIN.fullmatch(name) is not None


def is_domain_prefixed_path(name: str) -> bool:
    """Whether it can be the name of a controller: a DNS subdomain, a slash, and a path of any depth."""
    return len(name) <= LABEL_VALUE_LIMIT and _DOMAIN_AND_PATH.fullmatch(name) is not None


def is_label(name: str) -> bool:
    """Whether it is a DNS label."""
    return _LABEL.fullmatch(name) is not None


def is_service_name(name: str) -> bool:
    """Whether a Service can have that name: a DNS label that begins with a letter."""
    return _SERVICE.fullmatch(name) is not None


def is_key(key: str) -> bool:
    """Whether it can be the key of a label or an annotation: a name, with or without a DNS subdomain before it."""
    prefix, slash, name = key.rpartition("/")
    return _KEY_NAME.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


def is_label_value(value: str) -> bool:
    """Whether it can be the value of a label."""
    return not value or _KEY_NAME.fullmatch(value) is not None


def label_name(name: str, kind: str, taken: Container[str] = ()) -> str:
    """`name` if it is a DNS label and not in `taken`, else `kind` and a hash of the name."""
    if _LABEL.fullmatch(name) and name not in taken:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_LABEL_HASH_CHARACTERS]
    return f"{kind}-{digest}"
