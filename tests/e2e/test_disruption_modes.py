"""The disruption mode of gangs on the real kube-scheduler of each version: the written form is accepted, a living gang
keeps its mode without an event, and what a pod of no gang preempts. `test_preemption_storm` is about gangs that
preempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.configurations import configuration_of
from tests.e2e.bound_pods import is_bound
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Leader, Nodes, Rollcall, Scheduler, Started
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import GENERATIONS, configuration
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import rollcall as command
from tests.e2e.workloads import two_cliques

LABEL = "rollcall.dev/disruption-mode"
# The mode of each group by the label. 1.35 has no field.
FORMS: dict[str, dict[str, Any]] = {
    "1.35": {"all": None, "single": None},
    "1.36": {"all": "PodGroup", "single": "Pod"},
    "1.37": {"all": {"all": {}}, "single": {"single": {}}},
}
SHOWN: dict[str, dict[str, str | None]] = {
    "1.35": {"all": None, "single": None},
    "1.36": {"all": "all", "single": "single"},
    "1.37": {"all": "all", "single": "single"},
}
KINDS = {
    "1.35": ("v1alpha1/workloads",),
    "1.36": ("v1alpha2/workloads", "v1alpha2/podgroups"),
    "1.37": ("v1beta1/workloads", "v1alpha3/compositepodgroups", "v1beta1/podgroups"),
}
POD_GANG = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0, namespace: default}
spec:
  priorityClassName: urgent
  podgroups:
  - {name: demo-0-worker, minReplicas: 2, podReferences: []}
"""


def objects_of(plane: ControlPlane, namespace: str) -> list[Manifest]:
    """The gang objects of a namespace."""
    paths = (kind.replace("/", f"/namespaces/{namespace}/") for kind in KINDS[plane.version])
    return [one for path in paths for one in plane.items(f"/apis/scheduling.k8s.io/{path}")]


def specs_of(plane: ControlPlane, namespace: str) -> dict[str, Manifest]:
    """What each gang object says, by its uid."""
    return {one["metadata"]["uid"]: one["spec"] for one in objects_of(plane, namespace)}


def modes_of(plane: ControlPlane, namespace: str) -> list[Any]:
    """The modes of the gang's groups; 1.35 has none."""
    specs = list(specs_of(plane, namespace).values())
    return [spec.get("disruptionMode") for spec in specs if "schedulingPolicy" in spec]


def shown(plane: ControlPlane, config: Path, namespace: str) -> Any:
    """The mode that `rollcall gangs` shows of the only gang of a namespace."""
    printed = command("gangs", "--config", config, f"--kubeconfig={plane.kubeconfig}", "-n", namespace, "-o", "json")
    (gang,) = json.loads(printed)["gangs"]
    assert gang["state"] == "started"
    return gang["disruptionMode"]


def warnings_in(plane: ControlPlane, namespace: str) -> list[str]:
    """The reasons of Rollcall's events."""
    found = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [one["reason"] for one in found if one["reportingController"].startswith("rollcall")]


def choose(plane: ControlPlane, namespace: str, mode: str) -> None:
    plane.kubectl("label", "podcliqueset", "demo", "-n", namespace, f"{LABEL}={mode}", "--overwrite", check=True)


# 1.35 has no field for it.
@pytest.mark.every_version(since="1.35", soak=("1.35",))
@pytest.mark.parametrize("mode", ["all", pytest.param("single", marks=pytest.mark.soak)])
def test_a_gang_keeps_the_mode_that_it_was_written_with(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    started: Started,
    mode: str,
) -> None:
    running = started("kube", configuration()).reconciler
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace, labels={LABEL: mode})).create()
    played.lift_gates()
    is_bound(played, 3)
    running.until_settled()
    expected = FORMS[plane.version][mode]
    before = specs_of(plane, namespace)
    assert {json.dumps(found) for found in modes_of(plane, namespace)} <= {json.dumps(expected)}
    choose(plane, namespace, "single" if mode == "all" else "all")
    played.lift_gates()
    running.until_settled()
    assert specs_of(plane, namespace) == before
    assert warnings_in(plane, namespace) == []
    assert shown(plane, running.config, namespace) == SHOWN[plane.version][mode]


@pytest.mark.every_version(since="1.35", soak=("1.35",))
def test_a_gang_that_was_written_without_a_mode_stays_as_it_is(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    rollcall: Rollcall,
    scheduler: Scheduler,
    leader: Leader,
    tmp_path: Path,
) -> None:
    """As a release wrote it that knew no mode."""
    scheduler(plane, "kube")
    rollcall(plane, configuration())
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create()
    offline = tmp_path / "rollcall.yaml"
    offline.write_text(yaml.safe_dump(configuration(apiGeneration=GENERATIONS[plane.version])))
    rendered = command("render", "--config", offline, "-", stdin=yaml.safe_dump(played.podgang("demo-0")))
    written = [_without_mode(one) for one in yaml.safe_load_all(rendered)]
    plane.apply(*written, options=("--server-side", "--field-manager=rollcall"), check=True)
    played.lift_gates()
    is_bound(played, 3)
    before = specs_of(plane, namespace)
    running = leader(configuration(disruptionMode="all"))
    running.until_settled()
    assert specs_of(plane, namespace) == before
    assert warnings_in(plane, namespace) == []
    assert shown(plane, running.config, namespace) == SHOWN[plane.version]["single"]
    # A replacement joins the group of its siblings.
    pod = played.pods()[0]["metadata"]["name"]
    plane.kubectl("delete", "pod", pod, "-n", namespace, "--grace-period=0", "--force", check=True)
    played.create_pod(played.cliques[0], 0)
    played.lift_gates()
    is_bound(played, 3)


