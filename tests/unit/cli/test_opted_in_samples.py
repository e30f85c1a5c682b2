"""Every sample of Trainer, JobSet, LeaderWorkerSet and KAI for every scheduler: the verdict, the gang objects in the
order of creation, and what is on a pod of each part besides its controllers' own keys. Written by hand: by what the
projects say (which pods are one gang, how many, who has claimed them) and the schedulers (what says so).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.opted_in_samples import place_samples

TORCH = "trainer/torch_distributed.yaml"
# The three generations of kube-scheduler's gangs, by what their clusters serve; the others with their defaults.
KUBE = {"1.35": ("v1alpha1", "off"), "1.36": ("v1alpha2", "off"), "1.37": ("v1beta1", "auto")}
OTHERS = ("koord-scheduler", "volcano", "kai-scheduler", "lpx-scheduler", "scheduler-plugins-scheduler")
# What JobSet, LeaderWorkerSet, the Job and the StatefulSet controllers write.
CONTROLLERS = ("jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/", "batch.kubernetes.io/", "job-name")
STATEFUL = ("apps.kubernetes.io/", "statefulset.kubernetes.io/")

# For each sample and scheduler: its gang objects, then a pod of each part.
Expected = dict[str, list[str]]


def train_job(name: str, nodes: int) -> Expected:
    """A TrainJob of one replicated Job `node`: its JobSet's gang, called as it is."""
    node, marks = f"{name}-node", f"gang={name} member={name}-node stamped"
    return {
        "koord-scheduler": [
            f"PodGroup {node}: {nodes} in [default/{node}]",
            f"node: koord-scheduler {marks} gated pod-group.scheduling.sigs.k8s.io={node}",
        ],
        "volcano": [
            f"PodGroup {name}: {nodes} = {node} {nodes}",
            f"node: volcano {marks} scheduling.k8s.io/group-name={name} scheduling.volcano.sh/group-name={name}",
        ],
        "1.35": [f"Workload {name}: gang {nodes}", f"node: default-scheduler {marks} workloadRef={name}/gang"],
        "1.36": [
            f"Workload {name}: gang {nodes}",
            f"PodGroup {name}: {nodes} by {name}/gang",
            f"node: default-scheduler {marks} schedulingGroup={name}",
        ],
        "1.37": [
            f"Workload {name}: root 1 ({node} {nodes})",
            f"CompositePodGroup {name}.composite: 1 by {name}/root",
            f"PodGroup {node}: {nodes} by {name}/{node} below {name}.composite",
            f"node: default-scheduler {marks} schedulingGroup={node}",
        ],
        "kai-scheduler": ["node: kai-scheduler"],
        "lpx-scheduler": ["node: lpx-scheduler"],
        "scheduler-plugins-scheduler": [
            f"PodGroup {name}: {nodes}",
            f"node: scheduler-plugins-scheduler {marks} scheduling.x-k8s.io/pod-group={name}",
        ],
    }


def group(gang: str) -> Expected:
    """The first group of a LeaderWorkerSet of four pods: leader and three workers are one member of one gang."""
    marks = f"gang={gang} member={gang} stamped"

    def pods(scheduler: str, more: str = "") -> list[str]:
        return [f"leader: {scheduler} {marks}{more}", f"worker: {scheduler} {marks}{more}"]

    volcano = f" scheduling.k8s.io/group-name={gang} scheduling.volcano.sh/group-name={gang}"
    return {
        "koord-scheduler": [
            f"PodGroup {gang}: 4 in [default/{gang}]",
            *pods("koord-scheduler", f" gated pod-group.scheduling.sigs.k8s.io={gang}"),
        ],
        "volcano": [f"PodGroup {gang}: 4 = {gang} 4", *pods("volcano", volcano)],
        "1.35": [f"Workload {gang}: gang 4", *pods("default-scheduler", f" workloadRef={gang}/gang")],
        "1.36": [
            f"Workload {gang}: gang 4",
            f"PodGroup {gang}: 4 by {gang}/gang",
            *pods("default-scheduler", f" schedulingGroup={gang}"),
        ],
        "1.37": [
            f"Workload {gang}: root 1 ({gang} 4)",
            # Its only member is called as it is, and no two groups are.
            f"CompositePodGroup {gang}.composite: 1 by {gang}/root",
            f"PodGroup {gang}: 4 by {gang}/{gang} below {gang}.composite",
            *pods("default-scheduler", f" schedulingGroup={gang}"),
        ],
        "kai-scheduler": ["leader: kai-scheduler", "worker: kai-scheduler"],
        "lpx-scheduler": ["leader: lpx-scheduler", "worker: lpx-scheduler"],
        "scheduler-plugins-scheduler": [
            f"PodGroup {gang}: 4",
            *pods("scheduler-plugins-scheduler", f" scheduling.x-k8s.io/pod-group={gang}"),
        ],
    }


