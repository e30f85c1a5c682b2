"""The topology of Jobs, JobSets, LeaderWorkerSets and of the JobSets of TrainJobs, which Rollcall writes on their
PodGroups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webhook.backends.koordinator.carried_topology import RULE, asked_by, differing
from webhook.backends.koordinator.keys import ANNOTATION_TOPOLOGY, POD_GROUP, POD_GROUPS
from webhook.backends.koordinator.rules import pod_group_topology
from webhook.backends.koordinator.rules.examples import SPINE_LAYERS, gather_from
from webhook.backends.koordinator.settings import RuleContext
from webhook.backends.topology_families import CarriedTopology, left_out, opted_in_topology
from webhook.model.capabilities import Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.workloads.gang import no_gang
from webhook.model.workloads.topology_request import Annotations, Holder, domains
from webhook.model.workloads.workload import OptedInWorkload, Part
from webhook.validators.opted_in_examples import job, job_set, pod_template, replicated
from webhook.validators.registry import Example, Results, Subject, rule

_FACTS = ClusterFacts(network_topologies=SPINE_LAYERS)
_DIFFER = "parts of one gang ask for different ones"


def _gangs(workload: OptedInWorkload, context: RuleContext) -> Iterator[Sequence[Part]]:
    """The parts of each gang that Rollcall makes."""
    if not context.makes_gangs or no_gang(workload) is not None:
        return
    parts = [part for part in workload.parts if part.pods > 0]
    yield from [parts] if workload.sequence_path is None else ([part] for part in parts)


def _carried(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    uses = [use for parts in _gangs(workload, context) for use in asked_by(workload, parts) if use is not None]
    for use in {use.path: use for use in uses}.values():
        metadata = {"name": workload.name, "annotations": {ANNOTATION_TOPOLOGY: use.value}}
        yield CarriedTopology({"metadata": metadata}, {ANNOTATION_TOPOLOGY: use}, by_rollcall=True)


topology = opted_in_topology(
    RULE,
    """If the topology of a gang requires a layer that the ClusterNetworkTopology does not declare, or if the scheduler
    has no topology, koord-scheduler places no pod of the gang. Rollcall writes the annotation of the workload, or of
    its pods, on the PodGroups: koord-scheduler does not read it on a pod whose label names a PodGroup. It leaves such a
    topology out, so that the gang starts on any nodes.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/{core,gang,network_topology_solver}.go,
    v1.7.0 to v1.8.0.
    """,
    kind=POD_GROUPS,
    version=POD_GROUP.version,
    rules=(pod_group_topology.topology_unavailable, pod_group_topology.topology_layer),
    carried=_carried,
    looks_at=(ANNOTATION_TOPOLOGY,),
    leaves_out=True,
    passes=Example(job(annotations=gather_from("SpineLayer")), facts=_FACTS),
    fails=Example(job(annotations=gather_from("RackLayer")), facts=_FACTS),
    default=Action.WARN,
)

unread = opted_in_topology(
    "koordinator/owner-topology-unread",
    """koord-scheduler drops a topology with a value of the wrong JSON type, and ignores an entry whose strategy it does
    not know. The gang then starts on any nodes.

    Source: koordinator-sh/koordinator, apis/extension/network_topology.go (`GetNetworkTopologySpec`), v1.8.0.
    """,
    kind=POD_GROUPS,
    version=POD_GROUP.version,
    rules=(pod_group_topology.topology_unreadable, pod_group_topology.topology_strategy),
    carried=_carried,
    looks_at=(ANNOTATION_TOPOLOGY,),
    passes=Example(job(annotations=gather_from("SpineLayer")), facts=_FACTS),
    fails=Example(job(annotations=gather_from("SpineLayer", "mustGather")), facts=_FACTS),
    default=Action.WARN,
)


def _asked(use: Use) -> Any:
    """The layer that an annotation names; all of it if it names none."""
    required, preferred = domains(Annotations(Holder.PODS, use.path, {ANNOTATION_TOPOLOGY: use.value}))
    return required or preferred or use.value


def _pods(layer: str) -> dict[str, object]:
    return pod_template(annotations=gather_from(layer))


@rule(
    "koordinator/owner-topology-differs",
    subject=Subject.OPTED_IN,
    capability=Capability.TOPOLOGY_WORKLOAD,
    looks_at=(ANNOTATION_TOPOLOGY,),
    default=Action.WARN,
    passes=Example(job_set(replicated("leader"), replicated("worker"), annotations=gather_from("SpineLayer"))),
    fails=Example(job_set(replicated("leader"), replicated("worker", template=_pods("SpineLayer")))),
)
def topology_differs(workload: OptedInWorkload, context: RuleContext) -> Results:
    """koord-scheduler applies the topology of the gang whose pod it tries first to all pods of the GangGroup. If the
    parts of a workload ask for different topologies, the result depends on which pod is tried first. So Rollcall writes
    none of them.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`NextPod`), v1.7.0 to v1.8.0.
    """
    for parts in _gangs(workload, context):
        if (use := differing(asked_by(workload, parts))) is not None:
            remedy = "ask for the same"
            yield Finding(at=use.path, found=_asked(use), why=_DIFFER, remedy=left_out(remedy), left_out=True)
