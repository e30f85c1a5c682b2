"""ShapePath: the path of a value in a workload, as a WorkloadShape writes it.

The language is the part of JSONPath (RFC 9535) that always shows a place in the object: names and `[*]`. `$` is the
workload, `@` the entry of a part's `each`.

    >>> shape_path("$.spec.workerGroupSpecs[*].template").steps
    ('spec', 'workerGroupSpecs', <Each.EACH: '*'>, 'template')

A value of another type than the path expects raises `Malformed`, as everywhere, so it is reported at the workload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from webhook.model.fields import ROOT as _ROOT
from webhook.model.fields import FieldPath, Item, Part
from webhook.model.reading import Malformed, Manifest, mapping

# No kind nests its pod templates deeper.
MOST_STEPS = 16
MOST_CHARACTERS = 512
# Plain names after a dot or in single quotes, and [*]: nearly all paths of shapes. They are read without the parser,
# whose import takes longer than to read all of them. A test compares both.
_PLAIN_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([A-Za-z0-9._/-]+)'\]|\[\*\]", re.ASCII)
_PLAIN = re.compile(rf"[$@](?:{_PLAIN_STEP.pattern})*", re.ASCII)


class PathError(ValueError):
    """A text is not a path of a WorkloadShape."""


class Each(Enum):
    """The step to every entry of a list or an object."""

    EACH = "*"


class Found(NamedTuple):
    """A value, its path, and the last key of an object or the index of a list on its way."""

    path: FieldPath
    value: Any
    key: str = ""


class Scope(NamedTuple):
    """What paths are read in: a workload and, for a part with `each`, one entry of it."""

    workload: Manifest
    entry: Found | None = None


class ShapePath(NamedTuple):
    """A path. `of_entry` means that it begins at the entry of `each` and not at the workload."""

    text: str
    steps: tuple[str | Each, ...]
    of_entry: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def is_single(self) -> bool:
        """Whether it finds one value at most."""
        return Each.EACH not in self.steps

    def at(self, scope: Scope) -> FieldPath:
        """The path in the workload. Only for a path of a single value."""
        start = self._start(scope).path.parts
        return FieldPath((*start, *(step for step in self.steps if isinstance(step, str))))

    def value(self, scope: Scope) -> Any:
        """The value, None if there is none. Only for a path of a single value. Raises `Malformed`."""
        found = self._start(scope).value
        for step in self.steps:
            if found is None:
                return None
            found = mapping(found).get(step)  # type: ignore[arg-type]
        return found

    def values(self, scope: Scope) -> Iterator[Found]:
        """The values in the order of the workload; null counts as none. Raises `Malformed`."""
        start = self._start(scope)
        return _walk(start.value, start.path.parts, start.key, self.steps)

    def _start(self, scope: Scope) -> Found:
        return scope.entry if self.of_entry and scope.entry is not None else Found(_ROOT, scope.workload)


def shape_path(written: str) -> ShapePath:
    """The path that a text stands for. Raises `PathError`."""
    if len(written) > MOST_CHARACTERS:
        raise PathError(f"is longer than {MOST_CHARACTERS} characters")
    of_entry = written.startswith("@")
    if not of_entry and not written.startswith("$"):
        raise PathError("must begin with $ for the workload, or with @ for the entry of `each`")
    if _PLAIN.fullmatch(written):
        steps = tuple(step[1] or step[2] or Each.EACH for step in _PLAIN_STEP.finditer(written))
    else:
        steps = parsed_steps(f"${written[1:]}")
    if len(steps) > MOST_STEPS:
        raise PathError(f"has more than {MOST_STEPS} steps")
    return ShapePath(written, steps, of_entry)


def parsed_steps(path: str) -> tuple[str | Each, ...]:
    """The steps of any JSONPath. Raises `PathError`."""
    from jsonpath import JSONPath, JSONPathEnvironment  # noqa: PLC0415 - most processes read plain paths alone
    from jsonpath.exceptions import JSONPathError  # noqa: PLC0415

    try:
        parsed = JSONPathEnvironment(strict=True).compile(path)
    except (JSONPathError, RecursionError) as error:
        raise PathError(f"is not a JSONPath: {str(error).splitlines()[0]}") from None
    if not isinstance(parsed, JSONPath):
        raise PathError("combines several paths; write one")
    return tuple(step for segment in parsed.segments for step in _steps(segment))


def _steps(segment: object) -> Iterator[str | Each]:
    from jsonpath.segments import JSONPathChildSegment  # noqa: PLC0415
    from jsonpath.selectors import NameSelector, WildcardSelector  # noqa: PLC0415

    if not isinstance(segment, JSONPathChildSegment) or len(segment.selectors) != 1:
        raise PathError("has a step that is neither one name nor [*]")
    selector = segment.selectors[0]
    if isinstance(selector, NameSelector):
        yield selector.name
    elif isinstance(selector, WildcardSelector):
        yield Each.EACH
    else:
        raise PathError("has a step that is neither a name nor [*]")


def _walk(value: Any, parts: tuple[Part, ...], key: str, steps: tuple[str | Each, ...]) -> Iterator[Found]:
    for place, step in enumerate(steps):
        if value is None:
            return
        if not isinstance(step, str):
            for part, name, entry in _entries_of(value):
                yield from _walk(entry, (*parts, *_names(steps[:place]), part), name, steps[place + 1 :])
            return
        value = mapping(value).get(step)
    if value is not None:
        yield Found(FieldPath((*parts, *_names(steps))), value, key)


def _names(steps: tuple[str | Each, ...]) -> tuple[str, ...]:
    return tuple(step for step in steps if isinstance(step, str))


def _entries_of(value: Any) -> Iterator[tuple[Part, str, Any]]:
    """The entries of a list or an object, each with its part of a path and its index or key."""
    if not isinstance(value, list):
        yield from ((key, key, entry) for key, entry in mapping(value).items())
        return
    for index, entry in enumerate(value):
        if entry is None:
            # The API server does not drop null from a list.
            raise Malformed(entry, "an object")
        yield Item(index, _name(entry)), str(index), entry


def _name(value: object) -> str | None:
    """The name of a list's entry, by which two versions of a workload are compared."""
    if not isinstance(value, dict):
        return None
    return next((found for key in ("name", "groupName") if isinstance(found := value.get(key), str) and found), None)
