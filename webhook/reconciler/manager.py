"""The manager of the reconciler's controllers: its watches, its workers, its shutdown, and one pass over a cluster.

A pass ends when nothing is left to do. `rollcall reconcile --once` is one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import httpx

from webhook.cluster.access import Access
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.watch import Watch
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, NotLeading
from webhook.gangs.cluster_view import ClusterView
from webhook.gangs.key import GangKey
from webhook.gangs.members import GangPod
from webhook.gangs.pod_watches import Stages
from webhook.installation.names import LEASE_NAME
from webhook.model.keys import Api, ObjectKey
from webhook.model.nodes import NODES
from webhook.model.projections import POD_GANGS, TOPOLOGY_BINDINGS, Projection
from webhook.model.topology_tree import NodeLabels
from webhook.reconciler.admission_checks import WORKERS as CHECK_WORKERS
from webhook.reconciler.admission_checks import AdmissionChecks
from webhook.reconciler.audit_reports import AuditReports
from webhook.reconciler.certificates import CertificateController
from webhook.reconciler.circle_watch import CircleWatch
from webhook.reconciler.events import Events, ExceptionWatch, HeldBack
from webhook.reconciler.gangs import GangReconciler
from webhook.reconciler.health_watch import HealthWatch, StrangerWatch
from webhook.reconciler.lease import Lease
from webhook.reconciler.loss_store import LossConditions, LossStore
from webhook.reconciler.loss_watch import GangLosses
from webhook.reconciler.metrics import ReconcilerMetrics, SharedBound
from webhook.reconciler.remedies import EscapeDeletion, Remedies
from webhook.reconciler.topologies import Topologies
from webhook.reconciler.unknown_kinds import UnknownKinds
from webhook.reconciler.work_queue import KeyQueue, Workers, ended
from webhook.reconciler.writer import Writer
from webhook.workloads.kueue_integration import CheckMode

# Gangs reconciled in parallel: most of the time is spent waiting for the API server.
WORKERS = 8
# Interval in which everything is checked again, spread over the time, to repair what was missed.
RESYNC_SECONDS = 600.0
# The longest time to read a cluster whose gangs are reconciled once.
READ_SECONDS = 30.0
# The longest time that workers wait until everything is read. 100,000 objects take a minute on a busy API server.
MOST_UNREAD_SECONDS = 300.0
# Nothing is reconciled for so long only if the process is stuck, or if the API server does not answer.
STALLED_SECONDS = 60.0
# Interval in which workers look whether everything is read.
UNREAD_SECONDS = 0.02


class Reconciler:
    """All parts of one process. `run` works until it is cancelled."""

    def __init__(  # noqa: PLR0913 - what it works with, and how
        self,
        settings: Settings,
        access: Access,
        *,
        namespace: str | None = None,
        lease_namespace: str | None = None,
        dry_run: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`namespace` is the only one reconciled, None for all. Without `lease_namespace` there is no lease."""
        self.clock = clock
        self.metrics = ReconcilerMetrics(settings.profiles)
        self.held_back = HeldBack(self.metrics, self.leads, clock=clock)
        # Keys of gangs and bindings.
        self.queue: KeyQueue[GangKey | ObjectKey] = KeyQueue(
            WORKERS, urgent=self._is_new, held_back=self._held_back_by(SharedBound.WORKERS), clock=clock
        )
        self._only, self._settings = namespace, settings
        self.lease: Lease | None = None
        of_losses = self._held_back_by(SharedBound.LOSSES)
        self.losses = GangLosses(self.metrics, self.leads, only=namespace, held_back=of_losses, clock=clock)
        self.following = self._view_with(access, transport)
        client = self.following.client
        # Two pods on the host network share a hostname, and both are process 1, so a random part is needed.
        identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
        if lease_namespace is not None:
            self.lease = Lease(
                client, lease_namespace, LEASE_NAME, identity, self.metrics, lambda _: self._lead_changed(), clock=clock
            )
        writer = Writer(client, self.leads, self.metrics, dry_run=dry_run)
        self._follow_losses(writer, None if dry_run else lease_namespace)
        of_events = self._held_back_by(SharedBound.EVENTS)
        events = Events(client, self.metrics, identity, self.leads, held_back=of_events, dry_run=dry_run, clock=clock)
        self.events = events
        self._gated = any(profile.gate for profile in settings.profiles.values())
        self._gangs = self._gangs_with(writer, events)
        self.strangers = StrangerWatch(self.following, self.leads, clock=clock)
        self.health = self._health_with(writer, events)
        self.exceptions = ExceptionWatch(
            settings.exceptions, events, self.leads, self.health.mark_held, only=namespace, clock=clock
        )
        self.circles = CircleWatch(settings, self.following.stores, events, self.metrics, self.leads, clock=clock)
        self.unknown_kinds = UnknownKinds(
            settings, client, lambda: self.following.live.facts, self.metrics, self.leads, only=namespace, clock=clock
        )
        self.audits = self._audits_with(access, writer, transport)
        self._topologies = self._topologies_with(writer, events)
        self.certificates: CertificateController | None = None
        if lease_namespace is not None and not dry_run:
            # Needs the lease: two writers without one would each create an authority.
            self.certificates = self._certificates_with(lease_namespace, access, writer, events, transport)
        self.admission_checks = self._admission_checks_with(writer, events)
        self.workers = Workers(
            self.queue, self._reconcile, log_fields=_log_fields, failed=self.metrics.retry, done=self._counted
        )
        self.metrics.interrupted.set_function(lambda: sum(watch.trouble is not None for watch in self._watches()))
        kinds = (*self.following.kinds(), *self._topologies.kinds(), *CertificateController.kinds())
        self.metrics.watch(self.following.live, kinds, self._watches)

    def _view_with(self, access: Access, transport: httpx.AsyncBaseTransport | None) -> ClusterView:
        return ClusterView(
            self._settings,
            access,
            gang_changed=self._add,
            pods_changed=self._pods_changed,
            facts_changed=self._held_changed,
            object_changed=self._object_changed,
            fact_changed=self._fact_changed,
            all_changed=self._all_changed,
            read=self.queue.retry_failed,
            pod_ended=self.losses.pod_ended,
            transport=transport,
            writes=True,
            clock=self.clock,
        )

    def _follow_losses(self, writer: Writer, namespace: str | None) -> None:
        """Follows what gangs lose, and stores it in this namespace; None if it is not stored."""
        if namespace is None:
            self.losses.follow(self.following)
            return
        client, of_losses, of_writes = self.following.client, SharedBound.LOSSES, SharedBound.WRITES
        store = LossStore(client, writer, namespace, held_back=self._held_back_by(of_losses), clock=self.clock)
        conditions = LossConditions(client, writer, held_back=self._held_back_by(of_writes), clock=self.clock)
        self.losses.follow(self.following, store, conditions)

    def _gangs_with(self, writer: Writer, events: Events) -> GangReconciler:
        return GangReconciler(
            self._settings,
            self.following.live,
            self.following.stores,
            writer,
            events,
            self.metrics,
            Stages(self.following.client, self.following.controllers).read_stage,
            self.following,
            self.queue.add_later,
            opens=self._gated,
            clock=self.clock,
        )

    def _health_with(self, writer: Writer, events: Events) -> HealthWatch:
        return HealthWatch(
            self.following.health,
            self.following.gang,
            events,
            self.metrics,
            self.leads,
            deletion=self._deletion_with(writer),
            remedies=self._remedies_with(writer, events),
            fits=self.following.fits,
            losses=self.losses,
            strangers=self.strangers,
            has_turn=self.queue.has_turn,
            held_back=self._held_back_by(SharedBound.HEALTH),
            clock=self.clock,
        )

    def _topologies_with(self, writer: Writer, events: Events) -> Topologies:
        return Topologies(
            self._settings,
            self.following.client,
            writer,
            events,
            self.metrics,
            self.leads,
            self.queue.add,
            self._node_labels,
            self.queue.retry_failed,
            clock=self.clock,
        )

    def _held_back_by(self, bound: SharedBound) -> Callable[[str], None]:
        return partial(self.held_back.note, bound)

    def _deletion_with(self, writer: Writer) -> EscapeDeletion | None:
        if not (deleted := self._settings.deleted_escapes):
            return None
        held_back = self._held_back_by(SharedBound.WRITES)
        return EscapeDeletion(
            deleted, writer, self.metrics, self._may_be_excepted, held_back=held_back, clock=self.clock
        )

    def _remedies_with(self, writer: Writer, events: Events) -> Remedies | None:
        remedy_settings = self._settings.remedies
        if not remedy_settings.causes:
            return None
        observed, metrics = self.following.observed, self.metrics.remedies
        return Remedies(
            remedy_settings,
            observed,
            writer,
            events,
            metrics,
            excepted=self._may_be_excepted,
            held_back=self._held_back_by(SharedBound.REMEDIES),
            clock=self.clock,
        )

    def _audits_with(
        self, access: Access, writer: Writer, transport: httpx.AsyncBaseTransport | None
    ) -> AuditReports | None:
        if not self._settings.auditing.open_reports:
            return None
        return AuditReports(
            self._settings,
            access,
            self.following.client,
            writer,
            self.metrics.audits,
            self.leads,
            served=lambda: self.following.live.facts.apis,
            idle=lambda: not (len(self.queue) or self.workers.busy),
            only=self._only,
            transport=transport,
            clock=self.clock,
        )

    def _certificates_with(
        self, namespace: str, access: Access, writer: Writer, events: Events, transport: httpx.AsyncBaseTransport | None
    ) -> CertificateController | None:
        if not self._settings.certificates.self_managed:
            return None
        return CertificateController(
            self._settings.certificates,
            namespace,
            access=access,
            transport=transport,
            client=self.following.client,
            writer=writer,
            events=events,
            metrics=self.metrics,
            leads=self.leads,
            clock=self.clock,
        )

    def _admission_checks_with(self, writer: Writer, events: Events) -> AdmissionChecks | None:
        if self._settings.admission_check is CheckMode.OFF:
            return None
        return AdmissionChecks(
            self._settings,
            self.following.client,
            writer,
            events,
            self.metrics,
            self.leads,
            facts=lambda: self.following.live.facts,
            ready=lambda: not any(self.following.live.unready()),
            look=self.following.look_at_all,
            held_back=self._held_back_by(SharedBound.WORKERS),
            only=self._only,
            clock=self.clock,
        )

    def _watches(self) -> Iterator[Watch]:
        yield from self.following.watches()
        yield from self._topologies.watches()
        if self.certificates is not None:
            yield from self.certificates.watches()

    def _lead_changed(self) -> None:
        self.following.look_at_all()
        if self.certificates is not None:
            self.certificates.wake()

    def leads(self) -> bool:
        """Returns whether this process may write; without a lease it always may."""
        return self.lease is None or self.lease.leads()

    def unready(self) -> Iterator[str]:
        """Messages about what is not read yet."""
        yield from self.following.unready()
        yield from self._topologies.unready()

    def reasons_not_ready(self) -> Iterator[str]:
        """Messages about what is not read yet, and about gangs that wait although nothing is being done."""
        yield from self.unready()
        if (seconds := self.queue.waited()) >= STALLED_SECONDS:
            yield f"queue: nothing was reconciled for {seconds:.0f} s, and {len(self.queue)} gangs or topologies wait"

    @property
    def idle(self) -> bool:
        """Whether everything is read, the queue is empty, and no worker is busy."""
        if any(self.unready()) or not self.following.serves_gangs or self.following.looks_at_all:
            return False
        return not (len(self.queue) or self.workers.busy)

    async def run(self) -> None:
        """Follows and writes until cancelled; then finishes running writes and releases the lease."""
        following = [asyncio.create_task(self.following.run())]
        if self.lease is not None:
            following.append(asyncio.create_task(self.lease.run()))
        following.append(asyncio.create_task(self._resync()))
        following.append(asyncio.create_task(self.health.run(lambda: not any(self.following.unseen()))))
        following.append(asyncio.create_task(self.circles.run()))
        following.append(asyncio.create_task(self.exceptions.run()))
        following.append(asyncio.create_task(self.unknown_kinds.run()))
        following.append(asyncio.create_task(self.strangers.run()))
        following.append(asyncio.create_task(self.held_back.run(self.events)))
        following.append(asyncio.create_task(self.metrics.run()))
        if self.audits is not None:
            following.append(asyncio.create_task(self.audits.run()))
        if self.certificates is not None:
            following.append(asyncio.create_task(self.certificates.run()))
        workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        if self.admission_checks is not None:
            checking = self.admission_checks.workers
            workers += [asyncio.create_task(checking.run()) for _ in range(CHECK_WORKERS)]
        try:
            # `gather` would cancel all tasks together, but the lease must be released last.
            done, _ = await asyncio.wait([*following, *workers], return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await ended(workers)
            await ended(following)
            await self._topologies.close()
            await self.following.close()

    async def _work(self) -> None:
        """Runs a worker once all is read, or something cannot be: before, thousands of gangs would each fail."""
        until = self.clock.monotonic() + MOST_UNREAD_SECONDS
        while any(self.unready()) and not self.following.is_troubled and self.clock.monotonic() < until:
            await asyncio.sleep(UNREAD_SECONDS)
        await self.workers.run()

    def _add(self, key: GangKey) -> None:
        if self._only is None or key[0] == self._only:
            self.queue.add(key)
            self.health.mark(key)

    def _is_new(self, key: GangKey | ObjectKey) -> bool:
        """Returns whether pods of a gang wait for its first objects: it comes first. An empty PodGang has no pods."""
        if not isinstance(key, GangKey) or self.following.stores.has_any(key):
            return False
        return not self.following.podgangs.was_empty(key)

    def _pods_changed(self, key: GangKey) -> None:
        if self._only is not None and key.namespace != self._only:
            return
        self.health.mark(key)
        if (self._gated and self.following.has_gate(key)) or self.following.was_restored(key):
            self.queue.add(key)

    def _object_changed(self, api: Api, key: ObjectKey) -> None:
        if self._only is None or key[0] == self._only:
            self.circles.mark(api, key)

    def _may_be_excepted(self, pod: GangPod) -> bool:
        now = self.clock.now()
        return self._settings.exceptions.may_except_pods(pod.namespace, pod.workload_name, now)

    def _node_labels(self) -> NodeLabels | None:
        nodes = self.following.live.facts.nodes
        return None if nodes is None else {name: node.labels for name, node in nodes.items()}

    def _fact_changed(self, projection: Projection, key: Any) -> None:
        if projection is NODES:
            node = (self.following.live.facts.nodes or {}).get(key)
            self._topologies.node_changed(key, None if node is None else node.labels)
            self.losses.node_changed(key, exists=node is not None)
        if self.admission_checks is not None:
            self.admission_checks.changed(projection, key)

    def _held_changed(self, namespace: str | None) -> None:
        self.health.mark_held(namespace)

    async def _all_changed(self) -> None:
        if self._only is None:
            # Topology objects have no namespace.
            self._topologies.follow(self.following.live.facts.apis or frozenset())
        self._topologies.look_at_all()
        if self.admission_checks is not None:
            await self.admission_checks.look_at_all()

    def _counted(self) -> None:
        self.metrics.queue.set(len(self.queue))
        self.metrics.failing.set(self.queue.failing)

    async def _reconcile(self, key: GangKey | ObjectKey) -> float | None:
        if not self.leads():
            raise NotLeading
        if isinstance(key, GangKey):
            return await self._gangs.reconcile(key)
        return await self._topologies.reconcile(key[1])

    async def _resync(self) -> None:
        while True:
            await self.following.look_slowly(RESYNC_SECONDS)


def _log_fields(key: GangKey | ObjectKey) -> dict[str, str]:
    """Returns the fields that name the key in the log."""
    kind = key.kind if isinstance(key, GangKey) else TOPOLOGY_BINDINGS.resource.api.kind
    return {"kind": kind, "namespace": key[0], "name": key[1]}


# How many unread kinds a message lists: usually all have the same cause.
SAID_AT_MOST = 3


async def reconcile_once(reconciler: Reconciler) -> None:
    """Runs the reconciler until nothing is left to do. Raises `FactsUnavailable` if something cannot be done."""
    # Kueue asks at any time, so there is no end to wait for. Gangs do not depend on audits.
    reconciler.admission_checks = reconciler.audits = None
    running, begun = asyncio.create_task(reconciler.run()), reconciler.clock.monotonic()
    try:
        while not running.done():
            await asyncio.sleep(0.05)
            if reconciler.idle and reconciler.leads():
                # Give the watches time to deliver the last write.
                await asyncio.sleep(0.2)
                if reconciler.idle:
                    break
            seconds = reconciler.clock.monotonic() - begun
            if seconds >= READ_SECONDS and (why := _unreadable(reconciler)):
                raise FactsUnavailable(f"nothing is ready after {READ_SECONDS:g} s: {why}")
            if _hopeless(reconciler, seconds):
                message = f"{reconciler.queue.stuck} gangs or topologies could not be reconciled"
                raise FactsUnavailable(f"{message}, the last because {reconciler.workers.why}")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _unreadable(reconciler: Reconciler) -> str:
    """Returns what keeps the gangs from being read; empty if nothing does. A slow list does not count."""
    if reconciler.following.is_troubled:
        return "; ".join(islice(reconciler.unready(), SAID_AT_MOST))
    if reconciler.following.serves_gangs or any(reconciler.unready()):
        return ""
    return f"the cluster does not serve {POD_GANGS.resource.api}; is Grove installed?"


def _hopeless(reconciler: Reconciler, seconds: float) -> bool:
    """Returns whether all queued keys are stuck, and not because something is still being read."""
    queue = reconciler.queue
    if not queue.stuck or queue.stuck != len(queue) or reconciler.workers.busy:
        return False
    # Some gangs depend on kinds that others can be written without.
    return seconds >= READ_SECONDS or not (any(reconciler.unready()) or any(reconciler.following.unseen()))
