"""`rollcall check` of what only a file can have: groups that no pod names, versions that no release serves, amounts
that are none, and objects that a peer's own webhook refuses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.unit.cli.conftest import Run

_MAIN = {"name": "main", "image": "example.com/main"}
# The API group and version of each system's PodGroup.
KAI, VOLCANO = "scheduling.run.ai/v2alpha2", "scheduling.volcano.sh/v1beta1"
KOORDINATOR, PLUGINS = "scheduling.sigs.k8s.io/v1alpha1", "scheduling.x-k8s.io/v1alpha1"
KUBERNETES = "scheduling.k8s.io/v1beta1"
TREE = {"profiles": [{"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}]}


class File(NamedTuple):
    """Objects of one file, and the findings of the rules about them: rule, field and value."""

    objects: tuple[dict[str, Any], ...]
    findings: frozenset[tuple[str, str, Any]] = frozenset()
    unjudged: frozenset[tuple[str, str]] = frozenset()
    scheduler: dict[str, Any] | None = None


def item(api: str, kind: str, name: str = "demo", *, namespace: str = "lab", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def group(api: str, name: str = "train", **spec: Any) -> dict[str, Any]:
    return item(api, "PodGroup", name, spec={"minMember": 1, **spec})


def pod(scheduler: str | None, name: str = "w0", *, namespace: str = "lab", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [_MAIN]} | ({"schedulerName": scheduler} if scheduler else {})
    return item("v1", "Pod", name, namespace=namespace, metadata=metadata, spec=spec)


def deployment(scheduler: str, **metadata: Any) -> dict[str, Any]:
    template = {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [_MAIN]}}
    return item("apps/v1", "Deployment", spec={"replicas": 2, "template": template})


def requesting(kind: str = "Pod", requests: Any = None, limits: Any = None, **spec: Any) -> dict[str, Any]:
    resources = {name: value for name, value in (("requests", requests), ("limits", limits)) if value is not None}
    body = {"containers": [{**_MAIN, "resources": resources}], **spec}
    if kind == "Pod":
        return item("v1", "Pod", spec=body)
    return item("ray.io/v1", kind, spec={"headGroupSpec": {"template": {"spec": body}}})


def placed(**annotations: str) -> dict[str, Any]:
    """A Job in a queue of Kueue with these annotations on its pods."""
    said = {f"kueue.x-k8s.io/podset-{name.replace('_', '-')}": value for name, value in annotations.items()}
    template = {"metadata": {"annotations": said}, "spec": {"restartPolicy": "Never", "containers": [_MAIN]}}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    return item("batch/v1", "Job", metadata={"labels": labels}, spec={"parallelism": 2, "template": template})


def workload(*templates: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return item(KUBERNETES, "Workload", spec={**({"podGroupTemplates": list(templates)} if templates else {}), **spec})


def leaf(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}, **fields}


def branch(name: str, *below: dict[str, Any], levels: int = 1) -> dict[str, Any]:
    policy = {"gang": {"minGroupCount": 1}}
    if levels > 1:
        inner = branch(f"{name}x", *below, levels=levels - 1)
        return {"name": name, "schedulingPolicy": policy, "compositePodGroupTemplates": [inner]}
    return {"name": name, "schedulingPolicy": policy, "podGroupTemplates": list(below)}


def one(rule: str, field: str, value: Any) -> frozenset[tuple[str, str, Any]]:
    return frozenset({(rule, field, value)})


def _label(key: str) -> str:
    return f"metadata.labels[{key}]"


_GANG_NAME, _GANG_MINIMUM = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"


def _gang(name: str, minimum: str = "2") -> dict[str, str]:
    return {_GANG_NAME: name, _GANG_MINIMUM: minimum}


GROUPS = {
    "pods beside a group of Volcano name none": File(
        (group(VOLCANO), pod("volcano")), one("groups/no-pods", "metadata.name", "train")
    ),
    "a Deployment beside a group of Koordinator names none": File(
        (group(KOORDINATOR), deployment("koord-scheduler")), one("groups/no-pods", "metadata.name", "train")
    ),
    "pods beside a group of the Workload API name none": File(
        (
            item(KUBERNETES, "PodGroup", "train", spec={"schedulingPolicy": {"gang": {"minCount": 2}}}),
            pod(None),
        ),
        one("groups/no-pods", "metadata.name", "train"),
    ),
    "a group alone": File((group(KAI),)),
    "a group beside pods of another scheduler": File((group(KAI), pod("volcano"))),
    "a group beside pods of another namespace": File((group(KAI), pod("kai-scheduler", namespace="other"))),
    "a group beside a workload whose gang Rollcall makes": File(
        (
            group(PLUGINS),
            item(
                "batch/v1",
                "Job",
                metadata={"labels": {"rollcall.dev/scheduler": "scheduler-plugins-scheduler"}},
                spec={"parallelism": 2, "template": {"spec": {"containers": [_MAIN]}}},
            ),
        )
    ),
    "a group that a controller made": File(
        (
            item(
                VOLCANO,
                "PodGroup",
                metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]},
                spec={"minMember": 2},
            ),
            pod("volcano"),
        )
    ),
    "a group of the Workload API that a pod names": File(
        (
            item(KUBERNETES, "PodGroup", "train", spec={"schedulingPolicy": {"gang": {"minCount": 1}}}),
            item("v1", "Pod", spec={"schedulingGroup": {"podGroupName": "train"}, "containers": [_MAIN]}),
        )
    ),
    "a label of scheduler-plugins with Volcano": File(
        (pod("volcano", labels={"scheduling.x-k8s.io/pod-group": "train"}),),
        one("groups/unread-key", _label("scheduling.x-k8s.io/pod-group"), "train"),
    ),
    "an annotation of KAI without a scheduler": File(
        (pod(None, annotations={"pod-group-name": "train"}),),
        one("groups/unread-key", "metadata.annotations.pod-group-name", "train"),
    ),
    "a key that nobody reads with the name of a group": File(
        (group(VOLCANO), pod("volcano", labels={"example.com/group": "train"})),
        frozenset(
            {
                ("groups/no-pods", "metadata.name", "train"),
                ("groups/unread-key", _label("example.com/group"), "train"),
            }
        ),
    ),
    "two marks, of which one is read": File(
        (
            group(VOLCANO),
            pod(
                "volcano",
                labels={"scheduling.x-k8s.io/pod-group": "train"},
                annotations={"scheduling.k8s.io/group-name": "train"},
            ),
        )
    ),
    "a scheduler with a name of its own": File((pod("team-scheduler", annotations={"pod-group-name": "train"}),)),
    "a misspelt group": File(
        (group(KAI), pod("kai-scheduler", annotations={"pod-group-name": "trian"})),
        one("groups/missing", "metadata.annotations.pod-group-name", "trian"),
    ),
    "a group of another namespace": File(
        (
            group(PLUGINS),
            item(PLUGINS, "PodGroup", "other", namespace="other", spec={"minMember": 1}),
            pod("scheduler-plugins-scheduler", labels={"scheduling.x-k8s.io/pod-group": "train"}),
            pod("scheduler-plugins-scheduler", "w1", labels={"scheduling.x-k8s.io/pod-group": "other"}),
        ),
        one("groups/missing", _label("scheduling.x-k8s.io/pod-group"), "other"),
    ),
    "a group of KAI in a namespace of which nothing is known": File(
        (group(KAI), pod("kai-scheduler", namespace="other", annotations={"pod-group-name": "train"})),
        unjudged=frozenset({("groups/missing", "metadata.annotations.pod-group-name")}),
    ),
    "a group of Volcano in a namespace of which nothing is known": File(
        (group(VOLCANO), pod("volcano", namespace="other", annotations={"scheduling.k8s.io/group-name": "train"})),
        unjudged=frozenset({("groups/missing", "metadata.annotations[scheduling.k8s.io/group-name]")}),
    ),
    "a group of Koordinator in a namespace of which nothing is known": File(
        (
            item(KOORDINATOR, "PodGroup", namespace="other", spec={"minMember": 1}),
            deployment("koord-scheduler", labels={"pod-group.scheduling.sigs.k8s.io": "train"}),
        ),
        unjudged=frozenset({("groups/missing", f"spec.template.{_label('pod-group.scheduling.sigs.k8s.io')}")}),
    ),
    "a group of which nothing is known": File(
        (deployment("volcano", annotations={"scheduling.k8s.io/group-name": "train"}),),
        unjudged=frozenset({("groups/missing", "spec.template.metadata.annotations[scheduling.k8s.io/group-name]")}),
    ),
    "pods that describe a gang of Koordinator themselves": File(
        (
            deployment(
                "koord-scheduler",
                annotations={
                    "gang.scheduling.koordinator.sh/name": "train",
                    "gang.scheduling.koordinator.sh/min-available": "2",
                },
            ),
        )
    ),
    "a gang that pods describe is no PodGroup of another scheduler": File(
        (group(VOLCANO), *(pod("koord-scheduler", name, annotations=_gang("train")) for name in ("w0", "w1"))),
    ),
    "a gang of a Deployment whose minimum a Pod states": File(
        (
            deployment("koord-scheduler", annotations={_GANG_NAME: "train"}),
            pod("koord-scheduler", annotations=_gang("train")),
            item(KOORDINATOR, "PodGroup", "other", spec={"minMember": 1}),
        )
    ),
    "a gang of which no pod states the minimum": File(
        (
            deployment("koord-scheduler", annotations={_GANG_NAME: "train"}),
            item(KOORDINATOR, "PodGroup", "other", spec={"minMember": 1}),
        ),
        one("groups/missing", f"spec.template.metadata.annotations[{_GANG_NAME}]", "train"),
    ),
    "a gang that a PodGroup elsewhere may describe": File(
        (deployment("koord-scheduler", annotations={_GANG_NAME: "train", _GANG_MINIMUM: "two"}),),
        unjudged=frozenset({("groups/missing", f"spec.template.metadata.annotations[{_GANG_NAME}]")}),
    ),
    "a gang whose minimum is above its pods": File(
        (deployment("koord-scheduler", annotations=_gang("train", "+3")),),
        one("groups/minimum", f"spec.template.metadata.annotations[{_GANG_MINIMUM}]", "+3"),
    ),
    "a gang by the older labels whose minimum is above its pods": File(
        (
            pod(
                "koord-scheduler",
                labels={
                    "pod-group.scheduling.sigs.k8s.io/name": "train",
                    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
                },
            ),
        ),
        one("groups/minimum", _label("pod-group.scheduling.sigs.k8s.io/min-available"), "2"),
    ),
    "a gang of two Deployments": File(
        tuple(
            item(
                "apps/v1",
                "Deployment",
                name,
                spec={
                    "replicas": 2,
                    "template": {
                        "metadata": {"annotations": _gang("train", "4")},
                        "spec": {"schedulerName": "koord-scheduler", "containers": [_MAIN]},
                    },
                },
            )
            for name in ("leader", "worker")
        )
    ),
    "a gang whose pods state different minimums": File(
        tuple(pod("koord-scheduler", f"w{least}", annotations=_gang("train", least)) for least in ("3", "4"))
    ),
    "a gang whose PodGroup states the minimum": File(
        (
            pod("koord-scheduler", annotations=_gang("train", "3")),
            item(KOORDINATOR, "PodGroup", "train", spec={"minMember": 1}),
        )
    ),
    "a gang of pods that an autoscaler counts": File(
        (
            deployment("koord-scheduler", annotations=_gang("train", "3")),
            item(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}},
            ),
        )
    ),
    "a gang that Volcano is to place": File(
        (deployment("volcano", annotations=_gang("train", "3")),),
        one("groups/unread-key", f"spec.template.metadata.annotations[{_GANG_NAME}]", "train"),
    ),
    "KAI's annotation as a label": File(
        (group(KAI), pod("kai-scheduler", labels={"pod-group-name": "train"})),
        frozenset(
            {
                ("groups/no-pods", "metadata.name", "train"),
                ("keys/misplaced", "metadata.labels.pod-group-name", "train"),
            }
        ),
    ),
    "Volcano's annotation as a label of a Deployment's pods": File(
        (group(VOLCANO), deployment("volcano", labels={"scheduling.k8s.io/group-name": "train"})),
        frozenset(
            {
                ("groups/no-pods", "metadata.name", "train"),
                ("keys/misplaced", f"spec.template.{_label('scheduling.k8s.io/group-name')}", "train"),
            }
        ),
    ),
    "Koordinator's label as an annotation": File(
        (group(KOORDINATOR), pod("koord-scheduler", annotations={"pod-group.scheduling.sigs.k8s.io": "train"})),
        frozenset(
            {
                ("groups/no-pods", "metadata.name", "train"),
                ("keys/misplaced", "metadata.annotations[pod-group.scheduling.sigs.k8s.io]", "train"),
            }
        ),
    ),
    "a misspelt gang scheduler": File(
        (pod("koord-schedular"),), one("groups/scheduler-name", "spec.schedulerName", "koord-schedular")
    ),
    "a misspelt gang scheduler of a Deployment": File(
        (deployment("volcnao"),), one("groups/scheduler-name", "spec.template.spec.schedulerName", "volcnao")
    ),
    "a misspelt gang scheduler of a Volcano Job": File(
        (
            item(
                "batch.volcano.sh/v1alpha1",
                "Job",
                spec={"schedulerName": "volcanno", "tasks": [{"replicas": 2, "template": {"spec": {}}}]},
            ),
        ),
        one("groups/scheduler-name", "spec.schedulerName", "volcanno"),
    ),
    "a misspelt gang scheduler of a CronJob": File(
        (
            item(
                "batch/v1",
                "CronJob",
                spec={
                    "jobTemplate": {
                        "spec": {"template": {"spec": {"schedulerName": "kai-schedular", "containers": [_MAIN]}}}
                    }
                },
            ),
        ),
        one("groups/scheduler-name", "spec.jobTemplate.spec.template.spec.schedulerName", "kai-schedular"),
    ),
    "a misspelt batch scheduler of Spark": File(
        (item("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec={"batchScheduler": "volcanoo"}),),
        one("groups/scheduler-name", "spec.batchScheduler", "volcanoo"),
    ),
    "a batch scheduler of Spark": File(
        (item("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec={"batchScheduler": "kube-scheduler"}),)
    ),
    "a second Volcano": File((pod("volcano-2"), pod("volcano2", "w1"), pod("volcano-oo", "w2"))),
    "the name of Volcano's program": File(
        (pod("volcano-scheduler"),), one("groups/scheduler-name", "spec.schedulerName", "volcano-scheduler")
    ),
    "a label of a Deployment instead of its pods": File(
        (
            item(
                "apps/v1",
                "Deployment",
                metadata={"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
                spec={"template": {"spec": {"schedulerName": "scheduler-plugins-scheduler", "containers": [_MAIN]}}},
            ),
        ),
        one("groups/unread-key", _label("scheduling.x-k8s.io/pod-group"), "train"),
    ),
    "a group of the scheduler that the pods do not name": File(
        (group(PLUGINS), pod("koord-scheduler", labels={"pod-group.scheduling.sigs.k8s.io": "train"})),
        one("groups/missing", _label("pod-group.scheduling.sigs.k8s.io"), "train"),
    ),
    "schedulers of other names": File(
        tuple(
            pod(name, f"w{index}")
            for index, name in enumerate(("gpu-scheduler", "volcano-2", "my-scheduler", "koord-scheduler-dev", "v"))
        )
    ),
}


def _served(api: str, kind: str, **fields: Any) -> dict[str, Any]:
    return item(api, kind, **{"spec": {}, **fields})


VERSIONS = {
    "a version that never was": File(
        (_served("leaderworkerset.x-k8s.io/v2", "LeaderWorkerSet"),),
        one("kinds/version", "apiVersion", "leaderworkerset.x-k8s.io/v2"),
    ),
    "a version that Kueue v0.19 serves and v0.20 does not": File(
        (_served("kueue.x-k8s.io/v1beta1", "LocalQueue", spec={"clusterQueue": "a"}),),
        one("kinds/version", "apiVersion", "kueue.x-k8s.io/v1beta1"),
    ),
    "a version that no Kueue serves": File(
        (_served("kueue.x-k8s.io/v1beta7", "LocalQueue", spec={"clusterQueue": "a"}),),
        one("kinds/version", "apiVersion", "kueue.x-k8s.io/v1beta7"),
    ),
    "a group that Kubernetes retired": File(
        (_served("extensions/v1beta1", "Deployment"),), one("kinds/version", "apiVersion", "extensions/v1beta1")
    ),
    "a set of Grove in a version to come": File(
        (
            item(
                "grove.io/v1",
                "PodCliqueSet",
                spec={
                    "replicas": 1,
                    "template": {
                        "cliques": [
                            {
                                "name": "a",
                                "spec": {
                                    "roleName": "a",
                                    "replicas": 1,
                                    "minAvailable": 1,
                                    "podSpec": {"containers": [_MAIN]},
                                },
                            }
                        ]
                    },
                },
            ),
        ),
        one("kinds/version", "apiVersion", "grove.io/v1"),
    ),
    "versions that are served": File(
        (
            _served("ray.io/v1alpha1", "RayService"),
            _served("kubeflow.org/v1", "MPIJob", spec={"mpiReplicaSpecs": {}}),
            item(KUBERNETES, "PodGroup", spec={"schedulingPolicy": {"basic": {}}}),
        )
    ),
    "a generation that the profile does not have": File(
        (item("scheduling.k8s.io/v1alpha2", "PodGroup", spec={"schedulingPolicy": {"basic": {}}}),),
        one("kube/group-version", "apiVersion", "scheduling.k8s.io/v1alpha2"),
        scheduler=TREE,
    ),
}
_HEAD = "spec.headGroupSpec.template.spec.containers[0].resources"
_POD = "spec.containers[0].resources"
AMOUNTS = {
    "a quota with more at least than at most": File(
        (_served(KOORDINATOR, "ElasticQuota", spec={"min": {"cpu": 3, "memory": "1Gi"}, "max": {"cpu": "2500m"}}),),
        one("resources/quota-range", "spec.min.cpu", 3) | one("resources/quota-range", "spec.min.memory", "1Gi"),
    ),
    "a quota in order": File((_served(KOORDINATOR, "ElasticQuota", spec={"min": {"cpu": 2}, "max": {"cpu": 2}}),)),
    "a unit that Kubernetes does not have": File(
        (requesting("RayCluster", {"memory": "10 GB"}),),
        one("resources/quantity", f"{_HEAD}.requests.memory", "10 GB"),
    ),
    "a negative amount": File(
        (requesting(requests={"cpu": -1}),), one("resources/quantity", f"{_POD}.requests.cpu", -1)
    ),
    "a fraction of a byte": File(
        (requesting(limits={"memory": "128m"}),), one("resources/quantity", f"{_POD}.limits.memory", "128m")
    ),
    "a part of a device": File(
        (requesting("RayCluster", limits={"nvidia.com/gpu": "500m"}),),
        one("resources/request", f"{_HEAD}.limits[nvidia.com/gpu]", "500m"),
    ),
    "a resource without a prefix": File(
        (requesting(limits={"gpu": 1}),), one("resources/request", f"{_POD}.limits.gpu", 1)
    ),
    "a request above its limit": File(
        (requesting(requests={"cpu": "2"}, limits={"cpu": "1500m"}),),
        one("resources/request", f"{_POD}.requests.cpu", "2"),
    ),
    "fewer devices than the limit": File(
        (requesting(requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": "2"}),),
        one("resources/request", f"{_POD}.requests[nvidia.com/gpu]", 1),
    ),
    "devices of the whole pod": File(
        (requesting(resources={"limits": {"amd.com/gpu": 1}}),),
        one("resources/request", "spec.resources.limits[amd.com/gpu]", 1),
    ),
    "a queue of Volcano": File(
        (_served(VOLCANO, "Queue", spec={"capability": {"cpu": "ten", "memory": "4Gib"}}),),
        frozenset(
            {
                ("resources/quantity", "spec.capability.cpu", "ten"),
                ("resources/quantity", "spec.capability.memory", "4Gib"),
            }
        ),
    ),
    "an ElasticQuota": File(
        (_served(KOORDINATOR, "ElasticQuota", spec={"max": {"cpu": "10x"}}),),
        one("resources/quantity", "spec.max.cpu", "10x"),
    ),
    "a TrainJob": File(
        (
            item(
                "trainer.kubeflow.org/v1alpha1",
                "TrainJob",
                spec={
                    "runtimeRef": {"name": "torch-distributed"},
                    "trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 0.5, "memory": "1GB"}}},
                },
            ),
        ),
        frozenset(
            {
                ("resources/request", "spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]", 0.5),
                ("resources/quantity", "spec.trainer.resourcesPerNode.limits.memory", "1GB"),
            }
        ),
    ),
    "a LimitRange and a ClusterQueue": File(
        (
            _served("v1", "LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1 core"}}]}),
            _served(
                "kueue.x-k8s.io/v1beta2",
                "ClusterQueue",
                spec={
                    "resourceGroups": [
                        {
                            "coveredResources": ["cpu"],
                            "flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": "10cores"}]}],
                        }
                    ]
                },
            ),
        ),
        frozenset(
            {
                ("resources/quantity", "spec.limits[0].default.cpu", "1 core"),
                (
                    "resources/quantity",
                    "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
                    "10cores",
                ),
            }
        ),
    ),
    "amounts as Kubernetes reads them": File(
        (
            requesting(
                requests={"cpu": 0.5, "memory": "1e9", "ephemeral-storage": "1.5Gi", "hugepages-2Mi": "4Mi"},
                limits={"cpu": "+1", "memory": "1e9", "nvidia.com/gpu": "8", "kubernetes.io/batch-cpu": "500"},
            ),
        )
    ),
    "amounts of other kinds": File(
        (_served("nvidia.com/v1beta1", "DynamoGraphDeployment", spec={"resources": {"limits": {"custom": {"a": 1}}}}),)
    ),
    "a template that is not rendered": File((requesting(requests={"cpu": "${CPU}", "memory": "{{ .memory }}"}),)),
}


def _subgroups(*subgroups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return item(KAI, "PodGroup", spec={"queue": "team", "subGroups": list(subgroups), **spec})


_ANNOTATION = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-{}]"
_RACK = "example.com/rack"
PEERS = {
    "a minimum of pods and of groups": File(
        (_subgroups({"name": "a", "minMember": 1}, minMember=4, minSubGroup=1),),
        one("kai/group-structure", "spec.minMember", 4),
    ),
    "two subgroups of one name": File(
        (_subgroups({"name": "a", "minMember": 1}, {"name": "a", "minMember": 2}),),
        one("kai/group-structure", "spec.subGroups[1].name", "a"),
    ),
    "a leaf without a minimum": File(
        (_subgroups({"name": "a", "minMember": 1}, {"name": "b"}),),
        one("kai/group-structure", "spec.subGroups[1].minMember", None),
    ),
    "a leaf that counts groups": File(
        (_subgroups({"name": "a", "minMember": 1}, {"name": "b", "minSubGroup": 1}),),
        one("kai/group-structure", "spec.subGroups[1].minSubGroup", 1),
    ),
    "a set that counts pods": File(
        (_subgroups({"name": "a", "minMember": 2}, {"name": "b", "parent": "a", "minMember": 1}),),
        one("kai/set-minimum", "spec.subGroups[0].minMember", 2),
    ),
    "a set with minimums of pods and of groups": File(
        (
            _subgroups(
                {"name": "a", "minMember": 2, "minSubGroup": 1},
                {"name": "b", "parent": "a", "minMember": 1},
                {"name": "c", "parent": "a", "minMember": 1},
            ),
        ),
        one("kai/group-structure", "spec.subGroups[0].minMember", 2),
    ),
    "the only leaf without a minimum": File(
        (_subgroups({"name": "a"}),),
        one("kai/group-structure", "spec.subGroups[0].minMember", None),
    ),
    "a leaf of 0 pods beside one without a minimum": File(
        (_subgroups({"name": "a", "minMember": 0}, {"name": "b"}),),
        one("kai/group-structure", "spec.subGroups[1].minMember", None),
    ),
    "leaves of 0 pods": File(
        (_subgroups({"name": "a", "minMember": 0}, {"name": "b", "minMember": 0}),),
        one("kai/group-without-minimum", "spec.subGroups[0].minMember", 0),
    ),
    "a parent that is missing": File(
        (_subgroups({"name": "b", "parent": "a", "minMember": 1}),),
        one("kai/group-parent", "spec.subGroups[0].parent", "a"),
    ),
    "a tree of KAI": File((_subgroups({"name": "a"}, {"name": "b", "parent": "a", "minMember": 1}),)),
    "two tiers of a soft topology": File(
        (group(VOLCANO, networkTopology={"mode": "soft", "highestTierAllowed": 1, "highestTierName": "rack"}),),
        one("volcano/group-two-tiers", "spec.networkTopology.highestTierName", "rack"),
    ),
    "two tiers of a subgroup": File(
        (
            group(
                VOLCANO,
                subGroupPolicy=[
                    {
                        "name": "a",
                        "minSubGroups": 1,
                        "subGroupSize": 1,
                        "matchLabelKeys": ["role"],
                        "networkTopology": {"mode": "soft", "highestTierAllowed": 1, "highestTierName": "rack"},
                    }
                ],
            ),
        ),
        one("volcano/group-two-tiers", "spec.subGroupPolicy[0].networkTopology.highestTierName", "rack"),
    ),
    "a minimum of coscheduling below 1": File(
        (group(PLUGINS, minMember=-1),), one("coscheduling/group-minimum", "spec.minMember", -1)
    ),
    "no minimum of coscheduling": File(
        (item(PLUGINS, "PodGroup", spec={}),), one("coscheduling/group-minimum", "spec.minMember", None)
    ),
    "a topology of Kueue that is no label key": File(
        (placed(required_topology="a b"),), one("kueue/topology-keys", _ANNOTATION.format("required-topology"), "a b")
    ),
    "slices of Kueue without a size": File(
        (placed(slice_required_topology=_RACK),),
        one("kueue/topology-keys", _ANNOTATION.format("slice-size"), None),
    ),
    "layers of Kueue that do not divide": File(
        (
            placed(
                slice_required_topology_constraints='[{"topology": "a", "size": 4}, {"topology": "b", "size": 3}]',
            ),
        ),
        one(
            "kueue/topology-keys",
            _ANNOTATION.format("slice-required-topology-constraints"),
            '[{"topology": "a", "size": 4}, {"topology": "b", "size": 3}]',
        ),
    ),
    "a group of pod sets without a topology": File(
        (placed(group_name="all"),), one("kueue/topology-keys", _ANNOTATION.format("group-name"), "all")
    ),
    "topologies that Kueue takes": File(
        (
            placed(required_topology=_RACK, slice_required_topology="kubernetes.io/hostname", slice_size="2"),
            placed(preferred_topology=_RACK, group_name="all"),
            placed(unconstrained_topology="true"),
        )
    ),
    "values that no group can have": File(
        (
            workload(
                {
                    **leaf("A_b"),
                    "priority": 1_000_000_001,
                    "preemptionPolicy": "Sometimes",
                    "schedulingConstraints": {"topology": [{"key": "Example.com/x"}]},
                    "resourceClaims": [{"name": "a/b", "resourceClaimName": "a"}],
                }
            ),
        ),
        frozenset(
            ("kube/group-shape", f"spec.podGroupTemplates[0].{field}", value)
            for field, value in (
                ("name", "A_b"),
                ("priority", 1_000_000_001),
                ("preemptionPolicy", "Sometimes"),
                ("schedulingConstraints.topology[0].key", "Example.com/x"),
                ("resourceClaims[0].name", "a/b"),
            )
        ),
        scheduler=TREE,
    ),
    "a group below a composite without a Workload": File(
        (
            item(
                KUBERNETES,
                "PodGroup",
                spec={"parentCompositePodGroupName": "above", "schedulingPolicy": {"basic": {}}},
            ),
        ),
        one("kube/group-shape", "spec.workloadRef", None),
        scheduler=TREE,
    ),
    "no policy": File(
        (item(KUBERNETES, "PodGroup", spec={}),), one("kube/group-shape", "spec.schedulingPolicy", None), scheduler=TREE
    ),
    "a minimum of 0": File(
        (workload({**leaf("a"), "schedulingPolicy": {"gang": {"minCount": 0}}}),),
        one("kube/group-shape", "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount", 0),
        scheduler=TREE,
    ),
    "priorities that differ": File(
        (workload(leaf("a", priorityClassName="high"), leaf("b", priorityClassName="low")),),
        one("kube/group-shape", "spec.podGroupTemplates[1].priorityClassName", "low"),
        scheduler=TREE,
    ),
    "nine templates": File(
        (workload(*(leaf(f"a{number}") for number in range(9))),),
        one("kube/group-shape", "spec.podGroupTemplates", 9),
        scheduler=TREE,
    ),
    "two templates of one name": File(
        (workload(leaf("a"), leaf("a")),),
        one("kube/group-shape", "spec.podGroupTemplates[1].name", "a"),
        scheduler=TREE,
    ),
    "five levels": File(
        (workload(compositePodGroupTemplates=[branch("a", leaf("b"), levels=4)]),),
        one(
            "kube/group-shape",
            "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].compositePodGroupTemplates[0]."
            "compositePodGroupTemplates[0].podGroupTemplates[0]",
            "b",
        ),
        scheduler=TREE,
    ),
    "four levels": File((workload(compositePodGroupTemplates=[branch("a", leaf("b"), levels=3)]),), scheduler=TREE),
    "no templates": File((workload(),), one("kube/group-shape", "spec.podGroupTemplates", None), scheduler=TREE),
}


def _on_koordinator(**amounts: Any) -> dict[str, Any]:
    requests = {f"koordinator.sh/{name.replace('_', '-')}": value for name, value in amounts.items()}
    shared = {key.replace("gpu-shared", "gpu.shared"): value for key, value in requests.items()}
    template = {
        "spec": {"schedulerName": "koord-scheduler", "containers": [{**_MAIN, "resources": {"requests": shared}}]}
    }
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    return item("batch/v1", "Job", metadata={"labels": labels}, spec={"parallelism": 2, "template": template})


_SHARE = "spec.template.spec.containers[0].resources.requests[koordinator.sh/{}]"
PEERS |= {
    "one and a half GPUs of Koordinator": File(
        (_on_koordinator(gpu="150"),), one("koordinator/owner-gpu-share", _SHARE.format("gpu"), "150")
    ),
    "shared GPUs without a share": File(
        (_on_koordinator(gpu_shared="2"),), one("koordinator/owner-gpu-share", _SHARE.format("gpu.shared"), "2")
    ),
    "shared GPUs with two shares": File(
        (_on_koordinator(gpu_shared="1", gpu_memory="8Gi", gpu_memory_ratio="50"),),
        one("koordinator/owner-gpu-share", _SHARE.format("gpu-memory-ratio"), "50"),
    ),
    "a share that no number of GPUs divides": File(
        (_on_koordinator(gpu_shared="2", gpu_memory_ratio="101"),),
        one("koordinator/owner-gpu-share", _SHARE.format("gpu-memory-ratio"), "101"),
    ),
    "shares that Koordinator takes": File((_on_koordinator(gpu_shared="2", gpu_memory_ratio="100", gpu_core="100"),)),
}
KEYS = {
    "KAI's old label of a queue": File(
        (pod("kai-scheduler", labels={"runai/queue": "a"}),), one("keys/unknown", _label("runai/queue"), "a")
    ),
    "a key of Koordinator's documents on a Deployment": File(
        (deployment("koord-scheduler", annotations={"gang.scheduling.koordinator.sh/gang-groups": "[]"}),),
        one(
            "keys/unknown",
            "spec.template.metadata.annotations[gang.scheduling.koordinator.sh/gang-groups]",
            "[]",
        ),
    ),
    "a responder to evictions": File(
        (item("v1", "Pod", spec={"containers": [_MAIN], "evictionResponders": [{"name": "a"}]}),)
    ),
    "a field of a Volcano Job's pods": File(
        (
            item(
                "batch.volcano.sh/v1alpha1",
                "Job",
                spec={
                    "minAvailable": 1,
                    "tasks": [
                        {
                            "name": "a",
                            "replicas": 1,
                            "template": {"spec": {"containers": [_MAIN], "priorityClass": "high"}},
                        }
                    ],
                },
            ),
        ),
        one("fields/unknown", "spec.tasks[0].template.spec.priorityClass", "high"),
    ),
}
VALUES: dict[str, File] = {
    "a mode that Volcano lacks": File(
        (group(VOLCANO, networkTopology={"mode": "strict", "highestTierAllowed": 2}),),
        one("volcano/group-topology-mode", "spec.networkTopology.mode", "strict"),
    ),
    "the mode of a subgroup": File(
        (group(VOLCANO, subGroupPolicy=[{"name": "a", "networkTopology": {"mode": "Hard"}}]),),
        one("volcano/group-topology-mode", "spec.subGroupPolicy[0].networkTopology.mode", "Hard"),
    ),
    "a soft mode": File((group(VOLCANO, networkTopology={"mode": "soft"}),)),
    "a KAI Queue without resources": File(
        (item("scheduling.run.ai/v2", "Queue", spec={"priority": 1}),),
        one("kai/queue-resources", "spec.resources", None),
    ),
    "a Queue without weight": File(
        (item(VOLCANO, "Queue", spec={"weight": 0}),), one("volcano/queue-weight", "spec.weight", 0)
    ),
    "a Queue of negative weight": File(
        (item(VOLCANO, "Queue", spec={"weight": -1}),), one("volcano/queue-weight", "spec.weight", -1)
    ),
    "a Queue with the default weight": File((item(VOLCANO, "Queue", spec={}),)),
    "a Queue that deserves less than its guarantee": File(
        (item(VOLCANO, "Queue", spec={"guarantee": {"resource": {"cpu": 4}}, "deserved": {"cpu": "3500m"}}),),
        one("volcano/queue-amounts", "spec.deserved.cpu", "3500m"),
    ),
    "a Queue that deserves nothing of its guarantee": File(
        (item(VOLCANO, "Queue", spec={"guarantee": {"resource": {"cpu": 4}}}),),
        one("volcano/queue-amounts", "spec.deserved.cpu", None),
    ),
    "a Queue that deserves more than its capability": File(
        (item(VOLCANO, "Queue", spec={"capability": {"cpu": 2}, "deserved": {"cpu": 3, "memory": "1Gi"}}),),
        one("volcano/queue-amounts", "spec.deserved.cpu", 3),
    ),
    "a Queue above its parent": File(
        (
            item(
                VOLCANO,
                "Queue",
                "top",
                spec={"capability": {"cpu": 4}, "guarantee": {"resource": {"cpu": 1}}, "deserved": {"cpu": 4}},
            ),
            item(VOLCANO, "Queue", "middle", spec={"parent": "top"}),
            item(VOLCANO, "Queue", spec={"parent": "middle", "capability": {"cpu": "4500m", "memory": "9Gi"}}),
            item(
                VOLCANO,
                "Queue",
                "second",
                spec={"parent": "top", "guarantee": {"resource": {"cpu": 2}}, "deserved": {"cpu": 2}},
            ),
        ),
        one("volcano/queue-share", "spec.capability.cpu", "4500m")
        | one("volcano/queue-share", "spec.guarantee.resource.cpu", 2),
    ),
    "a Queue whose amounts are in order": File(
        (
            item(
                VOLCANO,
                "Queue",
                spec={"guarantee": {"resource": {"cpu": 1}}, "deserved": {"cpu": "1000m"}, "capability": {"cpu": 1}},
            ),
        )
    ),
}
FILES = {**GROUPS, **VERSIONS, **AMOUNTS, **PEERS, **KEYS, **VALUES}
# The rules that are tested here.
TESTED = (
    "groups/",
    "kinds/version",
    "resources/",
    "fields/",
    "keys/",
    "kai/group-structure",
    "kai/group-without-minimum",
    "kai/set-minimum",
    "kai/group-parent",
    "kai/queue-resources",
    "volcano/group-two-tiers",
    "volcano/group-topology-mode",
    "volcano/queue-amounts",
    "volcano/queue-share",
    "volcano/queue-weight",
    "coscheduling/group-minimum",
    "kueue/topology-keys",
    "kube/group-shape",
    "kube/group-version",
    "koordinator/owner-gpu-share",
)


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_a_file_has_its_findings(rollcall: Run, tmp_path: Path, file: File) -> None:
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(file.objects))
    config = "none"
    if file.scheduler is not None:
        head = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
        config = str(tmp_path / "rollcall.json")
        Path(config).write_text(json.dumps({**head, "scheduler": file.scheduler}))
    ran = rollcall("check", "--config", config, "-o", "json", str(tmp_path / "objects.yaml"))
    report = json.loads(ran.out)
    found = {(one["rule"], one["field"], one["found"]) for one in report["findings"] if one["rule"].startswith(TESTED)}
    assert found == file.findings
    left = {(one["rule"], one["field"]) for one in report["notJudged"] if one["rule"].startswith(TESTED)}
    assert left == file.unjudged


SHARED = item(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    spec={
        "leaderWorkerTemplate": {
            "size": 2,
            "workerTemplate": {
                "metadata": {"annotations": {"scheduling.k8s.io/group-name": "train"}},
                "spec": {"schedulerName": "kai-scheduler", "containers": [_MAIN]},
            },
        }
    },
)


@pytest.mark.parametrize(
    ("objects", "remedy"),
    [((group(VOLCANO), SHARED), "set schedulerName to volcano"), ((SHARED,), "name the group by the annotation")],
    ids=["with the group", "without the group"],
)
def test_a_template_of_leader_and_workers_is_judged_once(
    rollcall: Run, tmp_path: Path, objects: tuple[dict[str, Any], ...], remedy: str
) -> None:
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    ran = rollcall("check", "--config", "none", "-o", "json", str(tmp_path / "objects.yaml"))
    (unread,) = [one for one in json.loads(ran.out)["findings"] if one["rule"] == "groups/unread-key"]
    assert unread["field"].startswith("spec.leaderWorkerTemplate.workerTemplate.metadata.annotations")
    assert remedy in json.dumps(unread)


_PG = item(KUBERNETES, "PodGroup", namespace="a", spec={"schedulingPolicy": {"gang": {"minCount": 1}}})
_MADE = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "sets",
    "uid": "0b0e5f0e-2f0a-4f0b-8c1d-3f1f5e0d9a22",
    "controller": True,
}
_OF_A_SET = {"jobset.sigs.k8s.io/jobset-name": "sets", "jobset.sigs.k8s.io/replicatedjob-name": "r"}
_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [_MAIN]}}
_OPTED_IN = {"rollcall.dev/scheduler": "koord-scheduler"}
# The rule, an object that it judges in namespace b, and one of the kind that is missing there.
MISSING: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a PodGroup of Koordinator": (
        "koordinator/pod-group-missing",
        pod("koord-scheduler", namespace="b", labels={"pod-group.scheduling.sigs.k8s.io": "train"}),
        item(KOORDINATOR, "PodGroup", namespace="a", spec={"minMember": 1}),
    ),
    "a PodGroup of Kubernetes": (
        "kube/pod-group-missing",
        item("v1", "Pod", namespace="b", spec={"schedulingGroup": {"podGroupName": "x"}, "containers": [_MAIN]}),
        _PG,
    ),
    "a Workload": (
        "kube/workload-missing",
        item(
            KUBERNETES,
            "PodGroup",
            namespace="b",
            spec={
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "workloadRef": {"workloadName": "x", "templateName": "l"},
            },
        ),
        item(KUBERNETES, "Workload", namespace="a", spec={"podGroupTemplates": [leaf("l")]}),
    ),
    "a CompositePodGroup": (
        "kube/parent-missing",
        item(
            KUBERNETES,
            "PodGroup",
            namespace="b",
            spec={"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "x"},
        ),
        item(
            KUBERNETES,
            "CompositePodGroup",
            namespace="a",
            spec={"schedulingPolicy": {"gang": {"minGroupCount": 1}}},
        ),
    ),
    "a JobSet": (
        "owner/foreign-job",
        item(
            "batch/v1",
            "Job",
            namespace="b",
            metadata={"labels": {**_OPTED_IN, **_OF_A_SET}, "ownerReferences": [_MADE]},
            spec={"parallelism": 2, "template": _TEMPLATE},
        ),
        item(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            namespace="a",
            metadata={"labels": _OPTED_IN},
            spec={"replicatedJobs": [{"name": "r", "template": {"spec": {"parallelism": 2, "template": _TEMPLATE}}}]},
        ),
    ),
}


@pytest.mark.parametrize(("rule", "judged", "other"), MISSING.values(), ids=MISSING)
def test_an_object_is_missing_only_where_others_of_its_namespace_are_known(
    rollcall: Run, tmp_path: Path, rule: str, judged: dict[str, Any], other: dict[str, Any]
) -> None:
    profiles = [*TREE["profiles"], {"name": "koord-scheduler"}]
    head = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
    config = tmp_path / "rollcall.json"
    config.write_text(json.dumps({**head, "scheduler": {"profiles": profiles}}))

    def verdict(*objects: dict[str, Any]) -> tuple[int, ...]:
        (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
        ran = rollcall("check", "--config", str(config), "-o", "json", str(tmp_path / "objects.yaml"))
        report = json.loads(ran.out)
        return tuple(sum(one["rule"] == rule for one in report[part]) for part in ("findings", "notJudged"))

    assert verdict(judged, other) == (0, 1)
    nearer = {**other, "metadata": {**other["metadata"], "namespace": "b", "name": "another"}}
    assert verdict(judged, other, nearer) == (1, 0)
