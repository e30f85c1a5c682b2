"""The two endpoints of a server that watches a cluster: their live reads, and their answers if a read fails."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.played import PlayedClock
from tests.unit.cluster.scripted import NO_TLS, client, namespace, quota
from tests.unit.cluster.world import World
from tests.unit.server.conftest import Call, body, review
from tests.unit.worlds import gang_pod, koordinator, settings_of
from tests.waiting import turns
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.cluster import cluster_facts
from webhook.cluster.access import Access
from webhook.cluster.cluster_facts import LiveFacts
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.model.projections import POD_CLIQUE_SETS, Resource
from webhook.server.routes import create_app
from webhook.server.state import ServerState
from webhook.validators.examples import pod_clique_set

SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
LABEL = "rollcall.dev/scheduler"


def following(world: World, facts: ClusterFacts = NO_FACTS) -> ServerState:
    """A server's state whose caches say `facts` and whose cluster is `world`."""
    state = ServerState(koordinator(standalone=False), facts, None, clock=PlayedClock())
    state.cluster = LiveFacts(client(world), [ELASTIC_QUOTAS], lambda _: None)
    state.metrics.watch(state.cluster)
    return state


def ask(state: ServerState, path: str, asked: dict[str, Any]) -> Call:
    return Call(body(asked), path=path, query="timeout=5s").answered_by(state)


def test_the_set_of_a_pod_is_read_live_if_it_is_not_in_the_cache() -> None:
    world = World(POD_CLIQUE_SETS.resource)
    world.put(SETS, {"metadata": {"name": "demo", "namespace": "default", "labels": {LABEL: "koord-scheduler"}}})
    answer = ask(following(world), "/mutate", review(gang_pod()))
    assert answer.status == 200
    assert json.loads(answer.text)["response"]["patchType"] == "JSONPatch"
    assert world.asked == [f"{SETS}/demo"]


def test_the_facts_of_a_large_review_are_read_live() -> None:
    world = World(POD_CLIQUE_SETS.resource)
    world.put(SETS, {"metadata": {"name": "demo", "namespace": "default", "labels": {LABEL: "koord-scheduler"}}})
    pod = gang_pod()
    pod["metadata"].setdefault("annotations", {})["example.com/note"] = "x" * 400_000
    state = following(world)
    answer = ask(state, "/mutate", review(pod))
    assert answer.status == 200
    assert json.loads(answer.text)["response"]["patchType"] == "JSONPatch"
    assert world.asked == [f"{SETS}/demo"]
    assert b'rollcall_lane_wait_seconds_count{lane="reviews"} 1.0' in state.metrics.expose()


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_large_review_that_cannot_be_decided_is_500(path: str) -> None:
    world = World()
    world.failing = OSError("no route")
    pod = gang_pod()
    pod["metadata"].setdefault("annotations", {})["example.com/note"] = "x" * 400_000
    answer = ask(following(world), path, review(pod))
    assert (answer.status, answer.text) == (500, "the PodCliqueSet default/demo could not be read: no route\n")


def test_a_pod_of_a_missing_set_is_left_unchanged() -> None:
    answer = ask(following(World()), "/mutate", review(gang_pod()))
    response = json.loads(answer.text)["response"]
    assert "patch" not in response
    (warning,) = response["warnings"]
    assert "PodCliqueSet default/demo was not found" in warning


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_set_that_cannot_be_read_is_500_with_the_reason(path: str) -> None:
    world = World()
    world.failing = OSError("no route")
    state = following(world)
    answer = ask(state, path, review(gang_pod()))
    assert answer.status == 500
    assert answer.text == "the PodCliqueSet default/demo could not be read: no route\n"
    assert b'rollcall_lookups_total{outcome="failed"} 1.0' in state.metrics.expose()


class Silent(World):
    """A cluster that takes every question and answers none."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """For ever nothing."""
        self.asked.append(request.url.path)
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(
    ("path", "asked", "facts"),
    [
        ("/mutate", review(gang_pod()), NO_FACTS),
        (
            "/validate",
            review(pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "q"})),
            ClusterFacts(namespaces={"default": Namespace({})}, elastic_quotas={}, apis=frozenset({POD_GROUP})),
        ),
    ],
    ids=["what a decision needs", "what a refusal rests on"],
)
async def test_a_live_read_waits_no_longer_than_the_api_server_does(
    path: str, asked: dict[str, Any], facts: ClusterFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_facts, "LOOKUP_SECONDS", 600.0)
    world = Silent(ELASTIC_QUOTAS.resource)
    begun = asyncio.get_running_loop().time()
    answer = await Call(body(asked), path=path, query="timeout=100ms").to(create_app(following(world, facts)))
    assert (answer.status, len(world.asked)) == (500, 1)
    assert asyncio.get_running_loop().time() - begun < 1
    assert answer.text.endswith(" could not be read: no answer in time\n")


class Held(World):
    """A cluster that answers nothing until it is let go."""

    def __init__(self, *served: Resource) -> None:
        super().__init__(*served)
        self.let_go = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, later."""
        await self.let_go.wait()
        return await super().handle_async_request(request)


