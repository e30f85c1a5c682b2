"""How many pods name a group in some files, and the warning about a minimum that they do not reach."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.reading import Manifest
from webhook.offline.group_sizes import group_sizes
from webhook.workloads.workload_kinds import PYTHON_KINDS

VOLCANO = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
KOORDINATOR = {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
OF_VOLCANO = ("Volcano", "default", "g")


def pod(name: str | None = "p", marks: Manifest = VOLCANO) -> Manifest:
    named = {} if name is None else {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, **marks}, "spec": {}}


def controller(api_version: str, kind: str, marks: Manifest = VOLCANO, **spec: Any) -> Manifest:
    template = {"metadata": marks, "spec": {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "c"}, "spec": {"template": template, **spec}}


def autoscaler(kind: str) -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": kind, "name": "c"}
    spec = {"scaleTargetRef": target}
    head = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    return {**head, "metadata": {"name": "a"}, "spec": spec}


DEPLOYMENT = controller("apps/v1", "Deployment", replicas=2)
CASES: dict[str, tuple[list[Manifest], dict[tuple[str, str, str], int | None]]] = {
    "two pods": ([pod("a"), pod("b")], {OF_VOLCANO: 2}),
    "the same pod twice": ([pod("a"), pod("a")], {OF_VOLCANO: 1}),
    "two pods without a name": ([pod(None), pod(None)], {OF_VOLCANO: 2}),
    "two marks of one system": (
        [pod("a", {"annotations": {"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/group-name": "g"}})],
        {OF_VOLCANO: 1},
    ),
    "groups of two systems": (
        [pod("a"), pod("b", KOORDINATOR)],
        {OF_VOLCANO: 1, ("Koordinator", "default", "g"): 1},
    ),
    "a pod of no group": ([pod("a", {})], {}),
    "a Deployment": ([DEPLOYMENT], {OF_VOLCANO: 2}),
    "a StatefulSet without replicas": ([controller("apps/v1", "StatefulSet")], {OF_VOLCANO: 1}),
    "a Job": ([controller("batch/v1", "Job", parallelism=4, completions=3)], {OF_VOLCANO: 3}),
    "a Deployment and a pod": ([DEPLOYMENT, pod("a")], {OF_VOLCANO: 3}),
    "a Deployment with an autoscaler": ([autoscaler("Deployment"), DEPLOYMENT], {OF_VOLCANO: None}),
    "the autoscaler of another": ([autoscaler("StatefulSet"), DEPLOYMENT], {OF_VOLCANO: 2}),
    "a DaemonSet beside a pod": ([pod("a"), controller("apps/v1", "DaemonSet")], {OF_VOLCANO: None}),
    "an unknown kind": ([controller("example.com/v1", "Farm")], {OF_VOLCANO: None}),
    "a number that cannot be read": ([controller("apps/v1", "Deployment", replicas="2")], {OF_VOLCANO: None}),
}


@pytest.mark.parametrize(("manifests", "expected"), CASES.values(), ids=CASES)
def test_the_pods_of_each_group_are_counted(
    manifests: list[Manifest], expected: dict[tuple[str, str, str], int | None]
) -> None:
    assert group_sizes(manifests, PYTHON_KINDS) == expected
