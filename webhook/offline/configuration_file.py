"""The configuration file, with the position of each mistake in it: one YAML document, and WorkloadShapes in further
ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from webhook.config.file import settings_from, shadow_file_names
from webhook.config.settings import Settings
from webhook.config.shape_document import KIND, form_problems, read_shape
from webhook.errors import ConfigurationError, InputError, Problem
from webhook.model.fields import FieldPath, Item
from webhook.offline.manifests import Document, read_file
from webhook.workloads.workload_shape import WorkloadShape

# The path of a problem in a WorkloadShape beside the configuration.
_BESIDE = re.compile(r"documents\[(\d+)\]\.?", re.ASCII)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]*)\]", re.ASCII)


def load_settings(path: Path) -> Settings:
    """Returns the settings of the file and of its shadows. Raises `InputError`, and `ConfigurationError`."""
    return _load(path, is_shadow=False)


def _load(path: Path, *, is_shadow: bool) -> Settings:
    documents = read_file(path)
    shapes = [document for document in documents if document.manifest.get("kind") == KIND]
    others = [document for document in documents if document not in shapes]
    if len(others) != 1:
        needed = f"one document besides any {KIND}s" if shapes else "exactly one document"
        raise InputError(str(path), f"{needed} is needed, but there are {len(others)}")
    (document,) = others
    beside = {} if is_shadow else {name: path.parent / name for name in shadow_file_names(document.manifest)}
    files = {name: _load(file, is_shadow=True) for name, file in beside.items() if file.is_file()}
    try:
        manifests = [shape.manifest for shape in shapes]
        return settings_from(document.manifest, str(path), manifests, None if is_shadow else files)
    except ConfigurationError as error:
        problems = [_placed(problem, document, shapes) for problem in error.problems]
        raise ConfigurationError(str(path), problems) from None


def load_shapes(path: Path) -> list[WorkloadShape]:
    """Returns the WorkloadShapes in a file. Raises `InputError`, and `ConfigurationError` as for a configuration."""
    pairs, problems = list[tuple[WorkloadShape, Document]](), list[Problem]()
    for document in read_file(path, may_be_empty=False):
        shape_problems: list[Problem] = []
        shape = read_shape(document.manifest, "", shape_problems)
        problems += [locate_problem(problem, document) for problem in shape_problems]
        pairs += [] if shape is None else [(shape, document)]
    shapes = [shape for shape, _ in pairs]
    problems += (locate_problem(problem, pairs[index][1]) for index, problem in form_problems(shapes))
    if problems:
        raise ConfigurationError(str(path), problems)
    return shapes


def _placed(problem: Problem, document: Document, shapes: Sequence[Document]) -> Problem:
    """Returns the problem with its position: in the configuration, or in a shape beside it."""
    matched = _BESIDE.match(problem.path)
    if matched is None:
        return locate_problem(problem, document)
    beside = replace(problem, path=problem.path[matched.end() :])
    return locate_problem(beside, shapes[int(matched[1])])


def locate_problem(problem: Problem, document: Document) -> Problem:
    steps = tuple(Item(int(index)) if index else word or key for word, index, key in _STEP.findall(problem.path))
    line, column = document.position(FieldPath(steps))
    return replace(problem, line=line, column=column)
