"""A WorkloadShape as it is written, in a file or in the configuration, and how it is read.

The format: docs/reference/workload-shapes.md. All mistakes are reported, each with its path. `shape_fields` has the
sections of single values, `shape_forms` what several shapes of one kind must agree on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from webhook.config.sections import API_VERSION, Section, path_of, read_section
from webhook.config.shape_fields import (
    FEW,
    Conditions,
    CoreGroup,
    Counted,
    EachPath,
    Group,
    Kind,
    LabelKey,
    MinimumSection,
    Name,
    NoLabelKey,
    Path,
    Plural,
    Sentence,
    Version,
    any_path,
    condition_problems,
    conditions_of,
    count_of,
    count_problems,
    listed,
    path_or_none,
    path_problems,
)
from webhook.errors import Problem
from webhook.model import grove
from webhook.model.keys import Api
from webhook.model.kubernetes_kinds import POD
from webhook.model.naming import is_subdomain
from webhook.model.projections import Resource
from webhook.model.workloads.facts import VIEWS
from webhook.model.workloads.shapes.count import Minimum
from webhook.model.workloads.shapes.path import shape_path
from webhook.model.workloads.shapes.shape import (
    WORKLOAD,
    Carried,
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
_MANY = 64


def _named(value: object) -> object:
    """Return a block for a fixed name."""
    return {"literal": value} if isinstance(value, str) else value


def _beside(value: object) -> object:
    """Return a block for the path of one object."""
    return {"metadata": value} if isinstance(value, str) else value


def _object_name(value: str) -> str:
    if not is_subdomain(value):
        raise ValueError("must be the name of an object: lower-case letters, digits, - and ., at most 253 characters")
    return value


Minimums = Annotated[list[MinimumSection], BeforeValidator(listed), Field(max_length=FEW)]


class NameSection(Section):
    """The name of a part: fixed, at a path, or the key of its entry, in lower case or the same."""

    literal: Name | None = None
    path: Path | None = None
    key: Literal["lower", "same"] | None = None


class LinkSection(Section):
    """An object between a pod and its workload."""

    group: CoreGroup
    version: Version
    kind: Kind
    plural: Plural
    name: Name
    selector: NoLabelKey = ""


class PodSection(Section):
    """How the pods of a part are known."""

    chain: Annotated[list[LinkSection], Field(max_length=3)] = Field(default_factory=list)
    labels: Annotated[dict[LabelKey, str], Field(max_length=FEW)] = Field(default_factory=dict)
    nameLabel: NoLabelKey = ""


class FieldsSection(Section):
    """Where labels and annotations are, and where fields of the pod's spec are, if not beside them."""

    metadata: Path
    spec: Path | None = None


class PartSection(Section):
    """The pods of one template, or of one for each entry."""

    name: Annotated[NameSection, BeforeValidator(_named)] = NameSection()
    each: EachPath | None = None
    when: Conditions = Field(default_factory=list)
    template: Annotated[list[Path], BeforeValidator(listed), Field(max_length=4)] = Field(default_factory=list)
    fields: Annotated[FieldsSection, BeforeValidator(_beside)] | None = None
    pods: Counted
    minimum: Minimums = Field(default_factory=list)
    lowest: Minimums = Field(default_factory=list)
    pod: PodSection = PodSection()
    outside: bool = False
    after: Annotated[list[Name], Field(max_length=FEW)] = Field(default_factory=list)
    until: Literal["created", "running", "ready", "complete"] = "created"


class GangSection(Section):
    """Which pods are a gang, or which object of the controller has the gangs. With `groups`, `roleLabel` is the label
    of the pods with the role.
    """

    over: Literal["all", "part", "groups", "none"] = "all"
    leftTo: str = ""
    roleLabel: NoLabelKey = ""


class StatementSection(Section):
    """What is true of a workload `when` conditions hold, at which field, and why."""

    when: Conditions = Field(default_factory=list)
    each: EachPath | None = None
    at: Path | None = None
    why: Sentence
    remedy: Annotated[str, Field(max_length=300)] = ""


class CarrySection(Section):
    """What the workload's operator writes under a key, as a label or an annotation, on the objects that it makes."""

    key: Name
    path: Path
    default: str = ""
    when: Conditions = Field(default_factory=list)


class ForSection(Section):
    """The kind that the shape is for, and its versions with these paths; the first is read."""

    group: Group
    kind: Kind
    plural: Plural
    versions: Annotated[list[Version], Field(min_length=1, max_length=8)]


class OperatorSection(Section):
    """The PodGroup that the workload's own operator writes."""

    minimum: Path | None = None
    finished: Conditions = Field(default_factory=list)


class ShapeSection(Section):
    """The `spec` of a WorkloadShape."""

    for_: ForSection = Field(alias="for")
    source: str = ""
    optIn: Literal["namespace", "workload"] = "namespace"
    podLabel: NoLabelKey = ""
    suspended: Conditions = Field(default_factory=list)
    elsewhere: Conditions = Field(default_factory=list)
    parts: Annotated[list[PartSection], Field(max_length=_MANY)] = Field(default_factory=list)
    gang: GangSection = GangSection()
    mark: Annotated[list[Annotated[str, AfterValidator(any_path)]], Field(max_length=FEW)] = Field(default_factory=list)
    carry: Annotated[list[CarrySection], Field(max_length=FEW)] = Field(default_factory=list)
    leave: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    refuse: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    warn: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    operator: OperatorSection = OperatorSection()


