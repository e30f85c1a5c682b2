"""Condition: what must hold in a workload, as a WorkloadShape writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from webhook.model.reading import Malformed
from webhook.model.workloads.shapes.path import Scope, ShapePath

Scalar = str | int | bool


class Condition(NamedTuple):
    """A comparison of the value at `path`, or of `default` if there is none. Exactly one of the other fields is set:
    it is one of `values`, it is none of `others`, or it `exists`. An empty text does not exist.
    """

    path: ShapePath
    values: tuple[Scalar, ...] = ()
    others: tuple[Scalar, ...] = ()
    exists: bool | None = None
    default: Scalar | None = None

    def holds(self, scope: Scope) -> bool:
        """Whether it holds. Raises `Malformed` if what is compared is an object or a list."""
        found = self.path.value(scope)
        if self.exists is not None:
            return (found not in {None, ""} if _is_scalar(found) else bool(found)) is self.exists
        if found is None:
            found = self.default
        if not _is_scalar(found):
            raise Malformed(found, "a text, a number, true or false")
        if self.values:
            return any(_equal(found, one) for one in self.values)
        return not any(_equal(found, one) for one in self.others)

    def __str__(self) -> str:
        if self.exists is not None:
            return f"{self.path} {'exists' if self.exists else 'does not exist'}"
        named = ", ".join(map(str, self.values or self.others))
        return f"{self.path} is {'' if self.values else 'not '}{named}"


def all_hold(conditions: Iterable[Condition], scope: Scope) -> bool:
    """Whether all conditions hold; without any they do. Raises `Malformed`."""
    return all(condition.holds(scope) for condition in conditions)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _equal(found: object, wanted: Scalar) -> bool:
    # In Python true equals 1.
    return found == wanted and isinstance(found, bool) is isinstance(wanted, bool)
