"""What is read of a cluster once: with which rights, and without what is secret."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.texts import Text
from tests.unit.cluster.scripted import NO_TLS
from tests.unit.cluster.world import World
from webhook.backends.kai.keys import QUEUE_FACTS as KAI_QUEUES
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.backends.kube.groups import GROUP_PODS, GroupMembership
from webhook.cluster.access import Access
from webhook.cluster.client import CONNECT_SECONDS
from webhook.errors import FactsUnavailable
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS
from webhook.model.known_objects import KaiQueue, Namespace, Quota
from webhook.model.pod_groups import GroupPod
from webhook.model.projections import POD_CLIQUE_SETS, PRIORITY_CLASSES, Projection
from webhook.offline.fact_files import load_facts
from webhook.offline.whole_files import write_folder
from webhook.operations.cluster_facts import ClusterObjects, read_cluster
from webhook.workloads.known_workloads import GENERAL

ACCESS = Access("https://cluster", NO_TLS, lambda: None)
QUEUE_PATH = "/apis/scheduling.run.ai/v2/queues"
EVERYTHING = (*GENERAL, KAI_QUEUES, ELASTIC_QUOTAS, GROUP_PODS)
SECRET = "hunter2"
CONTAINER = {
    "name": "main",
    "image": f"registry/{SECRET}",
    "command": [SECRET],
    "env": [{"name": "TOKEN", "value": SECRET}],
    "resources": {"limits": {"nvidia.com/gpu": "8"}},
}
POD_SPEC = {"containers": [CONTAINER], "volumes": [{"name": "x", "secret": {"secretName": SECRET}}]}
TEMPLATE = {"metadata": {"annotations": {"vault.example.com/token": SECRET}}, "spec": POD_SPEC}


def read(world: World, *projections: Projection) -> ClusterObjects:
    return asyncio.run(read_cluster(ACCESS, projections or EVERYTHING, world))


def path_of(projection_or_resource: Any) -> str:
    resource = getattr(projection_or_resource, "resource", projection_or_resource)
    return f"/apis/{resource.api.group}/{resource.api.version}/{resource.plural}"


def queue(name: str, parent: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"pool": "a"}}, "spec": {"parentQueue": parent}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team-a", "name": name}, "spec": {**deepcopy(POD_SPEC), **spec}}


def busy_world() -> World:
    """One object of each interesting kind, with secrets wherever a kind has room for them."""
    world = World(
        POD_CLIQUE_SETS.resource, KAI_QUEUES.resource, PRIORITY_CLASSES.resource, JOB_SETS, CLUSTER_TRAINING_RUNTIMES
    )
    applied = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    world.put("/api/v1/namespaces", {"metadata": {"name": "team-a", "labels": {"rollcall.dev/scheduler": "volcano"}}})
    world.put("/api/v1/pods", pod("waiting", schedulingGroup={"podGroupName": "workers"}))
    bound = pod("bound", nodeName="node-1")
    bound["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": "demo-0"}
    world.put("/api/v1/pods", bound)
    world.put(QUEUE_PATH, queue("team-a", "root"))
    world.put(path_of(PRIORITY_CLASSES), {"metadata": {"name": "high"}, "value": 1000, "description": SECRET})
    clique = {"name": "worker", "spec": {"replicas": 4, "minAvailable": 2, "podSpec": deepcopy(POD_SPEC)}}
    spec = {"replicas": 1, "template": {"priorityClassName": "high", "cliques": [clique]}}
    labels = {"rollcall.dev/scheduler": "kai-scheduler", "kai.scheduler/queue": "team-a"}
    named = {"namespace": "team-a", "name": "demo", "labels": labels, "annotations": applied}
    world.put(path_of(POD_CLIQUE_SETS), {"metadata": named, "spec": spec})
    job = {"name": "node", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": deepcopy(TEMPLATE)}}}
    recorded = {"namespace": "team-a", "name": "train", "labels": {"rollcall.dev/scheduler": "volcano"}, "uid": "u1"}
    world.put(path_of(JOB_SETS), {"metadata": recorded, "spec": {"replicatedJobs": [job]}})
    runtime = {"template": {"spec": {"replicatedJobs": [deepcopy(job)]}}}
    world.put(path_of(CLUSTER_TRAINING_RUNTIMES), {"metadata": {"name": "mine"}, "spec": runtime})
    return world


def folder_of(found: ClusterObjects, folder: Path) -> ClusterFacts:
    write_folder(folder, {kind.name: yaml.safe_dump(kind.manifest) for kind in found.kinds})
    return load_facts([folder])


class Timed(World):
    """It notes how long each request may take to connect."""

    def __init__(self) -> None:
        super().__init__(KAI_QUEUES.resource, PRIORITY_CLASSES.resource)
        self.seconds: set[float] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer."""
        self.seconds.add(request.extensions["timeout"]["connect"])
        return await super().handle_async_request(request)


