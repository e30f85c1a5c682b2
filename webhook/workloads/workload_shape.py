"""WorkloadShape: what a declaration says of one kind of workload, with its paths, conditions and counts of pods.

A path is in the part of JSONPath (RFC 9535) that always shows a place in the object: names and `[*]`. `$` is the
workload, `@` the entry of a part's `each`. A value of another type than the path expects raises `Malformed`, so it is
reported at the workload. `webhook.config.shape_document` makes a shape from YAML. The format:
docs/reference/workload-shapes.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from webhook.model.fields import ROOT as _ROOT
from webhook.model.fields import FieldPath, Item, Part
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, Manifest, integer, mapping, text

# No kind nests its pod templates deeper.
MOST_STEPS = 16
MOST_CHARACTERS = 512
# Plain names after a dot or in single quotes, and [*]: nearly all paths of shapes. They are read without the parser,
# whose import takes longer than to read all of them. A test compares both.
_PLAIN_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([A-Za-z0-9._/-]+)'\]|\[\*\]", re.ASCII)
_PLAIN = re.compile(rf"[$@](?:{_PLAIN_STEP.pattern})*", re.ASCII)


class PathError(ValueError):
    """A text is not a path of a WorkloadShape."""


class Each(Enum):
    """The step to every entry of a list or an object."""

    EACH = "*"


class PathValue(NamedTuple):
    """A value, its path, and the last key of an object or the index of a list on its way."""

    path: FieldPath
    value: Any
    key: str = ""


class ShapeScope(NamedTuple):
    """What paths are read in: a workload and, for a part with `each`, one entry of it."""

    workload: Manifest
    entry: PathValue | None = None


class ShapePath(NamedTuple):
    """A path. `of_entry` means that it begins at the entry of `each` and not at the workload."""

    text: str
    steps: tuple[str | Each, ...]
    of_entry: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def is_single(self) -> bool:
        """Whether it finds one value at most."""
        return Each.EACH not in self.steps

    def field_path(self, scope: ShapeScope) -> FieldPath:
        """Returns the path in the workload. Only for a path of a single value."""
        start = self._start(scope).path.parts
        return FieldPath((*start, *(step for step in self.steps if isinstance(step, str))))

    def value(self, scope: ShapeScope) -> Any:
        """Returns the value, None if there is none. Only for a path of a single value. Raises `Malformed`."""
        value = self._start(scope).value
        for step in self.steps:
            if value is None:
                return None
            value = mapping(value).get(step)  # type: ignore[arg-type]
        return value

    def values(self, scope: ShapeScope) -> Iterator[PathValue]:
        """Returns the values in the order of the workload; null counts as none. Raises `Malformed`."""
        start = self._start(scope)
        return _walk(start.value, start.path.parts, start.key, self.steps)

    def _start(self, scope: ShapeScope) -> PathValue:
        return scope.entry if self.of_entry and scope.entry is not None else PathValue(_ROOT, scope.workload)


def shape_path(written: str) -> ShapePath:
    """Returns the path that a text stands for. Raises `PathError`."""
    if len(written) > MOST_CHARACTERS:
        raise PathError(f"is longer than {MOST_CHARACTERS} characters")
    of_entry = written.startswith("@")
    if not of_entry and not written.startswith("$"):
        raise PathError("must begin with $ for the workload, or with @ for the entry of `each`")
    if _PLAIN.fullmatch(written):
        steps = tuple(step[1] or step[2] or Each.EACH for step in _PLAIN_STEP.finditer(written))
    else:
        steps = parsed_steps(f"${written[1:]}")
    if len(steps) > MOST_STEPS:
        raise PathError(f"has more than {MOST_STEPS} steps")
    return ShapePath(written, steps, of_entry)


def parsed_steps(path: str) -> tuple[str | Each, ...]:
    """Returns the steps of any JSONPath. Raises `PathError`."""
    from jsonpath import JSONPath, JSONPathEnvironment  # noqa: PLC0415 - most processes read plain paths alone
    from jsonpath.exceptions import JSONPathError  # noqa: PLC0415

    try:
        parsed = JSONPathEnvironment(strict=True).compile(path)
    except (JSONPathError, RecursionError) as error:
        raise PathError(f"is not a JSONPath: {str(error).splitlines()[0]}") from None
    if not isinstance(parsed, JSONPath):
        raise PathError("combines several paths; write one")
    return tuple(step for segment in parsed.segments for step in _steps(segment))


def _steps(segment: object) -> Iterator[str | Each]:
    from jsonpath.segments import JSONPathChildSegment  # noqa: PLC0415
    from jsonpath.selectors import NameSelector, WildcardSelector  # noqa: PLC0415

    if not isinstance(segment, JSONPathChildSegment) or len(segment.selectors) != 1:
        raise PathError("has a step that is neither one name nor [*]")
    selector = segment.selectors[0]
    if isinstance(selector, NameSelector):
        yield selector.name
    elif isinstance(selector, WildcardSelector):
        yield Each.EACH
    else:
        raise PathError("has a step that is neither a name nor [*]")


def _walk(value: Any, parts: tuple[Part, ...], key: str, steps: tuple[str | Each, ...]) -> Iterator[PathValue]:
    for place, step in enumerate(steps):
        if value is None:
            return
        if not isinstance(step, str):
            for part, name, entry in _entries_of(value):
                yield from _walk(entry, (*parts, *_names(steps[:place]), part), name, steps[place + 1 :])
            return
        value = mapping(value).get(step)
    if value is not None:
        yield PathValue(FieldPath((*parts, *_names(steps))), value, key)


def _names(steps: tuple[str | Each, ...]) -> tuple[str, ...]:
    return tuple(step for step in steps if isinstance(step, str))


def _entries_of(value: Any) -> Iterator[tuple[Part, str, Any]]:
    """Yields the entries of a list or an object, each with its part of a path and its index or key."""
    if not isinstance(value, list):
        yield from ((key, key, entry) for key, entry in mapping(value).items())
        return
    for index, entry in enumerate(value):
        if entry is None:
            # The API server does not drop null from a list.
            raise Malformed(entry, "an object")
        yield Item(index, _name(entry)), str(index), entry


def _name(value: object) -> str | None:
    """Returns the name of a list's entry, by which two versions of a workload are compared."""
    if not isinstance(value, dict):
        return None
    return next((name for key in ("name", "groupName") if isinstance(name := value.get(key), str) and name), None)


