"""Certificates observed from outside: which one the API server trusts, which ones servers present, and whether the
first can trust the second.

Neither is stored anywhere, and both take time: an API server learns of a webhook configuration by a watch, a server of
a Secret by its kubelet. So both are checked repeatedly, and count only after they were true for long enough.

`Check` tests each caBundle against each server with a TLS handshake like the API server's. Nothing is written, and
keys are never shown. A server that cannot be reached from here is reported as unknown, never as good. The metrics are
0 if certificates are not self-managed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE, Pair, load_into, load_pair, read_authorities
from webhook.certificates.renewal import Hook, Registered, RotationStep, Stored, is_next
from webhook.certificates.status import CONFIGURATIONS, CertificateSnapshot
from webhook.certificates.x509 import KeyPair, fingerprint, holds, issued_by, read_certificates
from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.sockets import looking, trusting
from webhook.errors import CertificateError, RequestFailed
from webhook.installation.names import NEXT_LABEL, NEXT_WARNING, SERVING_PORT, SERVING_PORT_NAME
from webhook.installation.webhooks import next_hook_name
from webhook.model.known_kinds import CONFIG_MAPS, ENDPOINT_SLICES, SERVICES
from webhook.model.reading import Malformed, Manifest, ServiceEndpoint, endpoints_in, port_name, slices_of

# The prefix of the hook's name, by the kind of its configuration.
_PATHS = {"MutatingWebhookConfiguration": "mutate", "ValidatingWebhookConfiguration": "validate"}
HANDSHAKE_SECONDS = 5.0


class StableSince:
    """Measures for how long something has been true without interruption."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._what = ""
        self._since: float | None = None

    def seen(self, what: str) -> float:
        """Records that `what` is true now, and returns for how many seconds it has been."""
        now = self._clock.monotonic()
        if self._since is None or self._what != what:
            self._what, self._since = what, now
        return now - self._since

    def broken(self) -> None:
        """Records that it is not true now."""
        self._since = None


async def unproven(
    access: Access,
    transport: httpx.AsyncBaseTransport | None,
    stored: Stored,
    leaf: x509.Certificate,
    allowed: Callable[[], None],
) -> str:
    """Returns why the API server does not seem to trust the signer of `leaf` yet; empty if it does. Raises what
    `allowed` raises.

    Each check opens its own connections, to reach each of several API servers. There is no other way to see whether one
    of them does not know the caBundle yet.
    """
    for configuration in stored.registered:
        if not configuration.hooks:
            continue
        client = Client(access, transport)
        try:
            if why := await _unproven(client, stored.namespace, configuration, leaf, allowed):
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
    metadata = {"generateName": "rollcall-next-certificate-", "namespace": namespace, "labels": {NEXT_LABEL: path}}
    probe: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        answer = await client.write_answer(requests.create(CONFIG_MAPS, probe, dry_run=True), allowed)
    except RequestFailed as error:
        return f"the API server was not asked about the next certificate: {error}"
    if f"{NEXT_WARNING}{fingerprint(leaf)}" in answer.warnings:
        return ""
    shown = next((warning for warning in answer.warnings if warning.startswith(NEXT_WARNING)), None)
    if shown is not None:
        return f"a server still presents a next certificate other than {fingerprint(leaf)[:16]}"
    return (
        f"the API server has not accepted the next certificate by way of {configuration.name}: it does not use the new "
        "caBundle yet, or a server does not have the certificate yet"
    )


class ServerAddress(NamedTuple):
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
    """Returns which server does not present a certificate of `authority` yet; empty if all do."""
    try:
        places = [place for hook in stored.places for place in await places_of(client, hook)]
    except RequestFailed as error:
        return f"the servers are not known: {error}"
    except Malformed as error:
        return f"the servers are not known: an EndpointSlice cannot be read: {error}"
    reasons = await asyncio.gather(*(_unserved(place, authority) for place in places))
    return next((why for why in reasons if why), "")


async def _unserved(place: ServerAddress, authority: x509.Certificate) -> str:
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


async def presented(place: ServerAddress) -> x509.Certificate:
    """Returns the certificate that a server presents. Raises `OSError`, such as `TimeoutError` and `ssl.SSLError`."""
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


async def places_of(client: Client, hook: Hook) -> list[ServerAddress]:
    """Returns the servers behind a hook. Raises `RequestFailed`, and `Malformed` for a slice that cannot be read.

    A server that is ready in one slice and not ready in another is listed twice.
    """
    if hook.service is None:
        return [ServerAddress(hook.host, hook.port, hook.host)]
    namespace, name = hook.service
    addresses: dict[ServerAddress, None] = {}
    listened = await _listened(client, namespace, name, hook.port)
    async for raw in client.items(ENDPOINT_SLICES, namespace=namespace, selector={"labelSelector": slices_of(name)}):
        for endpoint in endpoints_in(raw):
            port, trouble = listened(endpoint)
            addresses.update(
                {
                    ServerAddress(address, port, hook.host, endpoint.ready, trouble): None
                    for address in endpoint.addresses
                }
            )
    return list(addresses)


