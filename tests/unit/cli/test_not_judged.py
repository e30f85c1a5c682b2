"""An object that no rule judged never looks as if it had been found good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
import yaml

from tests.unit.cli.checked_manifests import FINE
from tests.unit.cli.conftest import Run
from tests.unit.cli.opted_in_manifests import GROUPS, JOB, JOB_SET, TRAIN_JOB
from webhook.model.any_object import KNOWN_KEYS
from webhook.model.reading import is_unrendered

LABEL = "rollcall.dev/scheduler"
RAY = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: head, image: example.com/ray}]}}}
  workerGroupSpecs:
  - {groupName: workers, replicas: 2, template: {spec: {containers: [{name: worker, image: example.com/ray}]}}}
"""
VOLCANO_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mpi}
spec:
  minAvailable: 2
  tasks: [{name: worker, replicas: 2, template: {spec: {containers: [{name: main, image: example.com/main}]}}}]
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: example.com/web}]}}
"""
NAMED_SERVICE = DEPLOYMENT.replace("spec: {containers", "spec: {schedulerName: volcano, containers")
CLASSED = FINE.replace("  template:\n", "  template:\n    priorityClassName: ${CLASS}\n", 1)
QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q, labels: {rollcall.dev/schedular: volcano}}
spec: {weight: 1}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
KSERVE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec: {predictor: {schedulerName: kai-scheduler, model: {modelFormat: {name: vllm}}}}
"""
LABELLED = f"apiVersion: example.com/v1\nkind: Training\nmetadata: {{name: t, labels: {{{LABEL}: volcano}}}}\n"
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {jobTemplate: {spec: {template: {spec: {schedulerName: volcano, containers: []}}}}}
"""
SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: koord-scheduler}]
"""
RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: r}
spec: {values: {schedulerName: volcano}}
"""
LONE_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {rollcall.dev/scheduler: volcano}}
spec: {containers: [{name: main, image: example.com/main}]}
"""
KAI_GROUP = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
KOORD_ONLY = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {defaultProfileName: koord-scheduler, profiles: [{name: koord-scheduler}]}
"""
POD_GANG = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: g, labels: {rollcall.dev/scheduler: volcano}}
spec: {podgroups: []}
"""