EVERYBODY = (*KUBE, *OTHERS)
# A pod without a workload, and objects without pods.
NOTHING: Expected = {scheduler: [] for scheduler in EVERYBODY}
SAMPLES: dict[tuple[str, ...], Expected] = {
    ("trainer/01-multi-node.yaml", TORCH): train_job("multi-node-example", 3),
    ("trainer/02-runtime-patches.yaml", TORCH): train_job("runtime-patches-example", 2),
    # The plugin creates the PodGroup, but does not set the scheduler's name.
    ("trainer/04-volcano-integration.yaml",): {
        "volcano": ["node: volcano scheduling.k8s.io/group-name=volcano-example"]
    },
    ("trainer/jax_distributed.yaml",): NOTHING,
    (TORCH,): NOTHING,
    ("jobset/batch_v1alpha2_jobset.yaml",): NOTHING,
    ("jobset/paralleljobs.yaml",): {
        "koord-scheduler": [
            "PodGroup paralleljobs-workers: 4 in [default/paralleljobs-workers, default/paralleljobs-driver]",
            "PodGroup paralleljobs-driver: 1 in [default/paralleljobs-workers, default/paralleljobs-driver]",
            "workers: koord-scheduler gang=paralleljobs member=paralleljobs-workers stamped gated "
            "pod-group.scheduling.sigs.k8s.io=paralleljobs-workers",
            "driver: koord-scheduler gang=paralleljobs member=paralleljobs-driver stamped gated "
            "pod-group.scheduling.sigs.k8s.io=paralleljobs-driver",
        ],
        "volcano": [
            "PodGroup paralleljobs: 5 = paralleljobs-workers 4 + paralleljobs-driver 1",
            "workers: volcano gang=paralleljobs member=paralleljobs-workers stamped "
            "scheduling.k8s.io/group-name=paralleljobs scheduling.volcano.sh/group-name=paralleljobs",
            "driver: volcano gang=paralleljobs member=paralleljobs-driver stamped "
            "scheduling.k8s.io/group-name=paralleljobs scheduling.volcano.sh/group-name=paralleljobs",
        ],
        "1.35": [
            "Workload paralleljobs: gang 5",
            "workers: default-scheduler gang=paralleljobs member=paralleljobs-workers stamped "
            "workloadRef=paralleljobs/gang",
            "driver: default-scheduler gang=paralleljobs member=paralleljobs-driver stamped "
            "workloadRef=paralleljobs/gang",
        ],
        "1.36": [
            "Workload paralleljobs: gang 5",
            "PodGroup paralleljobs: 5 by paralleljobs/gang",
            "workers: default-scheduler gang=paralleljobs member=paralleljobs-workers stamped "
            "schedulingGroup=paralleljobs",
            "driver: default-scheduler gang=paralleljobs member=paralleljobs-driver stamped "
            "schedulingGroup=paralleljobs",
        ],
        "1.37": [
            "Workload paralleljobs: root 2 (paralleljobs-workers 4, paralleljobs-driver 1)",
            "CompositePodGroup paralleljobs.composite: 2 by paralleljobs/root",
            "PodGroup paralleljobs-workers: 4 by paralleljobs/paralleljobs-workers below paralleljobs.composite",
            "PodGroup paralleljobs-driver: 1 by paralleljobs/paralleljobs-driver below paralleljobs.composite",
            "workers: default-scheduler gang=paralleljobs member=paralleljobs-workers stamped "
            "schedulingGroup=paralleljobs-workers",
            "driver: default-scheduler gang=paralleljobs member=paralleljobs-driver stamped "
            "schedulingGroup=paralleljobs-driver",
        ],
        "kai-scheduler": ["workers: kai-scheduler", "driver: kai-scheduler"],
        "lpx-scheduler": [
            "workers: lpx-scheduler",
            "driver: lpx-scheduler",
        ],
        "scheduler-plugins-scheduler": [
            "PodGroup paralleljobs: 5",
            "workers: scheduler-plugins-scheduler gang=paralleljobs member=paralleljobs-workers stamped "
            "scheduling.x-k8s.io/pod-group=paralleljobs",
            "driver: scheduler-plugins-scheduler gang=paralleljobs member=paralleljobs-driver stamped "
            "scheduling.x-k8s.io/pod-group=paralleljobs",
        ],
    },
    # InOrder: the workers are created when the driver is ready, so each is a gang by itself.
    ("jobset/startup-driver-ready.yaml",): {
        "koord-scheduler": [
            "PodGroup startup-driver-ready-driver: 1 in [default/startup-driver-ready-driver]",
            "PodGroup startup-driver-ready-workers: 4 in [default/startup-driver-ready-workers]",
            "driver: koord-scheduler gang=startup-driver-ready-driver member=startup-driver-ready-driver stamped gated "
            "pod-group.scheduling.sigs.k8s.io=startup-driver-ready-driver",
            "workers: koord-scheduler gang=startup-driver-ready-workers member=startup-driver-ready-workers stamped "
            "gated pod-group.scheduling.sigs.k8s.io=startup-driver-ready-workers",
        ],
        "volcano": [
            "PodGroup startup-driver-ready-driver: 1 = startup-driver-ready-driver 1",
            "PodGroup startup-driver-ready-workers: 4 = startup-driver-ready-workers 4",
            "driver: volcano gang=startup-driver-ready-driver member=startup-driver-ready-driver stamped "
            "scheduling.k8s.io/group-name=startup-driver-ready-driver "
            "scheduling.volcano.sh/group-name=startup-driver-ready-driver",
            "workers: volcano gang=startup-driver-ready-workers member=startup-driver-ready-workers stamped "
            "scheduling.k8s.io/group-name=startup-driver-ready-workers "
            "scheduling.volcano.sh/group-name=startup-driver-ready-workers",
        ],
        "1.35": [
            "Workload startup-driver-ready-driver: gang 1",
            "Workload startup-driver-ready-workers: gang 4",
            "driver: default-scheduler gang=startup-driver-ready-driver member=startup-driver-ready-driver stamped "
            "workloadRef=startup-driver-ready-driver/gang",
            "workers: default-scheduler gang=startup-driver-ready-workers member=startup-driver-ready-workers stamped "
            "workloadRef=startup-driver-ready-workers/gang",
        ],
        "1.36": [
            "Workload startup-driver-ready-driver: gang 1",
            "PodGroup startup-driver-ready-driver: 1 by startup-driver-ready-driver/gang",
            "Workload startup-driver-ready-workers: gang 4",
            "PodGroup startup-driver-ready-workers: 4 by startup-driver-ready-workers/gang",
            "driver: default-scheduler gang=startup-driver-ready-driver member=startup-driver-ready-driver stamped "
            "schedulingGroup=startup-driver-ready-driver",
            "workers: default-scheduler gang=startup-driver-ready-workers member=startup-driver-ready-workers stamped "
            "schedulingGroup=startup-driver-ready-workers",
        ],
        "1.37": [
            "Workload startup-driver-ready-driver: root 1 (startup-driver-ready-driver 1)",
            "CompositePodGroup startup-driver-ready-driver.composite: 1 by startup-driver-ready-driver/root",
            "PodGroup startup-driver-ready-driver: 1 by startup-driver-ready-driver/startup-driver-ready-driver "
            "below startup-driver-ready-driver.composite",
            "Workload startup-driver-ready-workers: root 1 (startup-driver-ready-workers 4)",
            "CompositePodGroup startup-driver-ready-workers.composite: 1 by startup-driver-ready-workers/root",
            "PodGroup startup-driver-ready-workers: 4 by startup-driver-ready-workers/startup-driver-ready-workers "
            "below startup-driver-ready-workers.composite",
            "driver: default-scheduler gang=startup-driver-ready-driver member=startup-driver-ready-driver stamped "
            "schedulingGroup=startup-driver-ready-driver",
            "workers: default-scheduler gang=startup-driver-ready-workers member=startup-driver-ready-workers stamped "
            "schedulingGroup=startup-driver-ready-workers",
        ],
        "kai-scheduler": ["driver: kai-scheduler", "workers: kai-scheduler"],
        "lpx-scheduler": [
            "driver: lpx-scheduler",
            "workers: lpx-scheduler",
        ],
        "scheduler-plugins-scheduler": [
            "PodGroup startup-driver-ready-driver: 1",
            "PodGroup startup-driver-ready-workers: 4",
            "driver: scheduler-plugins-scheduler gang=startup-driver-ready-driver member=startup-driver-ready-driver "
            "stamped scheduling.x-k8s.io/pod-group=startup-driver-ready-driver",
            "workers: scheduler-plugins-scheduler gang=startup-driver-ready-workers "
            "member=startup-driver-ready-workers stamped scheduling.x-k8s.io/pod-group=startup-driver-ready-workers",
        ],
    },
    ("lws/leaderworkerset_v1_leaderworkerset.yaml",): group("leaderworkerset-sample-0-revision"),
    ("lws/lws.yaml",): group("leaderworkerset-sample-0-revision"),
    ("lws/lws-sample-volcano.yaml",): {"volcano": group("lws-sample-volcano-0-revision")["volcano"]},
    ("kai/batch-job-min-member.yaml",): {
        "kai-scheduler": ["batch-job-min-member: kai-scheduler kai.scheduler/queue=default-queue"]
    },
    # It names its PodGroup and subgroup by itself: nothing is added.
    ("kai/external-podgroup-job.yaml",): {
        "kai-scheduler": [
            "external-batch-job: kai-scheduler kai.scheduler/subgroup-name=workers pod-group-name=external-batch-job"
        ]
    },
    ("kai/default-queues.yaml",): NOTHING,
    # A pod without a workload: left unchanged for every scheduler.
    ("kai/cpu-only-pod.yaml",): {
        scheduler: ["cpu-only-pod: kai-scheduler kai.scheduler/queue=default-queue"] for scheduler in EVERYBODY
    },
}
ROWS = [(files, scheduler, lines) for files, row in SAMPLES.items() for scheduler, lines in row.items()]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return place_samples(tmp_path_factory.mktemp("samples"))


