"""The sections of the configuration file, and how a section is read: every mistake is reported with its path, the
value and the allowed values.

Large sections have files of their own. The section `fit` has what the operator states of the nodes, for whether a gang
can ever be placed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from webhook.errors import Problem
from webhook.fit.packing import FitSettings, Growth, NodeTemplate
from webhook.model.admission_request import GROVE_OPERATORS, USER_PATTERN
from webhook.model.fields import meant
from webhook.model.keys import NAMESPACE_PATTERN
from webhook.model.nodes import Taint
from webhook.model.quantity import parse_quantity

API_VERSION = "rollcall.dev/v1alpha1"
KIND = "RollcallConfiguration"


# The chart's schema uses this pattern too, so it is complete: a host, and a valid port.
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ENDPOINT = rf"^(https?://([^\s/?#@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s\[\]/?#@:]+)(:{_PORT})?([/?#]\S*)?)?$"
# A duration as Go writes it, in the units that make sense for a timeout.
DURATION_PATTERN = r"^(0|([0-9]{1,9}(\.[0-9]{1,9})?(h|m|s|ms)){1,4})$"
# A file in the same folder, whose name can be a part of the name of an audit annotation.
FILE_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,54}[A-Za-z0-9])?$"
_OF_PATTERN = {
    FILE_PATTERN: "is not the name of a file beside this one: at most 56 letters, digits, and - _ . between them",
    NAMESPACE_PATTERN: "is not the name of a namespace",
    _ENDPOINT: "is not an http:// or https:// URL, such as http://collector.monitoring.svc:4318",
    DURATION_PATTERN: "is not a duration, such as 30m or 1h30m",
    USER_PATTERN: "is not the name of a user, such as system:serviceaccount:NAMESPACE:NAME",
}

User = Annotated[str, Field(pattern=USER_PATTERN)]
# Each name is part of an expression that the API server evaluates for every gang object.
Users = Annotated[list[User], Field(max_length=64)]


def _off(value: object) -> object:
    # YAML 1.1 reads a plain `off` as false, and tools that rewrite files write it like that.
    return "off" if value is False else value


def read_switch(value: object) -> object:
    """Returns `on` and `off` for the values that YAML 1.1 reads them as."""
    return "on" if value is True else _off(value)


Mode = Annotated[Literal["deny", "warn", "audit", "off"], BeforeValidator(_off)]


class Section(BaseModel):
    """A part of the file: an unknown key or a value of another type is refused."""

    # Built when first read: a process without a configuration file reads none.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class InnerSection(Section):
    """A block within a section. A key without a value counts as missing."""

    @model_validator(mode="before")
    @classmethod
    def _drop_null(cls, raw: object) -> object:
        return {key: value for key, value in raw.items() if value is not None} if isinstance(raw, dict) else raw


class EnforcementSection(Section):
    """`mode` is the strictest action that any rule may take; `rules` sets single rules by id."""

    mode: Mode | None = None
    rules: dict[str, Mode] = Field(default_factory=dict)


class ProfileSection(Section):
    """One enabled scheduler. `config` has the keys of the backend; the other keys are the same for all profiles.
    Without `gate` its pods are gated if the scheduler needs that.
    """

    name: str
    config: dict[str, Any] | None = None
    gate: bool | None = None
    schedulerVersion: str | None = None
    # The users of the scheduler's own controllers, instead of the backend's.
    controllers: Users | None = None
    enforcement: dict[str, Any] = Field(default_factory=dict)


class SchedulerSection(Section):
    """The enabled schedulers and the default one; `default-scheduler` is always among them. With `optOut` a workload
    may say that it is no gang, by the label rollcall.dev/scheduler: none.
    """

    profiles: list[Any] = Field(default_factory=list)
    defaultProfileName: str = ""
    optOut: bool = False


class NamespaceSection(Section):
    """The defaults for a namespace without the labels rollcall.dev/scheduler and rollcall.dev/enforcement, and whether
    its workloads may opt out, instead of the scheduler section's `optOut`.
    """

    scheduler: str | None = None
    enforcement: Mode | None = None
    optOut: bool | None = None


class RegistrationSection(Section):
    """What `rollcall manifests webhooks` writes: what happens if the webhook does not answer, and which namespaces are
    left out.
    """

    failurePolicy: Literal["Fail", "Ignore"] = "Fail"
    # The API server accepts 1 to 30.
    timeoutSeconds: Annotated[int, Field(ge=1, le=30)] = 5
    excludedNamespaces: list[Annotated[str, Field(pattern=NAMESPACE_PATTERN)]] = Field(default_factory=list)
    # The action of the ValidatingAdmissionPolicy for a gang's pod that bypassed the webhook.
    net: Annotated[Literal["off", "Audit", "Warn", "Deny"], BeforeValidator(_off)] = "off"


class ServingSection(Section):
    """The server's limits: how many calls may read live at the same time, how many connections it keeps and for how
    long, how much of its memory request bodies may use, and how long it drains.
    """

    maxInFlight: Annotated[int, Field(ge=1, le=100_000)] = 256
    maxConnections: Annotated[int, Field(ge=16, le=65_536)] = 512
    bodyMemoryPercent: Annotated[int, Field(ge=5, le=80)] = 25
    connectionSeconds: Annotated[int, Field(ge=0, le=86_400)] = 600
    drainSeconds: Annotated[int, Field(ge=0, le=600)] = 15
    # Whether POST /check and /capabilities are answered; unset: only without a cluster.
    check: Annotated[Literal["on", "off"], BeforeValidator(read_switch)] | None = None


class CertificatesSection(Section):
    """The source of the serving certificate: `files` that another system provides, or the reconciler (`selfManaged`).
    For the reconciler: how long each certificate is valid, when it is renewed, and how long the old and the new CA
    overlap.
    """

    mode: Literal["files", "selfManaged"] = "files"
    caValidityDays: Annotated[int, Field(ge=1, le=3650)] = 365
    leafValidityDays: Annotated[int, Field(ge=1, le=825)] = 30
    renewAtPercent: Annotated[int, Field(ge=1, le=95)] = 67
    overlapSeconds: Annotated[int, Field(ge=0, le=86_400)] = 600


class TracingSection(Section):
    """Where OpenTelemetry traces go (OTLP over HTTP), and the share of traces that is sampled if the caller has not
    decided.
    """

    endpoint: Annotated[str, Field(pattern=_ENDPOINT)] = ""
    sampleRatio: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.1


class TenancySection(Section):
    """Which users are trusted, by the names that the API server gives them. Without `reconcilers` Rollcall's own
    service accounts are.
    """

    reconcilers: Users = Field(default_factory=list)
    exemptUsers: Users = Field(default_factory=list)
    groveOperators: Users = Field(default_factory=lambda: list(GROVE_OPERATORS))


class GroveSection(Section):
    """The generation of Grove whose PodGangs `rollcall render` and `rollcall explain` show. In a cluster it is found
    out, and this is not read.
    """

    generation: Literal["auto", "podgangmap", "legacy"] = "auto"


class EscapesSection(Section):
    """What the reconciler does about pods that lack what their gang needs: it deletes those of the named kinds while
    they are on no node, and Grove recreates them.
    """

    delete: list[Literal["unmutated", "stale", "foreign"]] = Field(default_factory=list)


class RollcallConfiguration(Section):
    """The whole file. Sections are validated one by one, so that a mistake in one does not hide those in another."""

    apiVersion: Literal["rollcall.dev/v1alpha1"]
    kind: Literal["RollcallConfiguration"]
    scheduler: dict[str, Any] = Field(default_factory=dict)
    enforcement: dict[str, Any] = Field(default_factory=dict)
    namespaces: dict[str, Any] = Field(default_factory=dict)
    registration: dict[str, Any] = Field(default_factory=dict)
    escapes: dict[str, Any] = Field(default_factory=dict)
    audit: dict[str, Any] = Field(default_factory=dict)
    serving: dict[str, Any] = Field(default_factory=dict)
    certificates: dict[str, Any] = Field(default_factory=dict)
    tracing: dict[str, Any] = Field(default_factory=dict)
    tenancy: dict[str, Any] = Field(default_factory=dict)
    grove: dict[str, Any] = Field(default_factory=dict)
    kueue: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    remedies: dict[str, Any] = Field(default_factory=dict)
    workloads: dict[str, Any] = Field(default_factory=dict)
    exceptions: list[Any] = Field(default_factory=list)
    shadow: list[Any] = Field(default_factory=list)


M = TypeVar("M", bound=BaseModel)


def read_section(model: type[M], raw: object, path: str, problems: list[Problem]) -> M | None:
    """Returns one section of the file. Its mistakes go to `problems`, and its valid parts are kept, so that they can be
    judged further. None if nothing is valid. A key without a value counts as missing, as everywhere in
    Kubernetes.
    """
    if raw is None:
        raw = {}
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if value is not None}
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems.extend(_translate(error, model, path))
        if not isinstance(raw, dict):
            return None
        wrong = {str(mistake["loc"][0]) for mistake in error.errors() if mistake["loc"]}
    try:
        return model.model_validate({key: value for key, value in raw.items() if key not in wrong})
    except ValidationError:
        return None


def _translate(error: ValidationError, model: type[BaseModel], prefix: str) -> Iterator[Problem]:
    """Yields pydantic's errors as problems: our words, the field's path, and the allowed values."""
    for mistake in error.errors(include_url=False):
        place, kind = path_of(mistake["loc"], prefix), mistake["type"]
        if kind == "extra_forbidden":
            keys = tuple(_fields_of(_model_at(model, mistake["loc"][:-1])))
            yield Problem(place, mistake["input"], f"is an unknown key{meant(str(mistake['loc'][-1]), keys)}", keys)
        elif kind == "missing":
            field = _fields_of(_model_at(model, mistake["loc"][:-1]))[str(mistake["loc"][-1])]
            allowed = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            yield Problem(place, None, "is required", allowed)
        elif kind == "literal_error":
            allowed = tuple(re.findall(r"'([^']*)'", mistake["ctx"]["expected"])) or (mistake["ctx"]["expected"],)
            yield Problem(place, mistake["input"], f"is not allowed{meant(str(mistake['input']), allowed)}", allowed)
        elif kind == "string_type":
            yield Problem(place, mistake["input"], "must be a string; quote it")
        elif kind == "string_pattern_mismatch":
            yield Problem(place, mistake["input"], _OF_PATTERN[mistake["ctx"]["pattern"]])
        elif kind == "value_error":
            yield Problem(place, mistake["input"], str(mistake["ctx"]["error"]))
        elif kind in {"model_type", "dict_type"}:
            yield Problem(place, mistake["input"], "must be a mapping")
        elif kind in {"bool_type", "bool_parsing"}:
            yield Problem(place, mistake["input"], "is not allowed", ("false", "true"))
        elif kind == "too_short":
            yield Problem(place, mistake["input"], "must not be empty")
        elif kind in {"list_type", "tuple_type", "frozen_set_type"}:
            yield Problem(place, mistake["input"], "must be a list")
        else:
            yield Problem(place, mistake["input"], mistake["msg"][:1].lower() + mistake["msg"][1:])


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """Returns the model of the block at a place in a section."""
    for key in loc:
        if isinstance(key, str) and (field := _fields_of(model).get(key)) is not None:
            model = next(_models_in(field.annotation), model)
    return model


def _fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Returns the fields of a section by their keys: `for` and `is` cannot be names in Python."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models in the type of a field, such as an optional block or a list of blocks."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def path_of(loc: tuple[int | str, ...], prefix: str) -> str:
    """Returns the path of a key in the file."""
    path = prefix
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", part):
            path += f".{part}" if path else part
        else:
            path += f"[{part}]"
    return path


# What every node has, so that a node group that lacks it is a mistake.
_STATED = ("cpu", "memory")


def _number_as_text(value: object) -> object:
    """Returns a quantity that YAML reads as a number as text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _quantity(value: str) -> str:
    amount = parse_quantity(value)
    if amount is None or amount < 0:
        raise ValueError("is not a quantity, such as 8, 1500m or 64Gi")
    return value


Quantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_quantity)]
Filter = Literal[
    "InterPodAffinity", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread", "TaintToleration"
]
Name = Annotated[str, Field(min_length=1, max_length=253)]


class TaintSection(Section):
    """A taint of the nodes of a group, as a Node has it."""

    key: Name
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeTemplateSection(InnerSection):
    """A node group that may grow: what each of its nodes has. Without `max` it grows without limit. A label that
    divides the group, such as one of the topology, is left out.
    """

    name: Name
    allocatable: dict[str, Quantity]
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[TaintSection] = Field(default_factory=list)
    max: Annotated[int, Field(ge=0, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _states_what_every_node_has(self) -> Self:
        if missing := [resource for resource in _STATED if resource not in self.allocatable]:
            raise ValueError(f"allocatable must have {' and '.join(missing)}")
        return self


class FitSection(Section):
    """Whether the cluster may get other nodes than it has: `auto` if an autoscaler is seen in it, `fixed` never,
    `mayGrow` always. `templates` are its node groups: with these, gangs are judged by the nodes that may come, too.
    `ignoredResources` and `ignoredResourceGroups` are those of the scheduler's NodeResourcesFitArgs, and those that its
    extenders manage alone. `disabledFilters` are the filter plugins that the scheduler's profile disables.
    """

    nodes: Literal["auto", "fixed", "mayGrow"] = "auto"
    templates: Annotated[list[NodeTemplateSection], Field(max_length=256)] = Field(default_factory=list)
    ignoredResources: list[Name] = Field(default_factory=list)
    ignoredResourceGroups: list[Name] = Field(default_factory=list)
    disabledFilters: list[Filter] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_each_group_once(self) -> Self:
        names = [template.name for template in self.templates]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two templates have the name {twice}")
        return self


def fit_settings(section: FitSection) -> FitSettings:
    """Returns what the section states."""
    return FitSettings(
        Growth(section.nodes),
        tuple(_template(template) for template in section.templates),
        frozenset(section.ignoredResources),
        frozenset(section.ignoredResourceGroups),
        frozenset(section.disabledFilters),
    )


def _template(section: NodeTemplateSection) -> NodeTemplate:
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in section.taints)
    return NodeTemplate(section.name, dict(section.allocatable), dict(section.labels), taints, section.max)
