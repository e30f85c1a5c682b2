"""GangScheduler: what the rules for every scheduler ask of the chosen one. A backend is one, and overrides what
differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from webhook.fit.packing import Ceilings, Packing, Role
from webhook.fit.reading import PodReading
from webhook.fit.roles import Roles, roles_of
from webhook.fit.settings import FitSettings
from webhook.fit.shape import GangShape
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.keys import GroupKind
from webhook.model.workloads.facts import VIEWS
from webhook.model.workloads.scheduler_group import SchedulerGroups
from webhook.model.workloads.workload import OptedInWorkload

# In kube-scheduler's framework: the longest wait in Permit, and when a pod that nothing has moved is tried again.
_MOST_PERMIT_SECONDS = 900
_FLUSH_SECONDS = 300


def permit_retry_seconds(schedule_timeout: int) -> int:
    """How long a gang may wait for its next attempt if a plugin keeps its placed pods in Permit for that time."""
    return min(schedule_timeout, _MOST_PERMIT_SECONDS) + _FLUSH_SECONDS


class Limit(NamedTuple):
    """A queue or quota of the scheduler itself that limits a workload. `called` is what messages call it: "the KAI
    Queue". `own` is the queue that the workload is in: the limit may be that of a queue above it.
    """

    called: str
    name: str
    own: str


class GangScheduler:
    """A scheduler that holds the pods of a gang until all of them fit."""

    # Whether the scheduler itself makes the gangs of opted-in workloads: those of the kinds in Python, and of the
    # declared kinds in `grouped_kinds`. Rollcall writes no gang objects for these.
    groups_opted_in: ClassVar[bool] = False
    # The declared kinds, by group and kind, whose pods it groups so that they start together.
    grouped_kinds: ClassVar[frozenset[GroupKind]] = frozenset()
    # Whether it surely allocates devices to claims by Kubernetes' own plugin DynamicResources.
    allocates_devices: ClassVar[bool] = False

    @property
    def makes_opted_in_gangs(self) -> bool:
        """Whether Rollcall makes the gangs of all opted-in workloads for this scheduler, under these settings."""
        return False

    def makes_gangs_of(self, kind: GroupKind) -> bool:
        """Whether Rollcall makes the gangs of opted-in workloads of that group and kind. A scheduler that groups some
        kinds itself may leave others to Rollcall.
        """
        return self.makes_opted_in_gangs

    def groups(self, kind: GroupKind) -> bool:
        """Whether it groups the pods of workloads of that group and kind itself, so that they start together."""
        return self.groups_opted_in and (kind in VIEWS or kind in self.grouped_kinds)

    def own_minimums(self, workload: OptedInWorkload) -> Mapping[FieldPath, int]:
        """The minimum of each part of a workload in the group that it makes itself, by the path of the part's pod
        template. Empty if Rollcall makes the group, or if the scheduler needs all pods.
        """
        return {}

    def scheduler_groups(self, workload: OptedInWorkload) -> SchedulerGroups | None:
        """The groups that it makes itself of a workload. None if Rollcall, or the workload's operator, makes them."""
        return None

    @property
    def retry_seconds(self) -> int:
        """How long a gang may wait for its next attempt, at most, although there is room; 0 if that is not known to
        take long.
        """
        return 0

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        """The queues or quotas that limit an opted-in workload, as far as they are known."""
        return iter(())

    def pod_reading(self, settings: FitSettings) -> PodReading:
        """By which arithmetic it compares pods with nodes. By default only requests are compared."""
        return PodReading(affinity=False, taints=False, ports=False, apart=False, spread=False)

    def roles(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Roles:
        """The roles of a gang as it reads their pods. Raises `Malformed`."""
        return roles_of(shape, self.pod_reading(settings), facts if self.allocates_devices else None)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        """What it must place at one moment before it starts any pod of a gang, without ceilings."""
        return Packing((), unknown=("it is not known how this scheduler places a gang",))

    def ceilings(self, shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts) -> Ceilings:
        """The limits of its own queues and quotas on a gang with these roles."""
        return Ceilings()


NO_GANG_SCHEDULER = GangScheduler()