def _report(rollcall: Run, text: str, *arguments: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(rollcall("check", *arguments, "-o", "json", "-", stdin=text).out)
    return report


def test_a_label_that_a_tool_adds_to_every_object_asks_for_no_gang(rollcall: Run) -> None:
    kinds = {
        "v1": ("Service", "ConfigMap", "Node", "ServiceAccount"),
        "networking.k8s.io/v1": ("Ingress",),
        "rbac.authorization.k8s.io/v1": ("ClusterRole",),
        "policy/v1": ("PodDisruptionBudget",),
    }
    objects = [
        f"{{apiVersion: {api}, kind: {kind}, metadata: {{name: x, labels: {{{LABEL}: volcano}}}}}}\n"
        for api, every in kinds.items()
        for kind in every
    ]
    report = _report(rollcall, "---\n".join([*objects, LABELLED]))
    assert [(one["reason"], one["object"]["kind"]) for one in report["objectsNotJudged"]] == [
        ("unknown-kind", "Training")
    ]


@pytest.mark.parametrize(
    ("text", "reason", "kind", "field"),
    [
        (JOB, "not-opted-in", "Job", ""),
        (JOB_SET, "not-opted-in", "JobSet", ""),
        (GROUPS, "not-opted-in", "LeaderWorkerSet", ""),
        (TRAIN_JOB, "not-opted-in", "TrainJob", ""),
        (RAY, "not-opted-in", "RayCluster", ""),
        (VOLCANO_JOB, "not-opted-in", "Job", ""),
        (NAMED_SERVICE, "not-opted-in", "Deployment", ""),
        (KSERVE, "unknown-kind", "InferenceService", "spec.predictor.schedulerName"),
        (LABELLED, "unknown-kind", "Training", f"metadata.labels[{LABEL}]"),
        (CRON_JOB, "unknown-kind", "CronJob", "spec.jobTemplate.spec.template.spec.schedulerName"),
        (LONE_POD, "pod-left", "Pod", "metadata.labels"),
        ("error: x\n", "no-manifest", "", ""),
        ("Error: the chart was not found\n", "no-manifest", "", ""),
        (JOB.replace("parallelism: 2", "parallelism: 1"), "no-gang", "Job", ""),
        (DEPLOYMENT, "no-gang", "Deployment", ""),
        (CONFIG_MAP, "no-rules", "ConfigMap", "kind"),
        (SCHEDULER, "no-rules", "KubeSchedulerConfiguration", "kind"),
        (RELEASE, "no-rules", "HelmRelease", "kind"),
        ("replicas: 3\n", "no-object", "", ""),
        ("apiVersion: v1\nkind: List\nitems: []\n", "no-object", "List", ""),
        (JOB_SET.replace("name: demo}", "name: '$NAME'}"), "not-rendered", "JobSet", "metadata.name"),
        (CLASSED, "not-rendered", "PodCliqueSet", "spec.template.priorityClassName"),
    ],
)  # fmt: skip
def test_what_no_rule_judged_is_said_with_reason_and_place(
    rollcall: Run, text: str, reason: str, kind: str, field: str
) -> None:
    report = _report(rollcall, text)
    omissions: list[Any] = [*report["objectsNotJudged"], *report["objectsJudgedInPart"]]
    (omitted,) = omissions
    assert (omitted["reason"], omitted["object"]["kind"], omitted["field"]) == (reason, kind, field)
    assert omitted["why"]
    assert omitted["remedy"]
    assert (report["clean"], report["passed"]) == (False, True)
    assert report["judged"] == len(report["objectsJudgedInPart"])
    assert report["reasons"] == {reason: 1}
    assert report["counts"]["objectsNotJudged"] + report["counts"]["objectsJudgedInPart"] == 1
    for option in (("--strict",), ("--fail-on", "unjudged")):
        assert rollcall("check", *option, "-", stdin=text).code == 1
    assert rollcall("check", "-", stdin=text).code == 0


@pytest.mark.parametrize("quiet", [(), ("-q",)])
@pytest.mark.parametrize("text", [JOB_SET, CONFIG_MAP, "error: x\n"])
def test_no_format_is_green_for_nothing(rollcall: Run, text: str, quiet: tuple[str, ...]) -> None:
    def printed(output: str, *more: str) -> str:
        return rollcall("check", *quiet, *more, "-o", output, "-", stdin=text).out

    for output in ("text", "concise"):
        assert ": not judged: " in printed(output)
    (notification,) = json.loads(printed("sarif"))["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notification["level"] == "warning"
    assert [suite.get("skipped") for suite in _suites(printed("junit"))] == ["1"]
    assert [suite.get("failures") for suite in _suites(printed("junit", "--strict"))] == ["1"]
    assert " # SKIP not judged: " in printed("tap")
    assert "not ok 1 " in printed("tap", "--strict")
    assert "✅" not in printed("markdown")
    assert printed("github").startswith("::notice file=")
    assert json.loads(printed("json"))["clean"] is False


def _suites(report: str) -> Element:
    return fromstring(report.encode())  # noqa: S314 - our own


def test_ordinary_objects_beside_a_gang_need_no_word(rollcall: Run) -> None:
    ordinary = "---\n".join((DEPLOYMENT, CONFIG_MAP, JOB.replace("parallelism: 2", "parallelism: 1"), SCHEDULER))
    report = _report(rollcall, f"{FINE}---\n{ordinary}", "--scheduler", "koord-scheduler", "--strict")
    assert (report["objectsNotJudged"], report["judged"], report["passed"]) == ([], 2, True)
    assert report["ignored"] == 3
    # A workload that asks for a gang does.
    report = _report(rollcall, f"{FINE}---\n{ordinary}---\n{JOB_SET}")
    assert (report["reasons"], report["judged"]) == ({"not-opted-in": 1}, 1)


def test_a_failed_command_is_said_beside_what_is_judged(rollcall: Run) -> None:
    assert _report(rollcall, f"{FINE}---\nerror: x\n")["reasons"] == {"no-manifest": 1}


def test_the_edit_names_the_scheduler_of_the_pods_and_where_the_label_belongs(rollcall: Run) -> None:
    named = JOB.replace("{spec: {containers", "{spec: {schedulerName: volcano, containers")
    assert f"{LABEL}: volcano to it or to Namespace default" in _remedy(rollcall, named)
    # Trainer copies no label of a TrainJob.
    assert _remedy(rollcall, TRAIN_JOB).startswith(f"label Namespace default {LABEL}: NAME")
    assert _remedy(rollcall, NAMED_SERVICE).startswith(f"add the label {LABEL}: volcano to it;")


def _remedy(rollcall: Run, text: str) -> str:
    return str(_report(rollcall, text)["objectsNotJudged"][0]["remedy"])


def test_a_gang_object_without_a_profile_is_not_judged(rollcall: Run, tmp_path: Any) -> None:
    config = tmp_path / "rollcall.yaml"
    config.write_text(KOORD_ONLY)
    report = _report(rollcall, f"{KAI_GROUP}---\n{POD_GANG}", "--config", str(config))
    assert report["reasons"] == {"no-profile": 2}


def _unreachable(**labels: str) -> str:
    return json.dumps(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "demo", "labels": labels},
            "spec": {"replicatedJobs": [{"name": "a", "dependsOn": [{"name": "b", "status": "Ready"}]}]},
        }
    )


