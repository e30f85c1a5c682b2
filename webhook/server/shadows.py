"""The shadows of a server: after the verdict on a workload, what each of them would have said.

Whatever happens here, the verdict stays. A shadow is skipped if it would not be done well before the deadline, if
shadows have used up their part of the processor, or if another large review waits for the thread. What they use is
processor time of their threads: other programs on the machine do not use it up. A fault of a shadow is logged and
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from math import inf
from threading import Lock, local
from typing import Any, NamedTuple

from webhook.admission.decision import ShadowAnswer, ShadowOutcome, is_shadowed, shadow_answer
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import log
from webhook.config.settings import Settings, Shadow
from webhook.errors import DeadlineExceeded, Stopped
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import cut
from webhook.server.metrics import ShadowMetrics
from webhook.validators.registry import Proceed

# All shadows together may take this part of the time of one processor, in the long run.
SHARE = 0.25
# As much is saved up while they do nothing, in seconds.
MOST_SAVED = 1.0


class Allowance:
    """A budget in seconds of a processor that fills up as time passes. The event loop and the lane use it."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._lock = Lock()
        self._left = MOST_SAVED
        self._at = clock.monotonic()

    def left(self) -> float:
        """Returns the seconds that may be used now; negative after more was used than there was."""
        now = self._clock.monotonic()
        with self._lock:
            self._left = min(MOST_SAVED, self._left + SHARE * max(0.0, now - self._at))
            self._at = max(self._at, now)
            return self._left

    def use(self, seconds: float) -> None:
        """Takes what was used."""
        with self._lock:
            self._left -= seconds


# One shadow of a review that is judged on the event loop, where all other calls wait, in seconds of a processor. The
# decision itself takes at most as long.
LOOP_SECONDS = 0.01
# Before the deadline there must be room for several of them, and for the answer.
_ROOM_SECONDS = 0.1
# The API server keeps the annotation in each audit event.
MAX_ANNOTATION_BYTES = 1024
_SKIPPED, _FAILED = ShadowAnswer(ShadowOutcome.SKIPPED), ShadowAnswer(ShadowOutcome.FAILED)
# The metrics of what shadows say also go by this endpoint: the object is complete, and will be stored.
ENDPOINT = "validate"


class Moment(NamedTuple):
    """When a review came and must be answered, in seconds of `Clock.monotonic`, and how it is judged."""

    begun: float
    deadline: float
    # The parts of the facts that may be out of date.
    doubted: Container[str]
    # In the thread for large reviews: raises if no caller waits, whether another review waits for the thread, and the
    # seconds of a processor that the review has used there.
    proceed: Proceed | None = None
    is_awaited: Callable[[], bool] = bool
    used: Callable[[], float] = float


class _Cost(NamedTuple):
    """Seconds for which the caller waits, and of them the seconds of a processor."""

    seconds: float
    processor: float


class _Limit(local):
    """When the shadow that a thread asks must end: the event loop and the lane ask at the same time, and each has its
    own processor time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By `Clock.monotonic`, and by `Clock.processor` of this thread.
        self.end = self.processor_end = inf
        self.moment = Moment(0.0, 0.0, ())

    def proceed(self) -> None:
        """Returns while the shadow may continue. Raises `DeadlineExceeded`, and `Stopped` if no caller waits."""
        moment, clock = self.moment, self._clock
        if moment.proceed is not None:
            moment.proceed()
        if clock.processor() > self.processor_end or clock.monotonic() > self.end or moment.is_awaited():
            raise DeadlineExceeded("a shadow takes too long")


class Shadows:
    """Asks the shadows about reviews, and counts what they say."""

    def __init__(self, settings: Settings, metrics: ShadowMetrics, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self.allowance = Allowance(clock=clock)
        self._limit = _Limit(clock)
        alike: dict[str, Any] = {"proceed": self._limit.proceed, "standalone": settings.standalone}
        self._shadows = [replace(shadow, settings=replace(shadow.settings, **alike)) for shadow in settings.shadows]

    def annotations(self, request: Request, verdict: Verdict, facts: ClusterFacts, moment: Moment) -> dict[str, str]:
        """Returns what the shadows say of a workload, as audit annotations; nothing for an object of another kind.
        Raises `Stopped`.
        """
        if not is_shadowed(request, verdict, self._settings):
            return {}
        self._limit.moment = moment
        decision = _Cost(self._clock.monotonic() - moment.begun, moment.used())
        annotations = {}
        for shadow in self._shadows:
            begun = self._clock.processor()
            answer = self._judged(shadow, request, facts, self._most(moment, decision))
            seconds = self._clock.processor() - begun
            self.allowance.use(seconds)
            self._metrics.count(shadow.name, answer, allowed=verdict.allowed, seconds=seconds)
            annotations[f"shadow.{shadow.name}"] = cut(str(answer), MAX_ANNOTATION_BYTES)
        return annotations

    def _judged(self, shadow: Shadow, request: Request, facts: ClusterFacts, most: _Cost | None) -> ShadowAnswer:
        if most is None:
            return _SKIPPED
        self._limit.end = self._clock.monotonic() + most.seconds
        self._limit.processor_end = self._clock.processor() + most.processor
        try:
            return shadow_answer(shadow, request, facts, self._settings, self._limit.moment.doubted)
        except DeadlineExceeded:
            return _SKIPPED
        except Stopped:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, the verdict is right without it
            log.exception("shadow failed", shadow=shadow.name, kind=request.kind.kind)
            return _FAILED

    def _most(self, moment: Moment, decision: _Cost) -> _Cost | None:
        """Returns what a shadow may cost, or None if it must be skipped. The decision has cost `decision`."""
        left, room = self.allowance.left(), moment.deadline - self._clock.monotonic()
        if moment.proceed is None:
            return None if left <= 0 or room < _ROOM_SECONDS else _Cost(room / 2, LOOP_SECONDS)
        # It runs about the same rules as the decision, so it costs about as much, in steps that cannot be interrupted.
        if moment.is_awaited() or decision.processor > left or room < 2 * decision.seconds + _ROOM_SECONDS:
            return None
        return _Cost(room / 2, left)
