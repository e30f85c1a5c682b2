"""The topology that volcano can honour: a required domain that is a tier of HyperNodes, for a gang or for one clique.

All rules fail closed except the one about surplus replicas: `gangs` writes no PodGroup that the other rules would
refuse.
"""

from __future__ import annotations

from webhook.backends.inexpressible import NoTopology, UnknownTopology
from webhook.backends.volcano.capabilities import PREFERRED, TOPOLOGY_OFF
from webhook.backends.volcano.settings import RuleContext
from webhook.backends.volcano.topology import tier_of
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding, Unjudged
from webhook.model.known_objects import HyperNode, TopologyBinding
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.validators.registry import Example, Results, rule

_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": "example.com/block", "rack": "example.com/rack"})},
    hyper_nodes={"block-1": HyperNode(2, "block"), "switch-1": HyperNode(1, "switch")},
)
_ON = {"topology": "hypernode"}
_TOPOLOGY = (Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE, Capability.TOPOLOGY_SCALING_GROUP)


@rule(
    "volcano/topology-unavailable",
    capability=_TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config=_ON),
    fails=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS),
)
def topology_unavailable(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Volcano accepts a topology and ignores it without a message if its plugin network-topology-aware is off. The
    plugin is off by default, so the profile must state that it is on.

    Source: volcano-sh/volcano, installer/helm/chart/volcano (the scheduler's configuration); seen with vc-scheduler
    v1.15.1.
    """
    if not _off(context):
        return
    for asked in workload.constraints():
        if asked.topology.required is not None:
            at, found = asked.topology.required_path, asked.topology.required
            yield Finding(at=at, found=found, why=TOPOLOGY_OFF.why, remedy=TOPOLOGY_OFF.remedy)


@rule(
    "volcano/preferred-topology",
    capability=(Capability.TOPOLOGY_PREFERRED, Capability.TOPOLOGY_SCALING_GROUP),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config=_ON),
    fails=Example(pod_clique_set(topologyConstraint=preferred("block")), facts=_FACTS, config=_ON),
)
def preferred_topology(workload: PodCliqueSet, _: RuleContext) -> Results:
    """Volcano's soft mode names no preferred domain. Volcano reads it as the widest tier of the cluster, which
    restricts nothing.

    Source: volcano-sh/volcano, pkg/scheduler (v1.14.3 and newer turn soft into hard with the top tier);
    ai-dynamo/grove, docs/proposals/377-volcano-topology-aware, maps required domains only.
    """
    for asked in workload.constraints():
        if asked.topology.preferred is not None:
            at, found = asked.topology.preferred_path, asked.topology.preferred
            yield Finding(at=at, found=found, why=PREFERRED.why, remedy=PREFERRED.remedy)


@rule(
    "volcano/scaling-group-topology",
    capability=Capability.TOPOLOGY_SCALING_GROUP,
    fails_closed=True,
    passes=Example(
        pod_clique_set(
            clique("router"),
            clique("worker"),
            groups=[scaling_group("decode", "worker", topologyConstraint=required("block"))],
        ),
        facts=_FACTS,
        config=_ON,
    ),
    fails=Example(
        pod_clique_set(
            clique("leader"),
            clique("worker"),
            groups=[scaling_group("decode", "leader", "worker", topologyConstraint=required("block"))],
        ),
        facts=_FACTS,
        config=_ON,
    ),
)
def scaling_group_topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Volcano has two layers, the gang and its subgroups, and each clique is a subgroup. A replica of a scaling group
    with several cliques would need a layer between them. To make this layer, each clique's minimum would have to be
    given up.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1 (`subGroupPolicy` does not nest).
    """
    if _off(context):
        return
    for group in workload.scaling_groups:
        topology = group.topology
        if topology is not None and topology.required is not None and len(group.clique_names) > 1:
            yield Finding(
                at=topology.required_path,
                found=topology.required,
                why="volcano supports topology for a whole gang or for one clique, not for a group of cliques",
                remedy="require it at spec.template.topologyConstraint or for each clique, or choose another scheduler",
            )


@rule(
    "volcano/topology-tier",
    capability=_TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config=_ON),
    fails=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS, config=_ON),
)
def topology_tier(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A required domain is the tier of the HyperNodes whose tierName is its name or its node label key. If no HyperNode
    has such a tierName, there is no tier to require. Without any HyperNode, or for a tier above all of them, Volcano
    ignores the constraint and the gang starts on any nodes. A gang with tier 0 never starts.

    Source: volcano-sh/volcano, pkg/scheduler (`highestTierAllowed`); seen with vc-scheduler v1.15.1.
    """
    if _off(context):
        return
    facts = context.facts
    name = workload.topology_name()
    for asked in workload.constraints():
        place, domain = asked.topology.required_path, asked.topology.required
        if domain is None:
            continue
        binding = (facts.topology_bindings or {}).get(name or "")
        if binding is None and not facts.is_whole("topology_bindings"):
            yield Unjudged(place, "the ClusterTopologyBinding", part="topology_bindings")
            continue
        # `grove/topology-domain` refuses a missing binding or domain.
        key = None if binding is None else binding.keys.get(domain)
        if key is None:
            continue
        try:
            tier_of(key, name, facts)
        except UnknownTopology as unknown:
            yield Unjudged(place, unknown.needs, part=unknown.part)
        except NoTopology as reason:
            remedy = "use a domain that is a tier, or set the tierName of its HyperNodes"
            yield Finding(at=place, found=domain, why=reason.why, remedy=remedy, absent=reason.absent)


@rule(
    "volcano/topology-surplus",
    capability=_TOPOLOGY,
    passes=Example(
        pod_clique_set(clique("worker", replicas=4), topologyConstraint=required("block")), facts=_FACTS, config=_ON
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("block")),
        facts=_FACTS,
        config=_ON,
    ),
)
def topology_surplus(workload: PodCliqueSet, context: RuleContext) -> Results:
    """With a hard topology all pending pods of the gang or of the subgroup must fit one HyperNode, not only its
    minimum. Two of three pods that would fit a rack never start, but start at once when the third is deleted. If an
    autoscaler adds such pods later, the gang of their clique never starts again.

    Source: seen with vc-scheduler v1.15.1.
    """
    if _off(context):
        return
    bound = {name for asked in workload.constraints() if asked.topology.required for name in asked.clique_names}
    for member in workload.cliques:
        if member.name not in bound:
            continue
        if member.min_available < member.replicas or member.spec.get("autoScalingConfig"):
            yield Finding(
                at=member.path / "spec" / "minAvailable",
                found=member.min_available,
                why="with a required topology volcano waits for room for all replicas in one domain, "
                "not only the minimum",
                remedy="set minAvailable to replicas and remove autoScalingConfig, "
                "or give up the topology: remove the topologyConstraint",
            )


def _off(context: RuleContext) -> bool:
    return context.settings.topology == "off"