class _Metadata(Section):
    """The name of a WorkloadShape."""

    name: Annotated[str, AfterValidator(_object_name)]


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
    versions = section.for_.versions
    twice = (place for place, version in enumerate(versions) if version in versions[:place])
    yield from (Problem(f"{path}.for.versions[{place}]", versions[place], "is declared twice") for place in twice)
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
            elif part.name.literal is not None and _comes_after(name, part.name.literal, section.parts):
                yield Problem(f"{at}.after[{place}]", name, "waits for this part itself, so neither would ever start")
        if makes_gangs and not part.outside and section.gang.over != "groups":
            yield from _of_counted(part, at, section, alone=len(counted) == 1)
    yield from condition_problems(section.suspended, f"{path}.suspended", has_entry=False)
    yield from condition_problems(section.elsewhere, f"{path}.elsewhere", has_entry=False)
    yield from path_problems(section.operator.minimum, f"{path}.operator.minimum", has_entry=False)
    yield from condition_problems(section.operator.finished, f"{path}.operator.finished", has_entry=False)
    for field, statements in (("leave", section.leave), ("refuse", section.refuse), ("warn", section.warn)):
        for index, one in enumerate(statements):
            yield from _of_statement(one, f"{path}.{field}[{index}]", always=field == "leave")
    for index, carried in enumerate(section.carry):
        yield from path_problems(carried.path, f"{path}.carry[{index}].path", has_entry=False)
        yield from condition_problems(carried.when, f"{path}.carry[{index}].when", has_entry=False)
    for index, mark in enumerate(section.mark):
        if shape_path(mark).steps[-1:] != ("metadata",):
            yield Problem(f"{path}.mark[{index}]", mark, "must end with metadata, to which the label is added")
        yield from path_problems(mark, f"{path}.mark[{index}]", has_entry=False)


def _comes_after(name: str, awaited: str, parts: list[PartSection]) -> bool:
    """Return whether the part with that name waits for another part, directly or through others."""
    after = {part.name.literal: part.after for part in parts}
    seen, waiting = set[str](), [name]
    while waiting:
        one = waiting.pop()
        if one == awaited:
            return True
        if one not in seen:
            seen.add(one)
            waiting += after.get(one, [])
    return False


def _of_statement(said: StatementSection, path: str, *, always: bool) -> Iterator[Problem]:
    """Yield what is wrong with a statement, which may be said of all workloads if `always`."""
    if not said.when and not always:
        yield Problem(f"{path}.when", None, "is required, or it is said of every workload of the kind")
    yield from condition_problems(said.when, f"{path}.when", has_entry=said.each is not None)
    yield from path_problems(said.each, f"{path}.each", has_entry=False)
    yield from path_problems(said.at, f"{path}.at", has_entry=said.each is not None)


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
        others = (part.outside, part.minimum, part.lowest, part.after, part.fields, part.pod != PodSection(), index)
        if part.each is None or part.name.path is None or any(others):
            why = "must be the only part: `each` lists templates of LeaderWorkerSets; with name.path, template and pods"
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
    yield from path_problems(part.each, f"{path}.each", has_entry=False)
    yield from path_problems(part.name.path, f"{path}.name.path", has_entry=has_entry)
    if part.fields is not None:
        yield from path_problems(part.fields.metadata, f"{path}.fields.metadata", has_entry=has_entry)
        yield from path_problems(part.fields.spec, f"{path}.fields.spec", has_entry=has_entry)
    for place, template in enumerate(part.template):
        yield from path_problems(template, f"{path}.template[{place}]", has_entry=has_entry)
    yield from condition_problems(part.when, f"{path}.when", has_entry=has_entry)
    yield from count_problems(part.pods, f"{path}.pods", has_entry=has_entry)
    for key, least in (("minimum", part.minimum), ("lowest", part.lowest)):
        for place, one in enumerate(least):
            yield from count_problems(one.count, f"{path}.{key}[{place}].count", has_entry=has_entry)
            yield from condition_problems(one.when, f"{path}.{key}[{place}].when", has_entry=has_entry)


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
        conditions_of(section.suspended),
        conditions_of(section.elsewhere),
        tuple(_statement(one) for one in section.leave),
        tuple(_statement(one) for one in section.refuse),
        tuple(_statement(one) for one in section.warn),
        section.source,
        OperatorGroups(path_or_none(section.operator.minimum), conditions_of(section.operator.finished)),
        tuple(Carried(one.key, shape_path(one.path), one.default, conditions_of(one.when)) for one in section.carry),
    )


def _part(section: PartSection) -> PartShape:
    name, fields = section.name, section.fields
    paths = [fields.metadata] if fields is not None else section.template
    chain = tuple(
        ChainLink(Resource(Api(one.group, one.version, one.kind), one.plural), one.name, one.selector)
        for one in section.pod.chain
    )
    return PartShape(
        PartName(name.literal or "", path_or_none(name.path), name.key is not None, name.key == "lower"),
        tuple(shape_path(path) for path in paths),
        count_of(section.pods),
        path_or_none(section.each),
        conditions_of(section.when),
        fields is not None,
        _minimums(section.minimum),
        PodShape(chain, tuple(section.pod.labels.items()), section.pod.nameLabel),
        section.outside,
        tuple(section.after),
        Until(section.until),
        _minimums(section.lowest),
        None if fields is None else path_or_none(fields.spec),
    )


def _minimums(sections: list[MinimumSection]) -> tuple[Minimum, ...]:
    return tuple(Minimum(count_of(one.count), conditions_of(one.when), one.elastic) for one in sections)


def _statement(section: StatementSection) -> Statement:
    at, each = path_or_none(section.at), path_or_none(section.each)
    return Statement(section.why, at, conditions_of(section.when), each, section.remedy)
