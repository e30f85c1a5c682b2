"""Kubernetes resource quantities ("500m", "2", "1e3", "4Gi") as exact numbers.

Grammar: k8s.io/apimachinery/pkg/api/resource, `Quantity`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

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
    """The quantity as an exact number, or None if `value` is not a quantity. YAML may give a plain number."""
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
    found = _QUANTITY.match(value)
    if found is None:
        return None
    sign, digits, exponent, suffix = found.groups()
    number = Fraction(digits if digits[-1] != "." else digits[:-1])
    if exponent:
        number *= Fraction(10) ** int(exponent[1:])
    elif suffix:
        number *= _SCALES[suffix]
    return -number if sign == "-" else number
