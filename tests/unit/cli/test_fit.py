"""`rollcall fit`: verdicts with their proof, the estimate of now, and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import yaml

from tests.unit.cli.conftest import Run, answer_for_the_cluster, unframed
from tests.unit.cluster.world import World
from webhook.model.known_kinds import JOBS
from webhook.offline.manifests import NO_MANIFEST
from webhook.offline.report_schemas import fit_schema

EXAMPLES = Path(__file__).parents[3] / "manifests" / "fit"
CLUSTER, LARGE, SMALL = (str(EXAMPLES / f"{name}.yaml") for name in ("cluster", "large", "small"))
ALL = str(EXAMPLES)
LARGE_SAID = f"""\
{LARGE}:2:1: Job research/large
    gang large (koord-scheduler): never fits on these nodes
        at   spec.template: 12
        why  12 pods of 8 nvidia.com/gpu need one rack; the largest rack r7 has room for 9
        do   lower the minimum of large to 9 pods, or do not require one rack
        if   no other webhook lowers the requests of the pods, adds tolerations or changes which nodes they may use

        rack  nodes  nvidia.com/gpu  cpu
        r7    9      72              1620
        r6    4      32              720

        gang large: never fits on these nodes, starts with 12 pods
        ├── rack r7: 9 nodes, 72 nvidia.com/gpu, 1620 cpu, short of 3 pods
        └── rack r6: 4 nodes, 32 nvidia.com/gpu, 720 cpu

"""
FACTS = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, pods: 10}, conditions: [{type: Ready, status: "True"}]}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team-a, labels: {rollcall.dev/scheduler: volcano}}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: x, resources: {limits: {cpu: 6}}}]}}
"""


class Cluster(World):
    """A cluster with some nodes and without an autoscaler, besides what a `World` has."""

    nodes = "/api/v1/nodes"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in {self.nodes, "/api/v1/configmaps"}:
            items = self.objects.get(request.url.path, [])
            return httpx.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": items})
        return await super().handle_async_request(request)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster(JOBS)
    found.put(found.nodes, yaml.safe_load(FACTS))
    answer_for_the_cluster(found, monkeypatch)
    return found


