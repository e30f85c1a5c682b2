"""ClusterTopologyBinding: a read view over Grove's list of topology domains.

Source: ai-dynamo/grove, operator/api/core/v1alpha1/clustertopologybinding.go (2026-08).
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.reading import Manifest, mapping, sequence, text


class Level(NamedTuple):
    """A level of the topology: Grove's name for it, and the node label key. In a file either may be missing."""

    path: FieldPath
    domain: str | None
    key: str | None


class ClusterTopologyBinding:
    """A ClusterTopologyBinding (grove.io/v1alpha1). `levels` are listed broadest first."""

    __slots__ = ("levels", "name", "raw", "references", "uid")

    def __init__(self, raw: Manifest) -> None:
        self.raw = raw
        metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
        self.name = text(metadata.get("name")) or ""
        self.uid = text(metadata.get("uid"))
        self.levels = []
        for index, entry in enumerate(sequence(spec.get("levels"))):
            level = mapping(entry)
            self.levels.append(Level(SPEC / "levels" / Item(index), text(level.get("domain")), text(level.get("key"))))
        # By schedulerName: a topology object that someone else manages. For the other schedulers the operator makes
        # one.
        self.references: dict[str, str] = {}
        for entry in sequence(spec.get("schedulerTopologyBindings")):
            binding = mapping(entry)
            scheduler, reference = text(binding.get("schedulerName")), text(binding.get("topologyReference"))
            if scheduler and reference:
                self.references[scheduler] = reference
