"""The section `fit`: what the operator states of the nodes, for whether a gang can ever be placed."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from webhook.config.sections import Section
from webhook.fit.settings import FitSettings, Growth, NodeTemplate
from webhook.model.node import Taint
from webhook.model.quantity import parse_quantity

# What every node has, so that a node group that lacks it is a mistake.
_STATED = ("cpu", "memory")


def _number_as_text(value: object) -> object:
    """Return a quantity that YAML reads as a number as text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _quantity(value: str) -> str:
    amount = parse_quantity(value)
    if amount is None or amount < 0:
        raise ValueError("is not a quantity, such as 8, 1500m or 64Gi")
    return value


Quantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_quantity)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


class TaintSection(Section):
    """A taint of the nodes of a group, as a Node has it."""

    key: Name
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeTemplateSection(Section):
    """A node group that may grow: what each of its nodes has. Without `max` it grows without limit. A label that
    divides the group, such as one of the topology, is left out.
    """

    name: Name
    allocatable: dict[str, Quantity]
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[TaintSection] = Field(default_factory=list)
    max: Annotated[int, Field(ge=0, le=1_000_000)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, raw: object) -> object:
        return {key: value for key, value in raw.items() if value is not None} if isinstance(raw, dict) else raw

    @model_validator(mode="after")
    def _states_what_every_node_has(self) -> Self:
        if missing := [resource for resource in _STATED if resource not in self.allocatable]:
            raise ValueError(f"allocatable must have {' and '.join(missing)}")
        return self


class FitSection(Section):
    """Whether the cluster may get other nodes than it has: `auto` if an autoscaler is seen in it, `fixed` never,
    `mayGrow` always. `templates` are its node groups: with these, gangs are judged by the nodes that may come, too.
    `ignoredResources` and `ignoredResourceGroups` are those of the scheduler's NodeResourcesFitArgs, and those that its
    extenders manage alone.
    """

    nodes: Literal["auto", "fixed", "mayGrow"] = "auto"
    templates: Annotated[list[NodeTemplateSection], Field(max_length=256)] = Field(default_factory=list)
    ignoredResources: list[Name] = Field(default_factory=list)
    ignoredResourceGroups: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_each_group_once(self) -> Self:
        names = [one.name for one in self.templates]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two templates have the name {twice}")
        return self


def fit_settings(section: FitSection) -> FitSettings:
    """Return what the section states."""
    return FitSettings(
        Growth(section.nodes),
        tuple(_template(one) for one in section.templates),
        frozenset(section.ignoredResources),
        frozenset(section.ignoredResourceGroups),
    )


def _template(section: NodeTemplateSection) -> NodeTemplate:
    taints = tuple(Taint(one.key, one.value, one.effect) for one in section.taints)
    return NodeTemplate(section.name, dict(section.allocatable), dict(section.labels), taints, section.max)
