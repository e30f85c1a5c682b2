"""What one scheduler makes of a workload, pure: its rules, and which of the capabilities in use it honours.

Admission asks for the scheduler that was chosen; a refusal and `rollcall explain` ask for the others as well. A
backend's capability table and its rules are read together here, so that no table can promise what a rule refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from webhook.config.settings import Profile, Settings
from webhook.model.admission_request import Verdict
from webhook.model.capabilities import (
    Capability,
    CapabilityTable,
    Support,
    Uses,
    capabilities_of_pod,
    capabilities_used,
)
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.reading import Malformed
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.registry import MAX_FINDINGS, BoundRule, Context, Outcome, Proceed, Rule, go_on, run
from webhook.validators.selection import Choice


class Answer(StrEnum):
    """Whether a scheduler runs a workload as it is written."""

    RUNS = "runs"
    # Nothing refuses it, and something that it asks for is ignored, or honoured in part.
    PARTLY = "partly"
    REFUSED = "refused"
    # A rule lacks the facts to judge.
    UNKNOWN = "unknown"


class Honoured(StrEnum):
    """Whether a scheduler does what a workload asks for by one capability."""

    YES = "yes"
    NO = "no"
    # A rule warns of it.
    IN_PART = "inPart"
    UNKNOWN = "unknown"
    # The scheduler's table does not have it: nothing is known to act on what was asked.
    UNSTATED = "unstated"


@dataclass(frozen=True, slots=True)
class Honour:
    """One capability in use, and what became of it. `support` is the table's word, None where it has none."""

    capability: Capability
    honoured: Honoured
    support: Support | None
    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one scheduler makes of a workload. `findings` are those that act, `others` those about no capability."""

    scheduler: str
    answer: Answer
    honours: tuple[Honour, ...]
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    others: tuple[Finding, ...]

    @property
    def denials(self) -> tuple[Finding, ...]:
        """What refuses the workload."""
        return tuple(found for found in self.findings if found.action is Action.DENY)


def judged_by(
    profile: Profile,
    workload: PodCliqueSet,
    old: PodCliqueSet | None,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
) -> Outcome:
    """What the rules of one profile say, as it enforces them: the general ones and its backend's."""
    rules = profile.set_rules[settings.ceiling(profile, facts, workload.namespace)]
    context = gang_context(profile, facts, choice, capabilities_used(workload), workload, proceed=settings.proceed)
    return run(rules, context, tuple(workload.pod_templates()), old)


def pod_verdict(pod: Pod, profile: Profile, facts: ClusterFacts, settings: Settings) -> Verdict:
    """What the rules about pods say of one that was prepared for the scheduler of `profile`."""
    choice = Choice(profile.name, SPEC / "schedulerName", settings.available)
    context = gang_context(profile, facts, choice, capabilities_of_pod(pod.template), namespace=pod.namespace)
    outcome = run(profile.pod_rules[settings.ceiling(profile, facts, pod.namespace)], context, (pod.template,))
    outcome.findings.sort(key=lambda finding: -finding.action)
    allowed = not any(finding.action is Action.DENY for finding in outcome.findings)
    return Verdict(allowed, profile.name, tuple(outcome.findings), tuple(outcome.unjudged))


def softened(findings: Iterable[Finding], before: Iterable[Finding]) -> list[Finding]:
    """`findings`, with those that refuse for what was wrong `before` as warnings. Each fault that was there excuses one
    that is there now, so that of the items of a list no new one hides behind an old one.
    """
    faults = list(before)
    excused = Counter(finding.identity for finding in faults)
    # Which other faults such a rule would have found before, nobody knows.
    cut = {rule for rule, count in Counter(finding.rule for finding in faults).items() if count >= MAX_FINDINGS}

    def known(finding: Finding) -> bool:
        if finding.action is not Action.DENY or finding.forbidden:
            return False
        if finding.rule in cut:
            return True
        excused[finding.identity] -= 1
        return excused[finding.identity] >= 0

    return [replace(finding, action=Action.WARN) if known(finding) else finding for finding in findings]


def gang_context(  # noqa: PLR0913 - a context is one flat list of what rules may look at
    profile: Profile,
    facts: ClusterFacts,
    choice: Choice,
    uses: Uses,
    workload: PodCliqueSet | None = None,
    *,
    proceed: Proceed = go_on,
    namespace: str = "",
) -> Context[Any]:
    """What the rules of a profile are told. `uses` gains what its settings make every workload use; `namespace` is that
    of what is judged by itself, without a `workload`.
    """
    backend = profile.backend
    for capability in backend.implied:
        uses.setdefault(capability, [])
    return Context(
        facts,
        choice,
        uses,
        backend.settings,
        workload,
        backend.scheduler_version,
        backend.required_apis,
        backend.required_fields,
        namespace,
        makes_gangs=backend.makes_gangs_of_owners,
        reads_claims_of=backend.reads_claims_of,
        proceed=proceed,
    )


