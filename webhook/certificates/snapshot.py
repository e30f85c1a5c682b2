"""Reads the stored state of certificates: two Secrets and two webhook configurations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from webhook.certificates.state import Registered, Stored, authority_state, registered, serving_state
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound
from webhook.installation.names import CA_SECRET, MUTATING, TLS_SECRET, VALIDATING
from webhook.model.kubernetes_kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from webhook.model.projections import NAMESPACES
from webhook.model.reading import Manifest

CONFIGURATIONS = {MUTATING: MUTATING_WEBHOOKS, VALIDATING: VALIDATING_WEBHOOKS}


class StoredCertificate(NamedTuple):
    """A Secret with certificates."""

    namespace: str
    name: str
    uid: str | None


class Snapshot(NamedTuple):
    """The stored state as it was read, with the whole Secrets (to write them back) and the API server's time."""

    stored: Stored
    secrets: Mapping[str, Manifest | None]
    now: datetime

    def regarded(self, name: str) -> StoredCertificate:
        """The Secret as the object of an event."""
        live = self.secrets[name]
        return StoredCertificate(self.stored.namespace, name, None if live is None else live["metadata"].get("uid"))


async def read_snapshot(client: Client, namespace: str, *, clock: Clock = MACHINE_CLOCK) -> Snapshot:
    """Read the state. Raises `RequestFailed`; a missing object is not an error."""
    now: datetime | None = None
    found: dict[str, Manifest | None] = {}
    for name in (CA_SECRET, TLS_SECRET):
        try:
            answer = await client.get(requests.read(SECRETS, name, namespace))
            found[name], now = answer.content, _time(answer.date) or now
        except NotFound:
            found[name] = None
    configurations: list[Registered] = []
    for name, resource in CONFIGURATIONS.items():
        try:
            answer = await client.get(requests.read(resource, name))
        except NotFound:
            continue
        now = _time(answer.date) or now
        configurations.append(registered({**answer.content, "kind": resource.api.kind}, namespace))
    stored = Stored(
        namespace, authority_state(found[CA_SECRET]), serving_state(found[TLS_SECRET]), tuple(configurations)
    )
    if now is None:
        # The namespace is read for its Date header: a response for a missing object gives no time here.
        now = _time((await client.get(requests.read(NAMESPACES.resource, namespace))).date)
    return Snapshot(stored, found, now or clock.now())


def _time(date: str | None) -> datetime | None:
    """The time of an HTTP Date header."""
    try:
        return None if date is None else parsedate_to_datetime(date)
    except ValueError:
        return None