async def _listened(
    client: Client, namespace: str, name: str, number: int
) -> Callable[[ServiceEndpoint], tuple[int, str]]:
    """Returns a function that finds an endpoint's port for this Service port, or returns why there is none."""
    try:
        service = (await client.get(requests.read(SERVICES, name, namespace))).content
    except RequestFailed as error:
        # The role allows to read only the Service of the manifests.
        if error.code in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
            return lambda endpoint: (_probable_port(endpoint), "")
        raise
    service_port = port_name(service, number)
    if service_port is None:
        return lambda _: (0, f"the Service has no port {number}")
    missing = (
        f"it has no port {service_port} of the Service" if service_port else f"it has no port {number} of the Service"
    )
    return lambda endpoint: (port, "") if (port := endpoint.ports.get(service_port, 0)) else (0, missing)


def _probable_port(endpoint: ServiceEndpoint) -> int:
    """Returns the endpoint's port for AdmissionReviews if the Service is unknown.

    In the Service of the manifests it is found by name or number. Another Service has only that port.
    """
    ports = endpoint.ports
    if SERVING_PORT_NAME in ports:
        return ports[SERVING_PORT_NAME]
    return SERVING_PORT if SERVING_PORT in ports.values() else next(iter(ports.values()), SERVING_PORT)


# Upper bound of the steps of an in-memory handshake; TLS 1.3 takes three.
_TURNS = 10


class BundleCheck(NamedTuple):
    """The result of one check. `problem` is empty if there is none; `unknown` says that it could not be checked."""

    what: str
    problem: str = ""
    unknown: bool = False

    def as_json(self) -> dict[str, Any]:
        """Returns the result as JSON values."""
        state = "unknown" if self.unknown else "bad" if self.problem else "good"
        return {"check": self.what, "state": state, "problem": self.problem or None}


async def cluster_checks(client: Client, snapshot: CertificateSnapshot) -> list[BundleCheck]:
    """Checks every configuration with each caBundle, and every server behind its hooks."""
    checks: list[BundleCheck] = []
    by_name = {configuration.name: configuration for configuration in snapshot.stored.registered}
    for name in CONFIGURATIONS:
        if name not in by_name:
            checks.append(
                BundleCheck(name, "this configuration does not exist, so the API server does not call Rollcall")
            )
            continue
        # Hooks with the same target and the same authorities are checked once.
        hooks = {(hook.bundle, hook.host, hook.port): hook for hook in by_name[name].hooks if not is_next(hook)}
        for hook in hooks.values():
            checks += await _hook_checks(client, name, hook, snapshot)
        for hook in by_name[name].hooks:
            if is_next(hook) and hook.bundle not in {target[0] for target in hooks}:
                checks.append(BundleCheck(f"{name} {hook.name}", "its caBundle differs from that of the other hooks"))
    checks += _stored_checks(snapshot)
    return checks


async def _hook_checks(client: Client, name: str, hook: Hook, snapshot: CertificateSnapshot) -> list[BundleCheck]:
    what = f"{name} caBundle"
    if why := bundle_problem(hook.bundle, snapshot.now):
        return [BundleCheck(what, f"{hook.name}: {why}")]
    try:
        places = await places_of(client, hook)
    except (RequestFailed, Malformed) as error:
        return [
            BundleCheck(what),
            BundleCheck(f"{name} {hook.host}", f"the servers are not known: {error}", unknown=True),
        ]
    if not places:
        return [BundleCheck(what), BundleCheck(f"{name} {hook.host}", "there is no server behind the Service")]
    checks = await asyncio.gather(*(_place_check(name, hook, place) for place in places))
    if not any(place.ready for place in places):
        checks.append(BundleCheck(f"{name} {hook.host}", "no server behind the Service is ready"))
    return [BundleCheck(what), *checks]


async def _place_check(name: str, hook: Hook, place: ServerAddress) -> BundleCheck:
    what = f"{name} {place}"
    if place.trouble:
        return BundleCheck(what, place.trouble)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            _, writer = await asyncio.open_connection(
                place.host, place.port, ssl=trusting(hook.bundle), server_hostname=place.name or place.host
            )
            writer.transport.abort()
    except ssl.SSLCertVerificationError as error:
        return BundleCheck(what, f"as {place.name}: {error.verify_message}")
    except OSError as error:
        why = f"cannot be reached from here: {str(error) or type(error).__name__}"
        return BundleCheck(what, why, unknown=True)
    return BundleCheck(what)


def _stored_checks(snapshot: CertificateSnapshot) -> Iterator[BundleCheck]:
    """Checks the Secrets, and whether the caBundles trust them."""
    stored = snapshot.stored
    what = "Secret rollcall-tls"
    if stored.serving.pair is None:
        yield BundleCheck(what, stored.serving.trouble)
        return
    if stored.authority.trouble and stored.authority.data is not None:
        yield BundleCheck("Secret rollcall-ca", stored.authority.trouble)
    for configuration in stored.registered:
        for bundle, host in dict.fromkeys((hook.bundle, hook.host) for hook in configuration.hooks):
            if not bundle_problem(bundle, snapshot.now):
                yield BundleCheck(
                    f"{what} for {configuration.name}", _stored_problem(stored.serving.pair, bundle, host)
                )


