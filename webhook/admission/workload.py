"""The one path of all workloads: choose a scheduler, judge, excuse old faults, answer, and record the choice.

`WorkloadAdmission` declares what the path needs to know about a kind of workload. There are two implementations:
`webhook.admission.pod_clique_set` and, for opted-in workloads, `webhook.admission.opted_in`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from webhook.admission.exceptions import with_exceptions
from webhook.admission.opinion import softened
from webhook.config.settings import Profile, Settings
from webhook.model.admission_request import ALLOWED, Operation, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.reading import Malformed, Manifest
from webhook.validators.registry import Outcome
from webhook.validators.selection import Choice


class Namespaced(Protocol):
    """What every view of a workload has."""

    namespace: str


W = TypeVar("W", bound=Namespaced)


class WorkloadAdmission(ABC, Generic[W]):
    """How workloads of one sort are admitted. `W` is the type of their view. It keeps no state."""

    # What the path does

    def validate(self, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
        """Run the rules on the workload. Raises `Malformed`."""
        workload = self.view(request.object or {}, request.namespace)
        old = self._readable(request)
        choice = self.choice_of(workload, old, facts, settings)
        if choice is None:
            return self.without_choice(workload, facts, settings)
        outcome = self.judge(workload, old, choice, facts, settings)
        findings = outcome.findings
        if old is not None:
            findings = [finding for finding in findings if finding.action is Action.DENY or not finding.once]
        if old is not None and any(finding.action is Action.DENY for finding in findings):
            # An update is not blamed for old faults. Faults of the change itself (`forbidden`) stay denials.
            findings = softened(findings, self.faults_of(old, facts, settings))
            if self.must_pass(request, settings):
                findings = [
                    one if one.forbidden else replace(one, action=min(one.action, Action.WARN)) for one in findings
                ]
        findings.sort(key=lambda finding: (-finding.action, not finding.fails_closed))
        allowed = not findings or findings[0].action is not Action.DENY
        verdict = Verdict(allowed, choice.scheduler, tuple(findings), tuple(outcome.unjudged), chosen_by=choice.by)
        verdict = with_exceptions(verdict, request, facts, settings)
        # Name other schedulers only for a new workload: the record of a stored one cannot simply change.
        if verdict.allowed or old is not None:
            return verdict
        return self.compared(verdict, workload, choice, facts, settings)

    def mutate(self, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
        """Record the scheduler at CREATE, and on an update that drops the record. Raises `Malformed`."""
        # The dict itself, even an empty one: the caller must see what mutation changes.
        workload = self.view({} if request.object is None else request.object, request.namespace)
        scheduler = self.scheduler_to_record(workload, request, facts, settings)
        if scheduler is None:
            return ALLOWED
        return Verdict(scheduler=scheduler, patch=self.record(workload, scheduler, request))

    def judge(self, workload: W, old: W | None, choice: Choice, facts: ClusterFacts, settings: Settings) -> Outcome:
        """Run the rules about the choice, then, if the choice is valid, the rules of its profile."""
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
    ) -> Outcome:
        """Run the rules of one profile as it enforces them in the namespace of the workload."""
        ceiling = settings.ceiling(profile, facts, workload.namespace)
        return self.judged_by(profile, ceiling, workload, old, choice, facts, settings)

    def faults_of(self, old: W, facts: ClusterFacts, settings: Settings) -> Sequence[Finding]:
        """Return the findings about a stored workload under its own record. Without a record it was never judged, so
        its adoption excuses none of its faults.
        """
        choice = self.choice_of(old, old, facts, settings)
        if choice is None:
            return ()
        try:
            return self.judge(old, None, choice, facts, settings).findings
        except Malformed:
            return ()

    def scheduler_to_record(self, workload: W, request: Request, facts: ClusterFacts, settings: Settings) -> str | None:
        """Return the scheduler that the workload must record, or None if nothing is to be recorded."""
        if request.operation != "CREATE":
            return self.dropped_record(workload, request, settings)
        choice = self.choice_of(workload, None, facts, settings)
        return choice.scheduler if choice is not None and choice.scheduler in settings.profiles else None

    def _readable(self, request: Request) -> W | None:
        """Return the old workload, or None if there is none or its past schema cannot be read."""
        if request.old is None:
            return None
        try:
            return self.old_view(request.old, request.namespace)
        except Malformed:
            return None

    # What differs

    @abstractmethod
    def view(self, manifest: Manifest, namespace: str) -> W:
        """Return the view of a workload. Raises `Malformed`."""

    def old_view(self, manifest: Manifest, namespace: str) -> W:
        """Return the view of a stored workload, after checking that every field can be read. Raises `Malformed`."""
        return self.view(manifest, namespace)

    @abstractmethod
    def choice_of(self, workload: W, old: W | None, facts: ClusterFacts, settings: Settings) -> Choice | None:
        """Return the scheduler that a workload is judged for, or None if it is left as it is."""

    def must_pass(self, _request: Request, _settings: Settings) -> bool:
        """Return whether an update must not be refused, except for a fault of the change itself."""
        return False

    def without_choice(self, _workload: W, _facts: ClusterFacts, _settings: Settings) -> Verdict:
        """Return the verdict on a workload that is left as it is."""
        return ALLOWED

    @abstractmethod
    def judge_choice(self, workload: W, old: W | None, choice: Choice, facts: ClusterFacts) -> Outcome:
        """Run the rules about the choice of a scheduler."""

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
    ) -> Outcome:
        """Run the general rules and the backend's rules of one profile. `ceiling` is the strictest action that a rule
        may take.
        """

    def compared(
        self, verdict: Verdict, _workload: W, _choice: Choice, _facts: ClusterFacts, _settings: Settings
    ) -> Verdict:
        """Return the refusal of a new workload with the other schedulers that could run it."""
        return verdict

    @abstractmethod
    def dropped_record(self, workload: W, request: Request, settings: Settings) -> str | None:
        """Return the recorded scheduler that an update leaves out. A changed record is refused, not repaired."""

    @abstractmethod
    def record(self, workload: W, scheduler: str, request: Request) -> tuple[Operation, ...]:
        """Return the patch that records the scheduler. Changes the dict of the workload in place."""
