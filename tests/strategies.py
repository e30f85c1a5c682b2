"""Hypothesis strategies of our own tests: JSON, reviews and PodCliqueSets. Names and pods of gangs are drawn by the
conformance kit (`webhook.testing.strategies`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from webhook.testing.strategies import dns_labels, words
from webhook.validators.examples import clique, pod_clique_set, scaling_group

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53)
numbers = st.floats(allow_nan=False, allow_infinity=False)
# Keys that rules and views look for, so that broken values land where they are read.
_KEYS = st.sampled_from(
    [
        "metadata", "name", "namespace", "labels", "annotations", "spec", "template", "cliques", "podSpec",
        "containers", "initContainers", "resources", "requests", "limits", "nvidia.com/gpu", "cpu",
        "replicas", "minAvailable", "podCliqueScalingGroups", "cliqueNames",
        "topologyConstraint", "pack", "required", "preferred", "packDomain",
        "resourceClaims", "schedulerName", "schedulingGates", "priorityClassName", "priority", "deletionTimestamp",
        "grove.io/mnnvl-group", "rollcall.dev/scheduler", "koordinator.sh/qosClass", "grove.io/podgang",
        "grove.io/podclique", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "podgroups", "podReferences",
        "replicatedJobs", "dependsOn", "parallelism", "completions", "startupPolicy", "leaderWorkerTemplate", "size",
        "workerTemplate", "leaderTemplate", "runtimeRef", "runtimePatches", "trainer", "numNodes", "ownerReferences",
    ]
)  # fmt: skip
_VALUES = st.sampled_from(["grove-operator", "koord-scheduler", "demo", "LSR", "none", "enabled", "1500m", "0"])
json_values = st.recursive(
    scalars | numbers | words | _VALUES,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(_KEYS | words, below, max_size=6),
    max_leaves=30,
)
json_objects = st.dictionaries(_KEYS | words, json_values, max_size=8)


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """AdmissionReviews whose objects are anything."""
    kind = draw(
        st.sampled_from(
            [
                {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
                {"group": "", "version": "v1", "kind": "Pod"},
                {"group": "apps", "version": "v1", "kind": "Deployment"},
                {"group": "batch", "version": "v1", "kind": "Job"},
                {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
                {"group": "leaderworkerset.x-k8s.io", "version": "v1", "kind": "LeaderWorkerSet"},
                {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"},
            ]
        )
    )
    return {
        "apiVersion": draw(st.sampled_from(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])),
        "kind": "AdmissionReview",
        "request": {
            "uid": draw(st.uuids().map(str)),
            "kind": kind,
            "operation": draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"])),
            "namespace": draw(dns_labels),
            "object": draw(st.none() | json_objects),
            "oldObject": draw(st.none() | json_objects),
        },
    }


@st.composite
def pod_clique_sets(draw: st.DrawFn) -> dict[str, Any]:
    """PodCliqueSets that Grove would admit, some of which ask for what Koordinator cannot do."""
    names = draw(st.lists(dns_labels, min_size=1, max_size=4, unique=True))
    nvlink = st.dictionaries(st.just("grove.io/mnnvl-group"), st.sampled_from(["train", "none"]), max_size=1)
    topology = st.none() | st.sampled_from(["block", "host"]).map(lambda domain: {"pack": {"required": domain}})
    cliques = [
        clique(
            name,
            replicas=draw(st.integers(1, 5)),
            requests=draw(st.sampled_from([None, {"nvidia.com/gpu": "8"}])),
            annotations=draw(nvlink),
            topologyConstraint=draw(topology),
        )
        for name in names
    ]
    grouped = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    groups = [scaling_group("group", *grouped, topologyConstraint=draw(topology))] if grouped else []
    return pod_clique_set(*cliques, groups=groups, annotations=draw(nvlink))


# Trees of groups


class GroupWorld(NamedTuple):
    """Groups by name, as plain data: (parent, minimum), a minimum of None for one that is no gang; and how many pods
    name each PodGroup, None for a folder without pods.
    """

    composites: dict[str, tuple[str | None, int | None]]
    leaves: dict[str, tuple[str | None, int | None]]
    pods: dict[str, int] | None

    def manifests(self) -> list[tuple[str, str, dict[str, Any]]]:
        """API group, version and manifest of each object."""
        found = [
            ("scheduling.k8s.io", "v1alpha3", _group_manifest("CompositePodGroup", "minGroupCount", name, *said))
            for name, said in self.composites.items()
        ]
        found += [
            ("scheduling.k8s.io", "v1beta1", _group_manifest("PodGroup", "minCount", name, *said))
            for name, said in self.leaves.items()
        ]
        for name, count in (self.pods or {}).items():
            spec = {"parallelism": count, "template": {"spec": {"schedulingGroup": {"podGroupName": name}}}}
            found.append(("batch", "v1", {"kind": "Job", "metadata": {"name": name}, "spec": spec}))
        return found


def _group_manifest(kind: str, count: str, name: str, parent: str | None, minimum: int | None) -> dict[str, Any]:
    policy = {"basic": {}} if minimum is None else {"gang": {count: minimum}}
    spec = {"schedulingPolicy": policy} | ({} if parent is None else {"parentCompositePodGroupName": parent})
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


@st.composite
def group_worlds(draw: st.DrawFn, width: int = 8) -> GroupWorld:
    """Trees of up to four levels and `width` groups below each, some of them broken: a parent that is not there, a
    cycle, a level too many, a minimum above what there is.

    Groups of one level are drawn alike, and then a few of all are changed: a draw for each of 512 leaves would take
    long and say little.
    """
    composites: dict[str, tuple[str | None, int | None]] = {}
    level: list[str | None] = [None]
    minimums = st.none() | st.integers(1, 2)
    for depth in range(draw(st.integers(0, 3))):
        fan, minimum = (1 if depth == 0 else draw(st.integers(1, width))), draw(minimums)
        names = {f"{parent or 'c'}-{index}": parent for parent in level for index in range(fan)}
        composites |= {name: (parent, minimum) for name, parent in names.items()}
        level = list(names)
    fan, minimum = draw(st.integers(1, width)), draw(minimums)
    leaves = {f"{parent or 'l'}-p{index}": (parent, minimum) for parent in level for index in range(fan)}
    pods = draw(st.none() | st.integers(0, 2).map(lambda count: dict.fromkeys(leaves, count)))
    for _ in range(draw(st.integers(0, 5))):
        _change(draw, composites, leaves, pods)
    return GroupWorld(composites, leaves, pods)


def _change(
    draw: st.DrawFn,
    composites: dict[str, tuple[str | None, int | None]],
    leaves: dict[str, tuple[str | None, int | None]],
    pods: dict[str, int] | None,
) -> None:
    groups = draw(st.sampled_from([composites, leaves]))
    if not groups:
        return
    name = draw(st.sampled_from(sorted(groups)))
    parent, minimum = groups[name]
    what = draw(st.sampled_from(["minimum", "parent", "remove", "top", "deeper", "pods"]))
    if what == "minimum":
        groups[name] = parent, draw(st.none() | st.integers(1, 9))
    elif what == "parent" and composites:
        # Possibly itself, or one below it.
        groups[name] = draw(st.sampled_from(sorted(composites))), minimum
    elif what == "remove":
        del groups[name]
    elif what == "top":
        groups[name] = None, minimum
    elif what == "deeper":
        composites[f"{name}-above"] = parent, draw(st.sampled_from([None, 1]))
        groups[name] = f"{name}-above", minimum
    elif what == "pods" and pods:
        pods[draw(st.sampled_from(sorted(pods)))] = draw(st.integers(0, 9))
