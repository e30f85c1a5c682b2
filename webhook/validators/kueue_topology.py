"""Rules about gangs that are placed twice, by Kueue's topology-aware scheduling and by their scheduler, and about
parts of Kueue that are made for kube-scheduler only.

Kueue places a pod set that asks for a topology, and every pod set of a ClusterQueue whose flavors all have a Topology.
It writes the domain, often the host, into each pod's nodeSelector before the scheduler sees the pod. Every scheduler
obeys the nodeSelector: it can then agree with Kueue's choice, or leave the gang pending.

Source: kubernetes-sigs/kueue v0.19, pkg/scheduler/flavorassigner/tas_flavorassigner.go,
pkg/controller/jobframework/tas.go, pkg/controller/tas, pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from webhook.model import kueue
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.known_objects import TopologyBinding
from webhook.model.kueue_objects import AdmissionCheck, ClusterQueue, LocalQueue, ResourceFlavor
from webhook.model.pod_template import PodTemplate
from webhook.model.quantity import Version
from webhook.model.reading import Manifest, text
from webhook.validators.examples import clique, job, pod_clique_set, pod_template, required
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, NAMESPACE
from webhook.validators.kueue_holds import held_cliques, may_be_held
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads import kueue_integration
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import TrainerJobSet

# In the order in which Kueue reads them. The first one counts.
_REQUESTS = (
    kueue.REQUIRED_TOPOLOGY,
    kueue.PREFERRED_TOPOLOGY,
    kueue.UNCONSTRAINED_TOPOLOGY,
    kueue.SLICE_REQUIRED_TOPOLOGY,
    kueue.SLICE_CONSTRAINTS,
)


class PlacementRequest(NamedTuple):
    """What the pods of a template ask of Kueue's topology: one of Kueue's keys and its value."""

    key: str
    value: str
    path: FieldPath


class Placeable(NamedTuple):
    """Pods that Kueue places as one, if it places them: the pods of a pod set, or of several in one group of pod sets.
    `alone` means that it places each pod by itself.
    """

    part: str
    template: PodTemplate
    request: PlacementRequest | None
    unit: str
    alone: bool = False


@dataclass(frozen=True)
class KueueGangs:
    """The pods of a workload that Kueue holds, and the levels that its gangs require."""

    held: kueue_integration.Held
    pods: tuple[Placeable, ...]
    levels: tuple[kueue_integration.RequiredLevel, ...]
    # The JobSet of a TrainJob, which has other paths.
    made_job_set: TrainerJobSet | None = None

    def place(self, level: kueue_integration.RequiredLevel) -> tuple[FieldPath, str]:
        """Returns where the author finds a required level: the path in the judged object, and words to put before the
        reason if the path names only the runtime.
        """
        if self.made_job_set is None or level.inherited:
            return level.path, ""
        at = self.made_job_set.path_in_train_job(level.path)
        return at, "" if at != self.made_job_set.train_job.runtime_path else f"{self.made_job_set.where(level.path)}: "

    def pods_in(self, level: kueue_integration.RequiredLevel) -> Iterator[Placeable]:
        """Returns the pods that a level is about."""
        if level.parts is None:
            return iter(self.pods)
        return (placeable for name in level.parts for placeable in self._pods_by_part.get(name, ()))

    @cached_property
    def _pods_by_part(self) -> Mapping[str, Sequence[Placeable]]:
        by_part: dict[str, list[Placeable]] = {}
        for placeable in self.pods:
            by_part.setdefault(placeable.part, []).append(placeable)
        return by_part


def request_of(template: PodTemplate) -> PlacementRequest | None:
    """Returns what the pods of a template ask of Kueue's topology."""
    for key in _REQUESTS:
        if (value := text(template.annotations.get(key))) is not None:
            return PlacementRequest(key, value, template.annotations_path / key)
    return None


