"""Judge gang objects that other programs store, and pods that name such objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from webhook.admission.opinion import gang_context, softened
from webhook.config.settings import Profile, Settings
from webhook.model import grove
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Api
from webhook.model.kubernetes_kinds import POD
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.model.stored_object import StoredObject
from webhook.model.workloads.podgang import controller_in
from webhook.validators.registry import BoundRule, IndexedRules, run_on_object
from webhook.validators.selection import DEFAULT_SCHEDULER, Choice

# The kinds that Grove's backends make the controllers of their PodGroups.
_OWNERS = {(grove.GROUP, "PodCliqueSet"), (grove.SCHEDULER_GROUP, "PodGang")}


def validate_object(request: Request, facts: ClusterFacts, settings: Settings, *, owner: str = "") -> Verdict:
    """Run the rules for this kind of object, unless the user is exempt. Those of a
    PodGroup of Grove's own backend act only as far as they say. On UPDATE, a fault that the old object had becomes a warning. `owner` is the uid of
    the opted-in workload of a pod. Raises `Malformed`.
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
    if not profiles or _exempt(request, settings):
        return ALLOWED
    found = _stored(request, request.object or {})
    groves = _is_of_grove(request, found, settings)
    if request.old is not None:
        found.old = _stored(request, request.old)
    findings: list[Finding] = []
    unjudged: list[Unjudged] = []
    for profile in profiles:
        if (unread := profile.backend.unread(Api(*request.kind))) is not None:
            unjudged.append(unread)
            continue
        rules = profile.object_rules[settings.ceiling(profile, facts, request.namespace)]
        if groves:
            rules = _of_grove(rules)
        choice = Choice(profile.name, ROOT, settings.available)
        context = gang_context(profile, facts, choice, {}, settings, namespace=request.namespace, owner=owner)
        outcome = run_on_object(rules, context, request.kind.group, found)
        if found.old is not None and any(one.action is Action.DENY for one in outcome.findings):
            before = run_on_object(rules, context, request.kind.group, found.old)
            findings += softened(outcome.findings, before.findings)
        else:
            findings += outcome.findings
        unjudged += outcome.unjudged
    return with_findings(Verdict(scheduler=_scheduler_of(request, profiles, settings)), findings, unjudged)


def _scheduler_of(request: Request, profiles: Sequence[Profile], settings: Settings) -> str | None:
    """Return the scheduler of the object. Several schedulers have rules about pods, and a pod names its own, or none:
    the API server writes default-scheduler into every pod without a name.
    """
    if request.kind[::2] != POD:
        return profiles[0].name
    named = text(mapping(mapping(request.object).get("spec")).get("schedulerName"))
    return named if named in settings.profiles and named != DEFAULT_SCHEDULER else None


def with_findings(verdict: Verdict, findings: Iterable[Finding], unjudged: Iterable[Unjudged] = ()) -> Verdict:
    """Return `verdict` with more findings."""
    every = sorted((*verdict.findings, *findings), key=lambda finding: -finding.action)
    allowed = not any(finding.action is Action.DENY for finding in every)
    return replace(verdict, allowed=allowed, findings=tuple(every), unjudged=(*verdict.unjudged, *unjudged))


def rewritten(request: Request, settings: Settings) -> bool:
    """Return whether an update changes fields of a gang object that a scheduler reads. A scheduler reads the object
    even while a finalizer delays its deletion. Removing a finalizer changes none of these fields and is always allowed.
    """
    return request.kind[::2] in settings.judging and _read_of(request.object) != _read_of(request.old)


def _read_of(manifest: Manifest | None) -> tuple[Any, ...]:
    found = mapping(manifest)
    metadata = mapping(found.get("metadata"))
    return found.get("spec"), metadata.get("labels"), metadata.get("annotations")


def _exempt(request: Request, settings: Settings) -> bool:
    """Return whether the user may write any gang object. Pods are always judged: the Job controller creates pods from
    Jobs that other users wrote.
    """
    return request.user in settings.exempt_users and request.kind[::2] != POD


def _of_grove(rules: IndexedRules) -> IndexedRules:
    """Return the rules for a PodGroup of Grove's own backend."""
    capped = (BoundRule(bound.rule, min(bound.action, bound.rule.of_grove)) for bound in rules)
    return IndexedRules(bound for bound in capped if bound.action is not Action.OFF)


def _is_of_grove(request: Request, found: StoredObject, settings: Settings) -> bool:
    """Return whether Grove's own backend made a PodGroup: its operator writes it, which a file cannot show, and a
    PodCliqueSet or a PodGang is its controller.
    """
    if found.kind != "PodGroup" or not (not request.user or settings.tenancy.is_grove_operator(request.user)):
        return False
    controller = controller_in(mapping(found.raw.get("metadata")))
    return controller is not None and (controller.group, controller.kind) in _OWNERS


def _stored(request: Request, manifest: Manifest) -> StoredObject:
    return StoredObject(manifest, request.kind.kind, request.kind.version, request.namespace)
