"""Budget: the work that a judgement may take, in steps, so that the answer does not depend on the machine."""

from __future__ import annotations

# What admission and the command line spend on one gang unless `--effort` allows more.
STEPS = 20_000


class OutOfStepsError(Exception):
    """Raised when the budget is used up. The answer is then *unknown*, never a guess."""


class Budget:
    """Steps that are left."""

    __slots__ = ("left", "steps")

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = self.left = steps

    def spend(self, steps: int) -> None:
        """Use steps. Raises `OutOfStepsError` if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise OutOfStepsError

    @property
    def used(self) -> int:
        """The steps that were used."""
        return self.steps - max(self.left, 0)
