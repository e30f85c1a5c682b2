"""The opinion of one scheduler on a workload, without I/O: what its rules find, and which used capabilities it
honours.

Admission asks for the chosen scheduler. A refusal and `rollcall explain` also ask for the others. The capability table
and the rules of a backend are evaluated together, so the table cannot promise what a rule refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from webhook.admission.workload_fit import WorkloadFits, is_known
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
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.gang_scheduler import Choice
from webhook.validators.registry import MAX_FINDINGS, BoundRule, Context, Rule, RuleOutcome, no_fits, run
from webhook.workloads.pod_clique_set import PodCliqueSet

_SCHEDULER_NAME = SPEC / "schedulerName"


class OpinionAnswer(StrEnum):
    """Whether a scheduler runs a workload as it is written."""

    RUNS = "runs"
    # No rule refuses the workload, but the scheduler ignores a used capability or honours it in part.
    PARTLY = "partly"
    REFUSED = "refused"
    # A rule lacks the facts to judge.
    UNKNOWN = "unknown"


class Honoured(StrEnum):
    """Whether a scheduler honours one capability that a workload uses."""

    YES = "yes"
    NO = "no"
    # A rule warns of it.
    IN_PART = "inPart"
    UNKNOWN = "unknown"
    # The table of the scheduler lacks the capability: it is not known that the scheduler acts on it.
    UNSTATED = "unstated"


@dataclass(frozen=True, slots=True)
class Honour:
    """A used capability and whether it is honoured. `support` is its table entry, None if there is none."""

    capability: Capability
    honoured: Honoured
    support: Support | None
    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()


@dataclass(frozen=True, slots=True)
class Opinion:
    """How one scheduler judges a workload. `findings` are those that act; `others` are about no capability."""

    scheduler: str
    answer: OpinionAnswer
    honours: tuple[Honour, ...]
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    others: tuple[Finding, ...]

    @property
    def denials(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.action is Action.DENY)


def pod_verdict(pod: Pod, profile: Profile, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Runs the rules about pods on a pod that was prepared for the scheduler of `profile`."""
    context = pod_context(pod, profile, facts, settings, capabilities_of_pod(pod.template))
    outcome = run(profile.pod_rules[settings.ceiling(profile, facts, pod.namespace)], context, pod.template)
    findings = outcome.findings
    findings.sort(key=lambda finding: -finding.action)
    allowed = not findings or findings[0].action is not Action.DENY
    return Verdict(allowed, profile.name, tuple(findings), tuple(outcome.unjudged))


def pod_context(pod: Pod, profile: Profile, facts: ClusterFacts, settings: Settings, uses: Uses) -> Context[Any]:
    """Returns the context for the rules about a pod that was prepared for the scheduler of `profile`."""
    choice = Choice(profile.name, _SCHEDULER_NAME, settings.available)
    return gang_context(profile, facts, choice, uses, settings, namespace=pod.namespace)


def soften(findings: Iterable[Finding], before: Iterable[Finding]) -> list[Finding]:
    """Returns `findings`, with denials for faults that were there `before` turned into warnings. Each old fault excuses
    one new fault, so a new faulty list item is not excused by an old one.
    """
    faults = list(before)
    excused = Counter(finding.identity for finding in faults)
    # A rule stops at `MAX_FINDINGS`, so its other old faults are unknown: all its findings are excused.
    cut = {rule for rule, count in Counter(finding.rule for finding in faults).items() if count >= MAX_FINDINGS}

    def is_excused(finding: Finding) -> bool:
        if finding.action is not Action.DENY or finding.forbidden:
            return False
        if finding.rule in cut:
            return True
        excused[finding.identity] -= 1
        return excused[finding.identity] >= 0

    return [replace(finding, action=Action.WARN) if is_excused(finding) else finding for finding in findings]


