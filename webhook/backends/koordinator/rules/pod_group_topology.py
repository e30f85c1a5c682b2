"""The annotation network-topology-spec, on a PodGroup or on a pod that uses one of the older ways. Only koord-scheduler
reads it: it drops entries that it cannot read and looks for layers that may not exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.backends.koordinator.gang_settings import Topology, Unreadable, is_set, read_topology, topology_kept
from webhook.backends.koordinator.keys import ANNOTATION_TOPOLOGY, STRATEGIES
from webhook.backends.koordinator.rules.examples import SPINE_LAYERS, gather, known, pod_group
from webhook.backends.koordinator.rules.gang_group import BOTH, members_of, most_action, nearest
from webhook.backends.koordinator.settings import RuleContext
from webhook.backends.koordinator.topology import THE_TOPOLOGY, declared_layers, is_unknown, unavailable, undeclared
from webhook.model.fields import ANNOTATIONS
from webhook.model.findings import Finding, Unjudged
from webhook.model.gang_groups import gang_id
from webhook.model.reading import text
from webhook.model.stored_object import StoredObject
from webhook.validators.list_faults import told
from webhook.validators.registry import Example, Results, rule

AT = ANNOTATIONS / ANNOTATION_TOPOLOGY
_SPINE = {"layer": "SpineLayer", "strategy": "MustGather"}
_CLUSTER = known(network_topologies=SPINE_LAYERS)
_FINE = pod_group(settings=gather(_SPINE))


@rule(
    "koordinator/gang-topology-unread",
    kinds=BOTH,
    passes=Example(pod_group(settings=gather({**_SPINE, "podCountMultiple": 4})), facts=_CLUSTER),
    fails=Example(pod_group(settings=gather({**_SPINE, "podCountMultiple": "4"})), facts=_CLUSTER),
)
def topology_unreadable(found: StoredObject, _: RuleContext) -> Results:
    """If one value has the wrong JSON type, such as "4" or 4.0 for a whole number, koord-scheduler logs the error and
    drops the whole annotation. The gang then starts on any nodes.

    Source: koordinator-sh/koordinator, apis/extension/network_topology.go (`GetNetworkTopologySpec`) and
    pkg/scheduler/plugins/coscheduling/core/gang.go, v1.8.0.
    """
    written = _written(found)
    if written is None:
        return
    try:
        read_topology(written)
    except Unreadable as error:
        yield Finding(
            at=AT,
            found=written,
            why=f"it {error}, so koord-scheduler drops all of it and places the gang on any nodes",
            remedy='set an object such as {"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}',
        )


@rule(
    "koordinator/gang-topology-strategy",
    kinds=BOTH,
    passes=Example(_FINE, facts=_CLUSTER),
    fails=Example(pod_group(settings=gather({"layer": "SpineLayer", "strategy": "mustGather"})), facts=_CLUSTER),
)
def topology_strategy(found: StoredObject, _: RuleContext) -> Results:
    """Only the word MustGather, spelled like this, is a requirement. Any other word is not an error either, and the
    gang may be spread.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_types.go
    (`GetMustGatherLayer`), v1.8.0.
    """
    for strategy in told(_unknown_strategies(found), () if found.old is None else _unknown_strategies(found.old)):
        yield Finding(
            at=AT,
            found=strategy,
            why="koord-scheduler does not know this strategy, so the entry has no effect",
            remedy=f"set it to {' or '.join(STRATEGIES)}, spelled like this",
        )


def _unknown_strategies(found: StoredObject) -> Iterator[str]:
    return (entry.strategy for entry in _read(found) if entry.strategy not in STRATEGIES)


@rule(
    "koordinator/gang-topology-missing",
    kinds=BOTH,
    passes=Example(_FINE, facts=_CLUSTER),
    fails=Example(_FINE, facts=known(network_topologies={})),
)
def topology_unavailable(found: StoredObject, context: RuleContext) -> Results:
    """Without a valid ClusterNetworkTopology "default", every pod of a gang with a topology fails. Without the argument
    awareNetworkTopology, the first pod is placed on any node and the others fail. Before v1.7 the annotation is not
    read.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/{core,network_topology_workflow}.go,
    pkg/scheduler/frameworkext/networktopology, v1.7.0 to v1.8.0.
    """
    if not _is_read(found):
        return
    reason = unavailable(context.settings, context.scheduler_version, context.facts)
    if reason is not None:
        yield Finding(
            at=AT,
            found=_written(found),
            why=reason,
            remedy="remove the annotation, or set up the scheduler's topology",
            absent=THE_TOPOLOGY if context.facts.network_topologies is not None else None,
        )
    elif is_unknown(context.facts):
        yield Unjudged(AT, "the ClusterNetworkTopology", part="network_topologies")


@rule(
    "koordinator/gang-topology-layer",
    kinds=BOTH,
    passes=Example(
        pod_group(settings=gather({"layer": "NodeTopologyLayer", "strategy": "MustGather"})), facts=_CLUSTER
    ),
    fails=Example(pod_group(settings=gather({"layer": "spineLayer", "strategy": "MustGather"})), facts=_CLUSTER),
)
def topology_layer(found: StoredObject, context: RuleContext) -> Results:
    """If the layer of MustGather is not declared, no domain is large enough, and every attempt to place the gang fails.
    An administrator chooses the names of the layers, and case matters. koord-scheduler never looks up the layer of
    PreferGather.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go
    (`searchMustGatherSatisfiedNodes`), v1.8.0.
    """
    names = declared_layers(context.facts)
    if names is None:
        # If it is unknown or missing, another rule reports it.
        return
    alike = {name.casefold(): name for name in sorted(names, reverse=True)}
    before = () if found.old is None else undeclared(_read(found.old), names)
    for layer in told(undeclared(_read(found), names), before):
        declared = alike.get(layer.casefold())
        yield Finding(
            at=AT,
            found=layer,
            why="the ClusterNetworkTopology has no such layer, so koord-scheduler never finds room for the gang",
            remedy="use a declared layer" if declared is None else f"spell it as it is declared: {declared}",
            absent=THE_TOPOLOGY,
        )


@rule(
    "koordinator/gang-topology-differs",
    kinds=BOTH,
    passes=Example(
        pod_group("leader", "leader", "worker", settings=gather(_SPINE)),
        facts=known(pod_group("worker", "leader", "worker", settings=gather(_SPINE)), network_topologies=SPINE_LAYERS),
    ),
    fails=Example(
        pod_group("leader", "leader", "worker", settings=gather(_SPINE)),
        facts=known(pod_group("worker", "leader", "worker"), network_topologies=SPINE_LAYERS),
    ),
)
def topology_differs(found: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler applies the topology of the gang whose pod it tries first to all pods of the GangGroup. If
    another member has another topology, the result depends on which pod is tried first. The rule judges a gang when it
    is created, against the members that it lists. A member in another namespace causes at most a warning.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`NextPod`) and
    network_topology_workflow.go, v1.7.0 to v1.8.0.
    """
    pod_groups = context.facts.koordinator_pod_groups
    if pod_groups is None or found.old is not None:
        return
    written = _written(found)
    try:
        own = None if written is None else topology_kept(read_topology(written))
    except Unreadable:
        return
    others = (key for key in members_of(found) if key in pod_groups and pod_groups[key].topology != own)
    if (key := nearest(found, others)) is not None:
        yield Finding(
            at=AT,
            found=written,
            why=f"PodGroup {gang_id(key)} of the same gang group has another topology, "
            "and the first pod decides which one is used",
            remedy="set the same annotation on every member",
            at_most=most_action(found, key),
        )


def _written(found: StoredObject) -> str | None:
    return text(found.annotations.get(ANNOTATION_TOPOLOGY)) if is_set(found) else None


def _read(found: StoredObject) -> Topology:
    """The entries that koord-scheduler reads."""
    written = _written(found)
    try:
        return () if written is None else read_topology(written)
    except Unreadable:
        return ()


def _is_read(found: StoredObject) -> bool:
    """Whether there is a spec. A spec without entries also enables the topology search."""
    written = _written(found)
    try:
        return written is not None and read_topology(written) is not None
    except Unreadable:
        return False
