"""`rollcall gangs`, `rollcall gangs ungate` and `rollcall explain podgang/NAME`, against a simulated cluster."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from tests.played import START, PlayedClock
from tests.unit.cli.conftest import CONFIG, Run, unframed
from tests.unit.cli.gang_cluster import GATE, cluster, config, pod, quiet
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, pod_clique, put_pods, put_with_cliques
from tests.unit.reconciler.opted_in_workloads import (
    JOB_PATH,
    JOB_SET_PATH,
    LWS_PATH,
    job,
    job_pod,
    job_set,
    lws,
    lws_pod,
    put_workload,
)
from tests.unit.reconciler.running_reconciler import GANGS, podgang
from webhook.cli import gang_text
from webhook.gangs import gang_view
from webhook.gangs.health import AnchoredHealth, GangHealth, GangState, MemberHealth
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.object_plan import GangObjectWriter
from webhook.model.capabilities import Disruption
from webhook.model.known_kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS, STATEFUL_SETS

__all__ = ["cluster", "config", "quiet"]


def test_gangs_are_a_table(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    ran = rollcall("gangs", "--config", config)
    assert ran == (
        0,
        """\
NAMESPACE  GANG    SCHEDULER        BOUND  PODS  AGE  HEALTH             DISRUPTION  WRITER    WHY
team-a     demo-0  koord-scheduler  0/2    0     -    GangObjectMissing  -           Rollcall  PodGroup \
demo-0-a is missing
""",
        "",
    )
    assert cluster.writes == []


def test_a_gang_is_shown_with_its_disruption_mode() -> None:
    shown = io.StringIO()
    out = Console(file=shown, width=200)
    found = GangHealth(
        "team-a",
        "demo-0",
        "default-scheduler",
        GangState.STARTED,
        "",
        disruption_mode=Disruption.ALL,
        writer=GangObjectWriter.ROLLCALL,
    )
    gang_text.GangTable([found], out).print([found])
    gang_text.print_gang(found, (), out)
    head, row, title, *lines = (line.rstrip() for line in shown.getvalue().splitlines())
    assert head.split()[-3:] == ["DISRUPTION", "WRITER", "WHY"]
    assert row.split() == ["team-a", "demo-0", "default-scheduler", "0/0", "0", "-", "started", "all", "Rollcall"]
    assert title == "PodGang team-a/demo-0: started"
    assert lines[0].startswith("    scheduler default-scheduler; 0 of the 0 pods ")
    assert lines[1:] == [
        f"    {GangObjectWriter.ROLLCALL.meaning}",
        f"    disruption mode all: {Disruption.ALL.meaning}",
        "",
        "",
    ]
    assert found.as_json()["disruptionMode"] == "all"


def test_a_gang_of_grove_s_own_backend_is_shown_with_its_writer(
    rollcall: Run, cluster: WritableWorld, config: str
) -> None:
    gang = podgang("demo-0-a")
    gang["metadata"]["labels"]["grove.io/scheduler-name"] = "volcano"
    cluster.put(GANGS, gang)
    (found,) = json.loads(rollcall("gangs", "--config", config, "-o", "json").out)["gangs"]
    assert (found["name"], found["writer"]) == ("demo-0", "Grove")
    text = rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config).out
    assert f"    {GangObjectWriter.GROVE.meaning}\n" in text
    assert cluster.writes == []


def test_gangs_as_json(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    (found,) = json.loads(rollcall("gangs", "--config", config, "-o", "json").out)["gangs"]
    assert (found["namespace"], found["name"], found["state"]) == ("team-a", "demo-0", "held")
    assert [one["reason"] for one in found["reasons"]] == ["GangObjectMissing", "GangTooFewPods"]


def test_only_the_requested_gangs_are_shown(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    started = podgang("demo-0-a", namespace="team-b", minimum=0)
    started["metadata"] |= {"name": "done"}
    put_with_cliques(cluster, started)
    assert len(rollcall("gangs", "--config", config).out.splitlines()) == 3
    assert "demo-0" not in rollcall("gangs", "--config", config, "-n", "team-b").out
    assert "done" not in rollcall("gangs", "--config", config, "--held").out
    assert rollcall("gangs", "--config", config, "-n", "team-c") == (0, "", "rollcall: no gangs in team-c\n")


def test_an_empty_podgang_is_shown_with_the_reason_why_nothing_is_written(
    rollcall: Run, cluster: WritableWorld, config: str
) -> None:
    cluster.put(GANGS, podgang("demo-0-a", namespace="team-b"))
    (found,) = json.loads(rollcall("gangs", "--config", config, "-n", "team-b", "-o", "json").out)["gangs"]
    assert found["state"] == "empty"
    assert [one["reason"] for one in found["reasons"]] == ["GangTooFewPods"]
    code, text, _ = rollcall("explain", "podgang/demo-0", "-n", "team-b", "--config", config)
    # It is no failure.
    assert (code, text.splitlines()[0]) == (0, "PodGang team-b/demo-0: empty")
    assert "no gang objects are written" in unframed(text)
    cluster.put(CLIQUES, pod_clique("demo-0-a", "team-b"))
    (found,) = json.loads(rollcall("gangs", "--config", config, "-n", "team-b", "-o", "json").out)["gangs"]
    assert found["state"] == "held"


@pytest.mark.parametrize("output", ["text", "json"])
def test_watch_shows_changes_until_it_is_interrupted(
    rollcall: Run, cluster: WritableWorld, config: str, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    shown = gang_view.GangView._health
    times = 0

    def interrupted(self: gang_view.GangView, key: Any) -> Any:
        nonlocal times
        times += 1
        if times == 3:
            raise KeyboardInterrupt
        if times == 1:
            put_pods(cluster, pod("one"))
        elif times == 2:
            put_pods(cluster, pod("two"))
        return shown(self, key)

    monkeypatch.setattr(gang_view.GangView, "_health", interrupted)
    ran = rollcall("gangs", "--config", config, "-n", "team-a", "--watch", "-o", output)
    assert ran.code == 0
    if output == "json":
        assert [json.loads(line)["members"][0]["present"] for line in ran.out.splitlines()] == [0, 1]
    else:
        assert [line.split()[4] for line in ran.out.splitlines()] == ["PODS", "0", "1"]


def test_watch_shows_nothing_while_nothing_changes(
    rollcall: Run, cluster: WritableWorld, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget, looks = AnchoredHealth.forget, 0

    def interrupted(self: AnchoredHealth) -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            raise KeyboardInterrupt
        forget(self)

    monkeypatch.setattr(AnchoredHealth, "forget", interrupted)
    ran = rollcall("gangs", "--config", config, "-n", "team-a", "--watch")
    assert (ran.code, len(ran.out.splitlines())) == (0, 2), "the head, and the gang once"


def test_an_unreadable_cluster_gives_no_verdict(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    cluster.failing = httpx.Response(403, json=failure(403, "you may not"))
    ran = rollcall("gangs", "--config", config)
    assert (ran.code, ran.out) == (3, "")
    assert re.search("^rollcall: cluster: .* served kinds .*: HTTP 403: you may not", ran.err, re.MULTILINE)
    cluster.failing = None
    cluster.served = [one for one in cluster.served if one.plural != "podgangs"]
    assert rollcall("gangs", "--config", config).code == 0, "there may be Jobs"
    Path(config).write_text(CONFIG.replace("koord-scheduler", "lpx-scheduler"))
    ran = rollcall("gangs", "--config", config)
    assert ran.code == 3
    assert " does not serve PodGangs; " in ran.err.splitlines()[-1]


def test_one_gang_is_explained(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    gone = pod("fails")
    gone["status"] = {"phase": "Failed"}
    leaving = pod("goes")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stranger = pod("strange")
    stranger["metadata"]["labels"]["grove.io/podclique"] = "other"
    waits, runs = pod("waits", "example.com/gate", GATE), pod("runs", nodeName="n1")
    put_pods(cluster, waits, runs, gone, leaving)
    cluster.put(PODS, stranger)
    ran = rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config)
    assert ran.code == 1
    assert ran.out.startswith("""\
