"""Moments and spans of time in texts for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR = 60, 3600


def moment(said: str | None) -> datetime | None:
    """A time of the Kubernetes API; None if there is none, or if it cannot be read."""
    try:
        found = None if said is None else datetime.fromisoformat(said)
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)


def span(seconds: float) -> str:
    """A span of time, in one unit: `45s`, `12m`, `3h`."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    return f"{whole // _MINUTE}m" if whole < 2 * _HOUR else f"{whole // _HOUR}h"


def until(then: datetime, now: datetime) -> str:
    """When something will happen: the time stays true in an event that is read later."""
    left = max(then - now, timedelta())
    return f"at {then.astimezone(UTC):%H:%M:%S} UTC, in {span(left.total_seconds())}"
