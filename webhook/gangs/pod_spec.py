"""The part of a pod's spec that decides which nodes have room for it, for a pod that has no node.

It is kept as text, because the pods of a member are equal in it: they share one text, and gangs of one shape are found
by it. A pod on a node needs it no more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from webhook.model.bounds import latest_equal
from webhook.model.kept_fields import PLACEMENT_FIELDS
from webhook.model.reading import Manifest, mapping, sequence

_latest = latest_equal(1024)

# The longest text that is kept. A pod with more of it is not judged; affinity and tolerations rarely take 2 KiB.
SPEC_CHARACTERS = 8 * 1024
_OF_PODS = (*PLACEMENT_FIELDS, "hostNetwork")
_OF_CONTAINERS = ("name", "resources", "ports", "restartPolicy")


def spec_text(spec: Mapping[str, Any]) -> str | None:
    """The part of a pod's spec as text, the same object for equal pods; None if it is too long. Raises `Malformed`."""
    kept: dict[str, Any] = {field: spec[field] for field in _OF_PODS if spec.get(field)}
    for field in ("containers", "initContainers"):
        if containers := sequence(spec.get(field)):
            kept[field] = [_container(mapping(one)) for one in containers]
    found = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return _latest(found) if len(found) <= SPEC_CHARACTERS else None


def spec_in(text: str) -> Manifest:
    """The part of the spec that `spec_text` wrote."""
    found: Manifest = json.loads(text)
    return found


def _container(container: Mapping[str, Any]) -> Manifest:
    return {field: container[field] for field in _OF_CONTAINERS if container.get(field)}
