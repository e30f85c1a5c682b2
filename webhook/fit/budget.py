"""Budget: the work that a judgement may take, in steps, so that the answer does not depend on the machine."""

from __future__ import annotations

# What admission and the command line spend on one gang unless `--effort` allows more.
STEPS = 6_000


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

    def share(self, most: int) -> Budget:
        """Return a budget for one attempt that may be given up: at most so many of these steps. `settle` ends it.

        `most` must not depend on how many steps there are: a larger budget then does the same work, and more.
        """
        return Budget(min(most, max(self.left, 0)))

    def settle(self, share: Budget) -> None:
        """Count the steps of a share. Raises `OutOfStepsError` if it ran out because these did."""
        ended_early = share.left < 0
        self.spend(share.used)
        if ended_early and self.left <= 0:
            raise OutOfStepsError

    @property
    def used(self) -> int:
        """The steps that were used."""
        return self.steps - max(self.left, 0)