PodGang team-a/demo-0: inPart
    scheduler koord-scheduler; 1 of the 2 pods that it needs to start are on nodes
    Rollcall writes its gang objects

    demo-0-a: 2 present, 1 on nodes, needs 2 to start
        fails: failed
        goes: leaving
        runs: on node n1, unmutated
        waits: waiting, gate example.com/gate, gate rollcall.dev/gang-sync, unmutated
    strange: of other, which is not a member of the PodGang

    GangInPart
        why  a part of the gang is on nodes and the rest is not: demo-0-a has 1 of 2
        do   """)
    assert "GangGated\n" in ran.out
    as_json = rollcall("explain", "podgangs/team-a/demo-0", "-o", "json", "--config", config)
    assert json.loads(as_json.out)["gangs"][0]["state"] == "inPart"


def test_a_missing_gang_is_reported_by_name(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    ran = rollcall("explain", "podgang/demo-0", "--config", config)
    assert ran == (2, "", "rollcall: there is no PodGang default/demo-0\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["podgang/demo-0", "set.yaml"], "one after another"),
        (["podgang/demo-0", "-o", "mermaid"], "are for manifests"),
        (["podgang/demo-0", "--scheduler", "volcano"], "are for manifests"),
        (["set.yaml", "-n", "team-a"], "is for KIND/NAME"),
        (["set.yaml", "--context", "c"], "need --live"),
        (["podgang/demo-0", "--live"], "are for manifests"),
    ],
)
def test_manifests_and_gangs_of_a_cluster_are_not_mixed(rollcall: Run, arguments: list[str], why: str) -> None:
    ran = rollcall("explain", *arguments)
    assert ran.code == 2
    assert why in unframed(ran.err)


def test_ungate_removes_the_gate(rollcall: Run, cluster: WritableWorld) -> None:
    cluster.put(PODS, pod("both", "grove.io/podgang-pending-creation", GATE))
    cluster.put(PODS, pod("none", "grove.io/podgang-pending-creation"))
    sent: list[str] = []

    def lifted(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.url.path} {request.content.decode()}")
        return httpx.Response(200, json={})

    cluster.answering = lifted
    said = "pod team-a/both of demo-0: "
    assert rollcall("gangs", "ungate", "--all", "--dry-run") == (0, f"{said}has the gate\n", "")
    assert sent == []
    assert rollcall("gangs", "ungate", "demo-0", "-n", "team-a") == (0, f"{said}ungated\n", "")
    assert sent == [
        '/api/v1/namespaces/team-a/pods/both [{"op":"test","path":"/spec/schedulingGates/1/name",'
        f'"value":"{GATE}"}},{{"op":"remove","path":"/spec/schedulingGates/1"}}]'
    ]
    no_pod = (0, "", f"rollcall: no pod has the gate {GATE}\n")
    assert rollcall("gangs", "ungate", "other", "-n", "team-a") == no_pod
    assert rollcall("gangs", "ungate", "demo-0") == no_pod


def test_a_gate_that_cannot_be_removed_is_reported(rollcall: Run, cluster: WritableWorld) -> None:
    cluster.put(PODS, pod("one", GATE))
    cluster.answering = lambda _: httpx.Response(403, json=failure(403, "you may not"))
    assert rollcall("gangs", "ungate", "--all") == (3, "", "rollcall: pod team-a/one: HTTP 403: you may not\n")
    cluster.answering = lambda _: httpx.Response(422, json=failure(422, "the test failed"))
    ran = rollcall("gangs", "ungate", "--all")
    assert ran.code == 3
    assert ran.out.startswith("pod team-a/one of demo-0: it changed")
    assert ran.out.endswith("; try again\n")
    assert ran.out.count("\n") == 1
    cluster.failing = httpx.Response(403, json=failure(403, "you may not"))
    ran = rollcall("gangs", "ungate", "--all")
    assert (ran.code, ran.err) == (3, "rollcall: the pods cannot be read: HTTP 403: you may not\n")
    assert rollcall("gangs", "ungate").code == 2
    assert rollcall("gangs", "ungate", "demo-0", "--all").code == 2


def gang(**fields: Any) -> GangHealth:
    created = (START - timedelta(seconds=fields.pop("seconds", 5))).strftime("%Y-%m-%dT%H:%M:%SZ")
    members = (MemberHealth("demo-0-a", 2, 2, 0),)
    return GangHealth("team-a", "demo-0", None, GangState.HELD, created, members, **fields)


@pytest.mark.parametrize(
    ("seconds", "age"), [(5, "5s"), (119, "119s"), (130, "2m"), (3600 * 3, "3h"), (86400 * 40, "40d"), (-9, "0s")]
)
def test_ages_are_printed_in_short_form(seconds: int, age: str) -> None:
    out = Console(width=10_000, record=True, file=io.StringIO())
    held = gang(seconds=seconds)
    gang_text.GangTable([held], out, clock=PlayedClock()).add(held)
    assert out.export_text().split()[5] == age


def test_control_characters_are_escaped_and_lines_fit_the_terminal() -> None:
    evil = HoldReason(GangReason.NO_ROOM, "a\x1b[31m " + "x" * 500, "")
    out = Console(width=90, force_terminal=True, record=True, file=io.StringIO())
    gang_text.GangTable([], out).add(gang(obstacles=(evil,)))
    text = out.export_text()
    assert "\x1b" not in text
    assert "\\x1b" in text
    assert len(text.splitlines()) == 1


@pytest.fixture
def opted_in(cluster: WritableWorld) -> WritableWorld:
    """The same cluster with a Job, a JobSet that starts in turn, and a LeaderWorkerSet."""
    cluster.served += [JOBS, JOB_SETS, LEADER_WORKER_SETS, STATEFUL_SETS]
    cluster.put(JOB_PATH, job())
    cluster.put(JOB_SET_PATH, job_set("x", ("a", 1), ("b", 2), startupPolicy={"startupPolicyOrder": "InOrder"}))
    put_workload(cluster, LWS_PATH, lws())
    cluster.put(PODS, lws_pod(0, 0, "new", GATE))
    cluster.put(PODS, job_pod(0, GATE))
    return cluster


def test_gangs_of_opted_in_workloads_are_in_the_same_table(rollcall: Run, opted_in: WritableWorld, config: str) -> None:
    lines = [line.split() for line in rollcall("gangs", "--config", config).out.splitlines()]
    assert [line[1:5] for line in lines] == [
        ["GANG", "SCHEDULER", "BOUND", "PODS"],
        ["demo-0", "koord-scheduler", "0/2", "0"],
        ["leaderworkerset/serve-0-new", "koord-scheduler", "0/2", "1"],
        ["job/train", "koord-scheduler", "0/2", "1"],
        ["jobset/x-a", "koord-scheduler", "0/1", "0"],
        ["jobset/x-b", "koord-scheduler", "0/2", "0"],
    ]
    assert [line[6] for line in lines[1:]] == ["GangObjectMissing"] * 4 + ["later"]
    found = json.loads(rollcall("gangs", "--config", config, "-o", "json").out)["gangs"]
    assert [(one["kind"], one.get("workload")) for one in found[:2]] == [
        ("PodGang", None),
        ("LeaderWorkerSet", "serve"),
    ]


@pytest.mark.parametrize(
    ("named", "code", "titles"),
    [
        ("job/train", 1, ["Job team-a/train: held"]),
        ("jobs/team-a/train", 1, ["Job team-a/train: held"]),
        ("jobset/x", 1, ["JobSet team-a/x, gang x-a: held", "JobSet team-a/x, gang x-b: later"]),
        ("jobset/x-b", 0, ["JobSet team-a/x, gang x-b: later"]),
        ("lws/serve", 1, ["LeaderWorkerSet team-a/serve, gang serve-0-new: held"]),
        ("pcs/demo", 1, ["PodGang team-a/demo-0: held"]),
        ("podcliqueset/demo", 1, ["PodGang team-a/demo-0: held"]),
        ("pod/serve-0-0-new", 1, ["LeaderWorkerSet team-a/serve, gang serve-0-new: held"]),
        ("po/train-0", 1, ["Job team-a/train: held"]),
        ("leaderworkersets/serve-0-new", 1, ["LeaderWorkerSet team-a/serve, gang serve-0-new: held"]),
    ],
)
def test_the_gangs_of_a_workload_are_explained(
    rollcall: Run, opted_in: WritableWorld, config: str, named: str, code: int, titles: list[str]
) -> None:
    ran = rollcall("explain", named, "-n", "team-a", "--config", config)
    assert ran.code == code
    assert [line for line in ran.out.splitlines() if line and not line.startswith(" ")] == titles


def test_a_workload_without_gangs_is_reported(rollcall: Run, opted_in: WritableWorld, config: str) -> None:
    ran = rollcall("explain", "jobset/train", "-n", "team-a", "--config", config)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("rollcall: there is no JobSet team-a/train, or Rollcall makes no ")
    assert ran.err.count("\n") == 1


def test_ungate_accepts_the_name_of_a_gang_or_a_workload(rollcall: Run, opted_in: WritableWorld) -> None:
    said = "pod team-a/serve-0-0-new of serve-0-new: has the gate\n"
    assert rollcall("gangs", "ungate", "serve", "-n", "team-a", "--dry-run").out == said
    assert rollcall("gangs", "ungate", "serve-0-new", "-n", "team-a", "--dry-run").out == said
    every = rollcall("gangs", "ungate", "--all", "--dry-run").out
    assert every == f"{said}pod team-a/train-0 of train: has the gate\n"
