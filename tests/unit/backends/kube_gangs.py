"""The kinds that clusters serve of the Workload API, and gangs for kube-scheduler, for the tests of its backend."""

from __future__ import annotations

from typing import Any

from tests.unit.backends.pod_gangs import OWNER
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import COMPOSITE, COMPOSITE_BETA, GROUP, KubeSettings
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.reading import Manifest

V1ALPHA1 = frozenset({Api(GROUP, "v1alpha1", "Workload")})
V1ALPHA2 = frozenset(Api(GROUP, "v1alpha2", kind) for kind in ("Workload", "PodGroup"))
V1BETA1 = frozenset(Api(GROUP, "v1beta1", kind) for kind in ("Workload", "PodGroup"))
TREE = V1BETA1 | {COMPOSITE}
# What 1.38 serves.
BETA_TREE = V1BETA1 | {COMPOSITE_BETA}
# What every cluster serves of the group, and what a file of CRDs says.
NEITHER = frozenset({Api(GROUP, "v1", "PriorityClass")})
COORDINATED = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
RECORD = Record("default-scheduler")


def backend(**config: Any) -> KubeBackend:
    return KubeBackend(KubeSettings(gangScheduling=True, **config))


def member(name: str, minimum: int, pods: int = 0, **fields: Any) -> Manifest:
    references = [{"namespace": "ml", "name": f"{name}-{index}"} for index in range(pods)]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **fields}


def constraint(required: str | None = None, preferred: str | None = None) -> Manifest:
    pack = {"required": required, "preferred": preferred}
    return {"topologyConstraint": {"packConstraint": {key: value for key, value in pack.items() if value}}}


def podgang(*members: Manifest, labels: Manifest | None = None, name: str = "demo-0", **spec: Any) -> PodGang:
    metadata = {"name": name, "namespace": "ml", "uid": "u-1", "labels": labels or {}, "ownerReferences": [OWNER]}
    return PodGang({"kind": "PodGang", "metadata": metadata, "spec": {"podgroups": list(members), **spec}})


def bare(objects: list[Manifest]) -> list[Manifest]:
    """Without the fields that all objects have in common; another test covers them."""
    return [{"is": _title(found), **found["spec"]} for found in objects]


def _title(found: Manifest) -> str:
    version = found["apiVersion"].removeprefix("scheduling.k8s.io/")
    return f"{version} {found['kind']} {found['metadata']['name']}"


def made(gang: PodGang, apis: frozenset[Api], record: Record = RECORD, **config: Any) -> list[Manifest]:
    used = backend(**config)
    facts = ClusterFacts(apis=apis)
    return [used.adopt(found, None) for found in used.gang_objects(gang, record, facts)]


TWO = (member("demo-0-lead", 1, 1), member("demo-0-wrk", 4, 4))