def bundle_problem(bundle: bytes, now: datetime) -> str:
    """Returns what is wrong with a caBundle; empty if nothing is."""
    if not bundle:
        return "it is empty, so the API server trusts the authorities of its own machine"
    try:
        certificates = read_certificates(bundle)
    except CertificateError as error:
        return str(error)
    if not any(holds(certificate, now) for certificate in certificates):
        return "none of its certificates is valid now"
    return ""


def file_checks(certificate: Path, key: Path, authority: Path | None, names: Iterable[str]) -> list[BundleCheck]:
    """Checks a pair of files: can it be served, did the authority sign it, and is it for these names? Raises
    `CertificateError` if a file cannot be read.
    """
    what = f"{certificate} and {key}"
    bundle = None if authority is None else read_authorities(authority)
    try:
        pair = load_pair(certificate, key)
    except CertificateError as error:
        return [BundleCheck(what, str(error))]
    checks = [BundleCheck(what)]
    # Without an authority the certificate itself is trusted, to check the names, which are the most frequent mistake.
    trusted = bundle or ssl.DER_cert_to_PEM_cert(pair.leaf).encode()
    return [*checks, *(BundleCheck(f"{certificate} as {name}", handshake(pair, trusted, name)) for name in names)]


def _stored_problem(stored: KeyPair, bundle: bytes, name: str) -> str:
    """Returns why a client that trusts `bundle` would reject the stored pair as a server with that name; empty if it
    would not.
    """
    certificate = stored.certificate
    held = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    leaf = certificate.public_bytes(serialization.Encoding.DER)
    pair = Pair(Path(CERTIFICATE_FILE), Path(KEY_FILE), *held, leaf, stored.certificate_pem, stored.key_pem)
    return handshake(pair, bundle, name)


def handshake(pair: Pair, bundle: bytes, name: str) -> str:
    """Returns why a TLS handshake like the API server's, done in memory, fails; empty if it succeeds."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        load_into(server, pair)
    except (ssl.SSLError, OSError) as error:
        return str(error)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = trusting(bundle).wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(_TURNS):
        try:
            for end in (client_end, server_end):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLError as error:
            return str(error)
    return "" if client_end.getpeercert() else "the handshake does not complete"


CA, LEAF = "ca", "leaf"
# The actions for each kind, as in `rollcall_writes`.
CERTIFICATE_WRITES = {
    "Secret": ("create", "replace"),
    "MutatingWebhookConfiguration": ("apply", "disown"),
    "ValidatingWebhookConfiguration": ("apply", "disown"),
}


class CertificateMetrics:
    """The certificate metrics of one reconciler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.authorities = Gauge(
            "rollcall_ca_expiry_timestamp_seconds",
            "When the self-managed authority expires: the current one and, during a rotation, the next one; 0 "
            "if there is none.",
            ["ca"],
            registry=registry,
        )
        self.leaf = Gauge(
            "rollcall_leaf_expiry_timestamp_seconds",
            "When the stored self-managed serving certificate expires; 0 if there is none.",
            registry=registry,
        )
        self.step = Gauge(
            "rollcall_rotation_step",
            "1 for the current step of the self-managed certificates; step none: nothing is to be done.",
            ["step"],
            registry=registry,
        )
        self.rotations = Counter(
            "rollcall_rotations", "Authorities and serving certificates replaced.", ["what"], registry=registry
        )
        self.repairs = Counter(
            "rollcall_certificate_repairs",
            "Secrets of certificates that were lost or unusable and were recreated.",
            ["what"],
            registry=registry,
        )
        self.bundles = Counter(
            "rollcall_ca_bundle_writes", "Times that caBundles of a configuration were written.", registry=registry
        )
        self.failures = Counter(
            "rollcall_certificate_failures",
            "Times that a step of the self-managed certificates failed.",
            registry=registry,
        )
        for which in ("current", "next"):
            self.authorities.labels(which)
        for what in (CA, LEAF):
            self.rotations.labels(what)
            self.repairs.labels(what)
        for step in RotationStep:
            self.step.labels(step.value)

    def show(self, stored: Stored) -> None:
        authority = stored.authority
        self.authorities.labels("current").set(_end(authority.current))
        self.authorities.labels("next").set(_end(authority.next))
        self.leaf.set(_end(stored.serving.pair))

    def show_step(self, now: RotationStep) -> None:
        """Sets the metric of the next step."""
        for step in RotationStep:
            self.step.labels(step.value).set(1 if step is now else 0)


def _end(pair: KeyPair | None) -> float:
    return 0.0 if pair is None else pair.certificate.not_valid_after_utc.timestamp()
