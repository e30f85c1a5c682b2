"""Many gangs of Grove, written into the store of a control plane as its API server would have stored them.

Created through the API, 10,000 gangs and 50,000 pods would take longer than what is measured.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from webhook.config.settings import Profile
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.mutators.prepare_pod import prepare_pod

# The most operations of a transaction of etcd.
_OPERATIONS = 128
_CREATED = "2026-01-01T00:00:00Z"
MEMBERS = 4
NODES = 500
_FOLDERS = {
    "Node": "minions",
    "Pod": "pods",
    "PodClique": "grove.io/podcliques",
    "PodCliqueSet": "grove.io/podcliquesets",
    "PodGang": "scheduler.grove.io/podgangs",
}


class Cluster(NamedTuple):
    """What is stored: so many gangs and pods, in these namespaces in turn, for the scheduler of `profile`. Every other
    gang is on nodes. Each PodCliqueSet has `replicas`, and each of these is a gang.
    """

    profile: Profile
    gangs: int
    pods: int
    namespaces: tuple[str, ...]
    facts: ClusterFacts
    replicas: int = 10

    def objects(self) -> Iterator[Manifest]:
        """All objects."""
        numbers = count()
        if self.pods:
            yield from map(_node, range(NODES))
        for number in range(self.gangs):
            pods = (self.pods * (number + 1)) // self.gangs - (self.pods * number) // self.gangs
            yield from self._gang(number, [next(numbers) for _ in range(pods)])

    def _gang(self, number: int, pods: list[int]) -> Iterator[Manifest]:
        namespace = self.namespaces[number % len(self.namespaces)]
        # The replicas of a set are in one namespace.
        order = number // len(self.namespaces)
        name, replica = f"w{order // self.replicas}", order % self.replicas
        if replica == 0:
            yield _stored(_pod_clique_set(name, namespace, self.profile.name, self.replicas))
        gang = f"{name}-{replica}"
        labels = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": name,
            grove.LABEL_REPLICA: str(replica),
        }
        owner = _owner("grove.io/v1alpha1", "PodCliqueSet", name, namespace)
        members = [f"{gang}-{role}" for role in _roles()]
        made = [self._pod(one, members[index % MEMBERS], gang, namespace, number) for index, one in enumerate(pods)]
        groups = [
            {
                "name": member,
                "minReplicas": max(1, len(made) // MEMBERS),
                "podReferences": [
                    {"namespace": namespace, "name": pod["metadata"]["name"]}
                    for pod in made
                    if pod["metadata"]["labels"][grove.LABEL_PODCLIQUE] == member
                ],
            }
            for member in members
        ]
        metadata = {"name": gang, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
        yield _stored(
            {
                "apiVersion": "scheduler.grove.io/v1alpha1",
                "kind": "PodGang",
                "metadata": metadata,
                "spec": {"podgroups": groups},
            }
        )
        for member in members:
            metadata = {"name": member, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
            spec = {"roleName": member.rpartition("-")[2], "replicas": 2, "minAvailable": 1, "podSpec": _POD_SPEC}
            yield _stored({"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata, "spec": spec})
        yield from map(_stored, made)

    def _pod(self, number: int, member: str, gang: str, namespace: str, of: int) -> Manifest:
        replica = gang.rpartition("-")[2]
        labels = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": gang.rpartition("-")[0],
            grove.LABEL_REPLICA: replica,
            grove.LABEL_PODGANG: gang,
            grove.LABEL_PODCLIQUE: member,
        }
        metadata = {
            "name": f"{member}-{number:05x}",
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [_owner("grove.io/v1alpha1", "PodClique", member, namespace)],
        }
        found: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(_POD_SPEC)}
        placed = self.profile.member(namespace, gang, member, Record(self.profile.name), self.facts)
        prepare_pod(Pod(found), self.profile, placed)
        found["spec"].pop("schedulingGates", None)
        if of % 2:
            found["spec"]["nodeName"] = f"node-{number % NODES}"
        found["status"] = {"phase": "Running" if of % 2 else "Pending", "qosClass": "Burstable", "conditions": []}
        return found


def store(plane: ControlPlane, objects: Iterable[Manifest]) -> int:
    """Write objects into the store of a control plane, and return their number."""
    found, left = 0, iter(objects)
    with httpx.Client(base_url=plane.store_url, timeout=30, trust_env=False) as client:
        while some := list(islice(left, _OPERATIONS)):
            puts = [{"requestPut": {"key": _base64(_key(one)), "value": _base64(json.dumps(one))}} for one in some]
            client.post("/v3/kv/txn", json={"success": puts}).raise_for_status()
            found += len(some)
    return found


def _key(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"/registry/{_FOLDERS[manifest['kind']]}/{place}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _roles() -> list[str]:
    return [f"r{index}" for index in range(MEMBERS)]


def _uid(kind: str, name: str, namespace: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def _owner(api_version: str, kind: str, name: str, namespace: str) -> Manifest:
    marks = {"controller": True, "blockOwnerDeletion": True}
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": _uid(kind, name, namespace), **marks}


def _stored(manifest: Manifest) -> Manifest:
    """The object with what an API server adds to it."""
    metadata = manifest["metadata"]
    fields: Manifest = {
        f"f:{field}": {} for field in ("containers", "nodeName", "schedulerName", "tolerations", "volumes")
    }
    manager = {
        "manager": "grove-operator",
        "operation": "Update",
        "apiVersion": manifest["apiVersion"],
        "time": _CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {f"f:{key}": {} for key in metadata}, "f:spec": fields},
    }
    added = {
        "uid": _uid(manifest["kind"], metadata["name"], metadata.get("namespace", "")),
        "creationTimestamp": _CREATED,
        "generation": 1,
        "managedFields": [manager],
    }
    return {**manifest, "metadata": {**metadata, **added}}


def _node(number: int) -> Manifest:
    room = {"cpu": "192", "memory": "2000Gi", "pods": "200", "nvidia.com/gpu": "8"}
    name = f"node-{number}"
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}}
    status = {"capacity": room, "allocatable": room}
    return _stored({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})


_CONTAINER: Manifest = {
    "name": "main",
    "image": "registry.example.com/team/main:1.0",
    "command": ["/bin/main", "--port=8080"],
    "env": [{"name": f"VARIABLE_{number}", "value": "a value of usual length"} for number in range(12)],
    "resources": {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
_POD_SPEC: dict[str, Any] = {
    "containers": [_CONTAINER],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "enableServiceLinks": True,
    "tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    ],
}


def _pod_clique_set(name: str, namespace: str, scheduler: str, replicas: int) -> Manifest:
    cliques = [
        {"name": role, "spec": {"roleName": role, "replicas": 2, "minAvailable": 1, "podSpec": _POD_SPEC}}
        for role in _roles()
    ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": namespace, "labels": {"rollcall.dev/scheduler": scheduler}},
        "spec": {"replicas": replicas, "template": {"cliques": cliques}},
    }