def written(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def gangs(printed: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(printed)["gangs"]
    return found


def test_a_gang_that_never_fits_has_its_proof_and_fails(rollcall: Run) -> None:
    assert rollcall("fit", "--facts", CLUSTER, LARGE) == (1, LARGE_SAID, "")


def test_a_gang_that_fits_has_an_estimate_of_now(rollcall: Run) -> None:
    ran = rollcall("fit", "--facts", ALL, SMALL)
    assert ran.code == 0
    assert ran.out.splitlines()[1:4] == [
        "    gang small (koord-scheduler): fits an empty cluster",
        "        now  short by 2 pods on rack r7 (an estimate)",
        "        evict eval",
    ]


def test_the_json_is_valid_by_its_schema_and_names_no_gang_of_another_namespace(rollcall: Run) -> None:
    ran = rollcall("fit", "--facts", ALL, "-o", "json", SMALL, LARGE)
    assert ran.code == 1
    jsonschema.Draft202012Validator(fit_schema()).validate(json.loads(ran.out))
    assert [(one["gang"], one["verdict"], one["line"]) for one in gangs(ran.out)] == [
        ("small", "fits", 2),
        ("large", "never", 2),
    ]
    assert "serve" not in ran.out


@pytest.mark.parametrize(("output", "start"), [("svg", "<svg "), ("mermaid", "flowchart TD\n")])
def test_the_picture_is_drawn(rollcall: Run, output: str, start: str) -> None:
    ran = rollcall("fit", "--facts", ALL, "-o", output, SMALL)
    assert ran.code == 0
    assert ran.out.startswith(start)
    assert "rack r7" in ran.out


def test_another_scheduler_may_be_asked(rollcall: Run) -> None:
    ran = rollcall("fit", "--facts", CLUSTER, "--scheduler", "volcano", "-o", "json", LARGE)
    assert [(one["scheduler"], one["verdict"]) for one in gangs(ran.out)] == [("volcano", "fits")]
    assert ran.code == 0


def test_effort_spends_more_and_turns_no_verdict_into_unknown(rollcall: Run) -> None:
    [once] = gangs(rollcall("fit", "--facts", CLUSTER, "-o", "json", LARGE).out)
    [often] = gangs(rollcall("fit", "--facts", CLUSTER, "--effort", "50", "-o", "json", LARGE).out)
    assert once == often
    assert rollcall("fit", "--effort", "0", LARGE).code == 2


def test_nodes_among_the_manifests_count(rollcall: Run) -> None:
    ran = rollcall("fit", "-o", "json", "-", stdin=f"{JOB}---\n{FACTS}")
    assert (ran.code, gangs(ran.out)[0]["verdict"]) == (1, "never")


def test_without_nodes_only_quotas_are_judged(rollcall: Run) -> None:
    ran = rollcall("fit", "-", stdin=JOB)
    assert ran.code == 0
    assert "gang train (volcano): not known" in ran.out
    assert "no node is known" in ran.out
    assert ": give --facts " in ran.out


def test_in_a_cluster_that_may_grow_the_gang_does_not_fit_the_nodes_that_there_are(
    rollcall: Run, tmp_path: Path
) -> None:
    config = (
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\nfit: {nodes: mayGrow}\n"
        "scheduler: {defaultProfileName: volcano, profiles: [{name: volcano}]}\n"
    )
    facts, option = written(tmp_path, "facts.yaml", FACTS), written(tmp_path, "rollcall.yaml", config)
    ran = rollcall("fit", "--config", option, "--facts", facts, "-", stdin=JOB)
    assert ran.code == 0
    assert re.search(
        r"now  does not fit .*: 2 pods of 6 cpu; 1 node of 8 takes one; .* may grow$", ran.out, re.MULTILINE
    )


TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: team-a, labels: {rollcall.dev/scheduler: volcano}}
spec: {runtimeRef: {name: own}}
"""
NO_GANG = {
    "more completions than pods": (JOB.replace("completions: 2", "completions: 5"), 3, "only 2 of the pods run "),
    "no pods": (JOB.replace("parallelism: 2", "parallelism: 0"), 0, "it has no pods"),
    "an unknown runtime": (TRAIN_JOB, 3, 'ClusterTrainingRuntime "own" is not known: give '),
}


@pytest.mark.parametrize(("manifest", "code", "said"), NO_GANG.values(), ids=NO_GANG)
def test_why_no_gang_is_judged_is_said(rollcall: Run, manifest: str, code: int, said: str) -> None:
    ran = rollcall("fit", "-", stdin=manifest)
    assert (ran.code, said in ran.out) == (code, True), ran.out
    left_out = json.loads(rollcall("fit", "-o", "json", "-", stdin=manifest).out)["notJudged"]
    assert [said in one["why"] for one in left_out] == ([True] if code else [])


SPARK = """\
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi, namespace: team-a, labels: {rollcall.dev/scheduler: volcano}}
spec:
  mode: cluster
  driver: {cores: 1, memory: 512m}
  executor: {instances: 2, cores: 1, memory: 512m}
