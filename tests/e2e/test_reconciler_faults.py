"""The reconciler and a faulty API server: each kind of fault is put into the requests to a real one. Afterwards every
gang has its objects, metrics show the fault while it lasts, and requests obey the pauses between attempts.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gang_story import KOORD, Story
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.network import Exchange, Meddle, Network, Send, refusal
from tests.e2e.programs import eventually
from webhook.cluster import watch as watching
from webhook.reconciler import work_queue
from webhook.reconciler.manager import WORKERS

GANGS, OBJECTS = 8, 20
# How long each fault lasts: several pauses.
FAULT_SECONDS = 3.0
# Time that the test cannot control: the machine may be busy between two readings of the clock.
SLACK_SECONDS = 2.0

Started = Callable[[], HostedReconciler]


@pytest.fixture
def story(plane: ControlPlane, namespace: str) -> Story:
    """Eight gangs that need no scheduler."""
    return Story(plane, namespace, GANGS, KOORD, pods=False)


@pytest.fixture
def started(story: Story) -> Iterator[Started]:
    """Start a reconciler for the story's namespace; it goes with the test."""
    running: list[HostedReconciler] = []

    def start() -> HostedReconciler:
        found = HostedReconciler(Network(story.plane), KOORDINATOR, namespace=story.namespace)
        running.append(found)
        found.until_leading()
        return found

    yield start
    for found in running:
        found.stop()
    story.close()


def attempts(seconds: float, pauses: tuple[float, float]) -> int:
    """How often something that fails can have been tried in so long: pauses double, and a half of each is random."""
    first, most = pauses
    tried, passed = 1, 0.0
    while passed <= seconds:
        passed += min(most, first * 2.0 ** (tried - 1)) / 2
        tried += 1
    return tried


def while_faulty(reconciler: HostedReconciler, meddle: Meddle) -> tuple[Callable[[], list[Exchange]], float]:
    """Put the fault in the way; the requests since then, and when it began."""
    begun = time.monotonic()
    reconciler.network.meddle = meddle
    return lambda: [found for found in list(reconciler.network.exchanges) if found.asked >= begun], begun


def until_over(begun: float) -> float:
    """Wait until the fault has lasted long enough; how long it has."""
    eventually(lambda: time.monotonic() - begun >= FAULT_SECONDS, "the fault has lasted", pause=0.01)
    return time.monotonic() - begun


def check_recovered(reconciler: HostedReconciler, story: Story, objects: int = OBJECTS) -> None:
    """No fault any more: everything is written, and nothing fails."""
    reconciler.network.meddle = lambda request, send: send(request)

    def written() -> bool:
        assert len(story.objects()) == objects, f"{len(story.objects())} objects"
        return True

    eventually(written, "every gang has its objects", timeout=60)
    reconciler.until_idle()
    assert reconciler.metric("rollcall_queue_failing") == 0


def changes(exchanges: list[Exchange]) -> list[Exchange]:
    """The requests that were to change something."""
    return [found for found in exchanges if found.changes_gangs]


@pytest.mark.parametrize(("code", "word"), [(409, "conflict"), pytest.param(500, "failed", marks=pytest.mark.soak)])
def test_failed_writes_are_retried_with_growing_delays(story: Story, started: Started, code: int, word: str) -> None:
    reconciler = started()

    async def failing(request: httpx.Request, send: Send) -> httpx.Response:
        return refusal(code, "not now") if request.method == "PATCH" else await send(request)

    asked, begun = while_faulty(reconciler, failing)
    story.tell("create")
    eventually(lambda: reconciler.metric("rollcall_queue_failing") == GANGS, "every gang is known to fail")
    lasted = until_over(begun)
    sent = changes(asked())
    assert GANGS * 2 <= len(sent) <= GANGS * attempts(lasted + SLACK_SECONDS, work_queue.BACKOFF_SECONDS)
    assert reconciler.metric("rollcall_retries_total", why=word) == pytest.approx(len(sent), abs=WORKERS)
    assert story.objects() == {}
    check_recovered(reconciler, story)


@pytest.mark.soak
def test_the_reconciler_waits_as_long_as_an_overloaded_api_server_asks(story: Story, started: Started) -> None:
    reconciler = started()

    async def throttling(request: httpx.Request, send: Send) -> httpx.Response:
        return refusal(429, "too many requests", retry_after="1") if request.method == "PATCH" else await send(request)

    asked, begun = while_faulty(reconciler, throttling)
    story.tell("create")
    eventually(lambda: reconciler.metric("rollcall_retries_total", why="throttled") > 0, "it is told to wait")
    lasted = until_over(begun)
    # Each worker once a second at most, however many gangs wait.
    assert WORKERS <= len(changes(asked())) <= WORKERS * (math.floor(lasted) + 1)
    check_recovered(reconciler, story)


