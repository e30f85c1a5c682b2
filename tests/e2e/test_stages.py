"""Workloads whose parts start in turn: an initializer of one pod, and a trainer that is a gang, with the real
controllers of JobSet and Trainer and the real kube-scheduler.

With its own gang for each stage, as Rollcall makes them, every stage starts whole. Under one CompositePodGroup they
start only if its minimum is 1: kube-scheduler counts the groups that have pods at the same time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.bound_pods import QUIET_SECONDS
from tests.e2e.command import run_here
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.kube_configuration import GENERATIONS, configuration
from tests.e2e.kubelet import Kubelet
from tests.e2e.opted_in_cluster import LABEL
from tests.e2e.opted_in_workloads import job_set, replicated_job, train_job, training_runtime, training_step
from tests.e2e.pod_life import let_succeed
from tests.e2e.programs import eventually
from tests.e2e.test_opted_in_gangs import CASES, Case
from tests.e2e.test_trees import group
from tests.e2e.workload_objects import MERGE, created, listed, until_pods

pytestmark = pytest.mark.soak
NAME = "jobset.sigs.k8s.io/jobset-name"
PART = "jobset.sigs.k8s.io/replicatedjob-name"
# Each parent by name: its minimum (None for basic), its initializers, and the parts that start.
PARENTS: dict[str, tuple[int | None, tuple[str, ...], set[str]]] = {
    "basic": (None, ("dataset",), {"dataset", "trainer"}),
    "one": (1, ("dataset",), {"dataset", "trainer"}),
    "both": (2, ("dataset",), set()),
    "pair": (2, ("dataset", "model"), {"dataset", "model"}),
}


def policy_of(found: Manifest, minimum: int | None) -> Manifest:
    return found if minimum is not None else {**found, "spec": {**found["spec"], "schedulingPolicy": {"basic": {}}}}


def tree_of(name: str, minimum: int | None, initializers: tuple[str, ...]) -> list[Manifest]:
    """The groups of a JobSet, as a user would write them: a parent, basic initializers and a gang of three."""
    leaves = [policy_of(group(f"{name}-{one}", name, composite=False), None) for one in initializers]
    trainer = group(f"{name}-trainer", name, composite=False, minimum=3)
    return [policy_of(group(name, minimum=minimum or 1), minimum), *leaves, trainer]


def stages(name: str, namespace: str, initializers: tuple[str, ...]) -> Manifest:
    """A JobSet whose trainer starts when all initializers are complete, with its own groups in the templates."""

    def part(one: str, pods: int = 1, depends_on: dict[str, str] | None = None) -> Manifest:
        membership = {"podGroupName": f"{name}-{one}"}
        return replicated_job(one, pods, depends_on=depends_on, cpu="100m", schedulingGroup=membership)

    after = dict.fromkeys(initializers, "Complete")
    return job_set(
        name, namespace, *map(part, initializers), part("trainer", 3, after), labels={LABEL: "default-scheduler"}
    )


def bound(plane: ControlPlane, namespace: str, name: str) -> dict[str, list[bool]]:
    """By part, which of its pods are on nodes."""
    found: dict[str, list[bool]] = {}
    for pod in listed(plane, "v1", "Pod", namespace, f"{NAME}={name}"):
        found.setdefault(pod["metadata"]["labels"][PART], []).append("nodeName" in pod["spec"])
    return found


def test_only_a_parent_that_needs_one_group_lets_every_stage_start(
    plane: ControlPlane,
    controllers: Controllers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
    tmp_path: Path,
) -> None:
    if plane.version != "1.37":
        pytest.skip("CompositePodGroup came with 1.37")
    controllers(plane, "jobset")
    scheduler(plane, "kube")
    nodes(1)
    sets = []
    for name, (minimum, initializers, _) in PARENTS.items():
        plane.apply(*tree_of(name, minimum, initializers), options=("-n", namespace), check=True)
        sets.append(created(plane, stages(name, namespace, initializers)))

    def initializers_start() -> bool:
        running = {name: set(bound(plane, namespace, name)) for name in PARENTS}
        started = {name for name in PARENTS if all(map(all, bound(plane, namespace, name).values()))}
        assert started == {"basic", "one", "pair"}, running
        return True

    eventually(initializers_start, "the initializers start, but not below a parent that needs both stages")
    let_succeed(plane, [pod for pod in listed(plane, "v1", "Pod", namespace, NAME) if "nodeName" in pod["spec"]])
    for name in ("basic", "one", "pair"):
        until_pods(plane, namespace, f"{NAME}={name},{PART}=trainer", 3)

    def parts_that_started() -> dict[str, set[str]]:
        found = {name: bound(plane, namespace, name) for name in PARENTS}
        return {name: {part for part, pods in parts.items() if all(pods)} for name, parts in found.items()}

    expected = {name: parts for name, (_, _, parts) in PARENTS.items()}
    eventually(lambda: parts_that_started() == expected, "the trainers start below a parent that needs one group")
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        assert parts_that_started() == expected
        time.sleep(0.25)
    assert refused(plane, namespace, sets, tmp_path) == {"both", "pair"}


def refused(plane: ControlPlane, namespace: str, sets: list[Manifest], folder: Path) -> set[str]:
    """The JobSets that `rollcall check` refuses for the groups of the namespace."""
    config = folder / "rollcall.yaml"
    config.write_text(yaml.safe_dump(configuration(apiGeneration=GENERATIONS[plane.version])))
    kinds = "compositepodgroups.scheduling.k8s.io,podgroups.scheduling.k8s.io"
    stored = plane.kubectl("get", kinds, "-n", namespace, "-o", "yaml", check=True).out
    given = "---\n".join([stored, *map(yaml.safe_dump, sets)])
    done = run_here("check", "--config", config, "-o", "json", "-", stdin=given)
    assert done.stderr == ""
    found = json.loads(done.stdout)["findings"]
    return {one["object"]["name"] for one in found if one["rule"] == "kube/owner-stages"}


@pytest.mark.cases(CASES)
def test_a_train_job_with_an_initializer_starts_stage_by_stage_each_as_its_own_gang(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    controllers: Controllers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
    case: Case,
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    controllers(plane, "jobset", "trainer")
    scheduler(plane, case.scheduler)
    rollcall(plane, case.config)
    reconciler(case.config).until_leading()
    body = {"metadata": {"labels": {LABEL: case.name}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
    # Room for two of the three pods of the trainer.
    nodes(1, cpu=2)
    for_the_test(
        training_runtime(
            f"{namespace}-tune",
            training_step("dataset-initializer", "dataset-initializer"),
            training_step("node", depends_on={"dataset-initializer": "Complete"}),
        )
    )
    created(plane, train_job("tune", namespace, f"{namespace}-tune", nodes=3))
    eventually(lambda: bound(plane, namespace, "tune") == {"dataset-initializer": [True]}, "the initializer starts")
    let_succeed(plane, listed(plane, "v1", "Pod", namespace, NAME))
    until_pods(plane, namespace, f"{PART}=node", 3)

    def none_starts() -> bool:
        return not any(bound(plane, namespace, "tune")["node"])

    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        assert none_starts()
        time.sleep(0.25)
    nodes(1, cpu=2)
    eventually(lambda: all(bound(plane, namespace, "tune")["node"]), "the trainer starts whole", timeout=120)
