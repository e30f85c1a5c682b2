"""How many whole GPUs a pod on a node holds, for the cost of a gang that lost members (no I/O).

Counted are extended resources named `VENDOR/gpu`, as NVIDIA's and AMD's device plugins name them. Not counted: parts of
GPUs (MIG, time slices, annotations of schedulers), and devices of ResourceClaims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.reading import Malformed, mapping, sequence
from webhook.model.workloads.pod_requests import requests_of_container, total_requests

_GPU = "/gpu"
# In Koordinator's own resource 100 is one GPU; its pods ask for whole GPUs under the name of the vendor.
_NO_WHOLE = "koordinator.sh/gpu"
# No node has more. A larger number is a mistake, and would hide all others in a sum.
_MOST = 1024


def gpus_of(spec: Mapping[str, Any]) -> int:
    """The whole GPUs that a stored pod holds; 0 if its requests cannot be read."""
    try:
        if not any(_names_gpu(one) for part in ("containers", "initContainers") for one in sequence(spec.get(part))):
            return 0
        totals = total_requests(spec)
    except Malformed:
        return 0
    found = (amount for name, amount in totals.items() if _is_gpu(name) and amount is not None)
    return min(int(sum(found)), _MOST)


def _names_gpu(container: object) -> bool:
    return any(_is_gpu(name) for name in requests_of_container(mapping(container), from_limits=True))


def _is_gpu(resource: str) -> bool:
    return resource.endswith(_GPU) and resource != _NO_WHOLE
