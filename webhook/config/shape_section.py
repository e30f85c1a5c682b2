"""A WorkloadShape as it is written, in a file or in the configuration, and how it is read.

The format: docs/reference/workload-shapes.md. All mistakes are reported, each with its path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from webhook.config.sections import API_VERSION, Section, path_of, read_section
from webhook.errors import Problem
from webhook.model import grove
from webhook.model.keys import Api
from webhook.model.kubernetes_kinds import POD
from webhook.model.projections import Resource
from webhook.model.workloads.facts import VIEWS
from webhook.model.workloads.shapes.condition import Condition
from webhook.model.workloads.shapes.count import DEEPEST, MOST, Count, Minimum
from webhook.model.workloads.shapes.path import PathError, ShapePath, shape_path
from webhook.model.workloads.shapes.shape import (
    WORKLOAD,
    ChainLink,
    OperatorGroups,
    Over,
    PartName,
    PartShape,
    PodShape,
    Statement,
    Until,
    WorkloadShape,
)

KIND = "WorkloadShape"
# Kinds whose admission is written in Python.
_IN_PYTHON = frozenset({*VIEWS, (grove.GROUP, "PodCliqueSet"), (grove.SCHEDULER_GROUP, "PodGang"), POD})
_FEW, _MANY = 16, 64


def _path(value: str) -> str:
    try:
        shape_path(value)
    except PathError as error:
        raise ValueError(str(error)) from None
    return value


def _single(value: str) -> str:
    if not shape_path(_path(value)).is_single:
        raise ValueError("must name one value, so it has no [*]")
    return value


def _entries(value: str) -> str:
    if not _path(value).endswith("[*]"):
        raise ValueError("must end with [*], which stands for each entry")
    return value


def _listed(value: object) -> object:
    """Return a list for a single entry."""
    return value if isinstance(value, list) or value is None else [value]


def _counted(value: object) -> object:
    """Return a block for a number or a path."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"number": value}
    return {"path": value} if isinstance(value, str) else value


def _named(value: object) -> object:
    return {"literal": value} if isinstance(value, str) else value


Path = Annotated[str, AfterValidator(_single)]
EachPath = Annotated[str, AfterValidator(_entries)]
Scalar = str | int | bool
Name = Annotated[str, Field(min_length=1, max_length=253)]
Sentence = Annotated[str, Field(min_length=1, max_length=300)]


class ConditionSection(Section):
    """What must hold: the value at `path`, or `default`, `is` one of some values, `isNot` any of them, or `exists`."""

    path: Path
    is_: Annotated[list[Scalar], BeforeValidator(_listed), Field(alias="is", max_length=_FEW)] = Field(
        default_factory=list, alias="is"
    )
    isNot: Annotated[list[Scalar], BeforeValidator(_listed), Field(max_length=_FEW)] = Field(default_factory=list)
    exists: bool | None = None
    default: Scalar | None = None


Conditions = Annotated[list[ConditionSection], BeforeValidator(_listed), Field(max_length=_FEW)]


class CountSection(Section):
    """A number of pods: a number, a path, or a path with what is done to its value."""

    number: Annotated[int, Field(ge=0, le=MOST)] | None = None
    path: Path | None = None
    default: Annotated[CountSection, BeforeValidator(_counted)] | None = None
    atLeast: Annotated[CountSection, BeforeValidator(_counted)] | None = None
    atMost: Annotated[CountSection, BeforeValidator(_counted)] | None = None
    minus: Annotated[CountSection, BeforeValidator(_counted)] | None = None
    times: Annotated[CountSection, BeforeValidator(_counted)] | None = None
    zeroIf: Conditions = Field(default_factory=list)


Counted = Annotated[CountSection, BeforeValidator(_counted)]


class MinimumSection(Section):
    """A least number of pods, which holds `when` its conditions do."""

    count: Counted
    when: Conditions = Field(default_factory=list)


Minimums = Annotated[list[MinimumSection], BeforeValidator(_listed), Field(max_length=_FEW)]


class NameSection(Section):
    """The name of a part: fixed, at a path, or the key of its entry in lower case."""

    literal: Name | None = None
    path: Path | None = None
    key: Literal["lower"] | None = None


class LinkSection(Section):
    """An object between a pod and its workload."""

    group: str
    version: Name
    kind: Name
    plural: Name
    name: Name
    selector: str = ""


class PodSection(Section):
    """How the pods of a part are known."""

    chain: Annotated[list[LinkSection], Field(max_length=3)] = Field(default_factory=list)
    labels: Annotated[dict[str, str], Field(max_length=_FEW)] = Field(default_factory=dict)
    nameLabel: str = ""


