"""The answer to Kueue's AdmissionCheck about one workload, without I/O: Ready, or Rejected with the text of a finding.

Kueue asks when it has reserved quota, before any pod runs. It deactivates a workload that is rejected, and nothing
activates it again. So only a fault that a change of the object alone can cure is a reason to reject: a rule must deny
the object as it is enforced in its namespace, and find the same fault without knowing anything of the cluster, nor an
old version of the scheduler. A missing queue, topology or runtime may exist a minute later, and does not reject.

A proof that a gang can never start (`webhook.admission.workload_fit`) is the second reason, if only a change of the
object can cure it. Its rule need not deny: the webhook warns, so that a person decides, and here the gang would take
quota for ever. Where rules do not deny at all, as the namespace asks, and where the rule is off or audits, it does not
reject.

Source: kubernetes-sigs/kueue v0.19, apis/kueue/v1beta2/workload_types.go (CheckState) and
pkg/controller/core/workload_controller.go (reconcileCheckBasedEviction).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.admission.decision import admission_of, require_few_parts
from webhook.admission.object_admission import validate_object
from webhook.admission.workload_admission import WorkloadAdmission, apply_exceptions, cover_findings, exception_subject
from webhook.admission.workload_fit import fits_of
from webhook.config.settings import Enforcement, Profile, Settings
from webhook.errors import TooManyParts
from webhook.fit.verdict import FitScope
from webhook.model import kueue
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action, Finding, cut, plain
from webhook.model.keys import Needed
from webhook.model.known_kinds import POD
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest
from webhook.validators.gang_scheduler import Choice
from webhook.workloads.kueue_integration import CheckMode, runs_elsewhere
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.workload_kinds import WorkloadKinds

# Kueue allows 32 KiB, repeats the message in conditions and events, and cuts events after 1 KiB.
MAX_MESSAGE_BYTES = 512
# The rules about gangs that can never start, by the beginning of their ids. The rest is the family of the proof.
FIT_RULES = "fit/"


class CheckOutcome(StrEnum):
    """What was decided: the label of a metric."""

    # No rule denies the workload, and no gang of it is known never to start.
    READY = "ready"
    # Ready, although it does not start as it is: other objects, or other nodes, may cure it.
    READY_WITH_FINDING = "readyWithFinding"
    # Ready, because no rule is about such a workload, or it could not be judged.
    NOT_JUDGED = "notJudged"
    REJECTED = "rejected"
    # Ready, because the configuration asks for an audit only.
    WOULD_REJECT = "wouldReject"


class CheckAnswer(NamedTuple):
    """The answer to one check, with the message for the user."""

    outcome: CheckOutcome
    message: str

    @property
    def is_fault(self) -> bool:
        """Whether the object has a fault that only a change of the object can cure."""
        return self.outcome in {CheckOutcome.REJECTED, CheckOutcome.WOULD_REJECT}

    @property
    def state(self) -> str:
        """The state as Kueue writes it."""
        return kueue.CHECK_REJECTED if self.outcome is CheckOutcome.REJECTED else kueue.CHECK_READY


class _Judged(NamedTuple):
    """What keeps the gangs of an object from starting, and what of that a change of the object alone can cure."""

    scheduler: str
    findings: Sequence[Finding]
    lasting: Sequence[Finding]


def not_judged(why: str) -> CheckAnswer:
    """Returns the answer about a workload that cannot be judged: Ready, because a check that waits holds quota."""
    return CheckAnswer(CheckOutcome.NOT_JUDGED, cut(plain(f"not judged: {why}"), MAX_MESSAGE_BYTES))


def workload_of(pod: Manifest, namespace: str, kinds: WorkloadKinds) -> Needed | None:
    """Returns the workload that decides about a pod; None for a pod that is judged by itself. Raises `Malformed`."""
    pod_view = Pod(pod, namespace)
    if pod_view.podgang is not None and pod_view.workload is not None:
        return Needed("pod_clique_sets", (namespace, pod_view.workload))
    place = kinds.place_of(pod_view)
    return None if place is None else place.workload


def answer(
    kind: tuple[str, str],
    owner: Manifest,
    namespace: str,
    facts: ClusterFacts,
    settings: Settings,
    now: datetime | None = None,
) -> CheckAnswer:
    """Returns the answer about an object that has quota. What an exception covers at `now` is no fault."""
    if namespace not in (facts.namespaces or ()):
        # Its labels may weaken the rules.
        return not_judged(f"the namespace {namespace} is not read yet")
    try:
        judged = _judged(kind, owner, namespace, facts, settings, now)
    except TooManyParts as error:
        return not_judged(str(error))
    except Malformed as error:
        # The API server accepted the object, so Rollcall reads it by another schema.
        return not_judged(f"{kind[1]} cannot be read: {error}")
    if isinstance(judged, str):
        return not_judged(judged)
    if judged.lasting:
        message = _message(judged.lasting)
        if settings.admission_check is CheckMode.ON:
            return CheckAnswer(CheckOutcome.REJECTED, cut(message, MAX_MESSAGE_BYTES))
        return CheckAnswer(CheckOutcome.WOULD_REJECT, cut(f"would be rejected: {message}", MAX_MESSAGE_BYTES))
    if judged.findings:
        message = f"not rejected, because other objects may cure it: {_message(judged.findings)}"
        return CheckAnswer(CheckOutcome.READY_WITH_FINDING, cut(message, MAX_MESSAGE_BYTES))
    return CheckAnswer(CheckOutcome.READY, cut(f"no rule of {judged.scheduler} denies it", MAX_MESSAGE_BYTES))


def _judged(
    kind: tuple[str, str],
    owner: Manifest,
    namespace: str,
    facts: ClusterFacts,
    settings: Settings,
    now: datetime | None,
) -> _Judged | str:
    """Returns what the rules say of an object, or why none is about it. Raises `Malformed`."""
    if kind == POD:
        return _judged_pod(owner, namespace, facts, settings, now)
    workloads = admission_of(kind, settings)
    if workloads is None:
        return f"Rollcall has no rules about {kind[1]}"
    require_few_parts(Request("", "CREATE", Kind(kind[0], "", kind[1]), namespace, "", owner), settings.kinds)
    workload = workloads.view(owner, namespace)
    if isinstance(workload, OptedInWorkload) and runs_elsewhere(workload):
        return "MultiKueue runs its pods in another cluster"
    # As a stored workload: only what it recorded counts.
    choice = workloads.choice_of(workload, workload, facts, settings)
    if choice is None:
        return f"this {kind[1]} records no scheduler"
    profile = settings.profiles.get(choice.scheduler)
    if profile is None:
        return f"no profile {choice.scheduler} is enabled"
    findings = workloads.enforced_by(profile, workload, None, choice, facts, settings).findings
    granted = settings.exceptions.active_in(namespace, now)
    every = [
        finding
        for finding in cover_findings(findings, granted, exception_subject(kind[1], owner))
        if finding.excepted is None
    ]
    denials = [finding for finding in every if finding.action is Action.DENY and not _is_of_fit(finding)]
    unfit = [finding for finding in every if finding.action >= Action.WARN and _is_of_fit(finding)]
    lasting = _lasting(denials, workloads, profile, workload, choice, settings)
    if unfit and settings.ceiling(profile, facts, namespace) is Action.DENY:
        # The proofs that hold for ever unless the object itself changes.
        witnesses = (gang_fit.verdict.witness for gang_fit in fits_of(workload, profile, facts, settings))
        cured = {
            (f"{FIT_RULES}{witness.family}", str(witness.at), witness.why)
            for witness in witnesses
            if witness is not None and witness.scope is FitScope.EVER and witness.own_change
        }
        lasting += [finding for finding in unfit if (finding.rule, str(finding.at), finding.why) in cured]
    return _Judged(profile.name, [*denials, *unfit], lasting)


def _lasting(
    denials: Sequence[Finding],
    workloads: WorkloadAdmission[Any],
    profile: Profile,
    workload: Any,
    choice: Choice,
    settings: Settings,
) -> list[Finding]:
    """Returns the denials that a change of the object alone can cure."""
    if not denials:
        return []
    newest = Profile(type(profile.backend)(profile.backend.settings), Enforcement(), Enforcement())
    alone = workloads.judged_by(newest, Action.DENY, workload, None, choice, NO_FACTS, settings).findings
    # A finding at the choice is about the scheduler as it is configured and installed.
    return _independent_denials([denial for denial in denials if denial.at != choice.path], alone)


def _is_of_fit(finding: Finding) -> bool:
    return finding.rule.startswith(FIT_RULES)


def _judged_pod(
    pod: Manifest, namespace: str, facts: ClusterFacts, settings: Settings, now: datetime | None
) -> _Judged:
    """Returns what the rules say of a pod that no workload of Rollcall made. Raises `Malformed`."""
    request = Request("", "CREATE", Kind("", "v1", "Pod"), namespace, "", pod, at=now)
    verdict = apply_exceptions(validate_object(request, facts, settings), request, facts, settings)
    alone = validate_object(request, NO_FACTS, settings).findings if verdict.denials else ()
    return _Judged(verdict.scheduler or "any scheduler", verdict.denials, _independent_denials(verdict.denials, alone))


def _independent_denials(denials: Sequence[Finding], alone: Sequence[Finding]) -> list[Finding]:
    """Returns the denials that do not depend on any other object."""
    identities: set[Any] = {finding.identity for finding in alone if finding.absent is None}
    return [denial for denial in denials if denial.absent is None and denial.identity in identities]


def _message(findings: Sequence[Finding]) -> str:
    more = f" (+{len(findings) - 1} more)" if len(findings) > 1 else ""
    return cut(plain(str(findings[0])), MAX_MESSAGE_BYTES - len(more)) + more
