"""The fields of kinds, read from an API server's schemas."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.played import run
from tests.unit.cluster.scripted import Script, Step, client, failure
from tests.waiting import turns, until
from webhook.cluster.cluster_facts import Schemas
from webhook.errors import RequestFailed
from webhook.model.keys import Api

GROUPS = Api("scheduling.volcano.sh", "v1beta1", "PodGroup")
QUEUES = Api("scheduling.volcano.sh", "v1beta1", "Queue")
PATH = "/openapi/v3/apis/scheduling.volcano.sh/v1beta1"


def schema(api: Api, *fields: str, **spec: Any) -> dict[str, Any]:
    """One entry of components.schemas, as kube-apiserver publishes a CRD."""
    named = {"group": api.group, "version": api.version, "kind": api.kind}
    properties = {"spec": {"type": "object", "properties": {field: {"type": "object"} for field in fields}, **spec}}
    return {"type": "object", "x-kubernetes-group-version-kind": [named], "properties": properties}


def document(*schemas: dict[str, Any]) -> Step:
    return 200, {"openapi": "3.0.0", "components": {"schemas": {f"s{n}": found for n, found in enumerate(schemas)}}}


def asked(script: Script, *wanted: Api, times: int = 1) -> dict[Api, frozenset[str]]:
    async def story() -> dict[Api, frozenset[str]]:
        schemas = Schemas(client(script), wanted)
        for _ in range(times - 1):
            await schemas.ask()
        return dict(await schemas.ask())

    return run(story())


def test_the_spec_fields_of_the_requested_kinds_are_known() -> None:
    other = Api("scheduling.volcano.sh", "v1beta1", "Other")
    script = Script(
        document(schema(GROUPS, "minMember", "subGroupPolicy"), schema(QUEUES, "parent"), schema(other, "x"))
    )
    assert asked(script, GROUPS, QUEUES) == {
        GROUPS: frozenset({"minMember", "subGroupPolicy"}),
        QUEUES: frozenset({"parent"}),
    }
    assert script.paths == [PATH]


SILENT = {
    "the group is not served": (404, failure(404, "not found")),
    "the kind is not in it": document(schema(QUEUES, "parent")),
    "the schema lists no fields": document(schema(GROUPS)),
    "the schema keeps what it does not list": document(
        schema(GROUPS, "minMember", **{"x-kubernetes-preserve-unknown-fields": True})
    ),
    "there are no schemas": (200, {}),
}


@pytest.mark.parametrize("answer", SILENT.values(), ids=SILENT)
def test_fields_without_a_schema_are_unknown(answer: Step) -> None:
    assert asked(Script(answer), GROUPS) == {}


def test_an_unchanged_answer_is_not_transferred_again() -> None:
    script = Script(document(schema(GROUPS, "minMember")), (304, b""), headers={"etag": '"7"'})
    assert asked(script, GROUPS, times=2) == {GROUPS: frozenset({"minMember"})}
    assert script.asked[1].headers["if-none-match"] == '"7"'


def test_a_changed_crd_is_reread_and_a_removed_one_is_unknown() -> None:
    steps = document(schema(GROUPS, "minMember")), document(schema(GROUPS, "minMember", "subGroupPolicy"))
    assert asked(Script(*steps), GROUPS, times=2) == {GROUPS: frozenset({"minMember", "subGroupPolicy"})}
    assert asked(Script(steps[0], (404, failure(404, "gone"))), GROUPS, times=2) == {}


@pytest.mark.parametrize("answer", [(403, failure(403, "forbidden")), (200, {"components": []}), (200, b"<html>")])
async def test_a_failed_read_keeps_the_known_schemas(answer: Step) -> None:
    schemas = Schemas(client(Script(document(schema(GROUPS, "minMember")), answer)), [GROUPS])
    before = await schemas.ask()
    with pytest.raises(RequestFailed):
        await schemas.ask()
    assert schemas.fields == before == {GROUPS: frozenset({"minMember"})}


TREES = Api("scheduling.run.ai", "v2alpha2", "PodGroup")
OF_TREES = "/openapi/v3/apis/scheduling.run.ai/v2alpha2"
TOLD = document(schema(GROUPS, "minMember"))


async def test_schemas_that_were_read_before_a_failure_are_kept() -> None:
    script = Script(TOLD, (500, failure(500, "etcd")), (304, b""), (304, b""), headers={"etag": '"7"'})
    schemas = Schemas(client(script), [GROUPS, TREES])
    with pytest.raises(RequestFailed):
        await schemas.ask()
    assert await schemas.ask() == {GROUPS: frozenset({"minMember"})}


async def test_two_concurrent_readers_keep_each_other_s_schemas() -> None:
    """The slower one is told that the second document has not changed since the faster one read it."""
    faster, asked, unchanged = asyncio.Event(), list[str](), list[str]()

    async def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        await turns()
        if "if-none-match" in request.headers:
            unchanged.append(path)
            return httpx.Response(304)
        asked.append(path)
        if asked.count(PATH) == 2 and path == PATH:
            await faster.wait()
        fields = schema(GROUPS, "minMember") if path == PATH else schema(TREES, "minSubGroup")
        return httpx.Response(200, json={"components": {"schemas": {"s": fields}}}, headers={"etag": '"7"'})

    schemas = Schemas(client(httpx.MockTransport(answer)), [GROUPS, TREES])
    readers = {asyncio.create_task(schemas.ask()) for _ in range(2)}
    await until(lambda: any(reader.done() for reader in readers))
    faster.set()
    await asyncio.gather(*readers)
    assert unchanged == [OF_TREES]
    assert schemas.fields == {GROUPS: frozenset({"minMember"}), TREES: frozenset({"minSubGroup"})}
