"""Rules about opted-in workloads that belong to something else: a Job that names a JobSet as its controller, and
workloads whose gangs Rollcall does not make.

Any author of a Job can write the reference to a JobSet, so the JobSet must exist. A gang may be made by a plugin of
Trainer, by the workload's own controller, or by its author, who names a group in the pod templates. Rollcall keeps the
group of such pods, and sets the scheduler name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from webhook.model.admission_request import value_at
from webhook.model.claims import Claim, claims_on, reader_of
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed, Record
from webhook.model.known_kinds import JOB_SETS
from webhook.model.reading import Manifest, integer, mapping
from webhook.validators import examples
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, Choice
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.jobset import JobSet
from webhook.workloads.known_workloads import WorkloadFacts
from webhook.workloads.kueue_integration import runtime_of
from webhook.workloads.opted_in_workload import OptedInWorkload, SchedulingBlock
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.trainjob import TrainerJobSet, TrainJob

_ONE_JOB_SET = ClusterFacts(
    job_sets={("default", "train"): WorkloadFacts(Record("koord-scheduler"), uid=examples.OWNER_UID)}
)


def _owned_job(uid: str) -> Manifest:
    made_job = examples.job()
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": uid}
    made_job["metadata"] |= {"name": "train-node-0", "ownerReferences": [{**reference, "controller": True}]}
    return made_job


@rule(
    "owner/foreign-job",
    subject=Subject.PART,
    membership=True,
    passes=Example(_owned_job(examples.OWNER_UID), facts=_ONE_JOB_SET),
    fails=Example(_owned_job("0b0e5f0e-2f0a-4f0b-8c1d-3f1f5e0d9a22"), facts=_ONE_JOB_SET),
)
def foreign_job(part: OptedInWorkload, context: Context[Any]) -> Results:
    """A Job that names a JobSet as its controller is a part of that JobSet: no other rule judges the Job, and Rollcall
    makes no gang for it. Only the uid shows whether the named JobSet is the one that exists. The garbage collector
    deletes a Job whose controller does not exist, so a refusal loses no work. An unknown JobSet is read live before a
    Job is refused.

    Source: kubernetes, pkg/controller/garbagecollector (`isDangling`: an owner with another uid is absent).
    """
    controller = part.controller
    if controller is None:
        return
    at = METADATA / "ownerReferences"
    key = part.namespace, controller.name
    needed = Needed("job_sets", key)
    job_sets = context.facts.job_sets
    if job_sets is None or _serves_other_version(context.facts):
        yield Unjudged(at, f"the {needed}", part=needed.part)
        return
    owner = job_sets.get(key)
    if owner is None or owner.uid not in {None, controller.uid}:
        lacking = "this JobSet does not exist" if owner is None else f"the JobSet {controller.name} has another uid"
        why = f"{lacking}, so the garbage collector would delete the Job"
        remedy = "remove the reference; the controller of a JobSet adds it to the Jobs that it creates"
        yield Finding(at, controller.uid, why, remedy, absent=needed)


def _serves_other_version(facts: ClusterFacts) -> bool:
    """Returns whether the cluster serves JobSets, but not in the version that Rollcall reads. No JobSet would be found
    then.
    """
    api_read = JOB_SETS.api
    served = {api for api in facts.apis or () if (api.group, api.kind) == (api_read.group, api_read.kind)}
    return bool(served) and api_read not in served


_STEPS = (
    examples.replicated("initializer", 1),
    examples.replicated("node", 2, dependsOn=[{"name": "initializer", "status": "Complete"}]),
)
_GROUP = "pod-group.scheduling.sigs.k8s.io"
_TARGETS: Manifest = {"targetReplicatedJobs": ["node"]}
# What a group of `spec.scheduling` states besides its claims.
_GROUP_FIELDS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")
# k8s.io/api scheduling (WorkloadMaxPodGroupTemplates).
_MOST_GROUPS = 8
_VOLCANO = {"scheduling.k8s.io/group-name": "mine"}
_COSCHEDULING = {"scheduling.x-k8s.io/pod-group": "mine"}
# The most steps from a part to the parts that it waits for. A walk for each of thousands of parts would never end.
_MOST_FOLLOWED = 2_000


def _grouped(name: str, group: str, **fields: Any) -> dict[str, Any]:
    return examples.replicated(name, template=examples.pod_template(labels={_GROUP: group}), **fields)


@rule(
    "owner/two-plugins",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(examples.train_job(), facts=examples.runtimes(podGroupPolicy={"volcano": {}})),
    fails=Example(examples.train_job(), facts=examples.runtimes(podGroupPolicy={"coscheduling": {}, "volcano": {}})),
)
def two_plugins(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With both plugins, Trainer makes two PodGroups, and its pods are members of both. A scheduler reads one of them,
    and the other PodGroup never gets its pods. Only a comment in the API says that at most one plugin may be set;
    nothing checks it.

    Source: kubeflow/trainer, pkg/apis/trainer/v1alpha1/trainingruntime_types.go, pkg/runtime/framework/plugins
    (v2.3.0).
    """
    if not isinstance(workload, TrainJob):
        return
    runtime = runtime_of(workload, context.facts)
    if runtime is not None and len(runtime.plugins) > 1:
        first, second = runtime.plugins
        why = (
            f"{workload.runtime_kind} {runtime.name} has both {first.path} and {second.path}, so its pods are "
            "in two PodGroups"
        )
        yield Finding(workload.runtime_path, runtime.name, why, "name a runtime with one of the two")


