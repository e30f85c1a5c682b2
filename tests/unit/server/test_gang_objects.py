"""The live reads of a server before it judges a gang object whose neighbours may not be in its caches yet."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cluster.scripted import client
from tests.unit.cluster.world import World
from tests.unit.server.conftest import Call, body
from tests.unit.worlds import settings_of
from webhook.backends.kube.groups import PROJECTIONS, composite, example_cluster, member, parent_fields, pod_group
from webhook.cluster.cluster_facts import LiveFacts
from webhook.model.reading import Manifest
from webhook.server.state import ServerState

API = "/apis/scheduling.k8s.io"
COMPOSITES = f"{API}/v1beta1/namespaces/default/compositepodgroups"
POD_GROUPS = f"{API}/v1beta1/namespaces/default/podgroups"
FREE: dict[str, Any] = {"workloadRef": None}


def ask(world: World, manifest: Manifest) -> dict[str, Any]:
    """What a server answers whose caches know of no group."""
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    state = ServerState(settings, example_cluster(), None)
    state.cluster = LiveFacts(client(world), PROJECTIONS, lambda _: None)
    group, _, version = manifest["apiVersion"].rpartition("/")
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": manifest["kind"]},
        "namespace": "default",
        "name": manifest["metadata"]["name"],
        "object": manifest,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = Call(body(review), path="/validate", query="timeout=5s").answered_by(state)
    assert answer.status == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)["response"]
    return found


def below(name: str, parent: str | None) -> Manifest:
    """A CompositePodGroup of no Workload."""
    return composite(name, **FREE, parentCompositePodGroupName=parent)


def test_a_parent_that_was_just_stored_causes_no_warning() -> None:
    world = World()
    assert "kube/parent-missing" in ask(world, below("a", "root"))["warnings"][0]
    assert world.asked == [f"{COMPOSITES}/root"]
    world.put(COMPOSITES, below("root", None))
    assert "warnings" not in ask(world, below("a", "root"))


def test_a_circle_is_found_before_any_cache_has_it() -> None:
    """The second object causes reads of its parent and of each group above, one after the other."""
    world = World()
    world.put(COMPOSITES, below("a", "b"))
    world.put(COMPOSITES, below("b", "c"))
    answer = ask(world, below("c", "a"))
    assert answer["allowed"] is False
    assert "kube/tree-cycle" in answer["status"]["message"]
    assert world.asked == [f"{COMPOSITES}/a", f"{COMPOSITES}/b"]


def test_a_tree_that_is_too_deep_is_read_level_by_level() -> None:
    world = World()
    for name, parent in (("d", "c"), ("c", "b"), ("b", "a"), ("a", None)):
        world.put(COMPOSITES, below(name, parent))
    answer = ask(world, pod_group(**{**parent_fields("d"), **FREE}))
    assert "kube/tree-depth" in answer["status"]["message"]
    assert world.asked == [f"{COMPOSITES}/{name}" for name in "dcba"]


def test_an_unreadable_group_still_causes_a_warning() -> None:
    """A pod must not wait for a server that cannot ask about its group."""
    world = World()
    world.failing = OSError("no route")
    answer = ask(world, member())
    assert answer["allowed"] is True
    assert "kube/pod-group-missing" in answer["warnings"][0]


@pytest.mark.parametrize("stored", [True, False])
def test_the_group_of_a_pod_is_read_live_before_a_warning(stored: bool) -> None:
    world = World()
    if stored:
        world.put(POD_GROUPS, pod_group())
    assert ("warnings" in ask(world, member())) is not stored
    assert world.asked == [f"{POD_GROUPS}/worker"]
