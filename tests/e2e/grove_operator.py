"""Plays Grove's operator: creates the objects of a stored PodCliqueSet as the operator would.

Written from what the operator was seen to send (the recorded AdmissionReviews; a test compares), and not from our own
translation, which is under test. Names are those of Grove up to v0.1.0-alpha.11; the generation after that is played by
`grove_next_operator`. Hashes and resource sharing are left out, and of headless Services, ServiceAccounts and Roles
there is no need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import NamedTuple, Self

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_client import GroveClient

GATE = "grove.io/podgang-pending-creation"


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


class Played(GroveClient):
    """What was made of one set, and what the operator does with it from then on."""

    def __init__(self, plane: ControlPlane, workload: Manifest) -> None:
        super().__init__(plane, workload["metadata"]["namespace"])
        self.workload = workload
        self.name = workload["metadata"]["name"]
        self.selector = f"app.kubernetes.io/part-of={self.name}"
        self._pod_cliques: dict[str, Manifest] = {}
        self.cliques = self.expected_cliques()

    def expected_cliques(self) -> list[Clique]:
        """The PodCliques that there should be."""
        return cliques_of(self.workload)

    @property
    def podgangs(self) -> list[str]:
        """The names of its PodGangs, the base gangs first."""
        return list(dict.fromkeys(clique.podgang for clique in self.cliques))

    def pods(self) -> list[Manifest]:
        """Its pods as they are stored now."""
        return self.plane.items(self.path("pods"), labelSelector=self.selector)

    def podgang(self, name: str) -> Manifest:
        """A PodGang as it is stored now."""
        return self.get("podgangs", name)

    def create(self, *, without: str | None = None) -> Self:
        """Create PodCliques, PodGangs and gated pods, and name the pods in their PodGangs.

        `without` is a PodClique of which one pod is left out, as when its creation failed.
        """
        self.create_podgangs()
        self.create_pods(without=without)
        self.fill_references()
        return self

    def create_podgangs(self) -> Self:
        """Create PodCliques and PodGangs; the PodGangs name no pods yet."""
        self._create_pod_cliques()
        for name in self.podgangs:
            self.post("podgangs", self.new_podgang(name))
        return self

    def create_pods(self, *, without: str | None = None) -> Self:
        """Create the pods."""
        for clique in self.cliques:
            for index in range(clique.replicas - (clique.name == without)):
                self.create_pod(clique, index)
        return self

    def create_pod(self, clique: Clique, index: int) -> Manifest:
        """Create one pod, and its PodClique where that is not there; the stored pod."""
        self._create_pod_cliques()
        return self.post("pods", self.pod(clique, index))

    def create_missing(self) -> None:
        """Create the pods that PodCliques lack, as the operator does after a deletion."""
        there = {(pod["metadata"]["labels"]["grove.io/podclique"], pod_index(pod)) for pod in self.pods()}
        for clique in self.cliques:
            for index in range(clique.replicas):
                if (clique.name, index) not in there:
                    self.create_pod(clique, index)

    def fill_references(self) -> None:
        """Name in each PodGang that is there the pods that its PodCliques control."""
        pods = self.pods()
        for stored in self.plane.items(self.path("podgangs")):
            if (name := stored["metadata"]["name"]) in self.podgangs:
                groups = [
                    {**group, "podReferences": self.references(name, group["name"], pods)}
                    for group in stored["spec"]["podgroups"]
                ]
                if groups != stored["spec"]["podgroups"]:
                    self.patch("podgangs", name, {"spec": {"podgroups": groups}})

    def startable(self) -> set[str]:
        """The PodGangs whose pods need not wait for another PodGang."""
        return {clique.podgang for clique in self.cliques if clique.base is None}

    def lift_gates(self, podgang: str | None = None, only: Callable[[int], bool] = lambda _: True) -> None:
        """Remove Grove's gate, and no other, from the pods of the base gangs, or of one gang: from all of them, or by
        their places in the list. Before that, the PodGangs name them.
        """
        self.fill_references()
        wanted = {podgang} if podgang else self.startable()
        pods = [pod for pod in self.pods() if pod["metadata"]["labels"]["grove.io/podgang"] in wanted]
        for index, pod in enumerate(pods):
            gates = pod["spec"].get("schedulingGates", [])
            kept = [gate for gate in gates if gate["name"] != GATE]
            if only(index) and kept != gates:
                # As the operator does it: a merge patch with the list as it shall be.
                self.patch("pods", pod["metadata"]["name"], {"spec": {"schedulingGates": kept or None}})

    def replace_unbound(self) -> None:
        """Delete the pods that are on no node and recreate them without gates, as a desperate user does."""
        for pod in self.pods():
            if not pod["spec"].get("nodeName"):
                self._recreate(pod)
        self.lift_gates()

    def delete_pod(self, name: str) -> Manifest:
        """Delete a pod, as a user or a drain does, and do what the operator does then: create a pod in its place, name
        that in the PodGang and remove its gate. The new pod as it is stored.
        """
        pod = self.get("pods", name)
        created = self._recreate(pod)["metadata"]
        self.lift_gates(created["labels"]["grove.io/podgang"])
        return self.get("pods", created["name"])

    def _recreate(self, pod: Manifest) -> Manifest:
        by_name = {clique.name: clique for clique in self.cliques}
        self.delete("pods", pod["metadata"]["name"])
        return self.create_pod(by_name[pod["metadata"]["labels"]["grove.io/podclique"]], pod_index(pod))

    def bound(self) -> list[str]:
        """The names of its pods that are on a node."""
        return sorted(pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("nodeName"))

    # what the objects look like

    def pod(self, clique: Clique, index: int) -> Manifest:
        """A pod as the operator sends it."""
        spec = deepcopy(clique.template["spec"]["podSpec"])
        env = self.environment(clique)
        for container in spec["containers"]:
            container["env"] = [*env, *container.get("env", [])]
        spec.update(
            schedulerName=spec.get("schedulerName") or "default-scheduler",
            hostname=f"{clique.name}-{index}",
            subdomain=f"{self.name}-{clique.replica}",
            schedulingGates=[{"name": GATE}],
            restartPolicy="Always",
        )
        labels = {
            **self.labels(clique),
            "grove.io/podclique": clique.name,
            "grove.io/podclique-pod-index": str(index),
            "grove.io/podgang": self.podgang_of(clique, index),
        }
        metadata: Manifest = {
            "generateName": f"{clique.name}-",
            "namespace": self.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(self._pod_cliques[clique.name])],
        }
        if annotations := clique.template.get("annotations"):
            metadata["annotations"] = dict(annotations)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def podgang_of(self, clique: Clique, index: int) -> str:
        """The PodGang of the pod with an index."""
        return clique.podgang

    def environment(self, clique: Clique) -> list[Manifest]:
        """The variables that the operator puts before those of each container."""
        return [*self.clique_environment(clique), *self.group_environment(clique)]

    def clique_environment(self, clique: Clique) -> list[Manifest]:
        """Those that say which PodClique a pod is of."""
        service = f"{self.name}-{clique.replica}.{self.namespace}.svc.cluster.local"
        return [
            {"name": "GROVE_PCS_NAME", "value": self.name},
            {"name": "GROVE_PCS_INDEX", "value": str(clique.replica)},
            {"name": "GROVE_PCLQ_NAME", "value": clique.name},
            {"name": "GROVE_HEADLESS_SERVICE", "value": service},
            {"name": "GROVE_PCLQ_POD_INDEX", "valueFrom": _label("grove.io/podclique-pod-index")},
        ]

    def group_environment(self, clique: Clique) -> list[Manifest]:
        """Those that say which replica of a scaling group a pod is of."""
        if clique.group is None:
            return []
        own = (other for other in self.cliques if (other.group, other.group_replica) == clique[-2:])
        return [
            {"name": "GROVE_PCSG_NAME", "valueFrom": _label("grove.io/podcliquescalinggroup")},
            {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": str(sum(other.replicas for other in own))},
            {"name": "GROVE_PCSG_INDEX", "valueFrom": _label("grove.io/podcliquescalinggroup-replica-index")},
        ]

    def labels(self, clique: Clique) -> Manifest:
        """The labels of a PodClique, which its pods have too."""
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
                self.took(self.post("podcliques", self.pod_clique(clique)))

    def pod_clique(self, clique: Clique) -> Manifest:
        """A PodClique as the operator sends it."""
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {
                "name": clique.name,
                "namespace": self.namespace,
                "labels": self.labels(clique),
                "ownerReferences": [self.owner_of(clique)],
            },
            "spec": {**clique.template["spec"], "minAvailable": clique.minimum},
        }

    def owner_of(self, clique: Clique) -> Manifest:
        """What a PodClique has as its owner; those of scaling groups too have the set here."""
        return owner_reference(self.workload)

    def took(self, pod_clique: Manifest) -> None:
        """A PodClique is stored: pods may name it as their owner."""
        self._pod_cliques[pod_clique["metadata"]["name"]] = pod_clique

    def podgang_labels(self, name: str) -> Manifest:
        """The labels that a PodGang has of the operator."""
        return {
            "app.kubernetes.io/component": "podgang",
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": self.name,
            "grove.io/scheduler-name": "default-scheduler",
        }

    def new_podgang(self, name: str, pods: Sequence[Manifest] = ()) -> Manifest:
        """A PodGang as it is first sent: with its members, and usually without their pods."""
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
                "labels": {**mirrored["labels"], **self.podgang_labels(name)},
                "ownerReferences": [owner_reference(self.workload)],
            },
            "spec": {"podgroups": self.pod_groups(name, pods)},
        }

    def pod_groups(self, podgang: str, pods: Sequence[Manifest]) -> list[Manifest]:
        """The members of a PodGang, with those of the pods that are theirs."""
        return [
            {
                "name": clique.name,
                "minReplicas": clique.minimum,
                "podReferences": self.references(podgang, clique.name, pods),
            }
            for clique in self.cliques
            if clique.podgang == podgang
        ]

    def references(self, podgang: str, clique: str, pods: Sequence[Manifest]) -> list[Manifest]:
        """Those of the pods that a PodClique controls, by uid as Grove's operator asks."""
        uid = self._pod_cliques[clique]["metadata"]["uid"] if clique in self._pod_cliques else None
        names = sorted(pod["metadata"]["name"] for pod in pods if uid in _controllers(pod))
        return [{"namespace": self.namespace, "name": name} for name in names]


def owner_reference(owner: Manifest) -> Manifest:
    """The reference by which an object has another one as its controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_index(pod: Manifest) -> int:
    """Which pod of its PodClique one is."""
    return int(pod["spec"]["hostname"].rpartition("-")[2])


def _controllers(raw: Manifest) -> list[str]:
    return [owner["uid"] for owner in raw["metadata"].get("ownerReferences", []) if owner.get("controller")]


def _label(key: str) -> Manifest:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{key}']"}}
