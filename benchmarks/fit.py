"""`python -m benchmarks.fit`: one decision about a gang of 1,000 pods in a cluster of 5,000 nodes of 40 shapes, against
the same decision where no node is known.

A rack has nodes of one shape, a row has racks of several shapes. Each call parses the review. The 99th percentile is
that of all calls; a node changes before every hundredth call, each other time in what every gang sees: its memory. Then
what is remembered of the nodes is worked out again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any

import orjson

from benchmarks.decision import settings
from benchmarks.reviews import pod_clique_set_review
from benchmarks.servers import ONE_PROFILE
from webhook import admission
from webhook.admission.decision import request_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import Namespace, TopologyBinding, TopologyLayer
from webhook.model.nodes import Node, Nodes, node_of

_NODES, _SHAPES, _PER_RACK, _ROWS, _PODS = 5_000, 40, 36, 36, 1_000
_CALLS, _CHANGED = 2_000, 100
_RACK, _ROW, _SHAPE = "example.com/rack", "example.com/row", "example.com/shape"
_HOST, _GPU = "kubernetes.io/hostname", "nvidia.com/gpu"


def _node(index: int, labels: dict[str, str] | None = None, more: int = 0) -> Node:
    """A node: every shape has another amount of memory and cpu, and a quarter of them no GPU."""
    rack = index // _PER_RACK
    shape = rack % _SHAPES
    amounts = {"cpu": str(32 + 4 * shape), "memory": f"{256 + 16 * shape + more}Gi", "pods": "110"}
    if shape % 4:
        amounts[_GPU] = "8"
    name = f"node-{index}"
    own = {_HOST: name, _RACK: f"rack-{rack}", _ROW: f"row-{rack % _ROWS}", _SHAPE: f"shape-{shape}"}
    own |= labels or {}
    return node_of({"metadata": {"name": name, "labels": own}, "status": {"allocatable": amounts, "capacity": amounts}})


def cluster() -> ClusterFacts:
    """A cluster of many nodes in racks, with the topology objects of Koordinator."""
    known = Nodes((f"node-{index}", _node(index)) for index in range(_NODES))
    layers = (
        TopologyLayer("row", None, (_ROW,)),
        TopologyLayer("rack", "row", (_RACK,)),
        TopologyLayer("NodeTopologyLayer", "rack", ()),
    )
    return replace(
        NO_FACTS,
        namespaces={"default": Namespace({})},
        nodes=known,
        topology_bindings={"dc": TopologyBinding({"row": _ROW, "rack": _RACK})},
        network_topologies={"default": layers},
    )


def review(gpus: int, within: str = "", shape: str = "") -> bytes:
    """The review of a set of one gang with two roles, 1,000 pods in all: within a domain, or on nodes of one shape."""
    found: dict[str, Any] = orjson.loads(pod_clique_set_review())
    metadata = {
        "name": "bench",
        "namespace": "default",
        "labels": {"rollcall.dev/scheduler": "koord-scheduler"},
    }
    selector = {"nodeSelector": {_SHAPE: shape}} if shape else {}
    cliques = [_clique("leader", 10, 0, selector), _clique("worker", _PODS - 10, gpus, selector)]
    template: dict[str, Any] = {"cliques": cliques}
    if within:
        template["topologyConstraint"] = {"topologyName": "dc", "pack": {"required": within}}
    found["request"]["object"] = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata,
        "spec": {"replicas": 1, "template": template},
    }
    return orjson.dumps(found)


def _clique(name: str, replicas: int, gpus: int, pod: dict[str, Any]) -> dict[str, Any]:
    requests = {"cpu": "8", "memory": "64Gi", **({_GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "example.com/main", "resources": {"requests": requests, "limits": requests}}
    spec = {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container], **pod}}
    return {"name": name, "spec": spec}


def _decide(body: bytes, facts: ClusterFacts, used: Settings) -> Verdict:
    return admission.validate(request_from(orjson.loads(body)), facts, used)


def _times(call: Callable[[], object], between: Callable[[int], object]) -> list[float]:
    """The milliseconds of each call, sorted."""
    found = []
    for index in range(_CALLS):
        if index % _CHANGED == 0:
            between(index)
        begun = thread_time()
        call()
        found.append((thread_time() - begun) * 1e3)
    return sorted(found)


def _change(facts: ClusterFacts, index: int) -> None:
    if facts.nodes is not None:
        number = index // _CHANGED
        facts.nodes["node-7"] = _node(7, {"example.com/changed": str(index)}, more=number // 2)


def main() -> None:
    used = replace(settings(ONE_PROFILE, "koord-scheduler"), standalone=False)
    known = cluster()
    worlds = {"no nodes": replace(known, nodes=None), "5,000 nodes": known}
    bodies = {
        "fits": review(8),
        "too large": review(16),
        "too many": review(8, shape="shape-1"),
        "in a rack": review(8, "rack"),
        "in a row": review(8, "row"),
    }
    print(f"{'validate':<12}{'world':<14}{'median':>9}{'p99':>9}{'most':>9}   milliseconds")
    for title, body in bodies.items():
        medians = []
        for name, facts in worlds.items():
            verdict = _decide(body, facts, used)
            times = _times(partial(_decide, body, facts, used), partial(_change, facts))
            medians.append(times[len(times) // 2])
            said = ", ".join(found.rule for found in verdict.findings) or "nothing found"
            print(
                f"{title:<12}{name:<14}{medians[-1]:>9.3f}{times[-len(times) // 100]:>9.3f}{times[-1]:>9.3f}   {said}"
            )
        print(f"{'':<12}{'ratio':<14}{medians[1] / medians[0]:>9.2f}")


if __name__ == "__main__":
    main()
