"""Checks of the topology objects that the configuration has made from one ClusterTopologyBinding, and of the labels of
nodes that they depend on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.base import Backend
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed
from webhook.doctor.parts import NODES, TOPOLOGY_BINDINGS, Part
from webhook.doctor.snapshot import Snapshot
from webhook.errors import Inexpressible
from webhook.model.projections import labels_of, name_of
from webhook.model.reading import Manifest
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_tree import NodeLabels, tree_of

_ZONE, _RACK = "example.com/zone", "example.com/rack"
_FED = {"name": "koord-scheduler", "config": {"topologyBinding": "dc"}}


def _binding() -> Manifest:
    levels = [{"domain": "zone", "key": _ZONE}, {"domain": "rack", "key": _RACK}]
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": "dc"}}
    return {**head, "spec": {"levels": levels}}


def _node(name: str, **labels: str) -> Manifest:
    found = {f"example.com/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": found}}


def _layers(*layers: Mapping[str, Any]) -> Manifest:
    head = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "ClusterNetworkTopology"}
    return {**head, "metadata": {"name": "default"}, "spec": {"networkTopologySpec": list(layers)}}


_RACKS = (
    {"topologyLayer": "rack", "labelKey": [_RACK]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
)
_CHAIN = (
    {"topologyLayer": "zone", "labelKey": [_ZONE]},
    {"topologyLayer": "rack", "parentTopologyLayer": "zone", "labelKey": [_RACK]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
)


def _fed(snapshot: Snapshot) -> Iterator[tuple[Backend[Any], ClusterTopologyBinding]]:
    """Each scheduler whose topology one binding feeds, with that binding if it exists."""
    bindings = {name_of(raw): raw for raw in snapshot.all(TOPOLOGY_BINDINGS)}
    for profile in snapshot.settings.profiles.values():
        backend = profile.backend
        if backend.topology_kind is not None and (name := backend.topology_binding) and name in bindings:
            yield backend, ClusterTopologyBinding(bindings[name])


def _labels(snapshot: Snapshot) -> NodeLabels:
    return {name_of(raw): labels_of(raw) for raw in snapshot.all(NODES)}


@check(
    "topologies/binding",
    level=Level.WARNING,
    passes=lambda: installed(_binding(), settings=configured(_FED)),
    fails=lambda: installed(settings=configured(_FED)),
)
def binding(snapshot: Snapshot) -> Symptoms:
    """The ClusterTopologyBinding that a profile's topologyBinding names exists, and a profile with topologyObjects
    `write` names one. Otherwise the scheduler's topology is neither compared nor written.

    Source: webhook/reconciler/topologies.py.
    """
    known = {name_of(raw) for raw in snapshot.all(TOPOLOGY_BINDINGS)}
    for name, profile in snapshot.settings.profiles.items():
        backend = profile.backend
        if backend.topology_kind is None or backend.topology_binding is None or backend.topology_binding in known:
            continue
        kind = backend.topology_kind.api.kind
        named = backend.topology_binding
        yield Symptom(
            f"profile {name}, topologyBinding",
            f"ClusterTopologyBinding {named} does not exist" if named else "it names no ClusterTopologyBinding",
            f"no {kind} is compared or written for {name}",
            "name an existing ClusterTopologyBinding, or create it",
        )


@check(
    "topologies/labels",
    level=Level.WARNING,
    passes=lambda: installed(_binding(), _node("n1", zone="z1", rack="r1"), settings=configured(_FED)),
    fails=lambda: installed(
        _binding(), _node("n1", zone="z1", rack="r1"), _node("n2", zone="z1"), settings=configured(_FED)
    ),
)
def labels(snapshot: Snapshot) -> Symptoms:
    """The labels of the nodes form the levels of the ClusterTopologyBinding that feeds a scheduler's topology: each
    node has each label, no value is below two parents, no level is empty, and the broader level is listed first.

    Source: volcano-sh/volcano, pkg/scheduler/api/hyper_node_info.go (v1.15.1); koordinator-sh/koordinator,
    pkg/scheduler/frameworkext/networktopology/tree.go (v1.8.0).
    """
    found = {one.name: one for _, one in _fed(snapshot)}
    for name, one in found.items():
        for problem in tree_of(one, _labels(snapshot)).problems:
            yield Symptom(
                f"ClusterTopologyBinding {name}",
                problem.message,
                "a gang that must be in one domain does not get the nodes that it could have",
                "label the nodes, or change the levels of the binding",
            )


@check(
    "topologies/objects",
    level=Level.WARNING,
    passes=lambda: installed(_binding(), _layers(*_CHAIN), settings=configured(_FED)),
    fails=lambda: installed(_binding(), _layers(*_RACKS), settings=configured(_FED)),
)
def objects(snapshot: Snapshot) -> Symptoms:
    """The topology objects of a scheduler have the levels of the ClusterTopologyBinding that feeds them, and Volcano's
    HyperNodes also the nodes.

    Source: webhook/backends/koordinator/network_topology.py, webhook/backends/volcano/hyper_nodes.py.
    """
    for backend, one in _fed(snapshot):
        if (found := _difference(snapshot, backend, one)) is not None:
            yield Symptom(
                f"ClusterTopologyBinding {one.name}, {backend.name}",
                found,
                "the scheduler places gangs by another topology than their workloads name",
                "change the object, or set the profile's topologyObjects to write",
            )


def _difference(snapshot: Snapshot, backend: Backend[Any], one: ClusterTopologyBinding) -> str | None:
    if backend.topology_kind is None:
        return None
    live = {name_of(raw): raw for raw in snapshot.all(Part(backend.topology_kind))}
    try:
        if backend.topology_from_nodes:
            drift = backend.node_topology_drift(one, _labels(snapshot), live)
        else:
            made = backend.topology_objects(one)
            named = one.references.get(backend.name) or (name_of(made[0]) if made else "")
            drift = backend.topology_drift(one, live.get(named))
    except Inexpressible as refusal:
        return str(refusal)
    return None if drift is None else drift.message
