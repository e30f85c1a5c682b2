"""The explanation of a workload: which enabled schedulers could run it, what refuses it, and the smallest edit that
helps.

`rollcall explain` and `/capabilities` share this code. It runs the same rules as admission, and shows an edit only
after these rules have judged it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from webhook.admission import decision
from webhook.admission.opinion import (
    Honour,
    Honoured,
    Opinion,
    OpinionAnswer,
    change_actions,
    chosen_by_label,
    opinion_of,
    opinion_on,
)
from webhook.admission.opted_in_admission import (
    IS_NO_GANG,
    OptedInWorkloads,
    gang_support,
    is_part,
    made_job_set,
    omission_of,
    topology_support,
)
from webhook.admission.workload_admission import POD_CLIQUE_SETS, WorkloadAdmission, cover_findings, exception_subject
from webhook.admission.workload_fit import has_run
from webhook.config.settings import Profile, Settings
from webhook.model import grove
from webhook.model.admission_request import Change, Request, Verdict, applied
from webhook.model.capabilities import Capability, Disruption, Support, Use, Uses, capabilities_used
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Finding, OmissionReason, shown
from webhook.model.grove import SHORTENED, generation_of, is_shortened
from webhook.model.reading import Malformed, Manifest
from webhook.model.workload_record import OPTED_OUT
from webhook.offline.fit_report import FitEntry, entries_of
from webhook.offline.gang_tree import TreeNode, gang_names, gang_tree, workload_tree
from webhook.offline.judgement import name_findings, requests_in, stock_runtime_notes, workload_kinds
from webhook.offline.omissions import add_remedies, drop_placeholders
from webhook.offline.report import finding_as_json, single_value, unjudged_as_json
from webhook.offline.smallest_edit import edit_under
from webhook.offline.translation import disruption_modes, override_notes
from webhook.validators.gang_scheduler import Choice
from webhook.workloads.opted_in_gang import is_claimed, no_gang, requests, scheduler_of_pods
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import TrainJob


@dataclass(frozen=True, slots=True)
class Edit:
    """The changes after which the scheduler no longer refuses the workload, and its answer then."""

    changes: tuple[Change, ...]
    then: OpinionAnswer

    def as_json(self) -> dict[str, Any]:
        changes = [change.as_json() for change in self.changes]
        return {"then": str(self.then), "changes": changes, "patch": [change.as_patch() for change in self.changes]}


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """How one scheduler judges the workload, with an edit if it refuses and one was found."""

    opinion: Opinion
    edit: Edit | None = None
    # Of its gangs, if the scheduler has such modes.
    disruption_modes: Sequence[Disruption] = ()
    # Whether its gangs fit; only known with nodes.
    fits: tuple[FitEntry, ...] = ()

    @property
    def scheduler(self) -> str:
        return self.opinion.scheduler


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one workload. `broken` has findings that are independent of the scheduler: fields of the wrong
    type (then nothing else is filled), or an invalid choice.
    """

    namespace: str
    name: str
    choice: Choice
    broken: tuple[Finding, ...] = ()
    uses: Uses | None = None
    views: tuple[SchedulerView, ...] = ()
    tree: TreeNode | None = None
    kind: str = "PodCliqueSet"
    # Advice that does not come from a rule.
    notes: tuple[str, ...] = ()
    # What is wrong with the names of its fields, labels and annotations.
    names: tuple[Finding, ...] = ()
    # Why no scheduler is chosen for it.
    omission: OmissionReason | None = None

    @property
    def answer(self) -> OpinionAnswer | None:
        """The answer of the scheduler that is chosen for the workload; None for a workload that is not opted in."""
        if not self.choice.scheduler and not self.broken and self.kind != "PodCliqueSet":
            return None
        chosen = next((view for view in self.views if view.scheduler == self.choice.scheduler), None)
        return OpinionAnswer.REFUSED if self.broken or chosen is None else chosen.opinion.answer

    @property
    def chosen_by(self) -> str:
        return f"by {self.choice.chooser}"

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "scheduler": self.choice.scheduler or None,
            "chosenBy": self.chosen_by if self.choice.scheduler else None,
            "answer": None if self.answer is None else str(self.answer),
            "couldRun": [view.scheduler for view in self.views if view.opinion.answer is OpinionAnswer.RUNS],
            "findings": [finding_as_json(finding) for finding in (*self.broken, *self.names)],
            "notes": list(self.notes),
            "uses": [
                {
                    "capability": str(capability),
                    "fields": [{"field": str(use.path), "value": single_value(use.value)} for use in uses],
                }
                for capability, uses in (self.uses or {}).items()
            ],
            "schedulers": [_view(view) for view in self.views],
            "gangs": None if self.tree is None else self.tree.as_json(),
        }


