"""JSON that is nested too deep for the parser: made shallow enough that the other objects in it can be read.

A user can nest the `managedFields` of an object as deep as he likes, and the API server stores that (seen with 1.37).
One such pod must not keep a list of all pods from being read.
"""

from __future__ import annotations

import re

# The parser refuses more than 1024 levels. Nothing that Rollcall reads comes near: a CompositePodGroup or a pod has
# some twenty.
MOST_LEVELS = 500
# A string without an end takes the rest, so that the search never begins again within it.
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OPENS = b"[{"


def shallow(content: bytes | bytearray) -> bytes:
    """Return JSON with null for everything below `MOST_LEVELS` levels. Text that is not JSON does not become JSON."""
    kept: list[bytes] = []
    level = begin = 0
    for found in _STRING_OR_BRACKET.finditer(content):
        sign = content[found.start()]
        if sign == ord('"'):
            continue
        if sign in _OPENS:
            level += 1
            if level == MOST_LEVELS + 1:
                kept.append(bytes(content[begin : found.start()]))
        else:
            if level == MOST_LEVELS + 1:
                kept.append(b"null")
                begin = found.end()
            level -= 1
    if level <= MOST_LEVELS:
        kept.append(bytes(content[begin:]))
    return b"".join(kept)
