"""Gang objects that Rollcall refuses or warns of, without Rollcall on the real kube-scheduler 1.37: their pods hang,
most of them without a message, while a valid gang that was created last starts.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from tests.e2e.bound_pods import QUIET_SECONDS
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Scheduler
from tests.e2e.gang_writer import why
from tests.e2e.judged_objects import CLASS, MEEK, TREE, branch, composite, leaf, member, near, pod_group, workload
from tests.e2e.programs import eventually
from tests.e2e.schedulers import SECOND_NAME
from tests.e2e.test_judged_objects import SURROUNDINGS, api_path, placed, send, stored

pytestmark = pytest.mark.soak


class Gang(NamedTuple):
    """Objects and pods of one gang, and what its pods say of why they hang: nothing, mostly."""

    objects: tuple[Manifest, ...]
    says: str | None = None
    pods: tuple[Manifest, ...] = (member(name="demo-pod-0"), member(name="demo-pod-1"))


WORKER = pod_group("demo-worker", "demo-root")
RIGHT = Gang((TREE, composite("demo-root"), WORKER))
PAIR = workload(branch("root", 2, leaf(count=1), leaf("other", 1)))
PRIORITY = "all pods in a single pod group should have the same priority as the pod group's priority"
CLASSES = SURROUNDINGS[:2]
# By the rule that finds it.
HANGING: dict[str, Gang] = {
    "kube/tree-cycle": Gang((TREE, composite("demo-root", "demo-b"), composite("demo-b", "demo-root"), WORKER)),
    "kube/tree-depth": Gang(
        (
            composite("demo-a"),
            *(composite(f"demo-{name}", f"demo-{above}") for above, name in ("ab", "bc", "cd", "de")),
            pod_group("demo-worker", "demo-e"),
        )
    ),
    "kube/parent-missing": Gang((TREE, WORKER)),
    "kube/tree-name": Gang(
        (TREE, composite("demo-root"), pod_group("demo-root", "demo-root")),
        "pod group is unschedulable, 0/1 placements are available, first placement status: pod group is unschedulable",
        (member("demo-root", name="demo-pod-0"), member("demo-root", name="demo-pod-1")),
    ),
    "kube/min-group-count": Gang((workload(branch("root", 2, leaf())), composite("demo-root", count=2), WORKER)),
    "kube/topology-key": Gang((pod_group(**near("example.com/rakc")),), "no feasible placements found"),
    "kube/group-priority": Gang((TREE, composite("demo-root", priorityClassName=CLASS), WORKER), PRIORITY),
    "kube/pod-priority": Gang((pod_group(priorityClassName=CLASS),), PRIORITY),
    "kube/pod-preemption-policy": Gang(
        (pod_group(priorityClassName=CLASS),),
        "all pods in a single pod group should have the same preemption policy",
        (
            member(name="demo-pod-0", priorityClassName=CLASS),
            member(name="demo-pod-1", priorityClassName=MEEK),
        ),
    ),
    "kube/pod-group-missing": Gang(()),
    "kube/pod-composite": Gang(
        (TREE, composite("demo-root"), WORKER),
        pods=(member("demo-root", name="demo-pod-0"), member("demo-root", name="demo-pod-1")),
    ),
    "kube/pod-scheduler": Gang(
        (pod_group(),), pods=(member(name="demo-pod-0"), member(name="demo-pod-1", schedulerName="volcano"))
    ),
    "kube/pod-schedulers": Gang(
        (pod_group(),),
        "all pods in a single pod group should have the same .spec.schedulerName set",
        (member(name="demo-pod-0"), member(name="demo-pod-1", schedulerName=SECOND_NAME)),
    ),
    # In 1.37 it holds for a tree as for one group: by the same rule.
    "kube/pod-schedulers-of-a-tree": Gang(
        (PAIR, composite("demo-root", count=2), *(pod_group(f"demo-{one}", "demo-root", count=1) for one in "ab")),
        "all pods in a single pod group should have the same .spec.schedulerName set",
        (member("demo-a", name="demo-pod-0"), member("demo-b", name="demo-pod-1", schedulerName=SECOND_NAME)),
    ),
}


def test_gang_objects_that_rollcall_reports_really_hang(
    plane: ControlPlane,
    scheduler: Scheduler,
    namespace: str,
    nodes: Nodes,
) -> None:
    """Why, by rule.

    tree-cycle, tree-depth: kube-scheduler follows the parents of a group a few steps, and gives up. Five levels start
    in 1.37.0, one more than a Workload may declare; six do not.
    parent-missing, pod-group-missing, pod-composite: the group that is named is not there, so that its pods are not
    taken into the queue.
    tree-name: kube-scheduler 1.37.0 never finds room for a PodGroup that has the name of its composite.
    min-group-count: the quorum of the composite is never met.
    pod-scheduler: the pod that is left to another scheduler does not count for its group's minimum.
    pod-schedulers: kube-scheduler has both names here, and rejects a group or a tree whose pods are not of one.
    group-priority, pod-priority: the pods' priority must be that of the root of their tree.
    pod-preemption-policy: two classes of one value differ in it, and all pods must have one.
    topology-key: no node is in a domain of that key.
    """
    scheduler(plane, "kube of two names")
    for manifest in CLASSES:
        stored(plane, manifest)
    nodes(1, cpu=64)
    for rule, gang in {**HANGING, "right": RIGHT}.items():
        for one in (*gang.objects, *gang.pods):
            answer = send(plane, placed(one, plane, namespace, rule.removeprefix("kube/")))
            assert answer.is_success, why(answer)

    def bound() -> set[str]:
        return {name for name, pod in pods(plane, namespace).items() if pod["spec"].get("nodeName")}

    eventually(lambda: bound() == {"right-pod-0", "right-pod-1"}, "the gang that is right starts")
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        assert bound() == {"right-pod-0", "right-pod-1"}
        time.sleep(0.25)
    stored_pods = pods(plane, namespace)
    for rule, gang in HANGING.items():
        conditions = stored_pods[f"{rule.removeprefix('kube/')}-pod-0"]["status"].get("conditions") or [{}]
        # Which of the two values it meets first is by chance.
        assert str(conditions[0].get("message")).partition(", got")[0] == str(gang.says), rule
    for manifest in CLASSES:
        plane.http.delete(api_path(manifest)).raise_for_status()


def pods(plane: ControlPlane, namespace: str) -> dict[str, Manifest]:
    """The pods of a namespace by name."""
    return {pod["metadata"]["name"]: pod for pod in plane.items(f"/api/v1/namespaces/{namespace}/pods")}
