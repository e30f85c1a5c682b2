"""An object of any kind, for the rules about names: of its kind, its fields, its labels and its annotations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.admission_request import Kind
from webhook.model.field_names import EACH, ITEMS, MOST_UNKNOWN, KindFields, Trail, UnknownField, path_of
from webhook.model.fields import FieldPath, Part
from webhook.model.reading import Manifest
from webhook.model.workloads.kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS, TRAIN_JOBS
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.volcano_job import VOLCANO_JOB

_Parts = tuple[Part, ...]
_OWN, _MARKS = ("metadata",), ("labels", "annotations")
_TEMPLATE = ("spec", "template", "metadata")
_OF_RAY = (("headGroupSpec", "template", "metadata"), ("workerGroupSpecs", ITEMS, "template", "metadata"))
_OF_TASKS = ("spec", "tasks", ITEMS, "template", "metadata")
_WORKER_TEMPLATES = ("spec", "leaderWorkerTemplate")
# Where each kind has labels and annotations, besides its own metadata.
_TEMPLATES: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    (grove.GROUP, "PodCliqueSet"): (
        ("spec", "template", "cliques", ITEMS),
        ("spec", "template", "podCliqueScalingGroups", ITEMS),
    ),
    (JOBS.api.group, JOBS.api.kind): (_TEMPLATE,),
    (JOB_SETS.api.group, JOB_SETS.api.kind): (
        ("spec", "replicatedJobs", ITEMS, "template", "metadata"),
        ("spec", "replicatedJobs", ITEMS, "template", *_TEMPLATE),
    ),
    (LEADER_WORKER_SETS.api.group, LEADER_WORKER_SETS.api.kind): (
        (*_WORKER_TEMPLATES, "leaderTemplate", "metadata"),
        (*_WORKER_TEMPLATES, "workerTemplate", "metadata"),
    ),
    (TRAIN_JOBS.api.group, TRAIN_JOBS.api.kind): (("spec",),),
    **{("apps", kind): (_TEMPLATE,) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")},
    ("batch", "CronJob"): (("spec", "jobTemplate", "metadata"), ("spec", "jobTemplate", *_TEMPLATE)),
    VOLCANO_JOB: (_OF_TASKS,),
    ("kubeflow.org", "MPIJob"): (("spec", "mpiReplicaSpecs", EACH, "template", "metadata"),),
    ("kubeflow.org", "PyTorchJob"): (("spec", "pytorchReplicaSpecs", EACH, "template", "metadata"),),
    ("ray.io", "RayCluster"): tuple(("spec", *place) for place in _OF_RAY),
    ("ray.io", "RayJob"): tuple(("spec", "rayClusterSpec", *place) for place in _OF_RAY),
}


@dataclass(frozen=True)
class AnyObject:
    """The object and its kind. `fields` are those of its kind, None if they are unknown. `judged` are the groups and
    kinds that other rules judge, and `known` those whose fields are known.
    """

    kind: Kind
    raw: Manifest
    fields: KindFields | None = None
    judged: Collection[tuple[str, str]] = ()
    known: Collection[tuple[str, str]] = ()
    # Its pod templates, and the fields of a Pod; in the webhook they are not read.
    templates: tuple[PodTemplate, ...] = ()
    pod_fields: KindFields | None = None
    # Whether a WorkloadShape declares its kind in its version.
    is_declared: bool = False

    @cached_property
    def unknown_fields(self) -> tuple[UnknownField, ...]:
        """The fields that its kind does not have. Of a kind whose fields are unknown, those of its pods."""
        if self.fields is not None:
            return tuple(self.fields.unknown(self.raw))
        if self.pod_fields is None or self.kind[::2] not in self.judged:
            return ()
        names = self.pod_fields.below("spec")
        fields = (field.below(path) for path, spec in self._pod_specs() for field in names.unknown(spec))
        return tuple(islice(fields, MOST_UNKNOWN))

    def _pod_specs(self) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        """The pod specs of its templates, also of those that no gang has, such as that of a launcher."""
        waiting: list[tuple[Any, Trail]] = [(self.raw.get("spec"), ((), "spec"))]
        while waiting:
            value, trail = waiting.pop()
            if isinstance(value, list):
                waiting += [(item, (trail, index, item)) for index, item in enumerate(value)]
            elif isinstance(value, dict):
                spec = value.get("spec")
                if trail[1] == "template" and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                    yield path_of((trail, "spec")), spec
                else:
                    waiting += [(inner, (trail, str(key))) for key, inner in value.items()]

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self._named("namespace") or "default"

    @property
    def name(self) -> str:
        """Its name; empty if it has none."""
        return self._named("name")

    def _named(self, key: str) -> str:
        metadata = self.raw.get("metadata")
        named = metadata.get(key) if isinstance(metadata, dict) else None
        return named if isinstance(named, str) else ""

    @property
    def labels(self) -> Mapping[str, Any]:
        """Its own labels; empty if they cannot be read."""
        return self._marks("labels")

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its own annotations; empty if they cannot be read."""
        return self._marks("annotations")

    def _marks(self, name: str) -> Mapping[str, Any]:
        metadata = self.raw.get("metadata")
        marks = metadata.get(name) if isinstance(metadata, dict) else None
        return marks if isinstance(marks, dict) else {}

    @property
    def is_controlled(self) -> bool:
        """Whether a controller made the object."""
        metadata = self.raw.get("metadata")
        owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
        return isinstance(owners, list) and any(
            isinstance(one, dict) and one.get("controller") is True for one in owners
        )

    @cached_property
    def holders(self) -> tuple[tuple[_Parts, Mapping[str, Any]], ...]:
        """The labels and annotations of the object and of its templates, with the parts of their paths.
        Values of the wrong type are left out.
        """
        return tuple(self._holders())

    def _holders(self) -> Iterator[tuple[_Parts, Mapping[str, Any]]]:
        for place in (_OWN, *_TEMPLATES.get(self.kind[::2], ())):
            for trail, holder in _marked_at(self.raw, place):
                for name in _MARKS:
                    keys = holder.get(name)
                    if isinstance(keys, dict):
                        yield path_of((trail, name)).parts, keys


