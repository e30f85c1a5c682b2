"""The shapes of gangs: a gang as its workload states it, before a scheduler packs it, and one that exists.

A PodCliqueSet has one shape for the gang that starts first, and one for each scaling group whose replicas above the
minimum are gangs of their own. Its replicas are equal, so only the first is described: the work grows with the
manifest and not with its numbers. The shape of a gang that exists comes from its PodGang and its stored pods, which no
webhook changes any more. Only a fresh gang has one: schedulers count pods on nodes, and pods that ended, each in its
own way.

Source of what controllers write into pods: kubernetes-sigs/jobset v0.12, pkg/controllers/jobset_controller.go and
pkg/webhooks/pod_mutating_webhook.go; kubernetes-sigs/lws v0.9, pkg/webhooks/pod_webhook.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.fit.pod_needs import OF_ONE_POD
from webhook.fit.verdict import Witness
from webhook.model import grove
from webhook.model.admission_request import value_at
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.grove import GroveGeneration, PodGang, PodGangNames, generation_of
from webhook.model.keys import LABEL_VALUE_LIMIT, Record
from webhook.model.kueue import ELASTIC_JOB
from webhook.model.place import NAME_LABELS
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.model.workload_record import record_of
from webhook.workloads import jobset
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import SUBGROUP_EXCLUSIVE, LeaderWorkerSet
from webhook.workloads.opted_in_gang import OptedInGang, gangs_of, no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload, Part
from webhook.workloads.pod_clique_set import Clique, GroupCliques, PodCliqueSet, Topology
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.trainjob import TrainerJobSet
from webhook.workloads.volcano_job import QUEUE, SCHEDULER, is_volcano_job, least_pods, minimum_of


class MemberShape(NamedTuple):
    """The pods that a gang has of one template. The gang starts with `minimum` of them; `pods` is their number.
    `required` is the node label key of the domain that they must share, `required_at` the field that says so. `role` is
    what people call the template: members with the same role have the same template. `part` is the name of the member
    in the gang object, where that is another.
    """

    name: str
    at: FieldPath
    template: PodTemplate
    minimum: int
    pods: int
    required: str | None = None
    required_at: FieldPath | None = None
    role: str = ""
    part: str = ""
    # Labels that its controllers are known to write into all of these pods.
    written: Mapping[str, str] = {}

    @property
    def called(self) -> str:
        return self.role or self.name


class SubsetShape(NamedTuple):
    """Members of a gang that must share a domain, such as one replica of a scaling group."""

    name: str
    members: tuple[str, ...]
    required: str
    required_at: FieldPath


class GangShape(NamedTuple):
    """A gang. `required` is the node label key of the domain that all its pods must share. `stored` says whether the
    templates are those of stored pods: no other webhook can change these.

    `labels` and `annotations` are those that the scheduler reads of the gang (a PodGang or a workload), and `more` is
    how many further gangs are equal to this one. `opted_in` is the gang in the form that backends take, for a workload
    that is not Grove's.

    `left_out` says in words what restricts the gang and is not in the shape: it is unknown, or there is too much of
    it. A *never* stays valid; *fits* is not reported.

    `queue` is that of the group which the workload's own controller makes, if it does.

    `refusals` are proofs that what holds its workload never lets it start, whatever the gang is. `assumptions` are
    what they rely on, and `unjudged` says what is not known of that.
    """

    name: str
    namespace: str
    members: tuple[MemberShape, ...]
    record: Record
    subsets: tuple[SubsetShape, ...] = ()
    required: str | None = None
    required_at: FieldPath | None = None
    labels: Mapping[str, Any] = {}
    annotations: Mapping[str, Any] = {}
    topology_name: str | None = None
    stored: bool = False
    more: int = 0
    opted_in: OptedInGang | None = None
    left_out: tuple[str, ...] = ()
    queue: str | None = None
    refusals: tuple[Witness, ...] = ()
    assumptions: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[MemberShape, ...]:
        """The members that the gang cannot start without."""
        return tuple(member for member in self.members if member.minimum > 0)


# JobSet's pods that are given nodes by a label tolerate the taint that keeps other pods off these nodes.
_GIVEN_NODES = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
_EXCLUSIVE = "the exclusive topology, for which {} adds affinity or node labels to the pods"


class ControllerChanges(NamedTuple):
    """What a workload's controller adds to its pods: tolerations, and in words where else it restricts them to."""

    tolerations: tuple[Manifest, ...] = ()
    left_out: tuple[str, ...] = ()

    def apply(self, template: PodTemplate) -> PodTemplate:
        """Returns a template with the tolerations. Raises `Malformed`."""
        if not self.tolerations:
            return template
        tolerations = sequence(template.spec.get("tolerations"))
        return template.replace_spec({**template.spec, "tolerations": [*tolerations, *self.tolerations]})


