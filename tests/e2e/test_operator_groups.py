"""The PodGroup that KubeRay writes for scheduler-plugins is stale after a scale, which check and doctor show."""

from __future__ import annotations

import asyncio
from itertools import count

import yaml

from tests.e2e.command import run_here
from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ADMIN, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers
from tests.e2e.opted_in_workloads import ray_cluster
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, deleted, found, listed, patched, read, until_pods
from webhook.cluster.access import find_access
from webhook.config.file import settings_from
from webhook.operations.diagnosis import examine
from webhook.operations.gang_checks import operator_group
from webhook.operations.snapshot_reader import read_world

RAY, GROUPS = "ray.io/v1", "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"


class Cluster:
    """A RayCluster of KubeRay, and the PodGroup of the same name."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        gang = {"ray.io/gang-scheduling-enabled": "true"}
        created(plane, ray_cluster("ray", namespace, 3, labels=gang))

    @property
    def stored(self) -> Manifest:
        return read(self.plane, RAY, "RayCluster", self.namespace, "ray")

    @property
    def group(self) -> Manifest | None:
        return found(self.plane, GROUPS, "PodGroup", self.namespace, "ray")

    @property
    def minimum(self) -> int | None:
        group = self.group
        return None if group is None else group["spec"]["minMember"]

    def scale(self, workers: int) -> None:
        """Change the number of workers, and wait for their pods."""
        (group,) = self.stored["spec"]["workerGroupSpecs"]
        counts = {"replicas": workers, "minReplicas": 0, "maxReplicas": 9}
        patched(self.plane, self.stored, {"spec": {"workerGroupSpecs": [{**group, **counts}]}})
        until_pods(self.plane, self.namespace, "ray.io/cluster", workers + 1)

    def check(self) -> str:
        """What `rollcall check` says of both objects."""
        assert self.group is not None
        return printed(self.stored, self.group)


def printed(*objects: Manifest) -> str:
    """What `rollcall check` says of objects, as kubectl prints them."""
    return run_here(
        "check", "-", stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    ).stdout


def doctor(plane: ControlPlane, namespace: str) -> list[str]:
    """What the doctor finds of the PodGroups in a namespace, and what to do."""
    access = find_access(plane.write_kubeconfig(ADMIN))
    snapshot = asyncio.run(read_world(settings_from(KOORDINATOR, "test"), access, ROLLCALL_NAMESPACE))
    diagnosis = examine(snapshot, [operator_group])
    assert diagnosis.not_known == []
    told = [one.symptom for one in diagnosis.problems if f" {namespace}/" in one.symptom.where]
    return [f"{one.where}: {one.observation}; {one.remedy}" for one in told]


def test_a_group_that_kuberay_does_not_update_is_found_until_it_is_made_again(
    plane: ControlPlane, controllers: Controllers, namespace: str
) -> None:
    """kuberay#5205: the PodGroup is written once."""
    controllers(plane, "kuberay", kuberay={"batch-scheduler": "scheduler-plugins"})
    cluster = Cluster(plane, namespace)
    until_pods(plane, namespace, "ray.io/cluster", 4)
    assert cluster.minimum == 4
    assert doctor(plane, namespace) == []
    assert "owner/operator-group" not in cluster.check()

    cluster.scale(5)
    assert cluster.minimum == 4
    remedy = "set it to 6, or delete the PodGroup if its operator then creates it again"
    assert doctor(plane, namespace) == [f"PodGroup {namespace}/ray: spec.minMember is 4; {remedy}"]
    assert "the gang of RayCluster ray needs 6 pods, and the scheduler starts 4 of them" in cluster.check()

    cluster.scale(1)
    assert cluster.minimum == 4
    assert "RayCluster ray has only 2 pods, so this minimum is never reached" in cluster.check()

    assert cluster.group is not None
    deleted(plane, cluster.group)
    turns = count()

    def made_again() -> bool:
        # KubeRay looks for it every five minutes, and after a change; its cache may still have the old one.
        patched(plane, cluster.stored, {"metadata": {"annotations": {"example.com/turn": str(next(turns))}}})
        return cluster.minimum == 2

    eventually(made_again, "KubeRay creates the group again", pause=0.5)
    assert doctor(plane, namespace) == []


def test_the_groups_that_kuberay_writes_for_volcano_are_as_the_shapes_say(
    plane: ControlPlane, controllers: Controllers, namespace: str
) -> None:
    """kuberay#4643: a minimum of 0 while the pods of a RayJob exist is found."""
    controllers(plane, "kuberay", kuberay={"batch-scheduler": "volcano"})
    plain = ray_cluster("plain", namespace, 2)
    scaled = ray_cluster("scaled", namespace, 3, enableInTreeAutoscaling=True)
    scaled["spec"]["workerGroupSpecs"][0]["minReplicas"] = 1
    job: Manifest = {"entrypoint": "python train.py", "rayClusterSpec": ray_cluster("", "", 4)["spec"]}
    created(plane, plain)
    created(plane, scaled)
    metadata = {"name": "train", "namespace": namespace}
    created(plane, {"apiVersion": RAY, "kind": "RayJob", "metadata": metadata, "spec": job})
    until_pods(plane, namespace, "ray.io/cluster", 3 + 4 + 5)
    groups = {one["metadata"]["name"]: one for one in listed(plane, VOLCANO, "PodGroup", namespace)}
    minimums = {name: group["spec"]["minMember"] for name, group in groups.items()}
    assert minimums == {"ray-plain-pg": 3, "ray-scaled-pg": 2, "ray-train-pg": 5}
    assert doctor(plane, namespace) == []

    of_job = {**groups["ray-train-pg"], "spec": {"minMember": 0}}
    every = [one for kind in ("RayJob", "RayCluster") for one in listed(plane, RAY, kind, namespace)]
    (made,) = [one["metadata"]["name"] for one in every if "ownerReferences" in one["metadata"]]
    assert f"the gang of RayCluster {made} needs 5 pods, and the scheduler starts each pod alone" in printed(
        *every, of_job
    )
