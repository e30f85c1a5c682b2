"""The one path of all workloads: choose a scheduler, judge, excuse old faults, apply the exceptions of the
configuration, answer, and record the choice.

`WorkloadAdmission` declares what the path needs to know about a kind of workload. There are two implementations:
`PodCliqueSets`, and for opted-in workloads `webhook.admission.opted_in_admission`. A finding that an exception covers
does not refuse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from webhook.admission.opinion import could_run, gang_context, soften
from webhook.admission.pod_admission import PodMembership, membership_of
from webhook.admission.workload_fit import makes_new_gangs
from webhook.config.settings import CHOICE_BOUND, CHOICE_RULE_IDS, Profile, Settings
from webhook.model.admission_request import ALLOWED, Operation, Request, Verdict
from webhook.model.bounds import values_in
from webhook.model.capabilities import capabilities_used
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Excepted, Finding, RuleException
from webhook.model.grove import controller_in
from webhook.model.known_kinds import POD, TRAIN_JOBS
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.mutators.prepare_pod import record_scheduler
from webhook.validators.gang_scheduler import Choice, choose, label_choice, template_names
from webhook.validators.registry import Context, RuleOutcome, no_fits, run
from webhook.workloads.pod_clique_set import PodCliqueSet


def apply_exceptions(verdict: Verdict, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Returns the verdict as the exceptions of the request's namespace change it. Raises `Malformed`."""
    if not verdict.findings or request.at is None:
        return verdict
    granted = settings.exceptions.active_in(request.namespace, request.at)
    if not granted:
        return verdict
    manifest = request.object or {}
    above: Iterable[tuple[str, str]] | None = None
    if request.kind[::2] == POD and request.operation == "CREATE":
        above = _workloads_of(Pod(manifest, request.namespace), facts, settings)
    findings = cover_findings(verdict.findings, granted, exception_subject(request.kind.kind, manifest, above))
    allowed = not any(finding.action is Action.DENY for finding in findings)
    if allowed == verdict.allowed:
        return replace(verdict, findings=tuple(findings))
    # The advice for a refused workload is about a refusal.
    return replace(verdict, allowed=allowed, findings=tuple(findings), could_run=())


def cover_findings(findings: Iterable[Finding], granted: Sequence[RuleException], subject: Excepted) -> list[Finding]:
    """Returns the findings about an object, the strictest first. One that an exception covers is a warning at most, and
    names the exception. A rule that fails closed is never covered.
    """
    # Of several that cover a rule, the first one of the configuration is named.
    covering = {
        rule: exception
        for exception in reversed(granted)
        if exception.workloads.takes(subject)
        for rule in exception.rules
    }
    every = list(findings)
    for index, finding in enumerate(every):
        exception = covering.get(finding.rule)
        if exception is not None and not finding.fails_closed and finding.excepted is None:
            every[index] = replace(finding, action=min(finding.action, Action.WARN), excepted=exception)
    return sorted(every, key=lambda finding: (-finding.action, not finding.fails_closed))


def exception_subject(kind: str, manifest: Manifest, above: Iterable[tuple[str, str]] | None = None) -> Excepted:
    """Returns an object as exceptions select it: by its own name, or by what is `above` it, by default its controller.
    Raises `Malformed`.
    """
    metadata = mapping(manifest.get("metadata"))
    if above is None:
        controller = controller_in(metadata)
        above = () if controller is None else ((controller.kind, controller.name),)
    # An object that gets its name later has none.
    return Excepted(((kind, text(metadata.get("name")) or ""), *above), mapping(metadata.get("labels")))


