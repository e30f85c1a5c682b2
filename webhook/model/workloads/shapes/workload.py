"""ShapedWorkload: the view of a workload whose kind is declared by a WorkloadShape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

from webhook.model.capabilities import Use
from webhook.model.changes import value_at
from webhook.model.fields import SPEC, FieldPath
from webhook.model.keys import Record
from webhook.model.kubernetes_kinds import DEFAULT_SCHEDULER
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.model.record import QUEUE_WORD
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.roles import surge_of, together_in
from webhook.model.workloads.shapes.condition import Condition, all_hold
from webhook.model.workloads.shapes.count import Count
from webhook.model.workloads.shapes.path import Scope, ShapePath
from webhook.model.workloads.shapes.shape import Over, PartShape, PodShape, Statement, WorkloadShape, form_of
from webhook.model.workloads.workload import Hindrance, Left, OptedInWorkload, Part, Role, TemplatePlace

# The rules about what a shape says of a workload's controller: its gang is never complete, or works against the gang.
INCOMPLETE = "owner/incomplete"
OPERATOR = "owner/operator"
# The fields of a pod's spec that an object with the fields of a template may have.
FLAT_FIELDS = ("schedulerName", "priorityClassName", "nodeSelector", "tolerations", "affinity")


class FlatPlace(NamedTuple):
    """The path of an object that has labels and annotations side by side, and of the one with fields of a pod's spec,
    which is usually the same.
    """

    path: FieldPath
    spec: FieldPath

    @property
    def metadata_path(self) -> FieldPath:
        """The path of labels and annotations."""
        return self.path

    @property
    def spec_path(self) -> FieldPath:
        """The path of the fields of a pod's spec."""
        return self.spec