def changes_of(workload: OptedInWorkload) -> ControllerChanges:
    """Returns what the controller of a workload changes. Raises `Malformed`."""
    if isinstance(workload, LeaderWorkerSet) and workload.annotations.get(SUBGROUP_EXCLUSIVE):
        return ControllerChanges(left_out=(_EXCLUSIVE.format("LeaderWorkerSet"),))
    keys: set[str] = set()
    if isinstance(workload, JobSet):
        # The pods get the annotations of the JobSet and of its Jobs together.
        jobs = (mapping(workload.job_metadata(index).get("annotations")) for index in range(len(workload.parts)))
        keys.update(workload.annotations, *jobs)
    return ControllerChanges(
        (_GIVEN_NODES,) if jobset.NODE_SELECTOR in keys else (),
        (_EXCLUSIVE.format("JobSet"),) if jobset.EXCLUSIVE in keys else (),
    )


# The most replicas of scaling groups that a shape lists one by one, because each has a domain of its own. Of further
# ones only the pods count.
MOST_LISTED = 64
# The most gangs of one workload that are judged. A set has more only with many scaling groups.
MOST_SHAPES = 8


def shapes_of_set(
    workload: PodCliqueSet, scheduler: str, facts: ClusterFacts, generation: GroveGeneration | None = None
) -> list[GangShape]:
    """Returns the gangs of one replica of a PodCliqueSet: the first, then one for each scaling group that adds some."""
    if workload.replicas <= 0 or _is_deleted(workload.raw):
        return []
    return list(_SetShapes(workload, scheduler, facts, generation_of(facts, generation)).shapes())


def shapes_of_workload(workload: OptedInWorkload, volcano: str | None = None) -> list[GangShape]:
    """Returns the gangs of an opted-in workload; none if it is over, if another cluster runs it, if others make its
    gangs, or if its controller never lets a gang be complete. A TrainJob has those of the JobSet that is made of it,
    unless it changes more of its runtime's pods than their number. A Volcano Job has one for the scheduler `volcano`.
    """
    if volcano is not None and is_volcano_job(workload):
        return [] if workload.finished or _is_deleted(workload.raw) else _volcano_shapes(workload, volcano)
    barred = no_gang(workload)
    if workload.finished or _is_deleted(workload.raw) or (barred is not None and not barred.is_made):
        return []
    if isinstance(workload, ShapedWorkload) and (
        # Kueue may start an elastic workload in parts. Some fields of a template say nothing of resources.
        ELASTIC_JOB in {**workload.labels, **workload.annotations} or any(part.flat for part in workload.shape.parts)
    ):
        return []
    if workload.together is not None:
        # Its LeaderWorkerSets, which have the template of the leader too, are judged when they are made.
        return []
    if isinstance(workload, TrainerJobSet):
        # The runtime's pods are not the TrainJob's if it is over, or may change what they need.
        train_job = workload.train_job
        if train_job.finished or _is_deleted(train_job.raw) or changes_pods(workload):
            return []
    if isinstance(workload, LeaderWorkerSet):
        return [] if workload.replicas <= 0 else [_shape_of_replica(workload)]
    shapes = []
    changes = changes_of(workload)
    for gang in gangs_of(workload):
        members = tuple(
            _member_of_part(gang, member.name, part, part.pods, changes, part.needed)
            for member in gang.members
            for part in gang.parts[member.name]
        )
        shapes.append(_shape_of_opted_in(gang, members, changes))
        if len(shapes) == MOST_SHAPES:
            break
    return shapes


