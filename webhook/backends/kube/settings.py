"""The configuration of the `default-scheduler` profile."""

from __future__ import annotations

from typing import Literal

from webhook.backends.base import BackendSettings


class KubeSettings(BackendSettings):
    """`gangScheduling` is understood, so that Grove's own scheduler block can be used as it is; only `false` is
    possible, because this version writes no Workload objects.
    """

    gangScheduling: Literal[False] = False