def explain_document(
    manifest: Manifest, facts: ClusterFacts, settings: Settings, now: datetime | None = None
) -> Iterator[tuple[FieldPath, Explanation]]:
    """Yields an explanation of each workload in a document, with its place; other kinds have none. Raises
    `ReviewError`.
    """
    for request, at in requests_in(manifest, workload_kinds(settings), now=now):
        if request.kind[::2] == (grove.GROUP, "PodCliqueSet"):
            explanation: Explanation | None = explain(request, facts, settings)
        else:
            explanation = explain_opted_in(request, facts, settings) if request.kind[::2] in settings.kinds else None
        if explanation is not None:
            notes = (
                *override_notes(request, facts, settings),
                *stock_runtime_notes(request, facts),
                *explanation.notes,
            )
            names = name_findings(request, explanation.choice.scheduler, facts, settings)
            verdict = drop_placeholders(Verdict(findings=names), request.object or {})
            if verdict.omission is not None:
                notes = (*notes, f"not rendered: {verdict.omission.why}; {verdict.omission.remedy}")
            views = tuple(_supplied(view, facts) for view in _apply_exceptions(explanation.views, request, settings))
            yield at, replace(explanation, names=verdict.findings, notes=notes, views=views)


def _apply_exceptions(views: Sequence[SchedulerView], request: Request, settings: Settings) -> Iterator[SchedulerView]:
    """Yields the views as the exceptions of the namespace change them. If nothing else refuses, no edit is needed."""
    granted = settings.exceptions.active_in(request.namespace, request.at)
    if not granted or not views:
        yield from views
        return
    description = exception_subject(request.kind.kind, request.object or {})
    for view in views:
        opinion = change_actions(view.opinion, lambda findings: cover_findings(findings, granted, description))
        yield replace(view, opinion=opinion, edit=view.edit if opinion.answer is OpinionAnswer.REFUSED else None)


def _supplied(view: SchedulerView, facts: ClusterFacts) -> SchedulerView:
    opinion = view.opinion
    honours = tuple(replace(honour, unjudged=add_remedies(honour.unjudged, facts)) for honour in opinion.honours)
    return replace(view, opinion=replace(opinion, honours=honours, unjudged=add_remedies(opinion.unjudged, facts)))


def explain(request: Request, facts: ClusterFacts, settings: Settings) -> Explanation:
    """Returns how every enabled scheduler judges a PodCliqueSet, as if it were being created."""
    try:
        workload = PodCliqueSet(request.object or {}, request.namespace)
        choice = POD_CLIQUE_SETS.choice_of(workload, None, facts, settings) or Choice("", SPEC)
        broken = tuple(POD_CLIQUE_SETS.judge_choice(workload, None, choice, facts).findings)
        views = tuple(_view_under(profile, workload, choice, facts, settings) for profile in settings.profiles.values())
        tree = gang_tree(workload, generation_of(facts, settings.grove))
        uses = capabilities_used(workload)
    except Malformed:
        broken = decision.malformed(request, settings).findings
        return Explanation(request.namespace, request.name, Choice("", SPEC), broken)
    notes = (SHORTENED,) if any(map(is_shortened, gang_names(tree))) else ()
    return Explanation(workload.namespace, workload.name, choice, broken, uses, views, tree, notes=notes)


