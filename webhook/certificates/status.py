"""The certificates that a cluster has stored: reads them, shows them with the next step as text or JSON, and requests
a rotation. No keys are shown.

They are two Secrets and two webhook configurations. A rotation is requested from the leader by an annotation on a
Secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from cryptography import x509

from webhook.certificates.renewal import (
    ROTATE_ANNOTATION,
    Idle,
    Registered,
    RotationStep,
    SeenCertificates,
    Stored,
    authority_state,
    leaf_renewal,
    plan,
    readable,
    registered,
    serving_state,
)
from webhook.certificates.x509 import KeyPair, fingerprint, renewal
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.config.settings import Certificates
from webhook.errors import CertificateError, FactsUnavailable, NotFound
from webhook.installation.names import CA_SECRET, MUTATING, TLS_SECRET, VALIDATING
from webhook.model.known_kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from webhook.model.projections import NAMESPACES
from webhook.model.reading import Manifest, mapping

CONFIGURATIONS = {MUTATING: MUTATING_WEBHOOKS, VALIDATING: VALIDATING_WEBHOOKS}


class StoredCertificate(NamedTuple):
    """A Secret with certificates."""

    namespace: str
    name: str
    uid: str | None


class CertificateSnapshot(NamedTuple):
    """The stored state as it was read, with the whole Secrets (to write them back) and the API server's time."""

    stored: Stored
    secrets: Mapping[str, Manifest | None]
    now: datetime

    def regarded(self, name: str) -> StoredCertificate:
        """Returns the Secret as the object of an event."""
        live = self.secrets[name]
        return StoredCertificate(self.stored.namespace, name, None if live is None else live["metadata"].get("uid"))


async def read_snapshot(client: Client, namespace: str, *, clock: Clock = MACHINE_CLOCK) -> CertificateSnapshot:
    """Reads the state. Raises `RequestFailed`; a missing object is not an error."""
    now: datetime | None = None
    secrets: dict[str, Manifest | None] = {}
    for name in (CA_SECRET, TLS_SECRET):
        try:
            answer = await client.get(requests.read(SECRETS, name, namespace))
            secrets[name], now = answer.content, _time(answer.date) or now
        except NotFound:
            secrets[name] = None
    configurations: list[Registered] = []
    for name, resource in CONFIGURATIONS.items():
        try:
            answer = await client.get(requests.read(resource, name))
        except NotFound:
            continue
        now = _time(answer.date) or now
        configurations.append(registered({**answer.content, "kind": resource.api.kind}, namespace))
    stored = Stored(
        namespace, authority_state(secrets[CA_SECRET]), serving_state(secrets[TLS_SECRET]), tuple(configurations)
    )
    if now is None:
        # The namespace is read for its Date header: a response for a missing object gives no time here.
        now = _time((await client.get(requests.read(NAMESPACES.resource, namespace))).date)
    return CertificateSnapshot(stored, secrets, now or clock.now())


def _time(date: str | None) -> datetime | None:
    """Returns the time of an HTTP Date header."""
    try:
        return None if date is None else parsedate_to_datetime(date)
    except ValueError:
        return None


# This many characters of a fingerprint are enough to tell certificates apart.
_SHOWN = 16


def status_of(snapshot: CertificateSnapshot, settings: Certificates) -> dict[str, Any]:
    """Returns the status as JSON values. `authority` is null if certificates are not self-managed here."""
    stored = snapshot.stored
    # Other tools use a Secret with this name too.
    kept = settings.self_managed or not stored.authority.trouble
    return {
        "namespace": stored.namespace,
        "selfManaged": kept,
        "step": _step(snapshot, settings).value if kept else None,
        "asked": [
            name
            for name, requested in (
                ("ca", stored.authority.rotation_requested),
                ("leaf", stored.serving.rotation_requested),
            )
            if requested
        ],
        "authority": {
            "current": [
                _shown(certificate, renewal(certificate, settings.renew_at) if stored.authority.current else None)
                for certificate in stored.authority.trusted
            ],
            "next": _shown_pair(stored.authority.next),
            "trouble": stored.authority.trouble or None,
        }
        if kept
        else None,
        "serving": {
            "current": _shown_pair(stored.serving.pair, leaf_renewal(stored, snapshot.now, settings) if kept else None),
            "next": _shown_pair(stored.serving.next),
            "trouble": stored.serving.trouble or None,
        },
        "configurations": [
            _configuration(configuration, stored.authority.bundle if kept else None)
            for configuration in stored.registered
        ],
    }


def _step(snapshot: CertificateSnapshot, settings: Certificates) -> RotationStep:
    try:
        action = plan(snapshot.stored, snapshot.now, SeenCertificates(), settings)
    except CertificateError:
        return RotationStep.LEAF
    return RotationStep.NONE if isinstance(action, Idle) else action.step


def _shown_pair(pair: KeyPair | None, due: datetime | None = None) -> dict[str, Any] | None:
    return None if pair is None else _shown(pair.certificate, due)


def _shown(certificate: x509.Certificate, due: datetime | None = None) -> dict[str, Any]:
    """Returns the certificate as JSON values; `due` is when it is to be renewed."""
    shown = {
        "fingerprint": fingerprint(certificate),
        "subject": certificate.subject.rfc4514_string(),
        "notBefore": certificate.not_valid_before_utc.isoformat(),
        "notAfter": certificate.not_valid_after_utc.isoformat(),
    }
    if due is not None:
        shown["renewed"] = due.isoformat(timespec="seconds")
    return shown


