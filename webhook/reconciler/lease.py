"""Leader election by Lease: only the leader writes. If it stops, another process takes over.

The protocol is that of client-go's leaderelection. The holder renews the Lease. The others wait until they have seen
the same record for its whole duration, measured by their own clock, because clocks of machines differ. The process
that then replaces the record in the version it read becomes the leader. The holder stops writing well before the
others may begin.

`Clock.monotonic` does not count the time in which a machine sleeps, or a virtual one is stopped, but the date goes on.
So a holder stops by whichever of the two has gone further, and the others wait by `Clock.monotonic` alone: a date that
jumps makes no second leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import log, outline
from webhook.errors import NotFound, RequestFailed
from webhook.model.known_kinds import LEASES
from webhook.model.reading import Manifest, mapping
from webhook.reconciler.metrics import ReconcilerMetrics

# How long the others wait for a silent holder. The value of kube-controller-manager.
LEASE_SECONDS = 15.0
# A holder that has not renewed for this long stops writing: its last write must end before another process begins.
RENEW_SECONDS = 10.0
RETRY_SECONDS = 2.0
# The longest time of a write: it starts before RENEW_SECONDS and must end before LEASE_SECONDS.
WRITE_SECONDS = LEASE_SECONDS - RENEW_SECONDS
_CONFLICT = 409


class _ClockReading(NamedTuple):
    """One moment, by both clocks."""

    at: float
    date: datetime


class Lease:
    """The Lease of that name. `run` keeps trying to hold it; `leads` returns whether this process may write."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        metrics: ReconcilerMetrics,
        changed: Callable[[bool], None],
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._name = name
        self._metrics = metrics
        self._changed = changed
        self._clock = clock
        # When the last renewal was sent.
        self._renewed: _ClockReading | None = None
        # The version of another holder's record, and since when it is unchanged.
        self._seen: tuple[str, float] = ("", 0.0)
        self._trouble: str | None = None
        # Whether it was too late for a write at any moment since then.
        self._lapsed = False

    def leads(self) -> bool:
        """Returns whether this process holds the Lease, and long enough for a write to end."""
        if self._renewed is None:
            return False
        now = self._moment()
        age = max(now.at - self._renewed.at, (now.date - self._renewed.date).total_seconds())
        self._lapsed = self._lapsed or age >= RENEW_SECONDS
        return age < RENEW_SECONDS

    async def run(self) -> None:
        """Acquires and renews the Lease until cancelled, and then releases it: no process need wait then."""
        try:
            while True:
                await self._attempt()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            if self._renewed is not None:
                self._lead(None)
                await self._release()

    async def _attempt(self) -> None:
        sent = self._moment()
        try:
            async with asyncio.timeout(RENEW_SECONDS / 2):
                held = await self._acquire()
        except (RequestFailed, TimeoutError) as error:
            held = False
            if (why := outline(error) or "no answer in time") != self._trouble:
                self._trouble = why
                log.info("lease not renewed", why=why)
        else:
            self._trouble = None
        if held:
            self._lead(sent)
        elif self._renewed is not None and not self.leads():
            self._metrics.lease_lost.inc()
            self._lead(None)

    async def _acquire(self) -> bool:
        """Tries once. Returns whether this process holds the Lease now. Raises `RequestFailed`."""
        try:
            live = (await self._client.get(requests.read(LEASES, self._name, self._namespace))).content
        except NotFound:
            await self._client.write(requests.create(LEASES, self._record(None)))
            return True
        spec = mapping(live.get("spec"))
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self.identity} and not self._expired(live):
            if self._renewed is not None:
                # Another process took the Lease. Two must never write, so this one stops.
                self._metrics.lease_lost.inc()
                self._lead(None)
            return False
        try:
            await self._client.write(requests.replace(LEASES, self._record(live)))
        except RequestFailed as error:
            if error.code == _CONFLICT:
                return False
            raise
        return True

    def _expired(self, live: Manifest) -> bool:
        version, now = str(live["metadata"].get("resourceVersion")), self._clock.monotonic()
        if version != self._seen[0]:
            self._seen = (version, now)
        good_for = mapping(live.get("spec")).get("leaseDurationSeconds")
        return now - self._seen[1] > (good_for if isinstance(good_for, int) else LEASE_SECONDS)

    def _record(self, live: Manifest | None, *, released: bool = False) -> Manifest:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before: Any = {} if live is None else dict(mapping(live.get("spec")))
        moved = before.get("holderIdentity") != self.identity
        spec = {
            "holderIdentity": "" if released else self.identity,
            "leaseDurationSeconds": 1 if released else int(LEASE_SECONDS),
            "acquireTime": now if moved else before.get("acquireTime", now),
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (1 if moved and live is not None else 0),
        }
        metadata = {"name": self._name, "namespace": self._namespace} if live is None else live["metadata"]
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                live = (await self._client.get(requests.read(LEASES, self._name, self._namespace))).content
                if mapping(live.get("spec")).get("holderIdentity") == self.identity:
                    await self._client.write(requests.replace(LEASES, self._record(live, released=True)))
                    log.info("lease given up")
        except (RequestFailed, TimeoutError) as error:
            log.info("lease not released", why=outline(error) or "no answer in time")

    def _moment(self) -> _ClockReading:
        return _ClockReading(self._clock.monotonic(), self._clock.now())

    def _lead(self, since: _ClockReading | None) -> None:
        led = self._renewed is not None
        lapsed = led and (not self.leads() or self._lapsed)
        self._renewed, self._lapsed = since, False
        # Renewed too late: work was skipped in between as if this process did not lead.
        if led is not (since is not None) or (lapsed and since is not None):
            self._metrics.leads.set(0 if since is None else 1)
            log.info("leading" if since is not None else "following", identity=self.identity)
            self._changed(since is not None)