"""


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (SPARK, "it has no pod templates, so what its pods request is not known"),
        (f"{SPARK}  batchScheduler: volcano\n", "Spark's operator makes a PodGroup, because batchScheduler is set: "),
        (f"{SPARK}  batchScheduler: yunikorn\n", "Spark's operator asks YuniKorn for a gang, "),
    ],
)
def test_the_gang_of_a_sparkapplication_is_not_known(rollcall: Run, manifest: str, why: str) -> None:
    (gang,) = gangs(rollcall("fit", "-o", "json", "-", stdin=f"{manifest}---\n{FACTS}").out)
    assert (gang["kind"], gang["name"], gang["verdict"]) == ("SparkApplication", "pi", "unknown")
    assert gang["causes"][0].startswith(why)
    ran = rollcall("fit", "-", stdin=f"{manifest}---\n{FACTS}")
    assert (ran.code, "gang pi (volcano): not known" in ran.out) == (0, True)
    assert rollcall("fit", "--strict", "-", stdin=f"{manifest}---\n{FACTS}").code == 1


def test_strict_wants_every_gang_to_fit_with_all_that_is_asked(rollcall: Run) -> None:
    no_limits = "".join(
        f"---\napiVersion: v1\nkind: {kind}List\nitems: []\n" for kind in ("ResourceQuota", "LimitRange")
    )
    small = JOB.replace("cpu: 6", "cpu: 4").replace("scheduler: volcano", "scheduler: koord-scheduler")
    fits = f"{small}---\n{FACTS}"
    assert rollcall("fit", "-", stdin=fits).code == 0
    assert rollcall("fit", "--strict", "-", stdin=fits).code == 1, "quotas are not known"
    assert rollcall("fit", "--strict", "-", stdin=fits + no_limits).code == 0
    assert rollcall("fit", "--strict", "-", stdin=small).code == 1, "nothing is known without nodes"
    assert rollcall("fit", "-", stdin=f"{TRAIN_JOB}---\n{fits}").code == 0
    assert rollcall("fit", "--strict", "-", stdin=f"{TRAIN_JOB}---\n{fits}{no_limits}").code == 1


def test_strict_leaves_the_exit_code_of_nothing_that_was_judged(rollcall: Run) -> None:
    never = f"{JOB.replace('cpu: 6', 'cpu: 4000')}---\n{FACTS}"
    for option in ([], ["--strict"]):
        assert rollcall("fit", *option, "-", stdin=f"{TRAIN_JOB}---\n{FACTS}").code == 3
        assert rollcall("fit", *option, "-", stdin=f"{TRAIN_JOB}---\n{never}").code == 1


def test_a_job_that_has_begun_is_not_judged_as_if_it_were_fresh(rollcall: Run, tmp_path: Path) -> None:
    ran = rollcall("fit", "-", stdin=f"{JOB}status: {{active: 1, succeeded: 1}}\n---\n{FACTS}")
    assert ran.code == 0
    assert "it has begun: its status" in ran.out
    facts = written(tmp_path, "facts.yaml", FACTS)
    assert "never fits" not in rollcall("explain", "--facts", facts, "-", stdin=f"{JOB}status: {{ready: 1}}\n").out
    assert "never fits" in rollcall("explain", "--facts", facts, "-", stdin=JOB).out
    # Pods that wait are active, too.
    waiting = f"{JOB}status: {{active: 2, ready: 0}}\n"
    assert "never fits" in rollcall("explain", "--facts", facts, "-", stdin=waiting).out
    assert rollcall("fit", "-", stdin=f"{waiting}---\n{FACTS}").code == 1


def test_a_workload_that_is_not_opted_in_is_noted(rollcall: Run) -> None:
    plain = JOB.replace(", labels: {rollcall.dev/scheduler: volcano}", "")
    ran = rollcall("fit", "-", stdin=plain)
    assert (ran.code, ran.out.splitlines()[0]) == (3, "<stdin>:1:1: Job team-a/train")
    assert "not opted in: " in ran.out
    assert rollcall("fit", "--scheduler", "volcano", "-o", "json", "-", stdin=f"{plain}---\n{FACTS}").code == 1


def test_a_picture_says_on_standard_error_which_workloads_it_does_not_show(rollcall: Run) -> None:
    ran = rollcall("fit", "-o", "svg", "-", stdin=TRAIN_JOB)
    assert ran.code == 3
    assert 'rollcall: <stdin>:1:1: no gang is judged: ClusterTrainingRuntime "own" is not known' in ran.err


def test_what_cannot_be_read_is_named_with_its_place(rollcall: Run, tmp_path: Path) -> None:
    broken = written(tmp_path, "job.yaml", JOB.replace("parallelism: 2", "parallelism: many"))
    ran = rollcall("fit", broken)
    assert ran.code == 2
    assert ran.err.startswith(f"rollcall: {broken}:6:3: spec.parallelism: ")
    assert ran.err.endswith("; write a whole number\n")
    ran = rollcall("fit", "-", stdin="kind: [")
    assert ran.code == 2
    assert ran.err.startswith("rollcall: <stdin>:")


@pytest.mark.parametrize("command", ["fit", "check", "explain"])
def test_a_node_that_cannot_be_read_ends_the_command_with_its_place(
    rollcall: Run, tmp_path: Path, command: str
) -> None:
    nodes = written(tmp_path, "nodes.yaml", FACTS.replace("cpu: 8", "cpu: nope"))
    ran = rollcall(command, "--facts", nodes, LARGE)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f'rollcall: {nodes}:4:24: status.allocatable.cpu: expected a quantity of cpu, found text ("nope")\n'
    )


def test_an_empty_file_of_facts_is_an_error_as_kubectl_has_failed(rollcall: Run, tmp_path: Path) -> None:
    empty = written(tmp_path, "nodes.yaml", "\n")
    ran = rollcall("fit", "--facts", str(tmp_path), "-", stdin=JOB)
    assert ran.code == 2
    assert ran.err == f"rollcall: {empty}: {NO_MANIFEST}\n"
    written(tmp_path, "nodes.yaml", "# no Queue\n")
    assert rollcall("fit", "--facts", str(tmp_path), "-", stdin=JOB).code == 0


def test_a_file_without_a_workload_is_an_error(rollcall: Run) -> None:
    ran = rollcall("fit", CLUSTER)
    assert ran.code == 2
    assert ran.err.startswith("rollcall: nothing to judge: ")


def test_live_reads_nodes_and_the_pods_on_them(rollcall: Run, cluster: Cluster) -> None:
    fits = JOB.replace("cpu: 6", "cpu: 3")
    pod = {
        "metadata": {"name": "old-0", "namespace": "team-a", "labels": {"rollcall.dev/gang": "old"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
        "status": {"phase": "Running"},
    }
    cluster.put("/api/v1/pods", pod)
    ran = rollcall("fit", "--live", "-o", "json", "-", stdin=fits)
    [found] = gangs(ran.out)
    assert (ran.code, found["verdict"], found["now"]["answer"]) == (0, "fits", "short")
    assert found["now"]["wouldHaveToGo"] == {"gangs": ["old"], "ofOtherNamespaces": 0}
    assert found["domains"][0]["free"]["cpu"] == 4000
    holding = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    assert holding in cluster.selectors["/api/v1/pods"]


def test_without_the_right_to_list_pods_there_is_no_estimate(rollcall: Run, cluster: Cluster) -> None:
    cluster.refused["/api/v1/pods"] = httpx.Response(403, json={"message": "no"})
    ran = rollcall("fit", "--live", "-o", "json", "-", stdin=JOB.replace("cpu: 6", "cpu: 3"))
    [found] = gangs(ran.out)
    assert (ran.code, found["verdict"], found["now"]) == (0, "fits", None)
    assert "not known what is free" in ran.err


def test_a_workload_is_named_as_kubectl_names_it(rollcall: Run, cluster: Cluster, tmp_path: Path) -> None:
    stored = yaml.safe_load(JOB)
    del stored["kind"], stored["apiVersion"]
    cluster.put("/apis/batch/v1/namespaces/team-a/jobs", stored)
    config = "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
    config += "scheduler: {defaultProfileName: volcano, profiles: [{name: volcano}]}\n"
    option = written(tmp_path, "rollcall.yaml", config)
    ran = rollcall("fit", "job/train", "-n", "team-a", "--config", option)
    assert ran.code == 1
    assert ran.out.splitlines()[:2] == [
        "job/train:1:1: Job team-a/train",
        "    gang train (volcano): never fits on these nodes",
    ]
    ran = rollcall("fit", "job/other", "-n", "team-a", "--config", option)
    assert (ran.code, ran.err) == (2, "rollcall: job/other: there is no Job team-a/other\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deploy/x", "-n", "a"), "of podgang, pcs, job, jobset, lws, trainjob"),
        (("job/x", SMALL), "KIND/NAME is in"),
        (("job/x", "--live"), "--facts, --live and --kubernetes are"),
        ((SMALL, "-n", "a"), "--namespace is for"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(rollcall: Run, arguments: tuple[str, ...], said: str) -> None:
    ran = rollcall("fit", *arguments)
    assert ran.code == 2
    # Typer draws a frame around it.
    assert said in unframed(ran.err)


def test_the_schema_is_printed(rollcall: Run) -> None:
    assert json.loads(rollcall("schema", "fit").out) == fit_schema()


def test_explain_has_a_column_for_each_scheduler_where_nodes_are_known(rollcall: Run, tmp_path: Path) -> None:
    facts = written(tmp_path, "facts.yaml", FACTS)
    without = rollcall("explain", "--config", "none", "-", stdin=JOB).out
    assert "fits" not in without
    lines = rollcall("explain", "--config", "none", "--facts", facts, "-", stdin=JOB).out.splitlines()
    [head] = [line for line in lines if line.startswith("    scheduler  ")]
    rows = [line.split() for line in lines[lines.index(head) :] if line.startswith("    volcano  ")]
    assert head.split()[:4] == ["scheduler", "as", "written", "fits"]
    assert "never" in rows[0]
    assert ("        fits: gang train: never fits on these nodes: 2 pods of 6 cpu; 1 node of 8 takes one") in lines
    printed = rollcall("explain", "--config", "none", "--facts", facts, "-o", "json", "-", stdin=JOB).out
    views = {one["scheduler"]: one for one in json.loads(printed)["workloads"][0]["schedulers"]}
    assert [one["verdict"] for one in views["volcano"]["fits"]] == ["never"]


GANG = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0, namespace: team-a, labels: {rollcall.dev/scheduler: volcano}}
spec:
  podgroups:
  - name: demo-0-worker
    minReplicas: 2
    podReferences: [{namespace: team-a, name: demo-0-worker-0}, {namespace: team-a, name: demo-0-worker-1}]
"""