def could_run(workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings) -> tuple[str, ...]:
    """The enabled schedulers, other than the one chosen, that would run `workload` as it is written: nothing refuses
    it, everything that it uses is honoured, and nothing is left unjudged.
    """
    uses = capabilities_used(workload)
    found = []
    for name, profile in settings.profiles.items():
        table = profile.backend.capabilities
        # The table alone rules most of them out, without a rule being run.
        if name == choice.scheduler or not all(asked in table and table[asked].supported for asked in uses):
            continue
        try:
            opinion = opinion_of(profile, workload, chosen_by_label(name, settings), facts, settings, uses)
        except Malformed:
            # It reads a field that the chosen scheduler's rules do not, and that nobody could.
            continue
        if opinion.answer is Answer.RUNS:
            found.append(name)
    return tuple(found)


def chosen_by_label(scheduler: str, settings: Settings) -> Choice:
    """The choice of `scheduler` as a workload would make it."""
    return Choice(scheduler, LABELS / SCHEDULER_LABEL, settings.available)


def opinion_of(
    profile: Profile,
    workload: PodCliqueSet,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
    uses: Uses | None = None,
) -> Opinion:
    """What the scheduler of `profile` makes of `workload`, which uses `uses`, where that is known already."""
    uses = capabilities_used(workload) if uses is None else uses
    # The context adds what the profile implies; the opinion is about what the workload asks for.
    context = gang_context(profile, facts, choice, dict(uses), workload, proceed=settings.proceed)
    rules = _every_rule(profile, profile.rules[settings.ceiling(profile, facts, workload.namespace)])
    return opinion_on(profile, uses, run(rules, context, tuple(workload.pod_templates())))


def opinion_on(profile: Profile, uses: Uses, outcome: Outcome, table: CapabilityTable | None = None) -> Opinion:
    """The opinion that `outcome`, of all the rules of `profile`, comes to about a workload that uses `uses`; `table`
    says what the scheduler honours where that is not the backend's own word.
    """
    about = _Subjects(profile.every_rule, uses)
    table = profile.backend.capabilities if table is None else table
    found_about = [(found, about.of(found)) for found in outcome.findings]
    missing_about = [(missing, about.of(missing)) for missing in outcome.unjudged]
    honours = tuple(
        _honour(
            asked,
            table.get(asked),
            tuple(found for found, subjects in found_about if asked in subjects),
            tuple(missing for missing, subjects in missing_about if asked in subjects),
            about.rules,
        )
        for asked in uses
    )
    findings = tuple(found for found in outcome.findings if found.action is not Action.OFF)
    others = tuple(found for found, subjects in found_about if not subjects and found.action is not Action.OFF)
    answer = _answer(honours, findings, outcome.unjudged)
    return Opinion(profile.name, answer, honours, findings, tuple(outcome.unjudged), others)


def _every_rule(profile: Profile, enforced: Sequence[BoundRule]) -> list[BoundRule]:
    """The rules that are switched off, too: what nobody enforces is not honoured for that."""
    actions = {bound.rule.id: bound.action for bound in enforced}
    return [BoundRule(declared, actions.get(declared.id, Action.OFF)) for declared in profile.every_rule]


class _Subjects:
    """Which of the capabilities in use a rule's result is about: those of the rule that are asked for at its place;
    all of the rule's where the place is none of theirs. Without a capability of its own, only its place tells.
    """

    def __init__(self, rules: Sequence[Rule], uses: Uses) -> None:
        self.rules = {declared.id: declared for declared in rules}
        self._uses = frozenset(uses)
        self._places: dict[FieldPath, set[Capability]] = {}
        for asked, places in uses.items():
            for use in places:
                self._places.setdefault(use.path, set()).add(asked)

    def of(self, said: Finding | Unjudged) -> frozenset[Capability]:
        among = self.rules[said.rule].capabilities & self._uses
        return frozenset((among or self._uses) & self._places.get(said.at, set())) or among


def _honour(
    asked: Capability,
    support: Support | None,
    findings: tuple[Finding, ...],
    unjudged: tuple[Unjudged, ...],
    rules: Mapping[str, Rule],
) -> Honour:
    def refuses(found: Finding) -> bool:
        # Also where the configuration only warns of it, or does not look: the scheduler does not change with that.
        return Action.DENY in {found.action, rules[found.rule].default}

    if (support is not None and not support.supported) or any(map(refuses, findings)):
        honoured = Honoured.NO
    elif support is None:
        honoured = Honoured.UNSTATED
    elif findings:
        honoured = Honoured.IN_PART
    else:
        honoured = Honoured.UNKNOWN if unjudged else Honoured.YES
    return Honour(asked, honoured, support, findings, unjudged)


def _answer(honours: tuple[Honour, ...], findings: Sequence[Finding], unjudged: Sequence[Unjudged]) -> Answer:
    if any(found.action is Action.DENY for found in findings):
        return Answer.REFUSED
    if any(found.honoured in {Honoured.NO, Honoured.IN_PART, Honoured.UNSTATED} for found in honours):
        return Answer.PARTLY
    return Answer.UNKNOWN if unjudged else Answer.RUNS
