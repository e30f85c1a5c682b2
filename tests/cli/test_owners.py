"""`rollcall check`, `render` and `explain` of TrainJob, JobSet, LeaderWorkerSet and Job: expectations by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cli.conftest import Run

KOORD = ("--scheduler", "koord-scheduler")
VOLCANO = ("--scheduler", "volcano")
NOT_OPTED_IN = (
    "note: not opted in: neither it nor its namespace bears the label rollcall.dev/scheduler, so it and its pods are "
    "left as they are; --scheduler NAME judges it as if it did"
)
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: demo}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template: {spec: {containers: [{name: main, image: example.com/main}]}}
"""
JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: demo}
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {template: {spec: {containers: [{name: main, image: example.com/main}]}}}}
  - name: worker
    replicas: 2
    template:
      spec: {parallelism: 3, completions: 3, template: {spec: {containers: [{name: main, image: example.com/main}]}}}
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: demo}
spec:
  runtimeRef: {name: torch}
  trainer: {numNodes: 3}
"""
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    metadata: {annotations: {}}
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: example.com/node}]}}}
"""
EXCLUSIVE = RUNTIME.replace(
    "annotations: {}", "annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack}"
)
GROUPS = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: demo}
spec:
  replicas: 3
  leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {containers: [{name: main, image: example.com/main}]}}}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {rollcall.dev/scheduler: koord-scheduler}}
"""


# check


def test_what_nobody_opted_in_is_said_once_and_is_no_failure(rollcall: Run) -> None:
    ran = rollcall("check", "--strict", "-", stdin=f"{JOB}---\n{JOB_SET}---\n{GROUPS}")
    assert ran == (0, f"<stdin>:1:1: {NOT_OPTED_IN} (and 2 others)\n3 objects judged, 0 errors\n", "")


def test_a_job_that_gets_its_name_at_its_creation_is_judged_too(rollcall: Run) -> None:
    job = JOB.replace("name: demo", "generateName: demo-", 1)
    assert rollcall("check", *KOORD, "--strict", "-", stdin=job) == (0, "1 object judged, 0 errors\n", "")


def test_a_job_that_names_its_gang_by_itself_needs_no_advice(rollcall: Run) -> None:
    job = JOB.replace("template: {spec: {", "template: {spec: {schedulingGroup: {podGroupName: mine}, ")
    assert rollcall("check", "-", stdin=job).out == "1 object judged, 0 errors\n"


def test_the_label_of_a_namespace_in_another_file_opts_in(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(JOB.replace("completions: 2", "completions: 5"))
    (tmp_path / "b.yaml").write_text(NAMESPACE)
    ran = rollcall("check", str(tmp_path))
    assert ran.code == 1
    assert f"{tmp_path}/a.yaml:7:3: error owner/completions" in ran.out
    assert "field  spec.completions" in ran.out


def test_a_train_job_finds_its_runtime_in_another_file(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TRAIN_JOB)
    (tmp_path / "runtime.yaml").write_text(RUNTIME)
    ran = rollcall("check", *KOORD, "--strict", str(tmp_path))
    assert ran == (0, "1 object judged, 0 errors, 1 ignored\n", "")


@pytest.mark.parametrize("others", ["", f"---\n{RUNTIME.replace('name: torch}', 'name: jax}')}"], ids=["none", "other"])
def test_a_runtime_that_is_not_among_the_files_leaves_its_train_job_unjudged(rollcall: Run, others: str) -> None:
    said = "<stdin>:5:16: not judged owner/runtime: the ClusterTrainingRuntime torch unknown\n"
    assert said in rollcall("check", *KOORD, "-", stdin=TRAIN_JOB + others).out
    assert [rollcall("check", *KOORD, *strict, "-", stdin=TRAIN_JOB).code for strict in ([], ["--strict"])] == [0, 1]


def test_a_runtime_that_the_facts_do_not_have_is_missing(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "facts.yaml").write_text(RUNTIME.replace("name: torch}", "name: jax}"))
    ran = rollcall("check", *KOORD, "--facts", str(tmp_path), "-", stdin=TRAIN_JOB)
    assert ran.code == 1
    assert "<stdin>:5:16: error owner/runtime\n" in ran.out
    assert "why    there is no ClusterTrainingRuntime torch, so Trainer makes no pods of it\n" in ran.out


def test_what_a_runtime_has_is_found_where_it_is_named(rollcall: Run) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=f"{TRAIN_JOB}---\n{EXCLUSIVE}")
    assert ran.code == 1
    assert "<stdin>:5:16: error owner/exclusive-topology\n" in ran.out
    assert "    object TrainJob default/demo\n    field  spec.runtimeRef.name\n" in ran.out
    place = "spec.template.metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]"
    assert f"why    its ClusterTrainingRuntime torch has at {place} what it must not: " in ran.out


def test_the_most_that_a_namespace_allows_holds_for_pod_templates(rollcall: Run) -> None:
    # A quota that differs from the record is the rules' about pods.
    faulty = JOB.replace("{spec: {", "{metadata: {labels: {koordinator.sh/qosClass: BEST}}, spec: {")
    assert rollcall("check", *KOORD, "-", stdin=faulty).code == 1
    lenient = NAMESPACE.replace("rollcall.dev/scheduler: koord-scheduler", "rollcall.dev/enforcement: warn")
    ran = rollcall("check", *KOORD, "-", stdin=f"{faulty}---\n{lenient}")
    assert (ran.code, ": warning koordinator/qos-class" in ran.out) == (0, True)


OWNED_POD = """\
apiVersion: v1
kind: Pod
metadata:
  generateName: demo-worker-0-0-
  labels: {jobset.sigs.k8s.io/jobset-name: demo, jobset.sigs.k8s.io/replicatedjob-name: worker}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: demo-worker-0, controller: true}]
