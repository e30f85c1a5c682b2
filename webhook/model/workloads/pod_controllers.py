"""The kinds between pods and their workloads: PodCliques and scaling groups of a PodCliqueSet, Jobs of a JobSet,
StatefulSets of a LeaderWorkerSet.

Source for which kind controls which: Grove's operator as recorded, jobset v0.12, lws v0.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from webhook.model import grove
from webhook.model.bounds import shared
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.workloads.kinds import JOBS, STATEFUL_SETS
from webhook.model.workloads.place import JOB_SET_NAME, LWS_NAME
from webhook.model.workloads.podgang import OwnerReference, controller_in

POD_CLIQUES = Resource(Api(grove.GROUP, "v1alpha1", "PodClique"), "podcliques")
POD_CLIQUE_SCALING_GROUPS = Resource(Api(grove.GROUP, "v1alpha1", "PodCliqueScalingGroup"), "podcliquescalinggroups")

# By kind: a labelSelector, or nothing.
PodControllers = Mapping[Resource, str]
OF_GROVE: PodControllers = MappingProxyType({POD_CLIQUES: "", POD_CLIQUE_SCALING_GROUPS: ""})
OF_OPTED_IN: PodControllers = MappingProxyType({JOBS: JOB_SET_NAME, STATEFUL_SETS: LWS_NAME})
# The API server does not limit texts in an owner reference. Texts that name an object have a limit: a name has at most
# 253 characters, a group and version 317.
_LONGEST = 317


def kept_controller(metadata: Mapping[str, Any]) -> OwnerReference | None:
    """The reference to an object's controller as it is kept; None if no such object can exist. Siblings share it."""
    found = controller_in(metadata)
    if found is None or any(len(part or "") > _LONGEST for part in found):
        return None
    return _latest(*found[:3], found.uid or "")


@lru_cache(maxsize=4096)
def _latest(api_version: str, kind: str, name: str, uid: str) -> OwnerReference:
    """The reference that stands for equal ones, of the latest."""
    return OwnerReference(shared(api_version), shared(kind), shared(name), uid)
