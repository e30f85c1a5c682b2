"""Runs the certificate controller against a simulated API and observes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from tests.played import PlayedClock
from tests.series import value
from tests.unit.certificates.certificate_world import NAMESPACE, SETTINGS
from tests.unit.reconciler.certificate_api import SECRETS, CertificateApi
from tests.unit.reconciler.running_reconciler import NOWHERE, at_once
from webhook.cluster.client import Client
from webhook.cluster.clock import Clock
from webhook.config.settings import Certificates
from webhook.reconciler.certificates import LOOK_SECONDS, CertificateController
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.writer import Writer

IMMEDIATE = replace(SETTINGS, overlap=timedelta(0))


class Kept:
    """A controller that keeps the certificates of an API."""

    def __init__(self, api: CertificateApi, settings: Certificates, clock: Clock) -> None:
        self.api = api
        self.metrics = ReconcilerMetrics()
        self.leading = True
        client = at_once(Client(NOWHERE, api, clock=clock))
        writer = Writer(client, self.leads, self.metrics)
        events = Events(client, self.metrics, "me", self.leads, clock=clock)
        self.controller = CertificateController(
            settings,
            NAMESPACE,
            access=NOWHERE,
            transport=api,
            client=client,
            writer=writer,
            events=events,
            metrics=self.metrics,
            leads=self.leads,
            clock=clock,
        )
        # The rounds that began, and the pause after each one that ended.
        self.rounds = 0
        self.rests: list[float] = []
        attempt = self.controller._attempt

        async def counted() -> float:
            self.rounds += 1
            self.rests.append(await attempt())
            return self.rests[-1]

        self.controller._attempt = counted  # type: ignore[method-assign]

    @property
    def resting(self) -> bool:
        """Whether everything is read and the next round begins only at its time or at a change."""
        return (
            all(watch.filled for watch in self.controller.watches())
            and self.rounds == len(self.rests)
            and self.rests[-1] == LOOK_SECONDS
            and not self.controller._woken.is_set()
        )

    def leads(self) -> bool:
        return self.leading

    def metric(self, name: str, **labels: str) -> float:
        return value(self.metrics.registry, name, **labels) or 0.0

    def at(self, step: str) -> bool:
        return self.metric("rollcall_rotation_step", step=step) == 1

    def ask_for(self, name: str) -> None:
        """As `rollcall certs rotate` does."""
        self.api.objects[f"{SECRETS}/{name}"]["metadata"]["annotations"] = {"rollcall.dev/rotate": "now"}


@asynccontextmanager
async def keeping(
    api: CertificateApi, settings: Certificates = IMMEDIATE, clock: Clock | None = None
) -> AsyncIterator[Kept]:
    found = Kept(api, settings, clock or PlayedClock())
    running = asyncio.create_task(found.controller.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
