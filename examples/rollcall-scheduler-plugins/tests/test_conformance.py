"""What Rollcall asks of every backend."""

from __future__ import annotations

from rollcall_scheduler_plugins.backend import SchedulerPluginsBackend
from webhook.testing import BackendConformance


class TestSchedulerPluginsBackend(BackendConformance):
    backend = SchedulerPluginsBackend
    configurations = ({}, {"scheduleTimeoutSeconds": 60})
