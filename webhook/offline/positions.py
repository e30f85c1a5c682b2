"""Positions of the fields of a document in its text, limits for one text, the values of YAML scalars as kubectl
resolves them, and the edits of one object's text.

The limits apply to the whole text, YAML or JSON, with any number of documents. Those of the server limit the cost of a
megabyte from an unknown client; those of the command line allow a file with all nodes of a large cluster.

kubectl reads through sigs.k8s.io/yaml, which resolves scalars with go-yaml v2. It has YAML 1.1 booleans (y, yes, on
and their opposites). A leading zero means octal, base 60 is unknown, and a timestamp stays a string. Its values pass
through JSON, so 2.0 becomes the whole number 2, and values that JSON cannot hold are refused. Source:
kubernetes-sigs/yaml, goyaml.v2/resolve.go and yaml.go; kubernetes/apimachinery, pkg/util/json.

A fix is data: `smallest_edit` finds the changes, `text_edits` the replacements of text that make them. Reports show
them, and `applied_to` makes the new text of a file.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar, cast

from webhook.model.admission_request import Changes
from webhook.model.fields import FieldPath, Item

_T = TypeVar("_T")


class Root(NamedTuple):
    """The index at which a value begins (or its key, for a value of a mapping), and the positions below it."""

    start: int
    places: Places


# By key for a mapping, in order for a list, None for a scalar.
Places = dict[str, Root] | list[Root] | None


class Lines:
    """The lines of a text, as editors count them. The text is split once, and only when a position is needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._cache: dict[object, object] = {}
        self._last: dict[object, tuple[int, object]] = {}

    def cached(self, read: Callable[[str], _T]) -> _T:
        """Returns what a function reads from the text. It is read once for all documents of a file."""
        if read not in self._cache:
            self._cache[read] = read(self.text)
        return cast("_T", self._cache[read])

    def last_cached(self, read: Callable[[str, int], _T], start: int) -> _T:
        """Returns what a function reads from the document at `start`. It is read once for all objects of a list, and
        kept until another document is read, or `forget` is called.
        """
        if self._last.get(read, (-1,))[0] != start:
            self._last[read] = start, read(self.text, start)
        return cast("_T", self._last[read][1])

    def forget(self) -> None:
        """Drops what `last_cached` keeps, which is larger than the text."""
        self._last.clear()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place_of(self, index: int) -> tuple[int, int]:
        """Returns line and column of an index, from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1


def find(root: Root, path: FieldPath) -> int:
    """Returns the index of the key or list item at `path`, or of its nearest parent if it does not exist."""
    for part in path.parts:
        below = root.places
        if isinstance(part, Item) and isinstance(below, list) and 0 <= part.index < len(below):
            root = below[part.index]
        elif isinstance(part, str) and isinstance(below, dict) and part in below:
            root = below[part]
        else:
            break
    return root.start


# A counted value is some microseconds of work.
_VALUES_BETWEEN_CALLS = 256


class TextProblem(Exception):
    """Content that a manifest must not have. `index` is its position in the text, None if unknown."""

    def __init__(self, index: int | None, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


class Limits(NamedTuple):
    """`aliased` counts what aliases add: 20 for each value, and the length of each text."""

    documents: int
    values: int
    aliased: int


# A file may have 256 MiB. The nodes of a cluster have some 500 values in 15 KB each.
COMMAND_LINE = Limits(documents=1_000_000, values=20_000_000, aliased=64_000_000)
# A YAML value takes up to 450 bytes with its position, and a manifest of 1 MiB has some 40,000 values.
SERVER = Limits(documents=1000, values=100_000, aliased=2_000_000)


def do_nothing() -> None:
    """Does nothing: the default for `proceed`, when reading is never stopped."""


class TextBudget:
    """The remaining limits for one text. `proceed` is called now and then, and may raise."""

    def __init__(self, limits: Limits, proceed: Callable[[], None] = do_nothing) -> None:
        self.limits = limits
        self._proceed = proceed
        self._documents = self._values = self._aliased = 0
        self._next_call = _VALUES_BETWEEN_CALLS

    def document(self, index: int) -> None:
        """Counts a document that begins at `index`. Raises `Problem`."""
        self._documents += 1
        if self._documents > self.limits.documents:
            raise TextProblem(index, f"has more than {self.limits.documents} documents; split it")

    def values(self, index: int, count: int = 1) -> None:
        """Counts values. Raises `Problem`."""
        self._values += count
        if self._values >= self._next_call:
            self._next_call = self._values + _VALUES_BETWEEN_CALLS
            self._proceed()
            if self._values > self.limits.values:
                raise TextProblem(index, f"has more than {self.limits.values} values; split it")

    def aliased(self, index: int, cost: int) -> None:
        """Counts what an alias adds. Raises `Problem`."""
        self._aliased += cost
        if self._aliased > self.limits.aliased:
            raise TextProblem(index, "its aliases make it too large")


Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
# A scalar that begins with another character is a string: this check is enough for most.
_FIRST = frozenset("yYnNtTfFoO~+-.0123456789")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)"
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Go keeps whole numbers in this range through JSON; a larger one becomes a float64.
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
# The digits of the longest such number, in base 2. Python converts longer ones in quadratic time.
_MAX_DIGITS = 64


def plain_value(written: str) -> Scalar:
    """Returns the value of a scalar without quotes or tag. Raises `ValueError` for a value that JSON cannot hold."""
    if not written:
        return None
    if written[0] not in _FIRST:
        return written
    if written in _WORDS:
        return _WORDS[written]
    if written[0] not in ".+-0123456789":
        return written
    if _NOT_FINITE.fullmatch(written):
        raise ValueError(f"{written} is not a number in JSON")
    # A leading dot means a float, and go-yaml does not accept underscores there.
    digits = written if written[0] == "." else written.replace("_", "")
    if (whole := _INTEGER.fullmatch(digits)) is not None and (integer := _whole(whole)) is not None:
        return integer
    # go-yaml keeps a number that is out of range as a string.
    return number(digits) if _FLOAT.fullmatch(digits) and math.isfinite(float(digits)) else written


def tagged_value(tag: str, written: str) -> Scalar:
    """Returns the value of a scalar with a tag, such as `str` for `!!str`. Raises `ValueError` for another type."""
    if tag == "str":
        return written
    value = plain_value(written)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "bool": isinstance(value, bool),
        "int": is_number and isinstance(value, int),
        "float": is_number,
        "null": value is None,
        "timestamp": isinstance(value, str),
    }
    if tag not in fits:
        raise ValueError(f"has the tag !!{tag}, which a manifest cannot have")
    if not fits[tag]:
        raise ValueError(f"{written[:40]!r} is not a !!{tag}")
    return value


def number(written: str) -> int | float:
    """Returns a decimal number as Go does: an integer if it has no fraction and fits 64 bits. Raises `ValueError`."""
    if (
        len(written) < _MAX_DIGITS
        and written.lstrip("+-").isdecimal()
        and _SMALLEST <= (whole := int(written)) <= _LARGEST
    ):
        return whole
    value = float(written)
    if not math.isfinite(value):
        raise ValueError(f"{written[:40]} is out of the range of numbers")
    return int(value) if value.is_integer() and _SMALLEST <= value < _LARGEST else value


def _whole(match: re.Match[str]) -> int | None:
    """Returns the integer, or None for one that needs more than 64 bits and is read as a float."""
    base = match.lastgroup or "dec"
    digits = match[base]
    if len(digits) > _MAX_DIGITS:
        return None
    value = int(digits, _BASES[base])
    value = -value if match["sign"] == "-" else value
    return value if _SMALLEST <= value <= _LARGEST else None


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """One replacement in a text. `start` and `end` are indexes in it; lines and columns count from 1."""

    start: int
    end: int
    inserted: str
    line: int
    column: int
    end_line: int
    end_column: int


class Fix(NamedTuple):
    """The changes after which `scheduler` no longer refuses an object, and their text. `edits` do not overlap, and are
    in the order of the text. They are empty if the changes cannot be written without touching something else, such as
    an anchor that another place uses.
    """

    file: str
    scheduler: str
    changes: Changes
    edits: tuple[TextEdit, ...] = ()


def applied_to(text: str, edits: Iterable[TextEdit]) -> str:
    """Returns `text` with the replacements, which must not overlap."""
    # From the end, so that the indexes of the others stay right.
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.inserted + text[edit.end :]
    return text
