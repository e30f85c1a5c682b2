"""The reasons why a gang does not start, with their texts (no I/O).

Also the reasons for problems of topology objects, of groups of pods, of certificates and of exceptions, and for
answers to Kueue. `TopologyProblem` is what is wrong with a scheduler's topology objects for one binding.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.backends.base import Backend
from webhook.model.grove import ClusterTopologyBinding
from webhook.model.reading import Manifest
from webhook.model.topology_tree import DriftReason, LevelFault, NodeLabels, TopologyDrift, tree_of


class GangReason(StrEnum):
    """Why a gang does not start: the reason of an event, and a metric's label. The most urgent reason is first."""

    # It had started, and lost pods. If none is left on a node, this reason is last: the gang waits as a new one does.
    LOST_MEMBERS = "GangLostMembers"
    # Fewer of its pods are on nodes than it needs: the scheduler started it in part, or a node was lost.
    IN_PART = "GangInPart"
    # Grove gives the PodGangs of its set other names, and does nothing else for the set until that is done.
    MIGRATING = "GangMigrating"
    # Grove starts another gang of its set first, and that gang has not started.
    ANCHOR = "GangWaitsForAnchor"
    UNRECORDED = "GangUnrecorded"
    NO_PROFILE = "GangNoProfile"
    # The cluster does not serve the API that its scheduler reads, or drops a field of it.
    API_MISSING = "GangApiMissing"
    QUEUE_UNKNOWN = "GangQueueUnknown"
    QUOTA_UNKNOWN = "GangQuotaUnknown"
    TOPOLOGY_UNKNOWN = "GangTopologyUnknown"
    # A rule would refuse its workload today.
    UNHONOURED = "GangUnhonoured"
    INEXPRESSIBLE = "GangInexpressible"
    # Its pods are too far along for it to change as its PodGang did.
    FROZEN = "GangShapeFrozen"
    # The API server refuses one of its objects.
    REFUSED = "GangObjectRefused"
    # One of its objects belongs to another owner.
    CONFLICT = "GangObjectOwned"
    OBJECT_LEAVING = "GangObjectLeaving"
    OBJECT_MISSING = "GangObjectMissing"
    OBJECT_DIFFERS = "GangObjectDiffers"
    # Its pods lack what preparation writes.
    ESCAPED = "GangPodsEscaped"
    # Whatever else runs, its scheduler can never start it: on these nodes, or at all.
    NEVER_FITS = "GangNeverFits"
    # A pod that the PodGang names is gone, and too few are left.
    POD_MISSING = "GangPodMissing"
    TOO_FEW_PODS = "GangTooFewPods"
    # Its pods exist, but its PodGang does not name them yet.
    UNNAMED = "GangPodsUnnamed"
    GATED = "GangGated"
    # Its scheduler refuses how its groups or pods are made.
    GROUP_ERROR = "GangGroupError"
    SCHEDULER_ERROR = "GangSchedulerError"
    # Its scheduler says that a pod is not ready to be scheduled, and has not tried it (KEP-5501).
    NOT_READY = "GangNotReady"
    NO_ROOM = "GangNoRoom"
    # No problem is visible, but its scheduler does not report anything about it.
    SILENT = "GangSchedulerSilent"
    # Kueue holds it. First the reasons that do not pass by themselves.
    KUEUE_FINISHED = "KueueFinished"
    KUEUE_DEACTIVATED = "KueueDeactivated"
    KUEUE_NO_WORKLOAD = "KueueNoWorkload"
    # Its LocalQueue or ClusterQueue is missing or stopped.
    KUEUE_QUEUE_UNUSABLE = "KueueQueueUnusable"
    # Kueue refuses what it asks for, whatever quota there is.
    KUEUE_MISCONFIGURED = "KueueMisconfigured"
    # Another controller has to agree first.
    KUEUE_GATED = "KueueGated"
    # It asks for more than its ClusterQueue can ever have.
    KUEUE_TOO_BIG = "KueueTooBig"
    # No flavor of its ClusterQueue takes its pods.
    KUEUE_NO_FLAVOR = "KueueNoFlavor"
    KUEUE_TOPOLOGY_UNKNOWN = "KueueTopologyUnknown"
    # Kueue has admitted it, and its workload is still suspended.
    KUEUE_NOT_RESUMED = "KueueNotResumed"
    # Kueue admitted it before, and its scheduler did not start it in time.
    KUEUE_TOOK_BACK = "KueueTookBack"
    # Kueue admits nothing until all admitted workloads run.
    KUEUE_BLOCKED = "KueueBlocked"
    KUEUE_CHECKS = "KueueChecks"
    KUEUE_BACKOFF = "KueueBackoff"
    KUEUE_NO_TOPOLOGY = "KueueNoTopology"
    KUEUE_WAITS_FOR_QUOTA = "KueueWaitsForQuota"
    # Its scheduler could not follow the topology that it asks for, so Rollcall does not write it. The gang waits for
    # something else.
    TOPOLOGY_LEFT_OUT = "GangTopologyLeftOut"
    # Pods with its labels that do not belong to it; its own pods wait for something else.
    UNOWNED = "GangPodsUnowned"


# The reasons with which a gang waits for its turn: they pass without a change of the gang or its queues.
ITS_TURN = frozenset(
    {
        GangReason.KUEUE_BLOCKED,
        GangReason.KUEUE_CHECKS,
        GangReason.KUEUE_BACKOFF,
        GangReason.KUEUE_NO_TOPOLOGY,
        GangReason.KUEUE_WAITS_FOR_QUOTA,
    }
)


