"""The subgroup policies of a PodGroup, as the scheduler reads them.

Source: volcano-sh/volcano, pkg/scheduler/api/sub_job_info.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.reading import integer, mapping, sequence, text
from webhook.model.stored_object import StoredObject


class Policy(NamedTuple):
    """One subgroup policy, and its path."""

    name: str
    raw: Mapping[str, Any]
    path: FieldPath

    @property
    def size(self) -> int:
        """How many pods a subgroup needs."""
        size = integer(self.raw.get("subGroupSize"))
        return 1 if size is None else size

    @property
    def wanted(self) -> int:
        """How many subgroups the PodGroup needs."""
        return integer(self.raw.get("minSubGroups")) or 0

    @property
    def keys(self) -> int:
        """How many label keys separate its subgroups."""
        return len(sequence(self.raw.get("matchLabelKeys")))


def policies(found: StoredObject) -> Iterator[Policy]:
    """The subgroup policies of a PodGroup."""
    for index, raw in enumerate(sequence(found.spec.get("subGroupPolicy"))):
        name = text(mapping(raw).get("name")) or ""
        yield Policy(name, mapping(raw), SPEC / "subGroupPolicy" / Item(index, name or None))