async def test_256_calls_that_wait_for_the_api_server_do_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_facts, "LOOKUP_SECONDS", 600.0)
    pods = [body(review(gang_pod(labels={"app.kubernetes.io/part-of": f"s{number}"}))) for number in range(257)]
    world = Held(POD_CLIQUE_SETS.resource)
    state = following(world, ClusterFacts(namespaces={"default": Namespace({})}))
    app = create_app(state)
    waiting = [asyncio.create_task(Call(pod, path="/mutate").to(app)) for pod in pods[:256]]
    await turns()
    assert state.reading == 256
    others = [await Call(body(review()), path=path).to(app) for path in ("/mutate", "/validate")]
    too_many = await Call(pods[256], path="/mutate").to(app)
    world.let_go.set()
    waited = await asyncio.gather(*waiting)
    assert [answer.status for answer in others] == [200, 200]
    assert (too_many.status, "more than 256 calls" in too_many.text) == (503, True)
    assert [answer.status for answer in waited] == [200] * 256


def test_a_quota_that_was_just_created_causes_no_refusal() -> None:
    world = World(ELASTIC_QUOTAS.resource)
    facts = ClusterFacts(namespaces={"default": Namespace({})}, elastic_quotas={}, apis=frozenset({POD_GROUP}))
    workload = pod_clique_set(annotations={"scheduling.grove.io/koordinator-quota": "q"})
    refused = ask(following(world, facts), "/validate", review(workload))
    assert json.loads(refused.text)["response"]["allowed"] is False
    world.put("/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas", quota("q", "default"))
    accepted = ask(following(world, facts), "/validate", review(workload))
    assert json.loads(accepted.text)["response"]["allowed"] is True


def test_the_namespace_of_a_new_set_is_read_live_if_it_is_not_in_the_cache() -> None:
    world = World()
    world.put("/api/v1/namespaces", namespace("default", **{LABEL: "default-scheduler"}))
    answer = ask(following(world, ClusterFacts(namespaces={})), "/mutate", review(pod_clique_set()))
    assert json.loads(answer.text)["response"]["auditAnnotations"]["backend"] == "default-scheduler"


def test_a_server_without_its_caches_is_not_ready() -> None:
    state = following(World())
    assert any(reason.startswith("cluster: the served kinds ") for reason in state.unready())


def test_the_objects_of_the_caches_are_counted() -> None:
    exposed = following(World()).metrics.expose().decode()
    kinds = {
        "Namespace": "",
        "PodCliqueSet": "grove.io",
        "PodGang": "scheduler.grove.io",
        "ClusterTopologyBinding": "grove.io",
        "PriorityClass": "scheduling.k8s.io",
        "ElasticQuota": "scheduling.sigs.k8s.io",
    }
    for kind, group in kinds.items():
        assert f'rollcall_cache_objects{{group="{group}",kind="{kind}"}} 0.0' in exposed
        assert f'rollcall_cache_failing{{group="{group}",kind="{kind}"}} 0.0' in exposed
        assert f'rollcall_cache_lists_total{{group="{group}",kind="{kind}"}} 0.0' in exposed
    assert 'rollcall_cache_failing{group="",kind="discovery"} 1.0' in exposed, "it was not asked yet"
    for outcome in ("found", "absent", "failed"):
        assert f'rollcall_lookups_total{{outcome="{outcome}"}} 0.0' in exposed


def test_missing_kinds_of_a_cluster_are_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    state = ServerState(koordinator(standalone=False), NO_FACTS, None)
    missing = "scheduling.sigs.k8s.io/v1alpha1 PodGroup"
    state._changed(ClusterFacts(apis=frozenset()))
    assert missing in capsys.readouterr().out
    state._changed(ClusterFacts(apis=frozenset(), namespaces={}))
    assert missing not in capsys.readouterr().out


def test_two_schedulers_with_a_kind_of_the_same_name_are_counted_separately() -> None:
    volcano = settings_of("volcano", standalone=False)
    both = replace(volcano, profiles={**volcano.profiles, **settings_of("kai-scheduler").profiles})
    state = ServerState(both, NO_FACTS, None)
    state.follow(Access("https://cluster", NO_TLS, lambda: None))
    found = [
        tuple(sorted(sample.labels.items()))
        for family in text_string_to_metric_families(state.metrics.expose().decode())
        for sample in family.samples
        if sample.name == "rollcall_cache_objects"
    ]
    assert len(found) == len(set(found))
    assert {labels[0][1] for labels in found if labels[1] == ("kind", "Queue")} == {
        "scheduling.run.ai",
        "scheduling.volcano.sh",
    }
