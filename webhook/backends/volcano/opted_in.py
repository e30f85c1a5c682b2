"""Rules about TrainJobs, JobSets, LeaderWorkerSets and Jobs on Volcano: their queue, and the topology that Rollcall
writes into their PodGroups; and about the PodGroup that Spark's operator makes.

A workload names its queue by the annotation scheduling.grove.io/volcano-queue, or by Volcano's own annotation, on
itself or on its pod templates. If a plugin of Trainer or LeaderWorkerSet's provider makes the PodGroup, it reads
Volcano's own annotation.

`minResources` of Spark's PodGroup is `batchSchedulerOptions.resources`, else what the driver and the first executors
request. Without memory overhead and settings of Spark that is the least. A PodGroup with more than the capability of
its Queue stays Pending, and its pods with it. Source: kubeflow/spark-operator v2.5, internal/scheduler/volcano;
volcano-sh/volcano, pkg/scheduler/plugins/{capacity,proportion} (`JobEnqueueable`, v1.15.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from webhook.backends import families
from webhook.backends.queues import opted_in_disagreement, opted_in_queue
from webhook.backends.topologies import CarriedTopology, opted_in_topology
from webhook.backends.volcano import pod_clique_sets as set_rules
from webhook.backends.volcano import pod_groups
from webhook.backends.volcano.gangs import RULE, requested_at
from webhook.backends.volcano.keys import DEFAULT_QUEUE, NAME, POD_GROUP, POD_GROUPS, RuleContext
from webhook.backends.volcano.pod_clique_sets import KNOWN_QUEUES, judge_queue, queue_annotation, syntax_rule
from webhook.fit.verdict import resource_amount_text
from webhook.model.capabilities import VOLCANO_QUEUE, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding, shown
from webhook.model.known_objects import HyperNode, VolcanoQueue
from webhook.model.quantity import exact_amounts, parse_quantity, rounded_down
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.examples import job, volcano_job, volcano_task
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.shared_checks import Key, name_uses
from webhook.validators.volcano_jobs import order_faults
from webhook.workloads.kueue_integration import runtime_of
from webhook.workloads.opted_in_gang import (
    VOLCANO_MODE,
    VOLCANO_TIER,
    annotations_of_pods,
    annotations_of_workload,
    no_gang,
)
from webhook.workloads.opted_in_workload import QUEUE_ANNOTATIONS, OptedInWorkload
from webhook.workloads.trainjob import TrainJob
from webhook.workloads.volcano_job import VOLCANO_JOB, minimum_of, tasks_count, tasks_of

_VOLCANO = "volcano"


def _keys(_: RuleContext) -> tuple[Key, ...]:
    return tuple(("annotations", key) for key in QUEUE_ANNOTATIONS)


queue = opted_in_queue(
    "volcano/owner-queue",
    """Volcano drops a gang whose queue is missing, with only a log line. It holds a gang whose queue is not Open. A
    gang in `root` or in a queue with children may stop every other queue. A workload that names no queue is in the
    profile's defaultQueue.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}; seen with vc-scheduler v1.15.1.
    """,
    keys=_keys,
    judge=judge_queue,
    passes=Example(job(scheduler=_VOLCANO, annotations=queue_annotation("team-a")), facts=KNOWN_QUEUES),
    fails=Example(job(scheduler=_VOLCANO, annotations=queue_annotation("team-b")), facts=KNOWN_QUEUES),
)

queue_name = syntax_rule(
    "volcano/owner-queue-name",
    lambda workload, context: name_uses(workload, _keys(context), _keys(context)),
    subject=Subject.OPTED_IN,
    passes=Example(job(scheduler=_VOLCANO, annotations=queue_annotation("team-a"))),
    fails=Example(job(scheduler=_VOLCANO, annotations=queue_annotation("Team A"))),
)

queue_disagree = opted_in_disagreement(
    "volcano/owner-queue-disagree",
    """A gang is one PodGroup with one queue. If a pod template names another queue, that name is ignored.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1.
    """,
    scheduler=_VOLCANO,
    key=("annotations", VOLCANO_QUEUE),
    keys=_keys,
    of_pods=_keys,
    remedy=lambda _: f"name one queue, preferably in the annotation {VOLCANO_QUEUE} of the workload",
)

resource_claims = families.opted_in_resource_claims(
    "volcano/owner-resource-claims", set_rules.resource_claims.documentation, scheduler=_VOLCANO
)

# --- Volcano's own Job

_TAIL = volcano_task("tail", 2, dependsOn={"name": ["head"]})


@rule(
    "volcano/job-in-turn",
    subject=Subject.OPTED_IN,
    independent=True,
    of_kind=VOLCANO_JOB,
    passes=Example(volcano_job(volcano_task("head", 4), _TAIL, minAvailable=4)),
    fails=Example(volcano_job(volcano_task("head", 4), _TAIL, minAvailable=5)),
)
def job_in_turn(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Volcano creates the pods of a task with dependsOn when the tasks before it run, but no task runs before the gang
    has its minimum. A minimum that counts pods of later tasks is never reached. The minimums of tasks count, too, if
    they are not more than minAvailable together.

    Source: volcano-sh/volcano, pkg/controllers/job/job_controller_actions.go, pkg/scheduler/api/job_info.go
    (`CheckTaskValid`, v1.15.1), issues 2226 and 2944.
    """
    minimum = minimum_of(workload)
    if minimum is None or any(order_faults(workload)):
        # Without one, owner/incomplete reports the task; volcano/job-shape reports an order that cannot be.
        return
    tasks = tasks_of(workload)
    first = sum(task.replicas for task in tasks if not task.waits)
    waiting = [task for task in tasks if task.waits and task.replicas > 0]
    if not waiting:
        return
    if minimum > first:
        yield Finding(
            at=SPEC / "minAvailable",
            value=minimum,
            why=f"only {first} pods exist before the tasks with dependsOn are created, so the gang never starts",
            remedy=f"set at most {first}",
            instead=(first,),
        )
        return
    for task in waiting if tasks_count(tasks, minimum) else ():
        if task.needed:
            yield Finding(
                at=task.path / "minAvailable",
                value=task.stated,
                why="the gang waits for pods of this task, which is created when the tasks before it run",
                remedy="set it to 0",
                instead=(0,),
            )


