"""The sections of a WorkloadShape, as they are written in a file or in the configuration, with its paths, conditions
and counts.

The format: docs/reference/workload-shapes.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from webhook.config.sections import Section
from webhook.errors import Problem
from webhook.model.keys import is_key, is_label, is_subdomain
from webhook.workloads.workload_shape import DEEPEST, MOST, PathError, PodCount, ShapeCondition, ShapePath, shape_path

FEW = 16


def any_path(value: str) -> str:
    """Returns a text that is a path. Raises `ValueError`."""
    try:
        shape_path(value)
    except PathError as error:
        raise ValueError(str(error)) from None
    return value


def _single(value: str) -> str:
    if not shape_path(any_path(value)).is_single:
        raise ValueError("must name one value, so it has no [*]")
    return value


def _entries(value: str) -> str:
    if not any_path(value).endswith("[*]"):
        raise ValueError("must end with [*], which stands for each entry")
    return value


def listed(value: object) -> object:
    """Returns a list for a single entry."""
    return value if isinstance(value, list) or value is None else [value]


def _count_block(value: object) -> object:
    """Returns a block for a number or a path."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"number": value}
    return {"path": value} if isinstance(value, str) else value


def _is(fits: Callable[[str], object], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not fits(value):
            raise ValueError(f"must be {what}")
        return value

    return AfterValidator(check)


_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
# Parts of requests, rights and webhook rules.
Group = Annotated[str, _is(is_subdomain, "an API group, such as example.com")]
CoreGroup = Annotated[str, _is(lambda value: not value or is_subdomain(value), "an API group, or empty for Pods")]
Kind = Annotated[str, _is(_KIND.fullmatch, "a kind, such as Training")]
Plural = Annotated[str, _is(is_label, "a plural, such as trainings")]
Version = Annotated[str, _is(is_label, "a version, such as v1alpha1")]
LabelKey = Annotated[str, _is(is_key, "the key of a label, such as example.com/role")]
NoLabelKey = Annotated[str, _is(lambda value: not value or is_key(value), "the key of a label, or empty")]
Path = Annotated[str, AfterValidator(_single)]
EachPath = Annotated[str, AfterValidator(_entries)]
Scalar = str | int | bool
Name = Annotated[str, Field(min_length=1, max_length=253)]
Sentence = Annotated[str, Field(min_length=1, max_length=300)]


class ConditionSection(Section):
    """What must hold: the value at `path`, or `default`, `is` one of some values, `isNot` any of them, or `exists`."""

    path: Path
    is_: Annotated[list[Scalar], BeforeValidator(listed), Field(alias="is", max_length=FEW)] = Field(
        default_factory=list, alias="is"
    )
    isNot: Annotated[list[Scalar], BeforeValidator(listed), Field(max_length=FEW)] = Field(default_factory=list)
    exists: bool | None = None
    default: Scalar | None = None


Conditions = Annotated[list[ConditionSection], BeforeValidator(listed), Field(max_length=FEW)]


class CountSection(Section):
    """A number of pods: a number, a path, or a path with what is done to its value."""

    number: Annotated[int, Field(ge=0, le=MOST)] | None = None
    path: Path | None = None
    default: Annotated[CountSection, BeforeValidator(_count_block)] | None = None
    atLeast: Annotated[CountSection, BeforeValidator(_count_block)] | None = None
    atMost: Annotated[CountSection, BeforeValidator(_count_block)] | None = None
    minus: Annotated[CountSection, BeforeValidator(_count_block)] | None = None
    times: Annotated[CountSection, BeforeValidator(_count_block)] | None = None
    zeroIf: Conditions = Field(default_factory=list)


Counted = Annotated[CountSection, BeforeValidator(_count_block)]


class MinimumSection(Section):
    """A least number of pods, which holds `when` its conditions do. `elastic`: more pods than the workload asks for now
    may join them later.
    """

    count: Counted
    when: Conditions = Field(default_factory=list)
    elastic: bool = False


def count_problems(count: CountSection, path: str, *, has_entry: bool, depth: int = 0) -> Iterator[Problem]:
    """Yields what is wrong with a count. `has_entry` says whether a path may begin at an entry of `each`."""
    if (count.number is None) is (count.path is None):
        yield Problem(path, None, "must be a number, or have a path")
    if depth == DEEPEST:
        yield Problem(path, None, f"contains counts more than {DEEPEST} deep")
        return
    yield from path_problems(count.path, f"{path}.path", has_entry=has_entry)
    yield from condition_problems(count.zeroIf, f"{path}.zeroIf", has_entry=has_entry)
    for field in ("default", "atLeast", "atMost", "minus", "times"):
        inner = getattr(count, field)
        if inner is not None:
            yield from count_problems(inner, f"{path}.{field}", has_entry=has_entry, depth=depth + 1)


def condition_problems(conditions: list[ConditionSection], path: str, *, has_entry: bool) -> Iterator[Problem]:
    """Yields what is wrong with conditions."""
    for index, condition in enumerate(conditions):
        given = [condition.is_ or None, condition.isNot or None, condition.exists]
        if sum(value is not None for value in given) != 1:
            yield Problem(f"{path}[{index}]", None, "must have exactly one of is, isNot and exists")
        yield from path_problems(condition.path, f"{path}[{index}].path", has_entry=has_entry)


def path_problems(path: str | None, at: str, *, has_entry: bool) -> Iterator[Problem]:
    """Yields why a path cannot begin where it does."""
    if path is not None and path.startswith("@") and not has_entry:
        yield Problem(at, path, "begins with @, but there is no `each` whose entry it could mean")


def count_of(section: CountSection) -> PodCount:
    """Returns the count that a section means."""
    inner = (section.default, section.atLeast, section.atMost, section.minus, section.times)
    default, at_least, at_most, minus, times = (None if count is None else count_of(count) for count in inner)
    path, zero_if = path_or_none(section.path), conditions_of(section.zeroIf)
    return PodCount(section.number or 0, path, default, at_least, at_most, minus, times, zero_if)


def conditions_of(sections: list[ConditionSection]) -> tuple[ShapeCondition, ...]:
    """Returns the conditions that sections mean."""
    return tuple(
        ShapeCondition(
            shape_path(condition.path),
            tuple(condition.is_),
            tuple(condition.isNot),
            condition.exists,
            condition.default,
        )
        for condition in sections
    )


def path_or_none(path: str | None) -> ShapePath | None:
    """Returns the path that a text means, if there is one."""
    return None if path is None else shape_path(path)


_MANY = 64


def _block_of(field: str) -> BeforeValidator:
    """Returns a validator that makes a block with that field of a text."""
    return BeforeValidator(lambda value: {field: value} if isinstance(value, str) else value)


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

    name: Annotated[NameSection, _block_of("literal")] = NameSection()
    each: EachPath | None = None
    when: Conditions = Field(default_factory=list)
    template: Annotated[list[Path], BeforeValidator(listed), Field(max_length=4)] = Field(default_factory=list)
    fields: Annotated[FieldsSection, _block_of("metadata")] | None = None
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


class LeaveSection(StatementSection):
    """A statement about a gang that something else makes, and the system whose scheduler reads that gang."""

    system: Literal["", "KAI", "Koordinator", "Volcano", "scheduler-plugins", "the Workload API", "YuniKorn"] = ""


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
    """The PodGroup that the workload's own operator writes, and the scheduler that it writes on pods."""

    scheduler: Path | None = None
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
    leave: Annotated[list[LeaveSection], Field(max_length=_MANY)] = Field(default_factory=list)
    refuse: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    warn: Annotated[list[StatementSection], Field(max_length=_MANY)] = Field(default_factory=list)
    operator: OperatorSection = OperatorSection()
