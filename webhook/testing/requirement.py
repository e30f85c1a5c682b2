"""The form of a failed check: what is wrong with the backend, and what its author can do about it. Messages of backends
are lower-case sentences without a full stop, so that they can be joined to one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_MARKS = re.compile(r"!|\bplease\b", re.IGNORECASE)
_FIRST_WORD = re.compile(r"[A-Z][a-z]+(?![A-Za-z0-9])")
# Names that may begin a sentence of any backend.
_NAMES = frozenset({"grove", "kubernetes"})


def require(holds: bool, wrong: str, remedy: str) -> None:
    """Fail the test with both sentences unless `holds`. No `assert`: `python -O` would make every check pass."""
    # The author needs to see what the backend did, not the code of the kit.
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"{wrong}; {remedy}")


def faults(text: object, names: Iterable[str] = ()) -> Iterator[str]:
    """Yield what is wrong with a part of a message. `names` are those of the backend, which may be capitalised."""
    if not isinstance(text, str) or not text.strip():
        yield "is empty"
        return
    if text != text.strip() or "\n" in text:
        yield "is not a single line"
    if text.endswith((".", ";", ",")):
        yield f"ends in {text[-1]!r}"
    if _MARKS.search(text):
        yield "has an exclamation mark or the word please"
    first = _FIRST_WORD.match(text)
    known = _NAMES | {part for name in names for part in name.split("-")}
    if first is not None and first.group().lower() not in known:
        yield f"starts with the capitalised word {first.group()}"
