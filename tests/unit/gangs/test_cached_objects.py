"""The cached part of pods, workloads and gang objects in a reconciler, whatever their authors wrote."""

from __future__ import annotations

import secrets

import pytest

from tests.unit.cluster.hostile import SAMPLES, attacks
from tests.unit.cluster.scripted import Script, client
from tests.unit.gangs.kept_workloads import kept_workloads
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.backends.kube.groups import TREES
from webhook.cluster.watch import Index
from webhook.gangs.key import gang_of_object
from webhook.gangs.members import POD_BYTES
from webhook.gangs.pod_watches import GangPods
from webhook.gangs.stores import Store
from webhook.model import grove
from webhook.model.bounds import KEPT_BYTES, POD_GANG_BYTES, STORED_BYTES, Packed, weight
from webhook.model.projections import POD_GANGS, Projection, Resource
from webhook.model.reading import Manifest

OBJECT_BYTES = 1024 * 1024
SIZES = pytest.mark.parametrize(
    "is_largest",
    [False, pytest.param(True, marks=pytest.mark.exhaustive)],
    ids=["twice the limit", "a mebibyte"],
)
GANG_POD: Manifest = {
    "metadata": {
        "labels": {grove.LABEL_PODGANG: "demo-0", grove.LABEL_PODCLIQUE: "demo-0-a"},
        "annotations": {"example.com/a": "b", "rollcall.dev/stamp": "koord-scheduler/0"},
        "ownerReferences": [{"apiVersion": "a/v1", "kind": "PodClique", "name": "a", "uid": "u", "controller": True}],
    },
    "spec": {
        "schedulingGates": [{"name": "a"}],
        "containers": [{"name": "main"}],
        "schedulerName": "a",
        "resourceClaims": [{"name": "a"}],
    },
    "status": {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]
    },
}
# Kubernetes makes names up of these.
_SUFFIXES = "bcdfghjklmnpqrstvwxz2456789"
KOORDINATOR_GROUPS = Resource(POD_GROUP, "podgroups")


def store(resource: Resource) -> Store:
    return Store(client(Script()), resource, lambda _, __: None, gang_of_object)


def pods() -> Projection:
    ((_, watch),) = GangPods(client(Script()), lambda _: None).watches()
    return watch.index.projection


@SIZES
@pytest.mark.parametrize(
    ("projection", "sample", "most"),
    [
        pytest.param(pods(), GANG_POD, POD_BYTES, id="pods"),
        pytest.param(kept_workloads(), SAMPLES["pod_clique_sets"], STORED_BYTES, id="workloads"),
        pytest.param(
            store(KOORDINATOR_GROUPS).watch.index.projection,
            SAMPLES["koordinator_pod_groups"],
            STORED_BYTES,
            id="gang objects",
        ),
        pytest.param(
            store(POD_GANGS.resource).watch.index.projection, SAMPLES["pod_gangs"], POD_GANG_BYTES, id="PodGangs"
        ),
    ],
)
def test_hostile_objects_use_a_bounded_amount_of_memory_each(
    projection: Projection, sample: Manifest, most: int, *, is_largest: bool
) -> None:
    for number, attack in enumerate(attacks(sample, OBJECT_BYTES if is_largest else 2 * most)):
        index = Index(projection)
        index.put(attack.object(number))
        assert len(index.entries) + len(index.left_out) == 1
        assert weight(index.entries, 2 * most) < most + KEPT_BYTES, attack.field


@SIZES
def test_every_pod_is_cached_whatever_it_contains(*, is_largest: bool) -> None:
    for number, attack in enumerate(attacks(GANG_POD, OBJECT_BYTES if is_largest else 2 * POD_BYTES)):
        index = Index(pods())
        index.put(attack.object(number))
        assert len(index.entries) == 1, attack.field


def test_a_gang_of_thousands_of_pods_is_cached_completely() -> None:
    """The names of its pods differ by five characters that Kubernetes generates."""
    names = ["".join(secrets.choice(_SUFFIXES) for _ in range(5)) for _ in range(5000)]
    gang = {
        "metadata": {"name": "demo-0", "namespace": "team", "uid": "u"},
        "spec": {
            "podgroups": [
                {
                    "name": "demo-0-worker",
                    "minReplicas": 5000,
                    "podReferences": [{"namespace": "team", "name": f"demo-0-worker-{name}"} for name in names],
                }
            ]
        },
    }
    found = store(POD_GANGS.resource)
    found.put(gang)
    kept = found.watch.index.entries["team", "demo-0"]
    assert isinstance(kept, Packed)
    assert found.objects["team", "demo-0"]["spec"] == gang["spec"]


def test_a_small_object_is_cached_unchanged() -> None:
    found = store(KOORDINATOR_GROUPS)
    found.put({"metadata": {"name": "a", "namespace": "team"}, "spec": {"minMember": 2}})
    assert list(found.objects) == [("team", "a")]
    assert len(found.objects) == 1


def test_an_object_that_is_too_large_is_cached_with_its_key_and_owners() -> None:
    noise = secrets.token_hex(OBJECT_BYTES // 4)
    found = store(TREES[0].resource)
    controller = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}
    found.put(
        {
            "metadata": {
                "name": "a",
                "namespace": "team",
                "labels": {"app.kubernetes.io/managed-by": "x"},
                "annotations": {"a": noise},
                "ownerReferences": [controller],
            },
            "spec": {TREES[0].parent: "above", "noise": noise},
        }
    )
    assert found.objects["team", "a"]["metadata"] == {
        "name": "a",
        "namespace": "team",
        "labels": {"app.kubernetes.io/managed-by": "x"},
        "ownerReferences": [controller],
    }
    assert found.objects["team", "a"]["spec"] == {TREES[0].parent: "above"}


def test_a_pod_gang_that_is_too_large_is_not_treated_as_empty() -> None:
    noise = secrets.token_hex(OBJECT_BYTES // 2)
    found = store(POD_GANGS.resource)
    found.put({"metadata": {"name": "a", "namespace": "team"}, "spec": {"noise": noise, "podgroups": []}})
    assert ("team", "a") not in found.objects
    assert found.watch.index.left_out == {("team", "a")}
