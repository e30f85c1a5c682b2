"""How a check speaks: what is wrong with the backend, and what its author can do about it."""

from __future__ import annotations


def require(holds: bool, wrong: str, remedy: str) -> None:
    """Fail the test with both sentences unless `holds`. No `assert`: `python -O` would make every check pass."""
    # The author's question is what the backend did, not how the kit asked.
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"{wrong}; {remedy}")
