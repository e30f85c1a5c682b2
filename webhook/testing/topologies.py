"""Checks of topology objects. They are of the declared kind and owned by their ClusterTopologyBinding. An object that
the binding leaves to others is not made. An unchanged object is reported as equal.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.backends.base import Backend
from webhook.errors import Inexpressible
from webhook.model import grove
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL
from webhook.model.grove import ClusterTopologyBinding
from webhook.model.projections import TOPOLOGY_BINDINGS, Resource
from webhook.model.reading import Malformed, Manifest
from webhook.model.topology_tree import DriftReason, TopologyDrift
from webhook.testing.strategies import damaged
from webhook.testing.suite import GENERATED, Configuration, Suite, require

_UID = "uid-of-the-binding"
_RACKS = ("example.com/rack", "kubernetes.io/hostname")
# Levels as Grove's CRD accepts them, each list a different topology: one level, several, another order.
_LEVELS = (_RACKS, ("example.com/zone", *_RACKS), ("example.com/rack", "example.com/zone"), ("rack",))


def binding(*keys: str, name: str = "dc", references: dict[str, str] | None = None) -> ClusterTopologyBinding:
    """Returns a ClusterTopologyBinding with those node label keys, broadest first."""
    spec: Manifest = {"levels": [{"domain": f"level-{index}", "key": key} for index, key in enumerate(keys)]}
    if references:
        spec["schedulerTopologyBindings"] = [
            {"schedulerName": scheduler, "topologyReference": kept} for scheduler, kept in references.items()
        ]
    return ClusterTopologyBinding({"metadata": {"name": name, "uid": _UID}, "spec": spec})


_SECOND_TIME = (
    "the same binding gives another object the second time",
    "translate from the binding, and the nodes, alone: no counter, clock, random number or state",
)
# Three racks in two zones. The last two have the same value in different zones.
_PLACES = (("z1", "r1"), ("z1", "r1"), ("z1", "r2"), ("z2", "r2"))
_LABELS = {
    f"node-{number}": {"example.com/zone": zone, "example.com/rack": rack}
    for number, (zone, rack) in enumerate(_PLACES)
}


class TopologyChecks(Suite):
    """Checks of the methods for topology objects, from a binding alone or from nodes."""

    def test_a_topology_object_is_of_the_declared_kind_and_belongs_to_its_binding(
        self, configuration: Configuration
    ) -> None:
        backend = self.configured(configuration)
        kind: object = backend.topology_kind
        require(
            kind is None or (isinstance(kind, Resource) and not kind.namespaced),
            f"topology_kind is {kind!r}",
            "set it to the Resource of a cluster-scoped kind, because the owning binding is cluster-scoped; or to None",
        )
        require(
            backend.topology_kind is None
            or backend.topology_from_nodes
            or _topology_object(backend, binding(*_RACKS)) is not None,
            f"topology_kind is {kind}, but no object is made for a binding with the levels {', '.join(_RACKS)}",
            "make an object for it in topology_objects, or set topology_kind to None",
        )
        for keys in _LEVELS:
            for name in ("dc", "a" * 253):
                given_binding = binding(*keys, name=name)
                manifest = _topology_object(backend, given_binding)
                if manifest is not None:
                    _is_owned(backend, given_binding, manifest)
                    require(backend.topology_objects(given_binding) == [manifest], *_SECOND_TIME)

    def test_a_topology_object_of_another_system_is_compared_and_not_made(self, configuration: Configuration) -> None:
        backend = self.configured(configuration)
        if backend.topology_kind is None or backend.topology_from_nodes:
            return
        kept = binding(*_RACKS, references={backend.name: "kept-elsewhere"})
        require(
            not backend.topology_objects(kept),
            f"an object is made for a binding whose schedulerTopologyBindings already names one for {backend.name}",
            "return an empty list where binding.references has the backend's name",
        )
        drift = backend.topology_drift(kept, None)
        require(
            drift is not None and (drift.name, drift.reason) == ("kept-elsewhere", DriftReason.NOT_FOUND),
            f"for a missing object that another system maintains, topology_drift returned {drift!r}",
            "return a TopologyDrift with the name in binding.references and DriftReason.NOT_FOUND",
        )
        manifest = _topology_object(backend, binding(*_RACKS))
        require(
            manifest is None or backend.topology_drift(kept, manifest) is None,
            "an object of another system with exactly the levels of the binding is reported as drift",
            "compare the levels, not the owner of the object",
        )

    def test_a_topology_object_is_in_step_as_it_was_made_and_not_after_a_change(
        self, configuration: Configuration
    ) -> None:
        backend = self.configured(configuration)
        objects = {
            keys: manifest for keys in _LEVELS if (manifest := _topology_object(backend, binding(*keys))) is not None
        }
        for keys, desired in objects.items():
            for others, live in objects.items():
                drift = backend.topology_drift(binding(*keys), live)
                remade = backend.topology_must_be_remade(desired, live)
                case = f"for a binding with the levels {', '.join(keys)} and an object with {', '.join(others)}"
                if keys == others:
                    require(
                        drift is None and not remade,
                        f"{case} topology_drift returns {drift!r}, topology_must_be_remade {remade}",
                        "return None and False for an object that was just made; else it is written for ever",
                    )
                    continue
                require(
                    isinstance(drift, TopologyDrift)
                    and drift.reason is DriftReason.DRIFT
                    and bool(drift.message)
                    and "\n" not in drift.message,
                    f"{case} topology_drift returns {drift!r}",
                    "return a TopologyDrift with DriftReason.DRIFT and one line that names both",
                )
                require(
                    remade or backend.topology_drift(binding(*keys), backend.adopt(desired, live)) is None,
                    f"{case} adopt returns an object that still differs",
                    "let adopt set everything that the binding states, or let topology_must_be_remade return True",
                )

    def test_a_topology_from_nodes_belongs_to_its_binding_and_agrees_with_it(
        self, configuration: Configuration
    ) -> None:
        backend = self.configured(configuration)
        if not backend.topology_from_nodes or backend.topology_kind is None:
            return
        given_binding = binding("example.com/zone", "example.com/rack")
        topology = backend.node_topology_objects(given_binding, _LABELS, {})
        for manifest in topology.objects:
            _is_owned(backend, given_binding, manifest)
        live = {manifest["metadata"]["name"]: manifest for manifest in topology.objects}
        require(
            len(live) == len(topology.objects) > 0,
            f"{len(topology.objects)} objects have {len(live)} names",
            "make at least one object for labelled nodes, each with a name of its own",
        )
        require(backend.node_topology_objects(given_binding, _LABELS, {}) == topology, *_SECOND_TIME)
        drift = backend.node_topology_drift(given_binding, _LABELS, live)
        require(
            drift is None,
            f"for the objects that were just made, node_topology_drift returns {drift!r}",
            "return None for them; else a problem is reported for ever",
        )
        fewer = {name: labels for name, labels in _LABELS.items() if name != "node-0"}
        drift = backend.node_topology_drift(given_binding, fewer, live)
        require(
            isinstance(drift, TopologyDrift) and bool(drift.message) and "\n" not in drift.message,
            f"for a node that is gone, node_topology_drift returns {drift!r}",
            "return a TopologyDrift with one line that says what differs",
        )
        first = topology.objects[0]["metadata"]["name"]
        others = backend.node_topology_objects(given_binding, _LABELS, {first: {"metadata": {"name": first}}})
        require(
            first in others.left_out and first not in {manifest["metadata"]["name"] for manifest in others.objects},
            f"an object of another author has the name {first}, and it is made",
            "leave out the names of `live`, and return them as left_out",
        )

    @GENERATED
    @given(data=st.data())
    def test_a_topology_object_survives_whatever_is_in_the_cluster(
        self, configuration: Configuration, data: st.DataObject
    ) -> None:
        backend = self.configured(configuration)
        keys = data.draw(st.sampled_from(_LEVELS))
        desired = _topology_object(backend, binding(*keys))
        if desired is None:
            return
        # The drawn objects alone would find some faults only by luck.
        for live in ({}, {"spec": None}, {"metadata": None}, data.draw(damaged(desired))):
            _survives(backend, binding(*keys), desired, live)


def _survives(backend: Backend[Any], given_binding: ClusterTopologyBinding, desired: Manifest, live: Manifest) -> None:
    desired_copy, live_copy = deepcopy(desired), deepcopy(live)
    try:
        backend.topology_must_be_remade(desired_copy, live_copy)
        backend.topology_drift(given_binding, live_copy)
        adopted = backend.adopt(desired_copy, live_copy)
        again = backend.adopt(desired, deepcopy(adopted))
    except Malformed:
        # A field of the wrong type, reported as such: nothing is written.
        return
    except Exception as error:
        wrong = f"topology_must_be_remade, topology_drift or adopt raised {error!r} for the live object {live}"
        raise AssertionError(f"{wrong}; read it with webhook.model.reading") from error
    require(
        (desired_copy, live_copy) == (desired, live),
        "the backend changed one of its arguments",
        "return a copy with the changes",
    )
    require(
        adopted["metadata"] == desired["metadata"],
        "adopt changed the metadata of a topology object, so it may no longer be recognised as ours",
        "take single fields of the spec from `live`",
    )
    require(
        again == adopted,
        "a topology object that was just written would be written again, in an endless loop",
        "adopt only fields of `live` that stay the same after the write",
    )


def _topology_object(backend: Backend[Any], given_binding: ClusterTopologyBinding) -> Manifest | None:
    """Returns the object of a binding; None if it has none, or it cannot be expressed."""
    try:
        objects = backend.topology_objects(given_binding)
    except Inexpressible:
        return None
    require(
        len(objects) <= 1,
        f"topology_objects made {len(objects)} objects of one binding",
        "make one at most: a binding's schedulerTopologyBindings names one for each scheduler",
    )
    return objects[0] if objects else None


def _is_owned(backend: Backend[Any], given_binding: ClusterTopologyBinding, manifest: Manifest) -> None:
    kind, metadata = backend.topology_kind, manifest["metadata"]
    title = f"{manifest['kind']} {metadata['name'][:20]}"
    declared = None if kind is None else (f"{kind.api.group}/{kind.api.version}", kind.api.kind)
    require(
        declared == (manifest["apiVersion"], manifest["kind"]),
        f"topology_objects makes a {manifest['kind']}, and topology_kind is {kind}",
        "set topology_kind to its Resource: a reconciler watches and may write only that kind",
    )
    require(
        isinstance(manifest.get("spec"), dict)
        and manifest.keys() <= {"apiVersion", "kind", "metadata", "spec"}
        and metadata.keys() <= {"name", "labels", "annotations", "ownerReferences"},
        f"{title} has {', '.join(sorted({*manifest, *metadata}))}",
        "give it name, labels, annotations, ownerReferences and a spec, and leave out fields that other writers set",
    )
    require(
        metadata.get("labels", {}).get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL,
        f"{title} does not have {grove.LABEL_MANAGED_BY}: {MANAGED_BY_ROLLCALL}, so nothing would change it later",
        "put the label on it",
    )
    owners = [reference for reference in metadata.get("ownerReferences", []) if reference.get("controller") is True]
    expected = (TOPOLOGY_BINDINGS.resource.api.kind, given_binding.name, given_binding.uid)
    require(
        [(reference.get("kind"), reference.get("name"), reference.get("uid")) for reference in owners] == [expected],
        f"{title} is not controlled by its ClusterTopologyBinding, so nothing would remove it",
        "give it one ownerReference with controller: true",
    )
