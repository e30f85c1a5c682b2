"""ShapedWorkload: the view of a workload whose kind a WorkloadShape declares, the size of its gang, and the PodGroup
that its operator writes.

GangSize says how many pods can start together, and OperatorGroup how the PodGroup's minimum differs from it. A minimum
above the pods that are created is never reached. A minimum below the gang starts a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

from webhook.model import grove
from webhook.model.admission_request import value_at
from webhook.model.capabilities import Use
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Finding
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL
from webhook.model.keys import Record
from webhook.model.known_kinds import DEFAULT_SCHEDULER, GANG_KINDS
from webhook.model.place import surge_of, together_in
from webhook.model.pod_template import PodTemplate, TemplatePaths
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.workload_record import QUEUE_WORD, SCHEDULER_LABEL
from webhook.workloads import workload_shape
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import (
    Hindrance,
    LeaderWorkerSetRole,
    Left,
    OptedInWorkload,
    Part,
    template_at,
)

# The rules about what a shape says of a workload's controller: its gang is never complete, or works against the gang.
INCOMPLETE = "owner/incomplete"
OPERATOR = "owner/operator"
# The fields of a pod's spec that an object with the fields of a template may have.
FLAT_FIELDS = ("schedulerName", "priorityClassName", "nodeSelector", "tolerations", "affinity")


class ShapedWorkload(OptedInWorkload):
    """A workload of a declared kind. `view_of` makes the class of each kind. `shape` is the form of this workload."""

    forms: ClassVar[tuple[workload_shape.WorkloadShape, ...]]

    def __init__(self, raw: Manifest, namespace: str | None = None) -> None:
        super().__init__(raw, namespace)
        self.shape = workload_shape.form_of(self.forms, raw)

    def read(self) -> None:
        """Reads every field that any caller may read. Raises `Malformed`."""
        super().read()
        _ = (
            self.outside_parts,
            self.roles,
            self.marked_paths,
            tuple(self.leaves()),
            tuple(self.warnings()),
            tuple(self.unreachable(makes_gang=self.has_gangs)),
            tuple(self.shrinks()),
        )
        _ = [self.carried(entry.key) for entry in self.shape.carried]

    @property
    def gang_per_part(self) -> bool:
        return self.shape.over is workload_shape.Over.PART

    @property
    def together(self) -> Mapping[str, int] | None:
        """By role, how many groups start together; None if it has no roles."""
        return together_in(self.annotations) if self.shape.over is workload_shape.Over.GROUPS else None

    @property
    def roles(self) -> tuple[LeaderWorkerSetRole, ...]:
        """Its roles: each entry of its parts is the template of a LeaderWorkerSet."""
        return tuple(self._roles()) if self.shape.over is workload_shape.Over.GROUPS else ()

    def _roles(self) -> Iterator[LeaderWorkerSetRole]:
        for part in self.parts:
            entry = mapping(value_at(self.raw, part.path)[1])
            leader_worker_set = LeaderWorkerSet(dict(entry))
            # A DisaggregatedSetRoleScaler has the number. The gang waits for a first group of it.
            is_stated = mapping(entry.get("scaling")).get("mode") != "External"
            groups = max(leader_worker_set.replicas, 0 if is_stated else 1)
            yield LeaderWorkerSetRole(
                part,
                groups,
                max(leader_worker_set.size, 0),
                surge_of(leader_worker_set.spec, leader_worker_set.replicas),
                is_stated,
            )

    @cached_property
    def native_path(self) -> FieldPath | None:
        """None: what makes another gang is declared."""
        return None

    @property
    def suspended(self) -> bool:
        """Whether it has no pods now."""
        return self._holds(self.shape.suspended)

    @property
    def managed_elsewhere(self) -> str | None:
        """What runs its pods in another place."""
        elsewhere = self.shape.elsewhere
        return str(elsewhere[0].path.value(self._scope)) if self._holds(elsewhere) else None

    @property
    def managed_path(self) -> FieldPath:
        return self.shape.elsewhere[0].path.field_path(self._scope) if self.shape.elsewhere else super().managed_path

    def _holds(self, conditions: tuple[workload_shape.ShapeCondition, ...]) -> bool:
        return bool(conditions) and workload_shape.all_hold(conditions, self._scope)

    @property
    def _scope(self) -> workload_shape.ShapeScope:
        return workload_shape.ShapeScope(self.raw)

    @property
    def operator_minimum(self) -> tuple[FieldPath | None, int | None]:
        """The field in which it asks its operator for the minimum of a PodGroup, and the value. Raises `Malformed`."""
        path = self.shape.operator.minimum
        return (None, None) if path is None else (path.field_path(self._scope), integer(path.value(self._scope)))

    @property
    def operator_scheduler(self) -> str:
        """The scheduler that its operator writes on pods that name none. Raises `Malformed`."""
        path = self.shape.operator.scheduler
        return (None if path is None else text(path.value(self._scope))) or DEFAULT_SCHEDULER

    @property
    def operator_is_done(self) -> bool:
        """Whether it is over, so that the PodGroup of its operator needs no pods."""
        return self.finished or self._holds(self.shape.operator.finished)

    def first_parts(self, *, outside: bool) -> tuple[Part, ...]:
        """Returns its parts whose pods are created without waiting for others, those in gangs or those `outside`."""
        return tuple(
            self._part(part, scope)
            for part in self.shape.first_parts
            if part.outside is outside
            for scope in part.scopes(self._scope)
        )

    def _read_parts(self) -> Iterator[Part]:
        return self._parts_of(outside=False)

    @property
    def outside_parts(self) -> tuple[Part, ...]:
        """Its parts whose pods are in no gang, such as a submitter."""
        return tuple(self._parts_of(outside=True))

    def _parts_of(self, *, outside: bool) -> Iterator[Part]:
        for part in self.shape.parts:
            if part.outside is outside:
                for scope in part.scopes(self._scope):
                    yield self._part(part, scope)

    @property
    def pod_shapes(self) -> Iterator[workload_shape.PodShape]:
        """How the pods of each of its parts are known, in the order of the parts."""
        for part in self.shape.parts:
            if not part.outside:
                yield from (part.pod for _ in part.scopes(self._scope))

    def _part(self, part: workload_shape.PartShape, scope: workload_shape.ShapeScope) -> Part:
        path = SPEC if scope.entry is None else scope.entry.path
        at, raw = _template_of(part, scope)
        template = _template(part, at, raw, scope)
        pods = part.pods.value(scope)
        needed, elastic = _needed(part, scope, pods), part.is_elastic(scope)
        return Part(part.name.text_in(scope), path, at, template, pods, pods, part.after, needed, elastic)

    @property
    def marked_paths(self) -> tuple[FieldPath, ...]:
        """The paths of the labels for the record: of existing templates, and of what its controller makes."""
        if not (self.has_gangs or self.left_to):
            return ()
        places = [part.template.labels_path for part in self.parts if value_at(self.raw, part.place)[1] is not None]
        for path in self.shape.marked:
            # The objects that have, or may get, the metadata at `path`.
            holders = workload_shape.ShapePath(path.text, path.steps[:-1], path.of_entry).values(self._scope)
            places += [holder.path / str(path.steps[-1]) / "labels" for holder in holders]
        return tuple(dict.fromkeys(places))

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Yields the fields that its shape computes numbers of pods from, each once."""
        stated = dict[FieldPath, int | None]()
        for part in self.shape.parts:
            for scope in part.scopes(self._scope):
                for count in (part.pods, part.minimum(scope), part.lower_bound(scope)):
                    stated.update(() if count is None else count.stated(scope))
        yield from stated.items()

    def _read_hindrances(self) -> Iterator[Hindrance]:
        """Yields why the gang is never complete by its shape, and parts that cannot be told apart."""
        yield from self._stated(self.shape.refuses, INCOMPLETE)
        names = set[str]()
        for part in self.parts if self.has_gangs or self.left_to else ():
            if part.name in names:
                why = "another part has the same name, so their pods cannot be told apart"
                yield Hindrance(INCOMPLETE, part.path, part.name, why, "give each part a name of its own")
            names.add(part.name)

    def warnings(self) -> Iterator[Hindrance]:
        yield from self._stated(self.shape.warns, OPERATOR)

    def unreachable(self, *, makes_gang: bool) -> Iterator[Hindrance]:
        """Yields the minimums that its pods never reach, also its operator's, if Rollcall `makes_gang` or not."""
        places = set[FieldPath]()
        for part in self.shape.parts:
            for scope in part.scopes(self._scope):
                for hindrance in _unreachable(part, scope, has_gangs=makes_gang):
                    places.add(hindrance.at)
                    yield hindrance
        at, stated = self.operator_minimum
        pods = sum(part.pods for part in (*self.parts, *self.outside_parts))
        if self.has_gangs and at is not None and at not in places and stated is not None and stated > pods > 0:
            why = f"only {pods} pods are created, so the group of its operator never starts"
            yield Hindrance(OPERATOR, at, stated, why, "lower it, or raise the number of pods")

    def shrinks(self) -> Iterator[Hindrance]:
        """Yields the parts that may get fewer pods than the gang needs."""
        for part in self.shape.parts:
            for scope in () if part.outside else part.scopes(self._scope):
                yield from _shrinkable(part, scope)

    def carried(self, key: str) -> Use | None:
        """Returns the value that its operator writes under a key on what it makes, and the place that it is from."""
        for entry in self.shape.carried:
            if entry.key == key and (value := entry.value(self._scope)) is not None:
                return Use(entry.path.field_path(self._scope), value)
        return None

    def carried_path(self, key: str) -> FieldPath | None:
        """Returns where its operator takes the value for a key from; None if it writes nothing under the key."""
        carried = (
            entry
            for entry in self.shape.carried
            if entry.key == key and workload_shape.all_hold(entry.when, self._scope)
        )
        return next((entry.path.field_path(self._scope) for entry in carried), None)

    @property
    def record(self) -> Record:
        """The record from which its pods are prepared, with the queue of its operator's own field if its labels and
        annotations name none under that key. Of a gang that the operator makes only that field counts.
        """
        record = super().record
        queues = dict(record.queues)
        is_left = any(not left.is_made for left in self.leaves())
        for carried in self.shape.carried:
            if QUEUE_WORD in carried.key and (value := carried.value(self._scope)) is not None:
                queues[carried.key] = value if is_left else queues.get(carried.key, value)
        return replace(record, queues=tuple((key, queues[key]) for key in sorted(queues)))

    def _stated(self, statements: tuple[workload_shape.Statement, ...], rule: str) -> Iterator[Hindrance]:
        for statement in statements:
            for scope in statement.scopes(self._scope):
                at, value = _statement_place(statement, scope)
                yield Hindrance(rule, at, value, statement.why, statement.remedy)

    def leaves(self) -> Iterator[Left]:
        """Yields why something else makes its gang."""
        for statement in self.shape.leaves:
            for scope in statement.scopes(self._scope):
                at, _ = _statement_place(statement, scope)
                yield Left(at, statement.why, system=statement.system)
        if self.shape.left_to:
            yield Left(SPEC, f"its controller makes a {self.shape.left_to}, which has the gang", is_made=True)