GPU_SHARE = "annotations: {gpu-fraction: '0.5'}}, spec: {schedulerName: kai-scheduler"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # JobSet's own refusal, whoever makes the gang.
        (_unreachable(), ("owner/depends-on", "spec.replicatedJobs[0].dependsOn", "deny")),
        (GROUPS.replace("size: 4", "size: 0"), ("owner/group-size", "spec.leaderWorkerTemplate.size", "deny")),
        (JOB.replace("parallelism: 2", "parallelism: two"), ("owner/shape", "spec.parallelism", "deny")),
        # The scheduler that the pods name.
        (
            JOB.replace("{spec: {", f"{{metadata: {{{GPU_SHARE}, ").replace(
                "image: example.com/main}", "image: example.com/main, resources: {limits: {nvidia.com/gpu: 1}}}"
            ),
            ("kai/gpu-sharing", "spec.template.metadata.annotations.gpu-fraction", "deny"),
        ),
    ],
)
def test_what_holds_whoever_makes_the_gang_is_judged_without_the_label(
    rollcall: Run, text: str, found: tuple[str, str, str]
) -> None:
    report = _report(rollcall, text)
    assert [(one["rule"], one["field"], one["action"]) for one in report["findings"]] == [found]
    if found[0] != "owner/shape":
        assert report["reasons"] == {"not-opted-in": 1}


@pytest.mark.parametrize("scheduler", ["yunikorn", "kai-scheduler", None])
def test_no_rule_of_a_scheduler_judges_pods_that_it_does_not_place(rollcall: Run, scheduler: str | None) -> None:
    label = "koordinator.sh/qosClass: ls"
    named = "" if scheduler is None else f"schedulerName: {scheduler}, "
    job = JOB.replace("template: {spec: {", f"template: {{metadata: {{labels: {{{label}}}}}, spec: {{{named}")
    assert label in job
    report = _report(rollcall, job)
    assert (report["findings"], report["reasons"]) == ([], {"not-opted-in": 1})
    placed = job.replace(f"spec: {{{named}", "spec: {schedulerName: koord-scheduler, ", 1)
    assert [finding["rule"] for finding in _report(rollcall, placed)["findings"]] == ["koordinator/qos-class"]


