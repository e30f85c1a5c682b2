"""The decision about workloads that are not Grove's and about their pods, pure; `webhook.admission` calls it.

Opted in is what bears the label `rollcall.dev/scheduler`, or is created in a namespace that does. At CREATE the choice
is recorded on the workload and, where the kind has pod templates, in these: so that a selector on pods suffices, and no
pod of the cluster at large ever comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from webhook.backends.base import GangMember
from webhook.errors import FactsUnavailable
from webhook.judging import gang_context
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.capabilities import capabilities_of_pod
from webhook.model.facts import ClusterFacts, Record
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.owners.facts import VIEWS, Owner
from webhook.model.owners.job import Job
from webhook.model.owners.jobset import JobSet
from webhook.model.owners.kinds import JOB_SETS, is_a
from webhook.model.owners.place import Place, membership, place_of
from webhook.model.owners.trainjob import MadeJobSet, TrainJob, runtime_of, train_job_of
from webhook.model.owners.workload import OwnedWorkload
from webhook.model.pod import Pod
from webhook.model.reading import Malformed, Manifest, text
from webhook.model.record import SCHEDULER_LABEL
from webhook.mutators.json_patch import PatchBuilder
from webhook.mutators.prepare_pod import foreign_claims, prepare_pod
from webhook.settings import CHOICE_BOUND, Profile, Settings
from webhook.validators.registry import BoundRule, Context, Outcome, run, run_on_owner
from webhook.validators.selection import Choice, namespace_choice


def is_owner(request: Request) -> bool:
    """Whether it is about a workload that is not Grove's."""
    return request.kind[::2] in VIEWS


def is_owned(pod: Pod, settings: Settings) -> bool:
    """Whether it is to be asked whether it is a pod of such a workload: one without the label is nobody's business."""
    return SCHEDULER_LABEL in pod.template.labels or settings.forced is not None


def view_of(request: Request, manifest: Manifest) -> OwnedWorkload:
    """The view of such a workload. Raises `Malformed`."""
    return VIEWS[request.kind[::2]](manifest, request.namespace)


# The workload


