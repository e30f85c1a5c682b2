"""Observes certificates from outside: which one the API server trusts, and which ones servers present.

Neither is stored anywhere, and both take time: an API server learns of a webhook configuration by a watch, a server of
a Secret by its kubelet. So both are checked repeatedly, and count only after they were true for long enough.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

import httpx
from cryptography import x509

from webhook.certificates.state import Hook, Registered, Stored
from webhook.certificates.x509 import fingerprint, issued_by
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.errors import RequestFailed
from webhook.installation.names import NEXT_LABEL, NEXT_WARNING, SERVING_PORT, SERVING_PORT_NAME
from webhook.installation.webhooks import next_hook_name
from webhook.model.endpoint_slices import ServiceEndpoint, endpoints_in, port_name, slices_of
from webhook.model.kubernetes_kinds import CONFIG_MAPS, ENDPOINT_SLICES, SERVICES
from webhook.model.reading import Malformed, Manifest
from webhook.network.client_tls import looking

# The prefix of the hook's name, by the kind of its configuration.
_PATHS = {"MutatingWebhookConfiguration": "mutate", "ValidatingWebhookConfiguration": "validate"}
# Timeout of a handshake with a server in the cluster.
HANDSHAKE_SECONDS = 5.0


class StableSince:
    """Measures for how long something has been true without interruption."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._what = ""
        self._since: float | None = None

    def seen(self, what: str) -> float:
        """Record that `what` is true now; return for how many seconds it has been."""
        now = self._clock.monotonic()
        if self._since is None or self._what != what:
            self._what, self._since = what, now
        return now - self._since

    def broken(self) -> None:
        """Record that it is not true now."""
        self._since = None


async def unproven(
    access: Access,
    transport: httpx.AsyncBaseTransport | None,
    stored: Stored,
    leaf: x509.Certificate,
    allowed: Callable[[], None],
) -> str:
    """Why the API server does not seem to trust the signer of `leaf` yet; empty if it does. Raises what `allowed`
    raises.

    Each check opens its own connections, to reach each of several API servers. There is no other way to see whether one
    of them does not know the caBundle yet.
    """
    for one in stored.registered:
        if not one.hooks:
            continue
        client = Client(access, transport)
        try:
            if why := await _unproven(client, stored.namespace, one, leaf, allowed):
                return why
        finally:
            await client.close()
    return ""


async def _unproven(
    client: Client, namespace: str, configuration: Registered, leaf: x509.Certificate, allowed: Callable[[], None]
) -> str:
    path = _PATHS.get(configuration.kind, "")
    if next_hook_name(path) not in {hook.name for hook in configuration.hooks}:
        return (
            f"{configuration.name} has no hook {next_hook_name(path)}; apply what `rollcall manifests webhooks` prints"
        )
    metadata = {
        "generateName": "rollcall-next-certificate-",
        "namespace": namespace,
        "labels": {NEXT_LABEL: path},
    }
    probe: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        answer = await client.told(requests.create(CONFIG_MAPS, probe, dry_run=True), allowed)
    except RequestFailed as error:
        return f"the API server was not asked about the next certificate: {error}"
    if f"{NEXT_WARNING}{fingerprint(leaf)}" in answer.warnings:
        return ""
    shown = next((said for said in answer.warnings if said.startswith(NEXT_WARNING)), None)
    if shown is not None:
        return f"a server still presents a next certificate other than {fingerprint(leaf)[:16]}"
    return (
        f"the API server has not accepted the next certificate by way of {configuration.name}: it does not use the new "
        "caBundle yet, or a server does not have the certificate yet"
    )


class Place(NamedTuple):
    """The address and name of a server. `ready`: it receives requests. `trouble`: why the API server cannot reach it
    there.
    """

    host: str
    port: int
    name: str
    ready: bool = True
    trouble: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


async def unserved(client: Client, stored: Stored, authority: x509.Certificate) -> str:
    """Which server does not present a certificate of `authority` yet; empty if all do."""
    try:
        places = [place for hook in stored.places for place in await places_of(client, hook)]
    except RequestFailed as error:
        return f"the servers are not known: {error}"
    except Malformed as error:
        return f"the servers are not known: an EndpointSlice cannot be read: {error}"
    found = await asyncio.gather(*(_unserved(place, authority) for place in places))
    return next((why for why in found if why), "")


async def _unserved(place: Place, authority: x509.Certificate) -> str:
    if place.trouble:
        return f"{place}: {place.trouble}" if place.ready else ""
    try:
        shown = await presented(place)
    except OSError as error:
        # The server is down or shows no certificate. If it is not ready, it receives no requests and reads its files
        # when it starts, so it does not matter.
        return (
            f"{place.host} port {place.port} cannot be asked: {str(error) or type(error).__name__}"
            if place.ready
            else ""
        )
    return "" if issued_by(shown, authority) else f"{place.host} port {place.port} still presents an old certificate"


async def presented(place: Place) -> x509.Certificate:
    """The certificate that a server presents. Raises `OSError`, such as `TimeoutError` and `ssl.SSLError`."""
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        _, writer = await asyncio.open_connection(place.host, place.port, ssl=looking(), server_hostname=place.name)
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
    if shown is None:
        raise ssl.SSLError("no certificate")
    try:
        return x509.load_der_x509_certificate(shown)
    except ValueError:
        raise ssl.SSLError("a certificate that cannot be read") from None


async def places_of(client: Client, hook: Hook) -> list[Place]:
    """The servers behind a hook. Raises `RequestFailed`, and `Malformed` for a slice that cannot be read.

    A server that is ready in one slice and not ready in another is listed twice.
    """
    if hook.service is None:
        return [Place(hook.host, hook.port, hook.host)]
    namespace, name = hook.service
    found: dict[Place, None] = {}
    listened = await _listened(client, namespace, name, hook.port)
    async for raw in client.items(ENDPOINT_SLICES, namespace=namespace, selector={"labelSelector": slices_of(name)}):
        for endpoint in endpoints_in(raw):
            port, trouble = listened(endpoint)
            found.update(
                {Place(address, port, hook.host, endpoint.ready, trouble): None for address in endpoint.addresses}
            )
    return list(found)


async def _listened(
    client: Client, namespace: str, name: str, number: int
) -> Callable[[ServiceEndpoint], tuple[int, str]]:
    """A function that finds an endpoint's port for this Service port, or returns why there is none."""
    try:
        service = (await client.get(requests.read(SERVICES, name, namespace))).content
    except RequestFailed as error:
        # The role allows to read only the Service of the manifests.
        if error.code in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
            return lambda endpoint: (_probable_port(endpoint), "")
        raise
    wanted = port_name(service, number)
    if wanted is None:
        return lambda _: (0, f"the Service has no port {number}")
    missing = f"it has no port {wanted} of the Service" if wanted else f"it has no port {number} of the Service"
    return lambda endpoint: (port, "") if (port := endpoint.ports.get(wanted, 0)) else (0, missing)


def _probable_port(endpoint: ServiceEndpoint) -> int:
    """The endpoint's port for AdmissionReviews if the Service is unknown.

    In the Service of the manifests it is found by name or number. Another Service has only that port.
    """
    ports = endpoint.ports
    if SERVING_PORT_NAME in ports:
        return ports[SERVING_PORT_NAME]
    return SERVING_PORT if SERVING_PORT in ports.values() else next(iter(ports.values()), SERVING_PORT)