def test_a_placeholder_is_not_rendered_and_no_mistake_of_type(rollcall: Run) -> None:
    for text, field in (
        (TRAIN_JOB.replace("numNodes: 3", "numNodes: $NUM_NODES"), "spec.trainer.numNodes"),
        (JOB.replace("parallelism: 2", "parallelism: '{{ .Values.pods }}'"), "spec.parallelism"),
        (GROUPS.replace("size: 4", "size: <SIZE>"), "spec.leaderWorkerTemplate.size"),
    ):
        report = _report(rollcall, text)
        (omitted,) = report["objectsNotJudged"]
        assert (report["findings"], omitted["reason"], omitted["field"]) == ([], "not-rendered", field)
        assert "envsubst" in omitted["remedy"]
    # What a shell fills when the pod runs is none, nor is a label that no rule reads.
    own = FINE.replace("image: example.com/main", 'image: "example.com/main:${TAG}"\n            args: ["$X"]')
    assert own != FINE
    assert _report(rollcall, own.replace("name: demo", 'name: demo\n  labels: {team: "${TEAM}"}'))["judged"] == 1


def test_a_cluster_scoped_object_has_no_namespace(rollcall: Run) -> None:
    (finding,) = _report(rollcall, QUEUE)["findings"]
    assert (finding["object"]["namespace"], finding["object"]["name"]) == ("", "q")
    assert "    object Queue q\n" in rollcall("check", "-", stdin=QUEUE).out


@pytest.mark.parametrize("name", [None, "default-scheduler"])
def test_no_gang_scheduler_judged_a_plain_pod(rollcall: Run, name: str | None) -> None:
    spec = {"containers": [{"name": "main", "image": "example.com/main"}]} | ({"schedulerName": name} if name else {})
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    assert rollcall("check", "-", stdin=pod).out == "1 Pod judged: 0 errors\n"
    assert _report(rollcall, pod)["schedulers"] == []


GROUP = "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
BY_LABEL = "labels: {pod-group.scheduling.sigs.k8s.io: g}"
BY_ANNOTATION = (
    "annotations: {gang.scheduling.koordinator.sh/name: g, gang.scheduling.koordinator.sh/min-available: '2'}"
)


@pytest.mark.parametrize(
    ("marks", "group", "field"),
    [
        (BY_ANNOTATION, GROUP.replace("name: g", "name: other"), "annotations[gang.scheduling.koordinator.sh/name]"),
        (BY_LABEL, GROUP.replace("name: g", "name: g, namespace: other"), "labels[pod-group.scheduling.sigs.k8s.io]"),
        (BY_LABEL, KAI_GROUP, "labels[pod-group.scheduling.sigs.k8s.io]"),
        (
            "annotations: {kai.scheduler/skip-podgrouper: 'true'}",
            KAI_GROUP,
            "annotations[kai.scheduler/skip-podgrouper]",
        ),
        (BY_LABEL, GROUP, ""),
    ],
)
def test_a_workload_is_judged_with_its_group_only_where_that_is_judged(
    rollcall: Run, marks: str, group: str, field: str
) -> None:
    job = JOB.replace(
        "{spec: {containers", f"{{metadata: {{{marks}}}, spec: {{schedulerName: koord-scheduler, containers"
    )
    report = _report(rollcall, f"{job}---\n{group}", "--strict")
    places = [(one["reason"], one["object"]["kind"]) for one in report["objectsNotJudged"]]
    assert places == ([("group-missing", "Job")] if field else [])
    assert report["judged"] == 1
    assert report["clean"] is not bool(field)
    assert report["judgedByGroup"] == (not field)
    if field:
        assert report["objectsNotJudged"][0]["field"] == f"spec.template.metadata.{field}"


LABELLED_CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 1 * * *"
  jobTemplate:
    metadata: {labels: {rollcall.dev/scheduler: koord-scheduler}}
    spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}
