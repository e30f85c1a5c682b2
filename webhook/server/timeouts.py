"""`?timeout=` of a webhook call: how long the API server waits for the answer, as a Go duration."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qs

from webhook.errors import ReviewError

# How long the API server waits if the webhook configuration has no timeout.
DEFAULT_SECONDS = 10.0
# The longest timeout that a webhook configuration may have.
MAX_SECONDS = 30.0
# The answer must arrive before the API server's timeout, not at the same time.
MARGIN_SECONDS = 0.2
# The API server writes `timeout=10s`, perhaps after `dryRun=true`. Parsing a query takes time on the event loop, and
# quadratic time for digits without a unit.
MAX_QUERY_BYTES = 256
MAX_CHARACTERS = 40

_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=64)
def budget(query: bytes) -> float:
    """Return the seconds within which an answer must be given. Raises `ReviewError` for a `timeout` that is not a
    duration, and for a query or a `timeout` that is too long.

    The API server always sends the same few values, so they are cached.
    """
    if len(query) > MAX_QUERY_BYTES:
        raise ReviewError(f"the query of the URL has {len(query)} bytes, more than {MAX_QUERY_BYTES}")
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("timeout")
    if not values:
        return DEFAULT_SECONDS - MARGIN_SECONDS
    written = values[-1]
    if len(written) > MAX_CHARACTERS:
        raise ReviewError(f"timeout is {written[:MAX_CHARACTERS]!r} and more, longer than {MAX_CHARACTERS} characters")
    parts = _DURATION.findall(written)
    if not parts or "".join(parts) != written:
        raise ReviewError(f"timeout is {written[:40]!r}, not a duration such as 10s")
    seconds = min(sum(_seconds(part) for part in parts), MAX_SECONDS)
    if seconds <= 0:
        raise ReviewError(f"timeout is {written[:40]!r}, must be greater than 0")
    # A very short timeout keeps half of its time.
    return max(seconds - MARGIN_SECONDS, seconds / 2)


def _seconds(part: str) -> float:
    unit = part.lstrip("0123456789.")
    return float(part[: len(part) - len(unit)]) * _UNITS[unit]