def gangs_of(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> KueueGangs | None:
    """Returns the pods of a workload that Kueue holds; None if it holds none or never places pods, or if they are
    unknown.
    """
    if not context.kueue.topology_aware:
        return None
    return (
        _gangs_of_set(workload, context)
        if isinstance(workload, PodCliqueSet)
        else _gangs_of_workload(workload, context)
    )


def _gangs_of_set(workload: PodCliqueSet, context: Context[Any]) -> KueueGangs | None:
    members = list(held_cliques(workload, context))
    if not members:
        return None
    pods = tuple(
        _placeable(
            member.clique.name,
            pod_set,
            alone=member.held.unit is kueue_integration.Unit.POD and member.clique.replicas > 1,
        )
        for member in members
        for pod_set in member.held.pod_sets
    )
    return KueueGangs(members[0].held, pods, tuple(kueue_integration.levels_of_set(workload, context.facts)))


def _gangs_of_workload(workload: OptedInWorkload, context: Context[Any]) -> KueueGangs | None:
    if not may_be_held(workload.labels, workload.namespace, context):
        return None
    whole = kueue_integration.workload_with_pods(workload, context.facts)
    if whole is None or (hold := kueue_integration.held(whole, context.facts, context.kueue)) is None:
        return None
    pods = tuple(_placeable(pod_set.name, pod_set) for pod_set in hold.pod_sets if pod_set.count > 0)
    job_set = whole if isinstance(whole, TrainerJobSet) else None
    return KueueGangs(hold, pods, tuple(_levels(whole, context)), job_set)


def lacking(facts: ClusterFacts) -> str | None:
    """Returns the part of the facts without which it is not known what a queue places."""
    for part in ("local_queues", "cluster_queues", "resource_flavors"):
        if getattr(facts, part) is None:
            return part
    return None


def cluster_queue(queue: str | None, namespace: str, facts: ClusterFacts) -> ClusterQueue | None:
    """Returns the ClusterQueue of a LocalQueue; None if it is not known."""
    local = (facts.local_queues or {}).get((namespace, queue or ""))
    return None if local is None else (facts.cluster_queues or {}).get(local.cluster_queue or "")


def places_all(queue: str | None, namespace: str, facts: ClusterFacts) -> bool | None:
    """Returns whether Kueue places every pod set of a LocalQueue: all flavors of its ClusterQueue have a Topology. None
    if that is not known.
    """
    cluster = cluster_queue(queue, namespace, facts)
    if cluster is None or facts.resource_flavors is None:
        return None
    flavors = [facts.resource_flavors.get(name) for name in cluster.flavors]
    if any(flavor is not None and flavor.topology is None for flavor in flavors):
        return False
    return None if None in flavors or not flavors else True


def _placeable(part: str, pod_set: kueue_integration.PodSet, *, alone: bool = False) -> Placeable:
    request = request_of(pod_set.template)
    group = text(pod_set.template.annotations.get(kueue.PODSET_GROUP_NAME))
    # Kueue reads the name of a group only next to one of these two.
    grouped = group is not None and request is not None and request.key in _REQUESTS[:2]
    return Placeable(part, pod_set.template, request, f"group {group}" if grouped else f"pod set {part}", alone)


def _levels(workload: OptedInWorkload, context: Context[Any]) -> Iterator[kueue_integration.RequiredLevel]:
    for system in sorted(context.reads_claims_of):
        yield from kueue_integration.levels_for(system, workload, context.facts)
    if "the Workload API" in context.reads_claims_of:
        yield from kueue_integration.levels_of_own_gang(workload)


_RACK, _BLOCK = "example.com/rack", "example.com/block"
_TWO_QUEUES = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": _BLOCK, "rack": _RACK})},
    local_queues={("default", "team"): LocalQueue("placed"), ("default", "free"): LocalQueue("mixed")},
    cluster_queues={"placed": ClusterQueue(flavors=("racks",)), "mixed": ClusterQueue(flavors=("racks", "any"))},
    resource_flavors={"racks": ResourceFlavor("dc"), "any": ResourceFlavor()},
    kueue_topologies={"dc": (_BLOCK, _RACK)},
)


def _example_set(*names: str, queue: str = "free", domain: str | None = "rack", **annotations: str) -> Manifest:
    """Returns a PodCliqueSet of one gang in a pod group of Kueue, with so many cliques of two pods."""
    total = str(2 * len(names))
    marks = {kueue.POD_GROUP_NAME: "demo", kueue.POD_GROUP_TOTAL_COUNT: total}
    marks |= {f"{kueue.GROUP}/podset-{key.replace('_', '-')}": value for key, value in annotations.items()}
    cliques = [clique(name, labels={kueue.QUEUE_NAME: queue}, annotations=marks) for name in names]
    workload = pod_clique_set(*cliques)
    if domain is not None:
        workload["spec"]["template"]["topologyConstraint"] = required(domain)
    return workload


class _TwicePlaced(NamedTuple):
    """Pods of which the gang requires one domain, and which Kueue places; `requested` if a template asks it to."""

    level: kueue_integration.RequiredLevel
    pods: tuple[Placeable, ...]
    requested: bool

    @property
    def apart(self) -> tuple[str, str] | None:
        """Two parts that Kueue places without regard to each other; the same part twice if it places each pod alone."""
        first = self.pods[0]
        for placeable in self.pods:
            if placeable.alone:
                return placeable.part, placeable.part
            if placeable.unit != first.unit:
                return first.part, placeable.part
        return None


