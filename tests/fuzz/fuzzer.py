"""The loop: take a useful input, change it, send it, judge the answer, and keep the inputs that reach new code."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any

import orjson
import structlog

from tests.fuzz.guidance import Guide
from tests.fuzz.inputs import MUTATE, REVIEWED, VALIDATE, Input
from tests.fuzz.mutation import Mutator
from tests.fuzz.oracle import Answer, Complaint, judge
from tests.fuzz.worlds import World, worlds

# No body of this size takes a hundredth of it; a machine may be busy.
HANG_SECONDS = 120
# One in so many bodies is sent twice and must get the same answer: no body may change the answer to another.
_TWICE = 50
# After so many bodies everything is looked at again.
_AGAIN = 50_000
# Which part of the bodies are manifests: reading them takes ten times as long as all that is done with a review.
_MANIFESTS = 0.08
# How often the choice is among the last that were kept.
_NEWER = 0.3
# Of answers that are wrong in the same way so many are shown.
_SAME_FAULT = 2


class Hang(BaseException):
    """A body that is not answered in time. Not an `Exception`, so that it is not handled as a fault of the body."""


@dataclass
class Found:
    """What a run came to."""

    bodies: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    # By kind: the first inputs that were answered in a way that the contract does not allow.
    complaints: dict[str, list[tuple[Input, str]]] = field(default_factory=dict)
    slowest: tuple[float, Input | None] = (0.0, None)


class Fuzzer:
    """All worlds, and their clients. Only within `running`."""

    def __init__(self, random: Random, guide: Guide | None) -> None:
        self.worlds = worlds()
        self.found = Found()
        self.kept_reviews: list[Input] = []
        self.kept_manifests: list[Input] = []
        # Kinds, rules and outcomes that were seen together.
        self.outcomes: set[tuple[str, ...]] = set()
        self._random = random
        self._guide = guide
        self._mutator = Mutator(random)

    @property
    def kept(self) -> list[Input]:
        """The inputs that led to something new."""
        return [*self.kept_reviews, *self.kept_manifests]

    async def start_with(self, inputs: list[Input]) -> None:
        """Ask these, and keep all that lead to something new."""
        for one in inputs:
            self._mutator.show(one)
        for one in inputs:
            await self._try(one, keep=self._guide is None)

    async def run(self, bodies: int, each: Callable[[Fuzzer], None] = lambda _: None) -> Found:
        """Ask so many more; `each` is called after some thousand."""
        for count in range(1, bodies + 1):
            await self._try(self._mutator.mutate(self._chosen()))
            if self._guide is not None and count % _AGAIN == 0:
                self._guide.again()
            if count % 5000 == 0:
                each(self)
        return self.found

    def _chosen(self) -> Input:
        """One of those kept, newer ones more often: they are of where few have been."""
        manifests = self._random.random() < _MANIFESTS or not self.kept_reviews
        kept = (manifests and self.kept_manifests) or self.kept_reviews
        if self._random.random() < _NEWER:
            return kept[-1 - int(len(kept) * self._random.random() ** 3)]
        return self._random.choice(kept)

    async def _try(self, one: Input, *, keep: bool = False) -> None:
        seen, known = self._reached()
        begun = time.process_time()
        try:
            answer = await self.note(one)
        except Complaint as complaint:
            same = self.found.complaints.setdefault(complaint.kind, [])
            if len(same) < _SAME_FAULT:
                same.append((one, str(complaint)))
            self.found.answers["wrong"] += 1
        else:
            self.found.answers[f"{one.path} {answer.status}"] += 1
        took = time.process_time() - begun
        self.found.bodies += 1
        if took > self.found.slowest[0]:
            self.found.slowest = (took, one)
        if keep or self._reached() != (seen, known):
            (self.kept_reviews if one.path in REVIEWED else self.kept_manifests).append(one)
            self._mutator.show(one)

    def _reached(self) -> tuple[int, int]:
        return 0 if self._guide is None else len(self._guide.seen), len(self.outcomes)

    async def note(self, one: Input) -> Answer:
        """The answer to an input, whose outcome is remembered. Raises `Complaint`."""
        answer = await self.ask(one)
        if one.path in REVIEWED and answer.status == HTTPStatus.OK:
            self.outcomes.update(_outcomes(one, answer))
        return answer

    async def ask(self, one: Input) -> Answer:
        """The answer to an input, after all that must hold of it was seen to. Raises `Complaint`."""
        world = self.worlds[one.world]
        try:
            answer = await called(world, one)
            changed = judge(one, answer)
            if changed is not None:
                await self._settled(one, changed)
            if self._random.randrange(_TWICE) == 0:
                again = await called(world, one)
                if again != answer:
                    raise Complaint("another answer the second time", (answer, again))
        except Hang:
            raise Complaint("no answer in time", one) from None
        except Complaint as complaint:
            if complaint.kind == "status 500":
                raise Complaint(f"status 500: {last_fault()}") from None
            raise
        return answer

    async def _settled(self, one: Input, changed: Any) -> None:
        """A patched object is not patched again, and gets a verdict."""
        try:
            body = json.dumps(changed).encode()
        except RecursionError:
            # Nested so deep that it cannot be written here.
            return
        again = one._replace(body=body, query="", parts=1)
        world = self.worlds[one.world]
        if judge(again, await called(world, again)) is not None:
            raise Complaint("mutation that does not settle", again)
        judge(again._replace(path=VALIDATE), await called(world, again._replace(path=VALIDATE)))


def _outcomes(one: Input, answer: Answer) -> Iterator[tuple[str, ...]]:
    told = orjson.loads(answer.body)["response"]
    said = told.get("auditAnnotations", {})
    kind = orjson.loads(one.body)["request"]["kind"].get("kind")
    if isinstance(kind, str) and (said or one.path == MUTATE):
        where = (one.path, str(said.get("decision")))
        for key in ("rules", "unjudged"):
            for rule in said.get(key, "").split(","):
                yield (*where, key, rule)


async def called(world: World, one: Input) -> Answer:
    """What the application sends back."""
    parts = _parts(one)
    sent: list[Any] = []

    async def receive() -> Any:
        if not parts:
            # Its client waits for the answer.
            await asyncio.Event().wait()
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": one.path,
        "query_string": one.query.encode(),
        "headers": [],
    }
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        await world.app(scope, receive, send)
    except Exception as error:
        raise Complaint(f"raised {_fault(error)}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    kinds = dict(sent[0]["headers"])
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], kinds[b"content-type"].decode(), body)


def _parts(one: Input) -> list[dict[str, Any]]:
    size = max(1, -(-len(one.body) // one.parts))
    cut = [one.body[at : at + size] for at in range(0, len(one.body), size)] or [b""]
    return [{"type": "http.request", "body": part, "more_body": part is not cut[-1]} for part in cut]


# The server's log of internal errors

_faults: list[str] = []


def last_fault() -> str:
    """The type of the last exception that the server took for its own fault, and where it came from."""
    return _faults[-1] if _faults else "unknown"


def _fault(error: BaseException) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/webhook/" in code.co_filename:
            place = f"{code.co_filename.rpartition('/webhook/')[2]}:{trace.tb_lineno} {code.co_qualname}"
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:100]} in {place}"


class _Nowhere:
    """Where the log goes."""

    def msg(self, _: bytes) -> None:
        """Discard it."""

    info = warning = error = exception = msg


def _noted(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    found = event.get("exc_info")
    if isinstance(found, BaseException) or found is True:
        import sys

        error = found if isinstance(found, BaseException) else sys.exc_info()[1]
        if error is not None:
            _faults[:] = [_fault(error)]
    elif "why" in event:
        _faults[:] = [str(event["why"])[:100]]
    return event


@contextmanager
def running(guide: Guide | None) -> Iterator[None]:
    """Log as a server does, but to nowhere; watch; and end what hangs."""

    def hang(_: int, __: object) -> None:
        raise Hang

    before = structlog.get_config()
    handler = signal.signal(signal.SIGALRM, hang)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _noted,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(orjson.dumps),
        ],
        logger_factory=lambda *_: _Nowhere(),
        cache_logger_on_first_use=False,
    )
    if guide is not None:
        guide.start()
    try:
        yield
    finally:
        if guide is not None:
            guide.stop()
        structlog.configure(**before)
        signal.signal(signal.SIGALRM, handler)


def fuzz(random: Random, guide: Guide | None, inputs: list[Input], bodies: int, each: Any = lambda _: None) -> Fuzzer:
    """A run over `inputs`, the seeds and the corpus, and the given number of further bodies."""

    async def whole(fuzzer: Fuzzer) -> None:
        await fuzzer.start_with(inputs)
        await fuzzer.run(bodies, each)

    with running(guide):
        fuzzer = Fuzzer(random, guide)
        asyncio.run(whole(fuzzer))
    return fuzzer
