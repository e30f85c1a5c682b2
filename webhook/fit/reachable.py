"""Reachable: all numbers of pods by kind that some nodes can take, as one integer with a bit for each of them.

The set is closed downwards: who can place pods can place fewer. So it is enough to add the largest patterns of a node,
each as a shift of the integer, and to close the result again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.fit.budget import Budget

# A step is about a tenth of a microsecond. A shift of so many bits takes as long.
_BITS_A_STEP = 2048


class Space:
    """The vectors from 0 to `most`, each coordinate by itself, numbered."""

    def __init__(self, most: Sequence[int]) -> None:
        self.most = tuple(most)
        self.strides: list[int] = []
        size = 1
        for limit in most:
            self.strides.append(size)
            size *= limit + 1
        self.size = size
        self.steps = 1 + size // _BITS_A_STEP
        self._masks: dict[tuple[int, int], int] = {}

    def index(self, vector: Sequence[int]) -> int:
        """Return the number of a vector."""
        return sum(value * stride for value, stride in zip(vector, self.strides, strict=True))

    def vector(self, index: int) -> tuple[int, ...]:
        """Return the vector of a number."""
        found = []
        for limit in self.most:
            index, value = divmod(index, limit + 1)
            found.append(value)
        return tuple(found)

    def up_to(self, axis: int, value: int) -> int:
        """Return the set of vectors whose coordinate is not larger than a value."""
        if (mask := self._masks.get((axis, value))) is None:
            stride = self.strides[axis]
            period = stride * (self.most[axis] + 1)
            mask = (1 << stride * (value + 1)) - 1
            while period < self.size:
                mask |= mask << period
                period *= 2
            mask &= (1 << self.size) - 1
            self._masks[axis, value] = mask
        return mask

    def added(self, reached: int, pattern: Sequence[int]) -> int:
        """Return the vectors of a closed set with a pattern added. What is above the most is left out."""
        shift = 0
        for axis, value in enumerate(pattern):
            if value:
                added = min(value, self.most[axis])
                if added:
                    reached &= self.up_to(axis, self.most[axis] - added)
                    shift += added * self.strides[axis]
        return reached << shift

    def closed(self, reached: int) -> int:
        """Return the set with all vectors below its own."""
        for axis, limit in enumerate(self.most):
            step = 1
            stride = self.strides[axis]
            while step <= limit:
                # Down by 1, 2, 4 ... where the coordinate is large enough.
                low = self.up_to(axis, min(step - 1, limit))
                reached |= (reached & ~low) >> step * stride
                step *= 2
        return reached

    def largest(self, reached: int) -> Iterator[tuple[int, ...]]:
        """Return the vectors of a closed set that have no other above them."""
        tops = reached
        for axis, limit in enumerate(self.most):
            if limit:
                tops &= ~((reached >> self.strides[axis]) & self.up_to(axis, limit - 1))
        while tops:
            lowest = tops & -tops
            yield self.vector(lowest.bit_length() - 1)
            tops ^= lowest


class Steps:
    """The sets that are reached after each of several nodes, in order, and the patterns that were added."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.reached = 1
        self.made: list[tuple[int, Sequence[Sequence[int]], object]] = []

    def add(self, patterns: Sequence[Sequence[int]], source: object, budget: Budget) -> bool:
        """Add a node that can have one of the patterns, or a part of it. Return whether that reaches more."""
        space = self.space
        budget.spend((len(patterns) + 2 * len(space.most)) * space.steps)
        reached = self.reached
        for pattern in patterns:
            reached |= space.added(self.reached, pattern)
        reached = space.closed(reached)
        if reached == self.reached:
            return False
        self.made.append((self.reached, patterns, source))
        self.reached = reached
        return True

    def has(self, vector: Sequence[int]) -> bool:
        """Return whether a vector is reached."""
        return bool(self.reached >> self.space.index(vector) & 1)

    def back(self, vector: Sequence[int]) -> Iterator[tuple[object, tuple[int, ...]]]:
        """Return what each node takes of a vector that is reached, from the last node to the first."""
        left = tuple(vector)
        for before, patterns, source in reversed(self.made):
            if before >> self.space.index(left) & 1:
                continue
            for pattern in patterns:
                less = tuple(max(value - taken, 0) for value, taken in zip(left, pattern, strict=True))
                if before >> self.space.index(less) & 1:
                    yield source, tuple(value - rest for value, rest in zip(left, less, strict=True))
                    left = less
                    break