def gang_pod(index: int, **more: Any) -> str:
    labels = {
        "app.kubernetes.io/managed-by": "grove-operator",
        "grove.io/podgang": "demo-0",
        "grove.io/podclique": "demo-0-worker",
    }
    named = {"name": f"demo-0-worker-{index}", "namespace": "team-a", "labels": labels}
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "6"}, "requests": {"cpu": "6"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": {"containers": [container], **more}}
    return f"---\n{json.dumps(pod)}\n"


def test_a_stored_pod_gang_is_judged_by_its_pods(rollcall: Run, tmp_path: Path) -> None:
    facts = written(tmp_path, "facts.yaml", FACTS)
    ran = rollcall("fit", "--config", "none", "--facts", facts, "-", stdin=GANG + gang_pod(0) + gang_pod(1))
    assert ran.code == 1
    assert ran.out.splitlines()[:2] == [
        "<stdin>:1:1: PodGang team-a/demo-0",
        "    gang demo-0 (volcano): never fits on these nodes",
    ]


def test_stored_pods_are_judged_for_the_scheduler_that_they_name(rollcall: Run, tmp_path: Path) -> None:
    facts = written(tmp_path, "facts.yaml", FACTS)
    # Without a gang, kube-scheduler starts the pods one by one.
    pods = "".join(gang_pod(index, schedulerName="default-scheduler") for index in range(2))
    given = ("fit", "--config", "none", "--facts", facts)
    assert rollcall(*given, "-", stdin=GANG + pods).code == 0
    assert rollcall(*given, "--scheduler", "volcano", "-", stdin=GANG + pods).code == 1
    # What the PodGang records is that of its workload, which may have come before Rollcall.
    unrecorded = GANG.replace(", labels: {rollcall.dev/scheduler: volcano}", "")
    pods = "".join(gang_pod(index, schedulerName="volcano") for index in range(2))
    assert rollcall(*given, "-", stdin=unrecorded + pods).code == 1
    pods = "".join(gang_pod(index, schedulerName="other") for index in range(2))
    assert 'its scheduler "other" has no profile ' in rollcall(*given, "-", stdin=GANG + pods).out


def test_a_pod_of_a_stored_gang_that_cannot_be_read_is_said_with_its_gang(rollcall: Run) -> None:
    ran = rollcall("fit", "--config", "none", "-", stdin=GANG + gang_pod(0) + gang_pod(1, containers="none"))
    assert ran.code == 2
    assert ran.err.startswith('rollcall: <stdin>:3:12: metadata.name: the pod "demo-0-worker-1" cannot be read: ')
    assert ": spec.containers: " in ran.err
    assert ran.err.endswith("; write a list\n")


def test_pods_of_a_stored_gang_that_are_still_missing_are_assumed_to_be_like_the_others(
    rollcall: Run, tmp_path: Path
) -> None:
    facts = written(tmp_path, "facts.yaml", FACTS)
    for pods, assumed in ((gang_pod(0), 1), (gang_pod(0) + gang_pod(1), 0)):
        ran = rollcall("fit", "--config", "none", "--facts", facts, "-", stdin=GANG + pods)
        conditions = [line for line in ran.out.splitlines() if "if   the pods of the gang " in line]
        assert ["still to be made" in line for line in conditions] == [True] * assumed


@pytest.mark.parametrize(
    ("pods", "code", "said"),
    [
        ("", 3, "none of its pods"),
        (gang_pod(0, nodeName="n1") + gang_pod(1), 0, "it has begun: a pod"),
    ],
)
def test_a_pod_gang_without_pods_or_that_has_begun_is_not_judged(
    rollcall: Run, pods: str, code: int, said: str
) -> None:
    ran = rollcall("fit", "--config", "none", "-", stdin=GANG + pods)
    assert ran.code == code
    assert said in ran.out


# What `fit` says of groups of podgrouper: the manifest, and the pods or the words of a note.
KAI_NODE = FACTS.replace("cpu: 8", "cpu: 32")
KAI_JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: run
  labels: {rollcall.dev/scheduler: kai-scheduler}
  annotations: {MINIMUM}
spec:
  replicatedJobs:
  - {name: a, replicas: 1, template: {spec: {parallelism: 3, completions: 3, template: POD}}}
  - {name: b, replicas: 2, template: {spec: {parallelism: 1, completions: 1, template: POD}}}
"""
KAI_GROUPS = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: run, labels: {rollcall.dev/scheduler: kai-scheduler}}
spec: {startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 3, workerTemplate: POD}}
"""
KAI_POD = "{spec: {restartPolicy: Never, containers: [{name: main, image: x, resources: {limits: {cpu: 1}}}]}}"


def on_kai(rollcall: Run, folder: Path, manifest: str) -> dict[str, Any]:
    """The JSON report on a manifest, with one large node."""
    (folder / "node.yaml").write_text(KAI_NODE)
    (folder / "run.yaml").write_text(manifest.replace("POD", KAI_POD))
    said = rollcall("fit", "-o", "json", "--facts", str(folder / "node.yaml"), str(folder / "run.yaml"))
    parsed: dict[str, Any] = json.loads(said.out)
    return parsed


@pytest.mark.parametrize(
    ("minimum", "pods"),
    [
        ("kai.scheduler/batch-min-member: '1'", {}),
        ("kai.scheduler/batch-min-member: '2'", {"a": 3, "b": 2}),
        ("", {"a": 3, "b": 2}),
    ],
)
def test_the_pods_of_a_job_set_on_kai_follow_its_minimum(
    rollcall: Run, tmp_path: Path, minimum: str, pods: dict[str, int]
) -> None:
    """Where one of its parts is enough, and any of them, no number is said."""
    report = on_kai(rollcall, tmp_path, KAI_JOB_SET.replace("MINIMUM", minimum))
    assert [entry["pods"] for entry in report["gangs"]] == [pods]
    assert [entry["surplus"] for entry in report["gangs"]] == [None]


def test_pods_that_wait_for_others_do_not_hinder_a_group_of_kai(rollcall: Run, tmp_path: Path) -> None:
    """As `check` does, which refuses `LeaderReady` only where Rollcall makes the gang."""
    report = on_kai(rollcall, tmp_path, KAI_GROUPS)
    assert "kai-scheduler groups the pods itself" in json.dumps(report)
    assert "a gang scheduler puts" not in json.dumps(report)


@pytest.mark.parametrize("command", ["fit", "explain"])
def test_an_answer_is_the_same_in_every_process(command: str) -> None:
    arguments = [sys.executable, "-m", "webhook", command, "-o", "json", "--config", "none", "--facts", ALL, ALL]
    answers = {
        subprocess.run(arguments, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=False).stdout
        for seed in ("1", "2", "3")
    }
    assert len(answers) == 1 and len(answers.pop()) > 1000
