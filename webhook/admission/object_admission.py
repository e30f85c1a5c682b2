"""How admission judges gang objects that others store, pods that name them, and scales of members of gangs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.admission.opinion import gang_context, soften
from webhook.config.settings import Profile, Settings
from webhook.model import grove
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT, SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_objects import StoredObject
from webhook.model.grove import controller_in
from webhook.model.keys import Api, Needed
from webhook.model.known_kinds import POD
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.model.workload_record import ScaleChange, numbers_in, target_of
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, Choice
from webhook.validators.registry import IndexedRules, run_each, run_on_object

_SETS = "pod_clique_sets"
# The kinds that Grove's backends make the controllers of their PodGroups, and where they are known.
_OWNERS = {(grove.GROUP, "PodCliqueSet"): _SETS, (grove.SCHEDULER_GROUP, "PodGang"): "pod_gangs"}


class _GrovePodGroup(NamedTuple):
    """A PodGroup with the controller that Grove's own backend gives it. Rules that are milder for such a PodGroup are
    no milder than `least`: OFF if Grove's operator writes it, WARN in a file, which does not show who writes it, DENY
    if the controller does not exist.
    """

    controller: Needed
    least: Action

    def explained(self, findings: Iterable[Finding], rules: IndexedRules) -> list[Finding]:
        """Returns the findings with what else is to know: Grove may write it, or the controller is to be read."""
        lenient = {rule.id for rule, _ in rules if rule.of_grove < Action.DENY}
        return [self._explained(finding) if finding.rule in lenient else finding for finding in findings]

    def _explained(self, finding: Finding) -> Finding:
        if self.least is Action.WARN:
            return replace(finding, remedy=f"{finding.remedy}; Grove's operator may write it as it is")
        return replace(finding, absent=self.controller) if self.least is Action.DENY else finding


def validate_object(request: Request, facts: ClusterFacts, settings: Settings, *, owner: str = "") -> Verdict:
    """Runs the rules for this kind of object, unless the user is exempt. Those about a PodGroup of Grove's own backend
    act only as far as they say. On UPDATE, a fault that the old object had becomes a warning. `owner` is the uid of the
    opted-in workload of a pod. Raises `Malformed`.
    """
    try:
        return _validate(request, facts, settings, owner)
    except Malformed:
        if request.old is None:
            raise
        # An old object of a past schema counts as missing: it must not block its repair.
        return _validate(replace(request, old=None), facts, settings, owner)


def _validate(request: Request, facts: ClusterFacts, settings: Settings, owner: str) -> Verdict:
    profiles = settings.judging.get(request.kind[::2], ())
    # Pods are always judged: the Job controller creates pods from Jobs that other users wrote.
    if not profiles or (request.user in settings.exempt_users and request.kind[::2] != POD):
        return ALLOWED
    stored_object = _stored(request, request.object or {})
    of_grove = _grove_pod_group(request, stored_object, facts, settings)
    if request.old is not None:
        stored_object.old = _stored(request, request.old)
    findings: list[Finding] = []
    unjudged: list[Unjudged] = []
    for profile in profiles:
        if (unread := profile.backend.unread(Api(*request.kind))) is not None:
            unjudged.append(unread)
            continue
        rules = profile.object_rules[settings.ceiling(profile, facts, request.namespace)]
        if of_grove is not None:
            rules = rules.soften_for_grove(of_grove.least)
        choice = Choice(profile.name, ROOT, settings.available)
        context = gang_context(profile, facts, choice, {}, settings, namespace=request.namespace, owner=owner)
        outcome = run_on_object(rules, context, request.kind.group, stored_object)
        reported = outcome.findings if of_grove is None else of_grove.explained(outcome.findings, rules)
        if stored_object.old is not None and any(finding.action is Action.DENY for finding in reported):
            before = run_on_object(rules, context, request.kind.group, stored_object.old)
            findings += soften(reported, before.findings)
        else:
            findings += reported
        unjudged += outcome.unjudged
    return add_findings(Verdict(scheduler=_scheduler_of(request, profiles, settings)), findings, unjudged)


def validate_scale(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Runs the rules about scales that Grove's operator did not write. An unreadable Scale never reaches storage."""
    try:
        new, old = numbers_in(request.object), numbers_in(request.old)
        name = text(mapping(mapping(request.object).get("metadata")).get("name")) or request.name
    except Malformed:
        return ALLOWED
    if request.operation != "UPDATE" or new == old or settings.tenancy.is_grove_operator(request.user):
        return ALLOWED
    if facts.pod_clique_sets is None:
        # Without the record of the set its profile is not known: the rules of any may apply.
        profiles = settings.profiles.values()
        bound = (profile.scale_rules[settings.ceiling(profile, facts, request.namespace)] for profile in profiles)
        ids = sorted({rule.id for rules in bound for rule, _ in rules})
        needed = f"the {Needed(_SETS)}"
        return Verdict(unjudged=tuple(Unjudged(SPEC / "replicas", needed, rule, part=_SETS) for rule in ids))
    scale_target = target_of(name, request.namespace, request.resource, facts.pod_clique_sets)
    profile = None if scale_target is None else settings.profiles.get(scale_target.record.scheduler or "")
    if scale_target is None or profile is None:
        return ALLOWED
    rules = profile.scale_rules[settings.ceiling(profile, facts, request.namespace)]
    choice = Choice(profile.name, ROOT, settings.available)
    context = gang_context(profile, facts, choice, {}, settings, namespace=request.namespace)
    outcome = run_each(rules, context, ScaleChange(name, old, new, scale_target.target, scale_target.group))
    return add_findings(Verdict(scheduler=profile.name), outcome.findings, outcome.unjudged)