def explain_opted_in(request: Request, facts: ClusterFacts, settings: Settings) -> Explanation | None:
    """Returns how every enabled scheduler judges a workload that is not Grove's; None if it is not opted in and part of
    something else: a Job of a JobSet, or a workload whose pods name a gang themselves.
    """
    try:
        admission = OptedInWorkloads(settings.kinds.views[request.kind[::2]])
        return _explain_opted_in(admission, admission.view(request.object or {}, request.namespace), facts, settings)
    except Malformed:
        broken = decision.malformed(request, settings).findings
        return Explanation(request.namespace, request.name, Choice("", SPEC), broken, kind=request.kind.kind)


def _explain_opted_in(
    admission: WorkloadAdmission[OptedInWorkload], workload: OptedInWorkload, facts: ClusterFacts, settings: Settings
) -> Explanation | None:
    chosen = admission.choice_of(workload, None, facts, settings)
    if is_part(workload, settings.kinds) or (chosen is None and is_claimed(workload)):
        return None
    choice = chosen or Choice("", SPEC)
    # The workload that makes the pods: for a TrainJob with a known runtime its JobSet, else itself.
    maker = made_job_set(workload, facts) if isinstance(workload, TrainJob) else workload
    broken = () if chosen is None else tuple(admission.judge_choice(workload, None, choice, facts).findings)
    opted_out = choice.scheduler == OPTED_OUT and not broken
    if opted_out:
        choice = Choice("", SPEC)
    place = workload.runtime_path if isinstance(workload, TrainJob) else SPEC
    uses = {Capability.GANG: [Use(place, None)]}
    if topology_requests := requests(workload, maker):
        uses[Capability.TOPOLOGY_WORKLOAD] = [use for _, use in topology_requests]
    views = []
    for profile in settings.profiles.values():
        profile_choice = choice if choice.scheduler == profile.name else chosen_by_label(profile.name, settings)
        outcome = admission.enforced_by(profile, workload, None, profile_choice, facts, settings)
        table = {Capability.TOPOLOGY_WORKLOAD: topology_support((reader for reader, _ in topology_requests), profile)}
        if (gang := gang_support(maker or workload, profile, settings.kinds)) is not None:
            table[Capability.GANG] = gang
        opinion = opinion_on(profile, uses, outcome, table)
        modes = [] if opinion.answer is OpinionAnswer.REFUSED else disruption_modes(workload, profile, facts)
        views.append(SchedulerView(opinion, None, modes, _fits(workload, profile, facts, settings)))
    omission = omission_of(workload, facts, settings) if chosen is None else None
    notes = [str(omission)] if omission is not None else [IS_NO_GANG] if opted_out else []
    if maker is None and isinstance(workload, TrainJob):
        runtime = f"{workload.runtime_kind} {shown(workload.runtime.name)}"
        notes.append(f"its gangs are not known: they are made from {runtime}")
    remark = "if it were not opted out" if opted_out else "if it were opted in"
    tree = None if maker is None else _tree(workload, maker, choice, settings, remark)
    return Explanation(
        workload.namespace,
        workload.name,
        choice,
        broken,
        uses,
        tuple(views),
        tree,
        workload.resource.api.kind,
        tuple(notes),
        omission=None if omission is None else omission.reason,
    )


