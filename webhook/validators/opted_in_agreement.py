"""Rules about what an opted-in workload must agree with: the scheduler that its pods name, its runtime, the names of
other workloads, and the topology keys that its scheduler reads.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from webhook.model.any_object import AnyObject
from webhook.model.capabilities import Capability
from webhook.model.claims import reader_of
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Api, Needed, ObjectKey, Record
from webhook.model.known_kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS
from webhook.model.known_objects import Namespace, PodGangFacts
from webhook.model.reading import Malformed, integer, mapping, sequence, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.examples import job, job_set, pod_template, replicated, runtimes, train_job
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.validators.shared_checks import missing_apis
from webhook.workloads import opted_in_gang
from webhook.workloads.known_workloads import WorkloadFacts
from webhook.workloads.kueue_integration import runtime_of
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.trainjob import ANCESTOR, Runtime, TrainerJobSet, TrainJob


def _template_naming(scheduler: str) -> dict[str, Any]:
    return pod_template({"schedulerName": scheduler})


@rule(
    "owner/scheduler-name",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job(template=_template_naming("koord-scheduler"))),
    fails=Example(job_set(replicated("node", template=_template_naming("volcano")))),
)
def scheduler_name(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Another scheduler places a pod that names it, so the gang would wait for that pod for ever.

    Source: kubernetes, pkg/scheduler/eventhandlers.go: a scheduler sees only the pods that name it. The name
    default-scheduler does not count as a choice, because the API server writes it if the name is missing.
    """
    choice = context.choice
    for part in () if choice.overrides else workload.distinct_parts:
        scheduler = text(part.template.spec.get("schedulerName"))
        if scheduler not in {None, DEFAULT_SCHEDULER, choice.scheduler}:
            why = f"{choice.chooser} says {shown(choice.scheduler)}, which skips pods that name another scheduler"
            remedy = f"remove schedulerName from the template, or name the same scheduler in {SCHEDULER_LABEL}"
            yield Finding(part.template.spec_path / "schedulerName", scheduler, why, remedy)


@rule(
    "owner/scheduler-differs",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(train_job(), facts=runtimes(labels={SCHEDULER_LABEL: "koord-scheduler"})),
    fails=Example(train_job(), facts=runtimes(labels={SCHEDULER_LABEL: "volcano"})),
)
def scheduler_differs(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """The pods of the JobSet are prepared for the scheduler in the labels of the runtime's template, and not for the
    scheduler of the TrainJob: the JobSet gets these labels.

    Source: kubeflow/trainer, pkg/runtime/core/trainingruntime.go (v2.3.0).
    """
    choice = context.choice
    scheduler = workload.scheduler if isinstance(workload, TrainerJobSet) else None
    if scheduler not in {None, choice.scheduler} and not choice.overrides:
        why = f"the pods would be prepared for it, but the TrainJob is for {choice.scheduler}, by {choice.chooser}"
        remedy = "choose the same scheduler in both, or remove the label from the runtime"
        yield Finding(LABELS / SCHEDULER_LABEL, scheduler, why, remedy)


@rule(
    "owner/runtime",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    independent=True,
    passes=Example(train_job(), facts=runtimes()),
    fails=Example(train_job(runtime="torch-2"), facts=runtimes()),
)
def runtime(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """All pods of a TrainJob come from its runtime, so its gang is unknown without the runtime. Trainer refuses a
    TrainJob whose runtime does not exist.

    Source: kubeflow/trainer, pkg/runtime/core/trainingruntime.go (`ValidateObjects`, v2.3.0).
    """
    if not isinstance(workload, TrainJob):
        return
    if workload.runtime_kind not in _RUNTIME_KINDS:
        why = "Trainer knows no such kind of runtime, and refuses the TrainJob"
        yield Finding(
            SPEC / "runtimeRef" / "kind",
            workload.runtime_kind,
            why,
            "name a TrainingRuntime or a ClusterTrainingRuntime",
        )
        return
    needed = workload.runtime
    existing = getattr(context.facts, needed.part)
    if existing is None:
        yield Unjudged(
            workload.runtime_path, f"the {needed}", remedy=_supply(needed.name, workload.runtime_kind), part=needed.part
        )
    elif needed.key not in existing:
        yield Finding(
            at=workload.runtime_path,
            value=needed.name,
            why=f"this {workload.runtime_kind} does not exist, so the pods of the TrainJob are unknown",
            remedy="name a runtime that exists, or create it first",
            absent=needed,
            # Its contents may be refused.
            hides_more=True,
        )
    else:
        # A runtime from a file may have any content.
        try:
            content = runtime_of(workload, context.facts)
            _ = None if content is None else workload.job_set(content).parts
        except Malformed as error:
            why = f"its {workload.runtime_kind} cannot be read: {error}"
            name = text(mapping(workload.spec.get("runtimeRef")).get("name"))
            yield Finding(workload.runtime_path, name, why, "correct the runtime according to its CRD")


_RUNTIME_KINDS = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})
# The container that Trainer changes, by the step that a replicated Job is labelled with.
_OF_STEPS = {"trainer": "node", "dataset-initializer": "dataset-initializer", "model-initializer": "model-initializer"}


