"""OptedInWorkload: what the opted-in workloads have in common, for rules and for making gangs; and the groups that a
scheduler itself makes of the pods of a workload, as trees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from webhook.model.capabilities import VOLCANO_QUEUE, Use
from webhook.model.fields import SPEC, FieldPath
from webhook.model.grove import OwnerReference, controller_in
from webhook.model.keys import ObjectKey, Record
from webhook.model.pod_template import PodTemplate, pods_claims
from webhook.model.projections import Resource
from webhook.model.reading import EMPTY, Manifest, any_true, flag, mapping, text
from webhook.model.workload_record import SCHEDULER_LABEL, disruption_of, queues_of, quota_of_template

# The keys by which a workload, or its pods, name a Volcano queue: Grove's key and Volcano's own. The first wins.
QUEUE_ANNOTATIONS = (VOLCANO_QUEUE, "scheduling.volcano.sh/queue-name")

# The conditions with which controllers end their work: Job, JobSet, and the kinds of Kubeflow.
TERMINAL = frozenset({"Complete", "Completed", "Failed", "Succeeded"})


class TemplatePlace(NamedTuple):
    """The path of a pod template in its workload."""

    path: FieldPath

    @property
    def metadata_path(self) -> FieldPath:
        """The path of labels and annotations."""
        return self.path / "metadata"

    @property
    def spec_path(self) -> FieldPath:
        """The path of the pod spec."""
        return self.path / "spec"


class Part(NamedTuple):
    """The pods that a workload makes from one template: how many exist at a time, and how many each Job or group has.
    `path` is the path of the part, `place` that of its pod template. `after` are the parts that it waits for. The gang
    needs `minimum` of the pods, all of them without a number. If it is `elastic`, its controller may add pods to them.
    """

    name: str
    path: FieldPath
    place: FieldPath
    template: PodTemplate
    pods: int
    each: int
    after: tuple[str, ...] = ()
    minimum: int | None = None
    elastic: bool = False

    @property
    def needed(self) -> int:
        """How many of its pods the gang needs."""
        return self.pods if self.minimum is None else self.minimum


class SchedulingBlock(NamedTuple):
    """A place from which a workload's own controller makes groups of the Workload API: its path and content, and the
    names of the parts whose pods are in the groups; None for all parts. It makes a group for each Job if `per_job`.
    """

    path: FieldPath
    spec: Mapping[str, Any]
    parts: tuple[str, ...] | None = None
    per_job: bool = False


class LeaderWorkerSetRole(NamedTuple):
    """A role of a workload that makes a LeaderWorkerSet for each: the number of groups, and of pods in each group, and
    how many groups one step of a rollout makes. Another object holds the number of groups if not `is_stated`.
    """

    part: Part
    groups: int
    size: int
    surge: int = 1
    is_stated: bool = True


class Hindrance(NamedTuple):
    """Why the pods of a workload cannot all start together, because of what its controller does."""

    rule: str
    at: FieldPath
    value: Any
    why: str
    remedy: str


class Left(NamedTuple):
    """Why Rollcall makes no gang of a workload: something else does. `is_made` means that an object does that the
    workload's controller makes, and that Rollcall makes the gang of that object. `system` reads the gang that something
    else makes, as named in `webhook.model.claims`; empty if that is not known.
    """

    at: FieldPath
    why: str
    is_made: bool = False
    system: str = ""


class OptedInWorkload(ABC):
    """A workload that is not Grove's. Raises `Malformed` if a field that it reads has the wrong type."""

    resource: ClassVar[Resource]
    # Its kind; with its group if another kind has the same name.
    kind: ClassVar[str]
    # Whether a namespace opts it in, besides its own label.
    by_namespace: ClassVar[bool] = True
    # The name of the CustomResourceDefinition of a declared kind.
    crd: ClassVar[str] = ""
    # Whether it alone states what its pods and its queue are.
    has_own_pods: ClassVar[bool] = True
    # Whether Rollcall makes gangs of its pods.
    has_gangs: ClassVar[bool] = True
    # The kind of the object whose gangs it has instead of its own.
    left_to: ClassVar[str] = ""
    # The pod labels with its name, and with the role.
    name_label: ClassVar[str] = ""
    role_label: ClassVar[str] = ""
    # What `spec.managedBy` says for the controller of the kind; None if the kind has no such field.
    default_controller: ClassVar[str | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "resource" in cls.__dict__ and "kind" not in cls.__dict__:
            cls.kind = cls.resource.api.kind

    def __init__(self, raw: Manifest, namespace: str | None = None) -> None:
        self.raw = raw
        self.metadata = mapping(raw.get("metadata"))
        self.name = text(self.metadata.get("name")) or text(self.metadata.get("generateName")) or ""
        self.namespace = text(self.metadata.get("namespace")) or namespace or "default"
        self.uid = text(self.metadata.get("uid"))
        self.labels = mapping(self.metadata.get("labels"))
        self.annotations = mapping(self.metadata.get("annotations"))
        self.spec = mapping(raw.get("spec"))
        self._parts: tuple[Part, ...] | None = None

    def read(self) -> None:
        """Reads every field that any caller may read. Raises `Malformed`."""
        _ = self.parts, self.record, self.controller, self.suspended, self.sequence_path, self.hindrances
        _ = self.managed_elsewhere, tuple(self.counts())

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def scheduler(self) -> str | None:
        """The scheduler that it records, or chooses."""
        return text(self.labels.get(SCHEDULER_LABEL))

    @property
    def reference(self) -> OwnerReference:
        """The reference that its gang objects have to it."""
        api = self.resource.api
        # An object of another version of a declared kind is referred to as it is written.
        version = text(self.raw.get("apiVersion")) if self.crd else None
        return OwnerReference(version or f"{api.group}/{api.version}", api.kind, self.name, self.uid)

    def carried(self, _key: str) -> Use | None:
        """Returns the value that its controller writes under a key on what it makes, and the place that it is from."""
        return None

    def carried_path(self, _key: str) -> FieldPath | None:
        """Returns the place that its controller takes the value for a key from, whether it has one or not."""
        return None

    @property
    def controller(self) -> OwnerReference | None:
        """The object that made it."""
        return controller_in(self.metadata)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its pods, by template."""
        if self._parts is None:
            self._parts = tuple(self._read_parts())
        return self._parts

    @abstractmethod
    def _read_parts(self) -> Iterator[Part]:
        """Yields the parts of the workload."""

    @property
    def distinct_parts(self) -> tuple[Part, ...]:
        """Its parts, one for each pod template: a leader and its workers may share one."""
        return tuple({part.place: part for part in self.parts}.values())

    @property
    def templates(self) -> tuple[PodTemplate, ...]:
        return tuple(part.template for part in self.parts)

    @cached_property
    def mentions(self) -> set[str]:
        """The names of its labels, annotations and spec fields, and what its templates mention. Raises `Malformed`."""
        mentions = {*self.labels, *self.annotations, *self.spec}
        return mentions.union(*(template.mentions for template in self.templates))

    @property
    def sequence_path(self) -> FieldPath | None:
        """The path that makes one part start after another; None if all start at once."""
        return None

    @property
    def gang_per_part(self) -> bool:
        return self.sequence_path is not None

    @property
    def together(self) -> Mapping[str, int] | None:
        """By role, how many groups start together; a role that is missing has one. None if it has no roles."""
        return None

    @property
    def roles(self) -> tuple[LeaderWorkerSetRole, ...]:
        return ()

    @property
    def marked_paths(self) -> tuple[FieldPath, ...]:
        """The paths of the labels into which the record is written, besides its own."""
        return tuple(dict.fromkeys(part.template.labels_path for part in self.parts))

    @cached_property
    def native_path(self) -> FieldPath | None:
        """The path that asks the workload's own controller for a gang of the Workload API: `spec.scheduling`, in Job
        from Kubernetes 1.37 on (gate WorkloadWithJob), in JobSet with KEP-969, in LeaderWorkerSet with KEP-666.
        """
        return SPEC / "scheduling" if self.spec.get("scheduling") is not None else None

    def scheduling_blocks(self) -> Iterator[SchedulingBlock]:
        """Yields what `spec.scheduling` asks its own controller for. No rule has checked the types of these fields."""
        if isinstance(scheduling := self.spec.get("scheduling"), Mapping):
            yield SchedulingBlock(SPEC / "scheduling", scheduling)

    def parts_of(self, block: SchedulingBlock) -> Sequence[Part]:
        """Returns the parts whose pods are in the groups of a block, each once."""
        if block.parts is None:
            return self.parts
        return [self._first_of[name] for name in dict.fromkeys(block.parts) if name in self._first_of]

    @cached_property
    def _first_of(self) -> Mapping[str, Part]:
        return {part.name: part for part in reversed(self.parts)}

    @property
    def suspended(self) -> bool:
        """Whether it is suspended: it has no pods now, and may have other pods when it is resumed."""
        return flag(self.spec.get("suspend"))

    @property
    def managed_elsewhere(self) -> str | None:
        """The controller in `spec.managedBy`, if it is another than the kind's own: then no pods are made here.
        MultiKueue (kueue.x-k8s.io/multikueue) runs the workload in another cluster.
        """
        if self.default_controller is None:
            return None
        manager = text(self.spec.get("managedBy"))
        return None if manager in {None, "", self.default_controller} else manager

    @property
    def managed_path(self) -> FieldPath:
        return SPEC / "managedBy"

    def leaves(self) -> Iterator[Left]:
        """Yields why something else makes its gang."""
        if (at := self.native_path) is not None:
            yield Left(at, f"its own controller makes its gang, because {at} is set")

    @property
    def outside_parts(self) -> tuple[Part, ...]:
        """Its parts whose pods are in no gang, such as a launcher."""
        return ()

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Returns the fields that state numbers of its pods, with their values. Raises `Malformed`."""
        return iter(())

    @property
    def finished(self) -> bool:
        """Whether its controller has ended its work, successfully or not: no more pods are created."""
        return any_true(self.raw, TERMINAL)

    @cached_property
    def hindrances(self) -> tuple[Hindrance, ...]:
        """What prevents a gang of this workload from ever being complete."""
        return tuple(self._read_hindrances())

    def _read_hindrances(self) -> Iterator[Hindrance]:
        return iter(())

    @cached_property
    def priority_class(self) -> str | None:
        """The PriorityClass of its pods, if all name the same. Each gang uses it."""
        names = {text(part.template.spec.get("priorityClassName")) for part in self.parts}
        return names.pop() if len(names) == 1 else None

    @property
    def record(self) -> Record:
        """The record from which its pods are prepared."""
        queues: dict[str, str] = {}
        holders = [(self.labels, self.annotations), *((EMPTY, template.annotations) for template in self.templates)]
        for labels, stated in holders:
            # Other keys are not read there: KAI's key is a label of owners and pods.
            read = {key: stated[key] for key in QUEUE_ANNOTATIONS if key in stated}
            for key, queue in queues_of({"labels": dict(labels), "annotations": read}).items():
                queues.setdefault(key, queue)
        quota = quota_of_template(self.metadata)
        ordered = tuple((key, queues[key]) for key in sorted(queues))
        claims = pods_claims(self.annotations, ((part.name, part.template.spec) for part in self.parts))
        disruption = disruption_of(self.labels)
        return Record(self.scheduler, quota, ordered, self.priority_class, disruption, claims=claims)


def template_at(raw: Mapping[str, Any], path: FieldPath) -> PodTemplate:
    return PodTemplate(mapping(raw.get("metadata")), mapping(raw.get("spec")), TemplatePlace(path))


@dataclass(frozen=True, slots=True)
class SchedulerGroup:
    """A group of pods, or of the groups `below` it. It starts with `minimum` of its `pods`.

    `needed` of the groups below must have their minimum; all of them without a number. A leaf has the pods of one
    `part`. `more` counts further equal groups, `last` is the name of the last one. `waits_for` is what has pods before
    this group has some.
    """

    name: str
    pods: int
    minimum: int
    part: Part | None = None
    needed: int | None = None
    required: str | None = None
    preferred: str | None = None
    waits_for: str | None = None
    more: int = 0
    last: str | None = None
    below: tuple[SchedulerGroup, ...] = ()


class SchedulerGroups(NamedTuple):
    """The groups of a workload. Without groups, `why` says why the scheduler makes none, or why they are not known."""

    groups: tuple[SchedulerGroup, ...]
    why: str = ""


def group_of(
    name: str,
    below: tuple[SchedulerGroup, ...],
    needed: int | None = None,
    domains: tuple[str | None, str | None] = (None, None),
) -> SchedulerGroup:
    """Returns the group that needs `needed` of the groups below it, those with the fewest pods, or all of them.
    `domains` are those that it requires and prefers.
    """
    pods = sum(group.pods * (1 + group.more) for group in below)
    if needed is None or needed >= len(below):
        return SchedulerGroup(
            name, pods, sum(group.minimum * (1 + group.more) for group in below), None, None, *domains, below=below
        )
    minimum = sum(sorted(group.minimum for group in below)[: max(needed, 0)])
    return SchedulerGroup(name, pods, minimum, None, needed, *domains, below=below)
