"""The reconciler's process: what it follows, who works on what, and how it ends."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import uvicorn

from webhook import __version__
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.facts import live_facts
from webhook.errors import FactsUnavailable, NotLeading, RequestFailed
from webhook.logs import configure, log
from webhook.model import grove
from webhook.model.facts import Api, ClusterFacts, ObjectKey
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, Projection
from webhook.reconciler.endpoints import create_app
from webhook.reconciler.events import Events
from webhook.reconciler.gangs import GangReconciler, gang_resources
from webhook.reconciler.gates import Gates
from webhook.reconciler.grouping import Grouping
from webhook.reconciler.lease import Lease
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.queue import KeyQueue
from webhook.reconciler.stores import Stores
from webhook.reconciler.writing import Writer
from webhook.registration import LEASE_NAME
from webhook.settings import Settings

# Gangs worked on at once: most of the time is spent waiting for the API server.
WORKERS = 8
# Everything is looked at again now and then, which heals what went wrong unseen; spread over the time.
RESYNC_SECONDS = 600.0
# A write that is under way when the process is told to stop.
DRAIN_SECONDS = 5.0


class Reconciler:
    """Everything together, for one process. `run` until cancelled; `once` until nothing is left to do."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        *,
        namespace: str | None = None,
        lease_namespace: str | None = None,
        dry_run: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`namespace` is the only one that is worked on, None for all; without a `lease_namespace` there is no lease.
        `transport` stands for the network in tests.
        """
        self.metrics = Metrics()
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        self._settings = settings
        self._only = namespace
        self._client = Client(access, transport)
        # Two pods on the host's network have one name between them, and both are process 1.
        identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
        self.lease: Lease | None = None
        if lease_namespace is not None:
            self.lease = Lease(
                self._client, lease_namespace, LEASE_NAME, identity, self.metrics, lambda _: self._look_at_all()
            )
        self.live = live_facts(settings, Client(access, transport), self._facts_changed, self._touched)
        self.stores = Stores(self._client, self._stored)
        writer = Writer(self._client, self.leads, self.metrics, dry_run=dry_run)
        events = Events(self._client, self.metrics, identity, self.leads, dry_run=dry_run)
        gated = any(profile.gate for profile in settings.profiles.values())
        self._gates = Gates(self._client, self._add) if gated else None
        self._gangs = GangReconciler(settings, self.live, self.stores, writer, events, self.metrics, self._gates)
        self.metrics.interrupted.set_function(self._interrupted)
        self._busy = 0
        # PodGangs by their PodCliqueSet.
        self._of_workload: Grouping[ObjectKey, ObjectKey] = Grouping()

    def _interrupted(self) -> int:
        """How many kinds are not followed now."""
        watches = [store.watch for store in self.stores.by_kind.values()]
        watches += [*self.live.watches.values(), *([self._gates.watch] if self._gates else [])]
        return sum(watch.trouble is not None for watch in watches)

    def leads(self) -> bool:
        """Whether this process may write; one without a lease always may."""
        return self.lease is None or self.lease.leads()

    def unready(self) -> Iterator[str]:
        """What is not known yet."""
        yield from self.live.unready()
        for api, store in self.stores.by_kind.items():
            if not store.filled:
                why = f": {store.watch.trouble}" if store.watch.trouble else ""
                yield f"cluster: the {api} objects are not read yet{why}"

    @property
    def idle(self) -> bool:
        """Whether everything is read, and nothing waits or is being worked on."""
        return (
            not any(self.unready())
            and POD_GANGS.resource.api in self.stores.by_kind
            and not (len(self.queue) or self._busy)
        )

    async def run(self) -> None:
        """Follow and write, until cancelled; what is being written then is finished, and the lease given up."""
        following = [asyncio.create_task(self.live.run())]
        if self.lease is not None:
            following.append(asyncio.create_task(self.lease.run()))
        if self._gates is not None:
            following.append(asyncio.create_task(self._gates.watch.run()))
        following.append(asyncio.create_task(self._resync()))
        workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        try:
            # Not `gather`, which would cancel them all at once, and the lease must be given up last.
            done, _ = await asyncio.wait([*following, *workers], return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await _ended(workers)
            await _ended(following)
            await self.stores.close()
            await self._client.close()

    async def once(self) -> None:
        """Write until nothing is left to do. Raises `FactsUnavailable` where something cannot be done."""
        running = asyncio.create_task(self.run())
        try:
            while not running.done():
                await asyncio.sleep(0.05)
                if self.idle and self.leads():
                    # What the last write changed has been seen, or is about to be.
                    await asyncio.sleep(0.2)
                    if self.idle:
                        break
                if self.queue.failing and self.queue.failing == len(self.queue) and not self._busy:
                    raise FactsUnavailable(f"{self.queue.failing} PodGangs could not be worked on; the log says why")
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    # What changes, and whom that concerns.

    def _facts_changed(self, facts: ClusterFacts) -> None:
        if facts.apis is not None:
            self.stores.follow(gang_resources(self._settings, self.live))
        self._look_at_all()

    def _touched(self, projection: Projection, key: Any) -> None:
        if projection is POD_CLIQUE_SETS:
            for concerned in self._of_workload.members(key):
                self._add(concerned)
        elif projection.part in _OF_GANGS:
            # A layer, a tier, a class: whichever gangs that concerns, the others cost a comparison.
            self._look_at_all()

    def _stored(self, api: Api, key: ObjectKey, owners: set[str]) -> None:
        if api == POD_GANGS.resource.api:
            self._note_workload(key)
            self._add(key)
            return
        for name in owners:
            self._add((key[0], name))
        if not owners and (podgang := self._label(api, key)) is not None:
            self._add((key[0], podgang))

    def _label(self, api: Api, key: ObjectKey) -> str | None:
        """The PodGang that an object without a controller says it is of."""
        store = self.stores.by_kind.get(api)
        live = None if store is None else store.objects.get(key)
        return None if live is None else (live["metadata"].get("labels") or {}).get(grove.LABEL_PODGANG)

    def _note_workload(self, key: ObjectKey) -> None:
        """Remember of which PodCliqueSet a PodGang is."""
        podgang = self.stores.by_kind[POD_GANGS.resource.api].objects.get(key)
        workload = None if podgang is None else (podgang["metadata"].get("labels") or {}).get(grove.LABEL_PART_OF)
        self._of_workload.move(key, None if workload is None else (key[0], workload))

    def _add(self, key: ObjectKey) -> None:
        if self._only is None or key[0] == self._only:
            self.queue.add(key)

    def _look_at_all(self) -> None:
        store = self.stores.by_kind.get(POD_GANGS.resource.api)
        for key in () if store is None else store.objects:
            self._add(key)

    # Work.

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            self._busy += 1
            try:
                await self._work_on(key)
            finally:
                self._busy -= 1
                self.queue.done(key)
                self.metrics.queue.set(len(self.queue))
                self.metrics.failing.set(self.queue.failing)

    async def _work_on(self, key: ObjectKey) -> None:
        if not self.leads():
            # Whoever becomes the leader looks at everything.
            return
        try:
            # A stop does not interrupt a write: half of a gang's objects may start half of it.
            again = await _unbroken(self._gangs.reconcile(key))
        except NotLeading:
            return
        except (RequestFailed, FactsUnavailable) as error:
            wait = getattr(error, "wait", None) or 0.0
            # It is the API server that wants to be left alone, and not for this gang's sake.
            self.queue.hold(wait)
            seconds = self.queue.failed(key, wait)
            self.metrics.retry(error)
            log.info("gang not done", namespace=key[0], name=key[1], why=str(error), againIn=round(seconds, 1))
        except Exception as error:  # noqa: BLE001 - a fault of ours with one gang must not stop the others
            seconds = self.queue.failed(key)
            self.metrics.retry(error)
            log.exception("gang not done", namespace=key[0], name=key[1], againIn=round(seconds, 1))
        else:
            self.queue.succeeded(key)
            if again is not None:
                self.queue.add_later(key, again)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self._look_at_all()


# The parts of the facts that a translation reads, besides the PodGang and its workload.
_OF_GANGS = frozenset(
    {"topology_bindings", "network_topologies", "hyper_nodes", "kai_topologies", "priority_classes", "apis"}
)


async def _unbroken(work: Any) -> Any:
    """The result of `work`, which is finished also when the waiting for it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            async with asyncio.timeout(DRAIN_SECONDS):
                await task
        raise


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run(reconciler: Reconciler, host: str, port: int) -> None:
    """Run with the health and metrics endpoints, until SIGTERM or SIGINT."""
    configure()
    config = uvicorn.Config(
        create_app(reconciler.unready, reconciler.metrics),
        host=host,
        port=port,
        lifespan="off",
        access_log=False,
        server_header=False,
        log_config=None,
        ws="none",
    )
    asyncio.run(_serve(reconciler, config))


async def _serve(reconciler: Reconciler, config: uvicorn.Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    server = uvicorn.Server(config)
    # The signals are ours: uvicorn would end the process before what is being written is.
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    log.info("reconciling", version=__version__)
    work = asyncio.create_task(reconciler.run())
    endpoints = asyncio.create_task(server._serve())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({work, endpoints, stopped}, return_when=asyncio.FIRST_COMPLETED)
    log.info("stopping")
    server.should_exit = True
    await _ended([work, stopped])
    await asyncio.gather(endpoints, return_exceptions=True)
    if work.done() and not work.cancelled() and (error := work.exception()) is not None:
        raise error