class Marks(NamedTuple):
    """Labels or annotations of an object. `name` says which of the two, and `own` that they are not of a template."""

    name: str
    own: bool
    keys: Mapping[str, Any]


def marks_of(kind: tuple[str, ...], raw: Manifest) -> list[Marks]:
    """The labels and annotations of an object of a kind (group and kind) and of its templates, as `AnyObject.holders`
    has them, without their paths.
    """
    marks = _marks_in(raw.get(_OWN[0]), own=True)
    for place in _TEMPLATES.get(kind, ()):  # type: ignore[arg-type]
        for _, holder in _marked_at(raw, place):
            marks += _marks_in(holder, own=False)
    return marks


def _marks_in(holder: Any, *, own: bool) -> list[Marks]:
    if not isinstance(holder, dict):
        return []
    return [Marks(name, own, keys) for name in _MARKS if (keys := holder.get(name)) and isinstance(keys, dict)]


def _marked_at(value: Any, place: tuple[str, ...], trail: Trail = ()) -> list[tuple[Trail, Mapping[str, Any]]]:
    """The objects with labels or annotations at `place` below a value, each with the way to it. Most have neither."""
    below: list[tuple[Trail, Any]]
    for depth, step in enumerate(place, 1):
        if step == ITEMS:
            items = value if isinstance(value, list) else ()
            below = [
                ((trail, index, item), item)
                for index, item in enumerate(items)
                if depth < len(place) or (isinstance(item, dict) and ("labels" in item or "annotations" in item))
            ]
        elif step == EACH:
            entries = value.items() if isinstance(value, dict) else ()
            below = [((trail, str(name)), item) for name, item in entries]
        elif isinstance(value, dict) and step in value:
            trail, value = (trail, step), value[step]
            continue
        else:
            return []
        rest = place[depth:]
        return [found for way, item in below for found in _marked_at(item, rest, way)]
    return [(trail, value)] if isinstance(value, dict) and ("labels" in value or "annotations" in value) else []
