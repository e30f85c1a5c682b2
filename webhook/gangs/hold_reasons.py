"""What keeps a gang from starting: the reasons that there are, in one word each, and one of them in a sentence;
and what may be wrong with a topology object, with groups that nobody may have made for a PodGang, or with certificates.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why, in one word: the reason of an event, and a metric's label. In the order in which one hides another: what is
    said first is what to see to first.
    """

    # Some of its pods are on nodes, and fewer than it needs: the promise is broken, or a node was lost.
    IN_PART = "GangInPart"
    UNRECORDED = "GangUnrecorded"
    NO_PROFILE = "GangNoProfile"
    # The cluster does not serve what its scheduler reads, or drops it.
    API_MISSING = "GangApiMissing"
    QUEUE_UNKNOWN = "GangQueueUnknown"
    QUOTA_UNKNOWN = "GangQuotaUnknown"
    TOPOLOGY_UNKNOWN = "GangTopologyUnknown"
    # A rule would refuse its workload today.
    UNHONOURED = "GangUnhonoured"
    INEXPRESSIBLE = "GangInexpressible"
    # It has come too far to change as its PodGang did.
    FROZEN = "GangShapeFrozen"
    # The API server will not have one of its objects.
    REFUSED = "GangObjectRefused"
    # One of its objects is somebody else's.
    CONFLICT = "GangObjectOwned"
    OBJECT_LEAVING = "GangObjectLeaving"
    OBJECT_MISSING = "GangObjectMissing"
    OBJECT_DIFFERS = "GangObjectDiffers"
    # Its pods do not carry what they should.
    ESCAPED = "GangPodsEscaped"
    # A pod that the PodGang names is gone, and too few are left.
    POD_MISSING = "GangPodMissing"
    TOO_FEW_PODS = "GangTooFewPods"
    # Its pods are there, and its PodGang does not name them yet.
    UNNAMED = "GangPodsUnnamed"
    GATED = "GangGated"
    SCHEDULER_ERROR = "GangSchedulerError"
    NO_ROOM = "GangNoRoom"
    # Nothing is wrong that can be seen, and nobody schedules it.
    SILENT = "GangSchedulerSilent"
    # Pods that only say that they are of it; its own pods wait for something else.
    UNOWNED = "GangPodsUnowned"


class TopologyReason(StrEnum):
    """What is wrong with a binding's topology object: the reason of an event, and a metric's label."""

    # It is not ours to write, and differs, or is not there.
    DRIFT = "TopologyDrift"
    NOT_FOUND = "TopologyNotFound"
    # The scheduler cannot have such levels.
    INEXPRESSIBLE = "TopologyInexpressible"
    # The API server will not have it.
    REFUSED = "TopologyRefused"


class GroupReason(StrEnum):
    """What is wrong with groups of pods, whoever made them: the reason of an event."""

    # They are above each other.
    CIRCLE = "GroupCircle"


class CertificateReason(StrEnum):
    """What is wrong with self-managed certificates: the reason of an event."""

    # A rotation waits for somebody.
    WAITING = "CertificateRotationWaits"
    # What was stored could not be used, and another was made.
    REPLACED = "CertificateReplaced"
    # The API server will not have what is to be written.
    REFUSED = "CertificateNotWritten"


_ORDER = {reason: place for place, reason in enumerate(Reason)}


class Obstacle(NamedTuple):
    """One reason with its sentence: why the gang does not start, and what to do about it."""

    reason: Reason
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


def ordered(found: list[Obstacle]) -> tuple[Obstacle, ...]:
    """The obstacles with what to see to first at the front, each once."""
    return tuple(sorted(dict.fromkeys(found), key=lambda one: _ORDER[one.reason]))
