"""How workloads that are not Grove's are admitted: TrainJob, JobSet, LeaderWorkerSet, Job, and the declared kinds.

A workload is opted in if it has the label `rollcall.dev/scheduler` or is created in a namespace that has it. At CREATE
the choice is recorded on the workload and in its pod templates, if its kind has them. The webhook can then select pods
by label, and no other pods of the cluster are sent to it.

Updates that Kueue makes (it resumes and suspends workloads, and restores their pod templates) must never be refused:
the Workload stays admitted and holds its quota, while Kueue repeats the update for ever. Source: kubernetes-sigs/kueue
v0.19, pkg/podset/podset.go (`Merge`, `RestorePodSpec`), pkg/controller/jobframework.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.admission.object_admission import add_findings
from webhook.admission.opinion import gang_context
from webhook.admission.workload_admission import WorkloadAdmission
from webhook.admission.workload_fit import makes_new_gangs
from webhook.config.settings import CHOICE_BOUND, Profile, Settings
from webhook.model import claims
from webhook.model.admission_request import ALLOWED, KUEUE_CONTROLLERS, Operation, Request, Verdict, value_at
from webhook.model.capabilities import SUPPORTED, Support, capabilities_of_pod, unsupported
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, ROOT, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Omission, OmissionReason, Unjudged, shown
from webhook.model.keys import GroupKind
from webhook.model.known_kinds import JOB_SETS, is_a
from webhook.model.kueue import GROUP, MANAGER, MIN_PARALLELISM
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.mutators.json_patch import PatchBuilder
from webhook.validators import GENERAL_RULES
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, NAMESPACE, Choice, namespace_choice
from webhook.validators.registry import BoundRule, Context, RuleOutcome, no_fits, run, run_each, run_on_opted_in
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import runtime_of
from webhook.workloads.opted_in_gang import asks_for_gang, scheduler_of_pods, starts_alone
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.shaped_workload import KIND as POD_GROUP
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.trainjob import TrainerJobSet, TrainJob, train_job_of
from webhook.workloads.workload_kinds import WorkloadKinds

# What Kueue changes in the spec of a pod template.
_OF_PODS = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
# The counts that partial admission changes.
_COUNTS = frozenset({"parallelism", "completions"})
_TEMPLATES = ("template", "leaderTemplate", "workerTemplate")


def is_kueues(request: Request, settings: Settings) -> bool:
    """Returns whether Kueue makes this update, by its user, or whether the update changes only what Kueue changes."""
    if request.operation != "UPDATE" or request.old is None:
        return False
    if request.user in KUEUE_CONTROLLERS or request.user in settings.tenancy.exempt_users:
        return True
    try:
        old, new = request.old, request.object or {}
        # A running Job keeps its counts.
        counted = not (_is_suspended(old) or _is_suspended(new))
        return _written_by_users(old, counted=counted) == _written_by_users(new, counted=counted)
    except Malformed:
        return False


def _is_suspended(manifest: Manifest) -> bool:
    return mapping(manifest.get("spec")).get("suspend") is True


def _written_by_users(manifest: Manifest, *, counted: bool) -> Manifest:
    """Returns the fields of a workload that users write. `counted`: the counts are theirs even in partial admission."""
    metadata = mapping(manifest.get("metadata"))
    spec = _omit(mapping(manifest.get("spec")), {"suspend"})
    if not counted and MIN_PARALLELISM in mapping(metadata.get("annotations")):
        spec = _omit(spec, _COUNTS)
    if "runtimePatches" in spec:
        spec["runtimePatches"] = [
            patch for patch in map(mapping, sequence(spec["runtimePatches"])) if not _is_kueues_patch(patch)
        ]
    if "replicatedJobs" in spec:
        jobs = [(mapping(job), mapping(mapping(job).get("template"))) for job in sequence(spec["replicatedJobs"])]
        spec["replicatedJobs"] = [
            {**job, "template": {**template, "spec": _strip_templates(mapping(template.get("spec")))}}
            for job, template in jobs
        ]
    if "leaderWorkerTemplate" in spec:
        spec["leaderWorkerTemplate"] = _strip_templates(mapping(spec["leaderWorkerTemplate"]))
    marks = {field: mapping(metadata.get(field)) for field in ("labels", "annotations")}
    return {"metadata": {**marks, "owners": metadata.get("ownerReferences")}, "spec": _strip_templates(spec)}


def _is_kueues_patch(patch: Mapping[str, Any]) -> bool:
    """Returns whether a patch of a TrainJob's runtime has only what Kueue writes. Any user may call it Kueue's."""
    if patch.get("manager") != MANAGER or not patch.keys() <= {"manager", "time", "trainingRuntimeSpec"}:
        return False
    spec = _lone_value(mapping(patch.get("trainingRuntimeSpec")), "template", "spec")
    if spec is None or not spec.keys() <= {"replicatedJobs"}:
        return False
    templates = (
        _lone_value(_omit(mapping(job), {"name"}), "template", "spec", "template")
        for job in sequence(spec.get("replicatedJobs"))
    )
    return all(template is not None and _template(template) == _template({}) for template in templates)


def _lone_value(holder: Mapping[str, Any], *fields: str) -> Mapping[str, Any] | None:
    """Returns what is at the path of these fields; None if there is anything beside the path."""
    for field in fields:
        if not holder.keys() <= {field}:
            return None
        holder = mapping(holder.get(field))
    return holder


def _strip_templates(holder: Mapping[str, Any]) -> Manifest:
    stripped = dict(holder)
    for field in _TEMPLATES:
        if holder.get(field) is not None:
            stripped[field] = _template(mapping(holder[field]))
    return stripped


def _template(raw: Mapping[str, Any]) -> Manifest:
    metadata = mapping(raw.get("metadata"))
    marks = {
        field: {key: value for key, value in mapping(metadata.get(field)).items() if not key.startswith(f"{GROUP}/")}
        for field in ("labels", "annotations")
    }
    return {**raw, "metadata": {**metadata, **marks}, "spec": _omit(mapping(raw.get("spec")), _OF_PODS)}


def _omit(holder: Mapping[str, Any], fields: Iterable[str]) -> Manifest:
    left = frozenset(fields)
    return {key: value for key, value in holder.items() if key not in left}


# As in `webhook.model.claims`.
_WORKLOAD_API = "the Workload API"

# The rules that ask nothing about the scheduler, and nothing about nodes, which each scheduler reads in its own way.
_OF_CONTROLLERS = frozenset(
    declared.id for declared in GENERAL_RULES if declared.independent and not declared.id.startswith("fit/")
)

IS_NO_GANG = f"no gang: its label {SCHEDULER_LABEL} is {OPTED_OUT}, so it and its pods stay unchanged"


class OptedInWorkloads(WorkloadAdmission[OptedInWorkload]):
    """The admission of one kind of workload."""

    def __init__(self, kind: type[OptedInWorkload]) -> None:
        self._kind = kind

    def view(self, manifest: Manifest, namespace: str) -> OptedInWorkload:
        """Returns the view of a workload, after checking that every field can be read. Raises `Malformed`."""
        workload = self._kind(manifest, namespace)
        workload.read()
        return workload

    def choice_of(
        self, workload: OptedInWorkload, old: OptedInWorkload | None, facts: ClusterFacts, settings: Settings
    ) -> Choice | None:
        """Returns the scheduler of a workload, or None if it is not opted in or predates what opts it in."""
        available = settings.available
        if (forced := settings.forced_choice) is not None:
            return forced if workload.by_namespace or asks_for_gang(workload) else None
        if settings.permits_opt_out(workload.namespace):
            available = (*available, OPTED_OUT)
        if workload.scheduler is not None:
            return Choice(workload.scheduler, LABELS / SCHEDULER_LABEL, available)
        if old is not None:
            return None if old.scheduler is None else Choice(old.scheduler, LABELS / SCHEDULER_LABEL, available)
        made_by = train_job_of(workload) if isinstance(workload, JobSet) else None
        if made_by is not None and (train_job := (facts.train_jobs or {}).get(made_by)) is not None:
            recorded = train_job.record.scheduler
            return None if recorded is None else Choice(recorded, METADATA / "ownerReferences", available)
        if not workload.by_namespace:
            return None
        chosen = namespace_choice(facts, workload.namespace)
        return None if chosen is None else Choice(chosen.scheduler, NAMESPACE, available, chosen.source)

    def validate(self, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
        """Runs the rules on the workload. In files a note says that it opted out. Raises `Malformed`."""
        verdict = super().validate(request, facts, settings)
        if settings.standalone and verdict.allowed and verdict.scheduler == OPTED_OUT:
            return replace(verdict, notes=(*verdict.notes, IS_NO_GANG))
        return verdict

    def must_pass(self, request: Request, settings: Settings) -> bool:
        """Returns whether Kueue makes the update: it would repeat it for ever, with its quota reserved."""
        return is_kueues(request, settings)

    def judge_without_choice(self, workload: OptedInWorkload, facts: ClusterFacts, settings: Settings) -> Verdict:
        """Returns the verdict on a workload that is not opted in. In a cluster it predates what opts it in. In files
        the independent rules judge it, under the scheduler that its pods name. Without a profile of that scheduler none
        of a scheduler's own rules do.
        """
        if not settings.standalone:
            return ALLOWED
        verdict = Verdict(omission=omission_of(workload, facts, settings))
        if is_part(workload, settings.kinds):
            return verdict
        return add_findings(verdict, _judged_without_gang(workload, facts, settings).findings)

    def judge(
        self,
        workload: OptedInWorkload,
        old: OptedInWorkload | None,
        choice: Choice,
        facts: ClusterFacts,
        settings: Settings,
    ) -> RuleOutcome:
        """Runs the rules on a workload; on a Job of a JobSet only the rules about parts. If another controller runs it,
        usually in another cluster, nothing that is known of this one is held against it. In files, what its own
        controller refuses is found also if it is no gang, or its label names no scheduler.
        """
        if is_part(workload, settings.kinds):
            # The scheduler of a part is a matter of its JobSet. Every profile checks which JobSet the part belongs to.
            profile = settings.profiles.get(choice.scheduler, settings.profiles[settings.default])
            rules = profile.part_rules[settings.ceiling(profile, facts, workload.namespace)]
            return run_each(rules, gang_context(profile, facts, choice, {}, settings), workload)
        facts_there = facts if workload.managed_elsewhere is None else facts.other_cluster_facts()
        outcome = super().judge(workload, old, choice, facts_there, settings)
        if settings.standalone and choice.scheduler not in settings.profiles:
            outcome.findings.extend(_judged_without_gang(workload, facts, settings).findings)
        return outcome

    def faults_of(self, old: OptedInWorkload, facts: ClusterFacts, settings: Settings) -> Sequence[Finding]:
        """Returns the findings about a stored workload under its own record."""
        findings = super().faults_of(old, facts, settings)
        if findings or not is_part(old, settings.kinds):
            return findings
        choice = self.choice_of(old, old, facts, settings)
        if choice is None:
            return findings
        try:
            # A fault of a part was reported for its JobSet. If the JobSet is deleted but its Jobs are kept, the garbage
            # collector's update makes the Job a workload of its own.
            return super().judge(old, None, choice, facts, settings).findings
        except Malformed:
            return ()

    def judge_choice(
        self, workload: OptedInWorkload, old: OptedInWorkload | None, choice: Choice, facts: ClusterFacts
    ) -> RuleOutcome:
        return run_on_opted_in(CHOICE_BOUND, Context(facts, choice, {}, None), workload, old)

    def judged_by(  # noqa: PLR0913, PLR0917 - what is judged, by whom, how strictly and for how long
        self,
        profile: Profile,
        ceiling: Action,
        workload: OptedInWorkload,
        old: OptedInWorkload | None,
        choice: Choice,
        facts: ClusterFacts,
        settings: Settings,
    ) -> RuleOutcome:
        """Runs the rules of one profile on a workload, its pod templates and the JobSet of a TrainJob."""
        rules = profile.opted_in_rules[ceiling]
        context = replace(
            gang_context(profile, facts, choice, {}, settings, namespace=workload.namespace),
            makes_gangs=profile.backend.makes_gangs_of(settings.kinds.grouped_as(workload)),
        )
        if old is not None and not makes_new_gangs(workload, old, facts):
            context = replace(context, fits=no_fits)
        return _judged_with_pods(rules, profile, workload, old, context)

    def scheduler_to_record(
        self, workload: OptedInWorkload, request: Request, facts: ClusterFacts, settings: Settings
    ) -> str | None:
        """Returns the scheduler that a workload must record. A Job of a JobSet has the record of its template."""
        if is_part(workload, settings.kinds):
            return None
        return super().scheduler_to_record(workload, request, facts, settings)

    def dropped_record(self, workload: OptedInWorkload, request: Request, settings: Settings) -> str | None:
        """Returns the recorded scheduler that an update leaves out, on the workload or in a template."""
        recorded = None if request.old is None else self.view(request.old, request.namespace).scheduler
        if recorded not in settings.profiles or workload.scheduler not in {None, recorded}:
            return None
        return recorded

    def record(self, workload: OptedInWorkload, scheduler: str, request: Request) -> tuple[Operation, ...]:
        """Returns the patch that records the scheduler on a workload and in its pod templates. Old templates without
        the label stay without it. Templates of a Job are immutable, so every update would be refused. A changed
        template of a LeaderWorkerSet would replace its pods. An old label that an update leaves out is written again,
        and a new template gets it: a list that `kubectl apply` replaces has no label, and its pods would bypass the
        gang.
        """
        if request.old is None:
            return record_choice(workload, scheduler)
        old = self.view(request.old, request.namespace)
        unlabelled = frozenset(path for path in old.marked_paths if not value_at(old.raw, path / SCHEDULER_LABEL)[0])
        return record_choice(workload, scheduler, unlabelled)


def _judged_without_gang(workload: OptedInWorkload, facts: ClusterFacts, settings: Settings) -> RuleOutcome:
    """Runs the independent rules on a workload without a gang, under the scheduler that its pods name."""
    stated = scheduler_of_pods(
        made_job_set(workload, facts) or workload if isinstance(workload, TrainJob) else workload
    )
    scheduler = DEFAULT_SCHEDULER if stated is None else str(stated.value)
    profile = settings.profiles.get(scheduler, settings.profiles[settings.default])
    choice = Choice(scheduler, SPEC if stated is None else stated.path, settings.available)
    facts_there = facts if workload.managed_elsewhere is None else facts.other_cluster_facts()
    context = gang_context(profile, facts_there, choice, {}, settings, namespace=workload.namespace)
    rules: Sequence[BoundRule] = profile.independent_rules[settings.ceiling(profile, facts, workload.namespace)]
    if scheduler not in settings.profiles:
        rules = [bound for bound in rules if bound.rule.id in _OF_CONTROLLERS]
    return _judged_with_pods(rules, profile, workload, None, replace(context, opted_in=False))


def omission_of(workload: OptedInWorkload, facts: ClusterFacts, settings: Settings) -> Omission:
    """Returns why a workload that is not opted in is not judged, and what opts it in."""
    if is_part(workload, settings.kinds):
        why = f"it is a part of its {workload.controller.kind if workload.controller else 'controller'}"
        return Omission(METADATA / "ownerReferences", OmissionReason.NO_GANG, why, "judge that workload")
    stated = scheduler_of_pods(workload)
    name = stated.value if stated is not None and stated.value in settings.profiles else "NAME"
    label = f"{SCHEDULER_LABEL}: {name}"
    if (claimed := _omission_of_claimed(workload, facts, settings, label)) is not None:
        return claimed
    alone = isinstance(workload, Job) and starts_alone(workload)
    if (alone or not workload.by_namespace) and not asks_for_gang(workload):
        what = "has no more than one pod at a time" if alone else "asks for no gang"
        remedy = f"if its pods must start together, add the label {label} to it"
        return Omission(ROOT, OmissionReason.NO_GANG, f"it {what}, so no rule is about it", remedy)
    namespace = workload.namespace
    if isinstance(workload, TrainJob):
        # Trainer copies no label of a TrainJob to its JobSet.
        lacks, remedy = f"its namespace lacks the label {SCHEDULER_LABEL}", f"label Namespace {namespace} {label}"
    elif workload.by_namespace:
        lacks = f"neither it nor its namespace has the label {SCHEDULER_LABEL}"
        remedy = f"add the label {label} to it or to Namespace {namespace}"
    else:
        lacks, remedy = f"it lacks the label {SCHEDULER_LABEL}", f"add the label {label} to it"
    if workload.by_namespace and namespace not in (facts.namespaces or {}):
        remedy = f"{remedy}; if the Namespace has it, give that with --facts"
    why = f"not opted in: {lacks}, so it and its pods stay unchanged"
    return Omission(
        ROOT, OmissionReason.NOT_OPTED_IN, why, f"{remedy}; --scheduler {name} judges it as if it were opted in"
    )


def _omission_of_claimed(
    workload: OptedInWorkload, facts: ClusterFacts, settings: Settings, label: str
) -> Omission | None:
    """Returns why a workload whose pods are in a gang of something else is not judged; None if they are in none."""
    grouped = None
    for template in workload.templates:
        groups = tuple(claims.groups_in_pod(template))
        claim = groups[0].claim if groups else next(claims.claims_on(template), None)
        if claim is None:
            continue
        gang = claims.pods_gang(template)
        is_described = gang is not None and (workload.namespace, gang.name) in (facts.pods_gangs or {})
        of_koordinator = claims.SYSTEM_OF_SCHEDULER.get(claims.scheduler_of(template)) == "Koordinator"
        judged = [
            group
            for group in groups
            if group.name in (facts.file_groups or {}).get((group.system, workload.namespace), {})
            and (claims.SYSTEMS[group.system].api_group, POD_GROUP) in settings.judging
        ]
        if judged:
            grouped = grouped or judged[0]
        elif gang is not None and is_described and of_koordinator:
            why = f"its pods describe their gang {shown(gang.name)} for Koordinator, and only its minimum is judged"
            remedy = (
                f"write a PodGroup and name it by {claims.SYSTEMS[claim.system].mark}, or add the label {label} instead"
            )
            return Omission(claim.path, OmissionReason.GROUP_MISSING, why, remedy)
        elif gang is not None and of_koordinator:
            why = f"its pods name the gang {shown(gang.name)} of Koordinator, and none states its minimum"
            remedy = f'set {claims.GANG_MINIMUM} on them, such as "2", or add the label {label} instead'
            return Omission(claim.path, OmissionReason.GROUP_MISSING, why, remedy)
        else:
            return _omission_without_group(claim, groups, settings, label)
    if grouped is None:
        return None
    why = f"its pods name the group {shown(grouped.name)} of {grouped.system}, so they are judged with that group"
    remedy = f"if Rollcall should make the gang, add the label {label}"
    return Omission(grouped.claim.path, OmissionReason.GANG_ELSEWHERE, why, remedy)


def _omission_without_group(
    claim: claims.Claim, groups: tuple[claims.GroupName, ...], settings: Settings, label: str
) -> Omission:
    system = claims.SYSTEMS[claim.system]
    if not groups:
        why = (
            f"{claim.path} says that something else makes the gang of its pods for {claim.system}, and no rule reads it"
        )
        return Omission(claim.path, OmissionReason.GROUP_MISSING, why, f"add the label {label} instead")
    group = f"the group {shown(groups[0].name)} of {claim.system}"
    why = f"its pods name {group}, which is not among the objects that are judged"
    remedy = f"give that PodGroup too, or add the label {label} instead of the name"
    if (system.api_group, POD_GROUP) not in settings.judging:
        enable = f"add the profile {system.scheduler} to the configuration"
        if system.scheduler == DEFAULT_SCHEDULER:
            enable = f"turn on gangScheduling in the profile of {system.scheduler}"
        remedy = f"{enable} and give that PodGroup, or add the label {label} instead of the name"
    elif claim.key == claims.KOORDINATOR_GANG:
        remedy = f"set their schedulerName to {system.scheduler}, or add the label {label} instead"
    return Omission(claim.path, OmissionReason.GROUP_MISSING, why, remedy)


def is_part(workload: OptedInWorkload, kinds: WorkloadKinds) -> bool:
    """Returns whether a workload is a Job of a JobSet, or made between a workload of a declared kind and its pods."""
    controller = workload.controller
    if controller is None:
        return False
    return (isinstance(workload, Job) and is_a(controller, JOB_SETS)) or kinds.is_made_part(workload)


def record_choice(
    workload: OptedInWorkload, scheduler: str, unlabelled: frozenset[FieldPath] = frozenset()
) -> tuple[Operation, ...]:
    """Records the scheduler on a workload and its pod templates, except those `unlabelled`, and returns the patch."""
    # All parts are read before the first write, so a workload that cannot be read is not changed in part.
    places = [path for path in workload.marked_paths if path not in unlabelled]
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    for place in places:
        keys = tuple(part.index if isinstance(part, Item) else part for part in place.parts)
        patch.set(keys, SCHEDULER_LABEL, scheduler)
    return tuple(patch.operations)


def made_job_set(workload: TrainJob, facts: ClusterFacts) -> TrainerJobSet | None:
    """Returns the JobSet that Trainer makes of a TrainJob; None if its runtime is unknown or cannot be read."""
    try:
        runtime = runtime_of(workload, facts)
        if runtime is None:
            return None
        job_set = workload.job_set(runtime)
        _ = job_set.parts
    except Malformed:
        return None
    return job_set


def gang_support(workload: OptedInWorkload, profile: Profile, kinds: WorkloadKinds) -> Support | None:
    """Returns whether the pods start together under the scheduler of `profile`; None if only another program knows."""
    backend, kind = profile.backend, kinds.grouped_as(workload)
    train_job = isinstance(workload, JobSet) and train_job_of(workload) is not None
    for template in workload.templates:
        for claim in claims.claims_on(template):
            if claim.system in backend.reads_claims_of:
                return SUPPORTED
            # For a TrainJob the mark is in no file: a plugin of Trainer adds it.
            where = "its runtime" if train_job else claim.path
            why = f"{where} says that {claim.system} has claimed its pods, and {profile.name} does not read that"
            return unsupported(why, f"choose {claims.reader_of(claim.system)}, which reads it, or remove it")
    if workload.crd and (left := next((leaf for leaf in workload.leaves() if not leaf.is_made), None)) is not None:
        if left.system and left.system not in backend.reads_claims_of:
            why = f"{left.why}, and {profile.name} does not read it"
            return unsupported(why, f"choose {claims.reader_of(left.system)}, which reads it")
        is_read = isinstance(workload, ShapedWorkload) and workload.shape.operator.minimum is not None
        return SUPPORTED if left.system and is_read else None
    return _gang_made(workload, profile, kind)


def _gang_made(workload: OptedInWorkload, profile: Profile, kind: GroupKind) -> Support:
    """Returns whether the pods of a workload start together by the gang that Rollcall or its scheduler makes."""
    backend = profile.backend
    if starts_alone(workload) or (workload.native_path is not None and _WORKLOAD_API in backend.reads_claims_of):
        return SUPPORTED
    # Rollcall makes no gang of a kind that leaves it to another one.
    makes_it = backend.makes_gangs_of(kind) and not workload.left_to
    if backend.groups_opted_in and not (makes_it or backend.groups(kind)):
        why = f"{profile.name} does not know the kind {workload.kind}: its pods start one by one"
        return unsupported(why, "choose another scheduler")
    if not (backend.groups_opted_in or backend.makes_gangs_of(kind)):
        why = f"neither {profile.name} nor Rollcall makes gangs of pods that are not Grove's: they start one by one"
        return unsupported(why, "choose another scheduler")
    if workload.native_path is not None:
        why = f"{workload.native_path} asks for a gang of the Workload API, which {profile.name} does not read"
        return unsupported(why, "remove it, or choose another scheduler")
    return SUPPORTED


def topology_support(readers: Iterable[str], profile: Profile) -> Support:
    """Returns whether the scheduler of `profile` is the reader of all annotations that ask for topology."""
    for reader in readers:
        if reader not in profile.backend.reads_claims_of:
            return unsupported(
                f"only {reader} reads the annotation", f"remove it, or choose {claims.reader_of(reader)}"
            )
    return SUPPORTED


def _judged_with_pods(
    rules: Sequence[BoundRule],
    profile: Profile,
    workload: OptedInWorkload,
    old: OptedInWorkload | None,
    context: Context[Any],
) -> RuleOutcome:
    """Runs rules of one profile on a workload, its pod templates and the JobSet of a TrainJob."""
    outcome = run_on_opted_in(rules, context, workload, old)
    if not isinstance(workload, TrainJob):
        return _add_pod_findings(rules, profile, workload, context, outcome)
    if (job_set := made_job_set(workload, context.facts)) is None:
        return outcome
    try:
        then = _add_pod_findings(rules, profile, job_set, context, run_on_opted_in(rules, context, job_set))
    except Malformed as error:
        # In a cluster no such runtime is stored, and the TrainJob is not at fault.
        why = f"what {job_set.runtime.name} says ({error})"
        outcome.unjudged.append(Unjudged(workload.runtime_path, why, "owner/runtime"))
        return outcome
    outcome.findings.extend(_train_job_finding(finding, job_set) for finding in then.findings)
    outcome.unjudged.extend(replace(unjudged, at=job_set.path_in_train_job(unjudged.at)) for unjudged in then.unjudged)
    return outcome


def _add_pod_findings(
    rules: Sequence[BoundRule], profile: Profile, workload: OptedInWorkload, context: Context[Any], outcome: RuleOutcome
) -> RuleOutcome:
    """Adds to `outcome` what the rules about pods find in each distinct pod template."""
    for part in workload.distinct_parts:
        uses = capabilities_of_pod(part.template)
        for capability in profile.backend.implied:
            uses.setdefault(capability, [])
        pod_outcome = run(rules, replace(context, uses=uses), part.template)
        outcome.findings.extend(pod_outcome.findings)
        outcome.unjudged.extend(pod_outcome.unjudged)
    return outcome


def _train_job_finding(finding: Finding, job_set: TrainerJobSet) -> Finding:
    """Returns a finding about the JobSet of a TrainJob, at the patch of the TrainJob or the runtime that caused it."""
    at = job_set.path_in_train_job(finding.at)
    why = finding.why if at != job_set.train_job.runtime_path else f"{job_set.where(finding.at)}: {finding.why}"
    return replace(finding, at=at, why=why)