class PartSection(Section):
    """The pods of one template, or of one for each entry."""

    name: Annotated[NameSection, BeforeValidator(_named)] = NameSection()
    each: EachPath | None = None
    when: Conditions = Field(default_factory=list)
    template: Annotated[list[Path], BeforeValidator(_listed), Field(max_length=4)] = Field(default_factory=list)
    fields: Path | None = None
    pods: Counted
    minimum: Minimums = Field(default_factory=list)
    lowest: Minimums = Field(default_factory=list)
    pod: PodSection = PodSection()
    outside: bool = False
    after: Annotated[list[Name], Field(max_length=_FEW)] = Field(default_factory=list)
    until: Literal["created", "running", "ready", "complete"] = "created"


class GangSection(Section):
    """Which pods are a gang, or which object of the controller has the gangs. With `groups`, `roleLabel` is the label
    of the pods with the role.
    """

    over: Literal["all", "part", "groups", "none"] = "all"
    leftTo: str = ""
    roleLabel: str = ""


class StatementSection(Section):
    """What is true of a workload `when` conditions hold, at which field, and why."""

    when: Conditions = Field(default_factory=list)
    each: EachPath | None = None
    at: Path | None = None
    why: Sentence
    remedy: Annotated[str, Field(max_length=300)] = ""


class ForSection(Section):
    """The kind that the shape is for, and all its versions with these paths; the first is read."""

    group: Name
    kind: Name
    plural: Name
    versions: Annotated[list[Name], Field(min_length=1, max_length=8)]


class OperatorSection(Section):
    """The PodGroup that the workload's own operator writes."""

    minimum: Path | None = None
    finished: Conditions = Field(default_factory=list)


class ShapeSection(Section):
    """The `spec` of a WorkloadShape."""

    for_: ForSection = Field(alias="for")
    source: str = ""
    optIn: Literal["namespace", "workload"] = "namespace"
    podLabel: str = ""
    suspended: Conditions = Field(default_factory=list)
    elsewhere: Conditions = Field(default_factory=list)
    parts: Annotated[list[PartSection], Field(max_length=_MANY)] = Field(default_factory=list)
    gang: GangSection = GangSection()
    mark: Annotated[list[Annotated[str, AfterValidator(_path)]], Field(max_length=_FEW)] = Field(default_factory=list)
    leave: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    refuse: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    warn: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    operator: OperatorSection = OperatorSection()


class _Metadata(Section):
    """The name of a WorkloadShape."""

    name: Name


