"""Live reads: each fact at most once at a time, within a deadline, and never by a path from user input."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock, elapse, run
from tests.unit.cluster.scripted import Script, Step, client, failure, listed, quota
from tests.waiting import until
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.backends.kube.groups import GROUP_PODS, GroupMembership
from webhook.backends.volcano.keys import POD_GROUP as VOLCANO_POD_GROUP
from webhook.cluster.cluster_facts import LOOKUP_SECONDS, Discovery, Lookup, Schemas
from webhook.errors import FactsUnavailable
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import living_gangs
from webhook.model.keys import Api, Needed, Record
from webhook.model.known_objects import PriorityClass, Quota
from webhook.model.pod_groups import GroupPod
from webhook.model.projections import Resource
from webhook.workloads.known_workloads import GENERAL

GANG_KINDS = (Resource(POD_GROUP, "podgroups"), Resource(VOLCANO_POD_GROUP, "podgroups"))
OWNER = Needed("pod_clique_sets", ("team-a", "demo"))
SET = {"metadata": {"namespace": "team-a", "name": "demo", "labels": {"rollcall.dev/scheduler": "koord-scheduler"}}}
NOT_FOUND: Step = (404, failure(404, 'podcliquesets.grove.io "demo" not found'))


def lookup(script: httpx.AsyncBaseTransport) -> Lookup:
    found = client(script)
    return Lookup(
        found,
        (*GENERAL, ELASTIC_QUOTAS, GROUP_PODS, *map(living_gangs, GANG_KINDS)),
        Discovery(found),
        Schemas(found, ()),
    )


def find(needed: Needed, *steps: Step) -> tuple[Any, Script]:
    """The found value, and the script with its requests."""

    async def found() -> tuple[Any, Script]:
        script = Script(*steps)
        return (await lookup(script).find([needed], 5))[needed], script

    return run(found())


@pytest.mark.parametrize("kind", GANG_KINDS, ids=str)
def test_a_gang_object_is_read_by_its_kind_and_name(kind: Resource) -> None:
    needed = Needed("gang_objects", (kind.api, "team-a", "demo-0"))
    labels = {"app.kubernetes.io/managed-by": "rollcall", "grove.io/podgang": "demo-0"}
    metadata = {"namespace": "team-a", "name": "demo-0", "labels": labels}
    found, script = find(needed, (200, {"metadata": metadata}))
    assert found.gang == "demo-0"
    assert script.paths == [f"/apis/{kind.api.group}/{kind.api.version}/namespaces/team-a/podgroups/demo-0"]
    assert find(needed, (200, {"metadata": {**metadata, "labels": {}}}))[0] is None
    assert find(needed, NOT_FOUND)[0] is None


def test_an_object_is_read_by_its_name() -> None:
    found, script = find(OWNER, (200, SET))
    assert found == Record("koord-scheduler")
    assert script.paths == ["/apis/grove.io/v1alpha1/namespaces/team-a/podcliquesets/demo"]


def test_a_pod_that_no_longer_waits_counts_as_missing() -> None:
    needed = Needed("group_pods", ("team-a", "worker-0"))
    spec = {"schedulingGroup": {"podGroupName": "worker"}}
    pod = {"metadata": {"namespace": "team-a", "name": "worker-0"}, "spec": spec}
    found, script = find(needed, (200, pod))
    assert found == GroupPod(("team-a", GroupMembership("worker")), "default-scheduler")
    assert script.paths == ["/api/v1/namespaces/team-a/pods/worker-0"]
    assert find(needed, (200, {**pod, "spec": {**spec, "nodeName": "node-0"}}))[0] is None
    assert find(needed, (404, failure(404, "not found")))[0] is None


def test_a_missing_object_is_read_as_none() -> None:
    assert find(OWNER, NOT_FOUND)[0] is None


def test_a_quota_is_looked_up_in_all_namespaces() -> None:
    needed = Needed("elastic_quotas", "q")
    found, script = find(needed, listed("5", quota("q", "somewhere")))
    assert found == Quota(is_parent=False)
    assert script.asked[0].url.path == "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
    assert script.asked[0].url.params["fieldSelector"] == "metadata.name=q"
    assert find(needed, listed("5"))[0] is None


def test_one_bound_pod_that_was_not_prepared_for_it_shows_that_a_set_runs_with_another_scheduler() -> None:
    needed = Needed("bound_gangs", ("team-a", "demo", "volcano"))
    pod = {"metadata": {"name": "p", "labels": {"grove.io/podgang": "demo-0"}}}
    prepared, others = (
        {"metadata": {**pod["metadata"], "annotations": {"rollcall.dev/stamp": f"{name}/0123"}}}
        for name in ("volcano", "koord-scheduler")
    )
    assert find(needed, listed("5", prepared, prepared))[0] == frozenset()
    assert find(needed, listed("5", prepared, others))[0] == frozenset({("team-a", "demo-0")})
    assert find(needed, listed("5", prepared, pod))[0] == frozenset({("team-a", "demo-0")})
    found, script = find(needed, listed("5", pod))
    assert found == frozenset({("team-a", "demo-0")})
    (asked,) = script.asked
    assert asked.url.path == "/api/v1/namespaces/team-a/pods"
    assert dict(asked.url.params) == {
        "labelSelector": "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=demo",
        "fieldSelector": "spec.nodeName!=",
        "limit": "100",
    }
    assert "PartialObjectMetadataList" in asked.headers["accept"]
    assert find(needed, listed("5"))[0] == frozenset()


def test_the_served_kinds_are_read_completely() -> None:
    resource = {"responseKind": {"kind": "PodGroup"}}
    versions = [{"version": "v1alpha1", "resources": [resource]}]
    found, _ = find(Needed("apis"), (200, {"items": [{"metadata": {"name": "example.com"}, "versions": versions}]}))
    assert found == frozenset({Api("example.com", "v1alpha1", "PodGroup")})


def priority(name: str, value: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value}


def test_a_kind_is_read_page_by_page_without_malformed_objects() -> None:
    found, script = find(
        Needed("priority_classes"),
        listed("5", priority("high", 100), priority("broken", "much"), token="more"),
        listed("5", priority("low", 1)),
    )
    assert found == {"high": PriorityClass(100, is_default=False), "low": PriorityClass(1, is_default=False)}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert script.paths == [path, f"{path} {{'continue': 'more'}}"]


def test_a_kind_without_objects_is_empty_and_one_that_is_not_served_unknown() -> None:
    assert find(Needed("priority_classes"), listed("5"))[0] == {}
    assert find(Needed("priority_classes"), NOT_FOUND)[0] is None
    known = ClusterFacts(priority_classes={"old": PriorityClass(1, is_default=False)})
    assert known.learned({Needed("priority_classes"): {}}) == ClusterFacts(priority_classes={})
    assert known.learned({Needed("priority_classes"): None}) == ClusterFacts()


NAMES = ["../../../api/v1/secrets", "..", "a/b", "Demo", "demo?watch=1", "a" * 254, "", "demo\n"]


def test_an_empty_name_does_not_read_the_whole_kind() -> None:
    """A TrainJob may name its runtime so, and a review its namespace: neither is worth a list of all there are."""
    for part in ("cluster_training_runtimes", "namespaces"):
        found, script = find(Needed(part, ""))
        assert (found, script.paths) == (None, [])
    assert ClusterFacts(namespaces={}).learned({Needed("namespaces", ""): None}) == ClusterFacts(namespaces={})


@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_name_is_never_sent_to_the_api_server(name: str) -> None:
    found, script = find(Needed("pod_clique_sets", ("team-a", name)))
    assert (found, script.asked) == (None, [])
    found, script = find(Needed("bound_gangs", (name, "demo", "volcano")))
    assert (found, script.asked) == (frozenset(), [])


FAILURES: dict[str, tuple[Step, str]] = {
    "no right to": ((403, failure(403, "forbidden")), "HTTP 403: forbidden"),
    "no server": (httpx.ConnectError("refused"), "ConnectError: refused (https://cluster)"),
    "nonsense": ((200, b"<html>"), "the answer is not JSON"),
    "not understood": (
        (200, {"metadata": {"name": []}}),
        "expected a string, found a list",
    ),
}


@pytest.mark.parametrize(("step", "why"), FAILURES.values(), ids=FAILURES)
def test_a_failed_read_is_reported_and_gives_no_verdict(step: Step, why: str) -> None:
    with pytest.raises(FactsUnavailable) as error:
        find(OWNER, step)
    assert "PodCliqueSet team-a/demo" in str(error.value)
    assert str(error.value).endswith(f": {why}")


async def test_a_read_waits_no_longer_than_its_deadline() -> None:
    clock, script = PlayedClock(), Script()
    silent = lookup(script)
    with pytest.raises(FactsUnavailable, match="no answer in time"):
        await silent.find([OWNER], 0.5)
    assert clock.monotonic() == pytest.approx(0.5)
    # The read itself is cancelled too, and the next call starts another one.
    await until(lambda: not silent._under_way)
    assert LOOKUP_SECONDS <= clock.monotonic() < LOOKUP_SECONDS + 0.5
    with pytest.raises(FactsUnavailable, match="no answer in time"):
        await silent.find([OWNER], 5)
    assert 2 * LOOKUP_SECONDS <= clock.monotonic() < 2 * LOOKUP_SECONDS + 0.5
    assert len(script.asked) == 2
    assert silent.outcomes == {"found": 0, "absent": 0, "failed": 2}


class Slow(httpx.AsyncBaseTransport):
    """Answers after a moment, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        await elapse(0.05)
        return httpx.Response(200, json=SET)


async def test_a_thousand_pods_of_one_set_cost_one_read() -> None:
    slow = Slow()
    asking = lookup(slow)
    answers = await asyncio.gather(*(asking.find([OWNER], 5) for _ in range(1000)))
    assert (slow.calls, {answer[OWNER] for answer in answers}, asking.outcomes) == (
        1,
        {Record("koord-scheduler")},
        {"found": 1000, "absent": 0, "failed": 0},
    )


async def test_a_cancelled_caller_does_not_cancel_the_shared_read() -> None:
    asking = lookup(Slow())
    patient = asyncio.create_task(asking.find([OWNER], 5))
    with pytest.raises(FactsUnavailable):
        await asking.find([OWNER], 0.001)
    assert (await patient)[OWNER] == Record("koord-scheduler")
