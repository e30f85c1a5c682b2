"""`rollcall render` and `explain` of TrainJob, JobSet, LeaderWorkerSet and Job: expectations by hand."""

from __future__ import annotations

import json

import pytest
from ruamel.yaml import YAML

from tests.unit.cli.conftest import Run
from tests.unit.cli.opted_in_manifests import (
    EXCLUSIVE,
    GROUPS,
    JOB,
    JOB_POD,
    JOB_SET,
    KOORD,
    RUNTIME,
    TRAIN_JOB,
    VOLCANO,
)

# render


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_a_job_of_the_cluster_owns_its_pod_group_and_its_pods(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB.replace("name: demo", "name: demo, uid: 5f1d", 1))
    label = "--scheduler volcano stands for the label rollcall.dev/scheduler: volcano of the Job"
    assert (ran.code, ran.err) == (0, f"rollcall: <stdin>:1:1: {label}\n")
    assert comments(ran.out) == ["# Job demo, volcano: gang demo", "# Job demo, volcano: one of its pods, of Job demo"]
    group, pod = YAML(typ="safe").load_all(ran.out)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "5f1d"}
    reference = {**owner, "controller": True, "blockOwnerDeletion": True}
    assert group["metadata"]["ownerReferences"] == pod["metadata"]["ownerReferences"] == [reference]
    assert pod["metadata"]["generateName"] == "demo-0-"
    assert pod["metadata"]["labels"] == {
        "rollcall.dev/scheduler": "volcano",
        "batch.kubernetes.io/job-name": "demo",
        "job-name": "demo",
        "batch.kubernetes.io/controller-uid": "5f1d",
        "controller-uid": "5f1d",
        "batch.kubernetes.io/job-completion-index": "0",
        "rollcall.dev/gang": "demo",
        "rollcall.dev/gang-member": "demo",
    }