"""
OF_JOB = "spec.jobTemplate"
OPTED_IN_NAMESPACE = (
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {rollcall.dev/scheduler: koord-scheduler}}\n"
)


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (LABELLED_CRON_JOB, []),
        (
            LABELLED_CRON_JOB.replace("parallelism: 2", "parallelism: two"),
            [("owner/shape", f"{OF_JOB}.spec.parallelism", "two")],
        ),
        (
            LABELLED_CRON_JOB.replace("koord-scheduler", "koord-schedular"),
            [("owner/scheduler-unknown", f"{OF_JOB}.metadata.labels[{LABEL}]", "koord-schedular")],
        ),
        (f"{LABELLED_CRON_JOB.replace(LABEL, 'team')}---\n{OPTED_IN_NAMESPACE}", []),
    ],
)
def test_a_cron_job_is_judged_as_its_jobs_are(rollcall: Run, text: str, findings: list[tuple[str, str, str]]) -> None:
    report = _report(rollcall, text)
    assert [(one["rule"], one["field"], one["found"]) for one in report["findings"]] == findings
    assert (report["judged"], report["objectsNotJudged"], report["clean"]) == (1, [], not findings)


def test_the_label_of_a_cron_job_belongs_to_its_jobs(rollcall: Run) -> None:
    pods = CRON_JOB.replace(
        "{spec: {schedulerName", f"{{metadata: {{labels: {{{LABEL}: volcano}}}}, spec: {{schedulerName"
    )
    report = _report(rollcall, pods)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["remedy"]) == ("keys/misplaced", f"move it to {OF_JOB}.metadata.labels")
    assert f"{OF_JOB}.metadata.labels" in report["objectsNotJudged"][0]["remedy"]


OF_KUBERNETES = "apiVersion: scheduling.k8s.io/{}\nkind: {}\nmetadata: {{name: g}}\nspec: {{}}\n"


@pytest.mark.parametrize("beside", ["", GROUP])
@pytest.mark.parametrize(
    ("version", "kind"), [("v1alpha2", "PodGroup"), ("v1", "Workload"), ("v1beta1", "CompositePodGroup")]
)
def test_gangs_of_kubernetes_need_gang_scheduling(rollcall: Run, version: str, kind: str, beside: str) -> None:
    report = _report(rollcall, f"{OF_KUBERNETES.format(version, kind)}---\n{beside}")
    (omitted,) = report["objectsNotJudged"]
    assert (omitted["reason"], omitted["object"]["kind"], omitted["field"]) == ("no-profile", kind, "apiVersion")
    assert omitted["remedy"] == "turn on gangScheduling in the profile of default-scheduler"
    assert (report["judged"], report["ignored"], report["clean"]) == (bool(beside), 0, False)


def test_a_job_of_a_gang_of_kubernetes_needs_gang_scheduling(rollcall: Run) -> None:
    job = JOB.replace("template: {spec: {", "template: {spec: {schedulingGroup: {podGroupName: g}, ")
    report = _report(rollcall, f"{OF_KUBERNETES.format('v1beta1', 'PodGroup')}---\n{job}")
    assert report["reasons"] == {"no-profile": 1, "group-missing": 1}
    (remedy,) = (one["remedy"] for one in report["objectsNotJudged"] if one["reason"] == "group-missing")
    assert remedy.startswith("turn on gangScheduling in the profile of default-scheduler")


def _with_labels(values: list[str]) -> str:
    keys = [key for key in KNOWN_KEYS if key.startswith("kai.scheduler/")]
    labels = ", ".join(f"{key}: '{value}'" for key, value in zip(keys, values, strict=False))
    return JOB.replace("name: demo", f"name: demo, labels: {{{LABEL}: volcano, {labels}}}", 1)


@pytest.mark.parametrize(
    ("text", "placeholders"),
    [
        (_with_labels(["${A}", "x", "$B"]), ["${A}", "$B"]),
        (_with_labels([f"<L{number}>" for number in range(7)]), ["<L0>", "<L1>", "<L2>", "<L3>", "and 3 more"]),
        (
            _with_labels(["{{ .Values.a }}"]).replace("parallelism: 2", "parallelism: $PODS"),
            ["{{ .Values.a }}", "$PODS"],
        ),
        (
            JOB.replace("parallelism: 2", "parallelism: $PODS").replace("name: demo", "name: <NAME>, namespace: $NS"),
            ["<NAME>", "$NS", "$PODS"],
        ),
    ],
)
def test_placeholders_are_all_named(rollcall: Run, text: str, placeholders: list[str]) -> None:
    report = _report(rollcall, text)
    (omitted,) = report["objectsNotJudged"]
    assert omitted["reason"] == "not-rendered"
    assert [one for one in placeholders if one not in omitted["why"]] == []
    assert report["findings"] == []


@pytest.mark.parametrize(
    "word",
    [
        *("$N", "${N}", "$(N)", "{{ .Values.n }}", "<NAME>", "@@N@@", "@N@", "%N%", "__N__", "train-${N}", "{{ n }}-a"),
        *("[[NAME]]", "#{NAME}#", "((name))", "<%= name %>", "{% name %}", "<your-name>", "<name>"),
    ],
)
def test_no_rule_takes_a_placeholder_for_a_wrong_value(rollcall: Run, word: str) -> None:
    worker = "template: {spec: {containers: [{name: main, image: example.com/main}]}}"
    for text in (
        JOB.replace("name: demo", f"name: '{word}'").replace("parallelism: 2", f"parallelism: '{word}'"),
        JOB.replace("restartPolicy: Never", f"restartPolicy: '{word}', schedulerName: volcano"),
        JOB.replace("completionMode: Indexed", f"completionMode: '{word}'"),
        VOLCANO_JOB.replace("name: mpi", f"name: '{word}'").replace("name: worker", f"name: '{word}'"),
        VOLCANO_JOB.replace("tasks: [", f"tasks: [{{name: '{word}', replicas: 3, {worker}}}, ").replace(
            "replicas: 2", "replicas: 2, dependsOn: {name: [head]}"
        ),
        RAY.replace("groupName: workers", f"groupName: '{word}'"),
    ):
        assert word in text
        report = _report(rollcall, text)
        assert [one["reason"] for one in report["objectsNotJudged"]] == ["not-rendered"], text
        assert report["findings"] == []


@pytest.mark.parametrize(
    "word",
    [
        *("25%", "a % b == 0 && c % d == 0", "user@example.com", "__name__", "a_b__c", "100%", "$", "<none>"),
        *("gpu__H100__east", "a <b> c", "if x < y and z > 1"),
    ],
)
def test_ordinary_text_is_no_placeholder(word: str) -> None:
    assert not is_unrendered(word)


@pytest.mark.parametrize(
    "text",
    [
        JOB.replace("name: demo", "name: demo, annotations: {rollcall.dev/ignore: 'kueue/refused: see <the ticket>'}"),
        RAY.replace("groupName: workers", "groupName: workers, rayStartParams: {memory: $MY_MEMORY}"),
    ],
    ids=["the reason of a person", "what a shell fills"],
)
def test_text_that_no_rule_reads_may_look_like_a_placeholder(rollcall: Run, text: str) -> None:
    assert "not-rendered" not in [one["reason"] for one in _report(rollcall, text)["objectsNotJudged"]]


def test_an_explanation_does_not_take_a_placeholder_for_a_wrong_value(rollcall: Run) -> None:
    text = JOB.replace("name: demo", "name: demo, labels: {kueue.x-k8s.io/queue-name: $QUEUE}")
    ran = rollcall("explain", "--scheduler", "koord-scheduler", "-", stdin=text)
    assert "kueue/refused" not in ran.out
    assert "$QUEUE" in ran.out


def test_a_workload_without_gangs_is_not_judged_under_a_scheduler_that_is_given(rollcall: Run) -> None:
    """As if it had the label; a ReplicaSet that asks for no gang is left out."""
    tensors = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: tf}\nspec: {tfReplicaSpecs: {}}\n"
    plain = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec: {replicas: 1}\n"
    report = _report(rollcall, f"{tensors}---\n{plain}", "--scheduler", "volcano")
    assert [(one["reason"], one["object"]["kind"]) for one in report["objectsNotJudged"]] == [("unknown-kind", "TFJob")]


def test_a_runtime_of_which_something_is_wrong_counts_as_judged(rollcall: Run) -> None:
    job = {
        "replicas": 2,
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [{"name": "node"}]}}},
        },
    }
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    report = _report(rollcall, json.dumps(runtime))
    assert ({one["rule"] for one in report["findings"]}, report["objectsNotJudged"]) == ({"owner/runtime-steps"}, [])


TOPOLOGY = "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: t}\nspec: {levels: []}\n"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (
            f"{TOPOLOGY.replace('name: t', f'name: t, annotations: {{{LABEL}: volcano}}')}---\n{CONFIG_MAP}",
            "nothing judged in full: 0 errors, 1 warning, 1 ignored",
        ),
        (CONFIG_MAP, "nothing judged: 0 errors, 1 ignored"),
        (
            JOB.replace("name: demo", f"name: demo, labels: {{{LABEL}: kai}}", 1),
            "1 Job judged: 1 error; rollcall explain FILE",
        ),
        (
            JOB.replace("name: demo", f"name: demo, labels: {{{LABEL}: $SCHED}}", 1),
            "nothing judged: 0 errors, 1 Job not judged",
        ),
    ],
)
def test_the_last_line_is_true_of_what_has_findings(rollcall: Run, text: str, last: str) -> None:
    assert rollcall("check", "-", stdin=text).out.splitlines()[-1] == last


SPARK = """\
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi, labels: {rollcall.dev/scheduler: volcano}}
spec: {mode: cluster, AT, driver: {cores: 1}, executor: {instances: 2, cores: 1}}
"""
OWN_JOB = JOB.replace("name: demo}", f"name: demo, labels: {{{LABEL}: koord-scheduler}}}}")
OWN_VOLCANO_JOB = VOLCANO_JOB.replace("name: mpi}", f"name: mpi, labels: {{{LABEL}: volcano}}}}")
CONTAINER = "image: example.com/main"


@pytest.mark.parametrize(
    "text",
    [
        SPARK.replace("AT", 'arguments: ["$(DATE)"]'),
        SPARK.replace("AT", 'hadoopConf: {fs.s3a.access.key: "${env:KEY}"}'),
        SPARK.replace("AT", 'sparkConf: {spark.app.name: "{{APP}}"}'),
        OWN_JOB.replace(CONTAINER, f"{CONTAINER}, workingDir: $(HOME)"),
        OWN_JOB.replace(
            "{spec: {", "{metadata: {annotations: {vault.hashicorp.com/template-t: '{{ key \"a\" }}'}}, spec: {"
        ),
        OWN_VOLCANO_JOB.replace("minAvailable: 2", 'minAvailable: 2\n  plugins: {pytorch: ["$X"]}'),
    ],
)
def test_what_a_program_fills_at_run_time_is_judged(rollcall: Run, text: str) -> None:
    assert _report(rollcall, text)["judged"] == 1


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (
            OWN_JOB.replace("{spec: {", "{spec: {nodeSelector: {example.com/rack: $RACK}, "),
            "spec.template.spec.nodeSelector",
        ),
        (OWN_JOB.replace("{spec: {", "{spec: {schedulerName: '{{ .Values.s }}', "), "spec.template.spec.schedulerName"),
        (
            OWN_VOLCANO_JOB.replace("minAvailable: 2", "minAvailable: 2\n  queue: ${QUEUE}"),
            "spec.queue",
        ),
        (
            OWN_JOB.replace("{spec: {", "{metadata: {annotations: {kai.scheduler/topology: <NAME>}}, spec: {"),
            "spec.template.metadata.annotations",
        ),
    ],
)
def test_a_placeholder_that_rules_read_is_not_rendered(rollcall: Run, text: str, field: str) -> None:
    report = _report(rollcall, text)
    said = [*report["objectsNotJudged"], *report["findings"]]
    assert [one["remedy"] for one in said if str(one["field"]).startswith(field) and "envsubst" in one["remedy"]]


def test_the_scheduler_in_a_workload_of_kueue_is_that_of_its_job(rollcall: Run, tmp_path: Path) -> None:
    template = {"spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "example.com/main"}]}}
    manifest = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "demo", "namespace": "team"},
        "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": 2, "template": template}]},
    }
    (tmp_path / "workload.yaml").write_text(yaml.safe_dump(manifest))
    answer = rollcall("check", str(tmp_path)).out
    assert "give the manifests of a workload" in answer
    assert "WorkloadShape" not in answer
