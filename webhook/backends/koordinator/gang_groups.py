"""Koordinator's gangs as they are written: PodGroups and the list of gangs that each of them starts with, pods and the
gang that each is of.

Source: koordinator-sh/koordinator v1.8, pkg/scheduler/plugins/coscheduling (core/gang.go, util/gang_helper.go).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.backends.koordinator.keys import ANNOTATION_GROUPS, LABEL_POD_GROUP
from webhook.model.facts import ObjectKey
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, integer, mapping, text

# Deprecated labels, read where those that replace them are not there.
LABEL_LIGHTWEIGHT = "pod-group.scheduling.sigs.k8s.io/name"
LABEL_LIGHTWEIGHT_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
ANNOTATION_NAME = "gang.scheduling.koordinator.sh/name"
ANNOTATION_MINIMUM = "gang.scheduling.koordinator.sh/min-available"

# As Go's strconv.ParseInt reads it.
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


class Gang(NamedTuple):
    """A gang: how many pods it starts with, and the gangs that it starts together with, as they are listed; itself
    alone where it lists none. The minimum is None for a gang that is not initialised: its pods are held.
    """

    minimum: int | None
    listed: tuple[str, ...]


def read_gang(raw: Manifest) -> tuple[ObjectKey, Gang]:
    """A PodGroup. Raises `Malformed`."""
    key = key_of(raw)
    minimum = integer(mapping(raw.get("spec")).get("minMember")) or 0
    annotations = mapping(mapping(raw.get("metadata")).get("annotations"))
    return key, Gang(minimum, listed(annotations, "/".join(key)))


def gang_of_pod(metadata: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The name of the gang that a pod's metadata says, and whether the pod itself describes that gang, which then needs
    no PodGroup. None for a pod of no gang. Raises `Malformed`.
    """
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    if (name := text(labels.get(LABEL_POD_GROUP))) is not None:
        return name, False
    name = text(labels.get(LABEL_LIGHTWEIGHT)) or text(annotations.get(ANNOTATION_NAME))
    return None if name is None else (name, True)


def described_gang(metadata: Mapping[str, Any], own: str) -> Gang:
    """The gang `own` as the metadata of one of its pods describes it. Raises `Malformed`."""
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    said = text(labels.get(LABEL_LIGHTWEIGHT_MINIMUM)) or text(annotations.get(ANNOTATION_MINIMUM)) or ""
    return Gang(int(said) if _WHOLE.fullmatch(said) else None, listed(annotations, own))


def listed(annotations: Mapping[str, Any], own: str) -> tuple[str, ...]:
    """The gangs that one lists, as koord-scheduler reads the list: what is no text becomes an empty name, what is no
    list is as if it were not there.
    """
    try:
        found = json.loads(text(annotations.get(ANNOTATION_GROUPS)) or "[]")
    except (ValueError, RecursionError):
        found = []
    names = [one if isinstance(one, str) else "" for one in found] if isinstance(found, list) else []
    return tuple(names) or (own,)
