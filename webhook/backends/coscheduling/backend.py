"""The backend of `scheduler-plugins-scheduler`: implements the contract with the modules of this folder."""

from __future__ import annotations

from typing import Any

from webhook.backends.base import Backend, GangMember, PodChanges, Wake
from webhook.backends.coscheduling import gangs, pods
from webhook.backends.coscheduling.capabilities import CAPABILITIES
from webhook.backends.coscheduling.keys import GROUP_MARK, NAME, POD_GROUP, POD_GROUPS
from webhook.backends.coscheduling.packing import packing_of
from webhook.backends.coscheduling.rules import RULES
from webhook.backends.coscheduling.settings import CoschedulingSettings
from webhook.fit.packing import Packing
from webhook.fit.reading import COSCHEDULING, PodReading
from webhook.fit.settings import FitSettings
from webhook.fit.shape import GangShape
from webhook.model.capabilities import CapabilityTable
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.stored_object import PODS, Judged
from webhook.model.version import Version
from webhook.model.workloads.podgang import PodGang
from webhook.validators.gang_scheduler import permit_retry_seconds

# Grove puts scheduling gates on every pod. They exist since the kube-scheduler that v0.27 is built on.
FIRST_VERSION = Version(0, 27)

# The fields that are read of PodGroups stored by other authors, with the type of each field.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {"spec": {"minMember": int, "scheduleTimeoutSeconds": int}}
}


class CoschedulingBackend(Backend[CoschedulingSettings]):
    """scheduler-plugins 0.27 and newer, with its plugin Coscheduling."""

    name = NAME
    # v0.34.7, seen: all pods of a rejected gang may stay in the queue with Coscheduling as their only reason. A node
    # event does not requeue them, but any change of a PodGroup does (pkg/coscheduling/coscheduling.go,
    # `EventsToRegister`).
    when_held = "; if there is room, annotate its PodGroup: coscheduling may not retry a rejected gang for five minutes"
    wake = Wake.ANNOTATE
    settings_model = CoschedulingSettings
    group_marks = (GROUP_MARK,)
    rules = RULES
    required_apis = (POD_GROUP,)
    reads_claims_of = frozenset({"scheduler-plugins"})
    shapes = SHAPES
    allocates_devices = True
    # No gate: no pod is bound while a pod of the gang has a gate (seen with v0.34.7) or while the PodGroup is missing.
    # Twenty gangs whose PodGroup came late all started within two seconds.

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return f"scheduler-plugins before {FIRST_VERSION} ignores scheduling gates, which Grove puts on every pod"
        return None

    @property
    def carries_priority(self) -> bool:
        return True

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(POD_GROUP, "podgroups"),)

    @property
    def judged_kinds(self) -> tuple[Judged, ...]:
        # Its one rule about PodGroups counts the pods in the same files.
        return (PODS,)

    @property
    def judged_in_files(self) -> tuple[Judged, ...]:
        return super().judged_kinds

    @property
    def retry_seconds(self) -> int:
        # It keeps the pods that have a node for the timeout. A rejected gang may not be tried again before the queue is
        # flushed (seen with v0.34.7).
        return permit_retry_seconds(self.settings.scheduleTimeoutSeconds)

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return ((GROUP_MARK,),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, self.settings)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return COSCHEDULING.under(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        return packing_of(shape, self.roles(shape, facts, settings))

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return gangs.adopt(desired, live)
