"""The topology of Jobs, JobSets, LeaderWorkerSets and of the JobSets of TrainJobs, which Rollcall writes into their
PodGroups.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.backends.topology_families import CarriedTopology, opted_in_topology
from webhook.backends.volcano.carried_topology import RULE, asked_at
from webhook.backends.volcano.keys import NAME, POD_GROUP, POD_GROUPS
from webhook.backends.volcano.rules import pod_group_topology
from webhook.backends.volcano.settings import RuleContext
from webhook.model.capabilities import Use
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import HyperNode
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.workloads.applied_pods import runtime_of
from webhook.model.workloads.gang import no_gang
from webhook.model.workloads.topology_request import VOLCANO_MODE, VOLCANO_TIER, of_pods, of_workload
from webhook.model.workloads.trainjob import TrainJob
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example

_ON = {"topology": "hypernode"}
_TIERS = ClusterFacts(hyper_nodes={"rack-1": HyperNode(1, "rack"), "zone-1": HyperNode(2, "zone")})


def _asking(tier: str) -> Manifest:
    return job(scheduler=NAME, annotations={VOLCANO_MODE: "hard", VOLCANO_TIER: tier})


def _carried(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    """What Rollcall writes into the PodGroup; for a TrainJob, what the Volcano plugin of Trainer writes."""
    if isinstance(workload, TrainJob):
        yield from _of_plugin(workload, context)
        return
    if not context.makes_gangs or no_gang(workload) is not None:
        return
    places = [of_workload(workload), *map(of_pods, workload.distinct_parts)] if workload.parts else []
    for asked in map(asked_at, places):
        if asked is not None:
            spec = {"networkTopology": asked.topology}
            yield CarriedTopology({"metadata": {"name": workload.name}, "spec": spec}, asked.origins, by_rollcall=True)


def _of_plugin(workload: TrainJob, context: RuleContext) -> Iterator[CarriedTopology]:
    runtime = runtime_of(workload, context.facts)
    plugin = next((one for one in runtime.plugins if one.name == "volcano"), None) if runtime is not None else None
    if runtime is None or plugin is None:
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


def _carried_if_on(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    if context.settings.topology != "off":
        yield from _carried(workload, context)


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
    rules=(pod_group_topology.group_tier,),
    carried=_carried_if_on,
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
    rules=(pod_group_topology.group_topology_off,),
    carried=_carried,
    looks_at=(VOLCANO_MODE, VOLCANO_TIER),
    passes=Example(_asking("1"), facts=_TIERS, config=_ON),
    fails=Example(_asking("1"), facts=_TIERS),
    default=Action.WARN,
)
