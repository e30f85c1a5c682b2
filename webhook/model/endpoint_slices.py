"""EndpointSlices: the endpoints of a Service.

Source: Kubernetes API reference, discovery.k8s.io/v1 EndpointSlice, core/v1 ServicePort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from webhook.model.reading import integer, mapping, sequence, text


class ServiceEndpoint(NamedTuple):
    """One endpoint of a Service: its addresses, which all reach it; its ports, by the names that the Service gives them
    (one may be empty); and whether it is ready for traffic.
    """

    addresses: tuple[str, ...]
    ports: Mapping[str, int]
    ready: bool
    node: str | None


def port_name(service: object, number: int) -> str | None:
    """The name of a Service's port in its slices, where the port has another number. A single port may have no name; it
    is then the empty string. None if the Service has no such port. Raises `Malformed`.
    """
    ports = map(mapping, sequence(mapping(mapping(service).get("spec")).get("ports")))
    return next((text(one.get("name")) or "" for one in ports if one.get("port") == number), None)


def slices_of(service: str) -> str:
    """The label selector for the slices of that Service, in its namespace."""
    return f"kubernetes.io/service-name={service}"


def endpoints_in(endpoint_slice: object) -> Iterator[ServiceEndpoint]:
    """The endpoints in one slice. An endpoint may be in two slices, one for each address family. Raises `Malformed`."""
    holder = mapping(endpoint_slice)
    ports = {}
    for one in map(mapping, sequence(holder.get("ports"))):
        # A port without a number means every port; a Service never routes to it.
        if (number := integer(one.get("port"))) is not None:
            ports[text(one.get("name")) or ""] = number
    for one in map(mapping, sequence(holder.get("endpoints"))):
        addresses = tuple(address for raw in sequence(one.get("addresses")) if (address := text(raw)) is not None)
        # An endpoint without the condition is ready.
        ready = mapping(one.get("conditions")).get("ready") is not False
        yield ServiceEndpoint(addresses, ports, ready, text(one.get("nodeName")))
