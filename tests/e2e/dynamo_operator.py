"""Plays Dynamo's operator: the kind DynamoGraphDeployment, and the PodCliqueSet that it makes of one for Grove.

Source: ai-dynamo/dynamo, deploy/operator, internal/dynamo/graph.go, internal/controller/dgd_workload_provider.go. The
PodCliqueSet has the name of the graph. A component on one node is a clique, whose minimum is 1 or its minAvailable. A
component on several is a scaling group of a leader and workers, each of which needs all of its pods.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.e2e.control_plane import Manifest
from tests.e2e.grove_operator import owner_reference
from tests.e2e.opted_in_workloads import pod_template

GROUP, KIND, PLURAL = "nvidia.com", "DynamoGraphDeployment", "dynamographdeployments"
_LABEL = "nvidia.com/dynamo-component"


def definition() -> Manifest:
    """A CustomResourceDefinition that keeps every field. Between the versions the API server changes only the
    apiVersion.
    """
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1beta1", "schema": schema}
        for name in ("v1beta1", "v1alpha1")
    ]
    names = {"kind": KIND, "plural": PLURAL, "singular": KIND.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": versions},
    }


def component(name: str, *, nodes: int = 1, **fields: Any) -> Manifest:
    """A component of one replica, as v1beta1 writes it. Each of its pods needs one CPU."""
    multinode = {"multinode": {"nodeCount": nodes}} if nodes > 1 else {}
    return {"name": name, "type": "worker", "replicas": 1, "podTemplate": pod_template(), **multinode, **fields}


def graph(name: str, namespace: str, *components: Manifest) -> Manifest:
    """A DynamoGraphDeployment of v1beta1."""
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": KIND,
        "metadata": metadata,
        "spec": {"components": list(components)},
    }


def older_graph(name: str, namespace: str, **services: Manifest) -> Manifest:
    """A DynamoGraphDeployment of v1alpha1."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "metadata": metadata, "spec": {"services": services}}


def pod_clique_set_of(stored: Manifest) -> Manifest:
    """The PodCliqueSet that Dynamo's operator makes of a stored graph of v1beta1."""
    cliques: list[Manifest] = []
    groups: list[Manifest] = []
    for one in stored["spec"]["components"]:
        name, needed = one["name"].lower(), one.get("minAvailable", 1)
        nodes = one.get("multinode", {}).get("nodeCount", 1)
        if nodes == 1:
            cliques.append(_clique(name, one, one["replicas"], needed))
            continue
        members = [_clique(f"{name}-ldr", one, 1, 1), _clique(f"{name}-wkr", one, nodes - 1, nodes - 1)]
        cliques += members
        named = [member["name"] for member in members]
        groups.append({"name": name, "cliqueNames": named, "replicas": one["replicas"], "minAvailable": needed})
    template: Manifest = {"cliqueStartupType": "CliqueStartupTypeAnyOrder", "cliques": cliques}
    if groups:
        template["podCliqueScalingGroups"] = groups
    metadata = {key: stored["metadata"][key] for key in ("name", "namespace")}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {**metadata, "ownerReferences": [owner_reference(stored)]},
        "spec": {"replicas": 1, "template": template},
    }


def _clique(name: str, one: Manifest, pods: int, needed: int) -> Manifest:
    spec = {
        "roleName": name,
        "replicas": pods,
        "minAvailable": needed,
        "podSpec": deepcopy(one["podTemplate"]["spec"]),
    }
    return {"name": name, "labels": {_LABEL: one["name"]}, "spec": spec}
