"""Self-managed certificates: reads what is stored, carries out the next step of the plan, and waits where it must.

Only the leader does this. In a steady state it writes nothing, and reads only every `LOOK_SECONDS`; watches wake it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from webhook.certificates.observation import StableSince, unproven, unserved
from webhook.certificates.plan import (
    CheckServers,
    Idle,
    ProbeTrust,
    Promote,
    Publish,
    Seen,
    Step,
    plan,
)
from webhook.certificates.snapshot import CONFIGURATIONS, Snapshot, StoredCertificate, read_snapshot
from webhook.certificates.x509 import fingerprint
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.access import Access
from webhook.cluster.backoff import doubled
from webhook.cluster.client import Client
from webhook.cluster.watch import Watch
from webhook.config.reconciler_settings import Certificates
from webhook.errors import CertificateError, NotLeading, RequestFailed
from webhook.gangs.hold_reasons import CertificateReason
from webhook.installation.names import CA_SECRET, TLS_SECRET
from webhook.model.keys import Api
from webhook.model.kubernetes_kinds import SECRETS
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping
from webhook.reconciler.certificate_writer import CertificateWriting
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.writer import REFUSALS, Writer
from webhook.telemetry.logs import log, outline

# Interval of a full check, independent of the watches.
LOOK_SECONDS = 600.0
# Shortest and longest pause while waiting; in between, it is a part of the overlap.
WAIT_SECONDS = (0.2, 5.0)
# Pause after a failure: doubled for each failure in a row, up to the second value.
RETRY_SECONDS = (0.2, 60.0)
# Another client overwrote the caBundle if the same one must be written again so soon. Two such clients must not
# overload the API server: the pause doubles each time, up to the second value, and starts again after a minute without
# a write.
INSIST_SECONDS = (0.2, 5.0)
CALM_SECONDS = 60.0
# A rotation waits for kubelets, which takes a minute or two. A longer wait is reported.
PATIENCE_SECONDS = 300.0


class RewriteBackoff:
    """Backoff for writing the same content again."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        # By name: the content last written, how often in a row, and the time of the last write.
        self._written: dict[str, tuple[bytes, int, float]] = {}

    def rest(self, name: str, content: bytes) -> float:
        """The seconds to wait before this content may be written to that name again."""
        before, times, last = self._written.get(name, (b"", 0, 0.0))
        if before != content or not times:
            return 0.0
        return max(0.0, last + doubled(INSIST_SECONDS, times) - self._clock.monotonic())

    def wrote(self, name: str, content: bytes) -> None:
        """Record that this content was written to that name now."""
        before, times, last = self._written.get(name, (b"", 0, 0.0))
        again = before == content and self._clock.monotonic() - last < CALM_SECONDS
        self._written[name] = content, times + 1 if again else 1, self._clock.monotonic()


