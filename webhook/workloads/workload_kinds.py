"""WorkloadKinds: the kinds of opted-in workloads of one configuration, those in Python and the declared ones, and the
place of a pod in a declared kind.

On CREATE a pod has no name yet. Anyone can write labels and name a controller, so a gang counts a pod only if the
controllers above it end at the workload (`webhook.gangs.members`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model.fields import ROOT, SPEC
from webhook.model.grove import GROUP as GROVE
from webhook.model.grove import OwnerReference, controller_in
from webhook.model.keys import SHAPED_WORKLOADS, GroupKind, Needed
from webhook.model.known_kinds import GANG_KINDS, LEADER_WORKER_SETS, NO_GANGS, PODS, STATEFUL_SETS, TRAIN_JOBS, is_a
from webhook.model.place import GROVE_POD_CONTROLLERS, OPTED_IN_POD_CONTROLLERS, Place, place_of
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.projections import Projection, Resource, key_of, template_fields
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.workloads.known_workloads import PROJECTIONS, VIEWS, WorkloadFacts, workload_facts
from webhook.workloads.opted_in_workload import OptedInWorkload, template_at
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.shaped_workload import FLAT_FIELDS, view_of
from webhook.workloads.workload_shape import Each, Over, PartShape, ShapePath, WorkloadShape, form_of


class Candidate(NamedTuple):
    """A part of a shape whose pods have a controller of a certain kind."""

    shape: WorkloadShape
    part: PartShape


def place_by_shape(pod: Pod, controller: OwnerReference, candidates: Iterable[Candidate]) -> Place | None:
    """Returns the place of a pod with this controller; None if the pod belongs to none of the parts."""
    for shape, part in candidates:
        links = part.pod.chain
        name = links[0].workload_of(controller.name, pod.template.labels) if links else controller.name
        part_name = _part_of(pod, part)
        if name and part_name is not None:
            return Place(Needed(SHAPED_WORKLOADS, (shape.crd, pod.namespace, name)), part_name)
    return None


def place_in_role(pod: Pod, place: Place, shapes: Iterable[WorkloadShape]) -> Place | None:
    """Returns the place of a pod, whose `place` is in its LeaderWorkerSet, in the workload that made this for a
    role; None if none of the shapes says so. The labels must agree with the name of the LeaderWorkerSet: it begins with
    the workload's and ends with the role.
    """
    leader_worker_set, labels = place.workload.name, pod.template.labels
    for shape in shapes:
        name, role = (text(labels.get(key)) for key in (shape.name_label, shape.role_label))
        if (
            name
            and role
            and leader_worker_set.startswith(f"{name}-")
            and leader_worker_set.removeprefix(name).endswith(f"-{role}")
        ):
            return Place(Needed(SHAPED_WORKLOADS, (shape.crd, pod.namespace, name)), role, place.group, place)
    return None


def _part_of(pod: Pod, part: PartShape) -> str | None:
    """Returns the name of the part, None if the labels of the pod are not those of the part."""
    labels = pod.template.labels
    if any(labels.get(key) != value for key, value in part.pod.labels):
        return None
    return text(labels.get(part.pod.name_label)) if part.pod.name_label else part.name.literal


WorkloadView = type[OptedInWorkload]
# Kinds with a pod template, besides the opted-in workloads.
REPLICATED = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


@dataclass(frozen=True, slots=True)
class WorkloadKinds:
    """The kinds in Python, and those of `declared` shapes. What follows from these is worked out once."""

    declared: tuple[WorkloadShape, ...] = ()
    # The view of each kind, by group and kind.
    views: Mapping[tuple[str, str], WorkloadView] = field(init=False)
    # The kinds that own their gangs' objects, by the kind of their gangs' keys.
    gang_workloads: Mapping[str, Resource] = field(init=False)
    # What is known of the workloads.
    projections: tuple[Projection, ...] = field(init=False)
    # The kinds between pods and workloads, each with a labelSelector or nothing.
    pod_controllers: Mapping[Resource, str] = field(init=False)
    # The kinds of controllers, by group and kind, whose pods are known to be gangs, or to be none.
    judged_controllers: frozenset[tuple[str, str]] = field(init=False)
    _titles: Mapping[tuple[str, str], str] = field(init=False)
    # The forms of each kind by group and kind, and the first one by the name of the CustomResourceDefinition.
    _of_kind: Mapping[tuple[str, ...], tuple[WorkloadShape, ...]] = field(init=False)
    _of_crd: Mapping[str, WorkloadShape] = field(init=False)
    # The declared kinds that make a LeaderWorkerSet for each role.
    with_roles: tuple[WorkloadShape, ...] = field(init=False)
    # The parts of declared kinds with gangs, by group and kind of the nearest controller of their pods.
    candidates: Mapping[tuple[str, str], tuple[Candidate, ...]] = field(init=False)

    def __post_init__(self) -> None:
        titles = {kind: kind[1] for kind in VIEWS}
        views: dict[tuple[str, str], WorkloadView] = dict(VIEWS)
        gangs = {resource.api.kind: resource for resource in GANG_KINDS}
        controllers: dict[Resource, str] = dict(OPTED_IN_POD_CONTROLLERS)
        candidates: dict[tuple[str, str], tuple[Candidate, ...]] = {}
        forms: dict[tuple[str, ...], tuple[WorkloadShape, ...]] = {}
        for form in self.declared:
            forms[form.group_kind] = (*forms.get(form.group_kind, ()), form)
        for shape, *_ in forms.values():
            # Pods do not show in which version their workload was written, so the first form says how they are known.
            kind = shape.group_kind
            title = kind[1] if kind[1] not in titles.values() else f"{kind[1]}.{kind[0]}"
            titles[kind], views[kind] = title, view_of(forms[kind], title)
            if not shape.has_gangs:
                continue
            gangs[title] = shape.resource
            if shape.over is Over.GROUPS:
                # All of them, so that one without such a label is known to be the top.
                controllers[LEADER_WORKER_SETS] = ""
                continue
            for part in shape.parts:
                if not part.outside:
                    nearest = part.pod.chain[0].resource if part.pod.chain else shape.resource
                    at = nearest.api.group, nearest.api.kind
                    candidates[at] = (*candidates.get(at, ()), Candidate(shape, part))
                    for link in part.pod.chain:
                        # Pods are followed anyway.
                        if link.resource != PODS:
                            controllers[link.resource] = _either(controllers.get(link.resource), link.selector)
        self._set("_titles", titles)
        self._set("with_roles", tuple(first for first, *_ in forms.values() if first.over is Over.GROUPS))
        self._set("_of_kind", forms)
        self._set("_of_crd", {first.crd: first for first, *_ in forms.values()})
        self._set("views", MappingProxyType(views))
        self._set("gang_workloads", MappingProxyType(gangs))
        self._set(
            "projections", (*PROJECTIONS, *(_projection(shapes) for shapes in forms.values() if shapes[0].has_gangs))
        )
        self._set("pod_controllers", MappingProxyType(controllers))
        self._set("candidates", candidates)
        self._set("judged_controllers", frozenset(NO_GANGS | _OF_GROVE | views.keys() | candidates.keys()))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __contains__(self, kind: object) -> bool:
        return kind in self.views

    def templates_in(self, group: str, kind: str, raw: Manifest) -> Iterator[tuple[PodTemplate, int]]:
        """Yields the pod templates of an object, and how many pods each has: a pod, a controller of pods, or a
        workload. The cliques of a PodCliqueSet count once. None of a TrainJob, whose templates are in its runtime.
        Raises `Malformed`.
        """
        spec = mapping(raw.get("spec"))
        if (group, kind) == PODS.api.group_kind:
            yield template_at(raw, ROOT), 1
        elif (group, kind) == (GROVE, "PodCliqueSet"):
            for clique in PodCliqueSet(raw).cliques:
                yield clique.template, clique.replicas
        elif (group, kind) in REPLICATED:
            yield template_at(mapping(spec.get("template")), SPEC / "template"), replicas_of(spec)
        elif (view := self.views.get((group, kind))) is not None and view.resource != TRAIN_JOBS:
            for part in view(raw).parts:
                yield part.template, part.pods

    @property
    def admitted(self) -> tuple[Resource, ...]:
        """The kinds that are admitted, in the order of their registration."""
        return tuple(view.resource for view in self.views.values())

    def projection(self, group: str, kind: str) -> Projection | None:
        """Returns what is known of the workloads of a declared kind."""
        declared = (projection for projection in self.projections if projection.part == SHAPED_WORKLOADS)
        return next(
            (
                projection
                for projection in declared
                if (projection.resource.api.group, projection.resource.api.kind) == (group, kind)
            ),
            None,
        )

    def place_of(self, pod: Pod) -> Place | None:
        """Returns the place of a pod in an opted-in workload; None if no controller of such a workload made the pod."""
        controller = controller_in(mapping(pod.raw.get("metadata")))
        if controller is None:
            return None
        candidates = self.candidates.get((controller.group, controller.kind), ())
        if is_a(controller, STATEFUL_SETS) and (place := place_of(pod)) is not None:
            return place_in_role(pod, place, self.with_roles) or place
        return place_by_shape(pod, controller, candidates) or place_of(pod)

    def grouped_as(self, workload: OptedInWorkload) -> GroupKind:
        """Returns the group and kind by which a scheduler that groups some kinds itself knows the pods of a workload:
        its own, or that of the workload that made this LeaderWorkerSet for a role. Such a scheduler asks the topmost
        controller.
        """
        controller, group_kind = workload.controller, workload.resource.api.group_kind
        if controller is None or group_kind != LEADER_WORKER_SETS.api.group_kind:
            return group_kind
        maker = controller.group, controller.kind
        return maker if any(maker == shape.group_kind for shape in self.with_roles) else group_kind

    def grouped_as_at(self, place: Place) -> GroupKind:
        """Returns the same for a pod at `place`."""
        if place.workload.part == SHAPED_WORKLOADS and place.workload.key is not None:
            return self._of_crd[place.workload.key[0]].group_kind
        return _RESOURCES[place.workload.part].api.group_kind

    def title(self, group: str, kind: str) -> str | None:
        """Returns the kind of the keys of the gangs of such workloads; None if they have none here."""
        title = self._titles.get((group, kind))
        return title if title in self.gang_workloads else None

    def title_of(self, needed: Needed) -> str:
        """Returns the title of the kind of a workload that is a fact."""
        if needed.part == SHAPED_WORKLOADS and needed.key is not None:
            return self._titles[self._of_crd[needed.key[0]].group_kind]
        return _RESOURCES[needed.part].api.kind

    def written(self, kind: tuple[str, str]) -> tuple[Resource, ...]:
        """Returns the resource of a kind, in one version for each of its forms."""
        return tuple(form.resource for form in self._of_kind.get(kind, ())) or (self.views[kind].resource,)

    @property
    def forms(self) -> Iterable[tuple[WorkloadShape, ...]]:
        """The forms of each declared kind, in which its objects may be written."""
        return self._of_kind.values()

    def title_with_roles(self, group: str, kind: str) -> str | None:
        """Returns the title of a kind that makes a LeaderWorkerSet for each role; None for another kind."""
        return self.title(group, kind) if any(shape.group_kind == (group, kind) for shape in self.with_roles) else None

    def declaration_of(self, kind: tuple[str, ...], raw: Manifest) -> WorkloadShape | None:
        """Returns the shape of an object of a kind by group and kind; None if the kind is not declared."""
        forms = self._of_kind.get(kind)
        return None if forms is None else form_of(forms, raw)

    def resource_of(self, needed: Needed) -> Resource | None:
        """Returns the resource of a workload that is a fact; None if it is no opted-in workload."""
        if needed.part == SHAPED_WORKLOADS and needed.key is not None:
            return self._of_crd[needed.key[0]].resource
        return _RESOURCES.get(needed.part)

    def is_made_part(self, workload: OptedInWorkload) -> bool:
        """Returns whether another workload made this one on the way to its pods, and has the gang."""
        controller = workload.controller
        if controller is None:
            return False
        if workload.crd and self.title(controller.group, controller.kind) is not None:
            return True
        api = workload.resource.api
        return any(
            (controller.group, controller.kind) == shape.group_kind
            and any(link.resource.api == api for link in part.pod.chain)
            for shape, part in self.candidates.get((api.group, api.kind), ())
        )

    def add_declared(self, shapes: Iterable[WorkloadShape]) -> WorkloadKinds:
        """Returns these kinds with other shapes too, which replace all shapes of the same group and kind."""
        added = tuple(shapes)
        replaced = {shape.group_kind for shape in added}
        return WorkloadKinds((*(shape for shape in self.declared if shape.group_kind not in replaced), *added))


# Grove's own kinds between a pod and its PodCliqueSet.
_OF_GROVE = frozenset((resource.api.group, resource.api.kind) for resource in GROVE_POD_CONTROLLERS)


def fact_of(workload: OptedInWorkload) -> Needed:
    """Returns what is known of a workload, as a fact."""
    if workload.crd:
        return Needed(SHAPED_WORKLOADS, (workload.crd, *workload.key))
    return Needed(_PARTS[workload.kind], workload.key)


def replicas_of(spec: Mapping[str, Any]) -> int:
    """Returns the number of pods that a controller's spec asks for. Raises `Malformed`."""
    replicas = integer(spec.get("replicas"))
    return 1 if replicas is None else replicas


