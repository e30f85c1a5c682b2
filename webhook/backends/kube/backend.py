"""The backend of `default-scheduler`: the Workload API if gangs are configured, else nothing."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.kube import disruption, frozen, gangs, pods
from webhook.backends.kube.capabilities import capabilities
from webhook.backends.kube.facts import PROJECTIONS, SHAPES, TREES, WORKLOADS_OF_GANGS
from webhook.backends.kube.generation import (
    UNREAD,
    every_kind,
    generation,
    is_assumed,
    known,
    missing,
    served,
    unread,
    unread_kind,
    workload_apis,
)
from webhook.backends.kube.keys import CONTROLLERS
from webhook.backends.kube.packing import packing_of
from webhook.backends.kube.rules import RULES
from webhook.backends.kube.rules.pod import named_group
from webhook.backends.kube.settings import KubeSettings
from webhook.fit.packing import Packing
from webhook.fit.reading import KUBE, PodReading
from webhook.fit.settings import FitSettings
from webhook.fit.shape import GangShape
from webhook.model.capabilities import CapabilityTable
from webhook.model.claims import Mark
from webhook.model.disruption import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT
from webhook.model.findings import Unjudged
from webhook.model.frozen_changes import Frozen
from webhook.model.group_tree import Trees
from webhook.model.keys import Api, Record
from webhook.model.living_gang import NamedGroup
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.stored_object import Judged, StoredObject
from webhook.model.workloads.podgang import PodGang
from webhook.validators.selection import DEFAULT_SCHEDULER

# Each generation reads one of the fields and drops the other.
_MARKS = (Mark("spec", "schedulingGroup"), Mark("spec", "workloadRef"))


class KubeBackend(Backend[KubeSettings]):
    """Always enabled: without configuration it adds nothing to what Kubernetes does."""

    name = DEFAULT_SCHEDULER
    settings_model = KubeSettings
    rules = RULES
    projections = PROJECTIONS
    reads_claims_of = frozenset({"the Workload API"})
    controllers = CONTROLLERS
    shapes = SHAPES
    allocates_devices = True

    @property
    def judged_kinds(self) -> tuple[Judged, ...]:
        return super().judged_kinds if self.settings.gangScheduling else ()

    @property
    def judged_marks(self) -> tuple[Mark, ...]:
        return _MARKS if self.settings.gangScheduling else ()

    @property
    def trees(self) -> tuple[Trees, ...]:
        # Even if Rollcall's own gangs have no trees, other authors may make trees.
        return TREES if self.settings.gangScheduling else ()

    def unread(self, api: Api) -> Unjudged | None:
        needs = unread_kind(api)
        return None if needs is None else Unjudged(ROOT, needs, "kube/workload-api", UNREAD)

    def _apis(self, facts: ClusterFacts) -> frozenset[Api] | None:
        return workload_apis(self.settings, facts)

    def assumed(self, facts: ClusterFacts) -> str | None:
        if not self.settings.gangScheduling or not is_assumed(self.settings, facts):
            return None
        return f"{self.name} is judged as of Kubernetes {facts.kubernetes}, with its feature gates for gangs on"

    @property
    def carries_priority(self) -> bool:
        # kube-scheduler blocks a gang whose pods have another priority than their group, and Grove sets no priority.
        return self.settings.gangScheduling

    def dialect(self, facts: ClusterFacts) -> str | None:
        return generation(self.settings, self._apis(facts)) if self.settings.gangScheduling else ""

    def gang_kinds(self, facts: ClusterFacts) -> tuple[Api, ...]:
        found = served(self.settings, self._apis(facts)) if self.settings.gangScheduling else None
        return () if found is None else found.kinds

    @property
    def writable_kinds(self) -> tuple[Api, ...]:
        return every_kind() if self.settings.gangScheduling else ()

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        if not self.settings.gangScheduling or not known(self._apis(facts)) or self.dialect(facts) is not None:
            return ()
        if (needs := unread(self.settings, self._apis(facts))) is not None:
            return (f"{self.name}: {needs} are unknown; no gang is made: {UNREAD}",)
        return (f"{self.name}: the cluster does not serve {missing(self.settings)}; its workloads are refused",)

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return WORKLOADS_OF_GANGS if self.settings.gangScheduling else ()

    @property
    def capabilities(self) -> CapabilityTable:
        return capabilities(self.settings)

    def named_group(self, pod: StoredObject, facts: ClusterFacts) -> NamedGroup | None:
        return named_group(pod, facts) if self.settings.gangScheduling else None

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return tuple((mark,) for mark in _MARKS) if self.settings.gangScheduling else ((),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member, self.settings)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, record, self.settings, facts)

    def settle(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
        return gangs.settled(desired, live)

    def disruption_mode(self, objects: Sequence[Manifest]) -> Disruption | None:
        return disruption.mode_in(objects)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return gangs.adopt(desired, live)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return KUBE.under(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        return packing_of(shape, self.roles(shape, facts, settings), self.settings, facts)

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        return frozen.frozen(desired, live)
