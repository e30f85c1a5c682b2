"""Decide about workloads that are not Grove's and about their pods, without I/O. `webhook.admission.decision` calls
this.

A workload is opted in if it has the label `rollcall.dev/scheduler` or is created in a namespace that has it. At CREATE
the choice is recorded on the workload and in its pod templates, if its kind has them. The webhook can then select pods
by label, and no other pods of the cluster are sent to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from webhook.admission.opinion import gang_context, pod_verdict, softened
from webhook.backends.base import GangMember
from webhook.config.settings import CHOICE_BOUND, Profile, Settings
from webhook.errors import FactsUnavailable
from webhook.model.admission_request import ALLOWED, Operation, Request, Verdict
from webhook.model.capabilities import SUPPORTED, Support, capabilities_of_pod, unsupported
from webhook.model.claims import claims_on
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Record
from webhook.model.naming import NAME_LIMIT
from webhook.model.reading import Malformed, Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.applied_pods import runtime_of
from webhook.model.workloads.facts import VIEWS, Owner
from webhook.model.workloads.job import Job
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.kinds import JOB_SETS, is_a
from webhook.model.workloads.place import Place, membership, place_of
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.trainjob import MadeJobSet, TrainJob, train_job_of
from webhook.model.workloads.workload import OwnedWorkload
from webhook.mutators.json_patch import PatchBuilder
from webhook.mutators.prepare_pod import foreign_claims, prepare_pod
from webhook.validators.registry import BoundRule, Context, Outcome, Proceed, go_on, run, run_each, run_on_owner
from webhook.validators.selection import DEFAULT_SCHEDULER, Choice, namespace_choice

_TOLD_OF_KEY = 80
# The same text for every such workload, so that it is reported once.
NOT_OPTED_IN = (
    f"not opted in: neither it nor its namespace bears the label {SCHEDULER_LABEL}, so it and its pods are left as "
    "they are; --scheduler NAME judges it as if it did"
)


def is_owner(request: Request) -> bool:
    """Return whether the request is about a workload that is not Grove's."""
    return request.kind[::2] in VIEWS


def is_owned(pod: Pod, settings: Settings) -> bool:
    """Return whether the pod is opted in, or may be. In a cluster, a pod without the label is never opted in."""
    return SCHEDULER_LABEL in pod.template.labels or (settings.standalone and place_of(pod) is not None)


def view_of(request: Request, manifest: Manifest) -> OwnedWorkload:
    """Return the view of such a workload, after checking that every field can be read. Raises `Malformed`."""
    workload = VIEWS[request.kind[::2]](manifest, request.namespace)
    workload.read()
    return workload


# The workload


