"""What the rules say of a gang that does not start: each rule is checked again with the facts of today (no I/O)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from webhook.admission.decision import admission_of
from webhook.admission.exceptions import described, excepted
from webhook.admission.pod_clique_set import POD_CLIQUE_SETS
from webhook.config.settings import Profile, Settings
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS
from webhook.model.findings import Action, Finding, shown
from webhook.model.reading import Malformed
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang
from webhook.validators.registry import Outcome
from webhook.validators.selection import Choice

# By profile: what its rules say of a PodCliqueSet, with the facts of today.
Outcomes = dict[str, Outcome]


def rule_reasons(  # noqa: PLR0913, PLR0917 - what is judged, and by what
    podgang: PodGang,
    workload: PodCliqueSet | None,
    profile: Profile,
    facts: ClusterFacts,
    settings: Settings,
    now: datetime,
    outcomes: Outcomes | None = None,
) -> Iterator[HoldReason]:
    """What would refuse the workload today, such as a deleted queue, a removed topology layer or a missing CRD. What an
    exception covers is no reason. `outcomes` has what was worked out for other gangs of a PodCliqueSet.
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
            why = f"{finding.rule} at {finding.at}: {shown(finding.found)}: {finding.why}"
            yield HoldReason(_reason_of(finding), why, finding.remedy)


def _counted(
    findings: Sequence[Finding], podgang: PodGang, workload: PodCliqueSet | None, settings: Settings, now: datetime
) -> Sequence[Finding]:
    """The findings as the exceptions of the namespace change them."""
    granted = settings.exceptions.in_force(podgang.namespace, now)
    if not granted:
        return findings
    if isinstance(podgang, OptedInGang):
        return excepted(findings, granted, described(podgang.workload.resource.api.kind, podgang.workload.raw))
    return findings if workload is None else excepted(findings, granted, described("PodCliqueSet", workload.raw))


def _judged(
    podgang: PodGang,
    workload: PodCliqueSet | None,
    profile: Profile,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
) -> Outcome:
    """The outcome of the rules with mode deny: a problem that the namespace's mode lets through holds the gang as
    well. The workload is judged as one that does not change, so nothing is said of room: for that its pods count.
    """
    if isinstance(podgang, OptedInGang):
        opted_in = podgang.workload
        api = opted_in.resource.api
        admission = admission_of((api.group, api.kind), settings)
        if admission is None:
            return Outcome([], [])
        return admission.judged_by(profile, Action.DENY, opted_in, opted_in, choice, facts, settings)
    if workload is None:
        return Outcome([], [])
    return POD_CLIQUE_SETS.judged_by(profile, Action.DENY, workload, workload, choice, facts, settings)


_BY_PART = {
    "apis": Reason.API_MISSING,
    "spec_fields": Reason.API_MISSING,
    "elastic_quotas": Reason.QUOTA_UNKNOWN,
    "kai_queues": Reason.QUEUE_UNKNOWN,
    "kai_shards": Reason.QUEUE_UNKNOWN,
    "volcano_queues": Reason.QUEUE_UNKNOWN,
    "hyper_nodes": Reason.TOPOLOGY_UNKNOWN,
    "kai_topologies": Reason.TOPOLOGY_UNKNOWN,
    "network_topologies": Reason.TOPOLOGY_UNKNOWN,
    "topology_bindings": Reason.TOPOLOGY_UNKNOWN,
}


def _reason_of(finding: Finding) -> Reason:
    if finding.left_out:
        return Reason.TOPOLOGY_LEFT_OUT
    return Reason.UNHONOURED if finding.absent is None else _BY_PART.get(finding.absent.part, Reason.UNHONOURED)