def _configuration(configuration: Registered, bundle: bytes | None) -> dict[str, Any]:
    trusted = dict.fromkeys(
        fingerprint(certificate) for hook in configuration.hooks for certificate in readable(hook.bundle)
    )
    differing = [
        hook.name
        for hook in configuration.hooks
        if hook.bundle != (configuration.hooks[0].bundle if bundle is None else bundle)
    ]
    return {
        "name": configuration.name,
        "trusts": list(trusted),
        # Hooks whose caBundle is wrong or differs from the others.
        "differing": differing,
        "goesWithNamespace": configuration.owned,
    }


def status_text(status: dict[str, Any]) -> Iterator[str]:
    """Yields the status as lines of text."""
    authority, serving = status["authority"], status["serving"]
    if authority is not None:
        for entry in authority["current"]:
            yield _line("authority", entry)
        if authority["next"] is not None:
            yield _line("next authority", authority["next"])
        yield from _trouble("authority", authority["trouble"])
    if serving["current"] is not None:
        yield _line("certificate", serving["current"])
    if serving["next"] is not None:
        yield _line("next certificate", serving["next"])
    yield from _trouble("certificate", serving["trouble"])
    for entry in status["configurations"]:
        trusts = ", ".join(digest[:_SHOWN] for digest in entry["trusts"]) or "no authority"
        differs = f"; differs in: {', '.join(entry['differing'])}" if entry["differing"] else ""
        yield f"{entry['name']:18}trusts {trusts}{differs}"
    if not status["configurations"]:
        yield f"{'configurations':18}none exist, so the API server does not call Rollcall"
    for what in status["asked"]:
        yield f"{'asked for':18}{what}"
    if status["step"] is not None:
        yield f"{'step':18}{status['step']}"


def _line(what: str, certificate: dict[str, Any]) -> str:
    renewed = f", renewal due {certificate['renewed']}" if "renewed" in certificate else ""
    return f"{what:18}{certificate['fingerprint'][:_SHOWN]} until {certificate['notAfter']}{renewed}"


def _trouble(what: str, why: str | None) -> Iterator[str]:
    if why:
        yield f"{what:18}{why}"


LOOK_SECONDS = 1.0


class Before(NamedTuple):
    """The certificate or authority to replace."""

    authority: bool
    fingerprint: str


async def ask_for_rotation(client: Client, namespace: str, *, authority: bool, clock: Clock = MACHINE_CLOCK) -> Before:
    """Requests a rotation. Raises `RequestFailed`, and `FactsUnavailable` if no reconciler would carry it out."""
    snapshot = await read_snapshot(client, namespace, clock=clock)
    if why := snapshot.stored.authority.trouble:
        raise FactsUnavailable(
            f"the Secret {namespace}/{CA_SECRET} has no authority of the reconciler ({why}): certificates are "
            f"not self-managed here, or the reconciler has not started"
        )
    name = CA_SECRET if authority else TLS_SECRET
    live = snapshot.secrets[name]
    if live is None:
        raise FactsUnavailable(f"the Secret {namespace}/{name} does not exist; the reconciler creates it when it can")
    metadata = {
        "name": name,
        "namespace": namespace,
        # A deleted Secret must not be recreated.
        "uid": mapping(live.get("metadata")).get("uid"),
        "annotations": {ROTATE_ANNOTATION: clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")},
    }
    request = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    try:
        await client.write(requests.apply(SECRETS, request, "rollcall-certs"))
    except NotFound as error:
        raise FactsUnavailable(f"the Secret {namespace}/{name} was deleted: {error}") from None
    return Before(authority, _current(snapshot, authority=authority))


async def wait_for_rotation(
    client: Client,
    namespace: str,
    before: Before,
    seconds: float,
    report: Callable[[str], None],
    *,
    clock: Clock = MACHINE_CLOCK,
) -> str:
    """Waits for the end of the rotation and returns the new fingerprint. `report` is called with each step. Raises like
    `ask_for_rotation`.
    """
    end, step = clock.monotonic() + seconds, ""
    while True:
        snapshot = await read_snapshot(client, namespace, clock=clock)
        stored = snapshot.stored
        pending = stored.authority.rotation_requested if before.authority else stored.serving.rotation_requested
        now = _current(snapshot, authority=before.authority)
        action = plan(stored, snapshot.now, SeenCertificates(), Certificates(self_managed=True, renew_at=1.0))
        if not pending and now != before.fingerprint and (not before.authority or isinstance(action, Idle)):
            return now
        if action.step.value != step:
            step = action.step.value
            report(f"step {step}")
        if clock.monotonic() > end:
            raise FactsUnavailable(
                f"the rotation is not finished after {seconds:g} s: it is at step {step}; the events of the "
                f"Secrets in {namespace} and the reconciler's log say what it waits for"
            )
        await asyncio.sleep(LOOK_SECONDS)


def _current(snapshot: CertificateSnapshot, *, authority: bool) -> str:
    stored = snapshot.stored
    pair: KeyPair | None = stored.authority.current if authority else stored.serving.pair
    return "" if pair is None else fingerprint(pair.certificate)
