"""Lists of large objects: how much of a list is received and parsed at a time."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.played import PlayedClock, run
from tests.unit.cluster.scripted import client, running
from tests.waiting import until_set
from webhook.cluster import client as module
from webhook.cluster.watch import Watch
from webhook.errors import AnswerTooLarge
from webhook.model.projections import NAMESPACES

PAGE_BYTES = 64 * 1024
OBJECT_BYTES = 44 * 1024


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 2 MiB and objects of 1.4 MiB, in a fraction of the time."""
    monkeypatch.setattr(module, "MAX_PAGE_BYTES", PAGE_BYTES)


class Pages(httpx.AsyncBaseTransport):
    """So many namespaces of one size, in pages of the requested size. The bytes sent of each are counted."""

    def __init__(self, objects: int, size: int) -> None:
        self.limits: list[int] = []
        self.sent = 0
        self.over = asyncio.Event()
        self._objects = objects
        self._size = size

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One page, or a watch that says nothing."""
        if "watch" in request.url.params:
            self.over.set()
            await asyncio.Event().wait()
        limit, first = int(request.url.params["limit"]), int(request.url.params.get("continue", 0))
        self.limits.append(limit)
        return httpx.Response(200, content=self._page(first, min(self._objects, first + limit)))

    async def _page(self, first: int, last: int) -> AsyncIterator[bytes]:
        token = b"" if last == self._objects else str(last).encode()
        yield b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[' % token
        for number in range(first, last):
            # As Python objects this takes many times its bytes.
            raw = b'{"metadata":{"name":"n%d"},"spec":{"l":[' % number + b"{}," * (self._size // 3) + b"0]}}"
            self.sent += len(raw)
            yield raw + (b"," if number + 1 < last else b"]}")


def followed(pages: Pages) -> set[str]:
    """The names that a watch knows once its list is whole."""

    async def follow() -> set[str]:
        watch = Watch(client(pages), NAMESPACES, lambda _: None, clock=PlayedClock())
        async with running(watch.run()):
            await until_set(pages.over, "the watch after the list")
        return set(watch.index.entries)

    return run(follow())


def names(count: int) -> set[str]:
    return {f"n{number}" for number in range(count)}


def test_small_objects_are_listed_in_full_pages() -> None:
    pages = Pages(250, 100)
    assert followed(pages) == names(250)
    assert pages.limits == [100, 100, 100]


def test_large_objects_are_listed_one_by_one_and_none_is_lost() -> None:
    pages = Pages(12, OBJECT_BYTES)
    assert followed(pages) == names(12)
    assert pages.limits[:3] == [100, 12, 1]
    assert set(pages.limits[2:]) == {1}
    # What is too large is not received to its end.
    assert pages.sent < 12 * OBJECT_BYTES + 2 * (PAGE_BYTES + 2 * OBJECT_BYTES)


def test_pages_grow_again_after_large_objects() -> None:
    pages = Pages(200, PAGE_BYTES // 50)
    assert followed(pages) == names(200)
    assert pages.limits[:2] == [100, 12]
    assert max(pages.limits[2:]) > 12


def test_the_memory_of_a_list_does_not_grow_with_its_length() -> None:
    # The first one also loads modules.
    _, few, many = (_peak_of(objects) for objects in (3, 3, 18))
    assert many < 1.5 * few


def _peak_of(objects: int) -> int:
    tracemalloc.start()
    followed(Pages(objects, OBJECT_BYTES // 2))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


async def test_an_object_beyond_the_size_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 1024)

    with pytest.raises(AnswerTooLarge, match="more than 1024 bytes"):
        _ = [raw async for raw in client(Pages(2, OBJECT_BYTES)).items(NAMESPACES.resource)]