@lru_cache(maxsize=256)
def view_of(forms: tuple[workload_shape.WorkloadShape, ...], title: str = "") -> type[ShapedWorkload]:
    """Returns the view of the workloads of a kind with these forms. What does not depend on the version is the same in
    all of them. `title` replaces the kind where that alone is ambiguous.
    """
    shape = forms[0]
    kind_title = title or shape.resource.api.kind

    class View(ShapedWorkload):
        resource = shape.resource
        kind = kind_title
        by_namespace = shape.by_namespace
        crd = shape.crd
        has_gangs = shape.has_gangs
        left_to = shape.left_to
        name_label = shape.name_label
        role_label = shape.role_label

    View.forms = forms
    View.__name__ = View.__qualname__ = f"{shape.resource.api.kind}View"
    return View


def _template_of(
    part: workload_shape.PartShape, scope: workload_shape.ShapeScope
) -> tuple[FieldPath, Mapping[str, Any]]:
    """Returns the path of a part's template and the template, of the first place that has one."""
    for path in part.templates:
        if (raw := path.value(scope)) is not None:
            return path.field_path(scope), mapping(raw)
    return part.templates[-1].field_path(scope), {}


def _template(
    part: workload_shape.PartShape, at: FieldPath, raw: Mapping[str, Any], scope: workload_shape.ShapeScope
) -> PodTemplate:
    if not part.flat:
        return template_at(raw, at)
    if part.spec is not None:
        return PodTemplate(raw, mapping(part.spec.value(scope)), TemplatePaths(at, part.spec.field_path(scope)))
    return PodTemplate(raw, {field: raw[field] for field in FLAT_FIELDS if field in raw}, TemplatePaths(at, at))