def _tree(
    workload: OptedInWorkload, maker: OptedInWorkload, choice: Choice, settings: Settings, remark: str
) -> TreeNode:
    """Returns the tree of gangs under the chosen scheduler. `remark` stands beside gangs without a scheduler."""
    pods_scheduler = scheduler_of_pods(maker)
    scheduler = choice.scheduler or ("" if pods_scheduler is None else str(pods_scheduler.value))
    profile = settings.profiles.get(scheduler)
    barred = no_gang(maker)
    if profile is not None:
        groups = profile.backend.scheduler_groups(maker)
        if groups is not None:
            return workload_tree(workload, maker, groups)
        support = gang_support(maker, profile, settings.kinds)
        if support is None or profile.backend.groups(maker.resource.api.group_kind):
            why = barred.why if barred is not None else f"{profile.name} groups its pods itself"
            return workload_tree(workload, maker, note=f"its gang is not known: {why}")
        if not support.supported:
            return workload_tree(workload, maker, note=f"no gang: {support.why}")
    elif choice.scheduler:
        note = f"its gang is not known: {shown(choice.scheduler)} has no profile here"
        return workload_tree(workload, maker, note=note)
    if barred is not None and not barred.is_made:
        return workload_tree(workload, maker, note=f"no gang is made: {barred.why}")
    return workload_tree(workload, maker, remark="" if choice.scheduler else remark)


def _fits(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings
) -> tuple[FitEntry, ...]:
    if facts.nodes is None or has_run(workload):
        return ()
    return tuple(entries_of(workload, profile, facts, settings))


def _view_under(
    profile: Profile, workload: PodCliqueSet, choice: Choice, facts: ClusterFacts, settings: Settings
) -> SchedulerView:
    profile_choice = choice if choice.scheduler == profile.name else chosen_by_label(profile.name, settings)
    opinion = opinion_of(profile, workload, profile_choice, facts, settings)
    fits = _fits(workload, profile, facts, settings)
    if opinion.answer is not OpinionAnswer.REFUSED:
        return SchedulerView(opinion, None, disruption_modes(workload, profile, facts), fits)
    changes = edit_under(profile, workload, profile_choice, facts, settings)
    edit = None
    if changes:
        edited = PodCliqueSet(applied(workload.raw, changes), workload.namespace)
        edit = Edit(changes, opinion_of(profile, edited, profile_choice, facts, settings).answer)
    return SchedulerView(opinion, edit, fits=fits)


def capability_tables(settings: Settings) -> dict[str, Any]:
    return {
        "default": settings.default,
        "schedulers": [
            {
                "scheduler": name,
                "capabilities": [
                    {"capability": str(capability)} | _support(profile.backend.capabilities.get(capability))
                    for capability in Capability
                ],
            }
            for name, profile in settings.profiles.items()
        ],
    }


def _support(support: Support | None) -> dict[str, Any]:
    if support is None:
        return {"honoured": str(Honoured.UNSTATED)}
    if not support.supported:
        return {"honoured": str(Honoured.NO), "why": support.why, "remedy": support.remedy}
    if support.depends:
        return {"honoured": "depends", "depends": support.depends}
    return {"honoured": str(Honoured.YES)}


def _view(view: SchedulerView) -> dict[str, Any]:
    opinion = view.opinion
    return {
        "scheduler": opinion.scheduler,
        "answer": str(opinion.answer),
        "disruptionModes": [str(mode) for mode in view.disruption_modes],
        "capabilities": [_honour(honour) for honour in opinion.honours],
        "findings": [finding_as_json(finding) for finding in opinion.findings],
        "notJudged": [unjudged_as_json(missing) for missing in opinion.unjudged],
        "edit": None if view.edit is None else view.edit.as_json(),
        **({"fits": [entry.as_json() for entry in view.fits]} if view.fits else {}),
    }


def _honour(honour: Honour) -> dict[str, Any]:
    fields: dict[str, Any] = {"capability": str(honour.capability), "honoured": str(honour.honoured)}
    if honour.support is not None and honour.support.depends:
        fields["depends"] = honour.support.depends
    if honour.findings:
        fields["stoppedBy"] = [
            {"rule": stop.rule, "field": str(stop.at), "why": stop.why, "remedy": stop.remedy}
            for stop in honour.findings
        ]
    elif honour.honoured is Honoured.NO and honour.support is not None:
        fields |= {"why": honour.support.why, "remedy": honour.support.remedy}
    if honour.unjudged:
        fields["notJudged"] = [unjudged_as_json(missing) for missing in honour.unjudged]
    return fields