Scalar = str | int | bool


class ShapeCondition(NamedTuple):
    """A comparison of the value at `path`, or of `default` if there is none. Exactly one of the other fields is set:
    it is one of `values`, it is none of `others`, or it `exists`. An empty text does not exist.
    """

    path: ShapePath
    values: tuple[Scalar, ...] = ()
    others: tuple[Scalar, ...] = ()
    exists: bool | None = None
    default: Scalar | None = None

    def holds(self, scope: ShapeScope) -> bool:
        """Returns whether it holds. Raises `Malformed` if what is compared is an object or a list."""
        value = self.path.value(scope)
        if self.exists is not None:
            return (value not in {None, ""} if _is_scalar(value) else bool(value)) is self.exists
        if value is None:
            value = self.default
        if not _is_scalar(value):
            raise Malformed(value, "a text, a number, true or false")
        if self.values:
            return any(_equal(value, scalar) for scalar in self.values)
        return not any(_equal(value, scalar) for scalar in self.others)

    def __str__(self) -> str:
        if self.exists is not None:
            return f"{self.path} {'exists' if self.exists else 'does not exist'}"
        scalars = ", ".join(map(str, self.values or self.others))
        return f"{self.path} is {'' if self.values else 'not '}{scalars}"


def all_hold(conditions: Iterable[ShapeCondition], scope: ShapeScope) -> bool:
    """Returns whether all conditions hold; without any they do. Raises `Malformed`."""
    return all(condition.holds(scope) for condition in conditions)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _equal(value: object, scalar: Scalar) -> bool:
    # In Python true equals 1.
    return value == scalar and isinstance(value, bool) is isinstance(scalar, bool)


# An int32, as a CRD has numbers of pods.
MOST = 2**31 - 1
# A count may contain counts.
DEEPEST = 4


