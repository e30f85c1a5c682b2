"""Values in strings, read as Go's standard library reads them. The schedulers do not accept everything Python accepts.

Source: Go's strconv.ParseInt, time.ParseDuration and encoding/json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NoReturn

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
    """`strconv.ParseInt(written, 10, 32)`; None if Go returns an error."""
    return _bounded(written, _INT32) if _WHOLE.match(written) else None


def int64(written: str) -> int | None:
    """`strconv.Atoi(written)` on a machine of 64 bits; None if Go returns an error."""
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
    """`time.ParseDuration(written)`; None if Go returns an error."""
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
        """The value of a field of type int; None if Go returns an error."""
        return _bounded(self, _INT64) if _JSON_WHOLE.match(self) else None


class Fields(tuple[tuple[str, Any], ...]):
    """An object in JSON, as it is written: it may have the same name twice."""

    __slots__ = ()

    def named(self, name: str) -> Iterator[Any]:
        """The values of a field, ignoring the case of its name. The last one counts, and each must be valid."""
        wanted = name.casefold()
        return (value for key, value in self if key.casefold() == wanted)


def json_value(written: str) -> Any:
    """The value in a JSON text: `Fields`, list, `Number`, string, boolean or None. Raises `ValueError`."""
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
    """A string of `json_value`, with U+FFFD for half of a surrogate pair, as in Go."""
    return _LONE_SURROGATE.sub("\ufffd", value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
