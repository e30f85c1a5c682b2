"""Options of `rollcall manifests all` for the server's network and its allowed callers, and their conversion."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_network
from typing import Annotated

import typer

from webhook.installation.client_certificates import ClientCertificates
from webhook.installation.pod_network import DnsPolicy, Network, Ports
from webhook.model.naming import NAMESPACE_PATTERN
from webhook.model.reading import Manifest


def _listening(option: str, what: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(
        option, min=1, max=65535, metavar="PORT", help=f"Where containers listen {what}."
    )
    return found


ServingPort = Annotated[int, _listening("--serving-port", "for AdmissionReviews")]
NextPort = Annotated[int, _listening("--next-port", "to present the next certificate")]
HealthPort = Annotated[int, _listening("--health-port", "for the server's health and metrics")]
ReconcilerPort = Annotated[int, _listening("--reconciler-port", "for the reconciler's health and metrics")]
HostNetwork = Annotated[
    bool,
    typer.Option(
        "--host-network",
        help="Run the server's Pods in the network of their nodes, for clusters whose API server cannot reach Pods.",
    ),
]
DnsChoice = Annotated[
    DnsPolicy | None,
    typer.Option(
        "--dns-policy",
        help="The dnsPolicy of the server's Pods.",
        show_default="ClusterFirstWithHostNet with --host-network",
    ),
]
Callers = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="CIDR|NAMESPACE",
        help="Who may call the server; the NetworkPolicy allows only these. Repeatable.",
        show_default="anybody",
    ),
]
ClientAuthority = Annotated[
    str | None,
    typer.Option(
        "--client-ca",
        metavar="KIND/NAME",
        help="The ConfigMap or Secret (configmap/NAME, secret/NAME) whose ca.crt has the authorities of "
        "callers: the API server must present a certificate.",
        show_default="no client certificate is required",
    ),
]
ClientNames = Annotated[
    list[str] | None,
    typer.Option(
        "--client-name",
        metavar="NAME",
        help="The client certificate must be for this name. Repeatable.",
        show_default="any",
    ),
]

USUAL_PORTS = Ports()
_PORT_OPTIONS = ["--serving-port", "--next-port", "--health-port", "--reconciler-port"]


def chosen_network(
    ports: Ports, *, host_network: bool, dns_policy: DnsPolicy | None, callers: Iterable[str]
) -> Network:
    """Return the network of Pods. Raises `typer.BadParameter`."""
    found = Network(ports, host_network, dns_policy, tuple(_peer(caller) for caller in callers))
    if found.problem is not None:
        raise typer.BadParameter(found.problem, param_hint=["--host-network"] if host_network else _PORT_OPTIONS)
    return found


def chosen_clients(authority: str | None, names: Iterable[str]) -> ClientCertificates | None:
    """Return whose certificates are required of clients. Raises `typer.BadParameter`."""
    wanted = tuple(names)
    if authority is None:
        if wanted:
            raise typer.BadParameter("it needs --client-ca", param_hint="--client-name")
        return None
    try:
        return ClientCertificates.read(authority, wanted)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--client-ca") from None


def _peer(caller: str) -> Manifest:
    """Return a NetworkPolicyPeer. The name of a namespace never has a slash, and a CIDR always has one."""
    if re.fullmatch(NAMESPACE_PATTERN, caller):
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": caller}}}
    try:
        if "/" in caller:
            return {"ipBlock": {"cidr": str(ip_network(caller))}}
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    raise typer.BadParameter(f"{caller!r} is neither a CIDR nor the name of a namespace", param_hint="--from")
