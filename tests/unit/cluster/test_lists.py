"""Reading a list to its end, a page at a time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.played import run
from tests.unit.cluster.scripted import Script, Step, client, failure, listed, namespace
from webhook.errors import RequestFailed
from webhook.model.projections import NAMESPACES


def read(script: Script) -> list[Any]:
    """What the list of namespaces holds."""

    async def every() -> list[Any]:
        selector = {"labelSelector": "team"}
        return [raw["metadata"]["name"] async for raw in client(script).items(NAMESPACES.resource, selector=selector)]

    return run(every())


def test_every_page_is_read_with_the_same_selector() -> None:
    script = Script(listed("1", namespace("a"), namespace("b"), token="more"), listed("1", namespace("c")))
    assert read(script) == ["a", "b", "c"]
    assert script.paths == ["/api/v1/namespaces", "/api/v1/namespaces {'continue': 'more'}"]
    assert {request.url.params["labelSelector"] for request in script.asked} == {"team"}


def test_a_list_without_items_is_empty() -> None:
    assert read(Script((200, {"items": None, "metadata": {"continue": ""}}))) == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, []), "expected an object, found a list"),
        ((200, {"items": {}}), "expected a list, found an object"),
        ((200, {"items": [], "metadata": {"continue": 1}}), "expected a string, found a number"),
        ((403, failure(403, "no right")), "HTTP 403: no right"),
    ],
)
def test_an_answer_that_is_not_a_list_is_reported(answer: Step, why: str) -> None:
    with pytest.raises(RequestFailed) as raised:
        read(Script(answer))
    assert str(raised.value).endswith(why)
