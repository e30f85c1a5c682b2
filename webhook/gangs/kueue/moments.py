"""Moments and spans of time in texts for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR = 60, 3600


def moment(said: str | None) -> datetime | None:
    """A time of the Kubernetes API, in UTC; None if there is none, or if it cannot be read."""
    if said is None:
        return None
    try:
        found = datetime.fromisoformat(said)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        # Also a legal time at an end of the calendar, which is outside of it in UTC.
        return None


def later(begun: datetime, seconds: int) -> datetime:
    """The time so many seconds later; the last one of the calendar if that is beyond it."""
    last = datetime.max.replace(tzinfo=UTC)
    return last if (last - begun).total_seconds() <= seconds else begun + timedelta(seconds=seconds)


def span(seconds: float) -> str:
    """A span of time, in one unit: `45s`, `12m`, `3h`."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    return f"{whole // _MINUTE}m" if whole < 2 * _HOUR else f"{whole // _HOUR}h"


def until(then: datetime, now: datetime) -> str:
    """When something will happen, at a time in UTC: the time stays true in an event that is read later."""
    left = max(then - now, timedelta())
    return f"at {then:%H:%M:%S} UTC, in {span(left.total_seconds())}"
