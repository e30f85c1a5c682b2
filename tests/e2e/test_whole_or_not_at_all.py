"""A published PodCliqueSet with the real components of a cluster: Rollcall's server, its reconciler, and a real
scheduler, without kubectl. In any order of events a gang starts whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.e2e.bound_pods import QUIET_SECONDS, is_bound
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.given_gangs import GROVES
from tests.e2e.grove_operator import Played, defaulted
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.test_coscheduling_gangs import CONFIG
from tests.e2e.workloads import clique, pod_clique_set

# Of Grove's samples one with a base gang of a leader and three workers, and a scaled gang of the same.
SAMPLE = "multi-node-aggregated.yaml"
BASE, SCALED, PODS = "0", "0-model-instance-0", 4


class Case(NamedTuple):
    """A scheduler, how it is configured, and the objects of one such gang, as `/apis` has them."""

    scheduler: str
    config: Manifest
    objects: Mapping[str, int]


WORKLOAD, GROUPS = "scheduling.k8s.io/{}/workloads", "scheduling.k8s.io/{}/podgroups"
KOORD = Case("koordinator", gated(), {"scheduling.sigs.k8s.io/v1alpha1/podgroups": 2})
COSCHEDULING = Case("scheduler-plugins", CONFIG, {"scheduling.x-k8s.io/v1alpha1/podgroups": 1})
CASES: dict[str, dict[str, Case]] = {
    "1.34": {"koordinator": KOORD},
    "1.35": {
        "kube": Case("kube", configuration(), {WORKLOAD.format("v1alpha1"): 1}),
        "scheduler-plugins": COSCHEDULING,
    },
    "1.36": {
        "kube": Case("kube", configuration(), {WORKLOAD.format("v1alpha2"): 1, GROUPS.format("v1alpha2"): 1}),
        "koordinator": KOORD,
    },
    "1.37": {
        "flat": Case(
            "kube",
            configuration(hierarchical="off"),
            {WORKLOAD.format("v1beta1"): 1, GROUPS.format("v1beta1"): 1},
        ),
        "hierarchical": Case(
            "kube",
            configuration(),
            {
                WORKLOAD.format("v1beta1"): 1,
                "scheduling.k8s.io/v1alpha3/compositepodgroups": 1,
                GROUPS.format("v1beta1"): 2,
            },
        ),
    },
}


def sample(name: str, namespace: str) -> Manifest:
    """Grove's sample under that name; where it is not there, one like it."""
    if GROVES:
        found = defaulted(yaml.safe_load((Path(GROVES) / "grove" / SAMPLE).read_text(encoding="utf-8")))
        return {**found, "metadata": {**found["metadata"], "name": name, "namespace": namespace}}
    groups = [{"name": "model-instance", "cliqueNames": ["leader", "worker"], "replicas": 2}]
    cliques = (clique("leader", 1, cpu="10m"), clique("worker", 3, cpu="10m"))
    return pod_clique_set(name, namespace, *cliques, groups=groups)


def stay_unbound(*played: Played, seconds: float = QUIET_SECONDS) -> None:
    """Of none of them is a pod bound, now and for as long as it would take."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert [found.bound() for found in played] == [[]] * len(played)
        time.sleep(0.25)


def objects_of(plane: ControlPlane, namespace: str, played: Played, case: Case) -> dict[str, int]:
    """How many there are of each kind for the base gang."""
    selector = f"grove.io/podgang={played.name}-{BASE}"
    found = {}
    for kind in case.objects:
        version, _, plural = kind.rpartition("/")
        path = f"/apis/{version}/namespaces/{namespace}/{plural}"
        found[kind] = len(plane.items(path, labelSelector=selector))
    return found


@pytest.mark.long
@pytest.mark.every_version
@pytest.mark.cases(CASES, soak=("1.36-koordinator",))
def test_a_sample_starts_whole_or_not_at_all_in_any_order_of_events(
    plane: ControlPlane,
    case: Case,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
) -> None:
    rollcall(plane, case.config)
    scheduler(plane, case.scheduler)
    nodes(2, cpu=8)
    # Everything is there and free before the reconciler is.
    late = grove(sample("late", namespace)).create()
    late.lift_gates()
    # Pods come before their PodGang, and nothing but that holds them.
    eager = grove(sample("eager", namespace)).create_pods()
    eager.lift_gates()
    # Other tests look longer at gangs without objects.
    stay_unbound(late, eager, seconds=1)
    reconciler(case.config).until_leading()
    is_bound(late, PODS)
    # The objects come first, and Grove frees half of the pods.
    calm = grove(sample("calm", namespace)).create_podgangs()
    eventually(lambda: objects_of(plane, namespace, calm, case) == case.objects, "the gang objects are there")
    calm.create_pods()
    calm.fill_references()
    calm.lift_gates(only=lambda index: index % 2 == 0)
    stay_unbound(calm, eager)
    calm.lift_gates()
    eager.create_podgangs()
    eager.fill_references()
    is_bound(calm, PODS)
    is_bound(eager, PODS)
    # And the scaled gang, which waits for its base.
    calm.lift_gates(f"{calm.name}-{SCALED}")
    is_bound(calm, 2 * PODS)