class ShapedWorkload(OptedInWorkload):
    """A workload of a declared kind. `view_of` makes the class of each kind. `shape` is the form of this workload."""

    forms: ClassVar[tuple[WorkloadShape, ...]]

    def __init__(self, raw: Manifest, namespace: str | None = None) -> None:
        super().__init__(raw, namespace)
        self.shape = form_of(self.forms, raw)

    def read(self) -> None:
        """Reads every field that any caller may read. Raises `Malformed`."""
        super().read()
        _ = (
            self.outside_parts,
            self.roles,
            self.marked_paths,
            tuple(self.leaves()),
            tuple(self.warnings()),
            tuple(self.unreachable(made=self.has_gangs)),
            tuple(self.shrinks()),
        )
        _ = [self.carried(one.key) for one in self.shape.carried]

    @property
    def gang_per_part(self) -> bool:
        """Whether each of its parts is a gang."""
        return self.shape.over is Over.PART

    @property
    def together(self) -> Mapping[str, int] | None:
        """By role, how many groups start together; None if it has no roles."""
        return together_in(self.annotations) if self.shape.over is Over.GROUPS else None

    @property
    def roles(self) -> tuple[Role, ...]:
        """Its roles: each entry of its parts is the template of a LeaderWorkerSet."""
        return tuple(self._roles()) if self.shape.over is Over.GROUPS else ()

    def _roles(self) -> Iterator[Role]:
        for part in self.parts:
            entry = mapping(value_at(self.raw, part.path)[1])
            made = LeaderWorkerSet(dict(entry))
            # A DisaggregatedSetRoleScaler has the number. The gang waits for a first group of it.
            is_stated = mapping(entry.get("scaling")).get("mode") != "External"
            groups = max(made.replicas, 0 if is_stated else 1)
            yield Role(part, groups, max(made.size, 0), surge_of(made.spec, made.replicas), is_stated)

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
        """The path that says so."""
        return self.shape.elsewhere[0].path.at(self._scope) if self.shape.elsewhere else super().managed_path

    def _holds(self, conditions: tuple[Condition, ...]) -> bool:
        return bool(conditions) and all_hold(conditions, self._scope)

    @property
    def _scope(self) -> Scope:
        return Scope(self.raw)

    @property
    def operator_minimum(self) -> tuple[FieldPath | None, int | None]:
        """The field in which it asks its operator for the minimum of a PodGroup, and the value. Raises `Malformed`."""
        path = self.shape.operator.minimum
        return (None, None) if path is None else (path.at(self._scope), integer(path.value(self._scope)))

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
        """Its parts whose pods are created without waiting for others, those in gangs or those `outside`."""
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
    def pod_shapes(self) -> Iterator[PodShape]:
        """How the pods of each of its parts are known, in the order of the parts."""
        for part in self.shape.parts:
            if not part.outside:
                yield from (part.pod for _ in part.scopes(self._scope))

    def _part(self, part: PartShape, scope: Scope) -> Part:
        path = SPEC if scope.entry is None else scope.entry.path
        at, raw = _template_of(part, scope)
        template = _template(part, at, raw, scope)
        pods = part.pods.value(scope)
        needed, elastic = _needed(part, scope, pods), part.is_elastic(scope)
        return Part(part.name.of(scope), path, at, template, pods, pods, part.after, needed, elastic)

    @property
    def marked_paths(self) -> tuple[FieldPath, ...]:
        """The paths of the labels into which the record is written: of its templates that exist, and of the metadata of
        objects that its controller makes.
        """
        if not (self.has_gangs or self.left_to):
            return ()
        places = [part.template.labels_path for part in self.parts if value_at(self.raw, part.place)[1] is not None]
        for path in self.shape.marked:
            places += [_below(found_at, path) for found_at in _holders(path, self._scope)]
        return tuple(dict.fromkeys(places))

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """The fields that its shape computes numbers of pods from, each once."""
        stated = dict[FieldPath, int | None]()
        for part in self.shape.parts:
            for scope in part.scopes(self._scope):
                for count in (part.pods, part.minimum(scope), part.lower_bound(scope)):
                    stated.update(() if count is None else count.stated(scope))
        yield from stated.items()

    def _read_hindrances(self) -> Iterator[Hindrance]:
        """What the shape says of a workload whose gang is never complete, and parts that cannot be told apart."""
        yield from self._said(self.shape.refuses, INCOMPLETE)
        names = set[str]()
        for part in self.parts if self.has_gangs or self.left_to else ():
            if part.name in names:
                why = "another part has the same name, so their pods cannot be told apart"
                yield Hindrance(INCOMPLETE, part.path, part.name, why, "give each part a name of its own")
            names.add(part.name)

    def warnings(self) -> Iterator[Hindrance]:
        """What the shape warns of."""
        yield from self._said(self.shape.warns, OPERATOR)

    def unreachable(self, *, made: bool) -> Iterator[Hindrance]:
        """The minimums that no number of its pods reaches, also that which it asks its operator for. `made`: whether
        Rollcall makes the gang.
        """
        places = set[FieldPath]()
        for part in self.shape.parts:
            for scope in part.scopes(self._scope):
                for found in _unreachable(part, scope, has_gangs=made):
                    places.add(found.at)
                    yield found
        at, stated = self.operator_minimum
        pods = sum(part.pods for part in (*self.parts, *self.outside_parts))
        if self.has_gangs and at is not None and at not in places and stated is not None and stated > pods > 0:
            why = f"only {pods} pods are created, so the group of its operator never starts"
            yield Hindrance(OPERATOR, at, stated, why, "lower it, or raise the number of pods")

    def shrinks(self) -> Iterator[Hindrance]:
        """The parts that may get fewer pods than the gang needs."""
        for part in self.shape.parts:
            for scope in () if part.outside else part.scopes(self._scope):
                yield from _shrinkable(part, scope)

    def carried(self, key: str) -> Use | None:
        """The value that its operator writes under a key on what it makes, and the place that it is from."""
        for one in self.shape.carried:
            if one.key == key and (value := one.value(self._scope)) is not None:
                return Use(one.path.at(self._scope), value)
        return None

    def carried_path(self, key: str) -> FieldPath | None:
        """The place that its operator takes the value for a key from, whether it has one or not; None if it writes
        nothing under the key.
        """
        carried = (one for one in self.shape.carried if one.key == key and all_hold(one.when, self._scope))
        return next((one.path.at(self._scope) for one in carried), None)

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

    def _said(self, statements: tuple[Statement, ...], rule: str) -> Iterator[Hindrance]:
        for said in statements:
            for scope in said.scopes(self._scope):
                at, found = _place_of(said, scope)
                yield Hindrance(rule, at, found, said.why, said.remedy)

    def leaves(self) -> Iterator[Left]:
        """Why something else makes its gang."""
        for said in self.shape.leaves:
            for scope in said.scopes(self._scope):
                at, _ = _place_of(said, scope)
                yield Left(at, said.why, system=said.system)
        if self.shape.left_to:
            yield Left(SPEC, f"its controller makes a {self.shape.left_to}, which has the gang", is_made=True)