def _workloads_of(pod: Pod, facts: ClusterFacts, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields kind and name of the workload of a pod and of the TrainJob above it; none if these are not known."""
    membership = membership_of(pod, facts, settings)
    if not isinstance(membership, PodMembership):
        return
    if pod.podgang is not None:
        yield "PodCliqueSet", pod.workload or ""
    elif (place := settings.kinds.place_of(pod)) is not None:
        yield settings.kinds.grouped_as_at(place)[1], place.workload.name
    if membership.workload is not None and membership.workload.train_job is not None:
        yield TRAIN_JOBS.api.kind, membership.workload.train_job[1]


class Namespaced(Protocol):
    """What every view of a workload has."""

    namespace: str


W = TypeVar("W", bound=Namespaced)


class WorkloadAdmission(ABC, Generic[W]):
    """How workloads of one sort are admitted. `W` is the type of their view. It keeps no state."""

    def validate(self, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
        """Runs the rules on the workload. Raises `Malformed`."""
        workload = self.view(request.object or {}, request.namespace)
        try:
            old = None if request.old is None else self.old_view(request.old, request.namespace)
        except Malformed:
            # Its past schema cannot be read.
            old = None
        choice = self.choice_of(workload, old, facts, settings)
        if choice is None:
            return self.judge_without_choice(workload, facts, settings)
        outcome = self.judge(workload, old, choice, facts, settings)
        findings = outcome.findings
        if old is not None:
            findings = [finding for finding in findings if finding.action is Action.DENY or not finding.once]
        if old is not None and any(finding.action is Action.DENY for finding in findings):
            # An update is not blamed for old faults. Faults of the change itself (`forbidden`) stay denials.
            findings = soften(findings, self.faults_of(old, facts, settings))
            if self.must_pass(request, settings):
                findings = [
                    finding if finding.forbidden else replace(finding, action=min(finding.action, Action.WARN))
                    for finding in findings
                ]
        findings.sort(key=lambda finding: (-finding.action, not finding.fails_closed))
        allowed = not findings or findings[0].action is not Action.DENY
        verdict = Verdict(allowed, choice.scheduler, tuple(findings), tuple(outcome.unjudged), chosen_by=choice.chooser)
        verdict = apply_exceptions(verdict, request, facts, settings)
        # Name other schedulers only for a new workload: the record of a stored one cannot simply change.
        if verdict.allowed or old is not None:
            return verdict
        return self.compared(verdict, workload, choice, facts, settings)

    def mutate(self, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
        """Records the scheduler at CREATE, and on an update that drops the record. Raises `Malformed`."""
        # The dict itself, even an empty one: the caller must see what mutation changes.
        workload = self.view({} if request.object is None else request.object, request.namespace)
        scheduler = self.scheduler_to_record(workload, request, facts, settings)
        if scheduler is None:
            return ALLOWED
        return Verdict(scheduler=scheduler, patch=self.record(workload, scheduler, request))

    def judge(self, workload: W, old: W | None, choice: Choice, facts: ClusterFacts, settings: Settings) -> RuleOutcome:
        """Runs the rules about the choice, then, if the choice is valid, the rules of its profile."""
        first = self.judge_choice(workload, old, choice, facts)
        profile = settings.profiles.get(choice.scheduler)
        if profile is None:
            return first
        then = self.enforced_by(profile, workload, old, choice, facts, settings)
        then.findings[:0] = first.findings
        then.unjudged[:0] = first.unjudged
        return then

    def enforced_by(
        self,
        profile: Profile,
        workload: W,
        old: W | None,
        choice: Choice,
        facts: ClusterFacts,
        settings: Settings,
    ) -> RuleOutcome:
        """Runs the rules of one profile as it enforces them in the namespace of the workload."""
        ceiling = settings.ceiling(profile, facts, workload.namespace)
        return self.judged_by(profile, ceiling, workload, old, choice, facts, settings)

    def faults_of(self, old: W, facts: ClusterFacts, settings: Settings) -> Sequence[Finding]:
        """Returns the findings about a stored workload under its own record; none if it was never judged."""
        choice = self.choice_of(old, old, facts, settings)
        if choice is None:
            return ()
        try:
            return self.judge(old, None, choice, facts, settings).findings
        except Malformed:
            return ()

    def scheduler_to_record(self, workload: W, request: Request, facts: ClusterFacts, settings: Settings) -> str | None:
        """Returns the scheduler that the workload must record, or None if nothing is to be recorded."""
        if request.operation != "CREATE":
            return self.dropped_record(workload, request, settings)
        choice = self.choice_of(workload, None, facts, settings)
        return choice.scheduler if choice is not None and choice.scheduler in settings.profiles else None

    @abstractmethod
    def view(self, manifest: Manifest, namespace: str) -> W:
        """Returns the view of a workload. Raises `Malformed`."""

    def old_view(self, manifest: Manifest, namespace: str) -> W:
        """Returns the view of a stored workload, after checking that every field can be read. Raises `Malformed`."""
        return self.view(manifest, namespace)

    @abstractmethod
    def choice_of(self, workload: W, old: W | None, facts: ClusterFacts, settings: Settings) -> Choice | None:
        """Returns the scheduler that a workload is judged for, or None if it is left as it is."""

    def must_pass(self, _request: Request, _settings: Settings) -> bool:
        """Returns whether an update must not be refused, except for a fault of the change itself."""
        return False

    def judge_without_choice(self, _workload: W, _facts: ClusterFacts, _settings: Settings) -> Verdict:
        """Returns the verdict on a workload that is left as it is."""
        return ALLOWED

    @abstractmethod
    def judge_choice(self, workload: W, old: W | None, choice: Choice, facts: ClusterFacts) -> RuleOutcome:
        """Runs the rules about the choice of a scheduler."""

    @abstractmethod
    def judged_by(  # noqa: PLR0913, PLR0917 - what is judged, by whom, how strictly and for how long
        self,
        profile: Profile,
        ceiling: Action,
        workload: W,
        old: W | None,
        choice: Choice,
        facts: ClusterFacts,
        settings: Settings,
    ) -> RuleOutcome:
        """Runs the general rules and the backend's rules of one profile. `ceiling` is the strictest action that a rule
        may take.
        """

    def compared(
        self, verdict: Verdict, _workload: W, _choice: Choice, _facts: ClusterFacts, _settings: Settings
    ) -> Verdict:
        """Returns the refusal of a new workload with the other schedulers that could run it."""
        return verdict

    @abstractmethod
    def dropped_record(self, workload: W, request: Request, settings: Settings) -> str | None:
        """Returns the recorded scheduler that an update leaves out. A changed record is refused, not repaired."""

    @abstractmethod
    def record(self, workload: W, scheduler: str, request: Request) -> tuple[Operation, ...]:
        """Returns the patch that records the scheduler. Changes the dict of the workload in place."""


# A refused set with more values or more denials than this is not compared with the other schedulers: the comparison is
# only advice, and other requests wait.
_MOST_COMPARED = 10_000
_NOT_COMPARED = "the set is too large to say which other scheduler could run it; rollcall explain does"
_MOST_DENIALS = 50
_MANY_DENIALS = "the set has too many faults to say which other scheduler could run it; rollcall explain does"


class PodCliqueSets(WorkloadAdmission[PodCliqueSet]):
    """The admission of PodCliqueSets."""

    def view(self, manifest: Manifest, namespace: str) -> PodCliqueSet:
        return PodCliqueSet(manifest, namespace)

    def old_view(self, manifest: Manifest, namespace: str) -> PodCliqueSet:
        """Returns the view of a stored set, after reading what it uses. Raises `Malformed`."""
        stored = PodCliqueSet(manifest, namespace)
        capabilities_used(stored)
        return stored

    def choice_of(
        self, workload: PodCliqueSet, old: PodCliqueSet | None, facts: ClusterFacts, settings: Settings
    ) -> Choice | None:
        """Returns the scheduler that a set is judged for; None for one that predates Rollcall and is left as it is."""
        if (forced := settings.forced_choice) is not None:
            return forced
        labelled = label_choice(workload.labels)
        if old is not None and labelled is None:
            labelled = label_choice(old.labels)
            if labelled is None and not settings.standalone:
                return None
        namespace = settings.scheduler_of_namespace(facts, workload.namespace)
        return choose(labelled, template_names(workload), namespace, settings.default, settings.available)

    def judge_choice(
        self, workload: PodCliqueSet, old: PodCliqueSet | None, choice: Choice, facts: ClusterFacts
    ) -> RuleOutcome:
        return run(CHOICE_BOUND, Context(facts, choice, {}, None, workload), old=old)

    def judged_by(  # noqa: PLR0913, PLR0917 - what is judged, by whom, how strictly and for how long
        self,
        profile: Profile,
        ceiling: Action,
        workload: PodCliqueSet,
        old: PodCliqueSet | None,
        choice: Choice,
        facts: ClusterFacts,
        settings: Settings,
    ) -> RuleOutcome:
        """Runs the rules of one profile on a set and on the pods of each clique."""
        context = gang_context(profile, facts, choice, capabilities_used(workload), settings, workload)
        if old is not None:
            fits = context.fits if makes_new_gangs(workload, old, facts) else no_fits
            context = replace(context, fits=fits, is_update=True)
        return run(profile.set_rules[ceiling], context, old=old)

    def compared(
        self, verdict: Verdict, workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings
    ) -> Verdict:
        """Returns the refusal of a set with the other schedulers that could run it, if its choice is valid."""
        if not settings.compares or any(finding.rule in CHOICE_RULE_IDS for finding in verdict.findings):
            return verdict
        if len(verdict.denials) > _MOST_DENIALS:
            return replace(verdict, notes=(_MANY_DENIALS,))
        if values_in(workload.raw, _MOST_COMPARED) == _MOST_COMPARED:
            return replace(verdict, notes=(_NOT_COMPARED,))
        return replace(verdict, could_run=could_run(workload, choice, facts, settings))

    def dropped_record(self, workload: PodCliqueSet, request: Request, _settings: Settings) -> str | None:
        """Returns the recorded scheduler that an update leaves out."""
        recorded = label_choice(mapping(mapping(request.old).get("metadata")).get("labels"))
        return None if recorded is None or label_choice(workload.labels) is not None else recorded.scheduler

    def record(self, workload: PodCliqueSet, scheduler: str, _request: Request) -> tuple[Operation, ...]:
        """Returns the patch that records the scheduler on a set."""
        return record_scheduler(workload, scheduler)


POD_CLIQUE_SETS = PodCliqueSets()
