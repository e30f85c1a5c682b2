"""Gangs that lost pods, as `rollcall gangs --lost` and `rollcall explain` show them, against a simulated cluster."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import httpx

from tests.played import START
from tests.unit.cli.conftest import Run, unframed
from tests.unit.cli.gang_cluster import cluster, config, pod, quiet
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import put_pods

__all__ = ["cluster", "config", "quiet"]


def record(cluster: WritableWorld, *pods: tuple[str, str], uid: str = "gang-team-a") -> None:
    """What the reconciler stores of a gang that lost pods."""
    since = (START - timedelta(hours=2, minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": "rollcall-losses-2", "namespace": "rollcall-system", "uid": "m"}
    lost = [[name, cause, since, "n2"] for name, cause in pods]
    content = json.dumps([["team-a", "demo-0", "PodGang", ""], uid, since, lost, 0])
    cluster.put("/api/v1/configmaps", {"metadata": metadata, "data": {"losses": content}})


def with_a_lost_pod(cluster: WritableWorld) -> None:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    put_pods(cluster, pod("runs", nodeName="n1", containers=[{"name": "main", **gpus}]))
    cluster.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
    record(cluster, ("gone", "preemption"), ("lost", "nodeLoss"))


def test_gangs_that_lost_pods_are_a_table(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    with_a_lost_pod(cluster)
    ran = rollcall("gangs", "--lost", "--config", config)
    assert ran.code == 0, ran.err
    assert (
        ran.out
        == """\
NAMESPACE  GANG    SCHEDULER        BOUND  LOST  CAUSE                IDLE-GPUS  GPU-HOURS  PODS
team-a     demo-0  koord-scheduler  1/2    2h    preemption,nodeLoss  8          20.0       \
gone (preemption), lost (nodeLoss)
"""
    )
    shown = json.loads(rollcall("gangs", "--lost", "-o", "json", "--config", config).out)["gangs"]
    assert [one["lost"]["causes"] for one in shown] == [["preemption", "nodeLoss"]]
    assert shown[0]["lost"]["idle"] == {"pods": 1, "gpus": 8, "gpuHours": 20.0}
    assert "GangLostMembers" in rollcall("gangs", "--config", config).out
    assert cluster.writes == []


def test_a_gang_that_lost_pods_is_explained(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    with_a_lost_pod(cluster)
    ran = rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config)
    assert ran.code == 1
    lines = [line.partition(", at 20")[0].strip() for line in ran.out.splitlines()]
    assert "gone: preempted, from node n2" in lines
    assert "lost: lost with its node, from node n2" in lines
    assert lines.index("GangLostMembers") < lines.index("GangInPart")


def test_no_gang_has_lost_pods(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    ran = rollcall("gangs", "--lost", "-n", "team-a", "--config", config)
    assert ran == (0, "", "rollcall: no gang in team-a has lost pods\n")
    # Of a gang of the same name that is gone.
    record(cluster, ("gone", "preemption"), uid="another")
    assert rollcall("gangs", "--lost", "--config", config).err == "rollcall: no gang has lost pods\n"


def test_a_user_who_may_not_read_the_records_is_told(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    path = "/api/v1/namespaces/rollcall-system/configmaps/rollcall-losses-0"
    cluster.refused[path] = httpx.Response(403, json=failure(403, "forbidden"))
    ran = rollcall("gangs", "--lost", "--config", config)
    assert (ran.code, ran.out) == (3, "")
    assert re.match("rollcall: .* which gangs lost pods: you may not read ", ran.err)
    assert "ConfigMaps rollcall-losses-0 to rollcall-losses-3" in ran.err
    assert ran.err.count("\n") == 1
    every = rollcall("gangs", "--config", config)
    assert (every.code, every.err) == (0, ran.err)


def test_lost_gangs_are_not_watched(rollcall: Run, config: str) -> None:
    for other in ("--held", "--watch"):
        ran = rollcall("gangs", "--lost", other, "--config", config)
        assert ran.code == 2
        assert "--lost goes with neither" in unframed(ran.err)
