"""Runs the certificate controller against a simulated API and observes it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from tests.unit.certificates.certificate_world import NAMESPACE, SETTINGS
from tests.unit.reconciler.certificate_api import SECRETS, CertificateApi
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.config.reconciler_settings import Certificates
from webhook.reconciler.certificates import LOOK_SECONDS, CertificateController
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.writer import Writer

IMMEDIATE = replace(SETTINGS, overlap=timedelta(0))


class Kept:
    """A controller that keeps the certificates of an API."""

    def __init__(self, api: CertificateApi, settings: Certificates) -> None:
        self.api = api
        self.metrics = Metrics()
        self.leading = True
        access = Access("https://cluster", ssl.create_default_context(), lambda: None)
        client = Client(access, api)
        writer = Writer(client, self.leads, self.metrics)
        events = Events(client, self.metrics, "me", self.leads)
        self.controller = CertificateController(
            settings,
            NAMESPACE,
            access=access,
            transport=api,
            client=client,
            writer=writer,
            events=events,
            metrics=self.metrics,
            leads=self.leads,
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
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def at(self, step: str) -> bool:
        return self.metric("rollcall_rotation_step", step=step) == 1

    def ask_for(self, name: str) -> None:
        """As `rollcall certs rotate` does."""
        self.api.objects[f"{SECRETS}/{name}"]["metadata"]["annotations"] = {"rollcall.dev/rotate": "now"}


@asynccontextmanager
async def keeping(api: CertificateApi, settings: Certificates = IMMEDIATE) -> AsyncIterator[Kept]:
    found = Kept(api, settings)
    running = asyncio.create_task(found.controller.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(probe: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not probe():
            await asyncio.sleep(0.005)
