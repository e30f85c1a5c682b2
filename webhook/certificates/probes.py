"""Whether the API server can trust the servers: tests each caBundle against each server with a TLS handshake like the
API server's.

Nothing is written, and keys are never shown. A server that cannot be reached from here is reported as unknown, never as
good.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import serialization

from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE, Pair, load_into, load_pair, read_authorities
from webhook.certificates.observation import HANDSHAKE_SECONDS, Place, places_of
from webhook.certificates.snapshot import CONFIGURATIONS, Snapshot
from webhook.certificates.state import Hook, is_next
from webhook.certificates.x509 import KeyPair, holds, read_certificates
from webhook.cluster.client import Client
from webhook.errors import CertificateError, RequestFailed
from webhook.model.reading import Malformed
from webhook.network.client_tls import trusting

# Upper bound of the steps of an in-memory handshake; TLS 1.3 takes three.
_TURNS = 10


class Check(NamedTuple):
    """The result of one check. `problem` is empty if there is none; `unknown` says that it could not be checked."""

    what: str
    problem: str = ""
    unknown: bool = False

    def as_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        state = "unknown" if self.unknown else "bad" if self.problem else "good"
        return {"check": self.what, "state": state, "problem": self.problem or None}


async def cluster_checks(client: Client, snapshot: Snapshot) -> list[Check]:
    """Check every configuration with each caBundle, and every server behind its hooks."""
    found: list[Check] = []
    known = {one.name: one for one in snapshot.stored.registered}
    for name in CONFIGURATIONS:
        if name not in known:
            found.append(Check(name, "this configuration does not exist, so the API server does not call Rollcall"))
            continue
        # Hooks with the same target and the same authorities are checked once.
        hooks = {(hook.bundle, hook.host, hook.port): hook for hook in known[name].hooks if not is_next(hook)}
        for hook in hooks.values():
            found += await _hook_checks(client, name, hook, snapshot)
        for hook in known[name].hooks:
            if is_next(hook) and hook.bundle not in {one[0] for one in hooks}:
                found.append(Check(f"{name} {hook.name}", "its caBundle differs from that of the other hooks"))
    found += _stored_checks(snapshot)
    return found


async def _hook_checks(client: Client, name: str, hook: Hook, snapshot: Snapshot) -> list[Check]:
    what = f"{name} caBundle"
    if why := bundle_problem(hook.bundle, snapshot.now):
        return [Check(what, f"{hook.name}: {why}")]
    try:
        places = await places_of(client, hook)
    except (RequestFailed, Malformed) as error:
        return [Check(what), Check(f"{name} {hook.host}", f"the servers are not known: {error}", unknown=True)]
    if not places:
        return [Check(what), Check(f"{name} {hook.host}", "there is no server behind the Service")]
    checks = await asyncio.gather(*(_place_check(name, hook, place) for place in places))
    if not any(place.ready for place in places):
        checks.append(Check(f"{name} {hook.host}", "no server behind the Service is ready"))
    return [Check(what), *checks]


async def _place_check(name: str, hook: Hook, place: Place) -> Check:
    what = f"{name} {place}"
    if place.trouble:
        return Check(what, place.trouble)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            _, writer = await asyncio.open_connection(
                place.host, place.port, ssl=trusting(hook.bundle), server_hostname=place.name or place.host
            )
            writer.transport.abort()
    except ssl.SSLCertVerificationError as error:
        return Check(what, f"as {place.name}: {error.verify_message}")
    except OSError as error:
        why = f"cannot be reached from here: {str(error) or type(error).__name__}"
        return Check(what, why, unknown=True)
    return Check(what)


def _stored_checks(snapshot: Snapshot) -> Iterator[Check]:
    """Check the Secrets, and whether the caBundles trust them."""
    stored = snapshot.stored
    what = "Secret rollcall-tls"
    if stored.serving.pair is None:
        yield Check(what, stored.serving.trouble)
        return
    if stored.authority.trouble and stored.authority.data is not None:
        yield Check("Secret rollcall-ca", stored.authority.trouble)
    for one in stored.registered:
        for bundle, host in dict.fromkeys((hook.bundle, hook.host) for hook in one.hooks):
            if not bundle_problem(bundle, snapshot.now):
                yield Check(f"{what} for {one.name}", _stored_problem(stored.serving.pair, bundle, host))


def bundle_problem(bundle: bytes, now: datetime) -> str:
    """What is wrong with a caBundle; empty if nothing is."""
    if not bundle:
        return "it is empty, so the API server trusts the authorities of its own machine"
    try:
        certificates = read_certificates(bundle)
    except CertificateError as error:
        return str(error)
    if not any(holds(one, now) for one in certificates):
        return "none of its certificates is valid now"
    return ""


def file_checks(certificate: Path, key: Path, authority: Path | None, names: Iterable[str]) -> list[Check]:
    """Check a pair of files: can it be served, did the authority sign it, and is it for these names? Raises
    `CertificateError` if a file cannot be read.
    """
    what = f"{certificate} and {key}"
    bundle = None if authority is None else read_authorities(authority)
    try:
        pair = load_pair(certificate, key)
    except CertificateError as error:
        return [Check(what, str(error))]
    found = [Check(what)]
    # Without an authority the certificate itself is trusted, to check the names, which are the most frequent mistake.
    trusted = bundle or ssl.DER_cert_to_PEM_cert(pair.leaf).encode()
    return [*found, *(Check(f"{certificate} as {name}", handshake(pair, trusted, name)) for name in names)]


def _stored_problem(stored: KeyPair, bundle: bytes, name: str) -> str:
    """Why a client that trusts `bundle` would reject the stored pair as a server with that name; empty if it
    would not.
    """
    found = stored.certificate
    held = found.not_valid_before_utc, found.not_valid_after_utc
    leaf = found.public_bytes(serialization.Encoding.DER)
    pair = Pair(Path(CERTIFICATE_FILE), Path(KEY_FILE), *held, leaf, stored.certificate_pem, stored.key_pem)
    return handshake(pair, bundle, name)


def handshake(pair: Pair, bundle: bytes, name: str) -> str:
    """Why a TLS handshake like the API server's, done in memory, fails; empty if it succeeds."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        load_into(server, pair)
    except (ssl.SSLError, OSError) as error:
        return str(error)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asked = server.wrap_bio(to_server, to_client, server_side=True)
    asking = trusting(bundle).wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(_TURNS):
        try:
            for one in (asking, asked):
                try:
                    one.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLError as error:
            return str(error)
    return "" if asking.getpeercert() else "the handshake does not complete"
