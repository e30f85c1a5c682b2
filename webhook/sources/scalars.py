"""A YAML scalar as kubectl reads it: which words are booleans, which numbers, and what stays a string.

kubectl reads through sigs.k8s.io/yaml, which resolves scalars with go-yaml v2: YAML 1.1 booleans (y, yes, on and
their opposites), a leading zero is octal, base 60 is unknown, a timestamp stays a string. What it reads passes
through JSON, so that 2.0 arrives as the whole number 2, and what JSON cannot hold is refused. Source:
kubernetes-sigs/yaml, goyaml.v2/resolve.go and yaml.go; kubernetes/apimachinery, pkg/util/json.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
# Only a scalar that begins so can be anything but a string: most are told by one look.
_FIRST = frozenset("yYnNtTfFoO~+-.0123456789")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)"
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# What Go keeps as a whole number on the way through JSON; a larger one becomes a float64.
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
# The digits of the longest of them, which is written in base 2. Python's conversion of longer ones is quadratic.
_MAX_DIGITS = 64


def plain(written: str) -> Scalar:
    """The value of a scalar without quotes or tag. Raises `ValueError`, with the reason, for what JSON cannot hold."""
    if not written:
        return None
    if written[0] not in _FIRST:
        return written
    if written in _WORDS:
        return _WORDS[written]
    if written[0] not in ".+-0123456789":
        return written
    if _NOT_FINITE.fullmatch(written):
        raise ValueError(f"{written} is no number in JSON")
    # A leading dot makes a float, and go-yaml takes no underscores there.
    digits = written if written[0] == "." else written.replace("_", "")
    if (whole := _INTEGER.fullmatch(digits)) is not None and (found := _whole(whole)) is not None:
        return found
    # Out of the range of numbers it is a string to go-yaml.
    return number(digits) if _FLOAT.fullmatch(digits) and math.isfinite(float(digits)) else written


def tagged(tag: str, written: str) -> Scalar:
    """The value of a scalar with a tag, given as `str` for `!!str`. Raises `ValueError` where its form is another's."""
    if tag == "str":
        return written
    value = plain(written)
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
        raise ValueError(f"{written[:40]!r} is no !!{tag}")
    return value


def number(written: str) -> int | float:
    """A decimal number as Go hands it on: whole where it has no fraction and fits 64 bits. Raises `ValueError`."""
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
    """The integer, or None for one that needs more than 64 bits and is read as a float."""
    base = match.lastgroup or "dec"
    digits = match[base]
    if len(digits) > _MAX_DIGITS:
        return None
    value = int(digits, _BASES[base])
    value = -value if match["sign"] == "-" else value
    return value if _SMALLEST <= value <= _LARGEST else None
