"""Decide one request, without I/O: a request, facts and settings in, a verdict out. The server and the commands call
only this.

PodCliqueSet: `mutate` chooses its scheduler at CREATE and records it; `validate` judges it by the general rules and by
the rules of its backend. Pod of a gang: `mutate` finds the record of its workload and prepares the pod for that
scheduler; `validate` judges the prepared pod. Every other request is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from webhook.admission import opted_in as owners
from webhook.admission.opinion import could_run, gang_context, judged_by, pod_verdict, softened
from webhook.backends.base import GangMember
from webhook.config.settings import CHOICE_BOUND, CHOICE_RULE_IDS, SHAPE_BOUND, Profile, Settings
from webhook.errors import FactsUnavailable
from webhook.model import grove
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.capabilities import capabilities_used
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.model.fields import LABELS, ROOT, SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Record
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.record import SCHEDULER_LABEL, record_in
from webhook.model.size import values_in
from webhook.model.stored_object import StoredObject
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.mutators.prepare_pod import foreign_claims, prepare_pod
from webhook.mutators.record import record_scheduler
from webhook.validators.registry import Context, Outcome, PodCreation, run, run_each, run_on_object
from webhook.validators.selection import (
    DEFAULT_SCHEDULER,
    Choice,
    Named,
    choose,
    label_choice,
    template_names,
)
from webhook.validators.wrong_types import Unreadable

_POD_CLIQUE_SET = (grove.GROUP, "PodCliqueSet")
_POD = ("", "Pod")
# A refused set with more values or more denials than this is not compared with the other schedulers: the comparison is
# only advice, and other requests wait.
_MOST_COMPARED = 10_000
_NOT_COMPARED = "the set is too large to say which other scheduler could run it; rollcall explain does"
_MOST_DENIALS = 50
_MANY_DENIALS = "the set has too many faults to say which other scheduler could run it; rollcall explain does"
# The profile of a pod and its member in a gang, or the reason why it has none.
_Gang = tuple[Profile, GangMember] | str | None
# For the rule about malformed objects, which reads only the object.
_NO_CONTEXT: Context[None] = Context(NOTHING_KNOWN, Choice("", ROOT), {}, None)


def validate(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Return whether the object may be stored. Raises `FactsUnavailable` if the workload of a pod could not be read."""
    try:
        if _passes(request) or (_leaving(request) and not _rewritten(request, settings)):
            return ALLOWED
        if request.kind[::2] == _POD_CLIQUE_SET:
            return _validate_workload(request, facts, settings)
        if request.kind[::2] == _POD and request.operation == "CREATE":
            return _validate_pod(request, Pod(_manifest(request), request.namespace), facts, settings)
        if owners.is_owner(request):
            return owners.validate_owner(request, facts, settings)
        try:
            return _validate_object(request, facts, settings)
        except Malformed:
            # An old object of a past schema counts as missing: it must not block its repair.
            return _validate_object(replace(request, old=None), facts, settings)
    except Malformed:
        return ALLOWED if _only_leaves(request) else malformed(request, settings)


