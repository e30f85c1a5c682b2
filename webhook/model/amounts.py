"""Amounts of resources as whole numbers: cpu in milli, everything else in units.

What is there is rounded up and what is needed down, so that rounding never makes a gang too large for a limit.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping

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
    """No amount of any resource."""
    return _NOTHING


def is_cpu(resource: str) -> bool:
    """Whether a resource, or a key of a ResourceQuota (`limits.cpu`), counts cores."""
    return resource.rpartition(".")[2] == "cpu" and "/" not in resource


def rounded_up(resource: str, amount: Fraction) -> int:
    """An amount in the units of the resource, rounded up."""
    return math.ceil(amount * _MILLI if is_cpu(resource) else amount)


def rounded_down(resource: str, amount: Fraction) -> int:
    """An amount in the units of the resource, rounded down."""
    return math.floor(amount * _MILLI if is_cpu(resource) else amount)


def exact_amounts(stated: object) -> Mapping[str, Fraction] | None:
    """The quantities of an object by resource; None if there are too many, or if one cannot be read, is negative or
    overflows. Raises `Malformed`.
    """
    named: Mapping[str, Any] = mapping(stated)
    if len(named) > MOST_RESOURCES or any(len(name) > _LONGEST_RESOURCE for name in named):
        return None
    found: dict[str, Fraction] = {}
    for name, said in named.items():
        amount = parse_quantity(said)
        if amount is None or amount < 0 or rounded_up(name, amount) > LARGEST_AMOUNT:
            return None
        found[sys.intern(name)] = amount
    return found


def ceiling_amounts(stated: object) -> Amounts | None:
    """The limits that an object states, rounded up; None if there are too many, or one cannot be read. Raises
    `Malformed`.
    """
    exact = exact_amounts(stated)
    return None if exact is None else {name: rounded_up(name, amount) for name, amount in exact.items()}
