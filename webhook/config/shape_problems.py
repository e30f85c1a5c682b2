"""The mistakes of a WorkloadShape that no single field shows. `shape_forms` has those of several shapes of one kind."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.config.shape_fields import condition_problems, count_problems, path_problems
from webhook.config.shape_section import PartSection, PodSection, ShapeSection, StatementSection
from webhook.errors import Problem
from webhook.model import grove
from webhook.model.kubernetes_kinds import POD
from webhook.model.workloads.facts import VIEWS
from webhook.model.workloads.shapes.path import shape_path
from webhook.model.workloads.shapes.shape import WORKLOAD

# Kinds whose admission is written in Python.
_IN_PYTHON = frozenset({*VIEWS, (grove.GROUP, "PodCliqueSet"), (grove.SCHEDULER_GROUP, "PodGang"), POD})


def shape_problems(section: ShapeSection, path: str) -> Iterator[Problem]:
    """Yield what is wrong with a shape, with paths that begin with `path`."""
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
    yield from path_problems(section.operator.scheduler, f"{path}.operator.scheduler", has_entry=False)
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