def _volcano_shapes(workload: OptedInWorkload, scheduler: str) -> list[GangShape]:
    """Returns the gang of the tasks whose pods Volcano creates first; none if another scheduler places some."""
    least = least_pods(workload)
    parts = {part.path: part for part in workload.parts if part.pods > 0}
    of_job = text(workload.spec.get("schedulerName")) or SCHEDULER
    schedulers = {text(part.template.spec.get("schedulerName")) or of_job for part in parts.values()}
    if not least or schedulers != {scheduler}:
        return []
    first = [part for path, part in parts.items() if path in least]
    members = [(part.name, part.pods) for part in first]
    minimums = {part.name: least[part.path] for part in first}
    gang = OptedInGang(workload, workload.name, members, {part.name: (part,) for part in first}, minimums)
    changes = changes_of(workload)
    of_parts = (_member_of_part(gang, part.name, part, part.pods, changes, least[part.path]) for part in first)
    shape = _shape_of_opted_in(gang, tuple(of_parts), changes)
    stated = minimum_of(workload)
    left_out = []
    if stated is not None and stated > sum(minimums.values()):
        left_out.append("of which tasks the other pods of minAvailable are")
    if any(mapping(value_at(workload.raw, path)[1]).get("topologyPolicy") for path in least):
        left_out.append("the topologyPolicy of the tasks")
    queue = text(workload.spec.get("queue")) or QUEUE
    return [shape._replace(left_out=(*shape.left_out, *left_out), queue=queue)]


def _is_named(raw: Mapping[str, Any]) -> bool:
    """Returns whether an object has its name already, and does not get one at creation."""
    return bool(mapping(raw.get("metadata")).get("name"))


def _is_deleted(raw: Mapping[str, Any]) -> bool:
    return mapping(raw.get("metadata")).get("deletionTimestamp") is not None


def _shape_of_replica(workload: LeaderWorkerSet) -> GangShape:
    """Returns one group of a LeaderWorkerSet, without a revision. Leader and workers with one template are one role."""
    gang = next(gangs_of(workload))
    (name,) = gang.parts
    changes = changes_of(workload)
    roles: dict[FieldPath, MemberShape] = {}
    for part in workload.parts:
        count = part.each + (roles[part.place].pods if part.place in roles else 0)
        roles[part.place] = _member_of_part(gang, name, part, count, changes, count)
    return _shape_of_opted_in(gang, tuple(roles.values()), changes)._replace(more=workload.replicas - 1)


def _member_of_part(
    gang: OptedInGang, member: str, part: Part, pods: int, changes: ControllerChanges, minimum: int
) -> MemberShape:
    workload = gang.workload
    role = part.name or workload.name
    label = NAME_LABELS.get(workload.kind)
    has_name_label = _is_named(workload.raw) and len(workload.name) <= LABEL_VALUE_LIMIT
    written = {label: workload.name} if label is not None and has_name_label else {}
    template = changes.apply(part.template)
    name = f"{gang.name}-{role}"
    return MemberShape(name, part.place, template, minimum, pods, role=role, part=member, written=written)


def _shape_of_opted_in(gang: OptedInGang, members: tuple[MemberShape, ...], changes: ControllerChanges) -> GangShape:
    workload = gang.workload
    return GangShape(
        gang.name,
        gang.namespace,
        members,
        workload.record,
        labels=workload.labels,
        annotations=workload.annotations,
        opted_in=gang,
        left_out=changes.left_out,
    )


class _Domain(NamedTuple):
    """The node label key of a required domain, and where it is required."""

    key: str | None = None
    at: FieldPath | None = None


