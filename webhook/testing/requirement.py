"""The form of a failed check: what is wrong with the backend, and what its author can do about it."""

from __future__ import annotations


def require(holds: bool, wrong: str, remedy: str) -> None:
    """Fail the test with both sentences unless `holds`. No `assert`: `python -O` would make every check pass."""
    # The author needs to see what the backend did, not the code of the kit.
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"{wrong}; {remedy}")