@pytest.mark.parametrize(("files", "scheduler", "expected"), ROWS, ids=[f"{row[0][0]}-{row[1]}" for row in ROWS])
def test_a_sample_is_admitted_and_its_gang_objects_are_rendered(
    rollcall: Run, samples: Path, tmp_path: Path, files: tuple[str, ...], scheduler: str, expected: list[str]
) -> None:
    arguments = [*_chosen(scheduler, tmp_path), *(str(samples / name) for name in files), "-o", "json"]
    report = json.loads(rollcall("check", *arguments).out)
    assert [found["rule"] for found in report["findings"] if found["action"] == "deny"] == []
    ran = rollcall("render", *arguments)
    assert ran.code == 0
    assert [_told(item) for item in json.loads(ran.out)["items"]] == expected


# What is written for one scheduler, and the rules by which every other refuses it.
FOR_ONE = {
    "trainer/04-volcano-integration.yaml": ("volcano", {"owner/claim-unread"}),
    "lws/lws-sample-volcano.yaml": ("volcano", {"owner/scheduler-name"}),
    "kai/batch-job-min-member.yaml": ("kai-scheduler", {"owner/scheduler-name"}),
    "kai/external-podgroup-job.yaml": ("kai-scheduler", {"owner/scheduler-name", "owner/claim-unread"}),
}


