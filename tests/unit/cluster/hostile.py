"""Objects of maximum size: a sample of each watched kind, with each of its fields enlarged.

A field grows in three ways: a text becomes long, a list gets many items, an object many entries. What the API server
bounds is left as it is: names, and the keys and values of labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import orjson

from tests.unit.cluster.kueue_samples import KUEUE_SAMPLES
from webhook.backends.registry import BUILT_IN
from webhook.model import grove
from webhook.model.gang_objects import living_gangs
from webhook.model.projections import Projection
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.workloads.known_workloads import EVERY_GENERAL

# Stands for the number of an object, so that no two have a text in common.
_NUMBER = "00000000"
# All annotations of an object together, less room for those of the sample.
_ANNOTATION_BYTES = 250 * 1024
# What the API server bounds, by the last part of the field's path.
_BOUNDED = frozenset({"name", "namespace", "uid", "apiVersion", "kind", "labels"})

Path = tuple[str | int, ...]


class Attack(NamedTuple):
    """A sample with one field grown, and which."""

    field: str
    template: bytes

    def object(self, number: int) -> Manifest:
        """One object of it, which shares no text with another."""
        read: Manifest = orjson.loads(self.template.replace(_NUMBER.encode(), f"{number:08}".encode()))
        return read


def projections() -> tuple[Projection, ...]:
    """Every projection that is registered."""
    read = dict.fromkeys(found for backend in BUILT_IN for found in backend.projections)
    heads = dict.fromkeys(head for backend in BUILT_IN for head in backend(backend.settings_model(), None).gang_heads)
    return (*EVERY_GENERAL, *read, *(living_gangs(head) for head in heads))


def attacks(sample: Manifest, size: int) -> Iterator[Attack]:
    """The ways to grow a sample to so many bytes."""
    for path, value in _fields(sample, ()):
        for kind, grown in _grown(path, value, size):
            raw = _with(sample, path, grown)
            raw["metadata"] |= {"name": f"demo-{_NUMBER}", "namespace": "team"}
            yield Attack(f"{'.'.join(map(str, path))} ({kind})", orjson.dumps(raw))


def _fields(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from _fields(value[0], (*path, 0))


def _grown(path: Path, value: Any, size: int) -> Iterator[tuple[str, Any]]:
    if path[:2] == ("metadata", "annotations"):
        size = min(size, _ANNOTATION_BYTES)
    if isinstance(value, str):
        if path[-1] not in _BOUNDED and (len(path) < 2 or path[-2] != "labels"):
            yield "text", _NUMBER + "x" * size
        if value.startswith("["):
            count = size // 24
            yield "JSON", json.dumps([f"team/{_NUMBER}-{index}" for index in range(count)])
            yield "JSON of short texts", json.dumps([f"{index}" for index in range(size // 8)])
        elif value.startswith("{"):
            rule = {"layer": _NUMBER, "strategy": "MustGather"}
            yield "JSON", json.dumps({"gatherStrategy": [{**rule, "podCountMultiple": n} for n in range(size // 80)]})
        elif "," in value:
            yield "list of names", ",".join(f"demo-{_NUMBER}-{index:040}" for index in range(min(999, size // 56)))
            yield "list of one name", ",".join(["demo"] * 999)
            yield "list of short names", ",".join(f"{index}" for index in range(size // 6))
    elif isinstance(value, list):
        filler = value[0] if value else "x"
        count = max(1, size // (len(json.dumps(filler)) + 16))
        yield "items", [_numbered(filler, index) for index in range(count)]
    elif isinstance(value, dict) and path[-1] != "metadata":
        filler = next(iter(value.values()), "x")
        count = max(1, size // (len(json.dumps(filler)) + 40))
        yield "entries", {**value, **{f"example.com/{_NUMBER}-queue-{index}": filler for index in range(count)}}


def _numbered(value: Any, number: int) -> Any:
    """A copy with its name and every other text made different."""
    if isinstance(value, str):
        return f"{value[:40]}-{_NUMBER}-{number}"
    if isinstance(value, dict):
        return {key: _numbered(inner, number) for key, inner in value.items()}
    return [_numbered(inner, number) for inner in value] if isinstance(value, list) else value


def _with(sample: Manifest, path: Path, value: Any) -> Manifest:
    raw = deepcopy(sample)
    holder: Any = raw
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return raw


_QUEUES = {"kai.scheduler/queue": "team-a", "quota.grove.io/name": "team-a"}
_AMOUNTS = {"cpu": "4", "example.com/gpu": "8"}
_CLAIM: Manifest = {
    "devices": {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}},
            {"name": "nic", "firstAvailable": [{"name": "a", "deviceClassName": "nic.example.com", "count": 1}]},
        ]
    }
}
_LABELS = {SCHEDULER_LABEL: "koord-scheduler", "kai.scheduler/node-pool": "a"}
_POD_TEMPLATE: Manifest = {
    "metadata": {"labels": {"app": "demo"}, "annotations": dict(_QUEUES)},
    "spec": {
        "schedulerName": "koord-scheduler",
        "priorityClassName": "high",
        "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "main", "image": "example.com/main", "args": ["a"], "env": [{"name": "A"}]}],
    },
}
_JOB_SPEC: Manifest = {"parallelism": 2, "completions": 2, "template": _POD_TEMPLATE}
_JOB_SET_SPEC: Manifest = {
    "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "replicatedJobs": [
        {"name": "worker", "replicas": 2, "dependsOn": [{"name": "a"}], "template": {"spec": _JOB_SPEC, "metadata": {}}}
    ],
}
_RUNTIME: Manifest = {
    "metadata": {},
    "spec": {
        "mlPolicy": {"numNodes": 2, "torch": {"numProcPerNode": "auto"}},
        "podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 10}},
        "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": _JOB_SET_SPEC},
    },
}
_GROUP: Manifest = {
    "schedulingPolicy": {"gang": {"minCount": 2, "minGroupCount": 2}},
    "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
    "priorityClassName": "high",
    "disruptionMode": {"all": {}},
}
_MACHINES: Manifest = {
    "metadata": {"annotations": {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5"}}
}
_PACK = {"packConstraint": {"required": "example.com/rack", "preferred": "example.com/host"}}

# By part of the facts an object with every field that its projection reads.
SAMPLES: dict[str, Manifest] = {
    **KUEUE_SAMPLES,
    "namespaces": {"metadata": {"labels": _LABELS, "annotations": {"a": "b"}}},
    "pod_clique_sets": {
        "metadata": {"labels": _LABELS, "annotations": dict(_QUEUES)},
        "spec": {
            "template": {
                "priorityClassName": "high",
                "cliques": [
                    {
                        "name": "worker",
                        "annotations": dict(_QUEUES),
                        "labels": {"quota.scheduling.koordinator.sh/name": "team-a"},
                        "spec": {"replicas": 2, "minAvailable": 2, "podSpec": _POD_TEMPLATE["spec"]},
                    }
                ],
                "podCliqueScalingGroups": [{"name": "all", "cliqueNames": ["worker"]}],
            }
        },
    },
    "pod_gangs": {
        "metadata": {"labels": {grove.LABEL_PART_OF: "demo"}, "annotations": {grove.TOPOLOGY_NAME: "dc"}},
        "spec": {
            "podgroups": [
                {
                    "name": "demo-0-worker",
                    "minReplicas": 2,
                    "podReferences": [{"namespace": "team", "name": "demo-0-worker-a"}],
                    "topologyConstraint": _PACK,
                }
            ],
            "topologyConstraint": _PACK,
            "topologyConstraintGroupConfigs": [{"name": "a", "podGroupNames": ["demo-0-worker"]}],
            "priorityClassName": "high",
        },
    },
    "pod_gang_maps": {
        "metadata": {},
        "spec": {
            "entries": [
                {
                    "role": "Anchor",
                    "epoch": "1795344276589742021",
                    "podCliques": {"router": 2},
                    "pcsgReplicaIndices": {"decode": [0]},
                    "dependsOn": ["1795344276589742020"],
                }
            ],
        },
    },
    "gang_objects": {
        "metadata": {
            "labels": {
                grove.LABEL_MANAGED_BY: "rollcall",
                grove.LABEL_PODGANG: "demo-0-1795344276589742021",
                "rollcall.dev/gang": "demo-0",
            },
            "annotations": {"rollcall.dev/members": "demo-0-leader,demo-0-worker"},
            "ownerReferences": [
                {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "a", "uid": "u", "controller": True}
            ],
        },
        "spec": {},
    },
    "topology_bindings": {
        "metadata": {},
        "spec": {
            "levels": [{"domain": "rack", "key": "example.com/rack"}],
            "schedulerTopologyBindings": [{"schedulerName": "kai-scheduler", "topologyReference": "dc"}],
        },
    },
    "priority_classes": {"metadata": {}, "value": 1, "globalDefault": False, "preemptionPolicy": "Never"},
    "jobs": {"metadata": {"labels": _LABELS, "annotations": dict(_QUEUES)}, "spec": _JOB_SPEC},
    "job_sets": {
        "metadata": {
            "labels": _LABELS,
            "annotations": dict(_QUEUES),
            "ownerReferences": [
                {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "a", "controller": True}
            ],
        },
        "spec": _JOB_SET_SPEC,
    },
    "leader_worker_sets": {
        "metadata": {"labels": _LABELS, "annotations": dict(_QUEUES)},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 2, "leaderTemplate": _POD_TEMPLATE, "workerTemplate": _POD_TEMPLATE},
        },
    },
    "train_jobs": {
        "metadata": {"labels": _LABELS, "annotations": dict(_QUEUES)},
        "spec": {
            "runtimeRef": {"name": "torch", "kind": "TrainingRuntime"},
            "trainer": {"numNodes": 2},
            "runtimePatches": [{"trainingRuntimeSpec": {"template": _RUNTIME["spec"]["template"]}}],
        },
    },
    "training_runtimes": _RUNTIME,
    "cluster_training_runtimes": _RUNTIME,
    "elastic_quotas": {
        "metadata": {
            "labels": {"quota.scheduling.koordinator.sh/is-parent": "true"},
            "annotations": {
                "quota.scheduling.koordinator.sh/namespaces": '["a","b"]',
                "quota.scheduling.koordinator.sh/guaranteed": '{"cpu":"1"}',
            },
        },
        "spec": {"max": dict(_AMOUNTS), "min": dict(_AMOUNTS)},
    },
    "network_topologies": {
        "metadata": {},
        "spec": {
            "networkTopologySpec": [
                {"topologyLayer": "SpineLayer", "parentTopologyLayer": "Root", "labelKey": ["example.com/spine"]}
            ]
        },
    },
    "koordinator_pod_groups": {
        "metadata": {
            "annotations": {
                "gang.scheduling.koordinator.sh/groups": '["team/a","team/b"]',
                "gang.scheduling.koordinator.sh/network-topology-spec": '{"gatherStrategy":[]}',
            }
        },
        "spec": {"minMember": 2},
    },
    "resource_quotas": {
        "metadata": {},
        "spec": {
            "hard": dict(_AMOUNTS),
            "scopes": ["NotTerminating"],
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
    },
    "limit_ranges": {
        "metadata": {},
        "spec": {"limits": [{"type": "Pod", "max": dict(_AMOUNTS), "min": dict(_AMOUNTS)}]},
    },
    "resource_slices": {
        "metadata": {},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "node-1",
            "devices": [{"name": "gpu-0", "attributes": {}}],
        },
    },
    "device_classes": {
        "metadata": {},
        "spec": {
            "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
            "extendedResourceName": "example.com/gpu",
        },
    },
    "resource_claim_templates": {"metadata": {}, "spec": {"spec": _CLAIM}},
    "resource_claims": {"metadata": {"ownerReferences": [{"kind": "Job", "name": "a"}]}, "spec": _CLAIM},
    "kai_queues": {"metadata": {"labels": _LABELS}, "spec": {"parentQueue": "research"}},
    "kai_topologies": {"metadata": {}, "spec": {"levels": [{"nodeLabel": "example.com/rack", "alias": "rack"}]}},
    "kai_shards": {"metadata": {}, "spec": {"partitionLabelValue": "a"}},
    "kai_pod_groups": {"metadata": {}, "spec": {"queue": "team-a", "subGroups": [{"name": "a", "minMember": 1}]}},
    "volcano_queues": {"metadata": {}, "spec": {"parent": "root"}, "status": {"state": "Open"}},
    "hyper_nodes": {"metadata": {}, "spec": {"tier": 1, "tierName": "rack", "members": [{"type": "Node"}]}},
    "volcano_pod_groups": {"metadata": {}, "spec": {"queue": "team-a", "minTaskMember": {"worker": 2}}},
    "workloads": {
        "metadata": {},
        "spec": {
            "podGroupTemplates": [{"name": "a", **_GROUP}],
            "compositePodGroupTemplates": [{"name": "b", **_GROUP, "podGroupTemplates": [{"name": "c", **_GROUP}]}],
        },
    },
    "pod_groups": {
        "metadata": {},
        "spec": {
            **_GROUP,
            "parentCompositePodGroupName": "above",
            "workloadRef": {"workloadName": "demo", "templateName": "worker"},
        },
    },
    "composite_pod_groups": {"metadata": {}, "spec": {**_GROUP, "parentCompositePodGroupName": "above"}},
    "nodes": {
        "metadata": {"labels": {"example.com/rack": "r1"}, "annotations": {"volcano.sh/oversubscription-cpu": "1000"}},
        "spec": {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "64Gi"},
            "capacity": {"cpu": "8", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
    "cluster_autoscaler": {
        "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/last-updated": "2026-11-23 21:00:00 UTC"}},
        "data": {"status": "text"},
    },
    "machine_deployments": _MACHINES,
    "machine_sets": _MACHINES,
    "machine_pools": _MACHINES,
    "node_pools": {
        "metadata": {},
        "spec": {
            "limits": {"cpu": "100"},
            "template": {"spec": {"startupTaints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}},
        },
    },
    "group_pods": {
        "metadata": {"labels": {"app": "demo"}, "annotations": {"a": "b"}},
        "spec": {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": "demo"}, "containers": []},
    },
}
