"""The backend of `lpx-scheduler`. It reads its gangs from Grove's own objects, so Rollcall writes no objects for it."""

from __future__ import annotations

from webhook.backends.base import Backend, BackendSettings, GangMember, PodChanges
from webhook.backends.lpx.capabilities import CAPABILITIES
from webhook.backends.lpx.rules import RULES
from webhook.model.capabilities import CapabilityTable
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.model.workloads.podgang import PodGang


class LpxSettings(BackendSettings):
    """This backend has no settings."""


class LpxBackend(Backend[LpxSettings]):
    """Sets only schedulerName."""

    name = "lpx-scheduler"
    settings_model = LpxSettings
    rules = RULES

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return PodChanges(scheduler_name=self.name, inputs=())

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return []
