"""A WorkloadShape as a document, of a file or of the configuration, and how it is read. All mistakes are reported."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from webhook.config.sections import API_VERSION, Section, path_of, read_section
from webhook.config.shape_fields import MinimumSection, conditions_of, count_of, path_or_none
from webhook.config.shape_problems import shape_problems
from webhook.config.shape_section import PartSection, ShapeSection, StatementSection
from webhook.errors import Problem
from webhook.model.keys import Api
from webhook.model.naming import is_subdomain
from webhook.model.projections import Resource
from webhook.model.workloads.shapes.count import Minimum
from webhook.model.workloads.shapes.path import shape_path
from webhook.model.workloads.shapes.shape import (
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


def _object_name(value: str) -> str:
    if not is_subdomain(value):
        raise ValueError("must be the name of an object: lower-case letters, digits, - and ., at most 253 characters")
    return value


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
    problems.extend(shape_problems(section, place))
    return None if len(problems) > before else _shape(outer.metadata.name, section)


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
        tuple(_statement(one)._replace(system=one.system) for one in section.leave),
        tuple(_statement(one) for one in section.refuse),
        tuple(_statement(one) for one in section.warn),
        section.source,
        OperatorGroups(
            path_or_none(section.operator.scheduler),
            path_or_none(section.operator.minimum),
            conditions_of(section.operator.finished),
        ),
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
