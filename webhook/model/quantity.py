"""Numbers in strings: resource quantities ("500m", "4Gi"), amounts of resources, values as Go's standard library reads
them, and versions of schedulers.

A quantity is exact. Grammar: k8s.io/apimachinery/pkg/api/resource, `Quantity`. An amount is a whole number: cpu in
milli, everything else in units. Available amounts are rounded up and needed amounts down, so that rounding never makes
a gang too large for a limit. The schedulers do not accept every string that Python accepts.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from webhook.model.reading import mapping

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?\Z", re.ASCII)
_SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    **{suffix: Fraction(1000 ** (power + 2)) for power, suffix in enumerate("MGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (power + 1)) for power, suffix in enumerate("KMGTPE")},
}
# The API server stores no quantity longer than about twenty digits. Longer ones are not computed.
_MAX_CHARACTERS = 64


def parse_quantity(value: object) -> Fraction | None:
    """Returns the quantity as an exact number, or None if `value` is not a quantity. YAML may give a plain number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str) or len(value) > _MAX_CHARACTERS:
        return None
    return _parsed(value)


# Most pods request the same few amounts.
@lru_cache(maxsize=4096)
def _parsed(value: str) -> Fraction | None:
    match = _QUANTITY.match(value)
    if match is None:
        return None
    sign, digits, exponent, suffix = match.groups()
    number = Fraction(digits if digits[-1] != "." else digits[:-1])
    if exponent:
        number *= Fraction(10) ** int(exponent[1:])
    elif suffix:
        number *= _SCALES[suffix]
    return -number if sign == "-" else number


# The resources of one object that are kept. A queue names a handful.
MOST_RESOURCES = 32
_LONGEST_RESOURCE = 320
_MILLI = 1000
# Kubernetes counts cpu in thousandths, and some schedulers other resources, in 64 bits that overflow: 10E of memory is
# 0, and 1e16 cores are 0 or less (apimachinery 0.37, pkg/api/resource). Above this a request may count as nothing.
MOST_COUNTED = (2**63 - 1) // _MILLI
# The largest amount that Kubernetes keeps, in thousandths of cpu and in units of everything else.
LARGEST_AMOUNT = 2**63 - 1

Amounts = Mapping[str, int]
_NOTHING: Amounts = MappingProxyType({})


def nothing_stated() -> Amounts:
    """Returns no amount of any resource."""
    return _NOTHING


def is_cpu(resource: str) -> bool:
    """Returns whether a resource, or a key of a ResourceQuota (`limits.cpu`), counts cores."""
    return resource.rpartition(".")[2] == "cpu" and "/" not in resource


def rounded_up(resource: str, amount: Fraction) -> int:
    """Returns an amount in the units of the resource, rounded up."""
    return math.ceil(amount * _MILLI if is_cpu(resource) else amount)


def rounded_down(resource: str, amount: Fraction) -> int:
    """Returns an amount in the units of the resource, rounded down."""
    return math.floor(amount * _MILLI if is_cpu(resource) else amount)


def exact_amounts(stated: object) -> Mapping[str, Fraction] | None:
    """Returns the quantities of an object by resource; None if there are too many, or if one cannot be read, is
    negative or overflows. Raises `Malformed`.
    """
    quantities: Mapping[str, Any] = mapping(stated)
    if len(quantities) > MOST_RESOURCES or any(len(name) > _LONGEST_RESOURCE for name in quantities):
        return None
    amounts: dict[str, Fraction] = {}
    for name, quantity in quantities.items():
        amount = parse_quantity(quantity)
        if amount is None or amount < 0 or rounded_up(name, amount) > LARGEST_AMOUNT:
            return None
        amounts[sys.intern(name)] = amount
    return amounts


def ceiling_amounts(stated: object) -> Amounts | None:
    """Returns the limits that an object states, rounded up; None as for `exact_amounts`. Raises `Malformed`."""
    exact = exact_amounts(stated)
    return None if exact is None else {name: rounded_up(name, amount) for name, amount in exact.items()}


_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
_JSON_WHOLE = re.compile(r"-?[0-9]+\Z")
_LONGEST_DIGITS = 19
# Go reads longer texts. No real time has hundreds of parts, and each part costs time.
_LONGEST_DURATION = 1024
_INT32, _INT64 = 2**31, 2**63

_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def int32(written: str) -> int | None:
    """Returns `strconv.ParseInt(written, 10, 32)`; None if Go returns an error."""
    return _bounded(written, _INT32) if _WHOLE.match(written) else None


def int64(written: str) -> int | None:
    """Returns `strconv.Atoi(written)` on a machine of 64 bits; None if Go returns an error."""
    return _bounded(written, _INT64) if _WHOLE.match(written) else None


def _bounded(digits: str, limit: int) -> int | None:
    sign = -1 if digits.startswith("-") else 1
    significant = digits.lstrip("+-").lstrip("0")
    # Python refuses to convert a number with thousands of digits.
    if len(significant) > _LONGEST_DIGITS:
        return None
    value = sign * int(significant or "0")
    return value if -limit <= value < limit else None


def nanoseconds(written: str) -> int | None:
    """Returns `time.ParseDuration(written)`; None if Go returns an error."""
    return None if len(written) > _LONGEST_DURATION else _nanoseconds(written)


@lru_cache(maxsize=256)
def _nanoseconds(written: str) -> int | None:
    sign = -1 if written.startswith("-") else 1
    rest = written[1:] if written[:1] in ("-", "+") else written
    if rest == "0":
        return 0
    total, end = 0, 0
    while end < len(rest):
        part = _PART.match(rest, end)
        if part is None:
            return None
        whole, fraction, unit = part.groups()
        if unit not in _UNITS or not (whole or fraction) or len(whole.lstrip("0")) > _LONGEST_DIGITS:
            return None
        # Go reads only as many digits of a fraction as fit.
        digits = (fraction or "")[:_LONGEST_DIGITS]
        total += int(whole or "0") * _UNITS[unit] + int(digits or "0") * _UNITS[unit] // 10 ** len(digits)
        if total > _INT64:
            return None
        end = part.end()
    if not rest or (total == _INT64 and sign > 0):
        return None
    return sign * total


class Number(str):
    """A number in JSON, as it is written: Go reads a field of type int from `4`, but not from `4.0`."""

    __slots__ = ()

    def int64(self) -> int | None:
        """Returns the value of a field of type int; None if Go returns an error."""
        return _bounded(self, _INT64) if _JSON_WHOLE.match(self) else None


class Fields(tuple[tuple[str, Any], ...]):
    """An object in JSON, as it is written: it may have the same name twice."""

    __slots__ = ()

    def values_of(self, name: str) -> Iterator[Any]:
        """Returns the values of a field, ignoring the case of its name. The last one counts, and each must be valid."""
        folded = name.casefold()
        return (value for key, value in self if key.casefold() == folded)


def json_value(written: str) -> Any:
    """Returns the value in a JSON text: `Fields`, list, `Number`, string, boolean or None. Raises `ValueError`."""
    try:
        return json.loads(
            _LONE_SURROGATE.sub("\ufffd", written),
            object_pairs_hook=Fields,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def string(value: Any) -> str:
    """Returns a string of `json_value`, with U+FFFD for half of a surrogate pair, as in Go."""
    return _LONE_SURROGATE.sub("\ufffd", value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+].*)?\Z", re.ASCII)


class Version(NamedTuple):
    """Major, minor, patch; a pre-release counts as its release."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def parse(cls, word: str) -> Version | None:
        match = _VERSION.match(word)
        return None if match is None else cls(*(int(part or 0) for part in match.groups()))
