"""GangShapes: the gangs of a workload, or one that exists, as a scheduler will see them.

A PodCliqueSet has one shape for the gang that starts first, and one for each scaling group whose replicas above the
minimum are gangs of their own. All its replicas are equal, so only the first is described. The work grows with the
manifest and not with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.fit.controller_changes import NO_CHANGES, ControllerChanges, changes_of
from webhook.fit.shape import GangShape, MemberShape, SubsetShape
from webhook.model import grove
from webhook.model.changes import value_at
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.grove_generation import GroveGeneration, PodGangNames, generation_of
from webhook.model.kueue.keys import ELASTIC_JOB
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.reading import mapping, text
from webhook.model.record import record_of
from webhook.model.workloads.gang import OptedInGang, gangs_of, no_gang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.place import NAME_LABELS
from webhook.model.workloads.podcliqueset import Clique, GroupCliques, PodCliqueSet, Topology
from webhook.model.workloads.shapes.workload import ShapedWorkload
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.volcano_job import QUEUE, SCHEDULER, is_volcano_job, least_pods, minimum_of
from webhook.model.workloads.workload import OptedInWorkload, Part

# The most replicas of scaling groups that a shape lists one by one, because each has a domain of its own. Of further
# ones only the pods count.
MOST_LISTED = 64
# The most gangs of one workload that are judged. A set has more only with many scaling groups.
MOST_SHAPES = 8


def shapes_of_set(
    workload: PodCliqueSet, scheduler: str, facts: ClusterFacts, generation: GroveGeneration | None = None
) -> list[GangShape]:
    """Return the gangs of one replica of a PodCliqueSet: the first, then one for each scaling group that adds some."""
    if workload.replicas <= 0 or _deleted(workload.raw):
        return []
    return list(_OfSet(workload, scheduler, facts, generation_of(facts, generation)).shapes())


def shapes_of_workload(workload: OptedInWorkload, volcano: str | None = None) -> list[GangShape]:
    """Return the gangs of an opted-in workload; none if it is over, if another cluster runs it, if others make its
    gangs, or if its controller never lets a gang be complete. A TrainJob has those of the JobSet that is made of it,
    unless it changes more of its runtime's pods than their number. A Volcano Job has one for the scheduler `volcano`.
    """
    if volcano is not None and is_volcano_job(workload):
        return [] if workload.finished or _deleted(workload.raw) else _of_volcano_job(workload, volcano)
    barred = no_gang(workload)
    if workload.finished or _deleted(workload.raw) or (barred is not None and not barred.is_made):
        return []
    if isinstance(workload, ShapedWorkload) and not _is_whole(workload):
        return []
    if workload.together is not None:
        # Its LeaderWorkerSets, which have the template of the leader too, are judged when they are made.
        return []
    if isinstance(workload, MadeJobSet) and _is_out_of_date(workload):
        return []
    if isinstance(workload, LeaderWorkerSet):
        return [] if workload.replicas <= 0 else [_of_group(workload)]
    found = []
    changes = changes_of(workload)
    for gang in gangs_of(workload):
        members = tuple(
            _of_part(gang, member.name, part, part.pods, changes, part.needed)
            for member in gang.members
            for part in gang.parts[member.name]
        )
        found.append(_of_opted_in(gang, members, changes))
        if len(found) == MOST_SHAPES:
            break
    return found


def _of_volcano_job(workload: OptedInWorkload, scheduler: str) -> list[GangShape]:
    """Return the gang that Volcano makes of the tasks whose pods are created first; none if another scheduler places
    some of them.
    """
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
    shape = _of_opted_in(
        gang,
        tuple(_of_part(gang, part.name, part, part.pods, minimum=least[part.path]) for part in first),
        changes_of(workload),
    )
    stated = minimum_of(workload)
    left_out = []
    if stated is not None and stated > sum(minimums.values()):
        left_out.append("of which tasks the other pods of minAvailable are")
    if any(mapping(value_at(workload.raw, path)[1]).get("topologyPolicy") for path in least):
        left_out.append("the topologyPolicy of the tasks")
    queue = text(workload.spec.get("queue")) or QUEUE
    return [shape._replace(left_out=(*shape.left_out, *left_out), queue=queue)]


def _is_whole(workload: ShapedWorkload) -> bool:
    """Return whether the templates of a workload say what its pods need: an object with some fields of a template says
    nothing of resources. Kueue may start an elastic workload in parts.
    """
    return ELASTIC_JOB not in {**workload.labels, **workload.annotations} and not any(
        part.flat for part in workload.shape.parts
    )


def _is_named(raw: Mapping[str, Any]) -> bool:
    """Return whether an object has its name already, and does not get one at creation."""
    return bool(mapping(raw.get("metadata")).get("name"))


def _deleted(raw: Mapping[str, Any]) -> bool:
    return mapping(raw.get("metadata")).get("deletionTimestamp") is not None


def _is_out_of_date(workload: MadeJobSet) -> bool:
    """Return whether the runtime's pods are not the TrainJob's: it is over, or may change what they need."""
    train_job = workload.train_job
    return train_job.finished or _deleted(train_job.raw) or changes_pods(workload)


def _of_group(workload: LeaderWorkerSet) -> GangShape:
    """Return one group of a LeaderWorkerSet, without a revision. Leader and workers with one template are one role."""
    gang = next(gangs_of(workload))
    (name,) = gang.parts
    roles: dict[FieldPath, MemberShape] = {}
    for part in workload.parts:
        known = roles.get(part.place)
        count = part.each + (0 if known is None else known.pods)
        roles[part.place] = _of_part(gang, name, part, count)
    return _of_opted_in(gang, tuple(roles.values()), changes_of(workload))._replace(more=workload.replicas - 1)


def _of_part(
    gang: OptedInGang,
    member: str,
    part: Part,
    pods: int,
    changes: ControllerChanges = NO_CHANGES,
    minimum: int | None = None,
) -> MemberShape:
    role = part.name or gang.workload.name
    needed = pods if minimum is None else minimum
    workload = gang.workload
    label = NAME_LABELS.get(workload.kind)
    named = _is_named(workload.raw) and len(workload.name) <= LABEL_VALUE_LIMIT
    written = {label: workload.name} if label is not None and named else {}
    return MemberShape(
        f"{gang.name}-{role}",
        part.place,
        changes.made(part.template),
        needed,
        pods,
        role=role,
        part=member,
        written=written,
    )


def _of_opted_in(gang: OptedInGang, members: tuple[MemberShape, ...], changes: ControllerChanges) -> GangShape:
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
    """The node label key of a required domain, where it is required, and what is unknown about it."""

    key: str | None = None
    at: FieldPath | None = None
    unknown: str | None = None


class _OfSet:
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
        """Yield them, up to a limit."""
        workload = self._workload
        groups = workload.groups_with_cliques()
        members = [self._member(clique, clique.name, 1) for clique in workload.cliques if clique.group is None]
        subsets: list[SubsetShape] = []
        left = MOST_LISTED
        for one in groups:
            listed = min(one.group.first_replicas, left) if self._has_domains(one) else 0
            left -= listed
            for index in range(listed):
                self._add_replica(one, index, members, subsets)
            if (rest := one.group.first_replicas - listed) > 0:
                if self._has_domains(one):
                    self._left_out[f"the domains of the replicas of {one.group.name} above {listed}"] = None
                members += [self._member(clique, f"{one.group.name}-{clique.name}", rest) for clique in one.cliques]
        yield self._shape(self._names.first(self._base), workload.topology, members, subsets, 1)
        for one in [one for one in groups if one.group.further_replicas][: MOST_SHAPES - 1]:
            yield self._further(one)

    def _further(self, one: GroupCliques) -> GangShape:
        """Return the gang of a scaling-group replica above the minimum. The constraint of its group is that of the
        whole gang up to v0.1.0-alpha.11, and one on a subset of it since.
        """
        group = one.group
        members: list[MemberShape] = []
        subsets: list[SubsetShape] = []
        self._add_replica(one, max(group.min_available, 0), members, subsets)
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
        self, one: GroupCliques, index: int, members: list[MemberShape], subsets: list[SubsetShape]
    ) -> None:
        name = f"{one.group.name}-{index}"
        own = [self._member(clique, f"{name}-{clique.name}", 1) for clique in one.cliques]
        members += own
        domain = self._domain(one.group.topology)
        if domain.key is not None and domain.at is not None:
            named = tuple(member.name for member in own)
            subsets.append(SubsetShape(f"{self._base}-{name}", named, domain.key, domain.at))

    def _member(self, clique: Clique, name: str, times: int) -> MemberShape:
        # Of many replicas that are counted together, the domain of each is left out.
        domain = self._domain(clique.topology) if times == 1 else _Domain()
        minimum, pods = max(clique.min_available, 0) * times, max(clique.replicas, 0) * times
        full = f"{self._base}-{name}"
        return MemberShape(
            full,
            clique.path,
            clique.template,
            minimum,
            pods,
            domain.key,
            domain.at,
            clique.name,
            full,
            self._written(clique, {grove.LABEL_PODCLIQUE: full} if times == 1 else {}),
        )

    def _written(self, clique: Clique, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels that Grove's operator writes into the pods of a clique. The gang's own name may have a
        number that the operator chooses.
        """
        if not _is_named(self._workload.raw):
            return {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE}
        group = {} if clique.group is None else {grove.LABEL_SCALING_GROUP: f"{self._base}-{clique.group.name}"}
        return {
            grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
            grove.LABEL_PART_OF: self._workload.name,
            grove.LABEL_REPLICA: "0",
            **group,
            **labels,
        }

    def _has_domains(self, one: GroupCliques) -> bool:
        """Return whether the replicas of a group must be told apart."""
        topologies = (one.group.topology, *(clique.topology for clique in one.cliques))
        return any(topology is not None and topology.required for topology in topologies)

    def _domain(self, topology: Topology | None) -> _Domain:
        """Return the node label key of a required domain. Grove's operator drops one that the binding lacks."""
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


def changes_pods(workload: MadeJobSet) -> bool:
    """Return whether a TrainJob may change the resources, the nodes or the tolerations of its runtime's pods, in a way
    that the JobSet which is made here lacks.
    """
    spec = workload.train_job.spec
    if not workload.resources_known:
        return True
    if spec.get("podTemplateOverrides") or spec.get("initializer"):
        return True
    return any(_patches_pods(patch) for patch in _items(spec.get("runtimePatches")))


def _patches_pods(patch: object) -> bool:
    """Return whether a runtime patch says anything about the spec of pods."""
    found: object = patch
    for field in ("trainingRuntimeSpec", "template", "spec"):
        found = found.get(field) if isinstance(found, Mapping) else None
    jobs = found.get("replicatedJobs") if isinstance(found, Mapping) else None
    for job in _items(jobs):
        one: object = job
        for field in ("template", "spec", "template", "spec"):
            one = one.get(field) if isinstance(one, Mapping) else None
        if one:
            return True
    return False


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()
