"""What Grove's operator creates from the set `demo`: PodCliques, and pods that it lists in their PodGangs."""

from __future__ import annotations

from typing import Any

from tests.unit.reconciler.cluster import PODS, WritableWorld

GANGS = "/apis/scheduler.grove.io/v1alpha1/podgangs"
CLIQUES, SCALING_GROUPS = "/apis/grove.io/v1alpha1/podcliques", "/apis/grove.io/v1alpha1/podcliquescalinggroups"


def controlled_by(kind: str, name: str, uid: str) -> list[dict[str, Any]]:
    """The owner references of what an object of Grove's made."""
    return [{"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}]


def pod_clique(name: str, namespace: str = "team-a") -> dict[str, Any]:
    owners = controlled_by("PodCliqueSet", "demo", f"set-{namespace}")
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"clique-{name}", "ownerReferences": owners},
        "spec": {},
    }


def put_with_cliques(cluster: WritableWorld, gang: dict[str, Any]) -> None:
    """The PodCliques of a PodGang, and then the PodGang: without them it would get no gang objects."""
    namespace = gang["metadata"]["namespace"]
    for group in gang["spec"]["podgroups"]:
        if cluster.get(CLIQUES, namespace, group["name"]) is None:
            cluster.put(CLIQUES, pod_clique(group["name"], namespace))
    cluster.put(GANGS, gang)


def grove_pod(name: str, clique: str = "demo-0-a", gang: str = "demo-0", **spec: Any) -> dict[str, Any]:
    """A pod of a PodClique, which nothing names yet."""
    labels = {
        "app.kubernetes.io/managed-by": "grove-operator",
        "grove.io/podgang": gang,
        "grove.io/podclique": clique,
    }
    owners = controlled_by("PodClique", clique, f"clique-{clique}")
    metadata = {"name": name, "namespace": "team-a", "uid": name, "labels": labels, "ownerReferences": owners}
    return {"metadata": metadata, "spec": spec}


def name_pods(cluster: WritableWorld) -> None:
    """Grove's operator names in each PodGang the pods that its PodCliques made."""
    for gang in list(cluster.objects.get(GANGS, [])):
        groups = [
            {**group, "podReferences": _references(cluster, gang["metadata"]["name"], group["name"])}
            for group in gang["spec"]["podgroups"]
        ]
        cluster.apply(GANGS, {"metadata": dict(gang["metadata"]), "spec": {"podgroups": groups}})


def _references(cluster: WritableWorld, gang: str, clique: str) -> list[dict[str, str]]:
    return [
        {"namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"]}
        for pod in cluster.objects.get(PODS, [])
        if pod["metadata"]["labels"].get("grove.io/podgang") == gang
        and pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == f"clique-{clique}"
    ]


def put_pods(cluster: WritableWorld, *pods: dict[str, Any]) -> None:
    """Pods come, and are named."""
    for pod in pods:
        cluster.put(PODS, pod)
    name_pods(cluster)
