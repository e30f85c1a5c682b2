"""The live facts with a faulty API server: which faults they survive, and which facts become unknown."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock
from tests.unit.cluster.scripted import NO_TLS, client, failure, namespace, running
from tests.waiting import until
from webhook.admission.decision import required_facts
from webhook.backends.koordinator.gangs import PROJECTIONS
from webhook.cluster import cluster_facts as live_facts
from webhook.cluster.access import Access, kubeconfig_access
from webhook.cluster.client import Client
from webhook.cluster.cluster_facts import LiveFacts
from webhook.errors import AccessError
from webhook.model.admission_request import Kind, Request
from webhook.model.keys import Needed

GROVE = {"grove.io": ["PodCliqueSet", "ClusterTopologyBinding"], "scheduler.grove.io": ["PodGang"]}
QUOTAS = {"scheduling.sigs.k8s.io": ["ElasticQuota"]}


def served(**groups: list[str]) -> httpx.Response:
    items = [
        {
            "metadata": {"name": group},
            "versions": [{"version": "v1alpha1", "resources": [{"responseKind": {"kind": kind}} for kind in kinds]}],
        }
        for group, kinds in groups.items()
    ]
    return httpx.Response(200, json={"kind": "APIGroupDiscoveryList", "items": items})


Answer = Callable[[bool], httpx.Response | None]


class Cluster(httpx.AsyncBaseTransport):
    """Answers by what is asked for; a test replaces answers while it runs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.discovery: Callable[[], httpx.Response] = lambda: served(**GROVE)
        self.answers: dict[str, Answer] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        plural, watched = request.url.path.rsplit("/", 1)[1], "watch" in request.url.params
        self.asked.append(f"watch {plural}" if watched else plural)
        if plural == "apis":
            return self.discovery()
        own = self.answers.get(plural)
        answer = None if own is None else own(watched)
        if answer is not None:
            return answer
        if watched:
            return httpx.Response(200, content=_silence())
        return httpx.Response(200, json={"metadata": {"resourceVersion": "5"}, "items": []})


async def _silence() -> Any:
    await asyncio.Event().wait()
    yield b""


@asynccontextmanager
async def followed(cluster: Cluster) -> AsyncIterator[LiveFacts]:
    live = LiveFacts(client(cluster), PROJECTIONS, lambda _: None, clock=PlayedClock())
    async with running(live.run()):
        await until(lambda: not list(live.unready()))
        yield live


def known(live: LiveFacts) -> set[str]:
    return {projection.part for projection, watch in live.watches.items() if watch.filled}


def broken() -> httpx.Response:
    raise ValueError("unexpected")


ODD: list[Callable[[], httpx.Response]] = [
    broken,
    lambda: httpx.Response(200, json={"items": [None, {"versions": [None]}]}),
    # What a proxy or an old server answers instead; it names no kinds, which is not "no kinds".
    lambda: httpx.Response(200, json={"kind": "APIGroupList", "groups": [{"name": "grove.io"}]}),
]


@pytest.mark.parametrize("odd", ODD)
async def test_malformed_discovery_answers_do_not_stop_the_watches(odd: Callable[[], httpx.Response]) -> None:
    cluster = Cluster()
    async with followed(cluster) as live:
        before = cluster.asked.count("apis")
        cluster.discovery = odd
        await until(lambda: cluster.asked.count("apis") > before + 1)
        cluster.discovery = lambda: served(**GROVE, **QUOTAS)
        await until(lambda: "elastic_quotas" in known(live) and live.trouble is None)


async def test_one_incomplete_discovery_does_not_stop_a_watch() -> None:
    cluster = Cluster()
    async with followed(cluster) as live:
        once = iter([served()])
        cluster.discovery = lambda: next(once, served(**GROVE))
        before = cluster.asked.count("apis")
        await until(lambda: cluster.asked.count("apis") > before + 3)
        assert cluster.asked.count("podcliquesets") == 1
        cluster.discovery = served
        await until(lambda: live.facts.pod_clique_sets is None)


async def test_an_added_kind_that_cannot_be_read_does_not_make_the_server_unready() -> None:
    cluster = Cluster()
    cluster.answers["elasticquotas"] = lambda _: httpx.Response(403, json=failure(403, "forbidden"))

    async with followed(cluster) as live:
        cluster.discovery = lambda: served(**GROVE, **QUOTAS)
        await until(lambda: "elasticquotas" in cluster.asked)
        assert list(live.unready()) == []


@pytest.mark.parametrize("answer", [httpx.Response(200, content=b""), httpx.Response(403, json=failure(403, "no"))])
async def test_a_watch_that_ends_at_once_is_restarted_with_pauses(
    answer: httpx.Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.0)
    cluster, clock = Cluster(), PlayedClock()
    begun: list[float] = []

    def ended(watched: bool) -> httpx.Response | None:
        if not watched:
            return None
        begun.append(clock.monotonic())
        return httpx.Response(answer.status_code, content=answer.content)

    cluster.answers["namespaces"] = ended

    async with followed(cluster):
        await until(lambda: len(begun) == 5)
        # By chance at least half of 0.1, 0.2, 0.4 and 0.8 s; a list does not reset the row.
        pauses = [later - earlier for earlier, later in pairwise(begun)]
        assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4])
        assert cluster.asked.count("namespaces") <= 3


async def test_a_quiet_watch_is_not_reported() -> None:
    cluster = Cluster()
    once = iter([httpx.Response(500, json=failure(500, "starting"))])
    cluster.answers["namespaces"] = lambda watched: next(once, None) if watched else None

    async with followed(cluster) as live:
        await until(lambda: cluster.asked.count("watch namespaces") == 2 and live.doubted() == frozenset())


async def test_facts_of_an_interrupted_watch_become_unknown() -> None:
    workload = {"metadata": {"name": "a", "namespace": "team"}}
    created = Request("", "CREATE", Kind("grove.io", "v1alpha1", "PodCliqueSet"), "team", "a", workload)
    cluster = Cluster()
    cluster.answers["namespaces"] = lambda watched: (
        httpx.Response(503, json=failure(503, "overloaded"))
        if watched
        else httpx.Response(200, json={"metadata": {"resourceVersion": "5"}, "items": [namespace("team")]})
    )

    async with followed(cluster) as live:
        await until(lambda: "namespaces" in live.doubted())
        assert required_facts(created, live.facts) == ()
        assert required_facts(created, live.facts, live.doubted()) == (Needed("namespaces", "team"),)


async def test_an_invalid_credential_is_not_quoted() -> None:
    live = LiveFacts(
        Client(Access("http://127.0.0.1:1", NO_TLS, lambda: "Bearer SECRET\nx")),
        (),
        lambda _: None,
    )
    async with running(live.run()):
        await until(lambda: live.trouble != live_facts.NOT_ASKED)
    (message,) = live.unready()
    assert "no credentials" in message
    assert "SECRET" not in message


def test_a_kubeconfig_that_is_not_yaml_is_reported_by_path(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: [b\n")
    with pytest.raises(AccessError, match=str(path)):
        kubeconfig_access(path, None)
