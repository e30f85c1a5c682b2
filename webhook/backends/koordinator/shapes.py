"""What is read of Koordinator's PodGroups that somebody else stores, with the type of each field. What stands in their
annotations is read as Go reads it, by rules of its own.
"""

from __future__ import annotations

from typing import Any

from webhook.backends.koordinator.keys import POD_GROUPS

SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {"spec": {"minMember": int, "scheduleTimeoutSeconds": int}},
}