def _scheduler_of(request: Request, profiles: Sequence[Profile], settings: Settings) -> str | None:
    """Returns the scheduler of the object. Several schedulers have rules about pods, and a pod names its own, or none:
    the API server writes default-scheduler into every pod without a name.
    """
    if request.kind[::2] != POD:
        return profiles[0].name
    scheduler_name = text(mapping(mapping(request.object).get("spec")).get("schedulerName"))
    return scheduler_name if scheduler_name in settings.profiles and scheduler_name != DEFAULT_SCHEDULER else None


def add_findings(verdict: Verdict, findings: Iterable[Finding], unjudged: Iterable[Unjudged] = ()) -> Verdict:
    every = sorted((*verdict.findings, *findings), key=lambda finding: -finding.action)
    allowed = not any(finding.action is Action.DENY for finding in every)
    return replace(verdict, allowed=allowed, findings=tuple(every), unjudged=(*verdict.unjudged, *unjudged))


def changes_fields_read(request: Request, settings: Settings) -> bool:
    """Returns whether an update changes fields of a gang object that a scheduler reads. A scheduler reads the object
    even while a finalizer delays its deletion. Removing a finalizer changes none of these fields and is always allowed.
    """
    return request.kind[::2] in settings.judging and _fields_read(request.object) != _fields_read(request.old)


def _fields_read(manifest: Manifest | None) -> tuple[Any, ...]:
    raw = mapping(manifest)
    metadata = mapping(raw.get("metadata"))
    return raw.get("spec"), metadata.get("labels"), metadata.get("annotations")


def _grove_pod_group(
    request: Request, stored_object: StoredObject, facts: ClusterFacts, settings: Settings
) -> _GrovePodGroup | None:
    """Returns what a PodGroup of Grove's own backend may differ in; None for another object or another user. A tenant
    may make an account of any name in a namespace of his own, so one that is configured for every namespace must write
    for a controller that exists.
    """
    tenancy = settings.tenancy
    if stored_object.kind != "PodGroup" or not (not request.user or tenancy.is_grove_operator(request.user)):
        return None
    reference = controller_in(mapping(stored_object.raw.get("metadata")))
    part = None if reference is None else _OWNERS.get((reference.group, reference.kind))
    if reference is None or part is None:
        return None
    controller = Needed(part, (request.namespace, reference.name))
    if not request.user:
        return _GrovePodGroup(controller, Action.WARN)
    is_missing = facts.is_whole(part, request.namespace) and facts.lacks(controller)
    is_forged = is_missing and request.user not in tenancy.grove_operators
    return _GrovePodGroup(controller, Action.DENY if is_forged else Action.OFF)


def _stored(request: Request, manifest: Manifest) -> StoredObject:
    return StoredObject(manifest, request.kind.kind, request.kind.version, request.namespace)
