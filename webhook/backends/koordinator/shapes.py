"""The fields that are read of Koordinator PodGroups stored by other authors, with the type of each field. Their
annotations are read as Go reads them and have their own rules.
"""

from __future__ import annotations

from typing import Any

from webhook.backends.koordinator.keys import POD_GROUPS

SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {"spec": {"minMember": int, "scheduleTimeoutSeconds": int}},
}
