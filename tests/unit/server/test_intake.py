"""The memory budget for bodies: which are accepted, which are ended for others, and that all memory is released."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from starlette.types import Scope

from tests.played import PlayedClock
from tests.unit.server.conftest import Call, body
from tests.waiting import turns, until
from webhook.errors import DeadlineExceeded, Overloaded
from webhook.server import intake as intake_module
from webhook.server.intake import Intake, read_body
from webhook.server.memory import ASSUMED_LIMIT, memory_limit
from webhook.server.metrics import IntakeMetrics

LIMIT = 1000


@dataclass
class Known:
    """A connection that has carried a review, or has not."""

    reviewed: bool = False

    def carried_review(self) -> None:
        """From now on."""
        self.reviewed = True

    def holds_body(self, _: Scope) -> bool:
        """Every body here comes in parts."""
        return False


@pytest.fixture
def clock() -> PlayedClock:
    return PlayedClock()


@pytest.fixture
def intake(clock: PlayedClock) -> Iterator[Intake]:
    """An intake that holds nothing after the test."""
    found = Intake(LIMIT, IntakeMetrics(CollectorRegistry()), clock=clock)
    yield found
    assert found.used == 0


def value(counter: Counter) -> float:
    """How often it was counted."""
    (family,) = counter.collect()
    return family.samples[0].value


@pytest.fixture(autouse=True)
def every_upload_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every upload is old enough to be ended."""
    monkeypatch.setattr(intake_module, "YOUNG_SECONDS", -1.0)


class Stalled:
    """An upload that sends so many bytes and no more."""

    def __init__(self, intake: Intake, size: int, *, reviewed: bool = False) -> None:
        self.upload = intake.upload(Known(reviewed))
        self._call = Call(body(b" " * size, more=True))
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> str:
        with self.upload as upload:
            try:
                await read_body(self._call.scope, self._call.receive, upload, 30)
            except Overloaded as error:
                return str(error)
        return "read"

    async def begun(self) -> Stalled:
        """Wait until its bytes are charged."""
        await until(lambda: self.upload.size)
        return self

    async def stop(self) -> None:
        """Hang up."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def read(intake: Intake, size: int, seconds: float = 30) -> int:
    """The size of a body that is read whole."""
    call = Call(body(b" " * size))
    with intake.upload(Known()) as upload:
        return len(await read_body(call.scope, call.receive, upload, seconds))


async def test_the_slowest_upload_is_ended_if_the_next_does_not_fit(intake: Intake) -> None:
    slow = await Stalled(intake, 300).begun()
    fast = await Stalled(intake, 600).begun()
    assert await read(intake, 200) == 200
    assert await slow.task == intake_module.SLOWER
    assert not fast.task.done()
    await fast.stop()
    assert value(intake.metrics.uploads_ended) == 1
    assert value(intake.metrics.uploads_refused) == 0


async def test_no_upload_is_ended_if_the_next_would_still_not_fit(intake: Intake) -> None:
    waiting = await Stalled(intake, 300).begun()
    intake.charge(600)
    with pytest.raises(Overloaded):
        await read(intake, 500)
    assert not waiting.task.done()
    intake.pay_back(600)
    await waiting.stop()
    assert value(intake.metrics.uploads_ended) == 0


async def test_the_guaranteed_decoding_ends_no_upload(intake: Intake) -> None:
    waiting = await Stalled(intake, 300).begun()
    with intake.upload(Known()) as upload:
        await upload.decode(LIMIT + 1, 1)
        assert not waiting.task.done()
    await waiting.stop()
    assert value(intake.metrics.uploads_ended) == 0


async def test_a_stalled_upload_is_ended_before_a_smaller_one_that_continues(
    intake: Intake, clock: PlayedClock
) -> None:
    slow = await Stalled(intake, 50).begun()
    stalled = await Stalled(intake, 700).begun()
    # As over a round trip of 200 ms: one second later the next bytes came, and 200 ms later they are what is known.
    clock.move(1)
    slow.upload.receive(50)
    clock.move(0.2)
    assert await read(intake, 300) == 300
    assert await stalled.task == intake_module.SLOWER
    assert not slow.task.done()
    await slow.stop()


async def test_uploads_of_known_connections_are_ended_last(intake: Intake) -> None:
    known = await Stalled(intake, 100, reviewed=True).begun()
    strangers = [await Stalled(intake, 400).begun() for _ in range(2)]
    assert await read(intake, 900) == 900
    assert [await stranger.task for stranger in strangers] == [intake_module.SLOWER] * 2
    assert not known.task.done()
    assert await read(intake, 1000) == 1000
    assert await known.task == intake_module.SLOWER


async def test_young_uploads_are_not_ended_and_the_next_is_rejected(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "YOUNG_SECONDS", 60.0)

    young = await Stalled(intake, 900).begun()
    with pytest.raises(Overloaded, match="is full"):
        await read(intake, 200)
    assert await read(intake, 100) == 100
    await young.stop()
    assert value(intake.metrics.uploads_refused) == 1


async def test_an_upload_without_data_is_not_ended_because_it_holds_no_memory(intake: Intake) -> None:
    empty = Stalled(intake, 0)
    large = await Stalled(intake, 900).begun()
    assert await read(intake, 200) == 200
    assert await large.task == intake_module.SLOWER
    assert not empty.task.done()
    await empty.stop()


async def test_the_memory_of_a_body_is_charged_until_its_call_is_answered(intake: Intake) -> None:
    call = Call(body(b" " * 300, more=True), body(b" " * 400))
    with intake.upload(Known()) as upload:
        await read_body(call.scope, call.receive, upload, 30)
        assert intake.used == 700
        # It is complete, so it is not ended for others.
        with pytest.raises(Overloaded):
            await read(intake, 400)
    assert intake.used == 0


async def test_a_stalled_body_releases_its_budget_at_its_deadline(intake: Intake) -> None:
    call = Call(body(b" " * 300, more=True))
    late = pytest.raises(DeadlineExceeded, match=r"within 0\.01 s")
    with late, intake.upload(Known()) as upload:
        await read_body(call.scope, call.receive, upload, 0.01)


async def test_decoding_ends_stalled_uploads_to_get_memory(intake: Intake) -> None:
    stalled = await Stalled(intake, 500).begun()
    with intake.upload(Known()) as upload:
        await upload.decode(800, 30)
        assert intake.used == 800
    assert await stalled.task == intake_module.SLOWER


def keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of at most 50 bytes are small."""
    monkeypatch.setattr(intake_module, "SMALL_BYTES", 50)