@lru_cache(maxsize=256)
def view_of(forms: tuple[WorkloadShape, ...], title: str = "") -> type[ShapedWorkload]:
    """The view of the workloads of a kind with these forms. What does not depend on the version is the same in all of
    them. `title` replaces the kind where that alone is ambiguous.
    """
    shape = forms[0]
    named = title or shape.resource.api.kind

    class View(ShapedWorkload):
        resource = shape.resource
        kind = named
        by_namespace = shape.by_namespace
        crd = shape.crd
        has_gangs = shape.has_gangs
        left_to = shape.left_to
        name_label = shape.name_label
        role_label = shape.role_label

    View.forms = forms
    View.__name__ = View.__qualname__ = f"{shape.resource.api.kind}View"
    return View


def _template_of(part: PartShape, scope: Scope) -> tuple[FieldPath, Mapping[str, Any]]:
    """The path of a part's template and the template, of the first place that has one."""
    for path in part.templates:
        if (raw := path.value(scope)) is not None:
            return path.at(scope), mapping(raw)
    return part.templates[-1].at(scope), {}


def _template(part: PartShape, at: FieldPath, raw: Mapping[str, Any], scope: Scope) -> PodTemplate:
    if not part.flat:
        return PodTemplate(mapping(raw.get("metadata")), mapping(raw.get("spec")), TemplatePlace(at))
    if part.spec is not None:
        return PodTemplate(raw, mapping(part.spec.value(scope)), FlatPlace(at, part.spec.at(scope)))
    return PodTemplate(raw, {field: raw[field] for field in FLAT_FIELDS if field in raw}, FlatPlace(at, at))


def _unreachable(part: PartShape, scope: Scope, *, has_gangs: bool) -> Iterator[Hindrance]:
    pods = part.pods.value(scope)
    needed = part.minimum(scope)
    if needed is None or (minimum := needed.value(scope)) <= pods:
        return
    at = needed.path.at(scope) if needed.path is not None else _template_of(part, scope)[0]
    why = f"the minimum is {minimum} pods, but only {pods} are created"
    if has_gangs:
        why = f"{why}; the gang is made with {pods}"
    yield Hindrance(OPERATOR, at, minimum, why, "lower the minimum, or raise the number of pods")


def _shrinkable(part: PartShape, scope: Scope) -> Iterator[Hindrance]:
    """What is wrong with a part that may run with fewer pods than its gang needs."""
    lowest = part.lower_bound(scope)
    if lowest is None:
        return
    bound, needed = lowest.value(scope), _needed(part, scope, part.pods.value(scope))
    if bound < needed:
        at, found, remedy = _remedy(part, scope, lowest)
        why = (
            f"the workload may run with {bound} of these pods, but its gang needs {needed}: as long as fewer exist, "
            "a pod that is created again waits"
        )
        yield Hindrance(OPERATOR, at, found, why, remedy)


def _remedy(part: PartShape, scope: Scope, lowest: Count) -> tuple[FieldPath, Any, str]:
    """The field by which the minimum of a part and its lowest number can be made equal, its value, and how."""
    minimum = part.minimum(scope)
    if minimum is not None and minimum.path is not None:
        other = "" if lowest.path is None else f", or raise {lowest.path.at(scope)},"
        found = minimum.path.value(scope)
        return minimum.path.at(scope), found, f"lower it{other} until both are the same number of pods"
    if lowest.path is not None:
        return lowest.path.at(scope), lowest.path.value(scope), "raise it to the pods that the gang needs"
    return _template_of(part, scope)[0], None, "let minimum and lowest in the WorkloadShape be the same number of pods"


def _needed(part: PartShape, scope: Scope, pods: int) -> int:
    """How many of its pods the gang needs."""
    needed = part.minimum(scope)
    return pods if needed is None else min(needed.value(scope), pods)


def _place_of(said: Statement, scope: Scope) -> tuple[FieldPath, Any]:
    if said.at is not None:
        return said.at.at(scope), said.at.value(scope)
    return (SPEC, None) if scope.entry is None else (scope.entry.path, None)


def _holders(path: ShapePath, scope: Scope) -> Iterator[FieldPath]:
    """The objects that have, or may get, the metadata at `path`."""
    above = ShapePath(path.text, path.steps[:-1], path.of_entry)
    yield from (found.path for found in above.values(scope))


def _below(holder: FieldPath, path: ShapePath) -> FieldPath:
    return holder / str(path.steps[-1]) / "labels"
