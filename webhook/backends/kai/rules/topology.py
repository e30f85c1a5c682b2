"""The topology that kai-scheduler can honour: levels that exist in its Topology.

The rule fails closed: `gangs` writes no PodGroup that the rule would refuse.
"""

from __future__ import annotations

from webhook.backends.families import TOPOLOGY
from webhook.backends.inexpressible import NoTopology, UnknownTopology
from webhook.backends.kai.keys import NAME
from webhook.backends.kai.settings import RuleContext
from webhook.backends.kai.topology import levels_of
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.known_objects import TopologyBinding
from webhook.model.workloads.podcliqueset import PodCliqueSet, Topology
from webhook.validators.examples import pod_clique_set, required
from webhook.validators.registry import Example, Results, rule

_KEYS = {"zone": "example.com/zone", "rack": "example.com/rack", "slot": "example.com/slot"}
_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding(_KEYS, {NAME: "racks"})},
    kai_topologies={"racks": ("example.com/zone", "example.com/rack")},
)


@rule(
    "kai/topology",
    capability=TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=required("slot")), facts=_FACTS),
)
def topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """kai-scheduler never starts a gang whose level is not in the Topology, or whose preferred level is broader than
    the required one. It reports only "unable to schedule". A Topology that does not exist also blocks the gang. The
    rule judges the Topology that the ClusterTopologyBinding refers to, or the Topology with the name of the binding, or
    the Topology that will be made from the binding.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/topology; seen with v0.16.8.
    """
    name = workload.topology_name()
    if name is None:
        # Grove refuses a constraint without a binding.
        return
    for asked in workload.constraints():
        yield from _judge(asked.topology, name, context.facts)


def _judge(topology: Topology, name: str, facts: ClusterFacts) -> Results:
    bindings = facts.topology_bindings or {}
    if name not in bindings and facts.is_whole("topology_bindings"):
        # `grove/topology-domain` refuses it.
        return
    try:
        levels = levels_of(name, facts)
    except UnknownTopology as unknown:
        yield Unjudged(topology.path, unknown.needs, part=unknown.part)
        return
    except NoTopology as missing:
        yield Finding(
            at=topology.path,
            found=name,
            why=f"{missing.why}, so kai-scheduler would never start the gang",
            remedy="create the Topology, or give up the topology: remove the topologyConstraint",
            absent=missing.absent,
        )
        return
    binding = bindings.get(name)
    if binding is None:
        yield Unjudged(topology.path, "the ClusterTopologyBinding", part="topology_bindings")
        return
    places: dict[str, int] = {}
    lacks_one = False
    for domain, path in ((topology.required, topology.required_path), (topology.preferred, topology.preferred_path)):
        # `grove/topology-domain` refuses a domain without a key.
        key = binding.keys.get(domain or "")
        if key is None:
            continue
        if key not in levels:
            yield _no_level(path, domain, key)
            lacks_one = True
        else:
            places[str(path)] = levels.index(key)
    if lacks_one:
        return
    required, preferred = places.get(str(topology.required_path)), places.get(str(topology.preferred_path))
    if required is not None and preferred is not None and preferred < required:
        yield Finding(
            at=topology.preferred_path,
            found=topology.preferred,
            why=f"it is broader than the required {topology.required}, which kai-scheduler treats as an unknown level",
            remedy=f"prefer {topology.required} or a narrower domain, or remove the preference",
        )


def _no_level(path: FieldPath, domain: str | None, key: str) -> Finding:
    return Finding(
        at=path,
        found=domain,
        why=f"the KAI Topology has no level {key}, so kai-scheduler would never start the gang, without reporting why",
        remedy="use a domain that is one of its levels, or add the level to the Topology",
    )
