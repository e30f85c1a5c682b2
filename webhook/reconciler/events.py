"""Events on PodGangs, workloads, bindings, groups, Secrets and namespaces: what keeps them from working, and which
remedies were tried.

A problem is reported once, not at every attempt. Many gangs of a namespace that are held for the same cause share one
event, which is about the namespace. A namespace is also told when an exception of its rules ends, a week before and
once it has ended, and when it uses all of its share of what all namespaces share.

Source: events.k8s.io/v1; the API server keeps an event for an hour.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from http import HTTPStatus
from itertools import islice
from typing import NamedTuple

from webhook.certificates.status import StoredCertificate
from webhook.cluster import requests, spans
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import log, outline
from webhook.errors import RequestFailed
from webhook.gangs import hold_reasons
from webhook.model.bounds import FairMemory
from webhook.model.findings import Exceptions, RuleException, plain
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import Api
from webhook.model.kueue_objects import WORKLOAD_KIND
from webhook.model.projections import TOPOLOGY_BINDINGS, Resource
from webhook.model.reading import Manifest
from webhook.reconciler.held_gangs import HeldBackNote, HeldCause, OwnEvents, not_noted
from webhook.reconciler.metrics import ReconcilerMetrics, SharedBound

EVENTS = Resource(Api("events.k8s.io", "v1", "Event"), "events")
# The API server's limit for a note.
MAX_NOTE_BYTES = 1024
# The same problem is reported again after this time, before the API server deletes the first event.
REPEAT_SECONDS = 1800.0
# Within this time all replicas give the same event the same name. So a restarted process or a new leader does not
# report everything again.
SAME_SECONDS = 600.0
# Number of problems that are remembered.
MEMORY = 10_000
# Namespace of events about objects without a namespace: Kubernetes accepts no other.
CLUSTER_NAMESPACE = "default"
# Actions of events about a namespace, or about a gang.
WRITE_GANG_OBJECTS, APPLY_EXCEPTION = "WriteGangObjects", "ApplyException"


class CircledGroup(NamedTuple):
    """A group that is part of a circle."""

    resource: Resource
    namespace: str
    name: str
    uid: str | None


class CheckedWorkload(NamedTuple):
    """A Workload of Kueue whose AdmissionCheck was answered."""

    namespace: str
    name: str
    uid: str


class RegardedNamespace(NamedTuple):
    """A namespace, and what the reconciler does there. Its events are in it, where its users look for them."""

    name: str
    action: str
    uid: None = None


# What an event may be about, and its reason.
Regarded = PodGang | ClusterTopologyBinding | CircledGroup | StoredCertificate | CheckedWorkload | RegardedNamespace
Why = (
    hold_reasons.GangReason
    | hold_reasons.TopologyReason
    | hold_reasons.GroupReason
    | hold_reasons.CertificateReason
    | hold_reasons.CheckReason
    | hold_reasons.ExceptionReason
    | hold_reasons.RemedyReason
    | hold_reasons.ShareReason
)
# Events that need no person.
_NORMAL = frozenset({hold_reasons.RemedyReason.BEGUN, hold_reasons.RemedyReason.HELPED})
# A report is remembered by the uid of the object, the name of the gang (an object may have several), and the reason.
_ReportKey = tuple[str, str, Why]


class _LastNote(NamedTuple):
    note: str
    at: float


class Events:
    """Writes events. A failed write is only logged: no gang waits for an event."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        client: Client,
        metrics: ReconcilerMetrics,
        instance: str,
        leads: Callable[[], bool],
        *,
        held_back: HeldBackNote = not_noted,
        dry_run: bool = False,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._instance = instance
        self._leads = leads
        self._dry_run = dry_run
        self._clock = clock
        # Which gangs get an event of their own.
        self.own = OwnEvents(held_back)
        self._notes: FairMemory[_ReportKey, _LastNote] = FairMemory(MEMORY)
        # How often each report was written.
        self._times: FairMemory[_ReportKey, int] = FairMemory(MEMORY)

    async def warn(self, regarded: Regarded, reason: Why, note: str) -> None:
        """Writes a Warning, unless the last one for this object and reason has the same note and is recent, or too many
        gangs of its namespace had one for this reason: then they share an event.
        """
        about, now = _report_key(regarded, reason), self._clock.monotonic()
        before = self._notes.get(about)
        if before is not None and before.note == note and now - before.at < REPEAT_SECONDS:
            return
        self._notes.put(_namespace(regarded), about, _LastNote(note, now))
        if self._has_own(regarded, reason, now):
            await self.say(regarded, reason, note, apart=note)

    def _has_own(self, regarded: Regarded, reason: Why, now: float) -> bool:
        """Returns whether an object gets an event of its own: too many gangs of a namespace share one."""
        if self._dry_run or not (isinstance(regarded, PodGang) and isinstance(reason, hold_reasons.GangReason)):
            return True
        return self.own.take(HeldCause(regarded.namespace, reason), now, REPEAT_SECONDS)

    async def say(self, regarded: Regarded, reason: Why, note: str, *, apart: str = "") -> None:
        """Writes a Warning, unless another process did within `SAME_SECONDS`. Those with different `apart` differ."""
        note = _prefixed(regarded, note)
        log_fields = _identity(regarded).log_fields
        if self._dry_run:
            # A dry run writes no event, so the log must contain the note.
            log.warning("told", reason=reason, **log_fields, why=note)
            return
        # The note quotes the object and is in the event, so it is not logged.
        log.warning("told", reason=reason, **log_fields)
        if self._leads():
            await self._written(requests.create(EVENTS, self._event(regarded, reason, note, apart)), reason, log_fields)

    async def say_of_many(
        self, namespace: str, reason: hold_reasons.GangReason, note: str, count: int, event: str | None
    ) -> str | None:
        """Writes a Warning about so many gangs of a namespace, or continues `event`, of which the API server lets only
        the series change. Returns the event's name; None if there is none.
        """
        regarded = RegardedNamespace(namespace, WRITE_GANG_OBJECTS)
        log_fields = _identity(regarded).log_fields
        if self._dry_run:
            log.warning("told", reason=reason, **log_fields, count=count, why=note)
            return None
        if not self._leads():
            return event
        # The API server accepts no series of one.
        series = {"series": {"count": count, "lastObservedTime": self._now()}} if count > 1 else {}
        if event is not None and await self._continued(event, namespace, reason, series) != HTTPStatus.NOT_FOUND:
            return event
        log.warning("told", reason=reason, **log_fields, count=count)
        manifest = {**self._event(regarded, reason, note, ""), **series}
        event = str(manifest["metadata"]["name"])
        code = await self._written(requests.create(EVENTS, manifest), reason, log_fields)
        if code == HTTPStatus.CONFLICT:
            # An earlier leader wrote it.
            code = await self._continued(event, namespace, reason, series)
        return event if code is None else None

    async def _continued(self, event: str, namespace: str, reason: Why, series: Manifest) -> int | None:
        """Changes the series of an event. Returns as `_written` does."""
        changes = [{"op": "add", "path": f"/{field}", "value": value} for field, value in series.items()]
        if not changes:
            return None
        log_fields = {"kind": "Namespace", "name": namespace}
        return await self._written(requests.json_patch(EVENTS, namespace, event, changes), reason, log_fields)

    async def _written(self, write: requests.Write, reason: Why, log_fields: dict[str, str]) -> int | None:
        """Sends a write. Returns the code of the failure, 0 for no answer, None if it succeeded."""
        try:
            with spans.span("write", spans.Side.CLIENT, {"rollcall.kind": EVENTS.api.kind}):
                await self._client.write(write)
        except RequestFailed as error:
            if error.code != HTTPStatus.CONFLICT:
                log.info("event not written", reason=reason, **log_fields, why=outline(error))
            return error.code
        self._metrics.events.labels(reason.value).inc()
        return None

    def well(self, regarded: Regarded, reasons: Iterable[Why] = hold_reasons.GangReason) -> None:
        """Forgets the reports for these reasons, because the problem is solved: the next one is reported at once."""
        for reason in reasons:
            self._notes.drop(_report_key(regarded, reason))

    def _event(self, regarded: Regarded, reason: Why, note: str, apart: str) -> Manifest:
        identity = _identity(regarded)
        digest = self._digest(regarded, reason, apart)
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{identity.name[:200]}.{digest}", "namespace": _namespace(regarded)},
            "eventTime": self._now(),
            "type": "Normal" if reason in _NORMAL else "Warning",
            "reason": reason.value,
            "action": identity.action,
            "note": plain(note).encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
            "reportingController": "rollcall.dev/reconciler",
            "reportingInstance": self._instance[:128],
            "regarding": {
                "apiVersion": identity.api_version,
                **identity.log_fields,
                **({} if regarded.uid is None else {"uid": regarded.uid}),
            },
        }

    def _digest(self, regarded: Regarded, reason: Why, apart: str) -> str:
        about = _report_key(regarded, reason)
        times = (self._times.get(about) or 0) + 1
        self._times.put(_namespace(regarded), about, times)
        again = "" if times == 1 else f"{self._instance} {times}"
        time = str(int(self._clock.now().timestamp() // SAME_SECONDS))
        what = "\n".join((*about[:2], reason.value, apart, again, time))
        return hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _now(self) -> str:
        """Returns the time, as Kubernetes writes a MicroTime."""
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _EventObject(NamedTuple):
    """The object of an event, and the action that the reconciler tried."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    action: str

    @property
    def log_fields(self) -> dict[str, str]:
        """Kind, name and, if it has one, namespace."""
        fields = {"kind": self.kind, "name": self.name}
        return fields if self.namespace is None else {**fields, "namespace": self.namespace}


def _identity(regarded: Regarded) -> _EventObject:
    """Returns the identity of the object; for a gang of an opted-in workload, that of the workload."""
    if isinstance(regarded, PodGang):
        owner = regarded.reference
        return _EventObject(owner.api_version, owner.kind, owner.name, regarded.namespace, WRITE_GANG_OBJECTS)
    if isinstance(regarded, RegardedNamespace):
        return _EventObject("v1", "Namespace", regarded.name, regarded.name, regarded.action)
    if isinstance(regarded, CircledGroup):
        api = regarded.resource.api
        return _EventObject(f"{api.group}/{api.version}", api.kind, regarded.name, regarded.namespace, "FindRoot")
    if isinstance(regarded, CheckedWorkload):
        api = WORKLOAD_KIND.api
        return _EventObject(
            f"{api.group}/{api.version}", api.kind, regarded.name, regarded.namespace, "AnswerAdmissionCheck"
        )
    if isinstance(regarded, StoredCertificate):
        return _EventObject("v1", "Secret", regarded.name, regarded.namespace, "RotateCertificate")
    api = TOPOLOGY_BINDINGS.resource.api
    return _EventObject(f"{api.group}/{api.version}", api.kind, regarded.name, None, "WriteTopologyObject")


def _namespace(regarded: Regarded) -> str:
    """Returns the namespace of an object's events."""
    return _identity(regarded).namespace or CLUSTER_NAMESPACE


def _report_key(regarded: Regarded, reason: Why) -> _ReportKey:
    return regarded.uid or "", regarded.name, reason


def _prefixed(regarded: Regarded, note: str) -> str:
    """Returns `note`, prefixed with the gang's name if the object has another name."""
    if isinstance(regarded, PodGang) and regarded.name != regarded.reference.name:
        return f"gang {regarded.name}: {note}"
    return note


# How often the ends are compared with the time.
EXCEPTION_LOOK_SECONDS = 30.0
# The configuration may have hundreds of exceptions for dozens of namespaces each.
EXCEPTION_EVENTS_A_LOOK = 20


class ExceptionWatch:
    """Announces each end to each namespace. `only` is the only namespace that is written to."""

    def __init__(
        self,
        exceptions: Exceptions,
        events: Events,
        leads: Callable[[], bool],
        changed: Callable[[], None],
        *,
        only: str | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`changed` is called when one has ended."""
        self._exceptions = exceptions
        self._events = events
        self._leads = leads
        self._changed = changed
        self._only = only
        self._clock = clock
        self._in_force: set[str] | None = None
        # On which day each end was last announced, by exception, namespace and reason.
        self._announced: dict[tuple[str, str, hold_reasons.ExceptionReason], date] = {}

    async def run(self) -> None:
        """Compares the ends with the time until cancelled."""
        while self._exceptions.every:
            await self.look(self._clock.now())
            await asyncio.sleep(EXCEPTION_LOOK_SECONDS)

    async def look(self, now: datetime) -> None:
        """Announces what is due at `now`."""
        in_force = {exception.name for exception in self._exceptions.every if not exception.has_ended(now)}
        if self._in_force is not None and self._in_force != in_force:
            # Also if one is in force again: the date was wrong, and has been set back.
            self._changed()
        self._in_force = in_force
        for ended in [
            key for key in self._announced if key[0] in in_force and key[2] is hold_reasons.ExceptionReason.ENDED
        ]:
            del self._announced[ended]
        if not self._leads():
            return
        due = [
            (exception, reason) for exception in self._exceptions.every if (reason := _due(exception, now)) is not None
        ]
        about = [
            (exception, namespace, reason) for exception, reason in due for namespace in sorted(exception.namespaces)
        ]
        untold = (announcement for announcement in about if self._is_untold(*announcement, now))
        for exception, namespace, reason in islice(untold, EXCEPTION_EVENTS_A_LOOK):
            self._announced[exception.name, namespace, reason] = now.date()
            regarded = RegardedNamespace(namespace, APPLY_EXCEPTION)
            await self._events.say(regarded, reason, _note(exception, now), apart=exception.name)

    def _is_untold(
        self, exception: RuleException, namespace: str, reason: hold_reasons.ExceptionReason, now: datetime
    ) -> bool:
        """Returns whether an end is to be announced: once a day before, and once afterwards."""
        if self._only not in {None, namespace}:
            return False
        announced = self._announced.get((exception.name, namespace, reason))
        return announced is None or (reason is hold_reasons.ExceptionReason.ENDS_SOON and announced != now.date())


def _due(exception: RuleException, now: datetime) -> hold_reasons.ExceptionReason | None:
    if exception.has_ended(now):
        return hold_reasons.ExceptionReason.ENDED
    return hold_reasons.ExceptionReason.ENDS_SOON if exception.ends_soon(now) else None


def _note(exception: RuleException, now: datetime) -> str:
    rules = ", ".join(sorted(exception.rules))
    what = (
        f"Exception {exception.name} of the rules {rules} for {exception.workloads} {exception.time_left(now)}, "
        f"at {exception.ends}"
    )
    do = (
        "new workloads are refused again: change the workloads, or delete the exception from the configuration"
        if exception.has_ended(now)
        else f"change the workloads before, or ask {exception.granted_by} for another end"
    )
    return f"{what}; {do}. It was granted by {exception.granted_by}: {exception.reason}"


# How often the namespaces are counted.
SHARE_LOOK_SECONDS = 5.0
# What wants more than it gets says so every second or so. After this time it does not want more any longer.
RECENT_SECONDS = 10.0
# A namespace that is held back for so long is told. Thousands of gangs that come at once are written within this time.
LASTING_SECONDS = 60.0
# The limit protects the API server from an event in each of thousands of namespaces at once.
SHARE_EVENTS_A_LOOK = 10


_SAYS = {
    SharedBound.WORKERS: "so many of its gangs changed that their objects are written late",
    SharedBound.WRITES: "so many of its gangs lost pods or have escaped pods that conditions or deletions come late",
    SharedBound.HEALTH: "so many of its gangs changed that their health is judged late",
    SharedBound.LOSSES: "so many of its gangs lost pods that some of the lost pods are not remembered",
    SharedBound.REMEDIES: "so many of its gangs need a remedy that some wait for it",
}


@dataclass(slots=True)
class _Shortage:
    """Since when a namespace wants more than it gets without a break, and when it last did."""

    since: float
    last: float


class HeldBack:
    """Counts and tells which namespaces are held back. Call `note` each time that one is."""

    def __init__(self, metrics: ReconcilerMetrics, leads: Callable[[], bool], *, clock: Clock = MACHINE_CLOCK) -> None:
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._noted: dict[tuple[str, SharedBound], _Shortage] = {}
        # When each namespace was last told.
        self._announced: dict[str, float] = {}

    def note(self, bound: SharedBound, namespace: str) -> None:
        """Notes that a namespace wants more than its share. Keys without a namespace have none to tell."""
        if not namespace:
            return
        now = self._clock.monotonic()
        noted = self._noted.setdefault((namespace, bound), _Shortage(now, now))
        noted.last = now

    async def run(self, events: Events) -> None:
        """Counts from time to time until cancelled, and tells the namespaces if this process leads."""
        while True:
            await asyncio.sleep(SHARE_LOOK_SECONDS)
            await self.look(events)

    async def look(self, events: Events) -> None:
        """Counts the namespaces that are held back, and tells those that have been for long."""
        now = self._clock.monotonic()
        self._noted = {about: noted for about, noted in self._noted.items() if now - noted.last < RECENT_SECONDS}
        counts = Counter(bound for _, bound in self._noted)
        for bound in SharedBound:
            self._metrics.held_back.labels(bound.value).set(counts[bound])
        if not self._leads():
            return
        self._announced = {namespace: at for namespace, at in self._announced.items() if now - at < REPEAT_SECONDS}
        lasting: dict[str, list[SharedBound]] = {}
        for (namespace, bound), noted in self._noted.items():
            if bound in _SAYS and now - noted.since >= LASTING_SECONDS and namespace not in self._announced:
                lasting.setdefault(namespace, []).append(bound)
        for namespace, bounds in islice(lasting.items(), SHARE_EVENTS_A_LOOK):
            self._announced[namespace] = now
            regarded = RegardedNamespace(namespace, WRITE_GANG_OBJECTS)
            await events.say(regarded, hold_reasons.ShareReason.HELD_BACK, _share_note(namespace, bounds))


def _share_note(namespace: str, bounds: list[SharedBound]) -> str:
    uses = "; ".join(words for bound, words in _SAYS.items() if bound in bounds)
    return (
        f"All namespaces share Rollcall, and this one uses all of its share: {uses}. Create and change fewer gangs at "
        f"a time, and delete those that are not needed: rollcall gangs -n {namespace} shows all"
    )
