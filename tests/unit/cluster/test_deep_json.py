"""Answers that are nested deeper than the parser accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.played import PlayedClock
from tests.unit.cluster.scripted import Script, client, running
from webhook.cluster.requests import MOST_LEVELS, ApiRequest, shallow
from webhook.cluster.watch import Watch
from webhook.errors import RequestFailed
from webhook.model.projections import NAMESPACES


def nested(levels: int) -> str:
    return '{"f:a":' * levels + "1" + "}" * levels


def deep(name: str) -> str:
    fields = f'"managedFields":[{{"fieldsV1":{nested(5_000)}}}]'
    return f'{{"metadata":{{"name":"{name}",{fields},"resourceVersion":"6"}}}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, {"b": "]}\\\\\\"{["}], "c": "\\\\"}',
        nested(MOST_LEVELS),
        "[]",
        '"{"',
        "",
        "}}}]]]",
        '{"a": "without an end [[[',
    ],
)
def test_what_is_not_deep_stays(text: str) -> None:
    assert shallow(text.encode()) == text.encode()


def test_only_the_deep_part_is_left_out() -> None:
    found: Any = json.loads(
        shallow(f'{{"a": {nested(MOST_LEVELS + 3)}, "b": [1, {nested(9_000)}, 2], "c": "]"}}'.encode())
    )
    assert (found["b"][0], found["b"][2], found["c"]) == (1, 2, "]")
    below = found["a"]
    for _ in range(MOST_LEVELS - 1):
        below = below["f:a"]
    assert below is None


async def test_one_deep_object_keeps_no_other_from_being_read() -> None:
    """The API server stores what a user writes into managedFields, however deep."""
    page = f'{{"metadata":{{"resourceVersion":"5"}},"items":[{deep("hostile")},{{"metadata":{{"name":"other"}}}}]}}'
    event = f'{{"type":"MODIFIED","object":{deep("later")}}}'
    script = Script((200, page.encode()), (200, f"{event}\n".encode()))
    watch = Watch(client(script), NAMESPACES, lambda _: None, clock=PlayedClock())
    async with running(watch.run()):
        await script.done()
    assert set(watch.index.entries) >= {"hostile", "other", "later"}


async def test_an_answer_that_is_cut_off_is_no_json() -> None:
    script = Script((200, nested(5_000).encode()[:-1]))
    with pytest.raises(RequestFailed, match="not JSON"):
        await client(script).get(ApiRequest("/x"))