def mutate(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Change the object for its scheduler. The verdict has the patch, which has already been applied to
    `request.object`.

    Never refuses: `validate` does that, on the result of the mutation. Raises `FactsUnavailable` if the workload of a
    pod could not be read.
    """
    try:
        # A manifest may set its own deletionTimestamp at CREATE. The API server drops it, but only after mutation. It
        # must not be a way to avoid the record.
        if _passes(request) or _leaving(request):
            return ALLOWED
        if request.kind[::2] == _POD_CLIQUE_SET:
            return _mutate_workload(request, facts, settings)
        if request.kind[::2] == _POD and request.operation == "CREATE":
            pod = Pod(_manifest(request), request.namespace)
            if pod.podgang is None and owners.is_owned(pod, settings):
                return owners.mutate_owned_pod(pod, facts, settings)
            return _mutate_pod(pod, facts, settings)
        if owners.is_owner(request):
            return owners.mutate_owner(request, facts, settings)
    except Malformed as error:
        return Verdict(notes=(f"left as it is: {error}",))
    return ALLOWED


def malformed(request: Request, settings: Settings) -> Verdict:
    """Return a finding for every field of the wrong type. In a cluster the API server refuses such an object by its
    schema.
    """
    # Group and kind come from the request, because the object may not have them.
    kind = request.kind[::2]
    found = Unreadable(kind, _manifest(request), settings.shape_of(kind))
    outcome = Outcome()
    for bound in SHAPE_BOUND:
        outcome.add(bound, bound.rule.check(found, _NO_CONTEXT))
    return Verdict(False, None, tuple(outcome.findings))


def _passes(request: Request) -> bool:
    """Return whether the request is not judged: deletions, connections and subresources."""
    return request.operation not in {"CREATE", "UPDATE"} or bool(request.subresource) or request.object is None


def _leaving(request: Request) -> bool:
    """Return whether the stored object is being deleted. A deletionTimestamp in the new object may be forged."""
    return mapping(mapping(request.old).get("metadata")).get("deletionTimestamp") is not None


def _only_leaves(request: Request) -> bool:
    """Return whether an unreadable object, such as one of a past schema, is being deleted and keeps its spec."""
    try:
        return _leaving(request) and _manifest(request).get("spec") == mapping(request.old).get("spec")
    except Malformed:
        return False


def _rewritten(request: Request, settings: Settings) -> bool:
    """Return whether an update changes fields of a gang object that a scheduler reads. A scheduler reads the object
    even while a finalizer delays its deletion. Removing a finalizer changes none of these fields and is always allowed.
    """
    return request.kind[::2] in settings.judging and _read_of(request.object) != _read_of(request.old)


def _read_of(manifest: Manifest | None) -> tuple[Any, ...]:
    found = mapping(manifest)
    metadata = mapping(found.get("metadata"))
    return found.get("spec"), metadata.get("labels"), metadata.get("annotations")


def _manifest(request: Request) -> Manifest:
    # Return the dict itself, even an empty one: the caller must see what mutation changes.
    return {} if request.object is None else request.object


# PodCliqueSet


def _validate_workload(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    workload = PodCliqueSet(_manifest(request), request.namespace)
    old = _readable(request.old, request.namespace)
    choice = choice_of(workload, old, facts, settings)
    if choice is None:
        # The set predates Rollcall: its pods are left as they are, so no rules apply.
        return ALLOWED
    outcome = _judge(workload, old, choice, facts, settings)
    findings = outcome.findings
    if old is not None and any(finding.action is Action.DENY for finding in findings):
        findings = _ratchet(findings, old, facts, settings)
    findings.sort(key=lambda finding: (-finding.action, not finding.fails_closed))
    allowed = not findings or findings[0].action is not Action.DENY
    verdict = Verdict(allowed, choice.scheduler, tuple(findings), tuple(outcome.unjudged))
    # Name other schedulers only for a new set whose choice is valid: the record of a stored set cannot simply change.
    if allowed or old is not None or any(found.rule in CHOICE_RULE_IDS for found in findings):
        return verdict
    if len(verdict.denials) > _MOST_DENIALS:
        return replace(verdict, notes=(_MANY_DENIALS,))
    if values_in(workload.raw, _MOST_COMPARED) == _MOST_COMPARED:
        return replace(verdict, notes=(_NOT_COMPARED,))
    return replace(verdict, could_run=could_run(workload, choice, facts, settings))


def _readable(old: Manifest | None, namespace: str) -> PodCliqueSet | None:
    """Return the old object, or None if there is none or its past schema cannot be read."""
    if old is None:
        return None
    try:
        found = PodCliqueSet(old, namespace)
        capabilities_used(found)
    except Malformed:
        return None
    return found


def _mutate_workload(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    workload = PodCliqueSet(_manifest(request), request.namespace)
    if request.operation == "CREATE":
        choice = choice_of(workload, None, facts, settings)
        if choice is None or choice.scheduler not in settings.profiles:
            return ALLOWED
        return Verdict(scheduler=choice.scheduler, patch=record_scheduler(workload, choice.scheduler))
    recorded = label_choice(mapping(mapping(request.old).get("metadata")).get("labels"))
    if recorded is None or label_choice(workload.labels) is not None:
        return ALLOWED
    # The new manifest lacks the record, so the record is copied from the old object.
    return Verdict(scheduler=recorded.scheduler, patch=record_scheduler(workload, recorded.scheduler))


def choice_of(
    workload: PodCliqueSet, old: PodCliqueSet | None, facts: ClusterFacts, settings: Settings
) -> Choice | None:
    """Return the scheduler that the workload is judged for, or None for a workload that predates Rollcall."""
    if settings.forced is not None:
        return Choice(settings.forced, LABELS / SCHEDULER_LABEL, settings.available)
    labelled = label_choice(workload.labels)
    if old is not None and labelled is None:
        labelled = label_choice(old.labels)
        if labelled is None and not settings.standalone:
            return None
    namespace = settings.scheduler_of_namespace(facts, workload.namespace)
    return choose(labelled, template_names(workload), namespace, settings.default, settings.available)


def _judge(
    workload: PodCliqueSet, old: PodCliqueSet | None, choice: Choice, facts: ClusterFacts, settings: Settings
) -> Outcome:
    """Run the rules about the choice, then, if the choice is valid, the rules of its backend."""
    first = run(CHOICE_BOUND, Context(facts, choice, {}, None, workload), (), old)
    profile = settings.profiles.get(choice.scheduler)
    if profile is None:
        return first
    then = judged_by(profile, workload, old, choice, facts, settings)
    return Outcome([*first.findings, *then.findings], [*first.unjudged, *then.unjudged])


def _ratchet(findings: list[Finding], old: PodCliqueSet, facts: ClusterFacts, settings: Settings) -> list[Finding]:
    """Turn findings that the old object had too into warnings: an update is not blamed for old faults.

    The old object is judged under its own record. Faults of the change itself (`forbidden`) stay denials.
    """
    # Without a record the old object was never judged, so its adoption excuses none of its faults.
    choice = choice_of(old, old, facts, settings)
    if choice is None:
        return findings
    try:
        before = _judge(old, None, choice, facts, settings)
    except Malformed:
        return findings
    return softened(findings, before.findings)


# Gang objects that other programs store, and pods that name such objects


def _validate_object(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Run the rules for this kind of object, unless the user is exempt. On UPDATE, a fault that the old object had
    becomes a warning.
    """
    profiles = settings.judging.get(request.kind[::2], ())
    if not profiles or _exempt(request, settings):
        return ALLOWED
    found = _stored(request, _manifest(request))
    if request.old is not None:
        found.old = _stored(request, request.old)
    findings: list[Finding] = []
    unjudged: list[Unjudged] = []
    for profile in profiles:
        rules = profile.rules[settings.ceiling(profile, facts, request.namespace)]
        choice = Choice(profile.name, ROOT, settings.available)
        context = gang_context(profile, facts, choice, {}, proceed=settings.proceed, namespace=request.namespace)
        outcome = run_on_object(rules, context, request.kind.group, found)
        if found.old is not None and any(one.action is Action.DENY for one in outcome.findings):
            before = run_on_object(rules, context, request.kind.group, found.old)
            findings += softened(outcome.findings, before.findings)
        else:
            findings += outcome.findings
        unjudged += outcome.unjudged
    return _with(Verdict(scheduler=profiles[0].name), findings, unjudged)


def _with(verdict: Verdict, findings: Iterable[Finding], unjudged: Iterable[Unjudged] = ()) -> Verdict:
    """Return `verdict` with more findings."""
    every = sorted((*verdict.findings, *findings), key=lambda finding: -finding.action)
    allowed = not any(finding.action is Action.DENY for finding in every)
    return replace(verdict, allowed=allowed, findings=tuple(every), unjudged=(*verdict.unjudged, *unjudged))


def _exempt(request: Request, settings: Settings) -> bool:
    """Return whether the user may write any gang object. Pods are always judged: the Job controller creates pods from
    Jobs that other users wrote.
    """
    return request.user in settings.exempt_users and request.kind[::2] != _POD


def _stored(request: Request, manifest: Manifest) -> StoredObject:
    return StoredObject(manifest, request.kind.kind, request.kind.version, request.namespace)


# Pod


def _validate_pod(request: Request, pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Return the verdict on the creation of a pod. A member of a gang is judged as a member. A pod that Grove did not
    create is also judged by the rules about pods that name a group: Grove's labels alone do not make it a member.
    """
    if pod.podgang is None:
        member = owners.validate_owned_pod(pod, facts, settings) if owners.is_owned(pod, settings) else None
        return _validate_object(request, facts, settings) if member is None else member
    found = _gang_of(pod, facts, settings)
    member = _validate_member(pod, found, facts, settings)
    if _is_groves(pod, found, request.user, settings):
        return member
    if request.user:
        member = _with_origin(member, pod, found, request.user, facts, settings)
    besides = _validate_object(request, facts, settings)
    named = replace(member, scheduler=member.scheduler or besides.scheduler)
    return _with(named, besides.findings, besides.unjudged)


def _is_groves(pod: Pod, found: _Gang, user: str, settings: Settings) -> bool:
    """Return whether Grove created a pod that has Grove's labels, judged by the user of the request. If the user is
    unknown, as for a file, the pod must name only the group that it was prepared for.
    """
    if user:
        return settings.tenancy.is_grove_operator(user)
    return isinstance(found, tuple) and not foreign_claims(pod, *found)


def _validate_member(pod: Pod, found: _Gang, facts: ClusterFacts, settings: Settings) -> Verdict:
    if not isinstance(found, tuple) or pod.scheduler_name != found[0].name:
        return ALLOWED
    return pod_verdict(pod, found[0], facts, settings)


def _with_origin(
    verdict: Verdict, pod: Pod, found: _Gang, user: str, facts: ClusterFacts, settings: Settings
) -> Verdict:
    """The verdict on a pod with what the rules say of its origin: `user`, who is not Grove's operator."""
    profile = found[0] if isinstance(found, tuple) else settings.profiles[settings.default]
    rules = profile.creation_rules[settings.ceiling(profile, facts, pod.namespace)]
    origin = run_each(
        rules, gang_context(profile, facts, Choice(profile.name, ROOT), {}), PodCreation(pod.template, user)
    ).findings
    return _with(replace(verdict, scheduler=profile.name), origin) if origin else verdict


def _mutate_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    found = _gang_of(pod, facts, settings)
    if not isinstance(found, tuple):
        return ALLOWED if found is None else Verdict(notes=(found,))
    profile, member = found
    prepared = prepare_pod(pod, profile, member)
    if prepared.claim is not None:
        note = f"pod left as it is: {prepared.claim.path} says that {prepared.claim.owner} has claimed it"
        return Verdict(scheduler=profile.name, notes=(note,))
    return Verdict(scheduler=profile.name, patch=prepared.operations)


def _gang_of(pod: Pod, facts: ClusterFacts, settings: Settings) -> _Gang:
    """Return the profile that a gang's pod is prepared for and its member in the gang. Return None for a pod that is
    left as it is without a note, or the note for its author.
    """
    podgang, podclique = pod.podgang, pod.podclique
    if podgang is None or podclique is None:
        return None
    if (label := pod.long_label) is not None:
        return owners.left_for_its_label(label)
    record = _record(pod, facts, settings)
    if record is None:
        return f"pod left as it is: its PodCliqueSet {pod.namespace}/{pod.workload} was not found"
    if record.scheduler is None:
        return None
    profile = settings.profiles.get(record.scheduler)
    if profile is None:
        return f"pod left as it is: no profile {record.scheduler} is enabled here"
    return profile, profile.member(pod.namespace, podgang, podclique, record, facts)


def _record(pod: Pod, facts: ClusterFacts, settings: Settings) -> Record | None:
    """Return the record of the pod's workload, or None if there is no such workload. Raises `FactsUnavailable`."""
    known = facts.pod_clique_sets
    if known is None and not settings.standalone:
        raise FactsUnavailable(f"the PodCliqueSet {pod.namespace}/{pod.workload} of the pod could not be read")
    record = None if known is None else known.get((pod.namespace, pod.workload or ""))
    if settings.forced is not None:
        return replace(record or _own_record(pod), scheduler=settings.forced)
    if not settings.standalone or (record is not None and record.scheduler is not None):
        return record
    name = pod.scheduler_name
    named = () if name is None or name == DEFAULT_SCHEDULER else (Named(name, SPEC / "schedulerName"),)
    namespace = settings.scheduler_of_namespace(facts, pod.namespace)
    choice = choose(None, named, namespace, settings.default, settings.available)
    return replace(record or _own_record(pod), scheduler=choice.scheduler)


def _own_record(pod: Pod) -> Record:
    """Return the record from the pod's own metadata, when its workload is unknown."""
    metadata = mapping(pod.raw.get("metadata"))
    return record_in(metadata, None)