def test_a_pod_of_a_job_set_has_the_keys_of_its_controller(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB_SET)
    pod = list(YAML(typ="safe").load_all(ran.out))[-1]
    assert comments(ran.out)[-1] == "# JobSet demo, volcano: one pod of worker, of Job demo-worker-0 of JobSet demo"
    keys = {
        "jobset.sigs.k8s.io/jobset-name": "demo",
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/job-global-index": "1",
        "jobset.sigs.k8s.io/global-replicas": "3",
        "jobset.sigs.k8s.io/group-name": "default",
        "jobset.sigs.k8s.io/group-replicas": "3",
        "jobset.sigs.k8s.io/job-group-index": "1",
        # printf default/demo-worker-0 | sha1sum
        "jobset.sigs.k8s.io/job-key": "9ff0aa686f10664fd41b00f8e208a115053b624b",
        "jobset.sigs.k8s.io/restart-attempt": "0",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    for found in (pod["metadata"]["labels"], pod["metadata"]["annotations"]):
        assert {key: value for key, value in found.items() if key in keys} == keys


def test_only_the_first_group_of_a_leader_worker_set_is_shown(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin=GROUPS)
    group, leader, worker = YAML(typ="safe").load_all(ran.out)
    first, others = comments(ran.out)[:2]
    assert first == "# LeaderWorkerSet demo, koord-scheduler: gang demo-0-revision"
    assert others.startswith("# each of its 3 groups ")
    assert " own gang; `revision` " in others
    assert (group["metadata"]["name"], group["spec"]["minMember"]) == ("demo-0-revision", 4)
    assert [one["metadata"]["name"] for one in (leader, worker)] == ["demo-0", "demo-0-1"]
    assert [one["metadata"]["ownerReferences"][0]["name"] for one in (leader, worker)] == ["demo", "demo-0"]
    assert worker["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/leader-name"] == "demo-0"


def test_trainer_s_plugin_and_kai_create_the_gang_themselves(rollcall: Run) -> None:
    plugin = RUNTIME.replace("  mlPolicy", "  podGroupPolicy: {volcano: {}}\n  mlPolicy")
    ran = rollcall("render", *VOLCANO, "-", stdin=f"{TRAIN_JOB}---\n{plugin}")
    chain = "of Job demo-node-0 of JobSet demo of TrainJob demo"
    shown, none = comments(ran.out)
    assert shown == f"# TrainJob demo, volcano: one pod of node, {chain}"
    assert none.startswith("# Trainer's plugin volcano makes the PodGroup demo: ")
    assert none.endswith("writes no objects")
    ran = rollcall("render", "--scheduler", "kai-scheduler", "-", stdin=f"{TRAIN_JOB}---\n{RUNTIME}")
    shown, none = comments(ran.out)
    assert shown == f"# TrainJob demo, kai-scheduler: one pod of node, {chain}"
    assert none.startswith("# kai-scheduler makes the gang itself: ")
    assert none.endswith("writes no objects")


def test_the_queue_of_a_train_job_reaches_its_pods_for_kai(rollcall: Run) -> None:
    labelled = TRAIN_JOB.replace("name: demo", "name: demo, labels: {kai.scheduler/queue: team-a}")
    ran = rollcall("render", "--scheduler", "kai-scheduler", "-o", "json", "-", stdin=f"{labelled}---\n{RUNTIME}")
    (pod,) = json.loads(ran.out)["items"]
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"


def test_volcano_s_own_queue_key_sets_the_queue_of_the_pod_group(rollcall: Run) -> None:
    asking = GROUPS.replace("name: demo", "name: demo, annotations: {scheduling.volcano.sh/queue-name: team-a}")
    group = next(iter(YAML(typ="safe").load_all(rollcall("render", *VOLCANO, "-", stdin=asking).out)))
    assert group["spec"]["queue"] == "team-a"


def test_a_pod_of_a_job_that_is_not_opted_in_is_left_unchanged(rollcall: Run) -> None:
    foreign = JOB_POD.replace("batch/v1", "batch.volcano.sh/v1alpha1")
    ran = rollcall("render", *KOORD, "-o", "json", "-", stdin=f"{foreign}---\n{JOB_SET}")
    assert "schedulerName" not in json.loads(ran.out)["items"][0]["spec"]


def test_a_suspended_workload_has_no_objects_yet(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB.replace("  completionMode", "  suspend: true\n  completionMode"))
    assert sum(comment.startswith("# suspended: ") for comment in comments(ran.out)) == 2


def test_a_name_that_is_not_generated_yet_is_shown_as_such(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB.replace("name: demo", "generateName: demo-", 1))
    group, pod = YAML(typ="safe").load_all(ran.out)
    assert (group["metadata"]["name"], pod["metadata"]["generateName"]) == ("demo-added", "demo-added-0-")
    assert sum(comment.startswith("# `added` stands for ") for comment in comments(ran.out)) == 2


@pytest.mark.parametrize(
    ("arguments", "manifest", "code", "said"),
    [
        ((), JOB, 3, "<stdin>:1:1: Job default/demo: not opted in: "),
        (KOORD, JOB.replace("completions: 2", "completions: 5"), 1, "<stdin>:7:3: owner/completions at spec.comp"),
        (KOORD, TRAIN_JOB, 3, "<stdin>:5:16: owner/runtime at spec.runtimeRef.name: not judged: "),
        (KOORD, "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n", 0, "makes no pods"),
        (KOORD, RUNTIME, 0, "nothing to render: "),
    ],
    ids=["not opted in", "refused", "without its runtime", "empty", "a runtime alone"],
)
def test_a_note_says_why_a_workload_gets_no_objects(
    rollcall: Run, arguments: tuple[str, ...], manifest: str, code: int, said: str
) -> None:
    ran = rollcall("render", *arguments, "-", stdin=manifest)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


# explain


def test_every_scheduler_is_explained_and_the_gangs_are_drawn(rollcall: Run) -> None:
    ran = rollcall("explain", *KOORD, "-", stdin=JOB_SET.replace("    replicas: 2", "    dependsOn: [{name: leader}]"))
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[:2] == ["<stdin>:1:1: JobSet default/demo", "    scheduler koord-scheduler, by --scheduler"]
    assert lines[4] == "    asks for  gang"
    assert [line.split()[0] for line in lines if line.endswith(" no: gang")] == ["default-scheduler", "lpx-scheduler"]
    assert "    koord-scheduler, the one chosen: runs as written" in lines
    assert lines[-5:-2] == [
        "    JobSet default/demo: 4 pods in all",
        "    ├── gang demo-leader: 1 pod",
        "    └── gang demo-worker: 3 pods, waits for demo-leader",
    ]


def test_a_refusal_and_an_unknown_result_have_their_exit_codes(rollcall: Run) -> None:
    refused = rollcall("explain", *KOORD, "-o", "json", "-", stdin=f"{TRAIN_JOB}---\n{EXCLUSIVE}")
    (found,) = json.loads(refused.out)["workloads"]
    assert (refused.code, found["kind"], found["answer"]) == (1, "TrainJob", "refused")
    # KAI forms the gang by itself; Rollcall makes none for it.
    answers = {one["scheduler"]: one["answer"] for one in found["schedulers"]}
    assert {name: answers[name] for name in ("koord-scheduler", "volcano")} == {
        "koord-scheduler": "refused",
        "volcano": "refused",
    }
    unknown = rollcall("explain", *KOORD, "-o", "json", "-", stdin=TRAIN_JOB)
    (found,) = json.loads(unknown.out)["workloads"]
    assert (unknown.code, found["answer"], found["gangs"]) == (3, "unknown", None)


def test_a_workload_that_is_not_opted_in_gets_no_verdict(rollcall: Run) -> None:
    ran = rollcall("explain", "-o", "json", "-", stdin=GROUPS)
    (found,) = json.loads(ran.out)["workloads"]
    assert (ran.code, found["answer"], found["scheduler"]) == (3, None, None)
    assert found["notes"][0].startswith("not opted in: ")
    assert found["gangs"] == {
        "kind": "LeaderWorkerSet",
        "name": "default/demo",
        "pods": 12,
        "minimum": 12,
        "note": "if it were opted in",
        "below": [
            {
                "kind": "gang",
                "name": "demo-0",
                "pods": 4,
                "minimum": 4,
                "more": 2,
                "last": "demo-2",
                "below": [
                    {"kind": "member", "name": "leader", "pods": 1, "minimum": 1},
                    {"kind": "member", "name": "worker", "pods": 3, "minimum": 3},
                ],
            }
        ],
    }


def test_very_many_groups_are_counted_and_not_listed(rollcall: Run) -> None:
    many = GROUPS.replace("replicas: 3", "replicas: 2147483647")
    found = json.loads(rollcall("explain", *KOORD, "-o", "json", "-", stdin=many).out)["workloads"][0]["gangs"]
    assert (found["pods"], found["below"][0]["more"]) == (4 * 2147483647, 2147483646)
    assert rollcall("render", *KOORD, "-", stdin=many).code == 0


def test_a_claim_is_honoured_by_the_scheduler_that_reads_it(rollcall: Run) -> None:
    plugin = RUNTIME.replace("  mlPolicy", "  podGroupPolicy: {volcano: {}}\n  mlPolicy")
    ran = rollcall("explain", "-o", "json", "-", stdin=f"{TRAIN_JOB}---\n{plugin}")
    (found,) = json.loads(ran.out)["workloads"]
    honoured = {one["scheduler"]: one["capabilities"][0]["honoured"] for one in found["schedulers"]}
    assert (honoured["volcano"], honoured["koord-scheduler"]) == ("yes", "no")
    assert [node["kind"] for node in found["gangs"]["below"]] == ["member"]


def test_the_drawings_show_the_gangs(rollcall: Run) -> None:
    chart = rollcall("explain", "-o", "mermaid", "-", stdin=JOB_SET)
    assert chart.out == (
        "flowchart TD\n"
        '    n0[["JobSet default/demo<br/>7 pods in all<br/>if it were opted in"]]\n'
        '    n1["gang demo<br/>7 pods"]\n'
        "    n0 --> n1\n"
        '    n2(["leader<br/>1 pod"])\n'
        "    n1 --> n2\n"
        '    n3(["worker<br/>6 pods"])\n'
        "    n1 --> n3\n"
    )
    drawing = rollcall("explain", "-o", "svg", "-", stdin=JOB_SET).out
    assert [f">{text}</text>" in drawing for text in ("gang demo", "worker", "6 pods")] == [True] * 3


def test_a_job_whose_pods_belong_to_a_tree_is_explained_with_the_tree(rollcall: Run) -> None:
    group = """\
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: mine}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
"""
    job = JOB.replace("template: {spec: {", "template: {spec: {schedulingGroup: {podGroupName: mine}, ")
    ran = rollcall("explain", "-o", "json", "-", stdin=job + group)
    found = json.loads(ran.out)
    assert (ran.code, found["workloads"], len(found["trees"])) == (0, [], 1)
