"""The whole GPUs that KAI counts for a pod, which may be fewer than its containers request.

KAI keeps a number of GPUs and a portion, which is 1 for whole GPUs. A request for 0 GPUs is a number of 1 with the
portion 0, and what has another portion is not added to it: beside containers that request 0, the GPUs of a sidecar do
not count (seen with v0.16.8). If containers request GPUs of one name and 0 of the other, one GPU may count (seen).

Source: kai-scheduler/KAI-Scheduler v0.16.8, pkg/scheduler/api/pod_info/pod_info.go (`getPodResourceRequest`),
pkg/scheduler/api/resource_info/{resource_requirment,gpu_resource_requirment}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping, sequence
from webhook.model.workloads.pod_requests import requests_of_container

# The names under which containers request whole GPUs.
WHOLE_GPUS = ("nvidia.com/gpu", "amd.com/gpu")


class _Unsure(Exception):
    """An amount is not a whole number."""


class _Counted(NamedTuple):
    """GPUs as KAI keeps them: their number, and whether the portion is 1."""

    number: int = 0
    whole: bool = False

    @property
    def gpus(self) -> int:
        return self.number if self.whole else 0

    def with_more(self, more: _Counted) -> _Counted:
        if self == _NONE:
            return more
        if more == _NONE or more.whole != self.whole:
            return self
        return _Counted(self.number + more.number, self.whole)


_NONE = _Counted()


def whole_gpus(spec: Mapping[str, Any], *, from_limits: bool) -> int:
    """Return the least number of whole GPUs that KAI counts for a pod. `from_limits`: as in `total_requests`. Raises
    `Malformed`.
    """

    def counted(containers: Iterable[object]) -> _Counted:
        return _counted(requests_of_container(one, from_limits=from_limits) for one in containers)

    try:
        running = counted(sequence(spec.get("containers")))
        sidecars = largest_init = _NONE
        for container in sequence(spec.get("initContainers")):
            own = counted([container])
            if mapping(container).get("restartPolicy") == "Always":
                sidecars = sidecars.with_more(own)
            else:
                largest_init = max(largest_init, own.with_more(sidecars), key=lambda one: one.gpus)
        return max(running.with_more(sidecars).gpus, largest_init.gpus)
    except _Unsure:
        return 0


def _counted(requests: Iterable[Mapping[str, Any]]) -> _Counted:
    """Return what KAI counts at least for a sum of requests."""
    sums: dict[str, int] = {}
    for request in requests:
        for name in (name for name in WHOLE_GPUS if name in request):
            amount = parse_quantity(request[name])
            if amount is None or amount < 0 or amount.denominator != 1:
                raise _Unsure
            sums[name] = sums.get(name, 0) + int(amount)
    if not sums:
        return _NONE
    total = sum(sums.values())
    # The order in which KAI reads two names is not fixed. If that with 0 is the last, the number is 1.
    return _Counted(total if total and min(sums.values()) else 1, total > 0)
