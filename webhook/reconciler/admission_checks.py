"""Answers the AdmissionChecks of Kueue that name Rollcall as their controller.

A check that waits holds the quota of its Workload, without a limit. So each is answered within seconds, also if its
object cannot be read or judged: then with Ready. An answer is written once, and only while Kueue waits for it; Kueue
resets it when it evicts the Workload. No state is kept that a restart or another leader would miss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from webhook.admission.admission_check import Outcome
from webhook.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.config.settings import Settings
from webhook.errors import NotLeading
from webhook.gangs.hold_reasons import CheckReason
from webhook.gangs.kueue.moments import moment
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.kueue.admission_check import (
    CONTROLLER,
    activation,
    answered,
    reserved_at,
    waiting_checks,
)
from webhook.model.kueue.objects import AdmissionCheck, KueueWorkload
from webhook.model.kueue.projections import ADMISSION_CHECKS, WORKLOADS
from webhook.model.projections import Projection
from webhook.model.reading import mapping
from webhook.reconciler.events import CheckedWorkload, Events
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.queue import KeyQueue
from webhook.reconciler.turns import HeldBack, not_noted
from webhook.reconciler.workers import Workers
from webhook.reconciler.workload_owners import WorkloadOwners, read
from webhook.reconciler.writer import Writer

# Workloads answered in parallel.
WORKERS = 4
# The namespace part of the key of an AdmissionCheck, which has no namespace.
CLUSTER = ""
# An object that cannot be read for this long, or facts that are missing for this long, are not waited for.
PATIENCE_SECONDS = 10.0
# Pause before looking again for facts that are not read yet.
LOOK_AGAIN_SECONDS = 0.5
_MANAGER = "rollcall-admission-check"
# Entries of the order that may be outdated.
_OUTDATED = 100
# The event that each outcome is worth.
_REASONS = {
    Outcome.REJECTED: CheckReason.REJECTED,
    Outcome.WOULD_REJECT: CheckReason.WOULD_REJECT,
    Outcome.READY_WITH_FINDING: CheckReason.MAY_NOT_START,
}


class _Waiting(NamedTuple):
    """A Workload that waits for an answer: since when it has quota, and since when this process knows that."""

    reserved: str
    seen: float


class AdmissionChecks:
    """Keeps the AdmissionChecks active, and answers them. `facts` are what is known of the cluster, and `ready` is
    whether that is everything. `look` has `look_at_all` called soon. `only` is the only namespace whose Workloads are
    answered; then no check is activated.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        settings: Settings,
        client: Client,
        writer: Writer,
        events: Events,
        metrics: Metrics,
        leads: Callable[[], bool],
        *,
        facts: Callable[[], ClusterFacts],
        ready: Callable[[], bool],
        look: Callable[[], None],
        only: str | None = None,
        held_back: HeldBack = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._client = client
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._leads = leads
        self._owners = WorkloadOwners(settings, client, facts, clock=clock)
        self._ready = ready
        self._look = look
        self._only = only
        self._facts = facts
        self._clock = clock
        # The names of the AdmissionChecks that Rollcall answers.
        self._ours: set[str] = set()
        self._waiting: dict[ObjectKey, _Waiting] = {}
        # Since when they have quota, the first first. An entry counts if that is still so.
        self._reserved: list[tuple[str, ObjectKey]] = []
        self.queue: KeyQueue[ObjectKey] = KeyQueue(WORKERS, held_back=held_back, clock=clock)
        self.workers = Workers(self.queue, self.reconcile, said=_said, failed=metrics.retry)
        metrics.checks.pending.set_function(lambda: len(self._waiting))
        metrics.checks.oldest.set_function(self._oldest)

    def changed(self, projection: Projection, key: Any) -> None:
        """Look at an AdmissionCheck or a Workload that has changed."""
        if projection.part == WORKLOADS.part:
            self._workload_changed(key)
        elif projection.part == ADMISSION_CHECKS.part:
            self._check_changed(key)

    async def look_at_all(self) -> None:
        """Queue every AdmissionCheck of Rollcall, and every Workload that waits."""
        self._ours = {name for name, check in self._checks.items() if check.controller == CONTROLLER}
        for name in self._ours:
            self.queue.add((CLUSTER, name))
        workloads = self._workloads
        turn = LoopTurn(self._clock)
        for key in [*self._waiting, *workloads]:
            self._workload_changed(key)
            await turn.pause()

    @property
    def _workloads(self) -> Mapping[ObjectKey, KueueWorkload]:
        return self._facts().kueue_workloads or {}

    @property
    def _checks(self) -> Mapping[str, AdmissionCheck]:
        return self._facts().admission_checks or {}

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Activate an AdmissionCheck, or answer a Workload. Return the seconds after which to check again. Raises
        `RequestFailed`, `NotLeading`.
        """
        if not self._leads():
            raise NotLeading
        if key[0] == CLUSTER:
            await self._activate(key[1])
            return None
        return await self._reply(key)

    # Changes

    def _check_changed(self, name: str) -> None:
        check = self._checks.get(name)
        if (check is not None and check.controller == CONTROLLER) is not (name in self._ours):
            self._look()
        elif name in self._ours:
            self.queue.add((CLUSTER, name))

    def _workload_changed(self, key: ObjectKey) -> None:
        if self._only is not None and key[0] != self._only:
            return
        workload = self._workloads.get(key)
        if workload is None or not waiting_checks(workload, self._ours):
            self._waiting.pop(key, None)
            return
        reserved, known = reserved_at(workload), self._waiting.get(key)
        if known is None or known.reserved != reserved:
            self._waiting[key] = _Waiting(reserved, self._clock.monotonic())
            heappush(self._reserved, (reserved, key))
            if len(self._reserved) > 2 * len(self._waiting) + _OUTDATED:
                self._reserved = [(one.reserved, waiting) for waiting, one in self._waiting.items()]
                heapify(self._reserved)
        self.queue.add(key)

    def _oldest(self) -> float:
        """The seconds for which the Workload that waits longest has held quota."""
        while self._reserved and not self._is_waiting(*self._reserved[0]):
            heappop(self._reserved)
        since = moment(self._reserved[0][0] if self._reserved else None)
        return 0.0 if since is None else max((self._clock.now() - since).total_seconds(), 0.0)

    def _is_waiting(self, reserved: str, key: ObjectKey) -> bool:
        waiting = self._waiting.get(key)
        return waiting is not None and waiting.reserved == reserved

    # Writes

    async def _activate(self, name: str) -> None:
        check = self._checks.get(name)
        if self._only is not None or check is None or check.controller != CONTROLLER or check.active:
            return
        request = requests.apply(
            ADMISSION_CHECKS.resource,
            activation(name, self._now()),
            _MANAGER,
            subresource="status",
            dry_run=self._writer.dry_run,
        )
        await self._writer.send("activate", ADMISSION_CHECKS.resource, (CLUSTER, name), request)

    async def _reply(self, key: ObjectKey) -> float | None:
        if key not in self._waiting:
            return None
        if not self._ready() and self._is_patient(key):
            return LOOK_AGAIN_SECONDS
        raw = await read(self._client, WORKLOADS.resource, *key)
        if raw is None:
            return None
        # The watch may be behind, and an answer at the wrong time stops a workload that runs.
        names = waiting_checks(WORKLOADS.read(raw)[1], self._ours)  # type: ignore[index]
        if not names:
            return None
        found = await self._owners.answer(key, raw, patient=self._is_patient(key))
        patch = answered(raw, names, found.state, found.message, self._now())
        request = requests.json_patch(
            WORKLOADS.resource, *key, patch, subresource="status", dry_run=self._writer.dry_run
        )
        await self._writer.send("answer", WORKLOADS.resource, key, request)
        self._metrics.checks.answered.labels(found.outcome.value).inc()
        if (reason := _REASONS.get(found.outcome)) is not None:
            uid = str(mapping(raw.get("metadata")).get("uid") or "")
            await self._events.warn(CheckedWorkload(*key, uid), reason, found.message)
        return None

    def _is_patient(self, key: ObjectKey) -> bool:
        known = self._waiting.get(key)
        return known is not None and self._clock.monotonic() - known.seen < PATIENCE_SECONDS

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _said(key: ObjectKey) -> dict[str, str]:
    """The fields that name the key in the log."""
    if key[0] == CLUSTER:
        return {"kind": ADMISSION_CHECKS.resource.api.kind, "name": key[1]}
    return {"kind": WORKLOADS.resource.api.kind, "namespace": key[0], "name": key[1]}
