"""What a gang's pods wait for, as far as the pods show (no I/O): missing pods, gates, the scheduler's message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from webhook.gangs.escapes import Escaped
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.pod import GangPod
from webhook.gangs.roster import Roster
from webhook.model import grove
from webhook.model.gang_object import GroupCondition
from webhook.model.kueue import keys
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.kinds import JOB_SETS, JOBS
from webhook.model.workloads.place import label_value
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import Member, PodGang
from webhook.mutators.prepare_pod import GATE

# How many names a text lists before "and N more".
_NAMED = 3
# Part of the scheduler's message for the pod that found no node; the messages for its sibling pods lack it.
_OF_NODES = "nodes are available"
# Part of scheduler-plugins' message for a pod that gave up its node because another pod of the gang found none.
_OF_ANOTHER = "rejection in "
# The reason of a pod that a plugin of the scheduler keeps from being tried (KEP-5501, beta announced for 1.35). The
# scheduler removes it when the plugin lets the pod pass.
_NOT_READY = "NotReadyForScheduling"
# A scheduler's message may list every node.
_LONGEST_MESSAGE = 400


class Tally(NamedTuple):
    """One member of a gang: the pods that count, and how many of them are on nodes."""

    member: Member
    pods: tuple[GangPod, ...]
    bound: int

    @property
    def started(self) -> bool:
        """Whether enough of its pods are on nodes for the gang to start."""
        return self.bound >= self.member.min_replicas


def tallies(podgang: PodGang, pods: Iterable[GangPod]) -> list[Tally]:
    """The members of a gang, each with its pods."""
    by_member, found = _by_member(pods), []
    for member in podgang.members:
        own = tuple(by_member.get(label_value(member.name), ()))
        found.append(Tally(member, own, sum(pod.node is not None for pod in own)))
    return found


def _by_member(pods: Iterable[GangPod]) -> dict[str, list[GangPod]]:
    """The pods that count, by the label of their member."""
    found: dict[str, list[GangPod]] = {}
    for pod in pods:
        if pod.counts:
            found.setdefault(pod.podclique, []).append(pod)
    return found


def too_few(podgang: PodGang, counted: Sequence[Tally], unnamed: Sequence[GangPod]) -> Iterator[HoldReason]:
    """Members with fewer pods than they need to start. `unnamed` are pods that the PodGang does not name yet."""
    maker, kind, of = _maker(podgang)
    named, waiting = podgang.pod_names(), _by_member(unnamed)
    for tally in counted:
        member, there = tally.member, len(tally.pods)
        if there >= member.min_replicas:
            continue
        known = {pod.name for pod in tally.pods}
        gone = [name for name in named.get(member.name, ()) if name not in known]
        late = waiting.get(label_value(member.name), [])
        has = f"{member.name} has {_pods(there)} of the {member.min_replicas} that it needs to start"
        look = f"kubectl describe {kind} {of or member.name} -n {podgang.namespace}"
        if there + len(late) >= member.min_replicas:
            why = f"{has}: the PodGang does not name {_names(pod.name for pod in late)} yet{_since(late)}"
            yield HoldReason(
                Reason.UNNAMED, why, f"Grove's operator adds the pods that it made to the PodGang; {_resync(podgang)}"
            )
        elif gone:
            missing = "this pod no longer exists" if len(gone) == 1 else "these pods no longer exist"
            why = f"{has}: the PodGang names {_names(gone)}, and {missing}"
            yield HoldReason(Reason.POD_MISSING, why, f"find out why {maker} does not replace it: {look}")
        else:
            remedy = f"find out why {maker} does not create the others, for example a ResourceQuota: {look}"
            yield HoldReason(Reason.TOO_FEW_PODS, has, remedy)


def gated(
    counted: Sequence[Tally], waits: HoldReason | None = None, queued: HoldReason | None = None
) -> Iterator[HoldReason]:
    """Gates that are still on: schedulers skip a gated pod, and a gang scheduler waits for it. `waits` says for which
    anchor Grove's gate is on, and `queued` why Kueue's is.
    """
    by_gate: dict[str, list[GangPod]] = {}
    for tally in counted:
        for pod in tally.pods:
            for gate in _telling(pod):
                by_gate.setdefault(gate, []).append(pod)
    for gate, pods in by_gate.items():
        known = {grove.GATE: waits, **dict.fromkeys(_OF_ADMISSION, queued)}.get(gate)
        if known is not None:
            yield known
            continue
        since = _since(pods) if gate == grove.GATE else ""
        yield HoldReason(Reason.GATED, f"{_have(pods)} the gate {gate}{since}", _who_lifts(gate, pods[0]))


def waiting_for_resync(podgang: PodGang, roster: Roster) -> Iterator[HoldReason]:
    """Pods of a gang that has started, which Grove's gate still holds: those that the PodGang does not name yet, and
    those that it names (ai-dynamo/grove#847).
    """
    for pods, names_them in ((roster.unnamed, False), (roster.members, True)):
        held = [pod for pod in pods if pod.counts and grove.GATE in pod.gates]
        if held:
            why = f"{_have(held)} the gate {grove.GATE}{_since(held)}, and the gang has started without"
            waits = f"Grove's operator adds the pods to the PodGang, and then removes it; {_resync(podgang)}"
            yield HoldReason(Reason.GATED, why, _who_lifts(grove.GATE, held[0]) if names_them else waits)


def _since(pods: Iterable[GangPod]) -> str:
    """Since when the oldest of these pods has its gates: pods only get them when they are created."""
    created = min((pod.created for pod in pods if pod.created), default="")
    return f" since {created}" if created else ""


# Source: ai-dynamo/grove, pull request 784.
_RESYNC = f"within {grove.RESYNC_MINUTES} minutes if this Grove has the resync (its pull request 784; grove#847)"


def _resync(podgang: PodGang) -> str:
    """When Grove names pods that it has missed, and how it does so at once."""
    owner = podgang.pod_clique_set
    name = owner.name if owner is not None else "NAME"
    command = (
        f"kubectl annotate podcliqueset {name} -n {podgang.namespace} {grove.RECONCILE_TRIGGER}=$(date +%s) --overwrite"
    )
    return f"if it has missed them, {_RESYNC}, else when it reconciles their PodCliqueSet; at once by: {command}"


def _have(pods: Sequence[GangPod]) -> str:
    return f"{_pods(len(pods))} ({_names(pod.name for pod in pods)}) still {'has' if len(pods) == 1 else 'have'}"


# Kueue's gates on pods that it has not admitted.
_OF_ADMISSION = frozenset({keys.ADMISSION_GATE, keys.ELASTIC_JOB_GATE})


def _telling(pod: GangPod) -> Iterator[str]:
    """The gates of a pod without those that come off by themselves, once Kueue has admitted the pod."""
    admitted = _OF_ADMISSION.isdisjoint(pod.gates)
    placed = admitted and keys.TOPOLOGY_GATE not in pod.gates
    for gate in pod.gates:
        if not ((gate == GATE and not placed) or (gate == keys.TOPOLOGY_GATE and not admitted)):
            yield gate


def _who_lifts(gate: str, pod: GangPod) -> str:
    if gate == GATE:
        command = f"rollcall gangs ungate {pod.podgang} -n {pod.namespace}"
        return (
            f"the reconciler removes it when all pods and objects exist and no other gate is left; by hand: {command}"
        )
    if gate in _OF_ADMISSION:
        look = f"kubectl describe workloads.kueue.x-k8s.io -n {pod.namespace}"
        return f"Kueue removes it when it admits the pod's Workload: {look}"
    if gate == keys.TOPOLOGY_GATE:
        return (
            "Kueue has admitted the pod, and removes it when it has chosen the pod's node; if it stays, read the log "
            "of Kueue's controller (topology ungater)"
        )
    if gate != grove.GATE:
        return "the system that added it must remove it"
    return (
        f"Grove's operator removes it when the PodGang names the pod; if it has missed that, {_RESYNC}, else when it "
        "reconciles the pod's PodClique; read its log"
    )


def migration(workload: PodCliqueSet) -> Iterator[HoldReason]:
    """Grove's migration of a set to PodGangMaps: until it is done, Grove's operator does nothing else for the set."""
    if workload.migrating:
        why = (
            "Grove migrates its PodCliqueSet to PodGangMaps; while the set has the condition "
            f"{grove.MIGRATING}, Grove creates none of its pods and removes no gates"
        )
        yield HoldReason(Reason.MIGRATING, why, "wait; if the condition stays, read the log of Grove's operator")


# Reasons of the conditions of groups in Kubernetes 1.38: kube-scheduler refuses a tree whose groups or pods disagree.
_GROUP_ERRORS = frozenset({"PodGroupError", "CompositePodGroupError"})


def unscheduled(
    counted: Sequence[Tally], scheduler: str, advice: str, groups: Sequence[GroupCondition] = ()
) -> Iterator[HoldReason]:
    """The scheduler's message about the pods it has not placed, if there is no other reason. `groups` are the
    conditions in which it says why it has not placed the gang's groups.
    """
    if (refused := next((one for one in groups if one.reason in _GROUP_ERRORS), None)) is not None:
        says = f"{scheduler} reports for {refused.group} ({refused.reason}): {_cut(refused.message)}"
        yield HoldReason(Reason.GROUP_ERROR, says, "correct what the message names; the pods wait until then")
        return
    waiting = [pod for tally in counted if not tally.started for pod in tally.pods if pod.node is None]
    told = [(pod.name, pod.unscheduled) for pod in waiting if pod.unscheduled is not None and pod.unscheduled.message]
    # The others wait for the pods that are not tried.
    told = [one for one in told if one[1].reason == _NOT_READY] or told
    if not told and (group := next((one for one in groups if one.message), None)) is not None:
        error = group.reason == "SchedulerError"
        says = f"{scheduler} reports for {group.group} ({group.reason}): {_cut(group.message)}"
        room = f"free resources for the whole gang, or request less{advice}"
        yield HoldReason(*((Reason.SCHEDULER_ERROR, says, "read its log") if error else (Reason.NO_ROOM, says, room)))
        return
    if not told:
        why = f"all pods exist and have no gate, but {scheduler} has not reported on them"
        yield HoldReason(Reason.SILENT, why, f"check that {scheduler} is running, and read its log{advice}")
        return
    name, said = min(told, key=lambda one: (*_tells_less(one[1].message), one[0]))
    says = f"{scheduler} reports for pod {name}: {_cut(said.message)}"
    if said.reason == "SchedulerError":
        yield HoldReason(Reason.SCHEDULER_ERROR, says, "read its log")
    elif said.reason == _NOT_READY:
        yield HoldReason(Reason.NOT_READY, says, "remove what the message names; until then the pod is not tried")
    else:
        yield HoldReason(Reason.NO_ROOM, says, f"free resources for the whole gang, or request less{advice}")


def _tells_less(message: str) -> tuple[bool, bool]:
    """A sort key for messages: the smaller, the better the message explains why there is no room."""
    return _OF_NODES not in message, _OF_ANOTHER in message


def astray(found: Sequence[Escaped], podgang: PodGang) -> Iterator[HoldReason]:
    """Pods that are not prepared like the others: the scheduler counts them for another gang, or for none."""
    by_kind: dict[str, list[GangPod]] = {}
    for one in found:
        if one.dropped:
            field = one.dropped[0].replace("/", ".").lstrip(".")
            why = f"the API server dropped {field} of pod {one.pod.name}, which its scheduler needs to find the gang"
            yield HoldReason(Reason.API_MISSING, why, "enable the API server's feature gate for that field")
        else:
            by_kind.setdefault(one.escape.value, []).append(one.pod)
    for kind, pods in by_kind.items():
        why = f"{_pods(len(pods))} ({_names(pod.name for pod in pods)}) {_ESCAPED[kind]}"
        names = " ".join(pod.name for pod in pods[:_NAMED])
        maker = _maker(podgang)[0]
        recreated = f"{maker} recreates it"
        if podgang.workload_kind in _COUNT_DELETIONS:
            recreated = f"{recreated}, which its Job counts as a failure"
        remedy = f"delete each pod that is not on a node yet, and {recreated}: kubectl delete pod {names} -n "
        yield HoldReason(Reason.ESCAPED, why, f"{remedy}{podgang.namespace}")


def unowned(roster: Roster, podgang: PodGang) -> Iterator[HoldReason]:
    """Pods with the gang's labels, or with the mark of one of its groups, that do not belong to it. They are reported,
    but hide no other reason: any user may create them.
    """
    labelled = [pod.name for pod in roster.unowned if pod.counts]
    marked = [pod.name for pod in roster.strangers if pod.counts]
    for names, further, have, counts in (
        (labelled, 0, ("has its labels", "have its labels"), "label"),
        (marked, roster.further, ("names its group", "name its group"), "this mark"),
    ):
        if not names:
            continue
        number = len(names) + further
        what = f"{have[0]} but does not belong" if number == 1 else f"{have[1]} but do not belong"
        listed = _names(names, further)
        why = f"{_pods(number)} ({listed}) {what} to this {podgang.workload_kind} by uid, so not counted"
        remedy = f"find out who created them and delete them: the scheduler counts pods by {counts}"
        yield HoldReason(Reason.UNOWNED, why, remedy)


# Deleting a pod of these workloads counts against backoffLimit.
_COUNT_DELETIONS = frozenset({JOBS.api.kind, JOB_SETS.api.kind})
_ESCAPED = {
    "unmutated": "bypassed the webhook, without a mark of the gang",
    "stale": "prepared for another version of the gang",
    "foreign": "marked for another gang or another gang scheduler",
}


def _maker(podgang: PodGang) -> tuple[str, str, str]:
    """What creates the gang's pods; and the kind and, if known, the name of the object to inspect if pods are
    missing.
    """
    if isinstance(podgang, OptedInGang):
        return "its controller", podgang.workload_kind.lower(), podgang.workload.name
    return "Grove", "podclique", ""


def _cut(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 3]}..."


def _pods(number: int) -> str:
    return f"{number} pod{'' if number == 1 else 's'}"


def _names(names: Iterable[str], further: int = 0) -> str:
    every = list(names)
    left = max(len(every) - _NAMED, 0) + further
    more = f" and {left} more" if left else ""
    return ", ".join(every[:_NAMED]) + more