def test_a_cluster_that_answered_may_connect_as_slowly_as_for_a_server() -> None:
    """All kinds are read at the same time, and each opens a connection; a busy cluster must not seem to lack some."""
    world = Timed()
    read(world)
    assert world.seconds == {CONNECT_SECONDS}


def test_what_was_read_is_known_as_facts() -> None:
    facts = read(busy_world()).facts()
    assert facts.namespaces == {"team-a": Namespace({"rollcall.dev/scheduler": "volcano"})}
    assert facts.kai_queues == {"team-a": KaiQueue("root", {"pool": "a"}, limit={}, quota={})}
    assert facts.group_pods == {
        ("team-a", "waiting"): GroupPod(("team-a", GroupMembership("workers")), "default-scheduler"),
    }
    assert facts.bound_gangs == frozenset({("team-a", "demo-0")})
    assert facts.apis is not None
    assert Api("scheduling.run.ai", "v2", "Queue") in facts.apis
    assert (facts.pod_clique_sets or {})["team-a", "demo"].queue("kai.scheduler/queue") == "team-a"
    assert (facts.pod_clique_sets or {})["team-a", "demo"].spare == ("worker",)
    assert (facts.job_sets or {})["team-a", "train"].names == frozenset({"train", "train-node"})
    assert "mine" in (facts.cluster_training_runtimes or {})


def test_a_folder_tells_the_same_as_the_cluster(tmp_path: Path) -> None:
    found = read(busy_world())
    live = found.facts()
    stored = folder_of(found, tmp_path)
    assert stored == ClusterFacts(**{name: getattr(live, name) for name in live.__slots__} | {"unread": None})


def test_no_secret_is_written() -> None:
    written = json.dumps([kind.manifest for kind in read(busy_world()).kinds])
    assert SECRET not in written
    assert "last-applied" not in written
    assert '"nvidia.com/gpu": "8"' in written, "rules read what the pods of a runtime ask for"


def test_a_kind_that_is_not_served_is_unknown_and_the_reason_is_kept() -> None:
    found = read(busy_world())
    assert found.facts().elastic_quotas is None
    assert found.unread["elastic_quotas"] == Text("not serve", "elasticquotas.scheduling.sigs.k8s.io")
    assert found.failed == {}


def test_a_kind_that_may_not_be_read_is_unknown_and_the_right_is_named() -> None:
    world = busy_world()
    world.refused[QUEUE_PATH] = httpx.Response(403, json={"message": "queues is forbidden"})
    found = read(world)
    assert found.facts().kai_queues is None
    assert found.facts().namespaces is not None
    assert found.failed == {"queues.scheduling.run.ai": "HTTP 403: queues is forbidden"}
    assert found.unread["kai_queues"] == Text("right to list queues.scheduling.run.ai", "--facts")


def test_pods_that_may_not_be_read_make_neither_of_their_parts_known() -> None:
    world = busy_world()
    world.refused["/api/v1/pods"] = httpx.Response(403, json={"message": "no"})
    facts = read(world).facts()
    assert (facts.group_pods, facts.bound_gangs) == (None, None)


def test_an_object_that_cannot_be_read_is_left_out_as_in_a_server() -> None:
    world = World(KAI_QUEUES.resource)
    world.put(QUEUE_PATH, {"metadata": {"name": "broken"}, "spec": {"parentQueue": ["a"]}})
    world.put(QUEUE_PATH, queue("team-a"))
    found = read(world, KAI_QUEUES)
    assert found.facts().kai_queues == {"team-a": KaiQueue(None, {"pool": "a"}, limit={}, quota={})}
    assert [kind.left_out for kind in found.kinds if kind.name == "queues.scheduling.run.ai"] == [1]


def test_only_the_oldest_of_two_quotas_with_one_name_counts() -> None:
    world = World(ELASTIC_QUOTAS.resource)
    for namespace, created in (("late", "2026-02-01T00:00:00Z"), ("early", "2026-01-01T00:00:00Z")):
        metadata = {"namespace": namespace, "name": "shared", "creationTimestamp": created}
        world.put(path_of(ELASTIC_QUOTAS), {"metadata": metadata, "spec": {}})
    quotas = read(world, ELASTIC_QUOTAS).facts().elastic_quotas or {}
    assert quotas["shared"].namespace == "early"
    assert quotas == {"shared": Quota(is_parent=False)}


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        (httpx.ConnectError("refused"), "ConnectError: refused"),
        (httpx.ConnectTimeout("timed out"), "ConnectTimeout: timed out"),
        (httpx.Response(401, json={"message": "Unauthorized"}), "HTTP 401: Unauthorized"),
    ],
)
def test_a_cluster_that_cannot_be_read_at_all_is_one_error(failing: Exception | httpx.Response, why: str) -> None:
    world = busy_world()
    world.failing = failing
    with pytest.raises(FactsUnavailable, match=f": {why}"):
        read(world)