@dataclass(frozen=True, slots=True)
class PodCount:
    """A number of pods. It is `number`, or the value at `path`, or `default` without a value there. In this order, it
    is raised to `at_least`, lowered to `at_most`, lowered by `minus`, and multiplied by `times`. It is 0 if one of
    `zero_if` holds. It is never negative.
    """

    number: int = 0
    path: ShapePath | None = None
    default: PodCount | None = None
    at_least: PodCount | None = None
    at_most: PodCount | None = None
    minus: PodCount | None = None
    times: PodCount | None = None
    zero_if: tuple[ShapeCondition, ...] = ()

    def value(self, scope: ShapeScope) -> int:
        """Returns the number. Raises `Malformed`."""
        if self.zero_if and any(condition.holds(scope) for condition in self.zero_if):
            return 0
        number = self._base(scope)
        if self.at_least is not None:
            number = max(number, self.at_least.value(scope))
        if self.at_most is not None:
            number = min(number, self.at_most.value(scope))
        if self.minus is not None:
            number -= self.minus.value(scope)
        if self.times is not None:
            number *= self.times.value(scope)
        return min(max(number, 0), MOST)

    def _base(self, scope: ShapeScope) -> int:
        if self.path is None:
            return self.number
        number = integer(self.path.value(scope))
        if number is None and self.default is not None:
            return self.default.value(scope)
        return number or 0

    def stated(self, scope: ShapeScope) -> Iterator[tuple[FieldPath, int | None]]:
        """Yields the fields that it is computed from, with their values. Raises `Malformed`."""
        if self.path is not None:
            yield self.path.field_path(scope), integer(self.path.value(scope))
        for inner in self:
            yield from inner.stated(scope)

    def __iter__(self) -> Iterator[PodCount]:
        """The counts that it contains."""
        inner = (self.default, self.at_least, self.at_most, self.minus, self.times)
        return (count for count in inner if count is not None)


@dataclass(frozen=True, slots=True)
class Minimum:
    """A least number of pods, which holds under conditions. `elastic`: more pods may join them later."""

    count: PodCount
    when: tuple[ShapeCondition, ...] = ()
    elastic: bool = False

    def holds(self, scope: ShapeScope) -> bool:
        """Returns whether it is the minimum of this workload. Raises `Malformed`."""
        return all_hold(self.when, scope)


# In the name of a controller: the name of the workload, and the value of a label of the pod.
WORKLOAD = "{workload}"
LABEL_IN_NAME = re.compile(r"\{label:([^{}]+)\}")


class Over(StrEnum):
    """Which pods of a workload form a gang."""

    # All counted parts together.
    ALL = "all"
    # Each part by itself.
    PART = "part"
    # Each part is a role, whose entry is the template of a LeaderWorkerSet: the first groups of all roles together, and
    # each further group by itself.
    GROUPS = "groups"
    # None: something else makes the gang, and the workload is only judged.
    NONE = "none"


class Until(StrEnum):
    """What the pods of one part wait for before those of another are created."""

    CREATED = "created"
    RUNNING = "running"
    READY = "ready"
    COMPLETE = "complete"


class PartName(NamedTuple):
    """The name of a part: `literal`, or the text at `path`, or the key of its entry, which may be put in lower case."""

    literal: str = ""
    path: ShapePath | None = None
    of_key: bool = False
    lower: bool = True

    def text_in(self, scope: ShapeScope) -> str:
        """Returns the name in one workload. Raises `Malformed`."""
        if self.of_key and scope.entry is not None:
            return scope.entry.key.lower() if self.lower else scope.entry.key
        return self.literal if self.path is None else text(self.path.value(scope)) or ""


class ChainLink(NamedTuple):
    """An object between a pod and its workload. `name` is its name, with `{workload}` for the name of the workload and
    `{label:KEY}` for a label of the pod. `selector` narrows which objects of the kind are watched.
    """

    resource: Resource
    name: str
    selector: str = ""

    def workload_of(self, name: str, labels: object) -> str | None:
        """Returns the name of the workload if the object has this name; None if no workload can have made it."""
        held = labels if isinstance(labels, dict) else {}
        written = LABEL_IN_NAME.sub(lambda match: str(held.get(match[1]) or "/"), self.name)
        before, _, after = written.partition(WORKLOAD)
        workload = name[len(before) : len(name) - len(after)]
        return workload if workload and name == f"{before}{workload}{after}" else None


