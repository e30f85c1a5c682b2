"""The PodGangs that Grove starts before another one: its anchors (no I/O).

Grove's operator removes the gates of a PodGang's pods when its anchors have their minimum on nodes. The PodGangMap
names them (`dependsOn`). Grove up to v0.1.0-alpha.11 has no PodGangMaps and one anchor, the base gang, which a label
of the pods names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.pod import GangPod
from webhook.model.facts import ClusterFacts
from webhook.model.workloads.podgang import PodGang

# Grove gives a PodGang one anchor. Each is judged, and a client with the right to write PodGangMaps may list thousands.
_MOST = 4


class Anchor(NamedTuple):
    """An anchor as it was judged: what its pods do (`held`), and its first hold reason."""

    name: str
    started: bool
    state: str
    first: HoldReason | None


# Returns an anchor by name; None if it does not exist or cannot be read.
Anchors = Callable[[str], Anchor | None]


class Wait(NamedTuple):
    """The anchor that a gang waits for, and the reason that says so."""

    anchor: str
    reason: HoldReason


def anchors_of(podgang: PodGang, pods: Iterable[GangPod], facts: ClusterFacts) -> tuple[str, ...]:
    """The names of the PodGangs that Grove starts before `podgang`."""
    known = facts.pod_gang_map(podgang.namespace, podgang.labels)
    if known is not None and known.entry_of(podgang.name) is not None:
        names = known.anchors_of(podgang.name)
    else:
        names = [pod.base for pod in pods if pod.base is not None]
    return tuple(islice((name for name in dict.fromkeys(names) if name != podgang.name), _MOST))


def wait_of(podgang: PodGang, names: Iterable[str], anchors: Anchors | None) -> Wait | None:
    """What a gang with Grove's gate waits for: the first of the anchors `names` that has not started.

    Without `anchors`, the gang is itself judged as an anchor. Its own anchors are then named and not judged, so a
    circle of anchors ends.
    """
    for name in names:
        explain = f"rollcall explain podgang/{name} -n {podgang.namespace}"
        if anchors is None:
            return Wait(name, HoldReason(Reason.ANCHOR, f"Grove starts it after {name}", explain))
        found = anchors(name)
        if found is None:
            why = f"it waits for its anchor {name}, which does not exist or cannot be read"
            return Wait(name, HoldReason(Reason.ANCHOR, why, "Grove's operator creates it; read its log"))
        if not found.started:
            return Wait(name, _behind(found, explain))
    return None


def _behind(anchor: Anchor, explain: str) -> HoldReason:
    why = f"it waits for its anchor {anchor.name}, which is {anchor.state}"
    if anchor.first is None:
        return HoldReason(Reason.ANCHOR, why, explain)
    first = anchor.first
    return HoldReason(Reason.ANCHOR, f"{why}: {first.reason}: {first.why}", f"{first.remedy} ({explain})")
