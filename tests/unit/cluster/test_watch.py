"""The watch of one kind: the list, the version where the watch begins, and faults."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock, elapse, run
from tests.unit.cluster.scripted import Script, Step, client, event, failure, listed, namespace, quota, running
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.cluster.clock import TURN_SECONDS
from webhook.cluster.requests import watch as watched
from webhook.cluster.watch import EVENTS_SHARE, Watch, backoff
from webhook.errors import RequestFailed
from webhook.model.known_objects import Namespace, Quota
from webhook.model.projections import NAMESPACES, Projection
from webhook.model.reading import Manifest


def follow(*steps: Step, projection: Projection = NAMESPACES, clock: PlayedClock | None = None) -> tuple[Watch, Script]:
    """The watch when the script is over."""

    async def followed() -> tuple[Watch, Script]:
        script = Script(*steps)
        watch = watching(script, projection, clock)
        async with running(watch.run()):
            await script.done()
        return watch, script

    return run(followed())


def watching(script: Script, projection: Projection = NAMESPACES, clock: PlayedClock | None = None) -> Watch:
    return Watch(client(script), projection, lambda _: None, clock=clock or PlayedClock())


def names(watch: Watch) -> list[str]:
    return sorted(watch.index.entries)


LIST, FROM_5 = "/api/v1/namespaces", "/api/v1/namespaces {'resourceVersion': '5'}"


def test_listed_and_changed_objects_are_known() -> None:
    watch, script = follow(
        listed("5", namespace("a", x="1"), namespace("b")),
        [
            event("ADDED", namespace("c", "6")),
            event("MODIFIED", namespace("a", "7", x="2")),
            event("DELETED", namespace("b", "8")),
            event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}),
        ],
    )
    assert watch.index.entries == {"a": Namespace({"x": "2"}), "c": Namespace({})}
    # The bookmark moved the version from which the watch resumes.
    assert script.paths == [LIST, FROM_5, f"{LIST} {{'resourceVersion': '20'}}"]
    assert script.asked[1].url.params["allowWatchBookmarks"] == "true"
    assert 300 <= int(script.asked[1].url.params["timeoutSeconds"]) <= 600


def test_a_long_list_is_read_in_pages() -> None:
    watch, script = follow(listed("5", namespace("a"), token="more"), listed("5", namespace("b")), [...])
    assert names(watch) == ["a", "b"]
    assert script.paths == [LIST, f"{LIST} {{'continue': 'more'}}", FROM_5]
    assert script.asked[0].url.params["limit"] == "100"


GONE = failure(410, "too old resource version: 5 (9)")
AFTER_TROUBLE: dict[str, tuple[Step, list[str]]] = {
    "the version is too old, said in an event": ([event("ERROR", GONE)], [LIST]),
    "the version is too old, said at once": ((410, GONE), [LIST]),
    "a page's token is too old": ((410, failure(410, "continue token expired")), [LIST]),
    "the connection breaks": (httpx.ReadError("broken"), [FROM_5]),
    "the server is not there": (httpx.ConnectError("refused"), [FROM_5]),
    "the request is not answered": (httpx.ReadTimeout("silence"), [FROM_5]),
    "the connection falls silent": ([httpx.ReadTimeout("silence")], [FROM_5]),
    "the server has too much to do": ((429, failure(429, "later")), [FROM_5]),
    "the event is no JSON": ([b"{\n"], [FROM_5]),
    "the event is no object": ([b"7\n"], [FROM_5]),
    "the answer is no Status": ((502, b"<html>bad gateway</html>"), [FROM_5]),
    "the server ends the watch": ([], [FROM_5]),
}


@pytest.mark.parametrize(("trouble", "then"), AFTER_TROUBLE.values(), ids=AFTER_TROUBLE)
def test_after_an_error_the_watch_resumes_or_lists_again(trouble: Step, then: list[str]) -> None:
    watch, script = follow(listed("5", namespace("a")), trouble, *([listed("9", namespace("b"))] * (then == [LIST])))
    assert script.paths[:3] == [LIST, FROM_5, *then]
    # What vanished meanwhile is forgotten.
    assert names(watch) == (["b"] if then == [LIST] else ["a"])


def test_a_resource_version_from_the_future_is_given_up_after_some_tries() -> None:
    """After a restore of etcd the server refuses the version again and again, and never with 410."""
    refused: Step = (504, failure(504, "Timeout: Too large resource version: 5, current: 3"))
    watch, script = follow(listed("5", namespace("a")), refused, refused, refused, listed("3", namespace("b")))
    assert script.paths == [LIST, FROM_5, FROM_5, FROM_5, LIST, f"{LIST} {{'resourceVersion': '3'}}"]
    assert names(watch) == ["b"]


def test_a_list_that_fails_half_way_keeps_all_known_objects() -> None:
    watch, _ = follow(
        listed("5", namespace("a"), namespace("b")),
        (410, GONE),
        listed("9", namespace("a"), token="more"),
        httpx.ReadError("broken"),
    )
    assert names(watch) == ["a", "b"]
    assert watch.trouble == "ReadError: broken"


def test_a_quiet_watch_is_healthy() -> None:
    watch, _ = follow(listed("5", namespace("a")), httpx.ConnectError("refused"), [...])
    assert watch.trouble is None


def test_a_watch_that_is_accepted_and_then_refused_is_given_up_after_some_tries() -> None:
    refused: Step = [event("ERROR", failure(500, "etcd has a bad day"))]
    watch, script = follow(listed("5", namespace("a")), refused, refused, refused, listed("9", namespace("b")), [...])
    assert script.paths[:5] == [LIST, FROM_5, FROM_5, FROM_5, LIST]
    assert names(watch) == ["b"]


def test_a_problem_is_reported_until_it_is_over() -> None:
    forbidden: Step = (403, failure(403, "namespaces is forbidden"))
    watch, _ = follow(forbidden)
    assert (watch.filled, watch.trouble) == (False, "HTTP 403: namespaces is forbidden")
    watch, _ = follow(forbidden, listed("5"), [...])
    assert (watch.filled, watch.trouble, watch.lists) == (True, None, 1)


BROKEN_LISTS = {
    "no JSON": (200, b"{"),
    "no object": (200, []),
    "items of the wrong type": (200, {"metadata": {"resourceVersion": "5"}, "items": {}}),
    "no version": (200, {"metadata": {}, "items": []}),
}


@pytest.mark.parametrize("broken", BROKEN_LISTS.values(), ids=BROKEN_LISTS)
def test_an_invalid_list_is_requested_again(broken: Step) -> None:
    watch, script = follow(broken, listed("5", namespace("a")), [...])
    assert names(watch) == ["a"]
    assert script.paths == [LIST, LIST, FROM_5]


def test_a_malformed_object_counts_as_missing() -> None:
    odd: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "6", "labels": []}}
    watch, _ = follow(listed("5", namespace("a"), namespace("b")), [event("MODIFIED", odd), ...])
    assert names(watch) == ["b"]


def test_an_error_in_one_object_does_not_hide_other_objects() -> None:
    def read(raw: dict[str, Any]) -> tuple[str, int]:
        return raw["metadata"]["name"], 1 // (raw["metadata"]["name"] != "a")

    projection = NAMESPACES._replace(read=read)
    watch, _ = follow(
        listed("5", namespace("a"), namespace("b")), [event("ADDED", namespace("c")), ...], projection=projection
    )
    assert names(watch) == ["b", "c"]


def test_deleting_one_of_two_quotas_with_one_name_keeps_the_other() -> None:
    first, second = quota("q", "one"), quota("q", "two", parent=True)
    watch, _ = follow(listed("5", first, second), [event("DELETED", first), ...], projection=ELASTIC_QUOTAS)
    assert watch.index.entries == {"q": Quota(is_parent=True)}
    watch, _ = follow(listed("5", first, second), [event("DELETED", second), ...], projection=ELASTIC_QUOTAS)
    assert watch.index.entries == {"q": Quota(is_parent=False)}


async def test_everything_is_listed_again_every_hour() -> None:
    script = Script(listed("5", namespace("a")), [3599.0], [2.0], listed("9", namespace("b")), [...])
    watch = watching(script)
    async with running(watch.run()):
        await elapse(3602)
    assert script.paths == [LIST, FROM_5, FROM_5, LIST, f"{LIST} {{'resourceVersion': '9'}}"]
    assert names(watch) == ["b"]


WAITS: list[tuple[int, float]] = [(1, 0.1), (2, 0.2), (3, 0.4), (6, 3.2), (7, 5.0), (10_000, 5.0)]


@pytest.mark.parametrize(("failures", "longest"), WAITS)
def test_retry_delays_double_and_have_jitter(failures: int, longest: float) -> None:
    assert backoff(failures, 0.0) == pytest.approx(longest / 2)
    assert backoff(failures, 1.0) == pytest.approx(longest)


def answer_to_a_write(version: str) -> Watch:
    """A watch that knows of version 8, given what a write made at `version`."""
    watch, _ = follow(listed("5"), [event("ADDED", namespace("a", "6")), event("DELETED", namespace("a", "8")), ...])
    watch.put(namespace("a", version))
    return watch


def test_the_answer_to_a_write_is_known_before_its_watch_event() -> None:
    assert names(answer_to_a_write("9")) == ["a"]


@pytest.mark.parametrize("version", ["6", "8"])
def test_a_late_answer_does_not_replace_newer_events(version: str) -> None:
    assert names(answer_to_a_write(version)) == []


def label(watch: Watch) -> str | None:
    """What the watch knows of the namespace a: its label x, None if it does not exist."""
    found: Namespace | None = watch.index.entries.get("a")
    return None if found is None else found.labels["x"]


# Events that arrive after the answer to the write of version 9, and what is then known.
LATER: dict[str, tuple[list[tuple[str, str]], str | None]] = {
    "its own": ([("ADDED", "9")], "9"),
    "an older one": ([("MODIFIED", "8")], "9"),
    "an older one and its own": ([("MODIFIED", "8"), ("ADDED", "9")], "9"),
    "the deletion of what was there before": ([("DELETED", "8"), ("ADDED", "9")], "9"),
    "a newer one": ([("MODIFIED", "10")], "10"),
    "a newer one after its own": ([("ADDED", "9"), ("MODIFIED", "10")], "10"),
    "its own and its deletion": ([("ADDED", "9"), ("DELETED", "11")], None),
    "its deletion at once": ([("DELETED", "11")], None),
    "its deletion and a new one": ([("DELETED", "11"), ("ADDED", "12")], "12"),
}


@pytest.mark.parametrize("after", LATER)
def test_events_after_the_answer_to_a_write_lead_to_the_newest_state(after: str) -> None:
    watch, _ = follow(listed("5"), [event("ADDED", namespace("a", "6", x="6")), ...])
    watch.put(namespace("a", "9", x="9"))
    events, known = LATER[after]
    for kind, version in events:
        watch._apply(json.dumps(event(kind, namespace("a", version, x=version))).encode())
    assert label(watch) == known
    # Nothing is remembered of the answer, so a later object of that name is not taken for it.
    watch._apply(json.dumps(event("ADDED", namespace("a", "20", x="20"))).encode())
    assert label(watch) == "20"
    assert not watch._answered


def test_an_event_of_a_known_answer_is_not_read_again() -> None:
    read: list[str] = []

    def counted(raw: Manifest) -> tuple[Any, Any] | None:
        read.append(raw["metadata"]["resourceVersion"])
        return NAMESPACES.read(raw)

    watch, _ = follow(
        listed("5"), [event("ADDED", namespace("a", "6")), ...], projection=NAMESPACES._replace(read=counted)
    )
    watch.put(namespace("a", "9"))
    watch._apply(json.dumps(event("MODIFIED", namespace("a", "9"))).encode())
    assert read == ["6", "9"]


def test_a_list_that_is_older_than_an_answer_is_followed_by_its_event() -> None:
    """The watch ends with 410, and the list that follows does not have the answer yet."""

    async def followed() -> Watch:
        script = Script(listed("5"), [event("ADDED", namespace("a", "6", x="6")), ...])
        watch = watching(script)
        async with running(watch.run()):
            await script.done()
            watch.put(namespace("a", "9", x="9"))
        again = Script(listed("7", namespace("a", "6", x="6")), [event("MODIFIED", namespace("a", "9", x="9")), ...])
        watch._client, watch._version = client(again), None
        async with running(watch.run()):
            await again.done()
        return watch

    assert label(run(followed())) == "9"


@pytest.mark.parametrize(("version", "known"), [("6", "7"), ("7", "7"), ("8", "8")])
async def test_an_answer_that_a_list_in_progress_has_passed_is_ignored(version: str, known: str) -> None:
    script = Script(listed("7", namespace("a", "7", x="7"), token="more"))
    watch = watching(script)
    async with running(watch.run()):
        # The second page is silent.
        await script.done()
        watch.put(namespace("a", version, x=version))
        assert label(watch) == known


async def test_an_answer_that_a_list_has_passed_is_ignored_while_the_rest_is_removed() -> None:
    clock, loop = PlayedClock(), asyncio.get_running_loop()

    def changed(key: str) -> None:
        clock.used += 2 * TURN_SECONDS
        if key == "a" and key not in watch.index.entries:
            loop.call_soon(watch.put, namespace("late", "8"))

    script = Script(listed("5", namespace("a"), namespace("b")), [event("ERROR", GONE)], listed("9"), [...])
    watch = Watch(client(script), NAMESPACES, lambda _: None, changed, clock=clock)
    async with running(watch.run()):
        await script.done()
        assert names(watch) == []


async def test_other_work_goes_on_while_a_long_list_is_read() -> None:
    clock, known = PlayedClock(), list[int]()

    def changed(_: str) -> None:
        clock.used += 2 * TURN_SECONDS
        asyncio.get_running_loop().call_soon(lambda: known.append(len(names(watch))))

    script = Script(listed("5", *(namespace(str(number)) for number in range(5))), [...])
    watch = Watch(client(script), NAMESPACES, lambda _: None, changed, clock=clock)
    async with running(watch.run()):
        await script.done()
    assert known == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("asked_for", "pause"),
    [("3", 3.0), ("3600", 60.0), ("Sat, 21 Nov 2026 16:00:00 GMT", 0.0), ("\u00b2", 0.0), ("9" * 400, 60.0)],
)
async def test_retry_after_is_obeyed(asked_for: str, pause: float) -> None:
    headers = httpx.Headers([(b"retry-after", asked_for.encode())])
    script = Script((429, failure(429, "too many requests")), headers=headers)
    with pytest.raises(RequestFailed) as told:
        async for _ in client(script).lines(watched(NAMESPACES.resource, "5", 300)):
            pass
    assert (told.value.wait or 0.0) == pause


async def test_a_watch_waits_as_long_as_retry_after_says() -> None:
    clock, script = PlayedClock(), Script((429, failure(429, "too many requests")), headers={"retry-after": "60"})
    async with running(watching(script, clock=clock).run()):
        await script.done()
    assert clock.monotonic() == pytest.approx(60, abs=0.1)


def test_events_take_at_most_their_share_of_the_processor() -> None:
    """Also where many arrive at once. Waiting for the processor, as on a busy machine, counts for nothing."""
    clock, events = PlayedClock(), [event("ADDED", namespace(f"n{number}", "6")) for number in range(10)]

    def slow(raw: Manifest) -> tuple[Any, Any] | None:
        clock.used += 0.1
        return NAMESPACES.read(raw)

    follow(listed("5"), [*events, ...], projection=NAMESPACES._replace(read=slow), clock=clock)
    assert clock.used == pytest.approx(1.0)
    assert clock.used / (clock.used + clock.monotonic()) == pytest.approx(EVENTS_SHARE, abs=0.01)