@rule(
    "owner/plugin-in-turn",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(examples.train_job(), facts=examples.runtimes(podGroupPolicy={"volcano": {}})),
    fails=Example(examples.train_job(), facts=examples.runtimes(*_STEPS, podGroupPolicy={"volcano": {}})),
)
def plugin_in_turn(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """The PodGroup of Trainer's plugins counts the pods of all steps. If steps start in turn, the first step waits for
    pods that are created only when it is done, so no step ever starts.

    Source: kubeflow/trainer, pkg/runtime/framework/plugins/{coscheduling,volcano} (v2.3.0); its KEP-3015; mpi-operator
    issue 608.
    """
    if not isinstance(workload, TrainJob):
        return
    runtime = runtime_of(workload, context.facts)
    if runtime is None or not runtime.plugins:
        return
    job_set = workload.job_set(runtime)
    if (turns := job_set.sequence_path) is not None:
        why = (
            f"the PodGroup of its {runtime.plugins[0].path} counts pods that are created later because of its "
            f"{job_set.path_in_runtime(turns)}, so no step ever starts"
        )
        remedy = f"name a runtime without {runtime.plugins[0].path}; each step then has its own gang"
        yield Finding(workload.runtime_path, runtime.name, why, remedy)


@rule(
    "owner/membership-in-turn",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(examples.job_set(_grouped("a", "first"), _grouped("b", "second", dependsOn=[{"name": "a"}]))),
    fails=Example(examples.job_set(_grouped("a", "mine"), _grouped("b", "mine", dependsOn=[{"name": "a"}]))),
)
def membership_in_turn(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A group that contains parts that start in turn is never complete: the later part is created when the earlier part
    runs or is done, and the earlier part waits for the pods of the later part. Rollcall itself makes one gang for each
    part.

    Source: jobset, pkg/controllers/jobset_controller.go (v0.12.0: dependsOn, InOrder); JobSet KEP-969 forbids it too.
    """
    # If a plugin of a TrainJob makes the gang, the rule about plugins reports it.
    if not isinstance(workload, JobSet) or (isinstance(workload, TrainerJobSet) and workload.runtime.plugins):
        return
    places: dict[str, list[Claim]] = {part.name: list(claims_on(part.template)) for part in workload.parts}
    order = {name: index for index, name in enumerate(places)}
    times = Counter((claim.key, str(claim.value)) for claims in places.values() for claim in claims)
    left = _MOST_FOLLOWED
    for part in workload.parts:
        # Finding what a part follows takes a walk over all parts, so it is done only for a part that shares its group.
        if not any(times[claim.key, str(claim.value)] > 1 for claim in places[part.name]):
            continue
        walked = list(islice(workload.follows(part), left))
        left -= len(walked)
        if not left:
            yield Unjudged(part.path / "dependsOn", "in which order so many parts start")
            return
        before = sorted({name for name in walked if name in order}, key=order.__getitem__)
        earlier = [claim for name in before for claim in places[name]]
        for claim in places[part.name]:
            same = next((other for other in earlier if other.key == claim.key and other.value == claim.value), None)
            if same is not None:
                why = f"{same.path} names the same group, but its pods must start before these pods are created"
                remedy = "name a separate group in each part that starts in turn, or remove the group from both"
                yield Finding(claim.path, claim.value, why, remedy)
                return


@rule(
    "owner/claim-unread",
    subject=Subject.OPTED_IN,
    membership=True,
    passes=Example(examples.job(template=examples.pod_template(labels={_GROUP: "mine"}))),
    fails=Example(examples.job(template=examples.pod_template(annotations=_VOLCANO))),
)
def claim_unread(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """A membership that the scheduler does not read has no effect: its pods start one by one. A scheduler that reads it
    waits for pods that another scheduler binds. Trainer's plugins write their membership on every pod and set no
    scheduler.

    Source: kubeflow/trainer, pkg/runtime/framework/plugins/{coscheduling,volcano} (v2.3.0); each scheduler reads its
    own keys (webhook/model/claims.py).
    """
    for claim in _unread_claims(workload, context):
        if not _may_be_read(claim, context.choice):
            yield _unread_finding(claim, workload, context)


@rule(
    "owner/claim-unsure",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(examples.job(scheduler=DEFAULT_SCHEDULER)),
    fails=Example(examples.job(scheduler=DEFAULT_SCHEDULER, template=examples.pod_template(labels=_COSCHEDULING))),
)
def claim_unsure(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """The coscheduling plugin is built into a separate kube-scheduler, which some clusters run as default-scheduler.
    The scheduler of Kubernetes does not have the plugin, and there the pods start one by one.

    Source: scheduler-plugins, pkg/coscheduling (the plugin must be in all profiles of the scheduler, as its queueSort).
    """
    for claim in _unread_claims(workload, context):
        if _may_be_read(claim, context.choice):
            yield replace(
                _unread_finding(claim, workload, context),
                why="default-scheduler reads it only with the coscheduling plugin of scheduler-plugins",
                remedy="choose the scheduler that has the plugin, or make sure that default-scheduler has the plugin",
            )


def _unread_claims(workload: OptedInWorkload, context: Context[Any]) -> Iterator[Claim]:
    """Yields the memberships that the chosen scheduler does not read, each at the first place that has it."""
    first_claims: dict[tuple[str, str], Claim] = {}
    for template in workload.templates:
        for claim in claims_on(template):
            if claim.system not in context.reads_claims_of:
                first_claims.setdefault((claim.key, str(claim.value)), claim)
    yield from first_claims.values()


def _may_be_read(claim: Claim, choice: Choice) -> bool:
    return claim.system == "scheduler-plugins" and choice.scheduler == DEFAULT_SCHEDULER


def _unread_finding(claim: Claim, workload: OptedInWorkload, context: Context[Any]) -> Finding:
    choice = context.choice
    by_plugin = isinstance(workload, TrainerJobSet) and "podGroupPolicy" in workload.path_in_runtime(claim.path).parts
    why = f"{claim.system} reads it, but {choice.chooser} chooses {choice.scheduler}, which does not"
    remedy = (
        f"{'name a runtime without that plugin' if by_plugin else 'remove it'}, "
        f"or choose {reader_of(claim.system)}, which reads it"
    )
    return Finding(claim.path, claim.value, why, remedy)


@rule(
    "owner/native-scheduling",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(examples.job(scheduler=DEFAULT_SCHEDULER, scheduling={"schedulingPolicy": {"gang": {}}})),
    fails=Example(examples.job(scheduling={"schedulingPolicy": {"gang": {}}})),
)
def native_scheduling(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With that field the workload's own controller makes the gang with the Workload API and adds the pods to it.
    Rollcall then makes no gang, and any scheduler other than kube-scheduler starts the pods one by one.

    Source: kubernetes/enhancements, KEP-5547 (Job, 1.37 alpha, gate WorkloadWithJob); JobSet KEP-969; LWS KEP-666.
    """
    path = workload.native_path
    if path is not None and context.choice.scheduler != DEFAULT_SCHEDULER:
        why = f"only kube-scheduler reads it, and {context.choice.chooser} says {shown(context.choice.scheduler)}"
        remedy = "remove the field, or choose the cluster's own scheduler"
        yield Finding(path, workload.spec.get("scheduling"), why, remedy)


@rule(
    "owner/scheduling-refused",
    looks_at=("scheduling",),
    subject=Subject.OPTED_IN,
    independent=True,
    default=Action.WARN,
    passes=Example(examples.job_set(scheduler=DEFAULT_SCHEDULER, scheduling={"replicatedJobs": [_TARGETS]})),
    fails=Example(
        examples.job_set(
            examples.replicated("node", template=examples.pod_template({"schedulingGroup": {"podGroupName": "mine"}})),
            scheduler=DEFAULT_SCHEDULER,
            scheduling={"replicatedJobs": [_TARGETS]},
        )
    ),
)
def scheduling_refused(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A JobSet with `spec.scheduling` is the only writer of the groups of its pods. Its webhook refuses another group
    in a template, replicated Jobs that are in two groups or in none, and a minimum above the pods.

    Source: JobSet KEP-969 (Validation), pkg/webhooks/jobset_webhook.go (`validateScheduling`); gate
    JobSetWorkloadAwareSchedulingAPI, which v0.12.0 does not have.
    """
    if not isinstance(workload, JobSet):
        return
    blocks = [block for block in workload.scheduling_blocks() if block.path[:2] == SPEC / "scheduling"]
    if not blocks:
        return
    yield from _other_writers(workload)
    entries = [block for block in blocks if block.parts is not None and not block.per_job]
    if entries:
        for field in _GROUP_FIELDS:
            if (value := blocks[0].spec.get(field)) is not None:
                why = "no group is above those of replicatedJobs, so JobSet refuses this field beside them"
                yield Finding(blocks[0].path / field, value, why, "remove it, or remove replicatedJobs")
        yield from _target_faults(workload, entries)
    yield from _high_minimums(workload, blocks)


def _other_writers(workload: JobSet) -> Results:
    """Yields what else names or makes a group of the Workload API for the pods of a JobSet."""
    for index, part in enumerate(workload.parts):
        group = part.template.spec.get("schedulingGroup")
        if group is not None:
            why = "JobSet itself writes this field if spec.scheduling is set, and refuses another value"
            yield Finding(part.place / "spec" / "schedulingGroup", group, why, "remove one of the two")
        if (scheduling := workload.job_spec(index).get("scheduling")) is not None:
            at = part.path / "template" / "spec" / "scheduling"
            why = "JobSet makes the groups of its Jobs if its own spec.scheduling is set, and refuses this field"
            yield Finding(at, scheduling, why, "remove one of the two")


def _target_faults(workload: JobSet, entries: Sequence[SchedulingBlock]) -> Results:
    """Yields replicated Jobs that do not exist, that are in two groups or in none, and entries that state too much."""
    names, groups, times = {part.name for part in workload.parts}, 0, Counter[str]()
    for entry in entries:
        targets = entry.parts or ()
        at = entry.path / "targetReplicatedJobs"
        for index, name in enumerate(targets):
            times[name] += 1
            if name not in names or times[name] > 1:
                why = "another entry has it" if name in names else "no replicated Job has this name"
                yield Finding(at / Item(index), name, f"{why}, so JobSet refuses it", "name each replicated Job once")
        per_job = entry.spec.get("job") is not None
        if per_job and len(targets) != 1:
            why = "with job, an entry is about one replicated Job, and JobSet refuses others"
            yield Finding(at, list(targets), why, "make one entry for each replicated Job")
        for field in (*_GROUP_FIELDS, "resourceClaims"):
            if per_job and (value := entry.spec.get(field)):
                why = "with job, each Job has its own group, so JobSet refuses what is stated for all of them"
                yield Finding(entry.path / field, value, why, "move it into job")
        groups += (
            sum((part.pods // part.each if part.each else 0) for part in workload.parts_of(entry)) if per_job else 1
        )
    path = entries[0].path[:-1]
    if missing := [part for part in workload.parts if part.name and part.name not in times]:
        why = "no entry has this replicated Job, so its pods would be in no group, and JobSet refuses that"
        yield Finding(missing[0].path / "name", missing[0].name, why, f"add it to {FieldPath(path)}")
    if groups > _MOST_GROUPS:
        why = f"a Workload has at most {_MOST_GROUPS} groups, and these entries make {groups}, so JobSet refuses them"
        yield Finding(FieldPath(path), groups, why, "use fewer groups, such as one for all Jobs of a replicated Job")


def _high_minimums(workload: JobSet, blocks: Sequence[SchedulingBlock]) -> Results:
    """Yields minimums above the pods of their group."""
    for block in blocks:
        gang = mapping(mapping(block.spec.get("schedulingPolicy")).get("gang"))
        minimum = integer(gang.get("minCount"))
        parts = workload.parts_of(block)
        pods = sum(part.each if block.per_job else part.pods for part in parts)
        at = block.path / "schedulingPolicy" / "gang" / "minCount"
        if minimum is not None and parts and minimum > pods:
            why = f"the group has {pods} pods, so this minimum is never reached, and JobSet refuses it"
            yield Finding(at, minimum, why, f"set it to at most {pods}, or remove it")
        elif minimum and block.parts is None and workload.sequence_path is not None:
            why = f"the replicated Jobs start in turn because of {workload.sequence_path}, so no group has all pods"
            yield Finding(at, minimum, f"{why}, and JobSet refuses it", "remove it: each replicated Job gets a group")


@rule(
    "owner/gang-unread",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(examples.volcano_job(scheduler="volcano"), scheduler="volcano"),
    fails=Example(examples.volcano_job(scheduler="koord-scheduler")),
)
def gang_unread(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """The controller or the operator of some workloads makes a PodGroup that one scheduler reads. Another scheduler
    starts the pods one by one, and Rollcall makes no gang beside that PodGroup.

    Source: the declared shape (`rollcall shapes show`), which names the source of its facts.
    """
    for left in workload.leaves():
        if left.system and left.system not in context.reads_claims_of:
            # Where `owner/operator` reports the field, its remedy helps under every scheduler.
            warnings = workload.warnings() if isinstance(workload, ShapedWorkload) else ()
            if not any(warned.at == left.at for warned in warnings):
                why = (
                    f"{left.why}; only {left.system} reads that, and {context.choice.chooser} says "
                    f"{shown(context.choice.scheduler)}"
                )
                remedy = f"choose {reader_of(left.system)}, which reads it"
                yield Finding(left.at, value_at(workload.raw, left.at)[1], why, remedy)
            return
