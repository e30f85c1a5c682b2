"""Koordinator's gangs, for explaining a folder: each PodGroup with the gangs it starts with, and the gang of each pod.
`gang_settings` reads the settings.

Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/coscheduling (core/gang.go, util/gang_helper.go).
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.backends.koordinator.gang_settings import listed, naming
from webhook.backends.koordinator.keys import ANNOTATION_MINIMUM, LABEL_OLD_MINIMUM, POD_GROUP
from webhook.model.gang_groups import gang_id
from webhook.model.go_values import int32
from webhook.model.keys import ObjectKey
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, integer, text
from webhook.model.stored_object import StoredObject


class Gang(NamedTuple):
    """A gang: the number of pods it starts with, and the listed gangs that it starts together with. A gang that lists
    none has only itself here. The minimum is None for a gang that is not initialised: its pods are held.
    """

    minimum: int | None
    listed: tuple[str, ...]


def read_gang(raw: Manifest) -> tuple[ObjectKey, Gang]:
    """The key and the gang of a PodGroup. Raises `Malformed`."""
    key, found = key_of(raw), StoredObject(raw, POD_GROUP.kind, POD_GROUP.version)
    return key, Gang(integer(found.spec.get("minMember")) or 0, listed(found) or (gang_id(key),))


def gang_of_pod(pod: StoredObject) -> tuple[str, Gang | None] | None:
    """The name of a pod's gang, and the gang itself if the pod describes it and so needs no PodGroup. None for a pod
    without a gang. Raises `Malformed`.
    """
    named = naming(pod)
    if named is None or named.by_label:
        return None if named is None else (named.gang, None)
    written = text(pod.labels.get(LABEL_OLD_MINIMUM)) or text(pod.annotations.get(ANNOTATION_MINIMUM)) or ""
    return named.gang, Gang(int32(written), listed(pod) or (gang_id((pod.key[0], named.gang)),))
