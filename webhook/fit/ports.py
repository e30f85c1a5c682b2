"""The host ports that a pod needs. Two pods with the same one cannot share a node.

Source: Kubernetes 1.37, pkg/scheduler/util/utils.go (GetHostPorts) and pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.fit.pods import Port
from webhook.model.reading import flag, integer, mapping, sequence, text

# More are not judged. A pod has a handful.
_MOST_PORTS = 256
_LAST_PORT = 65_535


def ports_of(spec: Mapping[str, Any], *, stored: bool) -> tuple[Port, ...]:
    """Return the host ports of containers and sidecars. Plain init containers need none. Raises `Malformed`.

    On the network of the host every port is one, as the API server defaults it on pods.
    """
    on_host = not stored and flag(spec.get("hostNetwork"))
    found: dict[Port, None] = {}
    for container in _running(spec):
        for one in map(mapping, sequence(container.get("ports"))):
            number = integer(one.get("hostPort")) or 0
            if number <= 0 and on_host:
                number = integer(one.get("containerPort")) or 0
            if 0 < number <= _LAST_PORT:
                found[Port(number, text(one.get("protocol")) or "TCP", text(one.get("hostIP")) or "")] = None
            if len(found) == _MOST_PORTS:
                return tuple(found)
    return tuple(found)


def _running(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from map(mapping, sequence(spec.get("containers")))
    for container in map(mapping, sequence(spec.get("initContainers"))):
        if container.get("restartPolicy") == "Always":
            yield container