class _SetShapes:
    """The gangs of a PodCliqueSet."""

    def __init__(
        self, workload: PodCliqueSet, scheduler: str, facts: ClusterFacts, generation: GroveGeneration
    ) -> None:
        self._workload = workload
        self._record = record_of(workload, scheduler)
        self._legacy = generation is GroveGeneration.LEGACY
        self._names = PodGangNames(generation)
        self._base = f"{workload.name}-0"
        self._facts = facts
        self._binding = workload.topology_name()
        self._left_out = {
            f"the pods of {clique.name}, whose number is negative": None
            for clique in workload.cliques
            if min(clique.replicas, clique.min_available) < 0
        }

    def shapes(self) -> Iterator[GangShape]:
        workload = self._workload
        groups = workload.groups_with_cliques()
        members = [self._member(clique, clique.name, 1) for clique in workload.cliques if clique.group is None]
        subsets: list[SubsetShape] = []
        left = MOST_LISTED
        for replicas in groups:
            listed = min(replicas.group.first_replicas, left) if self._has_domains(replicas) else 0
            left -= listed
            for index in range(listed):
                self._add_replica(replicas, index, members, subsets)
            if (rest := replicas.group.first_replicas - listed) > 0:
                if self._has_domains(replicas):
                    self._left_out[f"the domains of the replicas of {replicas.group.name} above {listed}"] = None
                members += [
                    self._member(clique, f"{replicas.group.name}-{clique.name}", rest) for clique in replicas.cliques
                ]
        yield self._shape(self._names.first(self._base), workload.topology, members, subsets, 1)
        further = [replicas for replicas in groups if replicas.group.further_replicas]
        yield from map(self._further, further[: MOST_SHAPES - 1])

    def _further(self, replicas: GroupCliques) -> GangShape:
        """Returns the gang of a further replica. Its group's constraint is on the whole gang up to v0.1.0-alpha.11."""
        group = replicas.group
        members: list[MemberShape] = []
        subsets: list[SubsetShape] = []
        self._add_replica(replicas, max(group.min_available, 0), members, subsets)
        whole = self._workload.topology
        if self._legacy:
            subsets, whole = [], group.topology or whole
        name = self._names.further(self._base, group, group.min_available)
        return self._shape(name, whole, members, subsets, group.further_replicas)

    def _shape(
        self, name: str, whole: Topology | None, members: list[MemberShape], subsets: list[SubsetShape], times: int
    ) -> GangShape:
        workload, domain = self._workload, self._domain(whole)
        return GangShape(
            name,
            workload.namespace,
            tuple(members),
            self._record,
            tuple(subsets),
            domain.key,
            domain.at,
            workload.labels,
            workload.annotations,
            self._binding,
            more=times * workload.replicas - 1,
            left_out=tuple(self._left_out),
        )

    def _add_replica(
        self, replicas: GroupCliques, index: int, members: list[MemberShape], subsets: list[SubsetShape]
    ) -> None:
        name = f"{replicas.group.name}-{index}"
        replica_members = [self._member(clique, f"{name}-{clique.name}", 1) for clique in replicas.cliques]
        members += replica_members
        domain = self._domain(replicas.group.topology)
        if domain.key is not None and domain.at is not None:
            names = tuple(member.name for member in replica_members)
            subsets.append(SubsetShape(f"{self._base}-{name}", names, domain.key, domain.at))

    def _member(self, clique: Clique, name: str, times: int) -> MemberShape:
        # Of many replicas that are counted together, the domain of each is left out.
        domain = self._domain(clique.topology) if times == 1 else _Domain()
        minimum, pods = max(clique.min_available, 0) * times, max(clique.replicas, 0) * times
        full = f"{self._base}-{name}"
        written = self._written(clique, {grove.LABEL_PODCLIQUE: full} if times == 1 else {})
        return MemberShape(
            full, clique.path, clique.template, minimum, pods, *domain, role=clique.name, part=full, written=written
        )

    def _written(self, clique: Clique, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the labels that Grove writes into the pods of a clique. The operator may number a gang's name."""
        if not _is_named(self._workload.raw):
            return {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE}
        group = {} if clique.group is None else {grove.LABEL_SCALING_GROUP: f"{self._base}-{clique.group.name}"}
        names = {grove.LABEL_PART_OF: self._workload.name, grove.LABEL_REPLICA: "0"}
        return {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE, **names, **group, **labels}

    def _has_domains(self, replicas: GroupCliques) -> bool:
        topologies = (replicas.group.topology, *(clique.topology for clique in replicas.cliques))
        return any(topology is not None and topology.required for topology in topologies)

    def _domain(self, topology: Topology | None) -> _Domain:
        """Returns the node label key of a required domain. Grove's operator drops one that the binding lacks."""
        if topology is None or not topology.required:
            return _Domain()
        bindings = self._facts.topology_bindings
        binding = None if bindings is None else bindings.get(self._binding or "")
        if binding is not None:
            key = binding.keys.get(topology.required)
            return _Domain() if key is None else _Domain(key, topology.required_path)
        if not self._facts.is_whole("topology_bindings"):
            self._left_out[f"the ClusterTopologyBinding {self._binding or 'of the set'}"] = None
        return _Domain()


def changes_pods(workload: TrainerJobSet) -> bool:
    """Returns whether a TrainJob may change what its runtime's pods need, in a way that the JobSet here lacks."""
    spec = workload.train_job.spec
    if not workload.resources_known or spec.get("podTemplateOverrides") or spec.get("initializer"):
        return True
    patches = spec.get("runtimePatches")
    for patch in patches if isinstance(patches, list) else ():
        jobs = _nested(patch, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        if isinstance(jobs, list) and any(_nested(job, "template", "spec", "template", "spec") for job in jobs):
            return True
    return False


def _nested(holder: object, *fields: str) -> object:
    for field in fields:
        holder = holder.get(field) if isinstance(holder, Mapping) else None
    return holder


# Gates of those who change nothing else of a pod: Grove and Rollcall.
_ADDS_NOTHING = (grove.GATE, "rollcall.dev/gang-sync")
_TOLERATES_ALL = {"operator": "Exists"}
# What decides which nodes have room for a pod.
_OF_PODS = (
    "affinity",
    "hostNetwork",
    "nodeName",
    "nodeSelector",
    "overhead",
    "resourceClaims",
    "resources",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
_OF_CONTAINERS = ("resources", "ports", "restartPolicy")
# KAI reads requests for GPUs from annotations whose keys begin with these.
_OF_REQUESTS = ("gpu-fraction", "gpu-memory", "nvidia.com/mig-")


def shape_of_gang(podgang: PodGang, pods: Mapping[str, Iterable[Pod]], record: Record) -> GangShape | None:
    """Returns the shape of a gang with these pods, by the name of their member; None if a pod is on a node, has
    ended or is being deleted: the gang is not fresh. Raises `Malformed`.
    """
    pods_by_member = {member: list(member_pods) for member, member_pods in pods.items()}
    if not all(_is_fresh(pod) for member_pods in pods_by_member.values() for pod in member_pods):
        return None
    templates = {name: [_ungated(pod.template) for pod in member_pods] for name, member_pods in pods_by_member.items()}
    return shape_of_templates(podgang, templates, record)


def _ungated(template: PodTemplate) -> PodTemplate:
    """Returns a stored pod as its scheduler may see it: who removes a gate may add tolerations, as Kueue does."""
    gates = sequence(template.spec.get("schedulingGates"))
    if all(text(mapping(gate).get("name")) in _ADDS_NOTHING for gate in gates):
        return template
    return template.replace_spec({**template.spec, "tolerations": [_TOLERATES_ALL]})


def shape_of_templates(podgang: PodGang, pods: Mapping[str, Sequence[PodTemplate]], record: Record) -> GangShape:
    """Returns the shape of a fresh gang with these pods, by the name of their member. A member whose pods differ, or
    that has none, is left out: the others must still fit.
    """
    members, left_out = [], []
    for member in podgang.members:
        templates = pods.get(member.name, ())
        if not templates or any(
            scheduling_signature(templates[0]) != scheduling_signature(other) for other in templates[1:]
        ):
            if member.min_replicas > 0:
                left_out.append(f"the pods of {member.name}, which {'differ' if templates else 'are missing'}")
            continue
        template, minimum = templates[0], max(member.min_replicas, 0)
        required = member.constraint.required
        at = None if required is None else member.constraint.path / "required"
        place, count = template.spec_path, len(templates)
        members.append(MemberShape(member.name, place, template, minimum, count, required, at, part=member.name))
    names = {member.name for member in members}
    subsets = [
        SubsetShape(config.name, inside, config.constraint.required, config.constraint.path / "required")
        for config in podgang.group_configs
        if config.constraint.required is not None
        and (inside := tuple(name for name in config.members if name in names))
    ]
    whole = podgang.constraint.required
    return GangShape(
        podgang.name,
        podgang.namespace,
        tuple(members),
        record,
        tuple(subsets),
        whole,
        None if whole is None else podgang.constraint.path / "required",
        podgang.labels,
        podgang.annotations,
        podgang.topology_name,
        stored=True,
        opted_in=podgang if isinstance(podgang, OptedInGang) else None,
        left_out=tuple(left_out),
    )


def scheduling_signature(template: PodTemplate) -> str:
    """Returns what two pods must have in common to be equal for a scheduler."""
    spec = template.spec
    parts: dict[str, Any] = {field: spec.get(field) for field in _OF_PODS if spec.get(field)}
    for field in ("containers", "initContainers"):
        containers = map(mapping, sequence(spec.get(field)))
        parts[field] = [[container.get(name) for name in _OF_CONTAINERS] for container in containers]
    parts["labels"] = {key: value for key, value in template.labels.items() if key not in OF_ONE_POD}
    parts["annotations"] = {key: value for key, value in template.annotations.items() if key.startswith(_OF_REQUESTS)}
    return json.dumps(parts, sort_keys=True, default=str)


def _is_fresh(pod: Pod) -> bool:
    metadata, status = mapping(pod.raw.get("metadata")), mapping(pod.raw.get("status"))
    try:
        phase, node = text(status.get("phase")), text(pod.template.spec.get("nodeName"))
    except Malformed:
        return False
    return metadata.get("deletionTimestamp") is None and phase in {None, "Pending"} and not node