def _runtime(container: str) -> dict[str, Any]:
    pods = pod_template()
    pods["spec"]["containers"][0]["name"] = container
    step = {"labels": {ANCESTOR: "trainer"}}
    spec = {"template": {"spec": {"replicatedJobs": [replicated("node", 1, template=pods, metadata=step)]}}}
    api = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
    return {**api, "metadata": {"name": "torch"}, "spec": spec}


@rule(
    "owner/runtime-steps",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_runtime("node")),
    fails=Example(_runtime("main")),
)
def runtime_steps(manifest: AnyObject, _: Context[Any]) -> Results:
    """Trainer refuses a runtime that has several replicas of a replicated Job that trains or initializes, or if that
    lacks the container that Trainer changes. No webhook sees a file.

    Source: kubeflow/trainer, pkg/webhooks/trainingruntime_webhook.go (`validateReplicatedJobs`, v2.2).
    """
    if manifest.kind.group != "trainer.kubeflow.org" or manifest.kind.kind not in _RUNTIME_KINDS:
        return
    # Another rule reports values of the wrong type.
    with suppress(Malformed):
        yield from list(_step_faults(mapping(mapping(mapping(manifest.raw.get("spec")).get("template")).get("spec"))))


def _step_faults(job_set: Mapping[str, Any]) -> Results:
    for index, raw in enumerate(sequence(job_set.get("replicatedJobs"))):
        replicated_job = mapping(raw)
        path = SPEC / "template" / "spec" / "replicatedJobs" / Item(index, text(replicated_job.get("name")))
        template = mapping(replicated_job.get("template"))
        step = text(mapping(mapping(template.get("metadata")).get("labels")).get(ANCESTOR))
        if step not in _OF_STEPS:
            continue
        # JobSet makes one replica if none is stated.
        replicas = integer(replicated_job.get("replicas"))
        if replicas not in {None, 1}:
            why = "Trainer refuses several replicas of a Job that trains or initializes"
            yield Finding(path / "replicas", replicas, why, "set 1, and the number of nodes in mlPolicy.numNodes")
        pod = mapping(mapping(mapping(template.get("spec")).get("template")).get("spec"))
        names = [text(mapping(container).get("name")) for container in sequence(pod.get("containers"))]
        if _OF_STEPS[step] not in names:
            yield Finding(
                path / "template" / "spec" / "template" / "spec" / "containers",
                names[0] if names else None,
                f"Trainer refuses it without a container named {_OF_STEPS[step]}",
                f"name the container {_OF_STEPS[step]}",
            )


# What Trainer writes into the containers of its trainer, by policy of the runtime.
_WRITTEN = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    ),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
}
# The Job and the container that initialize, by field of the TrainJob.
_INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
_OF_TRAINER = frozenset({"node", *_INITIALIZERS.values()})
_VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"