def gang_context(  # noqa: PLR0913 - a context is one flat list of what rules may look at
    profile: Profile,
    facts: ClusterFacts,
    choice: Choice,
    uses: Uses,
    settings: Settings,
    workload: PodCliqueSet | None = None,
    *,
    namespace: str = "",
    owner: str = "",
) -> Context[Any]:
    """Returns the context for the rules of a profile. Adds to `uses` the capabilities that the backend's settings
    imply. `namespace` is needed only without a `workload`; `owner` is the uid of the opted-in workload of a judged pod.
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
        owner,
        reads_claims_of=backend.reads_claims_of,
        gang_scheduler=backend,
        kueue=settings.kueue,
        proceed=settings.proceed,
        fits=WorkloadFits(profile, facts, settings) if is_known(facts, workload) else no_fits,
    )


def could_run(workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings) -> tuple[str, ...]:
    """Returns the other enabled schedulers whose rules allow, judge and honour all of `workload` as it is written."""
    uses = capabilities_used(workload)
    schedulers = []
    for name, profile in settings.profiles.items():
        table = profile.backend.capabilities
        # The table alone excludes most schedulers, without running a rule.
        if name == choice.scheduler or not all(use in table and table[use].supported for use in uses):
            continue
        try:
            opinion = opinion_of(profile, workload, chosen_by_label(name, settings), facts, settings, uses)
        except Malformed:
            # A rule of this scheduler reads a field that is malformed. The rules of the chosen scheduler do not read
            # that field.
            continue
        if opinion.answer is OpinionAnswer.RUNS:
            schedulers.append(name)
    return tuple(schedulers)


def chosen_by_label(scheduler: str, settings: Settings) -> Choice:
    """Returns the choice of `scheduler` as if the workload made it by its label."""
    return Choice(scheduler, LABELS / SCHEDULER_LABEL, settings.available)


def opinion_of(
    profile: Profile,
    workload: PodCliqueSet,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
    uses: Uses | None = None,
) -> Opinion:
    """Returns how the scheduler of `profile` judges `workload`. `uses` are its used capabilities, if already known."""
    uses = capabilities_used(workload) if uses is None else uses
    # The context adds what the profile implies. The opinion covers only what the workload asks for.
    context = gang_context(profile, facts, choice, dict(uses), settings, workload)
    enforced = profile.rules[settings.ceiling(profile, facts, workload.namespace)]
    actions = {bound.rule.id: bound.action for bound in enforced}
    # A rule that is switched off still means that a capability is not honoured.
    rules = [BoundRule(declared, actions.get(declared.id, Action.OFF)) for declared in profile.every_rule]
    return opinion_on(profile, uses, run(rules, context))


def opinion_on(profile: Profile, uses: Uses, outcome: RuleOutcome, table: CapabilityTable | None = None) -> Opinion:
    """Returns the opinion that follows from `outcome` of all rules; `table` replaces that of the backend."""
    by_rule = _Subjects(profile.every_rule, uses)
    table = profile.backend.capabilities if table is None else table
    subjects = [(finding, by_rule.capabilities_of(finding)) for finding in outcome.findings]
    missing_subjects = [(missing, by_rule.capabilities_of(missing)) for missing in outcome.unjudged]
    honours = tuple(
        _honour(
            capability,
            table.get(capability),
            tuple(finding for finding, about in subjects if capability in about),
            tuple(missing for missing, about in missing_subjects if capability in about),
            by_rule.rules,
        )
        for capability in uses
    )
    findings = tuple(finding for finding in outcome.findings if finding.action is not Action.OFF)
    others = tuple(finding for finding, about in subjects if not about and finding.action is not Action.OFF)
    answer = _answer(honours, findings, outcome.unjudged)
    return Opinion(profile.name, answer, honours, findings, tuple(outcome.unjudged), others)


def change_actions(opinion: Opinion, change: Callable[[Iterable[Finding]], Sequence[Finding]]) -> Opinion:
    """Returns the opinion after `change` of the actions of its findings."""
    findings = tuple(change(opinion.findings))
    answer = _answer(opinion.honours, findings, opinion.unjudged)
    return replace(opinion, answer=answer, findings=findings, others=tuple(change(opinion.others)))


class _Subjects:
    """Which of the used capabilities a finding is about: the rule's capabilities that are used at the finding's place,
    or all the rule's used capabilities if none is used there. For a rule without capabilities, only the place decides.
    """

    def __init__(self, rules: Sequence[Rule], uses: Uses) -> None:
        self.rules = {declared.id: declared for declared in rules}
        self._uses = frozenset(uses)
        self._places: dict[FieldPath, set[Capability]] = {}
        for capability, places in uses.items():
            for use in places:
                self._places.setdefault(use.path, set()).add(capability)

    def capabilities_of(self, finding: Finding | Unjudged) -> frozenset[Capability]:
        among = self.rules[finding.rule].capabilities & self._uses
        return frozenset((among or self._uses) & self._places.get(finding.at, set())) or among


def _honour(
    capability: Capability,
    support: Support | None,
    findings: tuple[Finding, ...],
    unjudged: tuple[Unjudged, ...],
    rules: Mapping[str, Rule],
) -> Honour:
    def refuses(finding: Finding) -> bool:
        # A rule that the configuration downgrades or switches off still shows what the scheduler does not honour.
        return Action.DENY in {finding.action, rules[finding.rule].default}

    if (support is not None and not support.supported) or any(map(refuses, findings)):
        honoured = Honoured.NO
    elif support is None:
        honoured = Honoured.UNSTATED
    elif findings:
        honoured = Honoured.IN_PART
    else:
        honoured = Honoured.UNKNOWN if unjudged else Honoured.YES
    return Honour(capability, honoured, support, findings, unjudged)


def _answer(honours: tuple[Honour, ...], findings: Sequence[Finding], unjudged: Sequence[Unjudged]) -> OpinionAnswer:
    if any(finding.action is Action.DENY for finding in findings):
        return OpinionAnswer.REFUSED
    if any(honour.honoured in {Honoured.NO, Honoured.IN_PART, Honoured.UNSTATED} for honour in honours):
        return OpinionAnswer.PARTLY
    return OpinionAnswer.UNKNOWN if unjudged else OpinionAnswer.RUNS
