"""The backend of `batch-scheduler`: the rooms of this package behind Rollcall's contract."""

from __future__ import annotations

from rollcall_scheduler_plugins import gangs, pods, rules
from rollcall_scheduler_plugins.capabilities import CAPABILITIES
from rollcall_scheduler_plugins.keys import NAME, POD_GROUP
from rollcall_scheduler_plugins.settings import SchedulerPluginsSettings
from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.model.capabilities import CapabilityTable
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.validators.registry import collect


class SchedulerPluginsBackend(Backend[SchedulerPluginsSettings]):
    """kube-scheduler with the coscheduling plugin."""

    name = NAME
    settings_model = SchedulerPluginsSettings
    rules = collect(rules)
    required_apis = (POD_GROUP,)
    gang_heads = (Resource(POD_GROUP, "podgroups"),)

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, self.settings)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return gangs.adopt(desired, live)
