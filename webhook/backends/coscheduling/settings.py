"""The configuration of a `scheduler-plugins-scheduler` profile."""

from __future__ import annotations

from pydantic import Field

from webhook.backends.base import BackendSettings
from webhook.validators.registry import Context


class CoschedulingSettings(BackendSettings):
    """scheduleTimeoutSeconds (seconds, at least 1) is how long a placed pod keeps its place while it waits for the rest
    of its gang. Then all pods of the gang give up their places and start again. kube-scheduler's framework caps it at
    900.

    The default is the plugin's own and Trainer's. No pod is placed before all pods exist and are free, so it is the
    time for one pass. With a longer timeout, a large gang that lacks a tenth of its room blocks the rest of that room.
    """

    scheduleTimeoutSeconds: int = Field(default=60, ge=1, le=2**31 - 1)


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[CoschedulingSettings]
