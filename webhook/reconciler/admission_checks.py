"""Answers the AdmissionChecks of Kueue that name Rollcall as their controller.

A check that waits holds the quota of its Workload, without a limit. So each is answered within seconds, also if its
object cannot be read or judged: then with Ready. An answer is written once, and only while Kueue waits for it; Kueue
resets it when it evicts the Workload. The objects of a Workload are read when it has quota, and only then. No state is
kept that a restart or another leader would miss.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

from webhook.admission.admission_check import CheckAnswer, CheckOutcome, answer, not_judged, workload_of
from webhook.admission.decision import admission_of
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.logs import log, outline
from webhook.config.settings import Settings
from webhook.errors import NotFound, NotLeading, RequestFailed
from webhook.gangs.hold_reasons import CheckReason
from webhook.gangs.kueue_hold import moment
from webhook.model.facts import ClusterFacts
from webhook.model.grove import OwnerReference
from webhook.model.keys import ObjectKey, is_subdomain
from webhook.model.known_kinds import POD
from webhook.model.kueue_objects import ADMISSION_CHECKS, WORKLOADS, AdmissionCheck, KueueWorkload
from webhook.model.projections import POD_CLIQUE_SETS, Projection, Resource
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.reconciler.events import CheckedWorkload, Events
from webhook.reconciler.held_gangs import HeldBackNote, not_noted
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.work_queue import KeyQueue, Workers
from webhook.reconciler.writer import Writer
from webhook.workloads.kueue_integration import (
    CONTROLLER,
    OWNERS_BESIDES,
    activation,
    answered,
    owners_of,
    reserved_at,
    waiting_checks,
)

# Pods of one pod group, and workloads, that are judged. The pods are usually alike, and each is read.
MOST_OWNERS = 8


class WorkloadOwners:
    """Answers for the objects of Workloads. `facts` are what is known of the cluster."""

    def __init__(
        self, settings: Settings, client: Client, facts: Callable[[], ClusterFacts], *, clock: Clock = MACHINE_CLOCK
    ) -> None:
        self._settings = settings
        self._client = client
        self._facts = facts
        self._clock = clock
        kinds = settings.kinds
        # The resource of each kind that may own a Workload, by group and kind.
        self._kinds = {(kind.api.group, kind.api.kind): kind for kind in (*kinds.admitted, *OWNERS_BESIDES)}

    async def answer(self, key: ObjectKey, raw: Manifest, *, patient: bool) -> CheckAnswer:
        """Returns the answer about a Workload. Raises `RequestFailed` only if `patient`."""
        try:
            first: CheckAnswer | None = None
            async for check_answer in self._answers(key[0], raw):
                if check_answer.is_fault:
                    return check_answer
                first = first or check_answer
        except RequestFailed as error:
            if patient:
                raise
            log.warning("object of a workload not read", namespace=key[0], name=key[1], why=outline(error))
            return not_judged("its object could not be read")
        except Exception:  # noqa: BLE001 - a fault of ours with one object must not hold quota for ever
            log.exception("workload not judged", namespace=key[0], name=key[1])
            return not_judged("of an internal error; Rollcall's log has it")
        return first or not_judged("it has no owner")

    async def _answers(self, namespace: str, raw: Manifest) -> AsyncIterator[CheckAnswer]:
        """Yields the answers about the objects that a Workload is made for: its workload, or each of its pods."""
        owners = list(owners_of(raw))
        whole = [owner for owner in owners if admission_of((owner.group, owner.kind), self._settings) is not None]
        for reference in islice(whole, MOST_OWNERS):
            yield await self._answer_for_owner(namespace, reference)
        pods = [owner for owner in owners if (owner.group, owner.kind) == POD]
        if owners and not (whole or pods):
            yield not_judged(f"Rollcall has no rules about {owners[0].kind}")
        decided: set[OwnerReference] = set()
        for reference in islice(pods, MOST_OWNERS):
            pod = await self._owner(namespace, reference)
            if pod is None:
                yield not_judged(f"its Pod {reference.name} was not found")
                continue
            above = self._deciding_workload(pod, namespace)
            if above is None:
                yield answer(POD, pod, namespace, self._facts(), self._settings, self._clock.now())
            elif above not in decided:
                decided.add(above)
                yield await self._answer_for_owner(namespace, above)

    def _deciding_workload(self, pod: Manifest, namespace: str) -> OwnerReference | None:
        """Returns the workload that decides about a pod; its uid is not known."""
        try:
            needed = workload_of(pod, namespace, self._settings.kinds)
        except Malformed:
            return None
        if needed is None:
            return None
        resource = self._settings.kinds.resource_of(needed)
        api = (POD_CLIQUE_SETS.resource if resource is None else resource).api
        return OwnerReference(f"{api.group}/{api.version}", api.kind, needed.name, None)

    async def _answer_for_owner(self, namespace: str, reference: OwnerReference) -> CheckAnswer:
        owner = await self._owner(namespace, reference)
        if owner is None:
            return not_judged(f"its {reference.kind} {reference.name} was not found")
        kind = reference.group, reference.kind
        return answer(kind, owner, namespace, self._facts(), self._settings, self._clock.now())

    async def _owner(self, namespace: str, reference: OwnerReference) -> Manifest | None:
        """Returns the referenced object; None if it does not exist, or another object has its name now."""
        manifest = await read(self._client, self._kinds[reference.group, reference.kind], namespace, reference.name)
        if manifest is None or reference.uid is None or mapping(manifest.get("metadata")).get("uid") == reference.uid:
            return manifest
        return None


async def read(client: Client, resource: Resource, namespace: str, name: str) -> Manifest | None:
    """Returns one object; None if it does not exist. Raises `RequestFailed`."""
    if not is_subdomain(name):
        # No object has such a name, and it must not become part of a path.
        return None
    try:
        return dict((await client.get(requests.read(resource, name, namespace))).content)
    except NotFound:
        return None


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
    CheckOutcome.REJECTED: CheckReason.REJECTED,
    CheckOutcome.WOULD_REJECT: CheckReason.WOULD_REJECT,
    CheckOutcome.READY_WITH_FINDING: CheckReason.MAY_NOT_START,
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
        metrics: ReconcilerMetrics,
        leads: Callable[[], bool],
        *,
        facts: Callable[[], ClusterFacts],
        ready: Callable[[], bool],
        look: Callable[[], None],
        only: str | None = None,
        held_back: HeldBackNote = not_noted,
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
        self.workers = Workers(self.queue, self.reconcile, log_fields=_log_fields, failed=metrics.retry)
        metrics.checks.pending.set_function(lambda: len(self._waiting))
        metrics.checks.oldest.set_function(self._oldest)

    def changed(self, projection: Projection, key: Any) -> None:
        """Looks at an AdmissionCheck or a Workload that has changed."""
        if projection.part == WORKLOADS.part:
            self._workload_changed(key)
        elif projection.part == ADMISSION_CHECKS.part:
            check = self._checks.get(key)
            if (check is not None and check.controller == CONTROLLER) is not (key in self._ours):
                self._look()
            elif key in self._ours:
                self.queue.add((CLUSTER, key))

    async def look_at_all(self) -> None:
        """Queues every AdmissionCheck of Rollcall, and every Workload that waits."""
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
        """Activates an AdmissionCheck, or answers a Workload. Returns the seconds after which to check again. Raises
        `RequestFailed`, `NotLeading`.
        """
        if not self._leads():
            raise NotLeading
        if key[0] == CLUSTER:
            await self._activate(key[1])
            return None
        return await self._reply(key)

    def _workload_changed(self, key: ObjectKey) -> None:
        if self._only is not None and key[0] != self._only:
            return
        workload = self._workloads.get(key)
        if workload is None or not waiting_checks(workload, self._ours):
            self._waiting.pop(key, None)
            return
        reserved, before = reserved_at(workload), self._waiting.get(key)
        if before is None or before.reserved != reserved:
            self._waiting[key] = _Waiting(reserved, self._clock.monotonic())
            heappush(self._reserved, (reserved, key))
            if len(self._reserved) > 2 * len(self._waiting) + _OUTDATED:
                self._reserved = [(entry.reserved, waiting) for waiting, entry in self._waiting.items()]
                heapify(self._reserved)
        self.queue.add(key)

    def _oldest(self) -> float:
        """Returns the seconds for which the Workload that waits longest has held quota."""
        while self._reserved and not self._is_waiting(*self._reserved[0]):
            heappop(self._reserved)
        since = moment(self._reserved[0][0] if self._reserved else None)
        return 0.0 if since is None else max((self._clock.now() - since).total_seconds(), 0.0)

    def _is_waiting(self, reserved: str, key: ObjectKey) -> bool:
        waiting = self._waiting.get(key)
        return waiting is not None and waiting.reserved == reserved

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
        check_answer = await self._owners.answer(key, raw, patient=self._is_patient(key))
        patch = answered(raw, names, check_answer.state, check_answer.message, self._now())
        request = requests.json_patch(
            WORKLOADS.resource, *key, patch, subresource="status", dry_run=self._writer.dry_run
        )
        await self._writer.send("answer", WORKLOADS.resource, key, request)
        self._metrics.checks.answered.labels(check_answer.outcome.value).inc()
        if (reason := _REASONS.get(check_answer.outcome)) is not None:
            uid = str(mapping(raw.get("metadata")).get("uid") or "")
            await self._events.warn(CheckedWorkload(*key, uid), reason, check_answer.message)
        return None

    def _is_patient(self, key: ObjectKey) -> bool:
        waiting = self._waiting.get(key)
        return waiting is not None and self._clock.monotonic() - waiting.seen < PATIENCE_SECONDS

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _log_fields(key: ObjectKey) -> dict[str, str]:
    """Returns the fields that name the key in the log."""
    if key[0] == CLUSTER:
        return {"kind": ADMISSION_CHECKS.resource.api.kind, "name": key[1]}
    return {"kind": WORKLOADS.resource.api.kind, "namespace": key[0], "name": key[1]}
