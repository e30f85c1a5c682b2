"""`rollcall upgrade-plan`, against a simulated cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.cli.conftest import CONFIG, Run, answer_for_the_cluster, unframed
from tests.unit.cli.gang_cluster import quiet
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import POD_GROUPS, SERVED, WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods
from tests.unit.reconciler.opted_in_workloads import JOB_SET_PATH, job_set, put_workload
from tests.unit.reconciler.running_reconciler import GROUPS, put_gang, workload
from webhook.model.known_kinds import JOB_SETS, JOBS

ALPHA_13 = "--to=grove=v0.1.0-alpha.13"

__all__ = ["quiet"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> WritableWorld:
    """A cluster in the place of the network, with a gang of one member and two pods."""
    found = WritableWorld()
    found.put("/apis/grove.io/v1alpha1/podcliquesets", workload())
    put_gang(found, "demo-0-a")
    put_pods(found, grove_pod("one", nodeName="n1"), grove_pod("two", nodeName="n1"))
    answer_for_the_cluster(found, monkeypatch)
    return found


def put_object(cluster: WritableWorld, kind: str, uid: str) -> None:
    """The gang's PodGroup, with this controller."""
    owner = {"apiVersion": "example/v1", "kind": kind, "name": "x", "uid": uid, "controller": True}
    labels = {"app.kubernetes.io/managed-by": "rollcall", "grove.io/podgang": "demo-0"}
    metadata: dict[str, Any] = {"name": "demo-0-a", "namespace": "team-a", "uid": "g", "labels": labels}
    cluster.put(GROUPS, {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": {"minMember": 2}})


def test_a_gang_whose_objects_have_another_controller(
    rollcall: Run, cluster: WritableWorld, config_option: str
) -> None:
    put_object(cluster, "Deployment", "another")
    ran = rollcall("upgrade-plan", ALPHA_13, config_option)
    assert ran == (
        0,
        """\
NAMESPACE  GANG    SCHEDULER        PODS  OUTCOME  BECAUSE
team-a     demo-0  koord-scheduler  2     unknown  grove/gang-objects-incomplete

grove/gang-objects-incomplete: 1 unknown
    why     Grove replaces the PodGang by one of another name, and some of the gang objects are missing or have \
another controller
    before  repair the gang first: `rollcall gangs` and `rollcall explain podgang/NAME` say what is wrong
    source  https://github.com/ai-dynamo/grove/pull/778

Order
    1. repair the gang first: `rollcall gangs` and `rollcall explain podgang/NAME` say what is wrong \
(grove/gang-objects-incomplete)
    2. upgrade grove to v0.1.0-alpha.13

1 living gang: 1 unknown
""",
        "",
    )
    assert cluster.writes == []


def test_a_gang_that_continues_is_exit_code_0(rollcall: Run, cluster: WritableWorld, config_option: str) -> None:
    put_object(cluster, "PodCliqueSet", "set-team-a")
    ran = rollcall("upgrade-plan", ALPHA_13, config_option)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("\n1 living gang: 1 continues\n")


def test_a_plan_as_json(rollcall: Run, cluster: WritableWorld, config_option: str) -> None:
    ran = rollcall("upgrade-plan", ALPHA_13, "--to", "kai=0.17", config_option, "-o", "json")
    found = json.loads(ran.out)
    assert ran.code == 0
    assert found["to"] == {"grove": "v0.1.0-alpha.13", "kai": "0.17"}
    assert [(one["name"], one["outcome"]) for one in found["gangs"]] == [("demo-0", "unknown")]
    assert found["gangs"][0]["effects"][0]["change"] == "grove/gang-objects-incomplete"
    assert [one["do"] for one in found["order"] if one["change"] is None] == [
        "upgrade kai to 0.17",
        "upgrade grove to v0.1.0-alpha.13",
    ]


def test_a_gang_that_podgrouper_makes_is_not_left_out(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = WritableWorld(*SERVED, POD_GROUPS, JOB_SETS, JOBS)
    train = job_set("train", ("node", 2))
    train["metadata"]["labels"] = {"rollcall.dev/scheduler": "kai-scheduler"}
    put_workload(cluster, JOB_SET_PATH, train)
    answer_for_the_cluster(cluster, monkeypatch)
    file = tmp_path / "rollcall.yaml"
    file.write_text(CONFIG.replace("profiles: [", "profiles: [{name: kai-scheduler}, "))
    ran = rollcall("upgrade-plan", "--to=kai=0.17", f"--config={file}", "-o", "json")
    (found,) = json.loads(ran.out)["gangs"]
    assert (found["kind"], found["workload"], found["scheduler"]) == ("JobSet", "train", "kai-scheduler")
    assert (found["writer"], found["outcome"]) == ("scheduler", "unknown")
    assert [one["change"] for one in found["effects"]] == ["kai/finishing-gangs", "kai/jobset-tree", "kai/gang-floor"]


def test_a_change_of_scheduler(rollcall: Run, cluster: WritableWorld, config_option: str) -> None:
    ran = rollcall("upgrade-plan", "--scheduler", "koord-scheduler=kai-scheduler", config_option)
    assert ran.code == 0
    assert "continues  scheduler/permanent\n" in ran.out


def test_a_cluster_without_gangs(rollcall: Run, monkeypatch: pytest.MonkeyPatch, config_option: str) -> None:
    answer_for_the_cluster(WritableWorld(), monkeypatch)
    ran = rollcall("upgrade-plan", "--to=kai=0.17.1", config_option)
    assert ran == (0, "Order\n    1. upgrade kai to 0.17.1\n\n0 living gangs\n", "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "what is to be upgraded"),
        (["--to", "helm=4"], "'helm' is not .* grove, kai, koordinator, kubernetes, volcano"),
        (["--to", "kai"], "'' is not a version; write kai=0.17.1"),
        (["--to", "grove=alpha.13"], "'alpha.13' is not a version; write grove=v0.1.0-alpha.13"),
        (["--to", "kai=0.17", "--to", "kai=0.18"], "kai is given twice"),
        (["--scheduler", "koord-scheduler"], "'' is not a scheduler; .* default-scheduler, kai-scheduler,"),
        (["--scheduler", "slurm=volcano"], "'slurm' is not a scheduler; .* default-scheduler, kai-scheduler,"),
        (["--scheduler", "volcano=volcano"], "one other scheduler"),
    ],
)
def test_usage_mistakes_are_exit_code_2(rollcall: Run, arguments: list[str], why: str) -> None:
    ran = rollcall("upgrade-plan", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert re.search(why, unframed(ran.err))


def test_an_unreadable_cluster_is_exit_code_3(rollcall: Run, cluster: WritableWorld, config_option: str) -> None:
    cluster.failing = httpx.Response(403, json=failure(403, "you may not"))
    ran = rollcall("upgrade-plan", ALPHA_13, config_option)
    assert (ran.code, ran.out) == (3, "")
    assert "you may not" in ran.err


def test_without_a_configuration_the_installed_one_is_needed(rollcall: Run, cluster: WritableWorld) -> None:
    cluster.failing = httpx.Response(404, json=failure(404, "there is none"))
    ran = rollcall("upgrade-plan", ALPHA_13)
    assert (ran.code, ran.out) == (3, "")
    assert "installed configuration " in ran.err
    assert ran.err.endswith(" with --config\n")
    assert " (HTTP 404: there is none); " in ran.err
