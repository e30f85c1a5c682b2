"""The backend of `default-scheduler`: it names the scheduler, and promises nothing about gangs."""

from __future__ import annotations

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.kube.settings import KubeSettings
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, unsupported
from webhook.model.facts import ClusterFacts, Record
from webhook.model.podgang import PodGang
from webhook.model.reading import Manifest
from webhook.validators.selection import DEFAULT_SCHEDULER

_ONE_BY_ONE = unsupported(
    why="default-scheduler places pods one by one when gangScheduling is off", remedy="choose a gang scheduler"
)
_CAPABILITIES: CapabilityTable = {
    Capability.GANG: _ONE_BY_ONE,
    Capability.RESOURCE_CLAIMS: SUPPORTED,
}


class KubeBackend(Backend[KubeSettings]):
    """Always there: whoever asks for nothing gets what Kubernetes does anyway."""

    name = DEFAULT_SCHEDULER
    settings_model = KubeSettings

    @property
    def capabilities(self) -> CapabilityTable:
        return _CAPABILITIES

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return PodChanges(scheduler_name=self.name, inputs=())

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return []