def _placed_levels(
    workload: PodCliqueSet | OptedInWorkload, gangs: KueueGangs, context: Context[Any]
) -> Iterator[_TwicePlaced]:
    """Yields the required levels of gangs that Kueue places as well."""
    whole = places_all(gangs.held.queue, workload.namespace, context.facts) is True
    for level in gangs.levels:
        pods = tuple(placeable for placeable in gangs.pods_in(level) if whole or placeable.request is not None)
        if pods:
            yield _TwicePlaced(level, pods, any(placeable.request is not None for placeable in pods))


def _gangs_with_placed_levels(
    workload: PodCliqueSet | OptedInWorkload, context: Context[Any]
) -> Iterator[tuple[KueueGangs, _TwicePlaced]]:
    gangs = gangs_of(workload, context)
    if gangs is not None:
        for placed in _placed_levels(workload, gangs, context):
            yield gangs, placed


def _finding(gangs: KueueGangs, level: kueue_integration.RequiredLevel, why: str, remedy: str) -> Finding:
    at, where = gangs.place(level)
    return Finding(at=at, value=level.stated, why=f"{where}{why}", remedy=remedy)


@rule(
    "kueue/topology-apart",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_example_set("leader", "worker", required_topology=_RACK, domain=None), facts=_TWO_QUEUES),
    fails=Example(_example_set("leader", "worker", required_topology=_RACK), facts=_TWO_QUEUES),
)
def topology_apart(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue chooses a domain for each pod set by itself, also for the leader and the workers of a LeaderWorkerSet. If
    it chooses two domains for a gang that must be in one, no scheduler can start the gang.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/scheduler/tas_flavor_snapshot.go (`FindTopologyAssignmentsForFlavor`:
    pod sets are placed one by one unless they have one podset-group-name).
    """
    for gangs, placed in _gangs_with_placed_levels(workload, context):
        if placed.requested and (pair := placed.apart) is not None:
            first, other = pair
            what = f"each pod of {first} alone" if first == other else f"{first} and {other} apart"
            yield _finding(
                gangs,
                placed.level,
                f"Kueue places {what}, and the gang requires one {placed.level.name}",
                "drop one of the two topologies, or use one podset-group-name",
            )


@rule(
    "kueue/two-topologies",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_example_set("worker", required_topology=_RACK, domain=None), facts=_TWO_QUEUES),
    fails=Example(_example_set("worker", required_topology=_RACK), facts=_TWO_QUEUES),
)
def two_topologies(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """If Kueue and the scheduler both place a gang, the scheduler can only agree with Kueue's choice or wait. Kueue
    does not see what the scheduler sees: its reservations, waiting gangs and pod affinity.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/tas/topology_ungater.go, non_tas_usage_controller.go;
    issue 3755.
    """
    for gangs, placed in _gangs_with_placed_levels(workload, context):
        request, level = placed.pods[0].request, placed.level
        if placed.apart is not None or request is None or request.key != kueue.REQUIRED_TOPOLOGY:
            continue
        scheduler = context.choice.scheduler
        why = f"Kueue chooses the {request.value} before, so {scheduler} can only agree or wait"
        if _is_broader(request.value, level.key, context.facts):
            why = f"Kueue chooses nodes in one {request.value}, perhaps in several {level.name}"
        yield _finding(gangs, level, why, "keep one of the two topologies")


@rule(
    "kueue/topology-unsaid",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_example_set("worker"), facts=_TWO_QUEUES),
    fails=Example(_example_set("worker", queue="team"), facts=_TWO_QUEUES),
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
    is_requested = any(placeable.request is not None for placeable in gangs.pods)
    if gangs.levels and not is_requested and (missing := lacking(context.facts)) is not None:
        yield Unjudged(gangs.place(gangs.levels[0])[0], f"the {Needed(missing)}", part=missing)
    for placed in _placed_levels(workload, gangs, context):
        request = placed.pods[0].request
        if placed.requested and (placed.apart is not None or (request and request.key == kueue.REQUIRED_TOPOLOGY)):
            continue
        yield _finding(
            gangs,
            placed.level,
            f"Kueue chooses the nodes of these pods without regard to {placed.level.name}",
            "add podset-required-topology to the pod templates, or use a queue without Topology",
        )


def _is_broader(level: str, than: str | None, facts: ClusterFacts) -> bool:
    """Returns whether a domain of `level` is known to have several domains of the level `than`."""
    for levels in (facts.kueue_topologies or {}).values():
        if than is not None and level in levels and than in levels:
            return levels.index(level) < levels.index(than)
    return False


_QUEUED = {kueue.QUEUE_NAME: "team"}
_RACKS = {kueue.REQUIRED_TOPOLOGY: "example.com/rack"}
_CHECKED = ClusterFacts(
    local_queues={("default", "team"): LocalQueue("booked")},
    cluster_queues={"booked": ClusterQueue(checks=("nodes",))},
    resource_flavors={},
    admission_checks={"nodes": AdmissionCheck(kueue.PROVISIONING_REQUEST)},
)
_OF_PODS = "turn the gate off"
_OF_TEMPLATES = "remove schedulerName from the template (Rollcall sets it on the pods), or turn the gate off"
_LIBRARY = {"version": "0.19", "featureGates": {"SchedulerLibraryIntegration": True}}
# From here on, Kueue's check ignores which scheduler a pod set names.
_ANY_SCHEDULER = Version(0, 20)


def _template(scheduler: str | None) -> dict[str, Any]:
    return pod_template(None if scheduler is None else {"schedulerName": scheduler}, annotations=_RACKS)


@rule(
    "kueue/scheduler-library",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    passes=Example(job(labels=_QUEUED, template=_template(None)), kueue=_LIBRARY),
    fails=Example(job(labels=_QUEUED, template=_template("koord-scheduler")), kueue=_LIBRARY),
)
def scheduler_library(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """With the feature gate SchedulerLibraryIntegration, Kueue up to 0.19 checks nodes with the filters of
    kube-scheduler, for a profile default-scheduler and no other. A pod set that names another scheduler gets no
    topology, so Kueue never admits its Workload. Kueue 0.20 ignores the name. The release is the one that the
    configuration states (`kueue.version`), else it follows from the versions of Kueue's API that the cluster serves.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/scheduler/was/scheduling_simulator.go; issue 15630 ("profile not
    found for scheduler name"); CHANGELOG-0.20 (pull request 15635).
    """
    if not context.kueue.scheduler_library or (gangs := gangs_of(workload, context)) is None:
        return
    runs = kueue_integration.release(context.facts, context.kueue)
    if runs is not None and runs >= _ANY_SCHEDULER:
        return
    whole = places_all(gangs.held.queue, workload.namespace, context.facts) is True
    for path, name in _scheduler_names(workload, gangs, context, whole=whole):
        if name != DEFAULT_SCHEDULER and runs is None:
            yield Unjudged(path, "the release of Kueue", part="apis")
        elif name != DEFAULT_SCHEDULER:
            why = (
                "with the gate SchedulerLibraryIntegration, Kueue up to 0.19 knows only default-scheduler and "
                "admits no other"
            )
            yield Finding(path, name, why, _OF_PODS if isinstance(workload, PodCliqueSet) else _OF_TEMPLATES)


def _scheduler_names(
    workload: PodCliqueSet | OptedInWorkload, gangs: KueueGangs, context: Context[Any], *, whole: bool
) -> Iterator[tuple[FieldPath, str]]:
    """Yields the schedulers that Kueue finds in the pod sets that it places, each with its path. Kueue copies Grove's
    pods, which have the scheduler that Rollcall has set. It copies the templates of other workloads.
    """
    placed = [placeable for placeable in gangs.pods if whole or placeable.request is not None]
    if isinstance(workload, PodCliqueSet):
        if placed:
            yield context.choice.path, context.choice.scheduler
        return
    for placeable in placed:
        name = text(placeable.template.spec.get("schedulerName"))
        if name is not None:
            path = placeable.template.spec_path / "schedulerName"
            yield path if gangs.made_job_set is None else gangs.made_job_set.path_in_train_job(path), name


@rule(
    "kueue/provisioning",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_QUEUED), facts=_CHECKED),
    fails=Example(job(labels=_QUEUED), facts=_CHECKED),
)
def provisioning(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A ProvisioningRequest makes the cluster autoscaler add nodes and keep them for pods with its annotation. The
    autoscaler simulates kube-scheduler. Whether its nodes fit a gang of another scheduler is not known: this was not
    run, because the autoscaler needs machines that it can add.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/admissionchecks/provisioning.
    """
    scheduler = context.choice.scheduler
    hold = None if scheduler == DEFAULT_SCHEDULER else _held(workload, context)
    if hold is None:
        return
    cluster = cluster_queue(hold.queue, workload.namespace, context.facts)
    for name in cluster.checks if cluster is not None else ():
        check = (context.facts.admission_checks or {}).get(name)
        if check is not None and check.controller == kueue.PROVISIONING_REQUEST:
            why = f"its check {name} books nodes for kube-scheduler, and {scheduler} was not tried with it"
            yield Finding(hold.path or NAMESPACE, hold.queue, why, "try it, or use a queue without that check")
            return


def _held(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> kueue_integration.Held | None:
    """Returns how Kueue holds a workload. For a TrainJob it is not asked again for its JobSet."""
    if isinstance(workload, PodCliqueSet):
        return next((member.held for member in held_cliques(workload, context)), None)
    return (
        None if isinstance(workload, TrainerJobSet) else kueue_integration.held(workload, context.facts, context.kueue)
    )
