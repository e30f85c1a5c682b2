"""Whether a cluster answers, before a command reads twenty kinds of it."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.e2e.programs import free_port
from tests.played import PlayedClock
from tests.unit.cluster.scripted import NO_TLS, Script, Step, failure
from webhook.cluster.access import Access
from webhook.cluster.client import reach
from webhook.errors import FactsUnavailable


def at(url: str) -> Access:
    return Access(url, NO_TLS, lambda: None)


async def test_nothing_that_listens_is_one_line_with_the_address() -> None:
    url = f"https://127.0.0.1:{free_port()}"
    with pytest.raises(FactsUnavailable) as raised:
        await reach(at(url))
    assert "ConnectError" in str(raised.value)
    assert f"({url})" in str(raised.value)


async def test_a_machine_that_never_answers_is_given_up_within_two_seconds() -> None:
    silent = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clock = PlayedClock()
    began = clock.monotonic()
    with pytest.raises(FactsUnavailable, match=rf"ConnectTimeout.* \(https://127\.0\.0\.1:{port}\)"):
        await reach(at(f"https://127.0.0.1:{port}"))
    assert clock.monotonic() - began < 2
    silent.set()
    server.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, {"major": "1"}), None),
        ((403, failure(403, "it is forbidden to read the version")), None),
        ((404, failure(404, "a proxy serves less")), None),
        (
            (401, failure(401, "Unauthorized")),
            "HTTP 401: Unauthorized",
        ),
        ((307, {}), "HTTP 307: a redirect"),
        (
            httpx.ConnectError("another authority"),
            "ConnectError: another authority (https://cluster)",
        ),
    ],
    ids=["an answer", "forbidden", "not served", "wrong credentials", "redirect", "another authority"],
)
async def test_only_a_cluster_that_answers_these_credentials_is_reached(answer: Step, said: str | None) -> None:
    try:
        await reach(at("https://cluster"), Script(answer))
    except FactsUnavailable as error:
        assert said is not None
        assert said in str(error)
        assert "https://cluster" in str(error)
    else:
        assert said is None