@pytest.mark.parametrize("scheduler", EVERYBODY)
@pytest.mark.parametrize("name", FOR_ONE)
def test_a_sample_that_is_written_for_another_scheduler_is_refused(
    rollcall: Run, samples: Path, tmp_path: Path, name: str, scheduler: str
) -> None:
    own, rules = FOR_ONE[name]
    arguments = [*_by_namespace(scheduler, tmp_path), str(samples / name), "-o", "json"]
    found = json.loads(rollcall("check", *arguments).out)["findings"]
    # Pods that another system has claimed may be in a gang of that system.
    alone = {"lpx/owner-no-gang"} if scheduler == "lpx-scheduler" and rules == {"owner/scheduler-name"} else set()
    # The scheduler that the sample is written for gets not even a warning.
    assert {one["rule"] for one in found} == (set() if scheduler == own else rules | alone)
    assert rollcall("render", *arguments).code == (0 if scheduler == own else 1)


@pytest.mark.parametrize("name", FOR_ONE)
def test_the_scheduler_of_the_caller_is_not_that_which_a_sample_names(rollcall: Run, samples: Path, name: str) -> None:
    own, rules = FOR_ONE[name]
    arguments = ["--scheduler", "scheduler-plugins-scheduler", str(samples / name), "-o", "json"]
    report = json.loads(rollcall("check", *arguments).out)
    assert {one["rule"] for one in report["findings"]} == rules
    overridden = [note["message"].rpartition(" which says ")[2] for note in report["notes"]]
    assert [name for name in overridden if name[:1] == '"'] == ([f'"{own}"'] if "owner/scheduler-name" in rules else [])


def test_no_sample_is_left_out(samples: Path) -> None:
    known = {name for files in SAMPLES for name in files}
    folders = [samples / folder for folder in ("trainer", "jobset", "lws", "kai")]
    assert {f"{path.parent.name}/{path.name}" for folder in folders for path in folder.glob("*.yaml")} == known


