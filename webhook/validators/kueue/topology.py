"""Rules about gangs that are placed twice: by Kueue's topology-aware scheduling and by their scheduler.

Kueue writes the chosen domain into each pod's nodeSelector, which every scheduler obeys. The scheduler can then agree
with Kueue's choice, or leave the gang pending. Source: kubernetes-sigs/kueue v0.19, pkg/controller/tas,
pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.known_objects import TopologyBinding
from webhook.model.kueue import keys
from webhook.model.kueue.objects import ClusterQueue, LocalQueue, ResourceFlavor
from webhook.model.reading import Manifest
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.required_level import RequiredLevel
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.kueue.placement import Gangs, Placeable, gangs_of, lacking, places_all
from webhook.validators.registry import Context, Example, Results, Subject, rule

_RACK, _BLOCK = "example.com/rack", "example.com/block"
_KNOWN = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": _BLOCK, "rack": _RACK})},
    local_queues={("default", "team"): LocalQueue("placed"), ("default", "free"): LocalQueue("mixed")},
    cluster_queues={"placed": ClusterQueue(flavors=("racks",)), "mixed": ClusterQueue(flavors=("racks", "any"))},
    resource_flavors={"racks": ResourceFlavor("dc"), "any": ResourceFlavor()},
    kueue_topologies={"dc": (_BLOCK, _RACK)},
)


def _set(*names: str, queue: str = "free", domain: str | None = "rack", **annotations: str) -> Manifest:
    """A PodCliqueSet of one gang in a pod group of Kueue, with so many cliques of two pods."""
    total = str(2 * len(names))
    said = {keys.POD_GROUP_NAME: "demo", keys.POD_GROUP_TOTAL_COUNT: total}
    said |= {f"{keys.GROUP}/podset-{key.replace('_', '-')}": value for key, value in annotations.items()}
    cliques = [clique(name, labels={keys.QUEUE_NAME: queue}, annotations=said) for name in names]
    found = pod_clique_set(*cliques)
    if domain is not None:
        found["spec"]["template"]["topologyConstraint"] = required(domain)
    return found


class _Placed(NamedTuple):
    """Pods of which the gang requires one domain, and which Kueue places. `asked` means that a template asks it to."""

    level: RequiredLevel
    pods: tuple[Placeable, ...]
    asked: bool

    @property
    def apart(self) -> tuple[str, str] | None:
        """Two parts that Kueue places without regard to each other; the same part twice if it places each pod alone."""
        first = self.pods[0]
        for one in self.pods:
            if one.alone:
                return one.part, one.part
            if one.unit != first.unit:
                return first.part, one.part
        return None


def _placed(workload: PodCliqueSet | OptedInWorkload, gangs: Gangs, context: Context[Any]) -> Iterator[_Placed]:
    """The required levels of gangs that Kueue places as well."""
    whole = places_all(gangs.held.queue, workload.namespace, context.facts) is True
    for level in gangs.levels:
        pods = tuple(one for one in gangs.within(level) if whole or one.request is not None)
        if pods:
            yield _Placed(level, pods, any(one.request is not None for one in pods))


def _judged(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Iterator[tuple[Gangs, _Placed]]:
    gangs = gangs_of(workload, context)
    if gangs is not None:
        for one in _placed(workload, gangs, context):
            yield gangs, one


def _finding(gangs: Gangs, level: RequiredLevel, why: str, remedy: str) -> Finding:
    at, where = gangs.place(level)
    return Finding(at=at, found=level.said, why=f"{where}{why}", remedy=remedy)


@rule(
    "kueue/topology-apart",
    looks_at=(keys.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_set("leader", "worker", required_topology=_RACK, domain=None), facts=_KNOWN),
    fails=Example(_set("leader", "worker", required_topology=_RACK), facts=_KNOWN),
)
def topology_apart(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue chooses a domain for each pod set by itself, also for the leader and the workers of a LeaderWorkerSet. If
    it chooses two domains for a gang that must be in one, no scheduler can start the gang.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/scheduler/tas_flavor_snapshot.go (`FindTopologyAssignmentsForFlavor`:
    pod sets are placed one by one unless they have one podset-group-name).
    """
    for gangs, placed in _judged(workload, context):
        if placed.asked and (pair := placed.apart) is not None:
            one, other = pair
            what = f"each pod of {one} alone" if one == other else f"{one} and {other} apart"
            yield _finding(
                gangs,
                placed.level,
                f"Kueue places {what}, and the gang requires one {placed.level.name}",
                "drop one of the two topologies, or use one podset-group-name",
            )


@rule(
    "kueue/two-topologies",
    looks_at=(keys.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_set("worker", required_topology=_RACK, domain=None), facts=_KNOWN),
    fails=Example(_set("worker", required_topology=_RACK), facts=_KNOWN),
)
def two_topologies(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """If Kueue and the scheduler both place a gang, the scheduler can only agree with Kueue's choice or wait. Kueue
    does not see what the scheduler sees: its reservations, waiting gangs and pod affinity.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/tas/topology_ungater.go, non_tas_usage_controller.go;
    issue 3755.
    """
    for gangs, placed in _judged(workload, context):
        request, level = placed.pods[0].request, placed.level
        if placed.apart is not None or request is None or request.key != keys.REQUIRED_TOPOLOGY:
            continue
        scheduler = context.choice.scheduler
        why = f"Kueue chooses the {request.value} before, so {scheduler} can only agree or wait"
        if _is_broader(request.value, level.key, context.facts):
            why = f"Kueue chooses nodes in one {request.value}, perhaps in several {level.name}"
        yield _finding(gangs, level, why, "keep one of the two topologies")


@rule(
    "kueue/topology-unsaid",
    looks_at=(keys.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_set("worker"), facts=_KNOWN),
    fails=Example(_set("worker", queue="team"), facts=_KNOWN),
)
def topology_unsaid(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """If all flavors of a ClusterQueue have a Topology, Kueue chooses the nodes of every pod, also of pods that ask for
    nothing. It does not read what the gang requires of its scheduler, and may choose nodes in several domains. The gang
    is then pending until Kueue takes it back.

    Source: kubernetes-sigs/kueue v0.19, pkg/scheduler/flavorassigner/tas_flavorassigner.go (`isTASImplied`); pull
    request 13643.
    """
    gangs = gangs_of(workload, context)
    if gangs is None:
        return
    asked = any(one.request is not None for one in gangs.pods)
    if gangs.levels and not asked and (missing := lacking(context.facts)) is not None:
        yield Unjudged(gangs.place(gangs.levels[0])[0], f"the {Needed(missing)}", part=missing)
    for placed in _placed(workload, gangs, context):
        request = placed.pods[0].request
        if placed.asked and (placed.apart is not None or (request and request.key == keys.REQUIRED_TOPOLOGY)):
            continue
        yield _finding(
            gangs,
            placed.level,
            f"Kueue chooses the nodes of these pods without regard to {placed.level.name}",
            "add podset-required-topology to the pod templates, or use a queue without Topology",
        )


def _is_broader(level: str, than: str | None, facts: ClusterFacts) -> bool:
    """Whether a domain of `level` is known to have several domains of the level `than`."""
    for levels in (facts.kueue_topologies or {}).values():
        if than is not None and level in levels and than in levels:
            return levels.index(level) < levels.index(than)
    return False
