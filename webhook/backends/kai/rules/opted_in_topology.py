"""The topology of TrainJobs, JobSets, LeaderWorkerSets and Jobs, from which podgrouper makes that of their PodGroup.

Podgrouper reads three annotations: on the workload for the whole PodGroup, on the template of a JobSet's Jobs for each
Job, and on the pod templates of Ray's head and groups of workers for each of these. If a TrainJob's JobSet lacks an
annotation, podgrouper adds the TrainJob's. It ignores a Job's annotations unless they name a Topology and a level, and
before 0.16 in any case. Source: kai-scheduler/KAI-Scheduler,
pkg/podgrouper/podgrouper/plugins/{defaultgrouper,jobset,ray,skiptopowner} (v0.15.2, v0.17.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from webhook.backends.kai.keys import ANNOTATION_SKIP, NAME, POD_GROUP, POD_GROUPS, TOPOLOGY_FIELDS
from webhook.backends.kai.podgrouper import TREES, reads_pods
from webhook.backends.kai.rules import pod_group_topology
from webhook.backends.kai.settings import RuleContext
from webhook.backends.topology_families import CarriedTopology, opted_in_topology
from webhook.model.capabilities import Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.known_objects import KaiLevels
from webhook.model.reading import Manifest
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.topology_request import (
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    Annotations,
    of_jobs,
    of_pods,
    of_workload,
)
from webhook.model.workloads.trainjob import MadeJobSet, TrainJob
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job_set, replicated, runtimes, train_job
from webhook.validators.registry import Example, Results, Subject, rule

_ZONE, _RACK = "example.com/zone", "example.com/rack"
_LEVELS = ClusterFacts(kai_topologies={"dc": KaiLevels((_ZONE, _RACK), {})})
_FACTS = replace(runtimes(), kai_topologies=_LEVELS.kai_topologies)


def _near(topology: str = "dc", level: str = _RACK) -> dict[str, str]:
    return {KAI_TOPOLOGY: topology, KAI_REQUIRED: level}


def _read_by_podgrouper(workload: OptedInWorkload, context: RuleContext) -> OptedInWorkload | None:
    """The workload whose PodGroup podgrouper makes. If the runtime of a TrainJob is unknown, only the TrainJob's own
    annotations are known. None if podgrouper makes no PodGroup, or if the JobSet is judged with its TrainJob.
    """
    if workload.annotations.get(ANNOTATION_SKIP) == "true":
        return None
    whole = with_pods(workload, context.facts)
    return workload if whole is None and isinstance(workload, TrainJob) else whole


def _asks(place: Annotations) -> dict[str, Use]:
    return {TOPOLOGY_FIELDS[str(use.path.parts[-1])]: use for use in place.asks(*TOPOLOGY_FIELDS)}


def _of_whole(made: OptedInWorkload) -> dict[str, Use]:
    """What the whole PodGroup asks for, by field, with the places in the workload that its author wrote."""
    own = _asks(of_workload(made))
    if not isinstance(made, MadeJobSet):
        return own
    own = {field: Use(made.in_train_job(use.path), use.value) for field, use in own.items()}
    found = {**_asks(of_workload(made.train_job)), **own}
    return {field: found[field] for field in TOPOLOGY_FIELDS.values() if field in found}


def _is_complete(asked: Mapping[str, Use]) -> bool:
    """Whether podgrouper reads what a Job asks for."""
    return "topology" in asked and len(asked) > 1


def _reads_jobs(context: RuleContext) -> bool:
    return context.scheduler_version is None or context.scheduler_version >= TREES


def _carried(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    made = _read_by_podgrouper(workload, context)
    if made is None:
        return
    places = [_of_whole(made)]
    if reads_pods(made):
        places += [asked for part in made.distinct_parts if _is_complete(asked := _asks(of_pods(part)))]
    if _reads_jobs(context):
        places += [_placed(asked, made) for asked in map(_asks, of_jobs(made)) if _is_complete(asked)]
    for asked in places:
        if asked:
            constraint = {field: use.value for field, use in asked.items()}
            yield CarriedTopology(_pod_group(made, constraint), asked, _where(asked, made))


def _placed(asked: Mapping[str, Use], made: OptedInWorkload) -> dict[str, Use]:
    if not isinstance(made, MadeJobSet):
        return dict(asked)
    return {field: Use(made.in_train_job(use.path), use.value) for field, use in asked.items()}


def _where(asked: Mapping[str, Use], made: OptedInWorkload) -> str:
    """Names the runtime of a TrainJob, if it is the origin of a value."""
    if isinstance(made, MadeJobSet) and any(use.path == made.train_job.runtime_path for use in asked.values()):
        return f"{made.train_job.runtime_kind} {made.runtime.name}"
    return ""


def _pod_group(made: OptedInWorkload, constraint: Mapping[str, str]) -> Manifest:
    metadata = {"name": made.name, "namespace": made.namespace}
    return {"metadata": metadata, "spec": {"topologyConstraint": dict(constraint)}}


topology = opted_in_topology(
    "kai/owner-topology",
    """kai-scheduler never starts a group whose Topology does not exist, whose level is not in the Topology, that names
    no level, or whose preferred level is broader than the required one. If the level is at fault, it reports only
    "unable to schedule". Podgrouper copies the annotations of these workloads without a check.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,jobset},
    pkg/scheduler/plugins/topology; seen with v0.16.8.
    """,
    kind=POD_GROUPS,
    version=POD_GROUP.version,
    rules=(pod_group_topology.group_topology,),
    carried=_carried,
    looks_at=TOPOLOGY_FIELDS,
    passes=Example(train_job(scheduler=NAME, annotations=_near()), facts=_FACTS),
    fails=Example(train_job(scheduler=NAME, annotations=_near("racks")), facts=_FACTS),
)

unnamed = opted_in_topology(
    "kai/owner-topology-unnamed",
    """kai-scheduler ignores a level without a Topology, and the pods start on any nodes.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go; seen with v0.16.8.
    """,
    kind=POD_GROUPS,
    version=POD_GROUP.version,
    rules=(pod_group_topology.group_topology_unnamed,),
    carried=_carried,
    looks_at=TOPOLOGY_FIELDS,
    passes=Example(train_job(scheduler=NAME, annotations=_near()), facts=_FACTS),
    fails=Example(train_job(scheduler=NAME, annotations={KAI_REQUIRED: _RACK}), facts=_FACTS),
    default=Action.WARN,
)


def _of_job(**annotations: str) -> Manifest:
    named = {f"kai.scheduler/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return job_set(replicated("node", metadata={"annotations": named}), scheduler=NAME)


@rule(
    "kai/owner-topology-of-jobs",
    subject=Subject.OPTED_IN,
    capability=Capability.TOPOLOGY_WORKLOAD,
    looks_at=TOPOLOGY_FIELDS,
    default=Action.WARN,
    passes=Example(_of_job(topology="dc", topology_required_placement=_RACK), facts=_LEVELS),
    fails=Example(_of_job(topology_required_placement=_RACK), facts=_LEVELS),
)
def topology_of_jobs(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper reads the topology of a JobSet's Jobs only if the same template names a Topology and a level, and only
    from 0.16 on. Otherwise it ignores these annotations without a message, as it ignores a Topology without a level on
    a template of Ray's.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{jobset,ray} (v0.15.2, v0.17.0).
    """
    made = _read_by_podgrouper(workload, context)
    for part in made.distinct_parts if made is not None and reads_pods(made) else ():
        asked = _asks(of_pods(part))
        if asked.keys() == {"topology"}:
            use = asked["topology"]
            why, remedy = "podgrouper ignores it without a level", f"add {KAI_REQUIRED} to the template"
            yield Finding(at=use.path, found=use.value, why=why, remedy=remedy)
    for place in () if made is None else of_jobs(made):
        asked = _asks(place)
        if not asked or (_is_complete(asked) and _reads_jobs(context)):
            continue
        use = next(iter(_placed(asked, made or workload).values()))
        if _reads_jobs(context):
            other = KAI_REQUIRED if "topology" in asked else KAI_TOPOLOGY
            why = "podgrouper ignores it without the other annotation"
            remedy = f"add {other} to the template"
        else:
            why = f"before {TREES} podgrouper does not read the topology of a JobSet's Jobs"
            remedy = "set it on the workload itself"
        yield Finding(at=use.path, found=use.value, why=why, remedy=remedy)
