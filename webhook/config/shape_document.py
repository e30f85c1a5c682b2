"""WorkloadShapes as documents, of a file or of the configuration section `workloads`, and how they are read. All
mistakes are reported. Some WorkloadShapes are built in.

Several WorkloadShapes of one kind are forms of it, for versions with other paths. An API server converts an object
between the versions of its kind. So what does not depend on how the object is written must be the same in all forms:
the webhooks, the rights, the gang objects and the pods are those of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from webhook.config import shape_section
from webhook.config.sections import API_VERSION, Section, path_of, read_section
from webhook.errors import Problem
from webhook.model import grove
from webhook.model.keys import Api, is_subdomain
from webhook.model.known_kinds import POD
from webhook.model.projections import Resource
from webhook.workloads import workload_shape
from webhook.workloads.known_workloads import VIEWS

# Kinds whose admission is written in Python.
_IN_PYTHON = frozenset({*VIEWS, (grove.GROUP, "PodCliqueSet"), (grove.SCHEDULER_GROUP, "PodGang"), POD})


def shape_problems(section: shape_section.ShapeSection, path: str) -> Iterator[Problem]:
    """Yields what is wrong with a shape, with paths that begin with `path`."""
    kind = section.for_.group, section.for_.kind
    if kind in _IN_PYTHON:
        yield Problem(f"{path}.for.kind", kind[1], "is not declared, because Rollcall has its own code for it")
    versions = section.for_.versions
    twice = (place for place, version in enumerate(versions) if version in versions[:place])
    yield from (Problem(f"{path}.for.versions[{place}]", versions[place], "is declared twice") for place in twice)
    names = [part.name.literal for part in section.parts if part.name.literal is not None]
    makes_gangs = section.gang.over != "none" and not section.gang.leftTo
    yield from _group_problems(section, path)
    counted = [part for part in section.parts if not part.outside]
    if makes_gangs and not counted:
        yield Problem(f"{path}.parts", None, "must have a part that is not outside, because a gang needs pods")
    for index, part in enumerate(section.parts):
        at = f"{path}.parts[{index}]"
        yield from _part_problems(part, at)
        for place, name in enumerate(part.after):
            if name not in names:
                yield Problem(f"{at}.after[{place}]", name, "is not the name of a part", tuple(names))
            elif part.name.literal is not None and _comes_after(name, part.name.literal, section.parts):
                yield Problem(f"{at}.after[{place}]", name, "waits for this part itself, so neither would ever start")
        if makes_gangs and not part.outside and section.gang.over != "groups":
            yield from _counted_part_problems(part, at, section, alone=len(counted) == 1)
    yield from shape_section.condition_problems(section.suspended, f"{path}.suspended", has_entry=False)
    yield from shape_section.condition_problems(section.elsewhere, f"{path}.elsewhere", has_entry=False)
    yield from shape_section.path_problems(section.operator.minimum, f"{path}.operator.minimum", has_entry=False)
    yield from shape_section.path_problems(section.operator.scheduler, f"{path}.operator.scheduler", has_entry=False)
    yield from shape_section.condition_problems(section.operator.finished, f"{path}.operator.finished", has_entry=False)
    for field, statements in (("leave", section.leave), ("refuse", section.refuse), ("warn", section.warn)):
        for index, statement in enumerate(statements):
            yield from _statement_problems(statement, f"{path}.{field}[{index}]", always=field == "leave")
    for index, carried in enumerate(section.carry):
        yield from shape_section.path_problems(carried.path, f"{path}.carry[{index}].path", has_entry=False)
        yield from shape_section.condition_problems(carried.when, f"{path}.carry[{index}].when", has_entry=False)
    for index, mark in enumerate(section.mark):
        if workload_shape.shape_path(mark).steps[-1:] != ("metadata",):
            yield Problem(f"{path}.mark[{index}]", mark, "must end with metadata, to which the label is added")
        yield from shape_section.path_problems(mark, f"{path}.mark[{index}]", has_entry=False)


def _comes_after(name: str, awaited: str, parts: list[shape_section.PartSection]) -> bool:
    """Returns whether the part with that name waits for another part, directly or through others."""
    after = {part.name.literal: part.after for part in parts}
    seen, waiting = set[str](), [name]
    while waiting:
        part_name = waiting.pop()
        if part_name == awaited:
            return True
        if part_name not in seen:
            seen.add(part_name)
            waiting += after.get(part_name, [])
    return False


def _statement_problems(statement: shape_section.StatementSection, path: str, *, always: bool) -> Iterator[Problem]:
    """Yields what is wrong with a statement, which may be said of all workloads if `always`."""
    if not statement.when and not always:
        yield Problem(f"{path}.when", None, "is required, or it is said of every workload of the kind")
    yield from shape_section.condition_problems(statement.when, f"{path}.when", has_entry=statement.each is not None)
    yield from shape_section.path_problems(statement.each, f"{path}.each", has_entry=False)
    yield from shape_section.path_problems(statement.at, f"{path}.at", has_entry=statement.each is not None)


def _group_problems(section: shape_section.ShapeSection, path: str) -> Iterator[Problem]:
    """Yields what is wrong with a kind that makes a LeaderWorkerSet for each role."""
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
        others = (
            part.outside,
            part.minimum,
            part.lowest,
            part.after,
            part.fields,
            part.pod != shape_section.PodSection(),
            index,
        )
        if part.each is None or part.name.path is None or any(others):
            why = "must be the only part: `each` lists templates of LeaderWorkerSets; with name.path, template and pods"
            yield Problem(f"{path}.parts[{index}]", None, why)


def _part_problems(part: shape_section.PartSection, path: str) -> Iterator[Problem]:
    has_entry = part.each is not None
    given = [value for value in (part.name.literal, part.name.path, part.name.key) if value is not None]
    if len(given) > 1:
        yield Problem(f"{path}.name", None, "must be one of literal, path and key")
    if part.name.key is not None and not has_entry:
        yield Problem(f"{path}.name.key", part.name.key, "needs `each`, whose keys are meant")
    if bool(part.template) is (part.fields is not None):
        yield Problem(f"{path}.template", None, "is required; or `fields`, for an object with the fields of a template")
    yield from shape_section.path_problems(part.each, f"{path}.each", has_entry=False)
    yield from shape_section.path_problems(part.name.path, f"{path}.name.path", has_entry=has_entry)
    if part.fields is not None:
        yield from shape_section.path_problems(part.fields.metadata, f"{path}.fields.metadata", has_entry=has_entry)
        yield from shape_section.path_problems(part.fields.spec, f"{path}.fields.spec", has_entry=has_entry)
    for place, template in enumerate(part.template):
        yield from shape_section.path_problems(template, f"{path}.template[{place}]", has_entry=has_entry)
    yield from shape_section.condition_problems(part.when, f"{path}.when", has_entry=has_entry)
    yield from shape_section.count_problems(part.pods, f"{path}.pods", has_entry=has_entry)
    for key, least in (("minimum", part.minimum), ("lowest", part.lowest)):
        for place, minimum in enumerate(least):
            yield from shape_section.count_problems(minimum.count, f"{path}.{key}[{place}].count", has_entry=has_entry)
            yield from shape_section.condition_problems(
                minimum.when, f"{path}.{key}[{place}].when", has_entry=has_entry
            )


def _counted_part_problems(
    part: shape_section.PartSection, path: str, section: shape_section.ShapeSection, *, alone: bool
) -> Iterator[Problem]:
    """Yields what is wrong with a part whose pods are in a gang."""
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
        if link.name.count(workload_shape.WORKLOAD) != 1:
            yield Problem(f"{path}.pod.chain[{place}].name", link.name, f"must contain {workload_shape.WORKLOAD} once")


# By field: its value, as it is written, and why it does not depend on the version.
_SAME: dict[str, tuple[Callable[[workload_shape.WorkloadShape], str], str]] = {
    "for.plural": (lambda shape: shape.resource.plural, "a kind has one plural"),
    "optIn": (
        lambda shape: "namespace" if shape.by_namespace else "workload",
        "a workload is opted in before its version is known",
    ),
    "podLabel": (lambda shape: shape.name_label, "pods do not show in which version their workload was written"),
    "gang.over": (lambda shape: shape.over, "the reconciler reads all workloads of the kind in one version"),
    "gang.roleLabel": (lambda shape: shape.role_label, "pods do not show in which version their workload was written"),
    "gang.leftTo": (lambda shape: shape.left_to, "the reconciler reads all workloads of the kind in one version"),
}


def form_problems(shapes: Sequence[workload_shape.WorkloadShape]) -> Iterator[tuple[int, Problem]]:
    """Yields why shapes do not go together, each with the index of the shape that it is about."""
    first: dict[tuple[str, str], workload_shape.WorkloadShape] = {}
    taken: dict[tuple[str, ...], int] = {}
    for index, shape in enumerate(shapes):
        for place, version in enumerate(shape.versions):
            other = taken.setdefault((*shape.group_kind, version), index)
            if other != index:
                why = f"is declared twice, by {shapes[other].name} and {shape.name}"
                yield index, Problem(f"spec.for.versions[{place}]", version, why)
        main = first.setdefault(shape.group_kind, shape)
        if main is not shape:
            yield from ((index, problem) for problem in _disagreements(shape, main))


def _disagreements(shape: workload_shape.WorkloadShape, main: workload_shape.WorkloadShape) -> Iterator[Problem]:
    for field, (value, because) in _SAME.items():
        stated, expected = value(shape), value(main)
        if stated != expected:
            why = f"must be {expected or 'empty'} as in {main.name}, which is for the same kind: {because}"
            yield Problem(f"spec.{field}", stated, why)
    if not (main.has_gangs and shape.has_gangs):
        return
    identities = {_pod_identity(part) for part in main.parts if not part.outside}
    for index, part in enumerate(shape.parts):
        if not part.outside and _pod_identity(part) not in identities:
            why = f"is that of no part of {main.name}, which is for the same kind: {_SAME['podLabel'][1]}"
            yield Problem(f"spec.parts[{index}].pod", None, why)


def _pod_identity(part: workload_shape.PartShape) -> tuple[object, ...]:
    """Returns how the pods of a part are known, and the name of the part where no label has it."""
    return part.pod, None if part.pod.name_label else part.name.literal


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


def read_shape(document: object, path: str, problems: list[Problem]) -> workload_shape.WorkloadShape | None:
    """Returns the shape that a document declares. Its mistakes go to `problems`, with paths that begin with `path`;
    without any the result is not None.
    """
    before = len(problems)
    outer = read_section(_Document, document, path, problems)
    if outer is None:
        return None
    place = path_of(("spec",), path)
    section = read_section(shape_section.ShapeSection, outer.spec, place, problems)
    if section is None or len(problems) > before:
        return None
    problems.extend(shape_problems(section, place))
    return None if len(problems) > before else _shape(outer.metadata.name, section)


def _shape(name: str, section: shape_section.ShapeSection) -> workload_shape.WorkloadShape:
    kind = section.for_
    return workload_shape.WorkloadShape(
        name,
        Resource(Api(kind.group, kind.versions[0], kind.kind), kind.plural),
        tuple(kind.versions),
        tuple(_part(part) for part in section.parts),
        workload_shape.Over(section.gang.over),
        section.gang.leftTo,
        section.optIn == "namespace",
        tuple(workload_shape.shape_path(mark) for mark in section.mark),
        section.podLabel,
        section.gang.roleLabel,
        shape_section.conditions_of(section.suspended),
        shape_section.conditions_of(section.elsewhere),
        tuple(_statement(statement)._replace(system=statement.system) for statement in section.leave),
        tuple(_statement(statement) for statement in section.refuse),
        tuple(_statement(statement) for statement in section.warn),
        section.source,
        workload_shape.OperatorGroups(
            shape_section.path_or_none(section.operator.scheduler),
            shape_section.path_or_none(section.operator.minimum),
            shape_section.conditions_of(section.operator.finished),
        ),
        tuple(
            workload_shape.Carried(
                carried.key,
                workload_shape.shape_path(carried.path),
                carried.default,
                shape_section.conditions_of(carried.when),
            )
            for carried in section.carry
        ),
    )


def _part(section: shape_section.PartSection) -> workload_shape.PartShape:
    name, fields = section.name, section.fields
    paths = [fields.metadata] if fields is not None else section.template
    chain = tuple(
        workload_shape.ChainLink(
            Resource(Api(link.group, link.version, link.kind), link.plural), link.name, link.selector
        )
        for link in section.pod.chain
    )
    return workload_shape.PartShape(
        workload_shape.PartName(
            name.literal or "", shape_section.path_or_none(name.path), name.key is not None, name.key == "lower"
        ),
        tuple(workload_shape.shape_path(path) for path in paths),
        shape_section.count_of(section.pods),
        shape_section.path_or_none(section.each),
        shape_section.conditions_of(section.when),
        fields is not None,
        _minimums(section.minimum),
        workload_shape.PodShape(chain, tuple(section.pod.labels.items()), section.pod.nameLabel),
        section.outside,
        tuple(section.after),
        workload_shape.Until(section.until),
        _minimums(section.lowest),
        None if fields is None else shape_section.path_or_none(fields.spec),
    )


def _minimums(sections: list[shape_section.MinimumSection]) -> tuple[workload_shape.Minimum, ...]:
    return tuple(
        workload_shape.Minimum(
            shape_section.count_of(minimum.count), shape_section.conditions_of(minimum.when), minimum.elastic
        )
        for minimum in sections
    )


def _statement(section: shape_section.StatementSection) -> workload_shape.Statement:
    at, each = shape_section.path_or_none(section.at), shape_section.path_or_none(section.each)
    return workload_shape.Statement(section.why, at, shape_section.conditions_of(section.when), each, section.remedy)
