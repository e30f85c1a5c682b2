"""lpx-scheduler: the pods name it, and it supports no topology.

It reads its gangs from Grove's own objects, so Rollcall writes no objects for it.
"""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.base import Backend, BackendSettings, GangMember, PodChanges
from webhook.backends.families import TOPOLOGY, unsupported_topology
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.validators.examples import job
from webhook.validators.registry import Example

CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    **dict.fromkeys(TOPOLOGY, unsupported_topology("lpx-scheduler")),
}

topology = families.no_topology(
    "lpx/topology",
    CAPABILITIES,
    """lpx-scheduler has no topology: it would place pods with a constraint on any node.

    Source: ai-dynamo/grove, operator/internal/scheduler/lpx (its ValidatePodCliqueSet rejects any topologyConstraint).
    """,
)

disruption_ignored = families.pods_are_taken_singly(
    "lpx/disruption-ignored",
    """Rollcall writes no gang objects for lpx-scheduler, and Grove's PodGang has no disruption mode, so the scheduler
    never learns the mode that a workload asks for.

    Source: ai-dynamo/grove, scheduler/api/core/v1alpha1/podgang.go, operator/internal/scheduler (lpx).
    """,
    why="lpx-scheduler is not told the mode, so preemption may take single pods of the running gang",
    remedy="remove the label",
)

opted_in_alone = families.opted_in_alone(
    "lpx/owner-no-gang",
    """lpx-scheduler reads its gangs from Grove's own objects, and Rollcall writes none for it. The pods of other
    workloads start one by one.

    Source: ai-dynamo/grove, operator/internal/scheduler (lpx).""",
    alone=lambda _: True,
    why="lpx-scheduler knows only Grove's gangs, so no gang is made and the pods start one by one",
    remedy="choose another scheduler",
    passes=Example(job(scheduler="lpx-scheduler", parallelism=1, completions=1)),
    fails=Example(job(scheduler="lpx-scheduler")),
)

RULES = (topology, disruption_ignored, opted_in_alone)


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