@rule(
    "owner/runtime-parts",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    independent=True,
    passes=Example(train_job(trainer={"env": [{"name": "DEBUG"}]}), facts=runtimes()),
    fails=Example(train_job(initializer={"dataset": {"storageUri": "hf://data"}}), facts=runtimes()),
)
def runtime_parts(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Trainer refuses a TrainJob if its runtime lacks the Job or the container of an initializer or of a patch, or the
    launcher that is to be one of its nodes, or if the runtime names an empty queue of Volcano. It also refuses a
    variable that Trainer itself writes, and a patch with variables of the trainer or of an initializer.

    Source: kubeflow/trainer, pkg/runtime/framework/plugins/jobset, torch and mpi (`Validate`, v2.0.0 to v2.3.0),
    xgboost and volcano (v2.2.0), pkg/constants.
    """
    # owner/runtime reports a runtime that is missing, unknown or unreadable.
    if isinstance(workload, TrainJob):
        with suppress(Malformed):
            runtime = runtime_of(workload, context.facts)
            yield from () if runtime is None else list(_runtime_faults(workload, runtime))


def _runtime_faults(workload: TrainJob, runtime: Runtime) -> Iterator[Finding]:
    called = f"{workload.runtime_kind} {runtime.name}"
    parts = {
        text(mapping(raw).get("name")): {
            text(mapping(container).get("name")) for container in _containers_of(mapping(raw))
        }
        for raw in sequence(mapping(runtime.template.get("spec")).get("replicatedJobs"))
    }
    for field, initializer in _INITIALIZERS.items():
        is_stated = mapping(workload.spec.get("initializer")).get(field) is not None
        if is_stated and initializer not in parts.get(initializer, ()):
            what = "container" if initializer in parts else "replicated Job"
            why = f"Trainer refuses it: {called} has no {what} of this name"
            yield Finding(SPEC / "initializer" / field, initializer, why, "remove it, or name a runtime that has it")
    for index, raw in enumerate(sequence(workload.spec.get("runtimePatches"))):
        path = SPEC / "runtimePatches" / Item(index) / "trainingRuntimeSpec" / "template" / "spec" / "replicatedJobs"
        patch = mapping(mapping(mapping(mapping(raw).get("trainingRuntimeSpec")).get("template")).get("spec"))
        for place, patched in enumerate(sequence(patch.get("replicatedJobs"))):
            name = text(mapping(patched).get("name"))
            containers = {text(mapping(container).get("name")) for container in _containers_of(mapping(patched))}
            unknown = [name] if name not in parts else sorted(filter(None, containers - parts[name]))
            for unknown_name in unknown:
                what = "replicated Job" if name not in parts else "container"
                why = f"Trainer refuses it: {called} has no {what} of this name"
                remedy = "name one that the runtime has, or remove the patch"
                yield Finding(path / Item(place, name), unknown_name, why, remedy)
            yield from _patch_variable_faults(mapping(patched), parts.get(name, set()), path / Item(place, name))
    yield from _policy_faults(workload, runtime, parts)
    policies = mapping(runtime.spec.get("mlPolicy"))
    written = {name for policy, names in _WRITTEN.items() if policies.get(policy) is not None for name in names}
    for index, variable in enumerate(sequence(mapping(workload.spec.get("trainer")).get("env"))):
        name = text(mapping(variable).get("name"))
        if name in written:
            why = "Trainer writes this variable itself, and refuses the TrainJob"
            yield Finding(SPEC / "trainer" / "env" / Item(index, name), name, why, "remove it")


def _patch_variable_faults(
    patched: Mapping[str, Any], containers: Container[str | None], path: FieldPath
) -> Iterator[Finding]:
    job = mapping(mapping(patched.get("template")).get("spec"))
    place = path / "template" / "spec" / "template" / "spec" / "containers"
    pod = mapping(mapping(job.get("template")).get("spec"))
    for index, raw in enumerate(sequence(pod.get("containers"))):
        name, variables = text(mapping(raw).get("name")), sequence(mapping(raw).get("env"))
        if name in _OF_TRAINER and name in containers and variables:
            why = "Trainer refuses a patch with variables of this container"
            remedy = "write them in spec.trainer.env, or in spec.initializer"
            yield Finding(place / Item(index, name) / "env", text(mapping(variables[0]).get("name")), why, remedy)


def _policy_faults(workload: TrainJob, runtime: Runtime, parts: Container[str | None]) -> Iterator[Finding]:
    """Yields what the policies of a runtime demand of it: a launcher beside other nodes, and the name of a queue."""
    called = f"{workload.runtime_kind} {runtime.name}"
    mpi = mapping(mapping(runtime.spec.get("mlPolicy")).get("mpi"))
    nodes = integer(mapping(workload.spec.get("trainer")).get("numNodes"))
    if mpi.get("runLauncherAsNode") is True and nodes is not None and nodes > 1:
        for name in ("launcher", "node"):
            if name not in parts:
                why = (
                    f"Trainer refuses several nodes: the launcher of {called} is one of them, and it has no "
                    f"replicated Job {name}"
                )
                yield Finding(SPEC / "trainer" / "numNodes", nodes, why, "set 1, or name a runtime that has it")
                return
    annotations = mapping(mapping(runtime.template.get("metadata")).get("annotations"))
    if any(plugin.name == "volcano" for plugin in runtime.plugins) and annotations.get(_VOLCANO_QUEUE) == "":
        why = f"Trainer refuses it: {called} has the annotation {_VOLCANO_QUEUE} without the name of a queue"
        remedy = "name the queue in the template of the runtime, or remove the annotation"
        yield Finding(workload.runtime_path, runtime.name, why, remedy)


def _containers_of(replicated_job: Mapping[str, Any]) -> list[Any]:
    job = mapping(mapping(replicated_job.get("template")).get("spec"))
    pod = mapping(mapping(job.get("template")).get("spec"))
    return [*sequence(pod.get("containers")), *sequence(pod.get("initContainers"))]


def _labelled_namespace(**labels: str) -> ClusterFacts:
    prefixed = {f"rollcall.dev/{key}": value for key, value in labels.items()}
    return replace(runtimes(), namespaces={"default": Namespace(prefixed)})


@rule(
    "owner/train-job-alone",
    subject=Subject.OPTED_IN,
    capability=Capability.GANG,
    passes=Example(train_job(), facts=_labelled_namespace(scheduler="koord-scheduler")),
    fails=Example(train_job(), facts=_labelled_namespace()),
)
def train_job_alone(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Trainer copies no label of a TrainJob to the JobSet that it makes. If neither the namespace nor the runtime has
    the label, the JobSet is not opted in, and its pods start one by one.

    Source: kubeflow/trainer, pkg/runtime/framework/plugins/jobset (v2.3.0): the JobSet has the labels of the runtime's
    template and of runtimePatches.
    """
    if not isinstance(workload, TrainJob) or workload.scheduler is None or context.choice.forced:
        return
    if workload.managed_elsewhere is not None:
        # Its JobSet is made in a namespace of another cluster.
        return
    namespace = (context.facts.namespaces or {}).get(workload.namespace)
    runtime = runtime_of(workload, context.facts)
    if runtime is None or (namespace is not None and SCHEDULER_LABEL in namespace.labels):
        return
    if workload.job_set(runtime).scheduler is not None:
        return
    if namespace is None:
        name = workload.namespace
        yield Unjudged(
            LABELS / SCHEDULER_LABEL,
            f"the labels of Namespace {name}",
            remedy=_supply(name, "Namespace"),
            part="namespaces",
        )
    else:
        yield Finding(
            at=LABELS / SCHEDULER_LABEL,
            value=workload.scheduler,
            why="Trainer does not copy labels of a TrainJob, so its JobSet and its pods would not be opted in",
            remedy="label the namespace, or add the label in runtimePatches[].trainingRuntimeSpec.template.metadata",
            # The label may have been added a moment ago.
            absent=Needed("namespaces", workload.namespace),
        )


def _supply(name: str, kind: str) -> str:
    return f"add the {kind} to the files, or give the output of `kubectl get {kind} {name} -o yaml` with --facts"


_POD_GROUP = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")


@rule(
    "owner/api-missing",
    subject=Subject.OPTED_IN,
    passes=Example(job(), facts=ClusterFacts(apis=frozenset({_POD_GROUP}))),
    fails=Example(job(), facts=ClusterFacts(apis=frozenset({Api("batch", "v1", "Job")}))),
)
def api_missing(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Without the kind of its gang objects a scheduler either holds the pods for a group that cannot be written, or
    does not know that they are a gang. The API server drops fields that the CRD of an older release lacks, without an
    error.

    Source: as for rollcall/api-missing.
    """
    # The JobSet of a TrainJob is judged with the TrainJob.
    if not isinstance(workload, TrainerJobSet):
        yield from missing_apis(context)


_TAKEN = ClusterFacts(
    job_sets={("default", "demo"): WorkloadFacts(Record("koord-scheduler"), names=frozenset({"demo"}))}
)


@rule(
    "owner/name-taken",
    subject=Subject.OPTED_IN,
    membership=True,
    passes=Example(job_set(), facts=_TAKEN),
    fails=Example(job(), facts=_TAKEN),
)
def name_taken(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Gangs and gang objects have the name of their workload. If two gangs have the same name, the second gets no
    objects, and its pods count for the first.

    Source: Rollcall's own names; the reconciler never touches an object that another workload controls.
    """
    if not context.makes_gangs or not workload.metadata.get("name"):
        return
    mine = opted_in_gang.names_of(workload)
    for kind, holder, names in _gangs_with_names(workload, context, mine):
        if names is None:
            yield Unjudged(METADATA / "name", f"the gang names of {kind} {holder.name}, which are too many to keep")
        elif shared := sorted(mine & names):
            yield Finding(
                at=METADATA / "name",
                value=workload.name,
                why=f"{kind} {holder.name} in the same namespace also has a gang with the name {shown(shared[0])}",
                remedy=f"rename the {workload.kind}",
                # It may have been deleted a moment ago.
                absent=holder,
            )
            return


_KINDS = {"jobs": JOBS.api, "job_sets": JOB_SETS.api, "leader_worker_sets": LEADER_WORKER_SETS.api}


def _gangs_with_names(
    workload: OptedInWorkload, context: Context[Any], mine: frozenset[str]
) -> Iterator[tuple[str, Needed, frozenset[str] | None]]:
    """Yields the gangs in the namespace that have the same scheduler and may have one of the names in `mine`, except
    the workload's own gangs. A gang's name starts with its workload's name, so only a few workloads are checked, no
    matter how many exist. Each gang comes with its names, or None if there are too many to keep.
    """
    facts, namespace, choice = context.facts, workload.namespace, context.choice
    others = sorted({other for name in mine for other in _possible_workloads(name)})
    for part, api in _KINDS.items():
        kind = api.kind
        if not context.gang_scheduler.makes_gangs_of(api.group_kind):
            # The scheduler names their gangs itself.
            continue
        workloads: dict[ObjectKey, WorkloadFacts] = getattr(facts, part) or {}
        for name in others:
            other = workloads.get((namespace, name))
            if other is None or (kind == workload.kind and name == workload.name):
                continue
            # What the caller chooses holds for all workloads that choose nothing.
            recorded = choice.scheduler if choice.forced and other.record.scheduler is None else other.record.scheduler
            if recorded == choice.scheduler and other.no_gang is None:
                # The pods of a LeaderWorkerSet decide which groups exist.
                groups = {
                    gang_name
                    for gang_name in mine
                    if kind == "LeaderWorkerSet" and _GROUP.match(gang_name.removeprefix(name))
                }
                yield kind, Needed(part, (namespace, name)), None if other.names is None else other.names | groups
    for name in others:
        key = (namespace, name)
        gang = (facts.pod_gangs or {}).get(key)
        if gang is not None and _scheduler_of(gang, key, facts) in {None, choice.scheduler}:
            members = None if gang.cliques is None else gang.cliques | {name}
            yield "PodGang", Needed("pod_gangs", key), members


# The part of a gang's name after the name of its LeaderWorkerSet: the group, and the revision of its template.
_GROUP = re.compile(r"-[0-9]+-[^-]+\Z")


def _possible_workloads(name: str) -> Iterator[str]:
    """Yields the possible names of a workload if one of its gangs or members has this name."""
    yield name
    for end, character in enumerate(name):
        if character == "-":
            yield name[:end]


def _scheduler_of(gang: PodGangFacts, key: ObjectKey, facts: ClusterFacts) -> str | None:
    record = (facts.pod_clique_sets or {}).get((key[0], gang.workload))
    return None if record is None else record.scheduler


_NEAR = {opted_in_gang.KAI_TOPOLOGY: "dc", opted_in_gang.KAI_REQUIRED: "example.com/rack"}
_SPEC = {opted_in_gang.KOORDINATOR_TOPOLOGY: '{"gatherStrategy":[{"layer":"RackLayer","strategy":"MustGather"}]}'}


@rule(
    "owner/topology-unread",
    subject=Subject.OPTED_IN,
    capability=Capability.TOPOLOGY_WORKLOAD,
    looks_at=opted_in_gang.READERS,
    default=Action.WARN,
    passes=Example(job(annotations=_SPEC)),
    fails=Example(job(annotations=_NEAR)),
)
def topology_unread(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Each scheduler reads topology by its own annotations. Any other annotation is stored and has no effect, so the
    pods may be spread over the cluster. KAI's podgrouper reads its keys on the workload and on the templates of a
    JobSet's Jobs, and on pod templates only those of Ray and of the workers of a LeaderWorkerSet. Rollcall reads
    Koordinator's and Volcano's keys on the workload and on its pod templates and writes them into the PodGroup. Trainer
    copies no annotation of a TrainJob.

    Source: KAI-Scheduler, pkg/podgrouper/podgrouper/plugins (v0.17.0); koordinator, pkg/scheduler/plugins/coscheduling
    (v1.8.0: a pod with a PodGroup has no settings of its own); volcano, pkg/controllers/podgroup (v1.15.1: read only
    for pods that name no group).
    """
    made_elsewhere = opted_in_gang.no_gang(workload) is not None
    for place in opted_in_gang.every_place(workload):
        for use in place.asks(*opted_in_gang.READERS):
            reader = opted_in_gang.READERS[str(use.path.parts[-1])]
            if reader not in context.reads_claims_of:
                why = f"only {reader} reads this annotation, so {context.choice.scheduler} places the pods on any nodes"
                yield Finding(at=use.path, value=use.value, why=why, remedy=f"remove it, or choose {reader_of(reader)}")
            elif not made_elsewhere and not _is_read(place, reader, workload):
                yield Finding(at=use.path, value=use.value, why=_why(place, reader), remedy=_remedy(workload, reader))


def _is_read(place: opted_in_gang.Annotations, reader: str, workload: OptedInWorkload) -> bool:
    if reader == "KAI":
        # The workers of a LeaderWorkerSet name the topology of its segments.
        of_template = isinstance(workload, LeaderWorkerSet) or workload.resource.api.group == "ray.io"
        return place.holder is not opted_in_gang.AnnotationPlace.PODS or of_template
    return place.holder is opted_in_gang.AnnotationPlace.PODS or (
        place.holder is opted_in_gang.AnnotationPlace.WORKLOAD and not isinstance(workload, TrainJob)
    )


def _why(place: opted_in_gang.Annotations, reader: str) -> str:
    if reader == "KAI":
        return f"KAI's podgrouper does not read it on {place.holder.value}, so the pods are placed on any nodes"
    copied = (
        "Trainer does not copy it to its JobSet"
        if place.holder is opted_in_gang.AnnotationPlace.WORKLOAD
        else "no pod gets it"
    )
    return f"{copied}, so the pods are placed on any nodes"


def _remedy(workload: OptedInWorkload, reader: str) -> str:
    if isinstance(workload, TrainJob):
        return "set it in a runtimePatch, in the metadata of the JobSet"
    return "move it to the workload's own annotations" if reader == "KAI" else "move it to the pod template"
