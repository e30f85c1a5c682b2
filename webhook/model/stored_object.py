"""StoredObject: a read view over an object stored by another author, such as a PodGroup written by hand. Rules about
gang objects are called with it.
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.model.keys import ObjectKey
from webhook.model.reading import Manifest, mapping, text


class Judged(NamedTuple):
    """A kind that has rules, in any version. `plural` is its name in paths."""

    group: str
    kind: str
    plural: str
    namespaced: bool = True


PODS = Judged("", "Pod", "pods")


class StoredObject:
    """An object to be stored. `version` is its API version, `old` the same object before an update."""

    __slots__ = ("annotations", "kind", "labels", "name", "namespace", "old", "raw", "spec", "version")

    def __init__(
        self, raw: Manifest, kind: str, version: str, namespace: str = "", old: StoredObject | None = None
    ) -> None:
        """Raises `Malformed` if metadata or spec have the wrong type."""
        self.raw = raw
        self.kind = kind
        self.version = version
        self.old = old
        metadata = mapping(raw.get("metadata"))
        self.name = text(metadata.get("name")) or ""
        self.namespace = text(metadata.get("namespace")) or namespace
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        self.spec = mapping(raw.get("spec"))

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.namespace or "default", self.name
