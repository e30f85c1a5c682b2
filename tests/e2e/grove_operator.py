"""Plays Grove's operator: creates the objects of a stored PodCliqueSet as the operator would.

Written from what the operator was seen to send (the recorded AdmissionReviews; a test compares), and not from our own
translation, which is under test. Names are those of Grove up to v0.1.0-alpha.11. Hashes and resource sharing are left
out, and of headless Services, ServiceAccounts and Roles there is no need.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import httpx

from tests.e2e.control_plane import OPERATOR, ControlPlane, Manifest

GATE = "grove.io/podgang-pending-creation"
_GROVE = "/apis/grove.io/v1alpha1"
_SCHEDULER = "/apis/scheduler.grove.io/v1alpha1"


class Clique(NamedTuple):
    """One PodClique of a PodGang."""

    name: str
    template: Manifest
    podgang: str
    base: str | None
    replica: int
    group: str | None = None
    group_replica: int | None = None

    @property
    def replicas(self) -> int:
        """How many pods it has."""
        return int(self.template["spec"].get("replicas", 1))

    @property
    def minimum(self) -> int:
        """How many of them the gang needs: all, unless the template has a smaller number."""
        return int(self.template["spec"].get("minAvailable", self.replicas))


def cliques_of(workload: Manifest) -> list[Clique]:
    """The PodCliques of a set, those of each base gang before those of its scaled gangs."""
    spec, name = workload["spec"], workload["metadata"]["name"]
    templates = {clique["name"]: clique for clique in spec["template"]["cliques"]}
    groups = spec["template"].get("podCliqueScalingGroups") or []
    grouped = {member for group in groups for member in group["cliqueNames"]}
    found = []
    for replica in range(spec.get("replicas", 0)):
        base = f"{name}-{replica}"
        found += [
            Clique(f"{base}-{clique}", template, base, None, replica)
            for clique, template in templates.items()
            if clique not in grouped
        ]
        for group in groups:
            full, minimum = f"{base}-{group['name']}", group.get("minAvailable", 1)
            for index in range(group.get("replicas", 1)):
                scaled = index >= minimum
                podgang = f"{full}-{index - minimum}" if scaled else base
                found += [
                    Clique(
                        f"{full}-{index}-{one}", templates[one], podgang, base if scaled else None, replica, full, index
                    )
                    for one in group["cliqueNames"]
                ]
    return found


def defaulted(workload: Manifest) -> Manifest:
    """A set as Grove's defaulting webhook leaves it, as far as the API server's schema needs that: the webhook writes
    the object again from its Go type, and so the role names that people leave out.
    """
    found = deepcopy(workload)
    for clique in found["spec"]["template"]["cliques"]:
        clique["spec"].setdefault("roleName", "")
    return found


class Played:
    """What was made of one set, and what the operator does with it from then on."""

    def __init__(self, plane: ControlPlane, workload: Manifest) -> None:
        self.plane = plane
        self.workload = workload
        self.namespace = workload["metadata"]["namespace"]
        self.name = workload["metadata"]["name"]
        self.cliques = cliques_of(workload)
        self._http = plane.http_as(OPERATOR)
        self._pod_cliques: dict[str, Manifest] = {}

    @property
    def podgangs(self) -> list[str]:
        """The names of its PodGangs, the base gangs first."""
        return list(dict.fromkeys(clique.podgang for clique in self.cliques))

    def pods(self) -> list[Manifest]:
        """Its pods as they are stored now."""
        selector = f"app.kubernetes.io/part-of={self.name}"
        return self.plane.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)

    def podgang(self, name: str) -> Manifest:
        """A PodGang as it is stored now."""
        return _answered(self._http.get(f"{_SCHEDULER}/namespaces/{self.namespace}/podgangs/{name}"))

    def create(self, *, without: str | None = None) -> Played:
        """Create PodCliques, PodGangs and gated pods, and name the pods in their PodGangs.

        `without` is a PodClique of which one pod is left out, as when its creation failed.
        """
        self.create_podgangs()
        self.create_pods(without=without)
        self.fill_references()
        return self

    def create_podgangs(self) -> Played:
        """Create PodCliques and PodGangs; the PodGangs name no pods yet."""
        self._create_pod_cliques()
        for name in self.podgangs:
            self._post(f"{_SCHEDULER}/namespaces/{self.namespace}/podgangs", self.new_podgang(name))
        return self

    def create_pods(self, *, without: str | None = None) -> Played:
        """Create the pods."""
        for clique in self.cliques:
            for index in range(clique.replicas - (clique.name == without)):
                self.create_pod(clique, index)
        return self

    def create_pod(self, clique: Clique, index: int) -> Manifest:
        """Create one pod, and its PodClique where that is not there; the stored pod."""
        self._create_pod_cliques()
        return self._post(f"/api/v1/namespaces/{self.namespace}/pods", self.pod(clique, index))

    def fill_references(self) -> None:
        """Name in each PodGang that is there the pods that its PodCliques control."""
        pods, path = self.pods(), f"{_SCHEDULER}/namespaces/{self.namespace}/podgangs"
        for stored in self.plane.items(path):
            if (name := stored["metadata"]["name"]) in self.podgangs:
                groups = [
                    {**group, "podReferences": self._references(group["name"], pods)}
                    for group in stored["spec"]["podgroups"]
                ]
                headers = {"Content-Type": "application/merge-patch+json"}
                body = {"spec": {"podgroups": groups}}
                _answered(self._http.patch(f"{path}/{name}", json=body, headers=headers))

    def lift_gates(self, podgang: str | None = None, only: Callable[[int], bool] = lambda _: True) -> None:
        """Remove Grove's gate, and no other, from the pods of the base gangs, or of one gang: from all of them, or by
        their places in the list. Before that, the PodGangs name them.
        """
        self.fill_references()
        wanted = {podgang} if podgang else {clique.podgang for clique in self.cliques if clique.base is None}
        pods = [pod for pod in self.pods() if pod["metadata"]["labels"]["grove.io/podgang"] in wanted]
        for index, pod in enumerate(pods):
            gates = pod["spec"].get("schedulingGates", [])
            kept = [gate for gate in gates if gate["name"] != GATE]
            if only(index) and kept != gates:
                # As the operator does it: a merge patch with the list as it shall be.
                path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                headers = {"Content-Type": "application/merge-patch+json"}
                _answered(self._http.patch(path, json={"spec": {"schedulingGates": kept or None}}, headers=headers))

    def replace_unbound(self) -> None:
        """Delete the pods that are on no node and recreate them without gates, as a desperate user does."""
        by_name = {clique.name: clique for clique in self.cliques}
        for pod in self.pods():
            if pod["spec"].get("nodeName"):
                continue
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{self.namespace}/pods/{metadata['name']}"
            _answered(self._http.delete(path, params={"gracePeriodSeconds": "0"}))
            index = int(pod["spec"]["hostname"].rpartition("-")[2])
            self.create_pod(by_name[metadata["labels"]["grove.io/podclique"]], index)
        self.lift_gates()

    def bound(self) -> list[str]:
        """The names of its pods that are on a node."""
        return sorted(pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("nodeName"))

    # what the objects look like

    def pod(self, clique: Clique, index: int) -> Manifest:
        """A pod as the operator sends it."""
        spec = deepcopy(clique.template["spec"]["podSpec"])
        service = f"{self.name}-{clique.replica}"
        env = [
            {"name": "GROVE_PCS_NAME", "value": self.name},
            {"name": "GROVE_PCS_INDEX", "value": str(clique.replica)},
            {"name": "GROVE_PCLQ_NAME", "value": clique.name},
            {"name": "GROVE_HEADLESS_SERVICE", "value": f"{service}.{self.namespace}.svc.cluster.local"},
            {"name": "GROVE_PCLQ_POD_INDEX", "valueFrom": _label("grove.io/podclique-pod-index")},
        ]
        if clique.group is not None:
            group_index = _label("grove.io/podcliquescalinggroup-replica-index")
            own = (other for other in self.cliques if (other.group, other.group_replica) == clique[-2:])
            env += [
                {"name": "GROVE_PCSG_NAME", "valueFrom": _label("grove.io/podcliquescalinggroup")},
                {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": str(sum(other.replicas for other in own))},
                {"name": "GROVE_PCSG_INDEX", "valueFrom": group_index},
            ]
        for container in spec["containers"]:
            container["env"] = [*env, *container.get("env", [])]
        spec.update(
            schedulerName=spec.get("schedulerName") or "default-scheduler",
            hostname=f"{clique.name}-{index}",
            subdomain=service,
            schedulingGates=[{"name": GATE}],
            restartPolicy="Always",
        )
        labels = {**self._labels(clique), "grove.io/podclique": clique.name, "grove.io/podclique-pod-index": str(index)}
        metadata: Manifest = {
            "generateName": f"{clique.name}-",
            "namespace": self.namespace,
            "labels": labels,
            "ownerReferences": [_owner("grove.io/v1alpha1", "PodClique", self._pod_cliques[clique.name])],
        }
        if annotations := clique.template.get("annotations"):
            metadata["annotations"] = dict(annotations)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _labels(self, clique: Clique) -> Manifest:
        labels = {
            **clique.template.get("labels", {}),
            "app.kubernetes.io/component": "pcs-podclique" if clique.group is None else "pcsg-podclique",
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/name": clique.name,
            "app.kubernetes.io/part-of": self.name,
            "grove.io/podcliqueset-replica-index": str(clique.replica),
            "grove.io/podgang": clique.podgang,
        }
        if clique.group is not None:
            labels["grove.io/podcliquescalinggroup"] = clique.group
            labels["grove.io/podcliquescalinggroup-replica-index"] = str(clique.group_replica)
        if clique.base is not None:
            labels["grove.io/base-podgang"] = clique.base
        return labels

    def _create_pod_cliques(self) -> None:
        for clique in self.cliques:
            if clique.name not in self._pod_cliques:
                path = f"{_GROVE}/namespaces/{self.namespace}/podcliques"
                self.took(self._post(path, self.pod_clique(clique)))

    def pod_clique(self, clique: Clique) -> Manifest:
        """A PodClique as the operator sends it."""
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {
                "name": clique.name,
                "namespace": self.namespace,
                "labels": self._labels(clique),
                "ownerReferences": [_owner("grove.io/v1alpha1", "PodCliqueSet", self.workload)],
            },
            "spec": {**clique.template["spec"], "minAvailable": clique.minimum},
        }

    def took(self, pod_clique: Manifest) -> None:
        """A PodClique is stored: pods may name it as their owner."""
        self._pod_cliques[pod_clique["metadata"]["name"]] = pod_clique

    def new_podgang(self, name: str) -> Manifest:
        """A PodGang as it is first sent: with its members and without their pods."""
        metadata = self.workload["metadata"]
        mirrored = {
            field: {key: value for key, value in (metadata.get(field) or {}).items() if not key.startswith("grove.io/")}
            for field in ("labels", "annotations")
        }
        return {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "annotations": mirrored["annotations"],
                "labels": {
                    **mirrored["labels"],
                    "app.kubernetes.io/component": "podgang",
                    "app.kubernetes.io/managed-by": "grove-operator",
                    "app.kubernetes.io/part-of": self.name,
                    "grove.io/scheduler-name": "default-scheduler",
                },
                "ownerReferences": [_owner("grove.io/v1alpha1", "PodCliqueSet", self.workload)],
            },
            "spec": {"podgroups": self.pod_groups(name, [])},
        }

    def pod_groups(self, podgang: str, pods: list[Manifest]) -> list[Manifest]:
        """The members of a PodGang, with those of the pods that are theirs."""
        return [
            {
                "name": clique.name,
                "minReplicas": clique.minimum,
                "podReferences": self._references(clique.name, pods),
            }
            for clique in self.cliques
            if clique.podgang == podgang
        ]

    def _references(self, clique: str, pods: list[Manifest]) -> list[Manifest]:
        """Those of the pods that a PodClique controls, by uid as Grove's operator asks."""
        uid = self._pod_cliques[clique]["metadata"]["uid"] if clique in self._pod_cliques else None
        names = sorted(pod["metadata"]["name"] for pod in pods if uid in _controllers(pod))
        return [{"namespace": self.namespace, "name": name} for name in names]

    def _post(self, path: str, body: Manifest) -> Manifest:
        return _answered(self._http.post(path, json=body))


def _owner(api_version: str, kind: str, owner: Manifest) -> Manifest:
    metadata = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _controllers(raw: Manifest) -> list[str]:
    return [owner["uid"] for owner in raw["metadata"].get("ownerReferences", []) if owner.get("controller")]


def _label(key: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{key}']"}}


def _answered(response: httpx.Response) -> Manifest:
    if response.is_error:
        raise Refused(response)
    found: Manifest = response.json()
    return found


class Refused(Exception):
    """The API server refused a request of the operator, which would log it and retry."""

    def __init__(self, response: httpx.Response) -> None:
        self.code = response.status_code
        super().__init__(response.json().get("message", response.text))