def _unreachable(
    part: workload_shape.PartShape, scope: workload_shape.ShapeScope, *, has_gangs: bool
) -> Iterator[Hindrance]:
    pods = part.pods.value(scope)
    needed = part.minimum(scope)
    if needed is None or (minimum := needed.value(scope)) <= pods:
        return
    at = needed.path.field_path(scope) if needed.path is not None else _template_of(part, scope)[0]
    why = f"the minimum is {minimum} pods, but only {pods} are created"
    if has_gangs:
        why = f"{why}; the gang is made with {pods}"
    yield Hindrance(OPERATOR, at, minimum, why, "lower the minimum, or raise the number of pods")


def _shrinkable(part: workload_shape.PartShape, scope: workload_shape.ShapeScope) -> Iterator[Hindrance]:
    lowest = part.lower_bound(scope)
    if lowest is None:
        return
    bound, needed = lowest.value(scope), _needed(part, scope, part.pods.value(scope))
    if bound < needed:
        at, value, remedy = _remedy(part, scope, lowest)
        why = (
            f"the workload may run with {bound} of these pods, but its gang needs {needed}: as long as fewer exist, "
            "a pod that is created again waits"
        )
        yield Hindrance(OPERATOR, at, value, why, remedy)


def _remedy(
    part: workload_shape.PartShape, scope: workload_shape.ShapeScope, lowest: workload_shape.PodCount
) -> tuple[FieldPath, Any, str]:
    """Returns the field by which the minimum of a part and its lowest number can be made equal, its value, and how."""
    minimum = part.minimum(scope)
    if minimum is not None and minimum.path is not None:
        other = "" if lowest.path is None else f", or raise {lowest.path.field_path(scope)},"
        value = minimum.path.value(scope)
        return minimum.path.field_path(scope), value, f"lower it{other} until both are the same number of pods"
    if lowest.path is not None:
        return lowest.path.field_path(scope), lowest.path.value(scope), "raise it to the pods that the gang needs"
    return _template_of(part, scope)[0], None, "let minimum and lowest in the WorkloadShape be the same number of pods"


