"""Events on PodGangs: what keeps a gang from its objects, said once and not at every attempt.

Source: events.k8s.io/v1; the API server keeps an event for an hour.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import RequestFailed
from webhook.logs import log
from webhook.model.facts import Api
from webhook.model.podgang import PodGang
from webhook.model.projections import POD_GANGS, Resource
from webhook.reconciler.metrics import Metrics

EVENTS = Resource(Api("events.k8s.io", "v1", "Event"), "events")
# The API server's limit for a note.
MAX_NOTE_BYTES = 1024
# The same thing is said again after so long: before the API server forgets it.
REPEAT_SECONDS = 1800.0
# What was said is remembered for so many gangs.
MEMORY = 10_000


class Reason(StrEnum):
    """Why, in one word; a metric's label."""

    INEXPRESSIBLE = "GangInexpressible"
    CONFLICT = "GangObjectOwned"
    REFUSED = "GangObjectRefused"
    FROZEN = "GangShapeFrozen"


class _Said(NamedTuple):
    note: str
    at: float


class Events:
    """Says things about PodGangs. What cannot be written is logged: nobody's gang waits for an event."""

    def __init__(
        self, client: Client, metrics: Metrics, instance: str, leads: Callable[[], bool], *, dry_run: bool = False
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._instance = instance
        self._leads = leads
        self._dry_run = dry_run
        self._said: OrderedDict[tuple[str, Reason], _Said] = OrderedDict()

    async def warn(self, podgang: PodGang, reason: Reason, note: str) -> None:
        """A Warning on the PodGang, unless it was the last thing said for that reason, and not long ago."""
        about, now = (podgang.uid or "", reason), time.monotonic()
        before = self._said.get(about)
        if before is not None and before.note == note and now - before.at < REPEAT_SECONDS:
            return
        self._said[about] = _Said(note, now)
        self._said.move_to_end(about)
        while len(self._said) > MEMORY:
            self._said.popitem(last=False)
        log.warning("gang", reason=reason, namespace=podgang.namespace, name=podgang.name, why=note)
        if self._dry_run or not self._leads():
            return
        try:
            await self._client.write(requests.create(EVENTS, self._event(podgang, reason, note)))
        except RequestFailed as error:
            log.info("event not written", reason=reason, namespace=podgang.namespace, why=str(error))
        else:
            self._metrics.events.labels(reason.value).inc()

    def well(self, podgang: PodGang) -> None:
        """All is well with it: whatever comes next is news."""
        for reason in Reason:
            self._said.pop((podgang.uid or "", reason), None)

    def _event(self, podgang: PodGang, reason: Reason, note: str) -> dict[str, object]:
        api = POD_GANGS.resource.api
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{podgang.name[:200]}.{secrets.token_hex(8)}", "namespace": podgang.namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning",
            "reason": reason.value,
            "action": "WriteGangObjects",
            "note": note.encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
            "reportingController": "rollcall.dev/reconciler",
            "reportingInstance": self._instance[:128],
            "regarding": {
                "apiVersion": f"{api.group}/{api.version}",
                "kind": api.kind,
                "name": podgang.name,
                "namespace": podgang.namespace,
                "uid": podgang.uid,
            },
        }