class CertificateController:
    """Maintains the certificates. `run` works until cancelled; call `wake` when this process starts or stops
    leading.
    """

    def __init__(  # noqa: PLR0913 - whom it reads from, writes and tells by
        self,
        settings: Certificates,
        namespace: str,
        *,
        access: Access,
        transport: httpx.AsyncBaseTransport | None,
        client: Client,
        writer: Writer,
        events: Events,
        metrics: Metrics,
        leads: Callable[[], bool],
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._settings = settings
        self._namespace = namespace
        self._access = access
        self._transport = transport
        self._client = client
        self._clock = clock
        self._writing = CertificateWriting(settings, namespace, client, writer, events, metrics.certificates)
        self._events = events
        self._metrics = metrics.certificates
        self._leads = leads
        self._woken = asyncio.Event()
        self._proof, self._service = StableSince(clock=clock), StableSince(clock=clock)
        self._insistence = RewriteBackoff(clock=clock)
        self._seen = Seen()
        self._failures = 0
        # The step being waited for and since when; and the last text logged about it.
        self._waiting = StableSince(clock=clock)
        self._why = ""
        self._watches = [
            *(self._watch(SECRETS, name, namespace) for name in (CA_SECRET, TLS_SECRET)),
            *(self._watch(resource, name) for name, resource in CONFIGURATIONS.items()),
        ]

    def _watch(self, resource: Resource, name: str, namespace: str | None = None) -> Watch:
        def read(raw: Manifest) -> tuple[Any, Any]:
            return key_of(raw), mapping(raw.get("metadata")).get("resourceVersion")

        selector = {"fieldSelector": f"metadata.name={name}"}
        wake = lambda _: self.wake()  # noqa: E731 - both ask for one who takes something
        return Watch(self._client, Projection("", resource, read), wake, wake, selector, namespace, clock=self._clock)

    def wake(self) -> None:
        """Check at once."""
        self._woken.set()

    @staticmethod
    def kinds() -> Iterator[Api]:
        """The kinds that hold the certificates and caBundles."""
        yield SECRETS.api
        yield from (resource.api for resource in CONFIGURATIONS.values())

    def watches(self) -> Iterator[Watch]:
        """The watches that wake this controller."""
        yield from self._watches

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())
            group.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            self._woken.clear()
            seconds = await self._attempt()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _attempt(self) -> float:
        """Carry out one step; return the seconds to pause after it."""
        try:
            seconds = await self._step()
        except NotLeading:
            self._forget()
            return LOOK_SECONDS
        except (RequestFailed, CertificateError) as error:
            return await self._failed(error)
        except Exception:  # noqa: BLE001 - a fault of ours here must not keep gangs from being written
            log.exception("certificates not maintained")
            return await self._failed(RequestFailed("internal error; see the log"))
        self._failures = 0
        return seconds

    async def _failed(self, error: RequestFailed | CertificateError) -> float:
        self._failures += 1
        self._metrics.failures.inc()
        if self._failures.bit_count() == 1:
            log.warning("certificates not maintained", why=outline(error), failures=self._failures)
        if isinstance(error, CertificateError) or error.code in REFUSALS:
            where = StoredCertificate(self._namespace, CA_SECRET, None)
            await self._events.warn(where, CertificateReason.REFUSED, f"certificates are not maintained: {error}")
        return max(doubled(RETRY_SECONDS, self._failures), getattr(error, "wait", None) or 0.0)

    def _forget(self) -> None:
        """Forget observations: they may not stay true while another process leads."""
        self._seen = Seen()
        self._proof.broken()
        self._service.broken()

    async def _step(self) -> float:
        found = await read_snapshot(self._client, self._namespace, clock=self._clock)
        self._metrics.show(found.stored)
        action = plan(found.stored, found.now, self._seen, self._settings)
        self._metrics.at(action.step)
        if not self._leads():
            raise NotLeading
        if isinstance(action, Idle):
            self._settled()
            return min(LOOK_SECONDS, max(1.0, (action.until - found.now).total_seconds()))
        if isinstance(action, ProbeTrust | CheckServers):
            return await self._wait(action, found)
        self._waiting.broken()
        if isinstance(action, Publish):
            name = action.configuration.name
            if rest := self._insistence.rest(name, action.bundle):
                self._say(action.step, f"another writer keeps overwriting the caBundle of {name}")
                return rest
            self._insistence.wrote(name, action.bundle)
        await self._writing.do(action, found)
        if isinstance(action, Promote):
            self._forget()
        return 0.0

    # Steps that wait.

    async def _wait(self, action: ProbeTrust | CheckServers, found: Snapshot) -> float:
        if isinstance(action, ProbeTrust):
            what, streak = fingerprint(action.leaf), self._proof
            why = await unproven(self._access, self._transport, found.stored, action.leaf, self._check)
        else:
            what, streak = fingerprint(action.authority), self._service
            why = await unserved(self._client, found.stored, action.authority)
        if why:
            streak.broken()
            await self._tell(action.step, why, found)
        else:
            self._settled()
            if streak.seen(what) >= self._settings.overlap.total_seconds():
                self._seen = (
                    self._seen._replace(proven=what)
                    if isinstance(action, ProbeTrust)
                    else self._seen._replace(served=what)
                )
                return 0.0
        first, most = WAIT_SECONDS
        return min(most, max(first, self._settings.overlap.total_seconds() / 20))

    def _check(self) -> None:
        if not self._leads():
            raise NotLeading

    async def _tell(self, step: Step, why: str, found: Snapshot) -> None:
        """Report what the step waits for: in the log when the reason changes, and by an event if it lasts."""
        self._say(step, why)
        if self._waiting.seen(step.value) >= PATIENCE_SECONDS:
            note = f"the rotation of the authority waits, and the present certificates keep working: {why}"
            await self._events.warn(found.regarded(TLS_SECRET), CertificateReason.WAITING, note)

    def _say(self, step: Step, why: str) -> None:
        if why != self._why:
            self._why = why
            log.info("certificates wait", step=step.value, why=why)

    def _settled(self) -> None:
        self._why = ""
        self._waiting.broken()
