"""Text for people, without the control characters that a terminal or a browser executes instead of showing.

Names, labels and values come from tenants. A control character can end a line or move the cursor. A bidirectional
control can make a denied name look like an allowed one (Unicode Technical Report 36, "Bidirectional Text Spoofing").
"""

from __future__ import annotations

# C0 and C1 controls, soft hyphen, Arabic letter mark, zero-width characters and direction marks, line and paragraph
# separators, bidirectional embeddings, overrides and isolates, invisible operators, the byte order mark and the
# interlinear marks.
_INVISIBLE = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0xAD,
    0x61C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
)
_REPLACED = dict.fromkeys(_INVISIBLE, "\ufffd")
# json.dumps escapes the C0 controls in strings. Those left in its output are its own line ends.
_ESCAPED = {point: f"\\u{point:04x}" for point in _INVISIBLE if point >= 0x7F}  # noqa: PLR2004 - the first above ASCII


def plain(text: str) -> str:
    """`text` with each such control character replaced by U+FFFD."""
    return text.translate(_REPLACED)


def escaped(json_text: str) -> str:
    """JSON with the same characters written as escapes, which does not change its meaning."""
    return json_text.translate(_ESCAPED)


def printable(text: str) -> str:
    """Return `text` with each character that is not printable written as an escape of Python."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def cut(text: str, limit: int) -> str:
    """Return `text` in at most `limit` bytes of UTF-8, ending with "..." if it was cut."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."
