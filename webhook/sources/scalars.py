"""Resolve a YAML scalar as kubectl does: which words are booleans, which are numbers, and what stays a string.

kubectl reads through sigs.k8s.io/yaml, which resolves scalars with go-yaml v2. It has YAML 1.1 booleans (y, yes, on and
their opposites). A leading zero means octal, base 60 is unknown, and a timestamp stays a string. Its values pass
through JSON, so 2.0 becomes the whole number 2, and values that JSON cannot hold are refused. Source:
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


def plain(written: str) -> Scalar:
    """Return the value of a scalar without quotes or tag. Raises `ValueError` with the reason for a value that JSON
    cannot hold.
    """
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
    if (whole := _INTEGER.fullmatch(digits)) is not None and (found := _whole(whole)) is not None:
        return found
    # go-yaml keeps a number that is out of range as a string.
    return number(digits) if _FLOAT.fullmatch(digits) and math.isfinite(float(digits)) else written


def tagged(tag: str, written: str) -> Scalar:
    """Return the value of a scalar with a tag, given as `str` for `!!str`. Raises `ValueError` if the scalar has
    another type.
    """
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
        raise ValueError(f"{written[:40]!r} is not a !!{tag}")
    return value


def number(written: str) -> int | float:
    """Return a decimal number as Go does: an integer if it has no fraction and fits 64 bits. Raises `ValueError`."""
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
    """Return the integer, or None for one that needs more than 64 bits and is read as a float."""
    base = match.lastgroup or "dec"
    digits = match[base]
    if len(digits) > _MAX_DIGITS:
        return None
    value = int(digits, _BASES[base])
    value = -value if match["sign"] == "-" else value
    return value if _SMALLEST <= value <= _LARGEST else None
