"""What a pod requests, in the units and by the arithmetic of one scheduler, rounded down where schedulers differ.

Source: Kubernetes 1.37, pkg/scheduler/framework/types.go and plugins/noderesources/fit.go; KAI-Scheduler v0.16.8,
pkg/scheduler/api/pod_info/pod_info.go; Volcano v1.15.1, pkg/scheduler/api/resource_info.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from webhook.fit.kai_gpus import whole_gpus
from webhook.model.amounts import MOST_COUNTED
from webhook.model.reading import mapping, text
from webhook.model.workloads.pod_requests import HUGE_PAGES, total_requests, unreadable_request
from webhook.model.workloads.podtemplate import PodTemplate

# The resource "pods": a slot of a node, of which every pod takes one.
SLOTS = "pods"
_OF_EVERY_NODE = frozenset({"cpu", "memory", "ephemeral-storage"})
# Further resources of a pod are not compared. No node has so many.
_MOST_RESOURCES = 32
# A device of a DeviceClass, asked for as if it were an extended resource: dynamic resource allocation places it.
BY_CLASS = "deviceclass.resource.kubernetes.io/"

# How KAI counts GPUs. Whole GPUs, and those of which a pod takes more than half: one such pod a GPU.
GPUS = "nvidia.com/gpu"
# The same GPUs and the parts of GPUs, in thousandths. Annotations ask for parts and for memory (MiB).
GPU_PARTS = "thousandths of nvidia.com/gpu"
GPU_MEMORY = "MiB of GPU memory"
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_MIG = "nvidia.com/mig-"
# KAI compares parts as memory, on a node without a label as hundredths.
_PARTS_OF_GPU = 100
_MOST_DIGITS = 64
_OVERFLOW = "the request for {} is more than schedulers can count"
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True)
class RequestRules:
    """How a scheduler adds up and compares requests. `pod_level`: as in `total_requests`.

    `kai_gpus`: annotations ask for parts of GPUs, and all names that end in "gpu" are one resource. Nothing is claimed
    of `unsure` prefixes. `ignored` resources and groups are not compared; without `compared` none is.
    """

    pod_level: bool = True
    # Whether sums of other resources than cpu and memory are compared in thousandths.
    exact: bool = False
    kai_gpus: bool = False
    unsure: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = field(default=frozenset())
    compared: bool = True

    def ignores(self, resource: str) -> bool:
        """Return whether the scheduler does not compare a resource."""
        return resource in self.ignored or resource.partition("/")[0] in self.ignored_groups


OF_KUBERNETES = RequestRules()


def _uncounted(spec: Mapping[str, Any], resource: str, amount: Fraction | None) -> str:
    """Return why a request is not judged: it cannot be read, or it overflows."""
    if amount is None:
        return f"{unreadable_request(spec, resource)} is not a quantity"
    return _OVERFLOW.format(resource[:80])


def requests_of(template: PodTemplate, rules: RequestRules, *, stored: bool) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the least that a pod requests, with its slot, and why other resources are not judged. Raises `Malformed`.

    For a template that is not `stored` a limit counts as request, as the API server defaults it on pods. A limit of the
    whole pod does not: a LimitRange may give its containers lower requests before.
    """
    if not rules.compared:
        return {}, ()
    spec: Mapping[str, Any] = template.spec
    own = mapping(spec.get("resources"))
    if own:
        spec = {**spec, "resources": {"requests": own.get("requests")}}
    totals = total_requests(spec, from_limits=not stored, pod_level=rules.pod_level)
    found: dict[str, int] = {}
    unjudged: list[str] = []
    unsure = (*rules.unsure, BY_CLASS)
    for resource, amount in totals.items():
        pooled = rules.kai_gpus and is_gpu_name(resource) and amount is not None
        if pooled or not is_compared(resource) or rules.ignores(resource):
            continue
        if len(found) == _MOST_RESOURCES:
            unjudged.append(f"the resources of a pod above {_MOST_RESOURCES}")
            break
        if amount is None or amount > MOST_COUNTED:
            unjudged.append(_uncounted(template.spec, resource, amount))
        elif resource.startswith(unsure):
            if amount > 0:
                unjudged.append(f"the scheduler handles {resource[:80]} in its own way")
        elif (units := _units(resource, amount, exact=rules.exact)) > 0:
            found[resource] = units
    if rules.kai_gpus:
        gpus = _gpus_of_kai(template, from_limits=not stored)
        if any(amount > MOST_COUNTED for amount in gpus.values()):
            unjudged.append(_OVERFLOW.format("GPUs"))
        else:
            found |= gpus
    return {**found, SLOTS: 1}, tuple(unjudged)


def is_compared(resource: str) -> bool:
    """Return whether schedulers compare a resource with what a node has. They skip other names."""
    return resource in _OF_EVERY_NODE or resource.startswith(HUGE_PAGES) or "/" in resource


def is_gpu_name(resource: str) -> bool:
    """Return whether KAI takes a resource for GPUs."""
    return resource.endswith("gpu")


def is_best_effort(request: Mapping[str, int], unjudged: tuple[str, ...] = ()) -> bool:
    """Return whether a pod surely requests nothing but its slot. Volcano starts a gang without such pods."""
    return not unjudged and request.keys() <= {SLOTS}


def _units(resource: str, amount: Fraction, *, exact: bool) -> int:
    """Return an amount in the scheduler's units, rounded as the scheduler rounds the sum of a pod."""
    if amount.denominator == 1:
        return amount.numerator * (1000 if resource == "cpu" else 1)
    if resource == "cpu":
        return math.ceil(amount * 1000)
    return math.floor(amount) if exact and resource != "memory" else math.ceil(amount)


def _gpus_of_kai(template: PodTemplate, *, from_limits: bool) -> dict[str, int]:
    """Return what a pod requests of GPUs. An annotation for a part of a GPU replaces the requests of containers."""
    if any(key.startswith(_MIG) for key in template.annotations):
        # An older form of a request for a part. It replaces all others.
        return {}
    whole = whole_gpus(template.spec, from_limits=from_limits)
    part, memory = _part(template.annotations), _number(template.annotations, _MEMORY)
    if part is not None:
        devices = _devices(template.annotations)
        return _positive({GPUS: devices if 2 * part > _PARTS_OF_GPU else 0, GPU_PARTS: 10 * part * devices})
    if memory is not None and memory > 0:
        return _positive({GPU_MEMORY: memory * _devices(template.annotations)})
    return _positive({GPUS: whole, GPU_PARTS: 1000 * whole})


def _positive(found: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount for resource, amount in found.items() if amount > 0}


def _part(annotations: Mapping[str, Any]) -> int | None:
    """Return the part of a GPU in hundredths, rounded down; None without a valid one."""
    written = text(annotations.get(_FRACTION)) or ""
    if len(written) > _MOST_DIGITS:
        return 0
    if not written.isascii() or "_" in written:
        # Python reads such numbers, and Go does not.
        return None
    try:
        found = float(written)
    except ValueError:
        # Go reads more forms of numbers, so a text that has a digit may still be one.
        return 0 if any(character.isdigit() for character in written) else None
    return math.floor(found * _PARTS_OF_GPU) if 0 < found <= 1 else None


def _devices(annotations: Mapping[str, Any]) -> int:
    """Return how many GPUs a pod takes a part of."""
    if not text(annotations.get(_DEVICES)):
        return 1
    return max(_number(annotations, _DEVICES) or 0, 0)


def _number(annotations: Mapping[str, Any], key: str) -> int | None:
    written = text(annotations.get(key)) or ""
    return int(written) if _DECIMAL.match(written) else None
