"""The shadows of a server: after the verdict on a workload, what each of them would have said.

Whatever happens here, the verdict stays. A shadow is skipped if it would not be done well before the deadline, if
shadows have used up their part of the processor, or if another large review waits for the thread. A fault of a shadow
is logged and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from math import inf
from threading import local
from time import perf_counter
from typing import Any, NamedTuple

from webhook.admission.shadow import ShadowAnswer, Would, is_shadowed, shadow_answer
from webhook.config.settings import Settings, Shadow
from webhook.errors import DeadlineExceeded, Stopped
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.plain_text import cut
from webhook.server.shadow_metrics import ShadowMetrics
from webhook.server.shadow_time import Allowance
from webhook.telemetry.logs import log
from webhook.validators.registry import Proceed

# One shadow of a review that is judged on the event loop, where all other calls wait. The decision itself takes at most
# as long.
LOOP_SECONDS = 0.01
# Before the deadline there must be room for several of them, and for the answer.
_ROOM_SECONDS = 0.1
# The API server keeps the annotation in each audit event.
MAX_ANNOTATION_BYTES = 1024
_SKIPPED, _FAILED = ShadowAnswer(Would.SKIPPED), ShadowAnswer(Would.FAILED)
# The metrics of what shadows say also go by this endpoint: the object is complete, and will be stored.
ENDPOINT = "validate"


class Moment(NamedTuple):
    """When a review came and must be answered, in seconds of `perf_counter`, and how it is judged."""

    begun: float
    deadline: float
    # The parts of the facts that may be out of date.
    doubted: Container[str]
    # In the thread for large reviews: raises if no caller waits, and whether another review waits for the thread.
    proceed: Proceed | None = None
    is_awaited: Callable[[], bool] = bool


class _Limit(local):
    """When the shadow that a thread asks must end: the event loop and the lane ask at the same time."""

    end = inf
    moment = Moment(0.0, 0.0, ())

    def proceed(self) -> None:
        """Return while the shadow may continue. Raises `DeadlineExceeded`, and `Stopped` if no caller waits."""
        moment = self.moment
        if moment.proceed is not None:
            moment.proceed()
        if perf_counter() > self.end or moment.is_awaited():
            raise DeadlineExceeded("a shadow takes too long")


class Shadows:
    """Asks the shadows about reviews, and counts what they say."""

    def __init__(self, settings: Settings, metrics: ShadowMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self.allowance = Allowance(perf_counter())
        self._limit = _Limit()
        alike: dict[str, Any] = {"proceed": self._limit.proceed, "standalone": settings.standalone}
        self._shadows = [replace(one, settings=replace(one.settings, **alike)) for one in settings.shadows]

    def annotations(self, request: Request, verdict: Verdict, facts: ClusterFacts, moment: Moment) -> dict[str, str]:
        """Return what the shadows say of a workload, as audit annotations; nothing for an object of another kind.
        Raises `Stopped`.
        """
        if not is_shadowed(request, verdict, self._settings):
            return {}
        taken = perf_counter() - moment.begun
        self._limit.moment = moment
        found = {}
        for shadow in self._shadows:
            begun = perf_counter()
            said = self._judged(shadow, request, facts, self._seconds(moment, begun, taken))
            seconds = perf_counter() - begun
            self.allowance.use(seconds)
            self._metrics.count(shadow.name, said, allowed=verdict.allowed, seconds=seconds)
            found[f"shadow.{shadow.name}"] = cut(str(said), MAX_ANNOTATION_BYTES)
        return found

    def _judged(self, shadow: Shadow, request: Request, facts: ClusterFacts, seconds: float | None) -> ShadowAnswer:
        if seconds is None:
            return _SKIPPED
        self._limit.end = perf_counter() + seconds
        try:
            return shadow_answer(shadow, request, facts, self._settings, self._limit.moment.doubted)
        except DeadlineExceeded:
            return _SKIPPED
        except Stopped:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, the verdict is right without it
            log.exception("shadow failed", shadow=shadow.name, kind=request.kind.kind)
            return _FAILED

    def _seconds(self, moment: Moment, now: float, taken: float) -> float | None:
        """Return how long a shadow may take, or None if it must be skipped. The decision has `taken` that long."""
        left, room = self.allowance.left(now), moment.deadline - now
        if moment.proceed is None:
            return None if left <= 0 or room < _ROOM_SECONDS else LOOP_SECONDS
        # It runs about the same rules as the decision, so it takes about as long, in steps that cannot be interrupted.
        if moment.is_awaited() or taken > left or room < 2 * taken + _ROOM_SECONDS:
            return None
        return min(left, room / 2)
