"""The decision about workloads that are not Grove's and about their pods, pure; `webhook.admission` calls it.

Opted in is what bears the label `rollcall.dev/scheduler`, or is created in a namespace that does. At CREATE the choice
is recorded on the workload and, where the kind has pod templates, in these: so that a selector on pods suffices, and no
pod of the cluster at large ever comes here.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends.base import GangMember
from webhook.errors import FactsUnavailable
from webhook.judging import gang_context
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.capabilities import capabilities_of_pod
from webhook.model.claims import claims_on
from webhook.model.facts import ClusterFacts, Record
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.owners.facts import VIEWS, Owner
from webhook.model.owners.jobset import JobSet
from webhook.model.owners.kinds import JOB_SETS
from webhook.model.owners.place import Place, membership, place_of
from webhook.model.owners.trainjob import Runtime, TrainJob, train_job_of
from webhook.model.owners.workload import OwnedWorkload
from webhook.model.pod import Pod
from webhook.model.reading import Malformed, Manifest, text
from webhook.model.record import SCHEDULER_LABEL
from webhook.mutators.json_patch import PatchBuilder
from webhook.mutators.prepare_pod import prepare_pod
from webhook.settings import CHOICE_BOUND, Profile, Settings
from webhook.validators.registry import Context, Outcome, run, run_on_owner
from webhook.validators.selection import DEFAULT_SCHEDULER, Choice, namespace_choice


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
    if is_part(workload):
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
    places = [part.place for part in workload.parts]
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    for place in dict.fromkeys(places):
        patch.set((*_keys(place), "metadata", "labels"), SCHEDULER_LABEL, scheduler)
    return Verdict(scheduler=scheduler, patch=tuple(patch.operations))


def _keys(path: FieldPath) -> tuple[str | int, ...]:
    return tuple(part.index if isinstance(part, Item) else part for part in path.parts)


def is_part(workload: OwnedWorkload) -> bool:
    """Whether it is a Job of a JobSet's, which says everything."""
    controller = workload.controller
    return controller is not None and controller.kind == JOB_SETS.api.kind


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
    if is_part(workload):
        return ALLOWED
    old = None if request.old is None else _readable(request)
    choice = choice_of(workload, old, facts, settings)
    if choice is None:
        return ALLOWED
    outcome = _judge(workload, old, choice, facts, settings)
    findings = outcome.findings
    if old is not None and any(one.action is Action.DENY for one in findings):
        before = choice_of(old, old, facts, settings)
        if before is not None:
            known = {one.identity for one in _judge(old, None, before, facts, settings).findings}
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
    """What the rules of one profile say of a workload, as it enforces them in its namespace."""
    return judged_at(settings.ceiling(profile, facts, workload.namespace), profile, workload, old, choice, facts)


def judged_at(
    ceiling: Action,
    profile: Profile,
    workload: OwnedWorkload,
    old: OwnedWorkload | None,
    choice: Choice,
    facts: ClusterFacts,
) -> Outcome:
    """What the rules of one profile say of a workload, and of a TrainJob those about the JobSet that is made of it;
    `ceiling` is the most that any of them may do.
    """
    rules = profile.rules[ceiling]
    context = replace(gang_context(profile, facts, choice, {}), namespace=workload.namespace)
    found = run_on_owner(rules, context, workload, old)
    if isinstance(workload, TrainJob):
        runtime = runtime_of(workload, facts)
        if runtime is not None:
            made = workload.job_set(runtime)
            then = _of_pods(profile, made, context, run_on_owner(rules, context, made))
            found.findings.extend(_at_runtime(one, workload, runtime) for one in then.findings)
            found.unjudged.extend(replace(one, at=workload.runtime_path) for one in then.unjudged)
        return found
    return _of_pods(profile, workload, context, found)


def runtime_of(workload: TrainJob, facts: ClusterFacts) -> Runtime | None:
    """The runtime of a TrainJob, where it is known. Trainer refuses one that is not there."""
    needed = workload.runtime
    raw = (getattr(facts, needed.part) or {}).get(needed.key)
    return None if raw is None else Runtime(raw)


def _of_pods(profile: Profile, workload: OwnedWorkload, context: Context[object], outcome: Outcome) -> Outcome:
    """`outcome`, and what the rules about pods say of the templates."""
    rules = profile.rules[Action.DENY]
    for template in dict.fromkeys(workload.templates):
        own = replace(context, uses=capabilities_of_pod(template))
        found = run(rules, own, (template,))
        outcome.findings.extend(found.findings)
        outcome.unjudged.extend(found.unjudged)
    return outcome


def _at_runtime(found: Finding, workload: TrainJob, runtime: Runtime) -> Finding:
    """A finding about the JobSet of a TrainJob, at the field that brought it: the name of the runtime."""
    where = str(found.at)
    place = f"spec.template.{where}" if where.startswith("spec.") else f"spec.template.{where or 'metadata'}"
    why = f"its {workload.runtime_kind} {runtime.name} has at {place} what it must not: {found.why}"
    return replace(found, at=workload.runtime_path, why=why)


# Its pods


def mutate_owned_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Prepare a pod of such a workload. Raises `FactsUnavailable`, and `Malformed`."""
    found = _prepared_for(pod, facts, settings)
    if not isinstance(found, tuple):
        return ALLOWED if found is None else Verdict(notes=(found,))
    profile, member, owner = found
    for claim in claims_on(pod.template):
        if claim.owner not in profile.backend.reads_claims_of:
            note = f"pod left as it is: {claim.path} says that {claim.owner} has claimed it"
            return Verdict(scheduler=profile.name, notes=(note,))
        # Whoever made the gang has said to which group the pod belongs, and mostly not who is to schedule it.
        return Verdict(scheduler=profile.name, patch=_only_scheduler(pod, profile))
    if profile.backend.makes_gangs_of_owners and owner.no_gang is not None:
        return Verdict(scheduler=profile.name, notes=(f"pod left as it is: {owner.no_gang}",))
    return Verdict(scheduler=profile.name, patch=prepare_pod(pod, profile, member).operations)


def _only_scheduler(pod: Pod, profile: Profile) -> tuple[dict[str, object], ...]:
    if pod.scheduler_name not in {None, DEFAULT_SCHEDULER}:
        return ()
    patch = PatchBuilder(pod.raw)
    patch.set(("spec",), "schedulerName", profile.name)
    return tuple(patch.operations)


def validate_owned_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """What the rules about pods say of a prepared pod. Raises `FactsUnavailable`, and `Malformed`."""
    found = _prepared_for(pod, facts, settings)
    if not isinstance(found, tuple) or pod.scheduler_name != found[0].name:
        return ALLOWED
    profile = found[0]
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
    record = replace(record_of(owner, facts), scheduler=scheduler)
    return profile, profile.member(pod.namespace, gang.gang, gang.member, record, facts, owned=True), owner


def _owner(place: Place, facts: ClusterFacts, settings: Settings) -> Owner | None:
    known = getattr(facts, place.owner.part)
    if known is None:
        if settings.standalone:
            return None
        raise FactsUnavailable(f"the {place.owner} of the pod could not be read")
    found: Owner | None = known.get(place.owner.key)
    return found


def record_of(owner: Owner, facts: ClusterFacts) -> Record:
    """The record of a workload, and the queues of the TrainJob that made it where it names none: as KAI merges them."""
    made_by = None if owner.train_job is None else (facts.train_jobs or {}).get(owner.train_job)
    if made_by is None:
        return owner.record
    return replace(
        owner.record, queues=tuple(sorted({**dict(made_by.record.queues), **dict(owner.record.queues)}.items()))
    )
