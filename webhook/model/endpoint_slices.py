"""EndpointSlices: who stands behind a Service.

Source: Kubernetes API reference, discovery.k8s.io/v1 EndpointSlice, core/v1 ServicePort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from webhook.model.reading import integer, mapping, sequence, text


class ServiceEndpoint(NamedTuple):
    """One of those behind a Service: its addresses, which all lead to it; the ports that it listens on, by the names
    that the Service gives them, of which one may be empty; and whether it is sent anything.
    """

    addresses: tuple[str, ...]
    ports: Mapping[str, int]
    ready: bool
    node: str | None


def port_name(service: object, number: int) -> str | None:
    """What slices call that port of a Service: it has its name there, and another number. One that is alone need not
    have a name, and is called by an empty one. None where the Service has no such port. Raises `Malformed`.
    """
    ports = map(mapping, sequence(mapping(mapping(service).get("spec")).get("ports")))
    return next((text(one.get("name")) or "" for one in ports if one.get("port") == number), None)


def slices_of(service: str) -> str:
    """The selector of the slices of that Service, which are in its namespace."""
    return f"kubernetes.io/service-name={service}"


def endpoints_in(endpoint_slice: object) -> Iterator[ServiceEndpoint]:
    """Those in one slice; somebody may be in two, as addresses of two families are. Raises `Malformed`."""
    holder = mapping(endpoint_slice)
    ports = {}
    for one in map(mapping, sequence(holder.get("ports"))):
        # Without a number it is every port, which is none that a Service leads to.
        if (number := integer(one.get("port"))) is not None:
            ports[text(one.get("name")) or ""] = number
    for one in map(mapping, sequence(holder.get("endpoints"))):
        addresses = tuple(address for raw in sequence(one.get("addresses")) if (address := text(raw)) is not None)
        # Not said is ready.
        ready = mapping(one.get("conditions")).get("ready") is not False
        yield ServiceEndpoint(addresses, ports, ready, text(one.get("nodeName")))