class PodShape(NamedTuple):
    """How the pods of a part are known: by their controllers, nearest first, without the workload itself, and by their
    labels. The label `name_label` has the name of the part; the others have fixed values.
    """

    chain: tuple[ChainLink, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name_label: str = ""


class PartShape(NamedTuple):
    """One template of a workload, or one for each entry at `each`. It exists if `when` holds. `templates` are places of
    its pod template, of which the first that exists counts; with `flat` it is no template, but an object with the
    fields of one, of which those of the pod's spec may be in another object at `spec`. `pods` are created, and the
    first of `minimums` that holds is how many of them the gang needs. The first of `lowest` that holds is how few of
    them the workload may run with. Pods of a part that is `outside` belong to no gang. It waits for the parts in
    `after`, `until` they are so far.
    """

    name: PartName
    templates: tuple[ShapePath, ...]
    pods: PodCount
    each: ShapePath | None = None
    when: tuple[ShapeCondition, ...] = ()
    flat: bool = False
    minimums: tuple[Minimum, ...] = ()
    pod: PodShape = PodShape()
    outside: bool = False
    after: tuple[str, ...] = ()
    until: Until = Until.CREATED
    lowest: tuple[Minimum, ...] = ()
    spec: ShapePath | None = None

    def scopes(self, scope: ShapeScope) -> Iterator[ShapeScope]:
        """Returns where it occurs in a workload. Raises `Malformed`."""
        return _scopes(self.each, self.when, scope)

    def minimum(self, scope: ShapeScope) -> PodCount | None:
        """Returns how many of its pods the gang needs; None if it needs all. Raises `Malformed`."""
        minimum = _first(self.minimums, scope)
        return None if minimum is None else minimum.count

    def is_elastic(self, scope: ShapeScope) -> bool:
        """Returns whether more pods than it has now may join the gang later. Raises `Malformed`."""
        minimum = _first(self.minimums, scope)
        return minimum is not None and minimum.elastic

    def lower_bound(self, scope: ShapeScope) -> PodCount | None:
        """Returns how few of its pods the workload may run with; None if that is not declared. Raises `Malformed`."""
        bound = _first(self.lowest, scope)
        return None if bound is None else bound.count


class Statement(NamedTuple):
    """What follows if `when` holds in a workload, or in an entry at `each`: it is about the value at `at`. `system`
    reads the gang that something else makes.
    """

    why: str
    at: ShapePath | None = None
    when: tuple[ShapeCondition, ...] = ()
    each: ShapePath | None = None
    remedy: str = ""
    system: str = ""

    def scopes(self, scope: ShapeScope) -> Iterator[ShapeScope]:
        """Returns where it is true. Where a value has a type that it cannot compare, it is not. Raises `Malformed`."""
        return _scopes(self.each, self.when, scope)


class OperatorGroups(NamedTuple):
    """The PodGroup that the workload's own operator writes: the path of the minimum that the workload asks it for, and
    when it writes none, or one without a minimum, because the workload is over. `scheduler` is the path of the
    scheduler that the operator writes on pods that name none.
    """

    scheduler: ShapePath | None = None
    minimum: ShapePath | None = None
    finished: tuple[ShapeCondition, ...] = ()


class Carried(NamedTuple):
    """A label or annotation that the workload's operator writes on what it makes, from the text at `path`, or from
    `default` without one, if `when` holds.
    """

    key: str
    path: ShapePath
    default: str = ""
    when: tuple[ShapeCondition, ...] = ()

    def value(self, scope: ShapeScope) -> str | None:
        """Returns the value; None if the operator writes none. Raises `Malformed`."""
        return (text(self.path.value(scope)) or self.default or None) if all_hold(self.when, scope) else None


class WorkloadShape(NamedTuple):
    """One kind of workload, as it is written in `versions`, the version of `resource` first. A kind whose versions have
    different paths has several shapes, its forms.
    """

    name: str
    resource: Resource
    versions: tuple[str, ...]
    parts: tuple[PartShape, ...]
    over: Over = Over.ALL
    # The kind whose gangs it has instead of its own: an object that the workload's controller makes.
    left_to: str = ""
    # Whether a namespace opts it in; otherwise only its own label does.
    by_namespace: bool = True
    # Where the record is written besides the workload and its templates: metadata of objects that are made.
    marked: tuple[ShapePath, ...] = ()
    # The pod labels that have the name of the workload, and the role.
    name_label: str = ""
    role_label: str = ""
    suspended: tuple[ShapeCondition, ...] = ()
    elsewhere: tuple[ShapeCondition, ...] = ()
    # The gangs that others make; what never starts; and what works against the gang.
    leaves: tuple[Statement, ...] = ()
    refuses: tuple[Statement, ...] = ()
    warns: tuple[Statement, ...] = ()
    source: str = ""
    operator: OperatorGroups = OperatorGroups()
    # What the workload's operator writes on the objects that it makes.
    carried: tuple[Carried, ...] = ()

    @property
    def crd(self) -> str:
        """The name of its CustomResourceDefinition: plural and group."""
        return self.resource.qualified

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.resource.api.group, self.resource.api.kind

    @property
    def has_gangs(self) -> bool:
        """Whether Rollcall makes gangs of its pods."""
        return self.over is not Over.NONE and not self.left_to

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything that it says of single workloads."""
        return (*self.leaves, *self.refuses, *self.warns)

    @property
    def first_parts(self) -> tuple[PartShape, ...]:
        """The parts whose pods are created without waiting for pods of others that run, are ready or are complete."""
        later = {part.name.literal for part in self.parts if _waits(part)}
        # A part that is created after a later one is later, too.
        while more := {part.name.literal for part in self.parts if later.intersection(part.after)} - later:
            later |= more
        return tuple(part for part in self.parts if not later.intersection(part.after) and not _waits(part))

    @property
    def lists(self) -> tuple[ShapePath, ...]:
        """The paths whose entries are parts, or are judged one by one."""
        every = [part.each for part in self.parts]
        every += [statement.each for statement in self.statements]
        return tuple(dict.fromkeys(path for path in every if path is not None))

    @property
    def paths(self) -> Iterator[ShapePath]:
        """All paths that are read in a workload, from its root; those of an entry follow its `each`."""
        for part in self.parts:
            yield from (part.each,) if part.each is not None else ()
            yield from part.templates
            for minimum in (*part.minimums, *part.lowest):
                yield from _count_paths(minimum.count)
                yield from (condition.path for condition in minimum.when)
            yield from _count_paths(part.pods)
            yield from (condition.path for condition in part.when)
            yield from (path for path in (part.name.path, part.spec) if path is not None)
        for carried in self.carried:
            yield carried.path
            yield from (condition.path for condition in carried.when)
        yield from self.marked
        yield from (condition.path for condition in (*self.suspended, *self.elsewhere, *self.operator.finished))
        yield from (path for path in (self.operator.minimum, self.operator.scheduler) if path is not None)
        for statement in self.statements:
            yield from (path for path in (statement.each, statement.at) if path is not None)
            yield from (condition.path for condition in statement.when)


def _first(counts: tuple[Minimum, ...], scope: ShapeScope) -> Minimum | None:
    """Returns the first that holds. Raises `Malformed`."""
    return next((minimum for minimum in counts if minimum.holds(scope)), None)


def form_of(forms: Sequence[WorkloadShape], raw: Manifest) -> WorkloadShape:
    """Returns the form of an object by its apiVersion; the first one for a version that none declares."""
    written = raw.get("apiVersion")
    version = written.rpartition("/")[2] if isinstance(written, str) else ""
    return next((form for form in forms if version in form.versions), forms[0])


def _scopes(each: ShapePath | None, when: tuple[ShapeCondition, ...], scope: ShapeScope) -> Iterator[ShapeScope]:
    """Returns the entries at `each` in which `when` holds, or the workload itself. Raises `Malformed`."""
    entries = (scope,) if each is None else (ShapeScope(scope.workload, entry) for entry in each.values(scope))
    return (entry for entry in entries if all_hold(when, entry))


def _waits(part: PartShape) -> bool:
    return bool(part.after) and part.until is not Until.CREATED


def _count_paths(count: PodCount) -> Iterator[ShapePath]:
    yield from (count.path,) if count.path is not None else ()
    yield from (condition.path for condition in count.zero_if)
    for inner in count:
        yield from _count_paths(inner)
