"""What several WorkloadShapes of one kind must agree on. Each is a form of the kind, for versions with other paths.

An API server converts an object between the versions of its kind. So what does not depend on how the object is written
must be the same in all forms: the webhooks, the rights, the gang objects and the pods are those of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from webhook.errors import Problem
from webhook.model.workloads.shapes.shape import PartShape, WorkloadShape

# By field: its value, as it is written, and why it does not depend on the version.
_SAME: dict[str, tuple[Callable[[WorkloadShape], str], str]] = {
    "for.plural": (lambda one: one.resource.plural, "a kind has one plural"),
    "optIn": (
        lambda one: "namespace" if one.by_namespace else "workload",
        "a workload is opted in before its version is known",
    ),
    "podLabel": (lambda one: one.name_label, "pods do not show in which version their workload was written"),
    "gang.over": (lambda one: one.over, "the reconciler reads all workloads of the kind in one version"),
    "gang.roleLabel": (lambda one: one.role_label, "pods do not show in which version their workload was written"),
    "gang.leftTo": (lambda one: one.left_to, "the reconciler reads all workloads of the kind in one version"),
}


def form_problems(shapes: Sequence[WorkloadShape]) -> Iterator[tuple[int, Problem]]:
    """Yield why shapes do not go together, each with the index of the shape that it is about."""
    first: dict[tuple[str, str], WorkloadShape] = {}
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


def _disagreements(shape: WorkloadShape, main: WorkloadShape) -> Iterator[Problem]:
    for field, (value, because) in _SAME.items():
        found, wanted = value(shape), value(main)
        if found != wanted:
            why = f"must be {wanted or 'empty'} as in {main.name}, which is for the same kind: {because}"
            yield Problem(f"spec.{field}", found, why)
    if not (main.has_gangs and shape.has_gangs):
        return
    known = {_known_by(part) for part in main.parts if not part.outside}
    for index, part in enumerate(shape.parts):
        if not part.outside and _known_by(part) not in known:
            why = f"is that of no part of {main.name}, which is for the same kind: {_SAME['podLabel'][1]}"
            yield Problem(f"spec.parts[{index}].pod", None, why)


def _known_by(part: PartShape) -> tuple[object, ...]:
    """How the pods of a part are known, and the name of the part where no label has it."""
    return part.pod, None if part.pod.name_label else part.name.literal
