"""The configuration of a `scheduler-plugins-scheduler` profile."""

from __future__ import annotations

from pydantic import Field

from webhook.backends.base import BackendSettings


class CoschedulingSettings(BackendSettings):
    """scheduleTimeoutSeconds (seconds, at least 1) is how long a placed pod keeps its place for the rest of its gang;
    then all of them give theirs up and start again. kube-scheduler's framework caps it at 900.

    The default is the plugin's own and Trainer's. No pod is placed before all are there and free, so it is the time for
    one pass; a longer one lets a large gang that lacks a tenth of its room sit on the rest of it.
    """

    scheduleTimeoutSeconds: int = Field(default=60, ge=1, le=2**31 - 1)
