"""How a PodCliqueSet is admitted. Each one is judged; at CREATE the choice of its scheduler is recorded on it."""

from __future__ import annotations

from dataclasses import replace

from webhook.admission.fit import makes_new_gangs
from webhook.admission.opinion import could_run, gang_context
from webhook.admission.workload import WorkloadAdmission
from webhook.config.settings import CHOICE_BOUND, CHOICE_RULE_IDS, Profile, Settings
from webhook.model.admission_request import Operation, Request, Verdict
from webhook.model.bounds import values_in
from webhook.model.capabilities import capabilities_used
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.reading import Manifest, mapping
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.mutators.record import record_scheduler
from webhook.validators.registry import Context, Outcome, no_fits, run
from webhook.validators.selection import Choice, choose, label_choice, template_names

# A refused set with more values or more denials than this is not compared with the other schedulers: the comparison is
# only advice, and other requests wait.
_MOST_COMPARED = 10_000
_NOT_COMPARED = "the set is too large to say which other scheduler could run it; rollcall explain does"
_MOST_DENIALS = 50
_MANY_DENIALS = "the set has too many faults to say which other scheduler could run it; rollcall explain does"


class PodCliqueSets(WorkloadAdmission[PodCliqueSet]):
    """The admission of PodCliqueSets."""

    def view(self, manifest: Manifest, namespace: str) -> PodCliqueSet:
        """Return the view of a set. Raises `Malformed`."""
        return PodCliqueSet(manifest, namespace)

    def old_view(self, manifest: Manifest, namespace: str) -> PodCliqueSet:
        """Return the view of a stored set, after reading what it uses. Raises `Malformed`."""
        found = PodCliqueSet(manifest, namespace)
        capabilities_used(found)
        return found

    def choice_of(
        self, workload: PodCliqueSet, old: PodCliqueSet | None, facts: ClusterFacts, settings: Settings
    ) -> Choice | None:
        """Return the scheduler that a set is judged for. Return None for a set that predates Rollcall: its pods are
        left as they are.
        """
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
    ) -> Outcome:
        """Run the rules about the choice of a scheduler."""
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
    ) -> Outcome:
        """Run the rules of one profile on a set and on the pods of each clique."""
        context = gang_context(profile, facts, choice, capabilities_used(workload), settings, workload)
        if old is not None:
            fits = context.fits if makes_new_gangs(workload, old, facts) else no_fits
            context = replace(context, fits=fits, is_update=True)
        return run(profile.set_rules[ceiling], context, old=old)

    def compared(
        self, verdict: Verdict, workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings
    ) -> Verdict:
        """Return the refusal of a set with the other schedulers that could run it, if its choice is valid."""
        if not settings.compares or any(found.rule in CHOICE_RULE_IDS for found in verdict.findings):
            return verdict
        if len(verdict.denials) > _MOST_DENIALS:
            return replace(verdict, notes=(_MANY_DENIALS,))
        if values_in(workload.raw, _MOST_COMPARED) == _MOST_COMPARED:
            return replace(verdict, notes=(_NOT_COMPARED,))
        return replace(verdict, could_run=could_run(workload, choice, facts, settings))

    def dropped_record(self, workload: PodCliqueSet, request: Request, _settings: Settings) -> str | None:
        """Return the recorded scheduler that an update leaves out."""
        recorded = label_choice(mapping(mapping(request.old).get("metadata")).get("labels"))
        return None if recorded is None or label_choice(workload.labels) is not None else recorded.scheduler

    def record(self, workload: PodCliqueSet, scheduler: str, _request: Request) -> tuple[Operation, ...]:
        """Return the patch that records the scheduler on a set."""
        return record_scheduler(workload, scheduler)


POD_CLIQUE_SETS = PodCliqueSets()
