"""The topology that koord-scheduler can honour: one spec for the whole gang, on layers that exist.

All rules fail closed except those that warn by default: `gangs` writes no PodGroup that the others would refuse.
"""

from __future__ import annotations

from webhook.backends.families import refused
from webhook.backends.inexpressible import UnknownTopology
from webhook.backends.koordinator.capabilities import CAPABILITIES
from webhook.backends.koordinator.keys import HOSTNAME
from webhook.backends.koordinator.settings import RuleContext
from webhook.backends.koordinator.topology import THE_TOPOLOGY, is_unknown, layer_of, unavailable
from webhook.model.capabilities import Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.known_objects import TopologyBinding, TopologyLayer
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.validators.registry import Example, Results, rule

_LAYERS = (
    TopologyLayer("BlockLayer", None, ("example.com/block",)),
    TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
)
_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": "example.com/block", "rack": "example.com/rack"})},
    network_topologies={"default": _LAYERS},
)
_REQUIRED = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_SCALING_GROUP,
)


scaling_group_topology = refused(
    "koordinator/scaling-group-topology",
    Capability.TOPOLOGY_SCALING_GROUP,
    CAPABILITIES,
    """Koordinator reads one topology spec, from the pod that starts the scheduling cycle, and applies it to all pending
    pods of the GangGroup. It cannot express a constraint for each replica of a scaling group.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go; GREP-537.
    """,
    passes=Example(
        pod_clique_set(
            clique("worker"), groups=[scaling_group("decode", "worker")], topologyConstraint=required("block")
        ),
        facts=_FACTS,
    ),
    fails=Example(
        pod_clique_set(
            clique("worker"), groups=[scaling_group("decode", "worker", topologyConstraint=required("block"))]
        ),
        facts=_FACTS,
    ),
    fails_closed=True,
)


divergent_topology = refused(
    "koordinator/divergent-topology",
    Capability.TOPOLOGY_DIVERGENT,
    CAPABILITIES,
    """If the specs in one GangGroup differ, the pod that is tried first decides which spec is used.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go.
    """,
    passes=Example(
        pod_clique_set(
            clique("leader", topologyConstraint=required("block")),
            clique("worker", topologyConstraint=required("block")),
        ),
        facts=_FACTS,
    ),
    fails=Example(
        pod_clique_set(clique("leader"), clique("worker", topologyConstraint=required("block"))),
        facts=_FACTS,
    ),
    fails_closed=True,
)


