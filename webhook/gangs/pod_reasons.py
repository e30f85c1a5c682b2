"""What a gang waits for, as far as its pods, its anchors and the rules show (no I/O).

Pods show missing pods, gates and the scheduler's message. Anchors are the PodGangs that Grove starts first: its
operator removes the gates of a PodGang's pods when its anchors have their minimum on nodes. The PodGangMap names them
(`dependsOn`). Grove up to v0.1.0-alpha.11 has no PodGangMaps and one anchor, the base gang, which a label of the pods
names. Each rule is checked again with the facts of today.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from webhook.admission.decision import admission_of
from webhook.admission.workload_admission import POD_CLIQUE_SETS, cover_findings, exception_subject
from webhook.config.settings import Profile, Settings
from webhook.gangs.escapes import Escaped
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.members import GangPod, Roster
from webhook.model import grove, kueue
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS
from webhook.model.findings import Action, Finding, shown
from webhook.model.gang_objects import GroupCondition
from webhook.model.grove import Member, PodGang
from webhook.model.known_kinds import JOB_SETS, JOBS
from webhook.model.place import label_value
from webhook.model.reading import Malformed
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.mutators.prepare_pod import GATE
from webhook.validators.gang_scheduler import Choice
from webhook.validators.registry import RuleOutcome
from webhook.workloads.opted_in_gang import OptedInGang
from webhook.workloads.pod_clique_set import PodCliqueSet

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
    """Returns the names of the PodGangs that Grove starts before `podgang`."""
    pod_gang_map = facts.pod_gang_map(podgang.namespace, podgang.labels)
    if pod_gang_map is not None and pod_gang_map.entry_of(podgang.name) is not None:
        names = pod_gang_map.anchors_of(podgang.name)
    else:
        names = [pod.base for pod in pods if pod.base is not None]
    return tuple(islice((name for name in dict.fromkeys(names) if name != podgang.name), _MOST))


def wait_of(podgang: PodGang, names: Iterable[str], anchors: Anchors | None) -> Wait | None:
    """Returns what a gang with Grove's gate waits for: the first of the anchors `names` that has not started.

    Without `anchors`, the gang is itself judged as an anchor. Its own anchors are then named and not judged, so a
    circle of anchors ends.
    """
    for name in names:
        explain = f"rollcall explain podgang/{name} -n {podgang.namespace}"
        if anchors is None:
            return Wait(name, HoldReason(GangReason.ANCHOR, f"Grove starts it after {name}", explain))
        anchor = anchors(name)
        if anchor is None:
            why = f"it waits for its anchor {name}, which does not exist or cannot be read"
            return Wait(name, HoldReason(GangReason.ANCHOR, why, "Grove's operator creates it; read its log"))
        if not anchor.started:
            return Wait(name, _anchor_reason(anchor, explain))
    return None


def _anchor_reason(anchor: Anchor, explain: str) -> HoldReason:
    why = f"it waits for its anchor {anchor.name}, which is {anchor.state}"
    if anchor.first is None:
        return HoldReason(GangReason.ANCHOR, why, explain)
    first = anchor.first
    return HoldReason(GangReason.ANCHOR, f"{why}: {first.reason}: {first.why}", f"{first.remedy} ({explain})")


# By profile: what its rules say of a PodCliqueSet, with the facts of today.
Outcomes = dict[str, RuleOutcome]


def rule_reasons(  # noqa: PLR0913, PLR0917 - what is judged, and by what
    podgang: PodGang,
    workload: PodCliqueSet | None,
    profile: Profile,
    facts: ClusterFacts,
    settings: Settings,
    now: datetime,
    outcomes: Outcomes | None = None,
) -> Iterator[HoldReason]:
    """Yields what would refuse the workload today, such as a deleted queue, a removed topology layer or a missing CRD.
    What an exception covers is no reason. `outcomes` has what was worked out for other gangs of a PodCliqueSet.
    """
    choice = Choice(profile.name, LABELS / SCHEDULER_LABEL, settings.available)
    try:
        outcome = None if outcomes is None else outcomes.get(profile.name)
        if outcome is None:
            outcome = _judged(podgang, workload, profile, choice, facts, settings)
            if outcomes is not None and workload is not None:
                outcomes[profile.name] = outcome
        findings = _counted(outcome.findings, podgang, workload, settings, now)
    except Malformed:
        return
    for finding in findings:
        if finding.excepted is not None:
            continue
        if finding.action is Action.DENY or finding.absent is not None or finding.left_out:
            why = f"{finding.rule} at {finding.at}: {shown(finding.value)}: {finding.why}"
            yield HoldReason(_reason_of(finding), why, finding.remedy)


def _counted(
    findings: Sequence[Finding], podgang: PodGang, workload: PodCliqueSet | None, settings: Settings, now: datetime
) -> Sequence[Finding]:
    """Returns the findings as the exceptions of the namespace change them."""
    granted = settings.exceptions.active_in(podgang.namespace, now)
    if not granted:
        return findings
    if isinstance(podgang, OptedInGang):
        return cover_findings(
            findings, granted, exception_subject(podgang.workload.resource.api.kind, podgang.workload.raw)
        )
    return (
        findings
        if workload is None
        else cover_findings(findings, granted, exception_subject("PodCliqueSet", workload.raw))
    )


def _judged(
    podgang: PodGang,
    workload: PodCliqueSet | None,
    profile: Profile,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
) -> RuleOutcome:
    """Returns the outcome of the rules with mode deny: a problem that the namespace's mode lets through holds the gang
    as well. The workload is judged as one that does not change, so nothing is said of room: for that its pods count.
    """
    if isinstance(podgang, OptedInGang):
        opted_in = podgang.workload
        api = opted_in.resource.api
        admission = admission_of((api.group, api.kind), settings)
        if admission is None:
            return RuleOutcome([], [])
        return admission.judged_by(profile, Action.DENY, opted_in, opted_in, choice, facts, settings)
    if workload is None:
        return RuleOutcome([], [])
    return POD_CLIQUE_SETS.judged_by(profile, Action.DENY, workload, workload, choice, facts, settings)


_BY_PART = {
    "apis": GangReason.API_MISSING,
    "spec_fields": GangReason.API_MISSING,
    "elastic_quotas": GangReason.QUOTA_UNKNOWN,
    "kai_queues": GangReason.QUEUE_UNKNOWN,
    "kai_shards": GangReason.QUEUE_UNKNOWN,
    "volcano_queues": GangReason.QUEUE_UNKNOWN,
    "hyper_nodes": GangReason.TOPOLOGY_UNKNOWN,
    "kai_topologies": GangReason.TOPOLOGY_UNKNOWN,
    "network_topologies": GangReason.TOPOLOGY_UNKNOWN,
    "topology_bindings": GangReason.TOPOLOGY_UNKNOWN,
}


def _reason_of(finding: Finding) -> GangReason:
    if finding.left_out:
        return GangReason.TOPOLOGY_LEFT_OUT
    return GangReason.UNHONOURED if finding.absent is None else _BY_PART.get(finding.absent.part, GangReason.UNHONOURED)


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


class MemberTally(NamedTuple):
    """One member of a gang: the pods that count, and how many of them are on nodes."""

    member: Member
    pods: tuple[GangPod, ...]
    bound: int

    @property
    def started(self) -> bool:
        """Whether enough of its pods are on nodes for the gang to start."""
        return self.bound >= self.member.min_replicas


def tallies(podgang: PodGang, pods: Iterable[GangPod]) -> list[MemberTally]:
    by_member, counted = _group_by_member(pods), []
    for member in podgang.members:
        member_pods = tuple(by_member.get(label_value(member.name), ()))
        counted.append(MemberTally(member, member_pods, sum(pod.node is not None for pod in member_pods)))
    return counted


def _group_by_member(pods: Iterable[GangPod]) -> dict[str, list[GangPod]]:
    """Returns the pods that count, by the label of their member."""
    by_member: dict[str, list[GangPod]] = {}
    for pod in pods:
        if pod.counts:
            by_member.setdefault(pod.podclique, []).append(pod)
    return by_member


def too_few(podgang: PodGang, counted: Sequence[MemberTally], unnamed: Sequence[GangPod]) -> Iterator[HoldReason]:
    """Yields the members with fewer pods than they need to start. The PodGang does not name the `unnamed` pods yet."""
    maker, kind, of = _maker(podgang)
    pod_names, waiting = podgang.pod_names(), _group_by_member(unnamed)
    for tally in counted:
        member, there = tally.member, len(tally.pods)
        if there >= member.min_replicas:
            continue
        existing = {pod.name for pod in tally.pods}
        gone = [name for name in pod_names.get(member.name, ()) if name not in existing]
        late = waiting.get(label_value(member.name), [])
        has = f"{member.name} has {_pods(there)} of the {member.min_replicas} that it needs to start"
        look = f"kubectl describe {kind} {of or member.name} -n {podgang.namespace}"
        if there + len(late) >= member.min_replicas:
            why = f"{has}: the PodGang does not name {_names(pod.name for pod in late)} yet{_oldest_text(late)}"
            yield HoldReason(
                GangReason.UNNAMED,
                why,
                f"Grove's operator adds the pods that it made to the PodGang; {_resync(podgang)}",
            )
        elif gone:
            missing = "this pod no longer exists" if len(gone) == 1 else "these pods no longer exist"
            why = f"{has}: the PodGang names {_names(gone)}, and {missing}"
            yield HoldReason(GangReason.POD_MISSING, why, f"find out why {maker} does not replace it: {look}")
        else:
            remedy = f"find out why {maker} does not create the others, for example a ResourceQuota: {look}"
            yield HoldReason(GangReason.TOO_FEW_PODS, has, remedy)


def gated(
    counted: Sequence[MemberTally], waits: HoldReason | None = None, queued: HoldReason | None = None
) -> Iterator[HoldReason]:
    """Yields the gates that are still on: a scheduler skips a gated pod and waits for it. `waits` says for which anchor
    Grove's gate is on, and `queued` why Kueue's is.
    """
    by_gate: dict[str, list[GangPod]] = {}
    for tally in counted:
        for pod in tally.pods:
            for gate in _telling(pod):
                by_gate.setdefault(gate, []).append(pod)
    for gate, pods in by_gate.items():
        hold_reason = {grove.GATE: waits, **dict.fromkeys(_OF_ADMISSION, queued)}.get(gate)
        if hold_reason is not None:
            yield hold_reason
            continue
        since = _oldest_text(pods) if gate == grove.GATE else ""
        yield HoldReason(GangReason.GATED, f"{_have(pods)} the gate {gate}{since}", _who_lifts(gate, pods[0]))


def waiting_for_resync(podgang: PodGang, roster: Roster) -> Iterator[HoldReason]:
    """Yields the pods of a started gang that Grove's gate still holds: those that the PodGang does not name yet, and
    those that it names (ai-dynamo/grove#847).
    """
    for pods, names_them in ((roster.unnamed, False), (roster.members, True)):
        held = [pod for pod in pods if pod.counts and grove.GATE in pod.gates]
        if held:
            why = f"{_have(held)} the gate {grove.GATE}{_oldest_text(held)}, and the gang has started without"
            waits = f"Grove's operator adds the pods to the PodGang, and then removes it; {_resync(podgang)}"
            yield HoldReason(GangReason.GATED, why, _who_lifts(grove.GATE, held[0]) if names_them else waits)


def _oldest_text(pods: Iterable[GangPod]) -> str:
    """Returns since when the oldest of these pods has its gates: pods only get them when they are created."""
    created = min((pod.created for pod in pods if pod.created), default="")
    return f" since {created}" if created else ""


# Source: ai-dynamo/grove, pull request 784.
_RESYNC = f"within {grove.RESYNC_MINUTES} minutes if this Grove has the resync (its pull request 784; grove#847)"


def _resync(podgang: PodGang) -> str:
    """Returns when Grove names pods that it has missed, and how it does so at once."""
    owner = podgang.pod_clique_set
    name = owner.name if owner is not None else "NAME"
    command = (
        f"kubectl annotate podcliqueset {name} -n {podgang.namespace} {grove.RECONCILE_TRIGGER}=$(date +%s) --overwrite"
    )
    return f"if it has missed them, {_RESYNC}, else when it reconciles their PodCliqueSet; at once by: {command}"


def _have(pods: Sequence[GangPod]) -> str:
    return f"{_pods(len(pods))} ({_names(pod.name for pod in pods)}) still {'has' if len(pods) == 1 else 'have'}"


# Kueue's gates on pods that it has not admitted.
_OF_ADMISSION = frozenset({kueue.ADMISSION_GATE, kueue.ELASTIC_JOB_GATE})


def _telling(pod: GangPod) -> Iterator[str]:
    """Yields the gates of a pod without those that come off by themselves, once Kueue has admitted the pod."""
    admitted = _OF_ADMISSION.isdisjoint(pod.gates)
    placed = admitted and kueue.TOPOLOGY_GATE not in pod.gates
    for gate in pod.gates:
        if not ((gate == GATE and not placed) or (gate == kueue.TOPOLOGY_GATE and not admitted)):
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
    if gate == kueue.TOPOLOGY_GATE:
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
    """Yields that Grove migrates a set to PodGangMaps: until that is done, Grove does nothing else for it."""
    if workload.migrating:
        why = (
            "Grove migrates its PodCliqueSet to PodGangMaps; while the set has the condition "
            f"{grove.MIGRATING}, Grove creates none of its pods and removes no gates"
        )
        yield HoldReason(GangReason.MIGRATING, why, "wait; if the condition stays, read the log of Grove's operator")


# Reasons of the conditions of groups in Kubernetes 1.38: kube-scheduler refuses a tree whose groups or pods disagree.
_GROUP_ERRORS = frozenset({"PodGroupError", "CompositePodGroupError"})


def unscheduled(
    counted: Sequence[MemberTally], scheduler: str, advice: str, groups: Sequence[GroupCondition] = ()
) -> Iterator[HoldReason]:
    """Yields the scheduler's message about the pods it has not placed, if there is no other reason. `groups` are the
    conditions in which it says why it has not placed the gang's groups.
    """
    if (refused := next((group for group in groups if group.reason in _GROUP_ERRORS), None)) is not None:
        says = f"{scheduler} reports for {refused.group} ({refused.reason}): {_cut(refused.message)}"
        yield HoldReason(GangReason.GROUP_ERROR, says, "correct what the message names; the pods wait until then")
        return
    waiting = [pod for tally in counted if not tally.started for pod in tally.pods if pod.node is None]
    reports = [
        (pod.name, pod.unscheduled) for pod in waiting if pod.unscheduled is not None and pod.unscheduled.message
    ]
    # The others wait for the pods that are not tried.
    reports = [report for report in reports if report[1].reason == _NOT_READY] or reports
    if not reports and (group := next((group for group in groups if group.message), None)) is not None:
        error = group.reason == "SchedulerError"
        says = f"{scheduler} reports for {group.group} ({group.reason}): {_cut(group.message)}"
        room = f"free resources for the whole gang, or request less{advice}"
        yield HoldReason(
            *((GangReason.SCHEDULER_ERROR, says, "read its log") if error else (GangReason.NO_ROOM, says, room))
        )
        return
    if not reports:
        why = f"all pods exist and have no gate, but {scheduler} has not reported on them"
        yield HoldReason(GangReason.SILENT, why, f"check that {scheduler} is running, and read its log{advice}")
        return
    name, condition = min(reports, key=lambda report: (*_tells_less(report[1].message), report[0]))
    says = f"{scheduler} reports for pod {name}: {_cut(condition.message)}"
    if condition.reason == "SchedulerError":
        yield HoldReason(GangReason.SCHEDULER_ERROR, says, "read its log")
    elif condition.reason == _NOT_READY:
        yield HoldReason(GangReason.NOT_READY, says, "remove what the message names; until then the pod is not tried")
    else:
        yield HoldReason(GangReason.NO_ROOM, says, f"free resources for the whole gang, or request less{advice}")


def _tells_less(message: str) -> tuple[bool, bool]:
    """Returns a sort key for messages: the smaller, the better the message explains why there is no room."""
    return _OF_NODES not in message, _OF_ANOTHER in message


def astray(escaped_pods: Sequence[Escaped], podgang: PodGang) -> Iterator[HoldReason]:
    """Yields pods that are not prepared like the others: the scheduler counts them for another gang, or for none."""
    by_kind: dict[str, list[GangPod]] = {}
    for escaped in escaped_pods:
        if escaped.dropped:
            field = escaped.dropped[0].replace("/", ".").lstrip(".")
            why = (
                f"the API server dropped {field} of pod {escaped.pod.name}, which its scheduler needs to find the gang"
            )
            yield HoldReason(GangReason.API_MISSING, why, "enable the API server's feature gate for that field")
        else:
            by_kind.setdefault(escaped.escape.value, []).append(escaped.pod)
    for kind, pods in by_kind.items():
        why = f"{_pods(len(pods))} ({_names(pod.name for pod in pods)}) {_ESCAPED[kind]}"
        names = " ".join(pod.name for pod in pods[:_NAMED])
        maker = _maker(podgang)[0]
        recreated = f"{maker} recreates it"
        if podgang.workload_kind in _COUNT_DELETIONS:
            recreated = f"{recreated}, which its Job counts as a failure"
        remedy = f"delete each pod that is not on a node yet, and {recreated}: kubectl delete pod {names} -n "
        yield HoldReason(GangReason.ESCAPED, why, f"{remedy}{podgang.namespace}")


def unowned(roster: Roster, podgang: PodGang) -> Iterator[HoldReason]:
    """Yields the pods with the gang's labels, or with the mark of one of its groups, that do not belong to it. They
    hide no other reason: any user may create them.
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
        yield HoldReason(GangReason.UNOWNED, why, remedy)


# Deleting a pod of these workloads counts against backoffLimit.
_COUNT_DELETIONS = frozenset({JOBS.api.kind, JOB_SETS.api.kind})
_ESCAPED = {
    "unmutated": "bypassed the webhook, without a mark of the gang",
    "stale": "prepared for another version of the gang",
    "foreign": "marked for another gang or another gang scheduler",
}


def _maker(podgang: PodGang) -> tuple[str, str, str]:
    """Returns what creates the gang's pods, and the kind and name (if known) of the object to inspect."""
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