def _needed(part: workload_shape.PartShape, scope: workload_shape.ShapeScope, pods: int) -> int:
    needed = part.minimum(scope)
    return pods if needed is None else min(needed.value(scope), pods)


def _statement_place(statement: workload_shape.Statement, scope: workload_shape.ShapeScope) -> tuple[FieldPath, Any]:
    if statement.at is not None:
        return statement.at.field_path(scope), statement.at.value(scope)
    return (SPEC, None) if scope.entry is None else (scope.entry.path, None)


# Group, kind, namespace and name of a workload.
WorkloadKey = tuple[str, str, str, str]
# An object of these kinds, which a workload leaves its gang to, has gangs of its own number and size.
_IN_PYTHON = frozenset(resource.api.kind for resource in GANG_KINDS)


class GangSize(NamedTuple):
    """The pods of a workload that are created without waiting for others. `most` is their number, and `later` that of
    the pods which wait for them. The gang needs `needed` of them, None if the shape does not say. With the pods outside
    the gang that come at the same time these are `enough`. `name` is the object that creates them: the workload, or the
    object that has its gang.
    `stated_path` is the field of the workload with the minimum of its operator's PodGroup. `groups` is the number of
    PodGroups that the workload owns.
    """

    name: str
    most: int
    enough: int
    needed: int | None = None
    later: int = 0
    stated_path: FieldPath | None = None
    uid: str | None = None
    groups: int = 1


