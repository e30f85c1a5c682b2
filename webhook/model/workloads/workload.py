"""OwnedWorkload: what the workloads that are not Grove's have in common, for rules and for the derivation of gangs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.fields import SPEC, FieldPath
from webhook.model.keys import ObjectKey, Record
from webhook.model.projections import Resource
from webhook.model.reading import EMPTY, Manifest, flag, mapping, sequence, text
from webhook.model.record import SCHEDULER_LABEL, queues_of, quota_of_template
from webhook.model.workloads.podgang import OwnerReference, controller_in
from webhook.model.workloads.podtemplate import PodTemplate

# By which a workload, or its pods, name a Volcano queue: Grove's key and Volcano's own. The first wins.
QUEUE_ANNOTATIONS = (VOLCANO_QUEUE, "scheduling.volcano.sh/queue-name")

# The conditions with which a Job's and a JobSet's controllers end their work.
TERMINAL = frozenset({"Complete", "Completed", "Failed"})


class TemplatePlace(NamedTuple):
    """Where a pod template stands in its workload."""

    path: FieldPath

    @property
    def metadata_path(self) -> FieldPath:
        """Where labels and annotations are."""
        return self.path / "metadata"

    @property
    def spec_path(self) -> FieldPath:
        """Where the pod spec is."""
        return self.path / "spec"


class Part(NamedTuple):
    """The pods that a workload makes of one template: how many there are at a time, and of how many each Job or group
    is. `path` is where the part stands, `place` where its pod template does. `after` are the parts that it waits for.
    """

    name: str
    path: FieldPath
    place: FieldPath
    template: PodTemplate
    pods: int
    each: int
    after: tuple[str, ...] = ()


class Hindrance(NamedTuple):
    """Why the pods of a workload cannot all start together: something that its controller does."""

    rule: str
    at: FieldPath
    found: Any
    why: str
    remedy: str


class OwnedWorkload(ABC):
    """A workload that is not Grove's. Raises `Malformed` where a field that it reads is of the wrong type."""

    resource: ClassVar[Resource]

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
        """Read every field that somebody may read. Raises `Malformed`."""
        _ = self.parts, self.record, self.controller, self.suspended, self.sequence_path, tuple(self.hindrances())

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.resource.api.kind

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
        """What its gang objects refer to."""
        api = self.resource.api
        return OwnerReference(f"{api.group}/{api.version}", api.kind, self.name, self.uid)

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
        """Its parts."""

    @property
    def distinct_parts(self) -> tuple[Part, ...]:
        """Of its parts, one for each place of a pod template: leader and workers may be of the same one."""
        return tuple({part.place: part for part in self.parts}.values())

    @property
    def templates(self) -> tuple[PodTemplate, ...]:
        """Its pod templates."""
        return tuple(part.template for part in self.parts)

    @property
    def sequence_path(self) -> FieldPath | None:
        """Where it says that one part starts after another; None where all start at once."""
        return None

    @property
    def native_path(self) -> FieldPath | None:
        """Where it asks its own controller for a gang of the Workload API: `spec.scheduling`, in Job from Kubernetes
        1.37 on (gate WorkloadWithJob), in JobSet with KEP-969, in LeaderWorkerSet with KEP-666.
        """
        return SPEC / "scheduling" if self.spec.get("scheduling") is not None else None

    @property
    def suspended(self) -> bool:
        """Whether it has no pods for now, and may have others when it is resumed."""
        return flag(self.spec.get("suspend"))

    @property
    def finished(self) -> bool:
        """Whether its controller is done with it, well or not: no pods come any more."""
        conditions = map(mapping, sequence(mapping(self.raw.get("status")).get("conditions")))
        return any(one.get("type") in TERMINAL and one.get("status") == "True" for one in conditions)

    def hindrances(self) -> Iterator[Hindrance]:
        """What keeps a gang of it from ever being complete."""
        return iter(())

    @cached_property
    def priority_class(self) -> str | None:
        """The PriorityClass of its pods, where all name the same. Each gang asks for it."""
        named = {text(part.template.spec.get("priorityClassName")) for part in self.parts}
        return named.pop() if len(named) == 1 else None

    @property
    def record(self) -> Record:
        """What its pods are prepared from."""
        queues: dict[str, str] = {}
        holders = [(self.labels, self.annotations), *((EMPTY, template.annotations) for template in self.templates)]
        for labels, said in holders:
            # Nobody reads the others there: KAI's is a label of owners and pods.
            read = {key: said[key] for key in QUEUE_ANNOTATIONS if key in said}
            for key, queue in queues_of({"labels": dict(labels), "annotations": read}).items():
                queues.setdefault(key, queue)
        quota = quota_of_template(self.metadata)
        ordered = tuple((key, queues[key]) for key in sorted(queues))
        return Record(self.scheduler, quota, ordered, self.priority_class)


def template_at(raw: Mapping[str, Any], path: FieldPath) -> PodTemplate:
    """The pod template `raw` that stands at `path`."""
    return PodTemplate(mapping(raw.get("metadata")), mapping(raw.get("spec")), TemplatePlace(path))
