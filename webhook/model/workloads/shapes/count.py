"""Count: a number of pods, as a WorkloadShape computes it from a workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.model.fields import FieldPath
from webhook.model.reading import integer
from webhook.model.workloads.shapes.condition import Condition, all_hold
from webhook.model.workloads.shapes.path import Scope, ShapePath

# An int32, as a CRD has numbers of pods.
MOST = 2**31 - 1
# A count may contain counts.
DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Count:
    """A number of pods. It is `number`, or the value at `path`, or `default` without a value there. In this order, it
    is raised to `at_least`, lowered to `at_most`, lowered by `minus`, and multiplied by `times`. It is 0 if one of
    `zero_if` holds. It is never negative.
    """

    number: int = 0
    path: ShapePath | None = None
    default: Count | None = None
    at_least: Count | None = None
    at_most: Count | None = None
    minus: Count | None = None
    times: Count | None = None
    zero_if: tuple[Condition, ...] = ()

    def value(self, scope: Scope) -> int:
        """The number. Raises `Malformed`."""
        if self.zero_if and any(condition.holds(scope) for condition in self.zero_if):
            return 0
        found = self._base(scope)
        if self.at_least is not None:
            found = max(found, self.at_least.value(scope))
        if self.at_most is not None:
            found = min(found, self.at_most.value(scope))
        if self.minus is not None:
            found -= self.minus.value(scope)
        if self.times is not None:
            found *= self.times.value(scope)
        return min(max(found, 0), MOST)

    def _base(self, scope: Scope) -> int:
        if self.path is None:
            return self.number
        found = integer(self.path.value(scope))
        if found is None and self.default is not None:
            return self.default.value(scope)
        return found or 0

    def stated(self, scope: Scope) -> Iterator[tuple[FieldPath, int | None]]:
        """The fields that it is computed from, with their values. Raises `Malformed`."""
        if self.path is not None:
            yield self.path.at(scope), integer(self.path.value(scope))
        for inner in self:
            yield from inner.stated(scope)

    def __iter__(self) -> Iterator[Count]:
        """The counts that it contains."""
        inner = (self.default, self.at_least, self.at_most, self.minus, self.times)
        return (one for one in inner if one is not None)


@dataclass(frozen=True, slots=True)
class Minimum:
    """A least number of pods, which holds under conditions. `elastic`: more pods may join them later."""

    count: Count
    when: tuple[Condition, ...] = ()
    elastic: bool = False

    def holds(self, scope: Scope) -> bool:
        """Whether it is the minimum of this workload. Raises `Malformed`."""
        return all_hold(self.when, scope)
