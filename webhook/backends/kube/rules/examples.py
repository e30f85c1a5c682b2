"""Builders of the small Workloads, PodGroups, CompositePodGroups and pods that rules show as examples."""

from __future__ import annotations

from typing import Any

from webhook.backends.kube.facts import Membership
from webhook.backends.kube.generation import COMPOSITE, COMPOSITE_BETA, GROUP
from webhook.model.facts import ClusterFacts
from webhook.model.group_pods import GroupPod, GroupPods
from webhook.model.group_tree import Group, Groups, Workload
from webhook.model.keys import Api
from webhook.model.known_objects import PriorityClass, TopologyBinding
from webhook.model.reading import Manifest

ON = {"gangScheduling": True}
NAMESPACE = "default"
ALL: Manifest = {"disruptionMode": {"all": {}}}
BASIC: Manifest = {"schedulingPolicy": {"basic": {}}}


def pod_group(name: str = "worker", *, minimum: int = 2, version: str = "v1beta1", **spec: Any) -> Manifest:
    """A PodGroup; keywords go into its spec."""
    return _object("PodGroup", version, name, {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec})


def composite(name: str = "root", *, minimum: int = 1, template: str = "root", **spec: Any) -> Manifest:
    """A CompositePodGroup of the Workload `demo`; keywords go into its spec."""
    policy = {"gang": {"minGroupCount": minimum}}
    return _object("CompositePodGroup", "v1alpha3", name, {**made_from(template), "schedulingPolicy": policy, **spec})


def workload(*templates: Manifest, version: str = "v1beta1", **spec: Any) -> Manifest:
    """A Workload `demo` with these templates of CompositePodGroups; keywords go into its spec."""
    trees = {"compositePodGroupTemplates": list(templates)} if templates else {}
    return _object("Workload", version, "demo", {**trees, **spec})


def leaf(name: str = "worker", *, minimum: int = 2, **fields: Any) -> Manifest:
    """A template of a PodGroup."""
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": minimum}}, **fields}


def branch(name: str, *leaves: Manifest, minimum: int = 1, **fields: Any) -> Manifest:
    """A template of a CompositePodGroup with these templates below it."""
    policy = {"gang": {"minGroupCount": minimum}}
    return {"name": name, "schedulingPolicy": policy, "podGroupTemplates": list(leaves), **fields}


def member(group: str = "worker", **spec: Any) -> Manifest:
    """A pod of a PodGroup; keywords go into its spec."""
    return pod(schedulingGroup={"podGroupName": group}, **spec)


def pod(**spec: Any) -> Manifest:
    """A pod that is not Grove's."""
    body = {"containers": [{"name": "main", "image": "example.com/main"}], **spec}
    return _object("Pod", "", "worker-0", body) | {"apiVersion": "v1"}


def made_from(template: str, workload: str = "demo") -> Manifest:
    """The reference of a group to its template."""
    return {"workloadRef": {"workloadName": workload, "templateName": template}}


def child_of(parent: str, template: str = "worker") -> Manifest:
    """The field of a group that names its parent."""
    return {"parentCompositePodGroupName": parent, **made_from(template)}


def near(key: str) -> Manifest:
    """A topology constraint on that node label."""
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def _object(kind: str, version: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def root(template: str = "root", **fields: Any) -> Group:
    """The facts about a CompositePodGroup made from a template of `demo`."""
    return Group(**{"composite": True, "minimum": 1, "workload": "demo", "template": template, **fields})


def waiting(scheduler: str, group: str = "worker") -> GroupPod:
    """The facts about a pod of a PodGroup that waits for that scheduler."""
    return GroupPod((NAMESPACE, Membership(group)), scheduler)


def known(**parts: Any) -> ClusterFacts:
    """A cluster of 1.37, unless other `apis` are given, with these Workloads, groups and waiting pods by name, and no
    others; it has a topology, and priority classes unless others are given.
    """
    by_key = {
        part: {(NAMESPACE, name): found for name, found in parts.get(part, {}).items()}
        for part in ("workloads", "pod_groups", "composite_pod_groups", "group_pods")
    }
    return ClusterFacts(
        apis=parts.get("apis", _SERVED),
        workloads=by_key["workloads"],
        pod_groups=Groups(by_key["pod_groups"]),
        composite_pod_groups=Groups(by_key["composite_pod_groups"]),
        group_pods=GroupPods(by_key["group_pods"]),
        priority_classes=parts.get("priority_classes", _CLASSES),
        topology_bindings={"dc": TopologyBinding({"zone": ZONE, "rack": RACK})},
    )


_CLASSES = {"high": PriorityClass(1000, is_default=False), "low": PriorityClass(10, is_default=False)}
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
_SERVED = frozenset(
    {
        *(Api(GROUP, "v1beta1", kind) for kind in ("Workload", "PodGroup")),
        Api(GROUP, "v1alpha3", "CompositePodGroup"),
        Api(GROUP, "v1", "PriorityClass"),
    }
)
# What clusters serve that have no Workload API, PodGroups without trees, or trees.
NO_WORKLOADS = ClusterFacts(apis=frozenset({Api(GROUP, "v1", "PriorityClass")}))
FLAT = ClusterFacts(apis=frozenset(Api(GROUP, "v1alpha2", kind) for kind in ("Workload", "PodGroup")))
TREES = ClusterFacts(apis=_SERVED - {Api(GROUP, "v1", "PriorityClass")})
# What 1.38 serves.
OF_1_38 = ClusterFacts(apis=_SERVED - {COMPOSITE} | {COMPOSITE_BETA})
# A Workload with one tree: a root over `worker`.
TREE = Workload(
    {
        "root": Group(composite=True, minimum=1),
        "worker": Group(composite=False, minimum=2, parent="root"),
    }
)
