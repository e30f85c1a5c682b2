"""Pods that join the gang of another owner by the mark of its scheduler, on a real API server."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Reconcilers, Rollcall
from tests.e2e.gang_queues import kai_queue, set_state, volcano_queue
from tests.e2e.programs import eventually
from tests.e2e.workloads import two_cliques

PROFILES: tuple[Manifest, ...] = (
    {"name": "koord-scheduler"},
    {"name": "volcano", "config": {"defaultQueue": "strangers"}},
    {"name": "kai-scheduler", "config": {"defaultQueue": "strangers"}},
    {"name": "scheduler-plugins-scheduler"},
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
)
CONFIG = configuration_of(*PROFILES)


class Way(NamedTuple):
    """A way to join a group: the scheduler, the path of its groups, and where a pod names one."""

    scheduler: str
    groups: str
    part: str
    key: str

    def pod(self, namespace: str, group: str, owners: list[Manifest]) -> Manifest:
        """A pod that joins `group`."""
        metadata: Manifest = {"generateName": "stranger-", "namespace": namespace, "ownerReferences": owners}
        spec: Manifest = {
            "schedulerName": self.scheduler,
            "containers": [{"name": "main", "image": "registry.example.com/main:1.0"}],
        }
        if self.part == "spec":
            spec[self.key] = {"podGroupName": group}
        else:
            metadata[self.part] = {self.key: group}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


KOORDINATOR = "scheduling.sigs.k8s.io/v1alpha1"
VOLCANO, KAI = "scheduling.volcano.sh/v1beta1", "scheduling.run.ai/v2alpha2"
WAYS = {
    "koordinator/foreign-member by label": Way(
        "koord-scheduler", KOORDINATOR, "labels", "pod-group.scheduling.sigs.k8s.io"
    ),
    "koordinator/foreign-member by annotation": Way(
        "koord-scheduler", KOORDINATOR, "annotations", "gang.scheduling.koordinator.sh/name"
    ),
    "volcano/foreign-member by annotation": Way("volcano", VOLCANO, "annotations", "scheduling.k8s.io/group-name"),
    "kai/foreign-member by annotation": Way("kai-scheduler", KAI, "annotations", "pod-group-name"),
    "coscheduling/foreign-member by label": Way(
        "scheduler-plugins-scheduler", "scheduling.x-k8s.io/v1alpha1", "labels", "scheduling.x-k8s.io/pod-group"
    ),
    "kube/foreign-member by field": Way("default-scheduler", "scheduling.k8s.io/v1beta1", "spec", "schedulingGroup"),
}


def created(plane: ControlPlane, pod: Manifest, **parameters: str) -> tuple[int, str]:
    """The status and the warnings with which the API server answers the creation of a pod, or its message."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    answer = plane.http.post(path, json=pod, params=parameters)
    return answer.status_code, " ".join((*answer.headers.get_list("Warning"), answer.json().get("message", "")))


@pytest.mark.parametrize("named", WAYS)
def test_a_pod_that_joins_the_gang_of_another_owner_is_reported(
    named: str,
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    rule, way = named.split(maxsplit=1)[0], WAYS[named]
    for queue in (volcano_queue("strangers"), kai_queue("strangers")):
        plane.apply(queue, check=True)
    set_state(plane, "strangers", "Open")
    rollcall(plane, CONFIG)
    reconciler(CONFIG).until_leading()
    played = grove(two_cliques("demo", namespace, labels={"rollcall.dev/scheduler": way.scheduler})).create()

    def group() -> str | None:
        found = plane.items(f"/apis/{way.groups}/namespaces/{namespace}/podgroups")
        return next((one["metadata"]["name"] for one in found), None)

    name = eventually(group, "the gang has its group")
    # Its uid is in the group, where every tenant can read it.
    workload = played.workload["metadata"]
    forged = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "name": workload["name"],
        "uid": workload["uid"],
        "controller": True,
    }
    for owners in ([], [forged]):
        pod = way.pod(namespace, name, owners)

        def is_reported(pod: Manifest = pod) -> bool:
            status, said = created(plane, pod, dryRun="All")
            assert status == 201, said
            return rule in said

        # The group is known to the server once its watch has brought it.
        eventually(is_reported, "the stranger is reported")
    mine = way.pod(namespace, "mine", [])
    assert rule not in created(plane, mine, dryRun="All")[1]


def test_a_pod_that_joins_the_gang_of_another_owner_is_refused_where_the_rule_denies(
    plane: ControlPlane, rollcall: Rollcall, reconciler: Reconcilers, namespace: str, grove: Grove
) -> None:
    way = WAYS["koordinator/foreign-member by label"]
    config = configuration_of(
        {"name": "koord-scheduler", "enforcement": {"rules": {"koordinator/foreign-member": "deny"}}}
    )
    rollcall(plane, config)
    reconciler(config).until_leading()
    played = grove(two_cliques("demo", namespace)).create()
    path = f"/apis/{way.groups}/namespaces/{namespace}/podgroups/demo-0-worker"
    eventually(lambda: plane.http.get(path).status_code == 200, "the gang has its group")

    def is_refused() -> bool:
        status, said = created(plane, way.pod(namespace, "demo-0-worker", []))
        return status == 422 and "koordinator/foreign-member" in said

    eventually(is_refused, "the stranger is refused")
    assert len(played.pods()) == 3
