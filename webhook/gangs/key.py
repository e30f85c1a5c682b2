"""Which gang: the key by which a gang is worked on, and by which its pods and objects are found.

A PodGang is told by its namespace and name. Of a workload that is not Grove's several gangs may be, and a Job, a JobSet
and a PodGang may have one name: so the kind and the name of the workload are part of the key.
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.model import grove
from webhook.model.keys import ObjectKey
from webhook.model.projections import POD_GANGS, Resource
from webhook.model.reading import Manifest
from webhook.model.workloads.gang import GANG_LABEL, OwnedGang
from webhook.model.workloads.kinds import GANG_OWNERS
from webhook.model.workloads.place import label_value
from webhook.model.workloads.podgang import PodGang, controller_in

# By kind, the workloads that are not Grove's and that gangs are made of.
OWNER_RESOURCES: dict[str, Resource] = {found.api.kind: found for found in GANG_OWNERS}
POD_GANG = POD_GANGS.resource.api.kind


class GangKey(NamedTuple):
    """A gang: the PodGang of that name, or of the workload of that kind the gang whose labels say `name`."""

    namespace: str
    name: str
    kind: str = POD_GANG
    # The name of a workload that is not Grove's.
    workload: str = ""

    @property
    def owner(self) -> ObjectKey:
        """The namespace and name of such a workload."""
        return self.namespace, self.workload


def key_of_gang(podgang: PodGang) -> GangKey:
    """The key of a gang."""
    if not isinstance(podgang, OwnedGang):
        return GangKey(podgang.namespace, podgang.name)
    workload = podgang.workload
    return GangKey(podgang.namespace, label_value(podgang.name), workload.kind, workload.name)


def gang_of_object(live: Manifest) -> GangKey | None:
    """The gang that a gang object is of: by its controller, and without one by its labels, which do not tell the kind
    of a workload that is not Grove's (it is "" then). None for one that others control, or that names no gang.
    """
    metadata = live["metadata"]
    namespace, labels = metadata.get("namespace") or "default", metadata.get("labels") or {}
    controller = controller_in(metadata)
    if controller is None:
        if (podgang := labels.get(grove.LABEL_PODGANG)) is not None:
            return GangKey(namespace, podgang)
        return GangKey(namespace, labels[GANG_LABEL], "") if GANG_LABEL in labels else None
    if controller.kind == POD_GANG:
        return GangKey(namespace, controller.name)
    resource = OWNER_RESOURCES.get(controller.kind)
    if resource is None or controller.group != resource.api.group:
        return None
    return GangKey(namespace, str(labels.get(GANG_LABEL) or ""), controller.kind, controller.name)
