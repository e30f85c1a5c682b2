"""WorkloadShape: what a declaration says of one kind of workload, read and checked.

`webhook.config.shape_document` makes it from YAML. The format: docs/reference/workload-shapes.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from webhook.model.projections import Resource
from webhook.model.reading import Manifest, text
from webhook.model.workloads.shapes.condition import Condition, all_hold
from webhook.model.workloads.shapes.count import Count, Minimum
from webhook.model.workloads.shapes.path import Scope, ShapePath

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

    def of(self, scope: Scope) -> str:
        """The name in one workload. Raises `Malformed`."""
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
        """The name of the workload if the object has this name; None if no workload can have made it."""
        held = labels if isinstance(labels, dict) else {}
        written = LABEL_IN_NAME.sub(lambda found: str(held.get(found[1]) or "/"), self.name)
        before, _, after = written.partition(WORKLOAD)
        found = name[len(before) : len(name) - len(after)]
        return found if found and name == f"{before}{found}{after}" else None


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
    pods: Count
    each: ShapePath | None = None
    when: tuple[Condition, ...] = ()
    flat: bool = False
    minimums: tuple[Minimum, ...] = ()
    pod: PodShape = PodShape()
    outside: bool = False
    after: tuple[str, ...] = ()
    until: Until = Until.CREATED
    lowest: tuple[Minimum, ...] = ()
    spec: ShapePath | None = None

    def scopes(self, scope: Scope) -> Iterator[Scope]:
        """Where it occurs in a workload. Raises `Malformed`."""
        return _scopes(self.each, self.when, scope)

    def minimum(self, scope: Scope) -> Count | None:
        """How many of its pods the gang needs; None if it needs all. Raises `Malformed`."""
        found = _first(self.minimums, scope)
        return None if found is None else found.count

    def is_elastic(self, scope: Scope) -> bool:
        """Whether more pods than it has now may join the gang later. Raises `Malformed`."""
        found = _first(self.minimums, scope)
        return found is not None and found.elastic

    def lower_bound(self, scope: Scope) -> Count | None:
        """How few of its pods the workload may run with; None if that is not declared. Raises `Malformed`."""
        found = _first(self.lowest, scope)
        return None if found is None else found.count


class Statement(NamedTuple):
    """What follows if `when` holds in a workload, or in an entry at `each`: it is about the value at `at`. `system`
    reads the gang that something else makes.
    """

    why: str
    at: ShapePath | None = None
    when: tuple[Condition, ...] = ()
    each: ShapePath | None = None
    remedy: str = ""
    system: str = ""

    def scopes(self, scope: Scope) -> Iterator[Scope]:
        """Where it is true. Where a value has a type that it cannot compare, it is not. Raises `Malformed`."""
        return _scopes(self.each, self.when, scope)


class OperatorGroups(NamedTuple):
    """The PodGroup that the workload's own operator writes: the path of the minimum that the workload asks it for, and
    when it writes none, or one without a minimum, because the workload is over. `scheduler` is the path of the
    scheduler that the operator writes on pods that name none.
    """

    scheduler: ShapePath | None = None
    minimum: ShapePath | None = None
    finished: tuple[Condition, ...] = ()


class Carried(NamedTuple):
    """A label or annotation that the workload's operator writes on what it makes, from the text at `path`, or from
    `default` without one, if `when` holds.
    """

    key: str
    path: ShapePath
    default: str = ""
    when: tuple[Condition, ...] = ()

    def value(self, scope: Scope) -> str | None:
        """The value; None if the operator writes none. Raises `Malformed`."""
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
    suspended: tuple[Condition, ...] = ()
    elsewhere: tuple[Condition, ...] = ()
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
        """Its group and kind."""
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
        every += [said.each for said in self.statements]
        return tuple(dict.fromkeys(path for path in every if path is not None))

    @property
    def paths(self) -> Iterator[ShapePath]:
        """All paths that are read in a workload, from its root; those of an entry follow its `each`."""
        for part in self.parts:
            yield from (part.each,) if part.each is not None else ()
            yield from part.templates
            for minimum in (*part.minimums, *part.lowest):
                yield from _of_count(minimum.count)
                yield from (one.path for one in minimum.when)
            yield from _of_count(part.pods)
            yield from (one.path for one in part.when)
            yield from (one for one in (part.name.path, part.spec) if one is not None)
        for carried in self.carried:
            yield carried.path
            yield from (one.path for one in carried.when)
        yield from self.marked
        yield from (one.path for one in (*self.suspended, *self.elsewhere, *self.operator.finished))
        yield from (path for path in (self.operator.minimum, self.operator.scheduler) if path is not None)
        for said in self.statements:
            yield from (one for one in (said.each, said.at) if one is not None)
            yield from (one.path for one in said.when)


def _first(counts: tuple[Minimum, ...], scope: Scope) -> Minimum | None:
    """The first that holds. Raises `Malformed`."""
    return next((one for one in counts if one.holds(scope)), None)


def form_of(forms: Sequence[WorkloadShape], raw: Manifest) -> WorkloadShape:
    """The form in which an object is written, by its apiVersion; the first one for a version that none declares."""
    written = raw.get("apiVersion")
    version = written.rpartition("/")[2] if isinstance(written, str) else ""
    return next((form for form in forms if version in form.versions), forms[0])


def _scopes(each: ShapePath | None, when: tuple[Condition, ...], scope: Scope) -> Iterator[Scope]:
    """The entries at `each` in which `when` holds, or the workload itself. Raises `Malformed`."""
    entries = (scope,) if each is None else (Scope(scope.workload, entry) for entry in each.values(scope))
    return (one for one in entries if all_hold(when, one))


def _waits(part: PartShape) -> bool:
    return bool(part.after) and part.until is not Until.CREATED


def _of_count(count: Count) -> Iterator[ShapePath]:
    yield from (count.path,) if count.path is not None else ()
    yield from (one.path for one in count.zero_if)
    for inner in count:
        yield from _of_count(inner)