@pytest.mark.soak
def test_watches_with_an_expired_version_are_restarted_by_a_list_with_delays(story: Story, started: Started) -> None:
    reconciler = started()
    story.tell("create")
    check_recovered(reconciler, story)

    async def gone(request: httpx.Request, send: Send) -> httpx.Response:
        if "watch" in request.url.params:
            return refusal(410, "too old resource version")
        return await send(request)

    asked, begun = while_faulty(reconciler, gone)
    reconciler.loop.call_soon_threadsafe(reconciler.network.cut_watches)
    eventually(lambda: reconciler.metric("rollcall_watches_interrupted") > 0, "the metric shows it")
    # Seen all the same, by the lists.
    story.tell("scale")
    lasted = until_over(begun)
    eventually(lambda: {name for _, name in story.objects()} >= {"g8-a", "g9-c"}, "what came meanwhile is written")
    by_path: dict[str, int] = {}
    for found in asked():
        if found.method == "GET" and "/leases/" not in found.path:
            by_path[found.path] = by_path.get(found.path, 0) + 1
    # Two requests an attempt, and a few kinds are followed twice: as facts, and as what is worked on.
    most = 4 * attempts(lasted + SLACK_SECONDS + 10, watching.BACKOFF_SECONDS)
    assert max(by_path.values()) <= most, by_path
    check_recovered(reconciler, story)
    eventually(lambda: reconciler.metric("rollcall_watches_interrupted") == 0, "everything is followed again")


@pytest.mark.soak
def test_slow_answers_cause_no_repeated_writes(story: Story, started: Started) -> None:
    reconciler = started()

    async def slow(request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if "watch" not in request.url.params:
            await response.aread()
            await asyncio.sleep(0.5)
        return response

    asked, _ = while_faulty(reconciler, slow)
    story.tell("create")
    eventually(lambda: len(story.objects()) == OBJECTS, "every gang has its objects")
    reconciler.until_idle()
    sent = [found.path for found in changes(asked())]
    assert sorted(sent) == sorted(set(sent)), "each object is written once, however long the answer takes"
    assert len(sent) == OBJECTS
    check_recovered(reconciler, story)


def test_a_late_answer_does_not_hide_the_deletion_of_its_object(story: Story, started: Started) -> None:
    """A user deletes an object that was just written, and the watch reports it before the write is answered."""
    reconciler = started()
    held = asyncio.Event()
    paths: list[str] = []

    async def holding(request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if request.method == "PATCH" and not paths and request.url.path.endswith("/g0-b"):
            paths.append(request.url.path)
            await response.aread()
            await held.wait()
        return response

    while_faulty(reconciler, holding)
    story.tell("create")
    path = eventually(lambda: paths[0] if paths else None, "the write is done and its answer is held back")
    store = next(
        found
        for found in reconciler.reconciler.following.stores.by_kind.values()
        if found.resource.plural == "podgroups"
    )
    key = (story.namespace, "g0-b")
    eventually(lambda: key in store.objects, "the watch has told that it came")
    story.plane.http.delete(path).raise_for_status()
    eventually(lambda: key not in store.objects, "the watch has told that it went")
    reconciler.loop.call_soon_threadsafe(held.set)
    check_recovered(reconciler, story)


@pytest.mark.soak
def test_a_restarted_api_server_causes_no_extra_writes(story: Story, started: Started) -> None:
    reconciler = started()
    story.tell("create")
    check_recovered(reconciler, story)
    before = reconciler.metric("rollcall_writes_total")
    plane = story.plane
    begun = time.monotonic()
    plane.kill_api_server()
    try:
        eventually(lambda: reconciler.metric("rollcall_watches_interrupted") > 0, "the metric shows it")
        lasted = until_over(begun)
        by_path: dict[str, int] = {}
        for found in list(reconciler.network.exchanges):
            if found.asked > begun:
                by_path[found.path] = by_path.get(found.path, 0) + 1
        # Kinds that are followed twice count twice.
        assert max(by_path.values()) <= 2 * attempts(lasted + SLACK_SECONDS, watching.BACKOFF_SECONDS), by_path
    finally:
        plane.api_server.start()
        plane.until_ready()
    eventually(lambda: reconciler.metric("rollcall_watches_interrupted") == 0, "everything is followed again")
    reconciler.until_idle()
    assert reconciler.metric("rollcall_writes_total") == before, "what is in step costs nothing, whatever happened"
    story.tell("scale")
    check_recovered(reconciler, story)