def mutate_owner(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Record the scheduler at CREATE, and on an update that drops the record. Raises `Malformed`."""
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
    return Verdict(scheduler=scheduler, patch=record_choice(workload, scheduler, _unlabelled(request)))


def record_choice(
    workload: OwnedWorkload, scheduler: str, unlabelled: frozenset[FieldPath] = frozenset()
) -> tuple[Operation, ...]:
    """Return the patch that records the scheduler on a workload and in its pod templates, except those in `unlabelled`.
    Changes the dict of the workload in place.
    """
    # All parts are read before the first write, so a workload that cannot be read is not changed in part.
    places = dict.fromkeys(part.place for part in workload.parts if part.place not in unlabelled)
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    for place in places:
        patch.set((*_keys(place), "metadata", "labels"), SCHEDULER_LABEL, scheduler)
    return tuple(patch.operations)


def _unlabelled(request: Request) -> frozenset[FieldPath]:
    """Return the old pod templates without the label, which stay without it. Templates of a Job are immutable, so every
    update would be refused. A changed template of a LeaderWorkerSet would replace its pods.
    """
    if request.old is None:
        return frozenset()
    parts = view_of(request, request.old).parts
    return frozenset(part.place for part in parts if SCHEDULER_LABEL not in part.template.labels)


def _keys(path: FieldPath) -> tuple[str | int, ...]:
    return tuple(part.index if isinstance(part, Item) else part for part in path.parts)


def is_part(workload: OwnedWorkload) -> bool:
    """Return whether the workload is a Job of a JobSet. A rule checks whether that JobSet exists."""
    controller = workload.controller
    return isinstance(workload, Job) and controller is not None and is_a(controller, JOB_SETS)


def choice_of(
    workload: OwnedWorkload, old: OwnedWorkload | None, facts: ClusterFacts, settings: Settings
) -> Choice | None:
    """Return the scheduler of a workload, or None if it is not opted in or predates what opts it in."""
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
    """Run the rules on the workload. Raises `Malformed`."""
    workload = view_of(request, request.object or {})
    old = None if request.old is None else _readable(request)
    choice = choice_of(workload, old, facts, settings)
    if choice is None:
        # In a cluster this means that the workload predates what opts it in. A workload that names its gang itself
        # needs no advice.
        advised = settings.standalone and not (
            is_part(workload) or any(any(claims_on(template)) for template in workload.templates)
        )
        return Verdict(notes=(NOT_OPTED_IN,)) if advised else ALLOWED
    outcome = _judge(workload, old, choice, facts, settings)
    findings = outcome.findings
    if old is not None and any(one.action is Action.DENY for one in findings):
        findings = softened(findings, _faults_of(old, facts, settings))
    findings.sort(key=lambda one: (-one.action, not one.fails_closed))
    allowed = not any(one.action is Action.DENY for one in findings)
    return Verdict(allowed, choice.scheduler, tuple(findings), tuple(outcome.unjudged))


def _readable(request: Request) -> OwnedWorkload | None:
    try:
        return view_of(request, request.old or {})
    except Malformed:
        return None


def _faults_of(old: OwnedWorkload, facts: ClusterFacts, settings: Settings) -> list[Finding]:
    choice = choice_of(old, old, facts, settings)
    if choice is None:
        return []
    try:
        found = _judge(old, None, choice, facts, settings).findings
        if is_part(old) and not found:
            # A fault of a part was reported for its JobSet. If the JobSet is deleted but its Jobs are kept, the garbage
            # collector's update makes the Job a workload of its own.
            return _judge_whole(old, None, choice, facts, settings).findings
    except Malformed:
        return []
    return found


def _judge(
    workload: OwnedWorkload, old: OwnedWorkload | None, choice: Choice, facts: ClusterFacts, settings: Settings
) -> Outcome:
    if is_part(workload):
        return _judge_part(workload, choice, facts, settings)
    return _judge_whole(workload, old, choice, facts, settings)


def _judge_whole(
    workload: OwnedWorkload, old: OwnedWorkload | None, choice: Choice, facts: ClusterFacts, settings: Settings
) -> Outcome:
    outcome = run_on_owner(CHOICE_BOUND, Context(facts, choice, {}, None), workload, old)
    profile = settings.profiles.get(choice.scheduler)
    if profile is None:
        return outcome
    then = judged_by(profile, workload, old, choice, facts, settings)
    return Outcome([*outcome.findings, *then.findings], [*outcome.unjudged, *then.unjudged])


def _judge_part(part: OwnedWorkload, choice: Choice, facts: ClusterFacts, settings: Settings) -> Outcome:
    # The scheduler of a part is a matter of its JobSet. Every profile checks which JobSet the part belongs to.
    profile = settings.profiles.get(choice.scheduler, settings.profiles[settings.default])
    rules = profile.part_rules[settings.ceiling(profile, facts, part.namespace)]
    return run_each(rules, gang_context(profile, facts, choice, {}), part)


def judged_by(
    profile: Profile,
    workload: OwnedWorkload,
    old: OwnedWorkload | None,
    choice: Choice,
    facts: ClusterFacts,
    settings: Settings,
) -> Outcome:
    """Run the rules of one profile on a workload, as the profile enforces them in its namespace."""
    ceiling = settings.ceiling(profile, facts, workload.namespace)
    return judged_at(ceiling, profile, workload, old, choice, facts, settings.proceed)


def judged_at(  # noqa: PLR0913, PLR0917 - what is judged, by whom, how strictly and for how long
    ceiling: Action,
    profile: Profile,
    workload: OwnedWorkload,
    old: OwnedWorkload | None,
    choice: Choice,
    facts: ClusterFacts,
    proceed: Proceed = go_on,
) -> Outcome:
    """Run the rules of one profile on a workload and, for a TrainJob, on the JobSet that is made of it. `ceiling` is
    the strictest action that a rule may take.
    """
    rules = profile.rules[ceiling]
    context = gang_context(profile, facts, choice, {}, proceed=proceed, namespace=workload.namespace)
    found = run_on_owner(rules, context, workload, old)
    if not isinstance(workload, TrainJob):
        return _with_pods(rules, profile, workload, context, found)
    if (made := made_of(workload, facts)) is None:
        return found
    try:
        then = _with_pods(rules, profile, made, context, run_on_owner(rules, context, made))
    except Malformed as error:
        # In a cluster no such runtime is stored, and the TrainJob is not at fault.
        found.unjudged.append(
            Unjudged(workload.runtime_path, f"what {made.runtime.name} says ({error})", "owner/runtime")
        )
        return found
    found.findings.extend(_at_train_job(one, made) for one in then.findings)
    found.unjudged.extend(replace(one, at=made.in_train_job(one.at)) for one in then.unjudged)
    return found


def made_of(workload: TrainJob, facts: ClusterFacts) -> MadeJobSet | None:
    """Return the JobSet that is made of a TrainJob and its runtime. Return None if the runtime is unknown or cannot be
    read; the rule about runtimes reports that.
    """
    try:
        runtime = runtime_of(workload, facts)
        if runtime is None:
            return None
        job_set = workload.job_set(runtime)
        _ = job_set.parts
    except Malformed:
        return None
    return job_set


def gang_support(workload: OwnedWorkload, profile: Profile) -> Support:
    """Return whether the pods of a workload start together under the scheduler of `profile`, by any gang."""
    backend = profile.backend
    train_job = isinstance(workload, JobSet) and train_job_of(workload) is not None
    for template in workload.templates:
        for claim in claims_on(template):
            if claim.owner in backend.reads_claims_of:
                return SUPPORTED
            # For a TrainJob the mark is in no file: a plugin of Trainer adds it.
            where = "its runtime" if train_job else claim.path
            why = f"{where} says that {claim.owner} has claimed its pods, and {profile.name} does not read that"
            return unsupported(why, "choose the scheduler that reads it, or have it removed")
    if not (backend.groups_owners or backend.makes_gangs_of_owners):
        why = f"nobody makes gangs for {profile.name} of pods that are not Grove's: they start one by one"
        return unsupported(why, "choose another scheduler")
    if workload.native_path is not None and "the Workload API" not in backend.reads_claims_of:
        why = f"{workload.native_path} asks for a gang of the Workload API, which {profile.name} does not read"
        return unsupported(why, "remove it, or choose another scheduler")
    return SUPPORTED


def _with_pods(
    rules: Sequence[BoundRule], profile: Profile, workload: OwnedWorkload, context: Context[Any], outcome: Outcome
) -> Outcome:
    """Add to `outcome` what the rules about pods find in each distinct pod template."""
    for part in workload.distinct_parts:
        uses = capabilities_of_pod(part.template)
        for capability in profile.backend.implied:
            uses.setdefault(capability, [])
        found = run(rules, replace(context, uses=uses), (part.template,))
        outcome.findings.extend(found.findings)
        outcome.unjudged.extend(found.unjudged)
    return outcome


def _at_train_job(found: Finding, made: MadeJobSet) -> Finding:
    """Return a finding about the JobSet of a TrainJob, at the field of the TrainJob that caused it: one of its patches,
    or the name of its runtime.
    """
    at = made.in_train_job(found.at)
    why = found.why if at != made.train_job.runtime_path else f"{made.where(found.at)}: {found.why}"
    return replace(found, at=at, why=why)


# Its pods


def mutate_owned_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Prepare a pod of such a workload. Raises `FactsUnavailable` and `Malformed`."""
    found = _prepared_for(pod, facts, settings)
    if not isinstance(found, tuple):
        return Verdict(notes=(found,))
    profile, member, owner = found
    barred = profile.backend.makes_gangs_of_owners and owner.no_gang is not None
    # If Rollcall makes no gang, the pod cannot be in a gang of Rollcall, even if the group has that name.
    claims = list(claims_on(pod.template)) if barred else foreign_claims(pod, profile, member)
    for claim in claims:
        if claim.owner not in profile.backend.reads_claims_of:
            note = f"pod left as it is: {claim.path} says that {claim.owner} has claimed it"
            return Verdict(scheduler=profile.name, notes=(note,))
    if claims:
        # The program that made the gang has set the pod's group, but mostly not its scheduler.
        return Verdict(scheduler=profile.name, patch=_only_scheduler(pod, profile))
    if barred:
        return Verdict(scheduler=profile.name, notes=(f"pod left as it is: {owner.no_gang}",))
    prepared = prepare_pod(pod, profile, member)
    if prepared.claim is not None:
        note = f"pod left as it is: {prepared.claim.path} says that {prepared.claim.owner} has claimed it"
        return Verdict(scheduler=profile.name, notes=(note,))
    return Verdict(scheduler=profile.name, patch=prepared.operations)


def _only_scheduler(pod: Pod, profile: Profile) -> tuple[Operation, ...]:
    if pod.scheduler_name not in {None, DEFAULT_SCHEDULER}:
        return ()
    patch = PatchBuilder(pod.raw)
    patch.set(("spec",), "schedulerName", profile.name)
    return tuple(patch.operations)


def validate_owned_pod(pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict | None:
    """Run the rules about pods on a prepared pod. Return None for a pod that is in no gang of Rollcall; another program
    may have put it in a gang. Raises `FactsUnavailable` and `Malformed`.
    """
    found = _prepared_for(pod, facts, settings)
    if not isinstance(found, tuple):
        return None
    profile, member, _ = found
    if pod.scheduler_name != profile.name or foreign_claims(pod, profile, member):
        return None
    return pod_verdict(pod, profile, facts, settings)


def left_for_its_label(key: str) -> str:
    """Return why a pod with a label that is too long is left as it is. The label key is cut too."""
    return f"pod left as it is: its label {key[:_TOLD_OF_KEY]} is longer than a name, {NAME_LIMIT} characters"


def _prepared_for(pod: Pod, facts: ClusterFacts, settings: Settings) -> tuple[Profile, GangMember, Owner] | str:
    """Return the profile of a pod, its member in its gang, and its workload. Return a note for its author if the pod is
    left as it is.
    """
    if (label := pod.long_label) is not None:
        return left_for_its_label(label)
    place = place_of(pod)
    if place is None:
        return "pod left as it is: it is of no TrainJob, JobSet, LeaderWorkerSet or Job"
    owner = _owner(place, facts, settings)
    if owner is None:
        return f"pod left as it is: its {place.owner} was not found"
    scheduler = settings.forced or owner.record.scheduler
    if scheduler is None and settings.standalone:
        # A file shows the workload before its creation.
        scheduler = namespace_choice(facts, pod.namespace)
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
    """Return the record of a workload. Queues and quota that it lacks come from the TrainJob that made it, as KAI
    merges their labels.
    """
    made_by = None if owner.train_job is None else (facts.train_jobs or {}).get(owner.train_job)
    if made_by is None:
        return owner.record
    queues = tuple(sorted({**dict(made_by.record.queues), **dict(owner.record.queues)}.items()))
    return replace(owner.record, queues=queues, quota=owner.record.quota or made_by.record.quota)