_ON = {"topology": "hypernode"}
_TIERS = ClusterFacts(hyper_nodes={"rack-1": HyperNode(1, "rack"), "zone-1": HyperNode(2, "zone")})


def _asking(tier: str) -> Manifest:
    return job(scheduler=NAME, annotations={VOLCANO_MODE: "hard", VOLCANO_TIER: tier})


def _carried(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    """Yields what Rollcall writes into the PodGroup; for a TrainJob, what the Volcano plugin of Trainer writes."""
    if isinstance(workload, TrainJob):
        yield from _plugin_topology(workload, context)
        return
    if not context.makes_gangs or no_gang(workload) is not None:
        return
    places = (
        [annotations_of_workload(workload), *map(annotations_of_pods, workload.distinct_parts)]
        if workload.parts
        else []
    )
    for requested in map(requested_at, places):
        if requested is not None:
            spec = {"networkTopology": requested.topology}
            yield CarriedTopology(
                {"metadata": {"name": workload.name}, "spec": spec}, requested.origins, by_rollcall=True
            )


def _plugin_topology(workload: TrainJob, context: RuleContext) -> Iterator[CarriedTopology]:
    runtime = runtime_of(workload, context.facts)
    if runtime is None:
        return
    plugin = next((plugin for plugin in runtime.plugins if plugin.name == "volcano"), None)
    if plugin is None:
        return
    try:
        topology = mapping(mapping(mapping(runtime.spec.get("podGroupPolicy")).get("volcano")).get("networkTopology"))
        _ = text(topology.get("mode")), integer(topology.get("highestTierAllowed"))
    except Malformed:
        # In a cluster no such runtime is stored, and the TrainJob is not at fault.
        return
    if topology:
        # The CRD's default.
        spec = {"networkTopology": {"highestTierAllowed": 1, **topology}}
        origins = {"networkTopology": Use(workload.runtime_path, runtime.name)}
        where = f"{workload.runtime_kind} {runtime.name}, {plugin.path}.networkTopology"
        yield CarriedTopology({"metadata": {"name": workload.name}, "spec": spec}, origins, where)


topology = opted_in_topology(
    RULE,
    """Volcano ignores a hard topology without a tier, with a tier above all HyperNodes, or in a cluster without
    HyperNodes. A gang with a tier below all HyperNodes, or with tier 0, never starts. Rollcall writes the annotations
    of the workload into the PodGroup, and those of its pods into their subgroup. It leaves such a tier out, so that the
    gang starts on any nodes. The Volcano plugin of Trainer writes the topology of the runtime as it is.

    Source: volcano-sh/volcano, pkg/scheduler/framework/session.go; seen with vc-scheduler v1.15.1; kubeflow/trainer,
    pkg/runtime/framework/plugins/volcano (v2.3.0).
    """,
    kind=POD_GROUPS,
    version=POD_GROUP.version,
    rules=(pod_groups.group_tier,),
    carried=lambda workload, context: _carried(workload, context) if context.settings.topology != "off" else iter(()),
    looks_at=(VOLCANO_MODE, VOLCANO_TIER),
    leaves_out=True,
    passes=Example(_asking("1"), facts=_TIERS, config=_ON),
    fails=Example(_asking("3"), facts=_TIERS, config=_ON),
    default=Action.WARN,
)

off = opted_in_topology(
    "volcano/owner-topology-off",
    """Volcano accepts a topology and ignores it without a message if its plugin network-topology-aware is off, as it is
    by default. So Rollcall writes a topology only if the profile's topology is `hypernode`.

    Source: volcano-sh/volcano, installer/helm/chart/volcano (the scheduler's configuration); seen with vc-scheduler
    v1.15.1.
    """,
    kind=POD_GROUPS,
    version=POD_GROUP.version,
    rules=(pod_groups.group_topology_off,),
    carried=_carried,
    looks_at=(VOLCANO_MODE, VOLCANO_TIER),
    passes=Example(_asking("1"), facts=_TIERS, config=_ON),
    fails=Example(_asking("1"), facts=_TIERS),
    default=Action.WARN,
)

_SPARK = ("sparkoperator.k8s.io", "SparkApplication")
_OPTIONS = SPEC / "batchSchedulerOptions"
_MEMORY = re.compile(r"([0-9]{1,12})([kmgtp]?)b?\Z", re.IGNORECASE)
_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_TINY = ClusterFacts(volcano_queues={"team-a": VolcanoQueue("root", "Open", {"cpu": 4000}, {})})


def _application(executors: int) -> Manifest:
    metadata = {"name": "demo", "namespace": "default", "labels": {SCHEDULER_LABEL: "volcano"}}
    spec = {
        "type": "Scala",
        "mode": "cluster",
        "batchScheduler": "volcano",
        "batchSchedulerOptions": {"queue": "team-a"},
        "driver": {"cores": 1},
        "executor": {"cores": 1, "instances": executors},
    }
    head = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}
    return {**head, "metadata": metadata, "spec": spec}