spec: {containers: [{name: main, image: example.com/main}]}
"""


def test_a_pod_finds_its_job_set_in_another_file(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OWNED_POD)
    missing = rollcall("render", *KOORD, str(tmp_path), "-o", "json")
    assert json.loads(missing.out)["items"][0]["spec"].get("schedulerName") is None
    (tmp_path / "b.yaml").write_text(JOB_SET)
    (tmp_path / "c.yaml").write_text(NAMESPACE)
    pod = json.loads(rollcall("render", str(tmp_path), "-o", "json").out)["items"][0]
    assert pod["spec"]["schedulerName"] == "koord-scheduler"
    assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == "demo-worker"


# Each: what is wrong, and where it is found. A TrainJob is broken with and without its runtime in the file.
WRONG = [
    (JOB.replace("parallelism: 2", 'parallelism: "4"'), "6:3", "spec.parallelism"),
    (JOB.replace("template: {spec: {", "template: {metadata: [], spec: {"), "8:14", "spec.template.metadata"),
    (JOB.replace("[{name: main, image: example.com/main}]", "{}"), "8:21", "spec.template.spec.containers"),
    (JOB.replace("  completionMode", '  suspend: "yes"\n  completionMode'), "5:3", "spec.suspend"),
    (JOB.replace("metadata: {name: demo}", "metadata: {name: [demo]}"), "3:12", "metadata.name"),
    ("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: {}}\n", "3:8", "spec.replicatedJobs"),
    ("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: [null]}\n", "3:25", "[0]"),
    (JOB_SET.replace("replicas: 2", "replicas: true"), "9:5", "spec.replicatedJobs[1].replicas"),
    (JOB_SET.replace("replicas: 2", "dependsOn: leader"), "9:5", "spec.replicatedJobs[1].dependsOn"),
    (JOB_SET.replace("spec:\n", "spec:\n  startupPolicy: {startupPolicyOrder: [InOrder]}\n", 1), "5:19", "Order"),
    (GROUPS.replace("size: 4", "size: four"), "6:26", "spec.leaderWorkerTemplate.size"),
    (GROUPS.replace("replicas: 3", "replicas: {}"), "5:3", "spec.replicas"),
    (TRAIN_JOB.replace("{name: torch}", "[torch]"), "5:3", "spec.runtimeRef"),
    (TRAIN_JOB.replace("numNodes: 3", "numNodes: three"), "6:13", "spec.trainer.numNodes"),
    (TRAIN_JOB + "  runtimePatches: {}\n", "7:3", "spec.runtimePatches"),
    (TRAIN_JOB.replace("name: demo", "name: demo, labels: {rollcall.dev/scheduler: 3}"), "3:33", "scheduler]"),
]


@pytest.mark.parametrize(("manifest", "place", "field"), WRONG, ids=[f"{row[2]}-{row[1]}" for row in WRONG])
def test_a_field_of_the_wrong_type_is_found_where_it_stands(
    rollcall: Run, manifest: str, place: str, field: str
) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=f"{manifest}---\n{RUNTIME}")
    assert (ran.code, ran.err) == (1, "")
    assert f"<stdin>:{place}: error owner/shape\n" in ran.out
    (shown,) = [line for line in ran.out.splitlines() if line.startswith("    field  ")]
    assert shown.endswith(field)
    rendered = rollcall("render", *KOORD, "-", stdin=f"{manifest}---\n{RUNTIME}")
    assert (rendered.code, rendered.out, "Traceback" in rendered.err) == (1, "", False)
    explained = rollcall("explain", "-", stdin=f"{manifest}---\n{RUNTIME}")
    assert (explained.code, "owner/shape" in explained.out) == (1, True)


@pytest.mark.parametrize(
    "wrong",
    [
        RUNTIME.replace("      replicatedJobs:", "      replicatedJobs: [null]\n      was:"),
        RUNTIME.replace("mlPolicy: {numNodes: 1, torch: {}}", "mlPolicy: []"),
        RUNTIME.replace("mlPolicy: {numNodes: 1, torch: {}}", "podGroupPolicy: volcano"),
        RUNTIME.replace("name: node\n", "name: [node]\n"),
    ],
)
def test_a_runtime_that_cannot_be_read_is_found_where_it_is_named(rollcall: Run, wrong: str) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=f"{TRAIN_JOB}---\n{wrong}")
    assert (ran.code, ran.err) == (1, "")
    assert "<stdin>:5:16: error owner/runtime\n" in ran.out


# render


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_a_job_of_the_cluster_owns_its_pod_group_and_its_pods(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB.replace("name: demo", "name: demo, uid: 5f1d", 1))
    assert (ran.code, ran.err) == (0, "")
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


def test_a_pod_of_a_job_set_bears_its_controllers_keys(rollcall: Run) -> None:
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


def test_the_groups_of_a_leader_worker_set_are_shown_by_their_first(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin=GROUPS)
    group, leader, worker = YAML(typ="safe").load_all(ran.out)
    assert comments(ran.out)[:2] == [
        "# LeaderWorkerSet demo, koord-scheduler: gang demo-0-revision",
        "# each of its 3 groups has its own; `revision` stands for the hash of its templates",
    ]
    assert (group["metadata"]["name"], group["spec"]["minMember"]) == ("demo-0-revision", 4)
    assert [one["metadata"]["name"] for one in (leader, worker)] == ["demo-0", "demo-0-1"]
    assert [one["metadata"]["ownerReferences"][0]["name"] for one in (leader, worker)] == ["demo", "demo-0"]
    assert worker["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/leader-name"] == "demo-0"


def test_trainer_s_plugin_and_kai_make_the_gang_themselves(rollcall: Run) -> None:
    plugin = RUNTIME.replace("  mlPolicy", "  podGroupPolicy: {volcano: {}}\n  mlPolicy")
    ran = rollcall("render", *VOLCANO, "-", stdin=f"{TRAIN_JOB}---\n{plugin}")
    chain = "of Job demo-node-0 of JobSet demo of TrainJob demo"
    assert comments(ran.out) == [
        f"# TrainJob demo, volcano: one pod of node, {chain}",
        "# Trainer's plugin volcano makes the PodGroup demo: nothing is written beside it",
    ]
    ran = rollcall("render", "--scheduler", "kai-scheduler", "-", stdin=f"{TRAIN_JOB}---\n{RUNTIME}")
    assert comments(ran.out) == [
        f"# TrainJob demo, kai-scheduler: one pod of node, {chain}",
        "# kai-scheduler makes the gang by itself: nothing is written beside it",
    ]


def test_the_queue_of_a_train_job_reaches_its_pods_for_kai(rollcall: Run) -> None:
    labelled = TRAIN_JOB.replace("name: demo", "name: demo, labels: {kai.scheduler/queue: team-a}")
    ran = rollcall("render", "--scheduler", "kai-scheduler", "-o", "json", "-", stdin=f"{labelled}---\n{RUNTIME}")
    (pod,) = json.loads(ran.out)["items"]
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"


def test_the_queue_that_volcano_s_users_name_is_the_pod_group_s(rollcall: Run) -> None:
    asking = GROUPS.replace("name: demo", "name: demo, annotations: {scheduling.volcano.sh/queue-name: team-a}")
    group = next(iter(YAML(typ="safe").load_all(rollcall("render", *VOLCANO, "-", stdin=asking).out)))
    assert group["spec"]["queue"] == "team-a"


def test_a_pod_of_somebody_else_s_job_is_left_alone(rollcall: Run) -> None:
    foreign = OWNED_POD.replace("batch/v1", "batch.volcano.sh/v1alpha1")
    ran = rollcall("render", *KOORD, "-o", "json", "-", stdin=f"{foreign}---\n{JOB_SET}")
    assert "schedulerName" not in json.loads(ran.out)["items"][0]["spec"]


def test_of_what_is_suspended_nothing_is_written_yet(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB.replace("  completionMode", "  suspend: true\n  completionMode"))
    assert comments(ran.out).count("# suspended: nothing is written before it is resumed") == 2


def test_a_name_that_is_yet_to_be_made_is_shown_as_such(rollcall: Run) -> None:
    ran = rollcall("render", *VOLCANO, "-", stdin=JOB.replace("name: demo", "generateName: demo-", 1))
    group, pod = YAML(typ="safe").load_all(ran.out)
    assert (group["metadata"]["name"], pod["metadata"]["generateName"]) == ("demo-added", "demo-added-0-")
    assert comments(ran.out).count("# `added` stands for what the API server adds to its name") == 2


@pytest.mark.parametrize(
    ("arguments", "manifest", "code", "said"),
    [
        ((), JOB, 0, "<stdin>:1:1: Job default/demo: not opted in: "),
        (KOORD, JOB.replace("completions: 2", "completions: 5"), 1, "<stdin>:7:3: owner/completions at spec.comp"),
        (KOORD, TRAIN_JOB, 3, "<stdin>:5:16: owner/runtime at spec.runtimeRef.name: not judged: "),
        (KOORD, "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n", 0, "makes no pods, and so has no gang"),
        (KOORD, RUNTIME, 0, "nothing to render: "),
    ],
    ids=["not opted in", "refused", "without its runtime", "empty", "a runtime alone"],
)
def test_what_gets_nothing_says_why(
    rollcall: Run, arguments: tuple[str, ...], manifest: str, code: int, said: str
) -> None:
    ran = rollcall("render", *arguments, "-", stdin=manifest)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


# explain


def test_each_scheduler_is_asked_and_the_gangs_are_drawn(rollcall: Run) -> None:
    ran = rollcall("explain", *KOORD, "-", stdin=JOB_SET.replace("    replicas: 2", "    dependsOn: [{name: leader}]"))
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[:6] == [
        "<stdin>:1:1: JobSet default/demo",
        "    scheduler koord-scheduler, as asked for",
        "",
        "    asks for    default-scheduler  koord-scheduler  volcano  kai-scheduler  lpx-scheduler",
        "    gang        yes                yes              yes      yes            no",
        "    as written  runs               runs             runs     runs           in part",
    ]
    assert lines[-5:-2] == [
        "    JobSet default/demo: 4 pods in all",
        "    ├── gang demo-leader: 1 pod",
        "    └── gang demo-worker: 3 pods, waits for demo-leader",
    ]


def test_a_refusal_and_what_is_not_known_have_their_codes(rollcall: Run) -> None:
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


def test_what_is_not_opted_in_has_no_answer_and_no_failure(rollcall: Run) -> None:
    ran = rollcall("explain", "-o", "json", "-", stdin=GROUPS)
    (found,) = json.loads(ran.out)["workloads"]
    assert (ran.code, found["answer"], found["scheduler"]) == (0, None, None)
    assert found["notes"][0].startswith("not opted in: ")
    assert found["gangs"] == {
        "kind": "LeaderWorkerSet",
        "name": "default/demo",
        "pods": 12,
        "minimum": 12,
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


def test_a_claim_is_honoured_by_who_reads_it(rollcall: Run) -> None:
    plugin = RUNTIME.replace("  mlPolicy", "  podGroupPolicy: {volcano: {}}\n  mlPolicy")
    ran = rollcall("explain", "-o", "json", "-", stdin=f"{TRAIN_JOB}---\n{plugin}")
    (found,) = json.loads(ran.out)["workloads"]
    honoured = {one["scheduler"]: one["capabilities"][0]["honoured"] for one in found["schedulers"]}
    assert (honoured["volcano"], honoured["koord-scheduler"]) == ("yes", "no")
    assert [node["kind"] for node in found["gangs"]["below"]] == ["member"]


def test_the_pictures_have_the_gangs(rollcall: Run) -> None:
    chart = rollcall("explain", "-o", "mermaid", "-", stdin=JOB_SET)
    assert chart.out == (
        "flowchart TD\n"
        '    n0[["JobSet default/demo<br/>7 pods in all"]]\n'
        '    n1["gang demo<br/>7 pods"]\n'
        "    n0 --> n1\n"
        '    n2(["leader<br/>1 pod"])\n'
        "    n1 --> n2\n"
        '    n3(["worker<br/>6 pods"])\n'
        "    n1 --> n3\n"
    )
    drawing = rollcall("explain", "-o", "svg", "-", stdin=JOB_SET).out
    assert [f">{text}</text>" in drawing for text in ("gang demo", "worker", "6 pods")] == [True] * 3


def test_a_job_whose_pods_are_of_a_tree_is_left_to_the_tree(rollcall: Run) -> None:
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
