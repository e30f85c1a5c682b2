"""Gang objects for tests of trees, as manifests with the group and version of their API."""

from __future__ import annotations

from typing import Any

from webhook.offline.group_forest import GroupForest
from webhook.offline.satisfiability import Branch

Manifests = list[tuple[str, str, dict[str, Any]]]


def composite(name: str, minimum: int | None = None, parent: str | None = None) -> tuple[str, str, dict[str, Any]]:
    policy = {"basic": {}} if minimum is None else {"gang": {"minGroupCount": minimum}}
    spec = {"schedulingPolicy": policy, "parentCompositePodGroupName": parent}
    manifest = {"kind": "CompositePodGroup", "metadata": {"name": name, "namespace": "team-a"}, "spec": spec}
    return "scheduling.k8s.io", "v1alpha3", manifest


def group(name: str, minimum: int | None = None, parent: str | None = None) -> tuple[str, str, dict[str, Any]]:
    policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    spec = {"schedulingPolicy": policy, "parentCompositePodGroupName": parent}
    manifest = {"kind": "PodGroup", "metadata": {"name": name, "namespace": "team-a"}, "spec": spec}
    return "scheduling.k8s.io", "v1beta1", manifest


def pods(name: str, count: int) -> Manifests:
    spec = {"schedulingGroup": {"podGroupName": name}}
    metadata = {"generateName": f"{name}-", "namespace": "team-a"}
    return [("", "v1", {"kind": "Pod", "metadata": metadata, "spec": spec})] * count


def world_of(manifests: Manifests) -> GroupForest:
    world = GroupForest()
    for api_group, version, manifest in manifests:
        world.add(api_group, version, manifest)
    return world


def trees_of(manifests: Manifests) -> list[Branch]:
    return [tree for tree, _ in world_of(manifests).trees()]


def gang(name: str, minimum: int, groups: str | None = None) -> tuple[str, str, dict[str, Any]]:
    annotations = {} if groups is None else {"gang.scheduling.koordinator.sh/groups": groups}
    metadata = {"name": name, "namespace": "team-a", "annotations": annotations}
    manifest = {"kind": "PodGroup", "metadata": metadata, "spec": {"minMember": minimum}}
    return "scheduling.sigs.k8s.io", "v1alpha1", manifest


def gang_pods(name: str, count: int) -> Manifests:
    metadata = {"namespace": "team-a", "labels": {"pod-group.scheduling.sigs.k8s.io": name}}
    return [("", "v1", {"kind": "Pod", "metadata": metadata, "spec": {}})] * count