async def test_complete_large_bodies_leave_memory_for_small_ones(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping(monkeypatch)

    intake.kept = 100
    call = Call(body(b" " * 900))
    with intake.upload(Known()) as upload:
        await read_body(call.scope, call.receive, upload, 30)
        with pytest.raises(Overloaded):
            await read(intake, 51)
        assert await read(intake, 50) == 50


async def test_small_bodies_have_their_reserve_during_a_decoding_beyond_the_budget(
    intake: Intake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeping(monkeypatch)

    intake.kept = 100
    with intake.upload(Known()) as upload, intake.upload(Known()) as small:
        await upload.decode(3 * LIMIT, 30)
        call = Call(body(b" " * 50))
        await read_body(call.scope, call.receive, small, 30)
        assert (await read(intake, 50), intake.small) == (50, 50)
        with pytest.raises(Overloaded):
            await read(intake, 51)
    assert intake.small == 0


async def test_a_body_that_grows_no_longer_counts_as_small(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping(monkeypatch)

    intake.kept = 100
    call = Call(body(b" " * 40, more=True), body(b" " * 40))
    with intake.upload(Known()) as upload:
        await read_body(call.scope, call.receive, upload, 30)
        assert (intake.used, intake.small) == (80, 0)
    growing = await Stalled(intake, 40).begun()
    assert intake.small == 40
    assert await read(intake, 890) == 890
    assert await growing.task == intake_module.SLOWER
    assert (intake.used, intake.small) == (0, 0)


async def until_waiting(intake: Intake, number: int) -> None:
    await until(lambda: len(intake._queue) == number)


async def test_decodings_that_do_not_fit_together_take_turns_in_their_order(intake: Intake) -> None:
    order: list[int] = []

    async def decode(name: int, size: int) -> None:
        with intake.upload(Known()) as upload:
            await upload.decode(size, 30)
            order.append(name)

    with intake.upload(Known()) as first:
        await first.decode(900, 30)
        # The third would fit, and yet the second comes first.
        tasks = [asyncio.create_task(decode(name, size)) for name, size in ((2, 500), (3, 50))]
        await until_waiting(intake, 2)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == [2, 3]


async def test_one_decoding_is_always_allowed_whatever_its_size(intake: Intake) -> None:
    async def whole() -> None:
        call = Call(body(b" " * 500))
        with intake.upload(Known()) as upload:
            await read_body(call.scope, call.receive, upload, 30)
            await turns()
            await upload.decode(3 * LIMIT, 30)
            assert intake.used <= 2 * 500 + 3 * LIMIT

    # Each holds its body while it waits for the other.
    await asyncio.gather(whole(), whole())


async def test_a_decoding_without_memory_in_time_is_rejected(intake: Intake) -> None:
    with intake.upload(Known()) as first:
        await first.decode(900, 30)
        turned_away = pytest.raises(Overloaded, match=r"within 0\.0 s")
        with turned_away, intake.upload(Known()) as second:
            await second.decode(200, 0.01)
        with intake.upload(Known()) as third:
            await third.decode(100, 30)
    assert value(intake.metrics.uploads_refused) == 1


LIMITS = {
    "version 2": ({"memory.max": "536870912\n"}, 536870912),
    "version 2 without a limit": ({"memory.max": "max\n"}, ASSUMED_LIMIT),
    "version 1": ({"memory/memory.limit_in_bytes": "268435456\n"}, 268435456),
    "version 1 without a limit": ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, ASSUMED_LIMIT),
    "neither": ({}, ASSUMED_LIMIT),
    "nonsense": ({"memory.max": "-5\n"}, ASSUMED_LIMIT),
}


@pytest.mark.parametrize(("files", "limit"), LIMITS.values(), ids=LIMITS)
def test_the_memory_limit_is_read_from_the_control_group(tmp_path: Path, files: dict[str, str], limit: int) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert memory_limit(tmp_path) == limit
