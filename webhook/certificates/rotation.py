"""Requests a rotation from the leader by an annotation on a Secret, and waits until it is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from webhook.certificates.plan import Idle, Seen, plan
from webhook.certificates.snapshot import Snapshot, read_snapshot
from webhook.certificates.state import ROTATE_ANNOTATION
from webhook.certificates.x509 import KeyPair, fingerprint
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.config.reconciler_settings import Certificates
from webhook.errors import FactsUnavailable, NotFound
from webhook.installation.names import CA_SECRET, TLS_SECRET
from webhook.model.kubernetes_kinds import SECRETS
from webhook.model.reading import mapping

LOOK_SECONDS = 1.0


class Before(NamedTuple):
    """The certificate or authority to replace."""

    authority: bool
    fingerprint: str


async def ask_for_rotation(client: Client, namespace: str, *, authority: bool, clock: Clock = MACHINE_CLOCK) -> Before:
    """Request a rotation. Raises `RequestFailed`, and `FactsUnavailable` if no reconciler would carry it out."""
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
    asked = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    try:
        await client.write(requests.apply(SECRETS, asked, "rollcall-certs"))
    except NotFound as error:
        raise FactsUnavailable(f"the Secret {namespace}/{name} was deleted: {error}") from None
    return Before(authority, _current(snapshot, authority=authority))


async def until_rotated(
    client: Client,
    namespace: str,
    before: Before,
    seconds: float,
    told: Callable[[str], None],
    *,
    clock: Clock = MACHINE_CLOCK,
) -> str:
    """Wait for the end of the rotation; return the new fingerprint. `told` is called with each step. Raises like
    `ask_for_rotation`.
    """
    end, said = clock.monotonic() + seconds, ""
    while True:
        snapshot = await read_snapshot(client, namespace, clock=clock)
        stored = snapshot.stored
        asked = stored.authority.asked if before.authority else stored.serving.asked
        now = _current(snapshot, authority=before.authority)
        action = plan(stored, snapshot.now, Seen(), Certificates(self_managed=True, renew_at=1.0))
        if not asked and now != before.fingerprint and (not before.authority or isinstance(action, Idle)):
            return now
        if action.step.value != said:
            said = action.step.value
            told(f"step {said}")
        if clock.monotonic() > end:
            raise FactsUnavailable(
                f"the rotation is not finished after {seconds:g} s: it is at step {said}; the events of the "
                f"Secrets in {namespace} and the reconciler's log say what it waits for"
            )
        await asyncio.sleep(LOOK_SECONDS)


def _current(snapshot: Snapshot, *, authority: bool) -> str:
    stored = snapshot.stored
    found: KeyPair | None = stored.authority.current if authority else stored.serving.pair
    return "" if found is None else fingerprint(found.certificate)
