"""The field of a Node in a file that cannot be read. In a cluster the API server refuses such a Node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from webhook.model.bounds import name_text
from webhook.model.fields import ROOT, SPEC, FieldPath, Item
from webhook.model.findings import shown
from webhook.model.node import OVERSUBSCRIPTION, amount_of, taint_of
from webhook.model.reading import Malformed, Manifest, flag, mapping, sequence, text

_METADATA, _STATUS = ROOT / "metadata", ROOT / "status"


class _Field(NamedTuple):
    """A field, its value, and how it is read."""

    at: FieldPath
    value: Any
    read: Callable[[Any], object]


def unreadable_field(raw: Manifest) -> tuple[FieldPath, str] | None:
    """Return the first field of a Node that cannot be read, and why; None if there is none."""
    for field in _fields(raw):
        try:
            field.read(field.value)
        except Malformed as error:
            said = "" if isinstance(field.value, dict | list) else f" ({shown(field.value)})"
            return field.at, f"{field.at}: {error}{said}"
    return None


def _fields(raw: Manifest) -> Iterator[_Field]:
    """Yield the fields that are read of a Node, each after those that it is in."""
    for part in ("metadata", "spec", "status"):
        yield _Field(ROOT / part, raw.get(part), mapping)
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    for part in ("labels", "annotations"):
        yield _Field(_METADATA / part, metadata.get(part), mapping)
    for key, value in mapping(metadata.get("labels")).items():
        yield _Field(_METADATA / "labels" / key, value, text)
    annotations = mapping(metadata.get("annotations"))
    for key in OVERSUBSCRIPTION.values():
        yield _Field(_METADATA / "annotations" / key, annotations.get(key), name_text)
    for part in ("allocatable", "capacity"):
        yield _Field(_STATUS / part, status.get(part), mapping)
        for resource, said in mapping(status.get(part)).items():
            yield _Field(_STATUS / part / resource, said, partial(amount_of, resource))
    yield from _each(SPEC / "taints", spec.get("taints"), taint_of)
    yield from _each(_STATUS / "conditions", status.get("conditions"), mapping)
    yield _Field(SPEC / "unschedulable", spec.get("unschedulable"), flag)


def _each(at: FieldPath, value: Any, read: Callable[[Any], object]) -> Iterator[_Field]:
    yield _Field(at, value, sequence)
    for index, one in enumerate(sequence(value)):
        yield _Field(at / Item(index), one, read)