class _Document(Section):
    """A WorkloadShape."""

    apiVersion: Literal["rollcall.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["WorkloadShape"] = KIND  # type: ignore[assignment]
    metadata: _Metadata
    spec: dict[str, Any]


def read_shape(document: object, path: str, problems: list[Problem]) -> WorkloadShape | None:
    """Return the shape that a document declares. Its mistakes go to `problems`, with paths that begin with `path`;
    without any the result is not None.
    """
    before = len(problems)
    outer = read_section(_Document, document, path, problems)
    if outer is None:
        return None
    place = path_of(("spec",), path)
    section = read_section(ShapeSection, outer.spec, place, problems)
    if section is None or len(problems) > before:
        return None
    problems.extend(_problems_of(section, place))
    return None if len(problems) > before else _shape(outer.metadata.name, section)


# What no single field shows


def _problems_of(section: ShapeSection, path: str) -> Iterator[Problem]:
    kind = section.for_.group, section.for_.kind
    if kind in _IN_PYTHON:
        yield Problem(f"{path}.for.kind", kind[1], "is not declared, because Rollcall has its own code for it")
    names = [part.name.literal for part in section.parts if part.name.literal is not None]
    makes_gangs = section.gang.over != "none" and not section.gang.leftTo
    yield from _of_groups(section, path)
    counted = [part for part in section.parts if not part.outside]
    if makes_gangs and not counted:
        yield Problem(f"{path}.parts", None, "must have a part that is not outside, because a gang needs pods")
    for index, part in enumerate(section.parts):
        at = f"{path}.parts[{index}]"
        yield from _of_part(part, at)
        for place, name in enumerate(part.after):
            if name not in names:
                yield Problem(f"{at}.after[{place}]", name, "is not the name of a part", tuple(names))
        if makes_gangs and not part.outside and section.gang.over != "groups":
            yield from _of_counted(part, at, section, alone=len(counted) == 1)
    yield from _of_conditions(section.suspended, f"{path}.suspended", has_entry=False)
    yield from _of_conditions(section.elsewhere, f"{path}.elsewhere", has_entry=False)
    yield from _rooted(section.operator.minimum, f"{path}.operator.minimum", has_entry=False)
    yield from _of_conditions(section.operator.finished, f"{path}.operator.finished", has_entry=False)
    for field, statements in (("leave", section.leave), ("refuse", section.refuse), ("warn", section.warn)):
        for index, one in enumerate(statements):
            at = f"{path}.{field}[{index}]"
            if not one.when and field != "leave":
                yield Problem(f"{at}.when", None, "is required, or it is said of every workload of the kind")
            yield from _of_conditions(one.when, f"{at}.when", has_entry=one.each is not None)
            yield from _rooted(one.each, f"{at}.each", has_entry=False)
            yield from _rooted(one.at, f"{at}.at", has_entry=one.each is not None)
    for index, mark in enumerate(section.mark):
        if shape_path(mark).steps[-1:] != ("metadata",):
            yield Problem(f"{path}.mark[{index}]", mark, "must end with metadata, to which the label is added")
        yield from _rooted(mark, f"{path}.mark[{index}]", has_entry=False)


def _of_groups(section: ShapeSection, path: str) -> Iterator[Problem]:
    """Yield what is wrong with a kind that makes a LeaderWorkerSet for each role."""
    gang = section.gang
    if gang.over != "groups":
        if gang.roleLabel:
            yield Problem(f"{path}.gang.roleLabel", gang.roleLabel, "is read with `over: groups` only")
        return
    for field, value in ((f"{path}.gang.roleLabel", gang.roleLabel), (f"{path}.podLabel", section.podLabel)):
        if not value:
            yield Problem(field, None, "is required with `over: groups`: the pod labels tell the workload and the role")
    if gang.leftTo:
        yield Problem(f"{path}.gang.leftTo", gang.leftTo, "is not possible with `over: groups`, which has gangs")
    for index, part in enumerate(section.parts):
        if part.each is None or part.name.path is None or part.outside or part.minimum or part.after:
            why = (
                "must have `each`, with the templates of LeaderWorkerSets, and name.path; no minimum, after and outside"
            )
            yield Problem(f"{path}.parts[{index}]", None, why)


def _of_part(part: PartSection, path: str) -> Iterator[Problem]:
    has_entry = part.each is not None
    given = [value for value in (part.name.literal, part.name.path, part.name.key) if value is not None]
    if len(given) > 1:
        yield Problem(f"{path}.name", None, "must be one of literal, path and key")
    if part.name.key is not None and not has_entry:
        yield Problem(f"{path}.name.key", part.name.key, "needs `each`, whose keys are meant")
    if bool(part.template) is (part.fields is not None):
        yield Problem(f"{path}.template", None, "is required; or `fields`, for an object with the fields of a template")
    yield from _rooted(part.each, f"{path}.each", has_entry=False)
    yield from _rooted(part.name.path, f"{path}.name.path", has_entry=has_entry)
    yield from _rooted(part.fields, f"{path}.fields", has_entry=has_entry)
    for place, template in enumerate(part.template):
        yield from _rooted(template, f"{path}.template[{place}]", has_entry=has_entry)
    yield from _of_conditions(part.when, f"{path}.when", has_entry=has_entry)
    yield from _of_count(part.pods, f"{path}.pods", has_entry=has_entry)
    for key, least in (("minimum", part.minimum), ("lowest", part.lowest)):
        for place, one in enumerate(least):
            yield from _of_count(one.count, f"{path}.{key}[{place}].count", has_entry=has_entry)
            yield from _of_conditions(one.when, f"{path}.{key}[{place}].when", has_entry=has_entry)


def _of_counted(part: PartSection, path: str, section: ShapeSection, *, alone: bool) -> Iterator[Problem]:
    """Yield what is wrong with a part whose pods are in a gang."""
    if part.after and part.until != "created" and section.gang.over == "all":
        why = (
            f"would never start: its pods are created when those before them are {part.until}, and a gang waits for all"
        )
        yield Problem(f"{path}.until", part.until, f"{why}; set outside: true, or gang.over: part")
    if part.name.literal is None and not part.pod.nameLabel and (part.each is not None or not alone):
        yield Problem(f"{path}.pod.nameLabel", None, "is required: the pod label with the name of the part")
    if not alone and not part.pod.labels and not part.pod.nameLabel:
        yield Problem(f"{path}.pod.labels", None, "is required: the pod labels by which this part differs from others")
    for place, link in enumerate(part.pod.chain):
        if link.name.count(WORKLOAD) != 1:
            yield Problem(f"{path}.pod.chain[{place}].name", link.name, f"must contain {WORKLOAD} once")


def _of_count(count: CountSection, path: str, *, has_entry: bool, depth: int = 0) -> Iterator[Problem]:
    if (count.number is None) is (count.path is None):
        yield Problem(path, None, "must be a number, or have a path")
    if depth == DEEPEST:
        yield Problem(path, None, f"contains counts more than {DEEPEST} deep")
        return
    yield from _rooted(count.path, f"{path}.path", has_entry=has_entry)
    yield from _of_conditions(count.zeroIf, f"{path}.zeroIf", has_entry=has_entry)
    for field in ("default", "atLeast", "atMost", "minus", "times"):
        inner = getattr(count, field)
        if inner is not None:
            yield from _of_count(inner, f"{path}.{field}", has_entry=has_entry, depth=depth + 1)


def _of_conditions(conditions: list[ConditionSection], path: str, *, has_entry: bool) -> Iterator[Problem]:
    for index, one in enumerate(conditions):
        given = [one.is_ or None, one.isNot or None, one.exists]
        if sum(value is not None for value in given) != 1:
            yield Problem(f"{path}[{index}]", None, "must have exactly one of is, isNot and exists")
        yield from _rooted(one.path, f"{path}[{index}].path", has_entry=has_entry)


def _rooted(path: str | None, at: str, *, has_entry: bool) -> Iterator[Problem]:
    if path is not None and path.startswith("@") and not has_entry:
        yield Problem(at, path, "begins with @, but there is no `each` whose entry it could mean")


# From the sections to the shape


def _shape(name: str, section: ShapeSection) -> WorkloadShape:
    kind = section.for_
    return WorkloadShape(
        name,
        Resource(Api(kind.group, kind.versions[0], kind.kind), kind.plural),
        tuple(kind.versions),
        tuple(_part(part) for part in section.parts),
        Over(section.gang.over),
        section.gang.leftTo,
        section.optIn == "namespace",
        tuple(shape_path(mark) for mark in section.mark),
        section.podLabel,
        section.gang.roleLabel,
        _conditions(section.suspended),
        _conditions(section.elsewhere),
        tuple(_statement(one) for one in section.leave),
        tuple(_statement(one) for one in section.refuse),
        tuple(_statement(one) for one in section.warn),
        section.source,
        OperatorGroups(_maybe(section.operator.minimum), _conditions(section.operator.finished)),
    )


def _part(section: PartSection) -> PartShape:
    name = PartName(section.name.literal or "", _maybe(section.name.path), section.name.key is not None)
    paths = [section.fields] if section.fields is not None else section.template
    chain = tuple(
        ChainLink(Resource(Api(one.group, one.version, one.kind), one.plural), one.name, one.selector)
        for one in section.pod.chain
    )
    return PartShape(
        name,
        tuple(shape_path(path) for path in paths),
        _count(section.pods),
        _maybe(section.each),
        _conditions(section.when),
        section.fields is not None,
        _minimums(section.minimum),
        PodShape(chain, tuple(section.pod.labels.items()), section.pod.nameLabel),
        section.outside,
        tuple(section.after),
        Until(section.until),
        _minimums(section.lowest),
    )


def _minimums(sections: list[MinimumSection]) -> tuple[Minimum, ...]:
    return tuple(Minimum(_count(one.count), _conditions(one.when)) for one in sections)


def _count(section: CountSection) -> Count:
    inner = (section.default, section.atLeast, section.atMost, section.minus, section.times)
    default, at_least, at_most, minus, times = (None if one is None else _count(one) for one in inner)
    path, zero_if = _maybe(section.path), _conditions(section.zeroIf)
    return Count(section.number or 0, path, default, at_least, at_most, minus, times, zero_if)


def _conditions(sections: list[ConditionSection]) -> tuple[Condition, ...]:
    return tuple(
        Condition(shape_path(one.path), tuple(one.is_), tuple(one.isNot), one.exists, one.default) for one in sections
    )


def _statement(section: StatementSection) -> Statement:
    at, each = _maybe(section.at), _maybe(section.each)
    return Statement(section.why, at, _conditions(section.when), each, section.remedy)


def _maybe(path: str | None) -> ShapePath | None:
    return None if path is None else shape_path(path)
