"""Plays the controllers of LeaderWorkerSet: a StatefulSet of leaders, and one of workers for each leader.

The pods are made by the real StatefulSet controller, and their last keys by the played webhook of lws_webhook.py. Left
out are headless Services, surge and partitions; a changed template is rolled out by the StatefulSet controller alone.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.lws_webhook import PREFIX
from tests.e2e.pod_life import let_go
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import applied, controller_reference, created, deleted, found, listed, read, until_pods

API = "leaderworkerset.x-k8s.io/v1"
# On the LeaderWorkerSet; they go down to its pods.
_EXCLUSIVE = (f"{PREFIX}/exclusive-topology", f"{PREFIX}/subgroup-exclusive-topology")


class LeaderWorkerSetController:
    """The controllers for the LeaderWorkerSets of one namespace; a test calls them where they would have woken up.

    With `volcano` they make a PodGroup for each leader, as LWS does where Volcano manages its gang scheduling.
    """

    def __init__(self, plane: ControlPlane, namespace: str, *, volcano: bool = False) -> None:
        self.plane = plane
        self.namespace = namespace
        self.volcano = volcano

    def sync(self, name: str) -> list[Manifest]:
        """Do what is due: the StatefulSet of leaders, and one of workers for each leader that may have it by now. Those
        of workers that it created.
        """
        lws = self.read(name)
        applied(self.plane, leaders_of(lws), "lws")
        made = []
        for leader in self._leaders(lws):
            if self.volcano:
                self._create_pod_group(lws, leader)
            if self._may_have_workers(lws, leader):
                workers = self._on_its_nodes(lws, leader, workers_of(lws, leader))
                if found(self.plane, "apps/v1", "StatefulSet", self.namespace, leader["metadata"]["name"]) is None:
                    made.append(created(self.plane, workers))
        return made

    def start(self, name: str) -> list[Manifest]:
        """Create the leaders and, where they may be there at once, the workers; all pods that there are then."""
        self.sync(name)
        lws = self.read(name)
        groups = lws["spec"]["replicas"]
        leaders = self.pods(name, groups, workers=False)
        may = sum(self._may_have_workers(lws, leader) for leader in leaders)
        self.sync(name)
        return self.pods(name, groups + may * (lws["spec"]["leaderWorkerTemplate"]["size"] - 1))

    def pods(self, name: str, count: int, *, workers: bool = True) -> list[Manifest]:
        """The pods of a set, or its leaders, once there are so many."""
        selector = f"{PREFIX}/name={name}" + ("" if workers else f",{PREFIX}/worker-index=0")
        return until_pods(self.plane, self.namespace, selector, count)

    def recreate_group(self, name: str, group: int) -> Manifest:
        """Restart a group, as when a container of one of its pods did: the leader goes after all that it owns, and the
        StatefulSet controller makes another, which is returned. Its workers come with the next `sync`.
        """
        selector = f"{PREFIX}/name={name},{PREFIX}/group-index={group}"
        pods = listed(self.plane, "v1", "Pod", self.namespace, selector)
        (leader,) = (pod for pod in pods if pod["metadata"]["labels"][f"{PREFIX}/worker-index"] == "0")
        deleted(self.plane, leader)
        let_go(self.plane, self.namespace, [pod["metadata"]["uid"] for pod in pods])

        def another() -> Manifest | None:
            return found(self.plane, "v1", "Pod", self.namespace, f"{name}-{group}")

        return eventually(another, f"group {group} of {name} has another leader")

    def read(self, name: str) -> Manifest:
        """The set as it is stored now."""
        return read(self.plane, API, "LeaderWorkerSet", self.namespace, name)

    def _leaders(self, lws: Manifest) -> list[Manifest]:
        selector = f"{PREFIX}/name={lws['metadata']['name']},{PREFIX}/worker-index=0"
        pods = listed(self.plane, "v1", "Pod", self.namespace, selector)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def _may_have_workers(self, lws: Manifest, leader: Manifest) -> bool:
        if lws["spec"]["leaderWorkerTemplate"]["size"] == 1:
            return False
        if f"{PREFIX}/exclusive-topology" in lws["metadata"].get("annotations", {}):
            return "nodeName" in leader["spec"]
        return lws["spec"]["startupPolicy"] != "LeaderReady" or _is_ready(leader)

    def _on_its_nodes(self, lws: Manifest, leader: Manifest, workers: Manifest) -> Manifest:
        """Workers of an exclusive group are bound to where their leader is."""
        key = lws["metadata"].get("annotations", {}).get(f"{PREFIX}/exclusive-topology")
        if key is not None:
            node = read(self.plane, "v1", "Node", None, leader["spec"]["nodeName"])
            pod = workers["spec"]["template"]["spec"]
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), key: node["metadata"]["labels"][key]}
        return workers

    def _create_pod_group(self, lws: Manifest, leader: Manifest) -> None:
        api, labels = "scheduling.volcano.sh/v1beta1", leader["metadata"]["labels"]
        keys = [f"{PREFIX}/{key}" for key in ("name", "group-index", "template-revision-hash")]
        name = "-".join(labels[key] for key in keys)
        if found(self.plane, api, "PodGroup", self.namespace, name) is not None:
            return
        annotations = lws["metadata"].get("annotations", {})
        late = lws["spec"]["startupPolicy"] == "LeaderReady"
        spec: Manifest = {"minMember": 1 if late else lws["spec"]["leaderWorkerTemplate"]["size"]}
        if (queue := annotations.get("scheduling.volcano.sh/queue-name")) is not None:
            spec["queue"] = queue
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": {key: labels[key] for key in keys},
            "annotations": {key: value for key, value in annotations.items() if key.startswith("volcano.sh/")},
            "ownerReferences": [controller_reference(leader)],
        }
        created(self.plane, {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": spec})


def revision_of(lws: Manifest) -> str:
    """The hash of the templates: other templates, other pods."""
    text = json.dumps(lws["spec"]["leaderWorkerTemplate"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def leaders_of(lws: Manifest) -> Manifest:
    """The StatefulSet of the leaders."""
    metadata, template = lws["metadata"], lws["spec"]["leaderWorkerTemplate"]
    selector = {f"{PREFIX}/name": metadata["name"], f"{PREFIX}/worker-index": "0"}
    pod = deepcopy(template.get("leaderTemplate") or template["workerTemplate"])
    _label(pod, {**selector, f"{PREFIX}/template-revision-hash": revision_of(lws)}, _annotations(lws))
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {
                f"{PREFIX}/name": metadata["name"],
                f"{PREFIX}/template-revision-hash": revision_of(lws),
            },
            "annotations": {f"{PREFIX}/replicas": str(lws["spec"]["replicas"])},
            "ownerReferences": [controller_reference(lws)],
        },
        "spec": {
            "replicas": lws["spec"]["replicas"],
            "serviceName": metadata["name"],
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector},
            "template": pod,
        },
    }


def workers_of(lws: Manifest, leader: Manifest) -> Manifest:
    """The StatefulSet of one leader's workers: it has the leader's name, and the leader owns it."""
    metadata, template = leader["metadata"], lws["spec"]["leaderWorkerTemplate"]
    selector = {
        f"{PREFIX}/{key}": metadata["labels"][f"{PREFIX}/{key}"] for key in ("name", "group-index", "group-key")
    }
    revision = f"{PREFIX}/template-revision-hash"
    labels = {**selector, revision: metadata["labels"][revision]}
    pod = deepcopy(template["workerTemplate"])
    _label(pod, labels, {**_annotations(lws), f"{PREFIX}/leader-name": metadata["name"]})
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(leader)],
        },
        "spec": {
            "replicas": template["size"] - 1,
            "serviceName": lws["metadata"]["name"],
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": selector},
            "template": pod,
        },
    }


def _annotations(lws: Manifest) -> dict[str, str]:
    template, own = lws["spec"]["leaderWorkerTemplate"], lws["metadata"].get("annotations", {})
    annotations = {f"{PREFIX}/size": str(template["size"]), **{key: own[key] for key in _EXCLUSIVE if key in own}}
    if (policy := template.get("subGroupPolicy")) is not None:
        annotations[f"{PREFIX}/subgroup-size"] = str(policy["subGroupSize"])
        annotations[f"{PREFIX}/subgroup-policy-type"] = policy.get("subGroupPolicyType", "LeaderWorker")
    return annotations


def _label(pod: Manifest, labels: dict[str, str], annotations: dict[str, str]) -> None:
    metadata = pod.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}


def _is_ready(pod: Manifest) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)
