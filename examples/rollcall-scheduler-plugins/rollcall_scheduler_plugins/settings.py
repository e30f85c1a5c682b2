"""The configuration of a `batch-scheduler` profile."""

from __future__ import annotations

from pydantic import Field

from webhook.backends.base import BackendSettings


class SchedulerPluginsSettings(BackendSettings):
    """scheduleTimeoutSeconds (seconds, at least 1) is how long a placed pod waits for the rest of its gang.

    Coscheduling takes 0 for its own default, 60 seconds, so that is not allowed here: say what is meant.
    """

    scheduleTimeoutSeconds: int = Field(default=600, ge=1, le=2**31 - 1)