def gang_size(workload: ShapedWorkload) -> GangSize | None:
    """Returns the gang size of a workload; None if it has no pods now. Raises `Malformed`."""
    if workload.suspended or workload.managed_elsewhere is not None or workload.operator_is_done:
        return None
    first, beside = workload.first_parts(outside=False), workload.first_parts(outside=True)
    pods = sum(part.pods for part in first)
    most = pods + sum(part.pods for part in beside)
    if not pods:
        return None
    needed, enough = _pods_needed(workload), most
    if needed is not None and workload.shape.over is workload_shape.Over.ALL:
        enough = needed + most - pods
    stated_path, stated = workload.operator_minimum
    if stated is not None:
        # The author of the workload has chosen it.
        needed = None if needed is None else min(needed, stated)
        enough = max(enough, stated)
    later = sum(part.pods for part in (*workload.parts, *workload.outside_parts)) - most
    return GangSize(f"{workload.kind} {workload.name}", most, enough, needed, later, stated_path, workload.uid)


def _pods_needed(workload: ShapedWorkload) -> int | None:
    """Returns how many pods the gang needs, or the smallest of its gangs; None if the shape does not say."""
    shape = workload.shape
    on_request = not shape.by_namespace and SCHEDULER_LABEL not in workload.labels
    # A workload with roles has several gangs, each of another size.
    if (
        on_request
        or shape.over in {workload_shape.Over.NONE, workload_shape.Over.GROUPS}
        or shape.left_to in _IN_PYTHON
    ):
        return None
    every = [part.needed for part in workload.first_parts(outside=False) if part.needed]
    return min(every, default=None) if shape.over is workload_shape.Over.PART else sum(every)


def gang_sizes(workloads: Iterable[ShapedWorkload], groups: Mapping[WorkloadKey, int]) -> dict[WorkloadKey, GangSize]:
    """Returns the sizes of workloads that own a PodGroup; `groups` is the number of PodGroups of each. A workload that
    leaves its gang to one object that it makes has the size of that object. Raises `Malformed`.
    """
    every = {key_of_workload(workload): workload for workload in workloads}
    by_owner: dict[WorkloadKey, list[ShapedWorkload]] = {}
    for shaped in every.values():
        if (controller := shaped.controller) is not None:
            owner = (controller.group, controller.kind, shaped.namespace, controller.name)
            by_owner.setdefault(owner, []).append(shaped)
    sizes: dict[WorkloadKey, GangSize] = {}
    for key, number in groups.items():
        workload = every.get(key)
        if workload is None:
            continue
        left_to = [candidate for candidate in by_owner.get(key, ()) if candidate.resource.api.kind == workload.left_to]
        size = gang_size(left_to[0] if left_to else workload) if len(left_to) <= 1 else None
        if size is not None:
            sizes[key] = size._replace(uid=workload.uid, groups=number)
    return sizes


def key_of_workload(workload: ShapedWorkload) -> WorkloadKey:
    """Returns group, kind, namespace and name of a workload."""
    return (*workload.shape.group_kind, *workload.key)