def mutate_owner(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Record the scheduler, at CREATE and again where an update leaves the record out. Raises `Malformed`."""
    workload = view_of(request, request.object or {})
    if _is_part(workload):
        return ALLOWED
    if request.operation == "CREATE":
        choice = choice_of(workload, None, facts, settings)
        scheduler = None if choice is None else choice.scheduler
    else:
        scheduler = None if request.old is None else view_of(request, request.old).scheduler
        if workload.scheduler is not None and workload.scheduler != scheduler:
            # A changed record is refused, not repaired.
            return ALLOWED
    if scheduler is None or scheduler not in settings.profiles:
        return ALLOWED
    # Read before anything is written: one that cannot be read is left whole.
    unlabelled = _unlabelled(request)
    places = dict.fromkeys(part.place for part in workload.parts if part.place not in unlabelled)
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    for place in places:
        patch.set((*_keys(place), "metadata", "labels"), SCHEDULER_LABEL, scheduler)
    return Verdict(scheduler=scheduler, patch=tuple(patch.operations))


def _unlabelled(request: Request) -> frozenset[FieldPath]:
    """The pod templates that were there before, without the label: they stay so. Of a Job they are immutable, and every
    update would be refused; of a LeaderWorkerSet a change would replace its pods.
    """
    if request.old is None:
        return frozenset()
    parts = view_of(request, request.old).parts
    return frozenset(part.place for part in parts if SCHEDULER_LABEL not in part.template.labels)


def _keys(path: FieldPath) -> tuple[str | int, ...]:
    return tuple(part.index if isinstance(part, Item) else part for part in path.parts)


def _is_part(workload: OwnedWorkload) -> bool:
    """Whether it is a Job of a JobSet's, which says everything."""
    controller = workload.controller
    return isinstance(workload, Job) and controller is not None and is_a(controller, JOB_SETS)


def choice_of(
    workload: OwnedWorkload, old: OwnedWorkload | None, facts: ClusterFacts, settings: Settings
) -> Choice | None:
    """The scheduler that a workload is for; None for one that is not opted in, or is older than what opts it in."""
    available = settings.available
    if settings.forced is not None:
        return Choice(settings.forced, LABELS / SCHEDULER_LABEL, available)
    if workload.scheduler is not None:
        return Choice(workload.scheduler, LABELS / SCHEDULER_LABEL, available)
    if old is not None:
        return None if old.scheduler is None else Choice(old.scheduler, LABELS / SCHEDULER_LABEL, available)
    made_by = train_job_of(workload) if isinstance(workload, JobSet) else None
    if made_by is not None and (known := (facts.train_jobs or {}).get(made_by)) is not None:
        recorded = known.record.scheduler
        return None if recorded is None else Choice(recorded, METADATA / "ownerReferences", available)
    named = namespace_choice(facts, workload.namespace)
    return None if named is None else Choice(named, METADATA / "namespace", available)


def validate_owner(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """What the rules say of it. Raises `Malformed`."""
    workload = view_of(request, request.object or {})
    if _is_part(workload):
        return ALLOWED
    old = None if request.old is None else _readable(request)
    choice = choice_of(workload, old, facts, settings)
    if choice is None:
        return ALLOWED
    outcome = _judge(workload, old, choice, facts, settings)
    findings = outcome.findings
    if old is not None and any(one.action is Action.DENY for one in findings):
        known = _faults_of(old, facts, settings)
        findings = [_softer(one) if _was_there(one, known) else one for one in findings]
    findings.sort(key=lambda one: (-one.action, not one.fails_closed))
    allowed = not any(one.action is Action.DENY for one in findings)
    return Verdict(allowed, choice.scheduler, tuple(findings), tuple(outcome.unjudged))


def _readable(request: Request) -> OwnedWorkload | None:
    try:
        old = view_of(request, request.old or {})
        _ = old.parts
    except Malformed:
        return None
    return old


def _faults_of(old: OwnedWorkload, facts: ClusterFacts, settings: Settings) -> set[tuple[str, str, str]]:
    choice = choice_of(old, old, facts, settings)
    if choice is None:
        return set()
    try:
        return {one.identity for one in _judge(old, None, choice, facts, settings).findings}
    except Malformed:
        return set()


def _was_there(found: Finding, before: set[tuple[str, str, str]]) -> bool:
    return found.action is Action.DENY and not found.forbidden and found.identity in before


def _softer(found: Finding) -> Finding:
    return replace(found, action=Action.WARN)


def _judge(
    workload: OwnedWorkload, old: OwnedWorkload | None, choice: Choice, facts: ClusterFacts, settings: Settings
) -> Outcome:
    outcome = run_on_owner(CHOICE_BOUND, Context(facts, choice, {}, None), workload, old)
    profile = settings.profiles.get(choice.scheduler)
    if profile is None:
        return outcome
    then = judged_by(profile, workload, old, choice, facts, settings)
    return Outcome([*outcome.findings, *then.findings], [*outcome.unjudged, *then.unjudged])


def judged_by(
    profile: Profile,
    workload: OwnedWorkload,
    old: OwnedWorkload | None,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
) -> Outcome:
    """What the rules of one profile say of a workload, and of a TrainJob those about the JobSet that is made of it."""
    rules = profile.rules[settings.ceiling(profile, facts, workload.namespace)]
    context = replace(gang_context(profile, facts, choice, {}), namespace=workload.namespace)
    found = run_on_owner(rules, context, workload, old)
    if not isinstance(workload, TrainJob):
        return _with_pods(rules, profile, workload, context, found)
    if (runtime := runtime_of(workload, facts)) is None:
        return found
    made = workload.job_set(runtime)
    try:
        then = _with_pods(rules, profile, made, context, run_on_owner(rules, context, made))
    except Malformed as error:
        # In a cluster no such runtime is stored, and the fault is none of the TrainJob's.
        found.unjudged.append(Unjudged(workload.runtime_path, f"what {runtime.name} says ({error})", "owner/runtime"))
        return found
    found.findings.extend(_at_train_job(one, made) for one in then.findings)
    found.unjudged.extend(replace(one, at=made.in_train_job(one.at)) for one in then.unjudged)
    return found


def _with_pods(
    rules: Sequence[BoundRule], profile: Profile, workload: OwnedWorkload, context: Context[Any], outcome: Outcome
) -> Outcome:
    """`outcome`, and what the rules about pods say of the templates, each once."""
    for template in {part.place: part.template for part in workload.parts}.values():
        uses = capabilities_of_pod(template)
        for capability in profile.backend.implied:
            uses.setdefault(capability, [])
        found = run(rules, replace(context, uses=uses), (template,))
        outcome.findings.extend(found.findings)
        outcome.unjudged.extend(found.unjudged)
    return outcome


def _at_train_job(found: Finding, made: MadeJobSet) -> Finding:
    """A finding about the JobSet of a TrainJob, at the field of the TrainJob that brought it: a patch of its own, or
    the name of its runtime.
    """
    at = made.in_train_job(found.at)
    why = found.why if at != made.train_job.runtime_path else f"{made.where(found.at)}: {found.why}"
    return replace(found, at=at, why=why)


# Its pods


def mutate_owned_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Prepare a pod of such a workload. Raises `FactsUnavailable`, and `Malformed`."""
    found = _prepared_for(pod, facts, settings)
    if not isinstance(found, tuple):
        return ALLOWED if found is None else Verdict(notes=(found,))
    profile, member, owner = found
    claims = foreign_claims(pod, profile, member)
    for claim in claims:
        if claim.owner not in profile.backend.reads_claims_of:
            note = f"pod left as it is: {claim.path} says that {claim.owner} has claimed it"
            return Verdict(scheduler=profile.name, notes=(note,))
    if claims:
        # Whoever made the gang has said to which group the pod belongs, and mostly not who is to schedule it.
        return Verdict(scheduler=profile.name, patch=_only_scheduler(pod, profile))
    if profile.backend.makes_gangs_of_owners and owner.no_gang is not None:
        return Verdict(scheduler=profile.name, notes=(f"pod left as it is: {owner.no_gang}",))
    return Verdict(scheduler=profile.name, patch=prepare_pod(pod, profile, member).operations)


def _only_scheduler(pod: Pod, profile: Profile) -> tuple[dict[str, object], ...]:
    patch = PatchBuilder(pod.raw)
    patch.set(("spec",), "schedulerName", profile.name)
    return tuple(patch.operations)


def validate_owned_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict | None:
    """What the rules about pods say of a prepared pod; None for one that is in no gang of ours, and may be in somebody
    else's. Raises `FactsUnavailable`, and `Malformed`.
    """
    found = _prepared_for(pod, facts, settings)
    if not isinstance(found, tuple):
        return None
    profile, member, _ = found
    if pod.scheduler_name != profile.name or foreign_claims(pod, profile, member):
        return None
    choice = Choice(profile.name, SPEC / "schedulerName", settings.available)
    context = replace(gang_context(profile, facts, choice, capabilities_of_pod(pod.template)), namespace=pod.namespace)
    outcome = run(profile.rules[settings.ceiling(profile, facts, pod.namespace)], context, (pod.template,))
    outcome.findings.sort(key=lambda one: -one.action)
    allowed = not any(one.action is Action.DENY for one in outcome.findings)
    return Verdict(allowed, profile.name, tuple(outcome.findings), tuple(outcome.unjudged))


def _prepared_for(pod: Pod, facts: ClusterFacts, settings: Settings) -> tuple[Profile, GangMember, Owner] | str | None:
    """The profile of a pod, its place in its gang, and its workload; None for a pod that is left alone in silence, a
    sentence for one whose author should know why.
    """
    named = text(pod.template.labels.get(SCHEDULER_LABEL))
    if named is None and settings.forced is None:
        return None
    place = place_of(pod)
    if place is None:
        return None if named is None else "pod left as it is: it is of no TrainJob, JobSet, LeaderWorkerSet or Job"
    owner = _owner(place, facts, settings)
    if owner is None:
        return f"pod left as it is: its {place.owner} was not found"
    scheduler = settings.forced or owner.record.scheduler
    if scheduler is None:
        return f"pod left as it is: its {place.owner} records no scheduler"
    profile = settings.profiles.get(scheduler)
    if profile is None:
        return f"pod left as it is: no profile {scheduler} is enabled here"
    gang = membership(place, sequenced=owner.sequenced)
    record = replace(_with_train_job(owner, facts), scheduler=scheduler)
    return profile, profile.member(pod.namespace, gang.gang, gang.member, record, facts, owned=True), owner


def _owner(place: Place, facts: ClusterFacts, settings: Settings) -> Owner | None:
    known = getattr(facts, place.owner.part)
    if known is None:
        if settings.standalone:
            return None
        raise FactsUnavailable(f"the {place.owner} of the pod could not be read")
    found: Owner | None = known.get(place.owner.key)
    return found


def _with_train_job(owner: Owner, facts: ClusterFacts) -> Record:
    """The record of a workload, and where it names none the queues and the quota of the TrainJob that made it: as KAI
    merges their labels.
    """
    made_by = None if owner.train_job is None else (facts.train_jobs or {}).get(owner.train_job)
    if made_by is None:
        return owner.record
    queues = tuple(sorted({**dict(made_by.record.queues), **dict(owner.record.queues)}.items()))
    return replace(owner.record, queues=queues, quota=owner.record.quota or made_by.record.quota)