def _chosen(scheduler: str, folder: Path) -> list[str]:
    if scheduler not in KUBE:
        return ["--scheduler", scheduler]
    generation, trees = KUBE[scheduler]
    config = {"gangScheduling": True, "apiGeneration": generation, "hierarchical": trees}
    profiles = {"profiles": [{"name": "default-scheduler", "config": config}]}
    path = folder / "rollcall.json"
    head = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
    path.write_text(json.dumps({**head, "scheduler": profiles}))
    return ["--config", str(path), "--scheduler", "default-scheduler"]


def _by_namespace(scheduler: str, folder: Path) -> list[str]:
    """The same, chosen by the label of the namespace."""
    *rest, _, name = _chosen(scheduler, folder)
    path = folder / "namespace.json"
    metadata = {"name": "default", "labels": {"rollcall.dev/scheduler": name}}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    return [*rest, "--facts", str(path)]


def _told(item: dict[str, Any]) -> str:
    """An object in a line."""
    kind, spec, metadata = item["kind"], item["spec"], item["metadata"]
    assert metadata.get("namespace", "default") == "default"
    if kind == "Pod":
        return " ".join(_of_pod(metadata, spec))
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "rollcall"
    return f"{kind} {metadata['name']}: {_of_group(item['apiVersion'].split('/')[0], kind, metadata, spec)}"


def _of_group(api: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> str:
    if api == "scheduling.sigs.k8s.io":
        together = json.loads(metadata["annotations"]["gang.scheduling.koordinator.sh/groups"])
        return f"{spec['minMember']} in [{', '.join(together)}]"
    if api == "scheduling.volcano.sh":
        parts = [f"{one['name']} {one['subGroupSize']}" for one in spec["subGroupPolicy"]]
        return f"{spec['minMember']} = {' + '.join(parts)}"
    if api == "scheduling.x-k8s.io":
        return str(spec["minMember"])
    if kind == "Workload":
        return " ".join(_template(one) for field in spec.values() for one in field)
    reference = spec.get("workloadRef") or spec["podGroupTemplateRef"]["workload"]
    template = reference.get("templateName") or reference["podGroupTemplateName"]
    below = f" below {spec['parentCompositePodGroupName']}" if "parentCompositePodGroupName" in spec else ""
    return f"{_minimum(spec['schedulingPolicy'])} by {reference['workloadName']}/{template}{below}"


def _template(one: dict[str, Any]) -> str:
    below = [_template(inner) for inner in one.get("podGroupTemplates", [])]
    own = f"{one['name']} {_minimum(one.get('schedulingPolicy') or one['policy'])}"
    return f"{own} ({', '.join(below)})" if below else own


def _minimum(policy: dict[str, Any]) -> int:
    gang: dict[str, int] = policy["gang"]
    return gang.get("minCount") or gang["minGroupCount"]


def _of_pod(metadata: dict[str, Any], spec: dict[str, Any]) -> Iterator[str]:
    labels, annotations = dict(metadata.get("labels", {})), dict(metadata.get("annotations", {}))
    yield f"{_part(metadata)}: {spec['schedulerName']}"
    assert labels.pop("rollcall.dev/scheduler", spec["schedulerName"]) == spec["schedulerName"]
    for key, word in (("rollcall.dev/gang", "gang"), ("rollcall.dev/gang-member", "member")):
        if key in labels:
            yield f"{word}={labels.pop(key)}"
    if "rollcall.dev/stamp" in annotations:
        assert annotations.pop("rollcall.dev/stamp").startswith(f"{spec['schedulerName']}/")
        yield "stamped"
    if spec.get("schedulingGates") == [{"name": "rollcall.dev/gang-sync"}]:
        yield "gated"
    for key, value in sorted((labels | annotations).items()):
        if not key.startswith((*CONTROLLERS, *STATEFUL)):
            yield f"{key}={value}"
    if "workloadRef" in spec:
        yield f"workloadRef={spec['workloadRef']['name']}/{spec['workloadRef']['podGroup']}"
    if "schedulingGroup" in spec:
        yield f"schedulingGroup={spec['schedulingGroup']['podGroupName']}"


def _part(metadata: dict[str, Any]) -> str:
    labels = metadata["labels"]
    if "leaderworkerset.sigs.k8s.io/worker-index" in labels:
        return "leader" if labels["leaderworkerset.sigs.k8s.io/worker-index"] == "0" else "worker"
    named = labels.get("jobset.sigs.k8s.io/replicatedjob-name") or labels.get("batch.kubernetes.io/job-name")
    return str(named or metadata["name"])