@rule(
    "volcano/owner-spark-queue",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_application(3), facts=_TINY),
    fails=Example(_application(4), facts=_TINY),
)
def spark_queue(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Volcano lets no pod of a group start while the group's minResources are above the capability of its Queue. The
    PodGroup of Spark's operator has those of the driver and of the first executors, so the driver waits for ever.

    Source: kubeflow/spark-operator v2.5, internal/scheduler/volcano; volcano-sh/volcano,
    pkg/scheduler/plugins/{capacity,proportion} (`JobEnqueueable`, v1.15.1), issue 3910.
    """
    spec = workload.spec
    if workload.resource.api.group_kind != _SPARK or spec.get("batchScheduler") != "volcano":
        return
    try:
        options = mapping(spec.get("batchSchedulerOptions"))
        name = text(options.get("queue")) or DEFAULT_QUEUE
        stated = mapping(options.get("resources"))
        least = exact_amounts(stated) if stated else _least(spec)
    except Malformed:
        # Rules about the shape of the object report it.
        return
    queue = (context.facts.volcano_queues or {}).get(name)
    limits = {} if queue is None else queue.capability or {}
    for resource, amount in (least or {}).items():
        needed, limit = rounded_down(resource, amount), limits.get(resource, 0)
        if 0 < limit < needed:
            yield Finding(
                at=_OPTIONS / "queue",
                value=name,
                why=f"the operator's PodGroup requests at least {resource_amount_text(resource, needed)}; "
                "the Volcano Queue "
                f"{shown(name)} allows {resource_amount_text(resource, limit)}",
                remedy="name a Queue that allows it, or lower what driver and executors request",
            )
            return


def _least(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """Returns what driver and first executors request at least. Raises `Malformed`."""
    driver, executor = mapping(spec.get("driver")), mapping(spec.get("executor"))
    instances = integer(executor.get("instances"))
    amounts = dict[str, Fraction]()
    for holder, count in ((driver, 1), (executor, 1 if instances is None else max(instances, 0))):
        for resource, amount in (("cpu", _cpu(holder)), ("memory", _memory(holder))):
            amounts[resource] = amounts.get(resource, Fraction(0)) + amount * count
    return amounts


def _cpu(holder: Mapping[str, Any]) -> Fraction:
    requested = holder.get("coreRequest")
    if requested is None:
        return Fraction(max(integer(holder.get("cores")) or 0, 0))
    return max(parse_quantity(requested) or Fraction(0), Fraction(0))


def _memory(holder: Mapping[str, Any]) -> Fraction:
    """Returns the memory of a Java machine, whose suffixes are binary."""
    written = _MEMORY.match(text(holder.get("memory")) or "")
    return Fraction(0) if written is None else Fraction(int(written[1]) * _SIZES[written[2].lower()])