@rule(
    "koordinator/topology-unavailable",
    capability=_REQUIRED,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS),
    fails=Example(
        pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config={"awareNetworkTopology": False}
    ),
)
def topology_unavailable(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Without its argument awareNetworkTopology, the first pod of a gang with topology is placed on any node and the
    others fail. Without a valid ClusterNetworkTopology "default", every pod fails. Before v1.7 the annotation is
    ignored.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/{core,network_topology_types}.go,
    pkg/scheduler/frameworkext/networktopology.
    """
    uses = next(context.uses[capability] for capability in _REQUIRED if capability in context.uses)
    asked = min(uses, key=lambda use: use.path.anchor)
    reason = unavailable(context.settings, context.scheduler_version, context.facts)
    if reason is not None:
        yield Finding(
            at=asked.path,
            found=asked.value,
            why=reason,
            remedy="set up the scheduler's topology, or give up the topology: remove the topologyConstraint",
            absent=THE_TOPOLOGY,
        )


@rule(
    "koordinator/topology-layer",
    capability=(Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS),
)
def topology_layer(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A MustGather on a layer that does not exist matches no domain, so every attempt to place the gang fails.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_types.go
    (`GetMustGatherLayer`).
    """
    name = workload.topology_name()
    for capability in (Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE):
        for use in context.uses.get(capability, ()):
            yield from _without_layer(name, context, use, "so the gang could never be placed")


@rule(
    "koordinator/preferred-topology",
    capability=Capability.TOPOLOGY_PREFERRED,
    default=Action.WARN,
    passes=Example(pod_clique_set(topologyConstraint=preferred("block")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=preferred("rack")), facts=_FACTS),
)
def preferred_topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A preferred domain is not written to the gang's topology spec if it has no layer, or if the scheduler has no
    topology. The gang starts on any nodes with room.

    Source: GREP-537 (a preference that cannot be mapped is skipped).
    """
    reason = unavailable(context.settings, context.scheduler_version, context.facts)
    name = workload.topology_name()
    for use in context.uses[Capability.TOPOLOGY_PREFERRED]:
        if reason is not None:
            # The rest of the reason holds only for a requirement: a dropped preference holds no gang.
            cause = reason.partition(", so ")[0]
            remedy = "remove the preference, or set up the scheduler's topology"
            yield Finding(at=use.path, found=use.value, why=f"{cause}, so the preference is dropped", remedy=remedy)
        else:
            yield from _without_layer(name, context, use, "so the preference is dropped")


@rule(
    "koordinator/clique-topology-widened",
    capability=Capability.TOPOLOGY_CLIQUE,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", topologyConstraint=required("block"))), facts=_FACTS),
    fails=Example(
        pod_clique_set(
            clique("leader", topologyConstraint=required("block")),
            clique("worker", topologyConstraint=required("block")),
        ),
        facts=_FACTS,
    ),
)
def clique_topology_widened(workload: PodCliqueSet, context: RuleContext) -> Results:
    """If each clique requires the same domain, Koordinator places the whole gang in one domain, not each clique in its
    own. The gang may wait for room that it does not need.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go.
    """
    if len(workload.cliques) > 1 and Capability.TOPOLOGY_DIVERGENT not in context.uses:
        use = context.uses[Capability.TOPOLOGY_CLIQUE][0]
        yield Finding(
            at=use.path,
            found=use.value,
            why="koord-scheduler places the whole gang in one such domain, not each clique in its own",
            remedy="to accept this, set it once at spec.template.topologyConstraint",
        )


@rule(
    "koordinator/topology-surplus",
    capability=Capability.CLIQUE_MINIMUM,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", replicas=4), topologyConstraint=required("block")), facts=_FACTS),
    fails=Example(
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("block")), facts=_FACTS
    ),
)
def topology_surplus(workload: PodCliqueSet, context: RuleContext) -> Results:
    """With a required topology, Koordinator looks for one domain with room for all pending pods of the gang, not only
    for its minimum. It holds a gang even if there is room for its minimum.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_workflow.go
    (`DesiredOfferSlot`, and the FIXME above `PreFilter`).
    """
    if any(capability in context.uses for capability in _REQUIRED):
        for use in context.uses[Capability.CLIQUE_MINIMUM]:
            yield Finding(
                at=use.path,
                found=use.value,
                why="with a required topology koord-scheduler waits for room for all replicas, not the minimum",
                remedy="set minAvailable to replicas, or prefer the domain instead of requiring it",
            )


def _without_layer(topology: str | None, context: RuleContext, use: Use, consequence: str) -> Results:
    """A finding if the domain at `use`, of the ClusterTopologyBinding `topology`, has no layer; Unjudged if a fact that
    this needs is unknown.
    """
    binding = (context.facts.topology_bindings or {}).get(topology or "")
    if binding is None and not context.facts.is_whole("topology_bindings"):
        yield Unjudged(use.path, "the ClusterTopologyBinding", part="topology_bindings")
        return
    # `grove/topology-domain` refuses a missing binding or domain.
    key = None if binding is None else binding.keys.get(use.value)
    if key is None:
        return
    if key == HOSTNAME and is_unknown(context.facts):
        # Its layer is built in, but without a valid ClusterNetworkTopology every pod still fails.
        yield Unjudged(use.path, "the ClusterNetworkTopology", part="network_topologies")
        return
    try:
        layer = layer_of(key, context.settings, context.facts)
    except UnknownTopology as unknown:
        yield Unjudged(use.path, unknown.needs, part=unknown.part)
        return
    if layer is None:
        mapped = context.settings.topologyKeyMappings.get(key)
        missing = (
            f"no layer of the ClusterNetworkTopology has the label key {key}"
            if mapped is None
            else f"topologyKeyMappings maps {key} to the layer {mapped}, which the ClusterNetworkTopology does not have"
        )
        yield Finding(
            at=use.path,
            found=use.value,
            why=f"{missing}, {consequence}",
            remedy="use a domain that has a layer, or declare a layer for it",
            absent=THE_TOPOLOGY,
        )
