"""`rollcall gangs give-back`, against a simulated cluster."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Run, answer_for_the_cluster
from tests.unit.cli.gang_cluster import GATE, pod, quiet
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, pod_clique, put_pods
from tests.unit.reconciler.running_reconciler import GANGS, GROUPS, world
from tests.unit.reconciler.test_renamed_gangs import SET_OWNS, object_of

__all__ = ["quiet"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> WritableWorld:
    """A cluster in the place of the network: a gang of one member, whose object its PodCliqueSet owns."""
    found = world("demo-0-a")
    found.put(GROUPS, object_of("demo-0-a", ownerReferences=[SET_OWNS]))
    answer_for_the_cluster(found, monkeypatch)
    return found


def owner(cluster: WritableWorld) -> str:
    found = cluster.get(GROUPS, "team-a", "demo-0-a")
    assert found is not None
    return str(found["metadata"]["ownerReferences"][0]["kind"])


def test_podgangs_own_their_objects_again_and_no_pod_is_changed(
    rollcall: Run, cluster: WritableWorld, config_option: str
) -> None:
    put_pods(cluster, pod("one", GATE), pod("two", GATE))
    assert rollcall("gangs", "give-back", config_option) == (0, "", "")
    assert owner(cluster) == "PodGang"
    assert [path for _, path in cluster.writes if path.startswith(PODS) or "/pods/" in path] == []


def test_a_gang_that_cannot_be_written_is_named(rollcall: Run, cluster: WritableWorld, config_option: str) -> None:
    podgang = cluster.get(GANGS, "team-a", "demo-0")
    assert podgang is not None
    constraint = {"packConstraint": {"required": "example.com/rack"}}
    group = {"name": "g", "podGroupNames": ["demo-0-a"], "topologyConstraint": constraint}
    podgang["spec"]["topologyConstraintGroupConfigs"] = [group]
    ran = rollcall("gangs", "give-back", config_option)
    assert (ran.code, ran.out.count("\n")) == (1, 1)
    assert ran.out.startswith("PodGang team-a/demo-0: its objects ")
    assert " to its PodCliqueSet; " in ran.out
    assert owner(cluster) == "PodCliqueSet"


def test_gangs_that_wait_for_another_system_are_named_too(
    rollcall: Run, cluster: WritableWorld, config_option: str
) -> None:
    podgang = cluster.get(GANGS, "team-a", "demo-0")
    assert podgang is not None
    podgang["spec"]["podgroups"].append({"name": "demo-0-b", "minReplicas": 2, "podReferences": []})
    cluster.put(CLIQUES, pod_clique("demo-0-b"))
    stranger = {**SET_OWNS, "kind": "Deployment", "name": "other", "uid": "other"}
    cluster.put(GROUPS, object_of("demo-0-b", ownerReferences=[stranger]))
    ran = rollcall("gangs", "give-back", config_option)
    assert (ran.code, ran.out.partition(":")[0]) == (3, "PodGang team-a/demo-0")
    assert ran.err.startswith("rollcall: 1 gangs ")
    assert "could not be reconciled" in ran.err
