"""The known words that a misspelt word most likely means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# The most words of one object that are compared, because its author may be hostile. One comparison with a
# hundred known words takes about a millisecond.
MOST_COMPARED = 16
# No known word is longer. The time of a comparison grows with the length.
_LONGEST = 80
# How similar two words must be, from 0 to 1: `siez` and `size` have 0.75.
_SIMILAR = 0.75
_OFFERED = 3
_SEPARATORS = str.maketrans("", "", "-_.")


class NearMisses:
    """Finds likely words for one object, until `MOST_COMPARED` words were compared."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def likely(self, word: str, known: Iterable[str], similar: float = _SIMILAR) -> str | None:
        """Return the most similar of the `known` words, or None if none is similar enough. Case and separators do not
        count.
        """
        if self._left == 0 or len(word) > _LONGEST:
            return None
        self._left -= 1
        by_form = {_form(one): one for one in known}
        found = get_close_matches(_form(word), by_form, n=1, cutoff=similar)
        return by_form[found[0]] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """Return the `known` words that are close to `name`, or the only one that begins with it, as the end of a sentence;
    empty if there is none. The number of words is not limited: it is for what a user of the commands wrote, and for
    few words.
    """
    known, name = list(known), name[:_LONGEST]
    close = get_close_matches(name, known, _OFFERED)
    longer = [one for one in known if name and one.startswith(name)]
    if not close and len(longer) == 1:
        close = longer
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _form(word: str) -> str:
    return word.casefold().translate(_SEPARATORS)
