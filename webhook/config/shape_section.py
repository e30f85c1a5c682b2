"""The sections of a WorkloadShape, as they are written in a file or in the configuration.

The format: docs/reference/workload-shapes.md. `shape_fields` has the sections of single values.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from webhook.config.sections import Section
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
    listed,
)

_MANY = 64


def _named(value: object) -> object:
    """Return a block for a fixed name."""
    return {"literal": value} if isinstance(value, str) else value


def _beside(value: object) -> object:
    """Return a block for the path of one object."""
    return {"metadata": value} if isinstance(value, str) else value


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
