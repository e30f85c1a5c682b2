"""Pod: a read view over a pod, and what identifies it as a member of a gang.

On CREATE a pod has no name yet (`generateName`), so labels identify it and names never do (grove reference, "Doing
PreparePod from a Pod webhook").
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.model import grove
from webhook.model.fields import METADATA, SPEC, FieldPath
from webhook.model.naming import NAME_LIMIT
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workloads.podtemplate import PodTemplate


class _Paths(NamedTuple):
    """Where a pod has its metadata and its spec."""

    metadata_path: FieldPath
    spec_path: FieldPath


# A template that referred to its pod would keep the memory of both until the garbage collector finds them.
_PATHS = _Paths(METADATA, SPEC)


class Pod:
    """A Pod (v1)."""

    __slots__ = ("name", "namespace", "raw", "template")

    kind = "Pod"

    def __init__(self, raw: Manifest, namespace: str | None = None) -> None:
        self.raw = raw
        metadata = mapping(raw.get("metadata"))
        self.name = text(metadata.get("name")) or text(metadata.get("generateName")) or ""
        self.namespace = text(metadata.get("namespace")) or namespace or "default"
        self.template = PodTemplate(metadata, mapping(raw.get("spec")), _PATHS)

    @property
    def podgang(self) -> str | None:
        """The PodGang that the pod belongs to: read from the label, never computed."""
        if self.template.labels.get(grove.LABEL_MANAGED_BY) != grove.MANAGED_BY_GROVE:
            return None
        return text(self.template.labels.get(grove.LABEL_PODGANG))

    @property
    def podclique(self) -> str | None:
        """The PodClique that the pod belongs to."""
        return text(self.template.labels.get(grove.LABEL_PODCLIQUE))

    @property
    def workload(self) -> str | None:
        """The PodCliqueSet that the pod belongs to."""
        return text(self.template.labels.get(grove.LABEL_PART_OF))

    @property
    def long_label(self) -> str | None:
        """The key of a label whose value is longer than any name. Kubernetes refuses such a label, but only after
        mutation.
        """
        for key, value in self.template.labels.items():
            if isinstance(value, str) and len(value) > NAME_LIMIT:
                return key
        return None

    @property
    def scheduler_name(self) -> str | None:
        """Its schedulerName."""
        return text(self.template.spec.get("schedulerName"))
