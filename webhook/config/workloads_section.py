"""The section `workloads`: which kinds of opted-in workloads are declared. Some WorkloadShapes are built in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from webhook.config.defaults import built_in_kinds, built_in_shapes
from webhook.config.sections import Section, path_of, read_section
from webhook.config.shape_document import read_shape
from webhook.config.shape_forms import form_problems
from webhook.errors import Problem
from webhook.model.near_names import meant
from webhook.model.workloads.shapes.kinds import WorkloadKinds

MOST_SHAPES = 64


class WorkloadsSection(Section):
    """The kinds of workloads. `disabled` are names of built-in shapes whose kinds are not used. `shapes` are
    WorkloadShapes; those of the kind of a built-in shape replace all built-in shapes of that kind.
    """

    disabled: list[str] = Field(default_factory=list)
    shapes: Annotated[list[Any], Field(max_length=MOST_SHAPES)] = Field(default_factory=list)


def workload_kinds(raw: object, problems: list[Problem], documents: Iterable[object] = ()) -> WorkloadKinds:
    """Return the kinds that a section asks for, with the shapes in `documents` beside the configuration. Mistakes go to
    `problems`.
    """
    section = read_section(WorkloadsSection, raw, "workloads", problems) or WorkloadsSection()
    known = built_in_shapes()
    for index, name in enumerate(section.disabled):
        if name not in known:
            why = f"is not a built-in shape{meant(name, known)}"
            problems.append(Problem(path_of(("disabled", index), "workloads"), name, why, tuple(known)))
    written = [(path_of(("shapes", index), "workloads"), one) for index, one in enumerate(section.shapes)]
    written += [(f"documents[{index}]", one) for index, one in enumerate(documents)]
    read = [(path, shape) for path, one in written if (shape := read_shape(one, path, problems)) is not None]
    shapes = [shape for _, shape in read]
    problems += (replace(one, path=f"{read[index][0]}.{one.path}") for index, one in form_problems(shapes))
    if not (shapes or section.disabled):
        return built_in_kinds()
    disabled = {shape.group_kind for name, shape in known.items() if name in section.disabled}
    return WorkloadKinds(tuple(one for one in known.values() if one.group_kind not in disabled)).with_declared(shapes)
