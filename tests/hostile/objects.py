"""Bodies that are cheap for their sender and expensive for a careless server. All of them can come through an API
server, except those that are sent to /check.
"""

from __future__ import annotations

import json
from typing import Any

Manifest = dict[str, Any]

# What an API server takes at most in one request; an UPDATE carries the object twice.
LEGAL_BYTES = 3_000_000


def alias_documents(documents: int = 25) -> bytes:
    """YAML documents of some 750 bytes, each of which expands its aliases to a million values."""
    lines = ["a0: &a0 [" + ",".join("x" * 10) + "]"]
    lines += [f"a{level}: &a{level} [" + ",".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, 6)]
    document = "\n".join(["apiVersion: grove.io/v1alpha1", "kind: PodCliqueSet", *lines])
    return "\n---\n".join([document] * documents).encode()


def yaml_of_empty_lists(size: int = 5_000_000) -> bytes:
    """One YAML document that is a list of empty lists."""
    return b"kind: List\nitems: [" + b"[]," * (size // 3) + b"[]]"


def json_of_empty_lists(size: int) -> bytes:
    """An AdmissionReview that holds one list of empty lists."""
    review = _review(_pod_clique_set("lists", [_clique("a")]) | {"spec": {"template": {"cliques": ["lists"]}}})
    return review.replace(b'"lists"]', b",".join([b"[]"] * (size // 3)) + b"]")


def suffix_pair(cliques: int = 6_000) -> bytes:
    """A set of many cliques; the name of one of them ends another's."""
    names = [f"c{number:05}" for number in range(cliques - 2)]
    return _review(_pod_clique_set("suffixes", [_clique(name) for name in [*names, "worker", "a-worker"]]))


def groups_over_cliques(number: int = 300) -> bytes:
    """As many scaling groups as cliques, each of which names all cliques."""
    names = [f"c{index:03}" for index in range(number)]
    groups = [{"name": f"g{index:03}", "cliqueNames": names, "replicas": 1} for index in range(number)]
    return _review(_pod_clique_set("groups", [_clique(name) for name in names], groups=groups))


def absent_cliques(groups: int = 24, names: int = 27) -> bytes:
    """Scaling groups that name the same cliques, of which there is none: two faults for each name, in few bytes."""
    listed = [f"c{index:02}" for index in range(names)]
    made = [{"name": f"g{index:02}", "cliqueNames": listed} for index in range(groups)]
    return _review(_pod_clique_set("absent", [_clique("worker")], groups=made))


def constrained_cliques(cliques: int = 800) -> bytes:
    """A topology constraint on every clique, and none that says of which topology."""
    constraint = {"topologyConstraint": {"packDomain": "rack"}}
    return _review(_pod_clique_set("packed", [_clique(f"c{number:05}") | constraint for number in range(cliques)]))


def largest_set(size: int = LEGAL_BYTES, *, denied: bool = False) -> bytes:
    """An UPDATE of about `size` bytes that changes one of thousands of cliques; with `denied` each has a fault."""
    each = 420
    cliques = [_clique(f"c{number:05}") for number in range(size // 2 // each)]
    if denied:
        for clique in cliques:
            clique["labels"] = {"koordinator.sh/qosClass": "wrong"}
    new = _pod_clique_set("largest", cliques)
    new["metadata"]["labels"] = {"rollcall.dev/scheduler": "koord-scheduler"}
    old = json.loads(json.dumps(new))
    cliques[-1]["spec"]["replicas"] = 2
    return _review(new, old)


def empty_jobs(jobs: int = 100_000) -> bytes:
    """A JobSet of so many replicated Jobs that are empty objects: the body is small, and judging it would not be."""
    manifest = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "x", "namespace": "default", "labels": {"rollcall.dev/scheduler": "koord-scheduler"}},
        "spec": {"replicatedJobs": [{}] * jobs},
    }
    return _review(manifest)


def ordinary(name: str = "ordinary") -> bytes:
    """A small set that is fine."""
    return _review(_pod_clique_set(name, [_clique("leader"), _clique("worker")]))


def _clique(name: str) -> Manifest:
    container = {"name": "main", "image": "registry.example.com/main:1.0", "resources": {"requests": {"cpu": "1"}}}
    spec = {"roleName": name, "replicas": 1, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec}


def _pod_clique_set(name: str, cliques: list[Manifest], *, groups: list[Manifest] | None = None) -> Manifest:
    template: Manifest = {"cliques": cliques, "podCliqueScalingGroups": groups or []}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "template": template},
    }


def _review(manifest: Manifest, old: Manifest | None = None) -> bytes:
    group, _, version = manifest["apiVersion"].partition("/")
    kind = {"group": group, "version": version, "kind": manifest["kind"]}
    request = {
        "uid": "00000000-0000-4000-8000-000000000000",
        "kind": kind,
        "operation": "CREATE" if old is None else "UPDATE",
        "name": manifest["metadata"]["name"],
        "namespace": "default",
        "object": manifest,
        "oldObject": old,
        "userInfo": {"username": "alice"},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()