KIND = "PodGroup"
# By group of a PodGroup, the field with its minimum: Volcano, scheduler-plugins, Koordinator, the Workload API. KAI's
# podgrouper is no operator of workloads.
MINIMUMS: Mapping[str, FieldPath] = {
    "scheduling.volcano.sh": SPEC / "minMember",
    "scheduling.x-k8s.io": SPEC / "minMember",
    "scheduling.sigs.k8s.io": SPEC / "minMember",
    "scheduling.k8s.io": SPEC / "schedulingPolicy" / "gang" / "minCount",
}
# These fields of the spec.
MINIMUM_FIELDS = frozenset({"minMember", "schedulingPolicy"})


class OperatorGroup:
    """A PodGroup of one of `MINIMUMS`, with its `owners` and their uids, the controller first. Raises `Malformed`."""

    __slots__ = ("is_foreign", "key", "minimum", "owners", "path")

    def __init__(self, raw: Manifest, group: str) -> None:
        metadata = mapping(raw.get("metadata"))
        namespace = text(metadata.get("namespace")) or "default"
        self.key: WorkloadKey = (group, KIND, namespace, text(metadata.get("name")) or "")
        # Another program than Rollcall wrote it.
        self.is_foreign = mapping(metadata.get("labels")).get(grove.LABEL_MANAGED_BY) != MANAGED_BY_ROLLCALL
        self.owners = tuple(_owners(metadata, namespace))
        self.path = MINIMUMS[group]
        spec = mapping(raw.get("spec"))
        # None is a group of the Workload API that is not a gang.
        self.minimum = (
            integer(spec.get("minMember")) or 0
            if "minMember" in self.path.parts
            else integer(mapping(mapping(spec.get("schedulingPolicy")).get("gang")).get("minCount"))
        )

    def size(self, sizes: Mapping[WorkloadKey, GangSize]) -> GangSize | None:
        """Returns the size of the first of its owners that has one, and that is not a later object of the same name."""
        for key, uid in self.owners:
            size = sizes.get(key)
            if size is not None and not (uid and size.uid and uid != size.uid):
                return size
        return None

    def mismatch(self, sizes: Mapping[WorkloadKey, GangSize]) -> Finding | None:
        """Returns what is wrong with its minimum, compared with the size of its owner."""
        size = self.size(sizes)
        if size is None or self.minimum is None or not self.is_foreign:
            return None
        why = _why(self.minimum, size)
        if why is None:
            return None
        right = size.most if size.needed is None else min(size.needed, size.most)
        return Finding(at=self.path, value=self.minimum, why=why, remedy=_minimum_remedy(right, size), instead=(right,))


def _owners(metadata: Mapping[str, object], namespace: str) -> Iterator[tuple[WorkloadKey, str | None]]:
    every = [mapping(raw) for raw in sequence(metadata.get("ownerReferences"))]
    for reference in sorted(every, key=lambda reference: reference.get("controller") is not True):
        group = (text(reference.get("apiVersion")) or "").rpartition("/")[0]
        yield (
            (group, text(reference.get("kind")) or "", namespace, text(reference.get("name")) or ""),
            text(reference.get("uid")),
        )


def _why(minimum: int, size: GangSize) -> str | None:
    if minimum > size.most:
        first = _pods(size.most)
        creates = f"creates {first} first and its other pods after that" if size.later else f"has only {first}"
        return f"{size.name} {creates}, so this minimum is never reached"
    # Several groups divide the pods: none of them has all that the gang needs.
    if size.needed is None or size.groups > 1:
        return None
    if minimum < size.needed:
        starts = "starts each pod alone" if minimum <= 0 else f"starts {minimum} of them without the others"
        return f"the gang of {size.name} needs {_pods(size.needed)}, and the scheduler {starts}"
    if minimum > size.enough:
        return f"{size.name} can run with {_pods(size.needed)}, but the scheduler waits for {minimum}"
    return None


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _minimum_remedy(right: int, size: GangSize) -> str:
    if size.stated_path is not None:
        return f"set {size.stated_path} of {size.name} to {right}: its operator takes the minimum from there"
    return f"set it to {right}, or delete the PodGroup if its operator then creates it again"