def _either(other: str | None, selector: str) -> str:
    """Returns a labelSelector for both, which is none unless they are equal."""
    return selector if other is None or other == selector else ""


def _projection(forms: tuple[WorkloadShape, ...]) -> Projection:
    shape, view = forms[0], view_of(forms)
    return Projection(
        SHAPED_WORKLOADS,
        shape.resource,
        _reader(shape.crd, view),
        label_selector=SCHEDULER_LABEL,
        shared=True,
        awaited=False,
        fields=(*_COMMON, *dict.fromkeys(path for form in forms for path in _fields_of(form))),
    )


def _reader(crd: str, view: WorkloadView) -> Callable[[Manifest], tuple[tuple[str, str, str], WorkloadFacts]]:
    def read(raw: Manifest) -> tuple[tuple[str, str, str], WorkloadFacts]:
        return (crd, *key_of(raw)), workload_facts(view(raw))

    return read


_COMMON = ("metadata.labels", "metadata.annotations", "metadata.uid", "metadata.ownerReferences")


def _fields_of(shape: WorkloadShape) -> Iterable[str]:
    """Yields the fields that are read, as `rollcall facts` names them."""
    templates = {path for part in shape.parts for path in (*part.templates, part.spec)}
    for part in shape.parts:
        for path in part.templates:
            whole = _dotted(path, part.each)
            yield from _flat_fields(whole, part) if part.flat else template_fields(whole)
    lists = shape.lists
    for path in shape.paths:
        if path in templates or path in lists:
            continue
        for above in lists if path.of_entry else (None,):
            yield _dotted(path, above)


def _flat_fields(metadata: str, part: PartShape) -> Iterable[str]:
    spec = metadata if part.spec is None else _dotted(part.spec, part.each)
    yield from (f"{metadata}.{name}" for name in ("labels", "annotations"))
    yield from (f"{spec}.{name}" for name in FLAT_FIELDS)


def _dotted(path: ShapePath, each: ShapePath | None) -> str:
    steps = (*each.steps, *path.steps) if path.of_entry and each is not None else path.steps
    names = ["*" if step is Each.EACH else step for step in steps]
    # A key below may have dots.
    ends = [place for place, name in enumerate(names) if name in {"labels", "annotations"}]
    return ".".join(names[: ends[0] + 1] if ends else names)


_PARTS = {projection.resource.api.kind: projection.part for projection in PROJECTIONS}
_RESOURCES = {projection.part: projection.resource for projection in PROJECTIONS}
PYTHON_KINDS = WorkloadKinds()
