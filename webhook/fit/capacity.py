"""What a node can give at best, in the units and names in which one scheduler compares requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from webhook.fit.reading import PodReading
from webhook.fit.requests import GPU_MEMORY, GPU_PARTS, GPUS, SLOTS, is_gpu_name
from webhook.fit.settings import NodeTemplate
from webhook.model.go_values import int64
from webhook.model.node import LIMITLESS, amount_of
from webhook.model.reading import Malformed
from webhook.model.rows import Row

# The label by which KAI knows the memory of the GPUs of a node, in MiB, or in bytes if it is this much.
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
_TEBIBYTE_IN_MIB, _BYTES_IN_MIB = 2**20, 2**20
# Stands for the devices of ResourceSlices, which KAI adds to the GPUs of device plugins.
GPUS_BY_CLAIMS = "claims/gpu"
KAI_GPUS = frozenset({GPUS, GPU_PARTS, GPU_MEMORY})
# The allocatable of a node group that is not there yet is an estimate. This much more is allowed for, in percent.
_ESTIMATED = frozenset({"cpu", "memory", "ephemeral-storage"})
_MARGIN = 5
# What a node group in the configuration need not state.
_UNSTATED = ("ephemeral-storage", SLOTS)


def capacity_of(
    resources: Iterable[str],
    highest: Mapping[str, int],
    oversubscribed: Row[int] | None,
    gpu_memory: str | None,
    reading: PodReading,
) -> dict[str, int]:
    """Return what a node can give of these resources. `gpu_memory` is the value of its label."""
    found = {resource: highest.get(resource, 0) for resource in resources}
    if reading.oversubscribes and oversubscribed is not None:
        for resource, amount in oversubscribed.items():
            if resource in found:
                found[resource] += amount
    if reading.requests.kai_gpus and not KAI_GPUS.isdisjoint(found):
        gpus = sum(amount for resource, amount in highest.items() if is_gpu_name(resource))
        pooled = {GPUS: gpus, GPU_PARTS: 1000 * gpus, GPU_MEMORY: gpus * memory_of_gpu(gpu_memory)}
        found |= {resource: amount for resource, amount in pooled.items() if resource in found}
    return found


def memory_of_gpu(label: str | None) -> int:
    """Return the MiB that a GPU of a node has at most; 0 without a label, as KAI then places no such pod there."""
    found = int64(label or "0") or 0
    return found if found < _TEBIBYTE_IN_MIB else math.ceil(found / _BYTES_IN_MIB)


def template_amounts(template: NodeTemplate) -> dict[str, int]:
    """Return the allocatable of a node group of the configuration, rounded up. What it does not state of storage and
    pod slots has no limit.
    """
    found = dict.fromkeys(_UNSTATED, LIMITLESS)
    for resource, said in template.allocatable.items():
        try:
            amount = amount_of(resource, said)
        except Malformed:
            amount = LIMITLESS
        found[resource] = -(-amount * (100 + _MARGIN) // 100) if resource in _ESTIMATED else amount
    return found