def _without_mode(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_mode(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_mode(one) for key, one in value.items() if key != "disruptionMode"}


# The mode, and how many pods are preempted. In 1.36 only a gang that preempts respects the mode of another.
VICTIMS = {
    "1.36": {"all": ("all", 1), "single": ("single", 1)},
    "1.37": {"all": ("all", 3), "single": ("single", 1)},
}


@pytest.mark.every_version
@pytest.mark.cases(VICTIMS, soak=("1.36-single",))
def test_a_pod_of_no_gang_preempts_a_whole_gang_or_one_pod(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    started: Started,
    important: str,
    case: tuple[str, int],
) -> None:
    """A pod of higher priority needs one of the three CPUs that the gang has."""
    mode, victims = case
    started("kube", configuration())
    nodes(1, cpu=3)
    played = grove(two_cliques("demo", namespace, labels={LABEL: mode})).create()
    played.lift_gates()
    is_bound(played, 3)
    preempt(plane, namespace, important)
    eventually(lambda: preempted(played) >= victims, "the gang is preempted", timeout=60)
    # Preemption marks all its victims before the next cycle of the scheduler.
    eventually(lambda: nominated(plane, namespace), "the urgent pod is to follow", timeout=60)
    assert preempted(played) == victims


# The schedulers that choose victims pod by pod, by their names: whatever a workload asks for.
POD_BY_POD = {
    "koordinator": ("koord-scheduler", gated()),
    "scheduler-plugins": ("scheduler-plugins-scheduler", configuration_of("scheduler-plugins-scheduler")),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ["koordinator", pytest.param("scheduler-plugins", marks=pytest.mark.soak)])
def test_other_schedulers_take_single_pods_of_a_gang_that_asks_to_stay_whole(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    started: Started,
    important: str,
    name: str,
) -> None:
    scheduler_name, config = POD_BY_POD[name]
    started(name, config)
    nodes(1, cpu=3)
    played = grove(two_cliques("demo", namespace, labels={LABEL: "all"})).create()
    played.lift_gates()
    is_bound(played, 3)
    preempt(plane, namespace, important, schedulerName=scheduler_name)
    eventually(lambda: preempted(played) >= 1, "a pod is preempted", timeout=60)
    eventually(lambda: nominated(plane, namespace), "the urgent pod is to follow", timeout=60)
    assert preempted(played) == 1


def preempt(plane: ControlPlane, namespace: str, priority_class: str, **spec: Any) -> None:
    """Create a pod of that class, which is in no gang and needs one CPU."""
    container = {
        "name": "main",
        "image": "registry.example.com/main:1.0",
        "resources": {"requests": {"cpu": "1"}},
    }
    body = {"priorityClassName": priority_class, "containers": [container], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent", "namespace": namespace}, "spec": body}
    plane.apply(pod, check=True)


@pytest.fixture
def important(plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A PriorityClass above that of the gangs."""
    name = f"important-{namespace}"
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    plane.apply({**head, "value": 1000}, check=True)
    yield name
    plane.kubectl("delete", "priorityclass", name, check=True)


def preempted(played: Played) -> int:
    """How many of the three pods of a gang preemption has deleted, or is deleting."""
    return 3 - sum("deletionTimestamp" not in pod["metadata"] for pod in played.pods())


def nominated(plane: ControlPlane, namespace: str) -> bool:
    spec = plane.get("pod", "urgent", namespace)
    return "nominatedNodeName" in spec["status"] or "nodeName" in spec["spec"]


@pytest.mark.long
def test_1_36_drops_the_mode_and_the_class_while_its_gate_is_off(tmp_path: Path) -> None:
    plane = ControlPlane("1.36", "WorkloadAwarePreemption=false")
    try:
        config = tmp_path / "rollcall.yaml"
        config.write_text(yaml.safe_dump(configuration(apiGeneration="v1alpha2", disruptionMode="all")))
        written = command("render", "--config", config, "-", stdin=POD_GANG)
        assert (written.count("disruptionMode: PodGroup"), written.count("priorityClassName: urgent")) == (2, 2)
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
        plane.apply({**head, "value": 1000}, check=True)
        strictly = ("apply", "--server-side", "--validate=strict", "-f", "-")
        plane.kubectl(*strictly, stdin=written, check=True)
        path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
        (group,), (workload,) = plane.items(f"{path}/podgroups"), plane.items(f"{path}/workloads")
        (template,) = workload["spec"]["podGroupTemplates"]
        assert (group["spec"]["disruptionMode"], "disruptionMode" in template) == ("Pod", False)
        assert "priorityClassName" not in {*group["spec"], *template}
    finally:
        plane.close()
