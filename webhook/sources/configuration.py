"""Find and read the configuration file: one YAML document, with the position of each mistake in it."""

from __future__ import annotations

import re
from pathlib import Path

from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.errors import ConfigurationError, InputError, Problem
from webhook.model.fields import FieldPath, Item, Part
from webhook.sources.manifests import Document, read_file

FILE_NAME = "rollcall.yaml"
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]*)\]")


def configuration_above(folder: Path) -> Path | None:
    """Return the nearest `rollcall.yaml` in `folder` or above it, up to the top of its Git repository or the home
    folder. What is above those belongs to other projects or other people.
    """
    try:
        home: Path | None = Path.home()
    except RuntimeError:
        # In a container whose user has no name, and no $HOME.
        home = None
    for place in (folder, *folder.parents):
        try:
            if (place / FILE_NAME).is_file():
                return place / FILE_NAME
            if (place / ".git").exists() or place == home:
                return None
        except PermissionError:
            # Of a folder that the caller may not search, nothing is known.
            return None
    return None


def load_settings(path: Path) -> Settings:
    """Return the settings of the file. Raises `InputError`, and `ConfigurationError` with line and column."""
    documents = read_file(path)
    if len(documents) != 1:
        raise InputError(str(path), f"exactly one document is needed, but there are {len(documents)}")
    (document,) = documents
    try:
        return settings_from(document.manifest, str(path))
    except ConfigurationError as error:
        raise ConfigurationError(str(path), [_placed(problem, document) for problem in error.problems]) from None


def _placed(problem: Problem, document: Document) -> Problem:
    line, column = document.position(FieldPath(tuple(_steps(problem.path))))
    return Problem(problem.path, problem.found, problem.why, problem.allowed, line, column)


def _steps(path: str) -> list[Part]:
    steps: list[Part] = []
    for word, index, key in _STEP.findall(path):
        steps.append(Item(int(index)) if index else word or key)
    return steps