class TopologyReason(StrEnum):
    """What is wrong with a binding's topology object: the reason of an event, and a metric's label."""

    # Rollcall may not write it, and it differs or is missing.
    DRIFT = "TopologyDrift"
    NOT_FOUND = "TopologyNotFound"
    # The scheduler cannot express these levels.
    INEXPRESSIBLE = "TopologyInexpressible"
    # The API server refuses it.
    REFUSED = "TopologyRefused"
    # The scheduler has one topology, and the configuration takes it from another binding with other levels.
    UNUSED = "TopologyUnused"
    # The labels of nodes: a node lacks one, a value is below two parents, no node has one, or the levels have another
    # order than the labels.
    UNLABELLED = "TopologyNodeUnlabelled"
    TWO_PARENTS = "TopologyTwoParents"
    EMPTY = "TopologyLevelEmpty"
    ORDER = "TopologyLevelOrder"


class GroupReason(StrEnum):
    """What is wrong with groups of pods, regardless of who made them: the reason of an event."""

    # The groups are above each other.
    CIRCLE = "GroupCircle"


class CertificateReason(StrEnum):
    """What is wrong with self-managed certificates: the reason of an event."""

    # A rotation waits for a manual step.
    WAITING = "CertificateRotationWaits"
    # What was stored could not be used, and was replaced.
    REPLACED = "CertificateReplaced"
    # The API server refuses the write.
    REFUSED = "CertificateNotWritten"


class CheckReason(StrEnum):
    """What was decided about a Workload of Kueue that waits for an AdmissionCheck: the reason of an event."""

    REJECTED = "GangRejected"
    # The configuration asks for an audit only, so it was let pass.
    WOULD_REJECT = "GangWouldBeRejected"
    # It does not start as things are, and other objects or nodes may cure that, so it was let pass.
    MAY_NOT_START = "GangMayNotStart"


class ExceptionReason(StrEnum):
    """What is to be said of an exception of the configuration: the reason of an event."""

    ENDS_SOON = "RollcallExceptionEndsSoon"
    # It no longer applies, and the configuration still has it.
    ENDED = "RollcallExceptionEnded"


class ShareReason(StrEnum):
    """What is to be said of a namespace and what it shares with all others: the reason of an event."""

    # Its gangs are served late, because it uses all of its share.
    HELD_BACK = "NamespaceHeldBack"


class RemedyReason(StrEnum):
    """What was done for a gang that needed a remedy, and whether that helped: the reason of an event."""

    # What was found, and what is done about it.
    BEGUN = "GangRemedy"
    HELPED = "GangRemedyHelped"
    FAILED = "GangRemedyDidNotHelp"


_ORDER = {reason: place for place, reason in enumerate(GangReason)}


class HoldReason(NamedTuple):
    """One hold reason with its text: why the gang does not start, and what to do about it."""

    reason: GangReason
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"

    @property
    def is_kueues(self) -> bool:
        """Whether Kueue holds the gang, not its scheduler."""
        return self.reason.value.startswith("Kueue")


def ordered(hold_reasons: list[HoldReason]) -> tuple[HoldReason, ...]:
    """Returns the hold reasons without duplicates, the most urgent first."""
    return tuple(sorted(dict.fromkeys(hold_reasons), key=lambda hold_reason: _ORDER[hold_reason.reason]))


_OF_DRIFT = {DriftReason.DRIFT: TopologyReason.DRIFT, DriftReason.NOT_FOUND: TopologyReason.NOT_FOUND}
_OF_LEVELS = {
    LevelFault.UNLABELLED: TopologyReason.UNLABELLED,
    LevelFault.TWO_PARENTS: TopologyReason.TWO_PARENTS,
    LevelFault.EMPTY: TopologyReason.EMPTY,
    LevelFault.ORDER: TopologyReason.ORDER,
}


class TopologyProblem(NamedTuple):
    """What is wrong with a scheduler's topology objects for one binding."""

    reason: TopologyReason
    note: str


class TopologyResult(NamedTuple):
    """The result for a scheduler's topology objects, and the seconds after which to check again."""

    problems: tuple[TopologyProblem, ...] = ()
    again: float | None = None


def drift_problem(drift: TopologyDrift | None, why: str | None = None) -> tuple[TopologyProblem, ...]:
    """Returns the problem of an object that differs; `why` is the reason why Rollcall does not write it."""
    if drift is None:
        return ()
    return (TopologyProblem(_OF_DRIFT[drift.reason], drift.message if why is None else f"{drift.message}; {why}"),)


def label_problem(binding: ClusterTopologyBinding, nodes: NodeLabels | None) -> Iterator[TopologyProblem]:
    """Yields the problems of the nodes' labels; none if the nodes are not known."""
    if nodes is not None:
        for fault, message in tree_of(binding, nodes).problems:
            yield TopologyProblem(_OF_LEVELS[fault], message)


def second_binding_problem(
    backend: Backend[Any], binding: ClusterTopologyBinding, feeding: Manifest | None
) -> tuple[TopologyProblem, ...]:
    """Returns the problem of a binding that the configuration does not take the topology from: gangs cannot use its
    levels if they differ. `feeding` is the binding that it names.
    """
    binding_name = backend.topology_binding
    why = f"{backend.name} has one topology, and the configuration takes it from ClusterTopologyBinding {binding_name}"
    if feeding is None:
        return (TopologyProblem(TopologyReason.UNUSED, f"{why}, which is missing"),)
    keys = [level.key or "" for level in binding.levels]
    other_keys = [level.key or "" for level in ClusterTopologyBinding(feeding).levels]
    if keys == other_keys:
        return ()
    levels = f"this one has the levels {', '.join(keys)}, and {binding_name} has {', '.join(other_keys)}"
    return (TopologyProblem(TopologyReason.UNUSED, f"{why}; {levels}"),)
