"""Checks of what the configuration covers: Rollcall's labels on namespaces, its exceptions, and the topology objects
that it has made from one ClusterTopologyBinding, with the labels of nodes that they depend on.

An exception ends by itself, and what it covered is refused again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.base import Backend
from webhook.config.settings import ENFORCEMENT_LABEL
from webhook.errors import Inexpressible
from webhook.installation.names import EXEMPT_LABEL
from webhook.model.findings import ANNOUNCED, Action, RuleException
from webhook.model.grove import ClusterTopologyBinding
from webhook.model.projections import labels_of, name_of
from webhook.model.reading import Manifest
from webhook.model.topology_tree import NodeLabels, tree_of
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.operations import diagnosis
from webhook.operations.snapshot import NAMESPACES, NODES, TOPOLOGY_BINDINGS, Snapshot, SnapshotPart


def _labelled(snapshot: Snapshot, key: str) -> Iterator[tuple[str, str]]:
    for raw in snapshot.all(NAMESPACES):
        labels = labels_of(raw)
        if key in labels:
            yield name_of(raw), str(labels[key])


@diagnosis.check(
    "namespaces/scheduler",
    passes=lambda: diagnosis.installed(diagnosis.namespace("team-b", scheduler="koord-scheduler")),
    fails=lambda: diagnosis.installed(diagnosis.namespace("team-b", scheduler="koord-schedular")),
)
def scheduler(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The label rollcall.dev/scheduler of a namespace names a profile of the configuration. Otherwise new workloads
    there that name no scheduler are refused, which shows only when one is applied.

    Source: rule rollcall/scheduler-unknown.
    """
    profiles = ", ".join(snapshot.settings.profiles)
    for name, value in _labelled(snapshot, SCHEDULER_LABEL):
        if value not in snapshot.settings.profiles:
            yield diagnosis.Symptom(
                f"Namespace {name}",
                f"{SCHEDULER_LABEL}={value}, which is not a profile",
                "every new workload there that does not name a scheduler itself is refused",
                f"set it to one of {profiles}, or enable {value} in the configuration",
            )


@diagnosis.check(
    "namespaces/enforcement",
    passes=lambda: diagnosis.installed(diagnosis.namespace("team-b", enforcement="warn")),
    fails=lambda: diagnosis.installed(diagnosis.namespace("team-b", enforcement="warning")),
)
def enforcement(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The label rollcall.dev/enforcement of a namespace is a valid mode. Any other value has no effect: the rules there
    are as strict as everywhere else, perhaps stricter than intended.

    Source: webhook/config/settings.py, `ceiling`.
    """
    for name, value in _labelled(snapshot, ENFORCEMENT_LABEL):
        if Action.parse(value) is None:
            yield diagnosis.Symptom(
                f"Namespace {name}",
                f"{ENFORCEMENT_LABEL}={value}, which is not a mode",
                "the label has no effect: rules are as strict there as the configuration says",
                f"set it to one of {', '.join(str(action) for action in Action)}",
            )


@diagnosis.check(
    "namespaces/exempt",
    level=diagnosis.Severity.NOTE,
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(diagnosis.namespace("team-b", exempt="true")),
)
def exempt(snapshot: Snapshot) -> diagnosis.Symptoms:
    """No namespace is exempt by the label rollcall.dev/exempt: an emergency switch that is easily forgotten.

    Source: docs/how-to/emergency.md.
    """
    for name, _ in _labelled(snapshot, EXEMPT_LABEL):
        yield diagnosis.Symptom(
            f"Namespace {name}",
            f"it has the label {EXEMPT_LABEL}",
            "the API server does not call Rollcall for it: gangs are neither checked nor made there",
            f"when the emergency is over: kubectl label namespace {name} {EXEMPT_LABEL}-",
        )


@diagnosis.check(
    "exceptions/end",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.excepting(diagnosis.NOW + 2 * ANNOUNCED),
    fails=lambda: diagnosis.excepting(diagnosis.NOW + ANNOUNCED / 7),
)
def end(snapshot: Snapshot) -> diagnosis.Symptoms:
    """No exception of the configuration ends within a week. An exception ends by itself, and from then on new workloads
    that it covered are refused again.

    Source: webhook/model/findings.py.
    """
    for exception in snapshot.settings.exceptions.every:
        if exception.ends_soon(snapshot.now):
            yield diagnosis.Symptom(
                _where(exception),
                f"it {exception.time_left(snapshot.now)}, at {exception.ends}",
                "new workloads that it covers are then refused again; "
                f"{exception.granted_by} granted it: {exception.reason}",
                "change the workloads before, or grant it until a later date",
            )


@diagnosis.check(
    "exceptions/namespaces",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.excepting(diagnosis.NOW + 2 * ANNOUNCED),
    fails=lambda: diagnosis.excepting(diagnosis.NOW + 2 * ANNOUNCED, "team-z"),
)
def namespaces(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Every namespace of an exception that applies exists. Whoever may create namespaces can take the name of one that
    does not, and the exception covers what he creates there.

    Source: webhook/model/findings.py.
    """
    existing = {name_of(raw) for raw in snapshot.all(NAMESPACES)}
    for exception in snapshot.settings.exceptions.every:
        if absent := sorted(() if exception.has_ended(snapshot.now) else exception.namespaces - existing):
            yield diagnosis.Symptom(
                _where(exception),
                f"there is no namespace {', '.join(absent)}",
                "it covers whoever creates a namespace of that name",
                "remove the name from the exception, or create the namespace",
            )


@diagnosis.check(
    "exceptions/ended",
    level=diagnosis.Severity.NOTE,
    passes=lambda: diagnosis.excepting(diagnosis.NOW + ANNOUNCED / 7),
    fails=lambda: diagnosis.excepting(diagnosis.NOW - ANNOUNCED),
)
def ended(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The configuration has no exception that has ended. Such an exception has no effect.

    Source: webhook/model/findings.py.
    """
    for exception in snapshot.settings.exceptions.every:
        if exception.has_ended(snapshot.now):
            yield diagnosis.Symptom(
                _where(exception),
                f"it {exception.time_left(snapshot.now)}, at {exception.ends}",
                "it has no effect, and a reader of the configuration may believe that it still applies",
                "delete it from the configuration",
            )


def _where(exception: RuleException) -> str:
    rules, namespaces = ", ".join(sorted(exception.rules)), ", ".join(sorted(exception.namespaces))
    return f"exception {exception.name} ({rules}) of {namespaces}"


_ZONE, _RACK = "example.com/zone", "example.com/rack"
_FED = {"name": "koord-scheduler", "config": {"topologyBinding": "dc"}}


def _binding() -> Manifest:
    levels = [{"domain": "zone", "key": _ZONE}, {"domain": "rack", "key": _RACK}]
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": "dc"}}
    return {**head, "spec": {"levels": levels}}


def _node(name: str, **labels: str) -> Manifest:
    prefixed = {f"example.com/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": prefixed}}


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
    """Yields each scheduler whose topology one binding feeds, with that binding if it exists."""
    bindings = {name_of(raw): raw for raw in snapshot.all(TOPOLOGY_BINDINGS)}
    for profile in snapshot.settings.profiles.values():
        backend = profile.backend
        if backend.topology_kind is not None and (name := backend.topology_binding) and name in bindings:
            yield backend, ClusterTopologyBinding(bindings[name])


def _labels(snapshot: Snapshot) -> NodeLabels:
    return {name_of(raw): labels_of(raw) for raw in snapshot.all(NODES)}


@diagnosis.check(
    "topologies/binding",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(_binding(), settings=diagnosis.configured(_FED)),
    fails=lambda: diagnosis.installed(settings=diagnosis.configured(_FED)),
)
def binding(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The ClusterTopologyBinding that a profile's topologyBinding names exists, and a profile with topologyObjects
    `write` names one. Otherwise the scheduler's topology is neither compared nor written.

    Source: webhook/reconciler/topologies.py.
    """
    names = {name_of(raw) for raw in snapshot.all(TOPOLOGY_BINDINGS)}
    for name, profile in snapshot.settings.profiles.items():
        backend = profile.backend
        if backend.topology_kind is None or backend.topology_binding is None or backend.topology_binding in names:
            continue
        kind = backend.topology_kind.api.kind
        binding_name = backend.topology_binding
        yield diagnosis.Symptom(
            f"profile {name}, topologyBinding",
            f"ClusterTopologyBinding {binding_name} does not exist"
            if binding_name
            else "it names no ClusterTopologyBinding",
            f"no {kind} is compared or written for {name}",
            "name an existing ClusterTopologyBinding, or create it",
        )


@diagnosis.check(
    "topologies/labels",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(
        _binding(), _node("n1", zone="z1", rack="r1"), settings=diagnosis.configured(_FED)
    ),
    fails=lambda: diagnosis.installed(
        _binding(), _node("n1", zone="z1", rack="r1"), _node("n2", zone="z1"), settings=diagnosis.configured(_FED)
    ),
)
def labels(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The labels of the nodes form the levels of the ClusterTopologyBinding that feeds a scheduler's topology: each
    node has each label, no value is below two parents, no level is empty, and the broader level is listed first.

    Source: volcano-sh/volcano, pkg/scheduler/api/hyper_node_info.go (v1.15.1); koordinator-sh/koordinator,
    pkg/scheduler/frameworkext/networktopology/tree.go (v1.8.0).
    """
    bindings = {binding.name: binding for _, binding in _fed(snapshot)}
    for name, binding in bindings.items():
        for problem in tree_of(binding, _labels(snapshot)).problems:
            yield diagnosis.Symptom(
                f"ClusterTopologyBinding {name}",
                problem.message,
                "a gang that must be in one domain does not get the nodes that it could have",
                "label the nodes, or change the levels of the binding",
            )


@diagnosis.check(
    "topologies/objects",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(_binding(), _layers(*_CHAIN), settings=diagnosis.configured(_FED)),
    fails=lambda: diagnosis.installed(_binding(), _layers(*_RACKS), settings=diagnosis.configured(_FED)),
)
def objects(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The topology objects of a scheduler have the levels of the ClusterTopologyBinding that feeds them, and Volcano's
    HyperNodes also the nodes.

    Source: webhook/backends/koordinator/gangs.py, webhook/backends/volcano/gangs.py.
    """
    for backend, binding in _fed(snapshot):
        if (difference := _difference(snapshot, backend, binding)) is not None:
            yield diagnosis.Symptom(
                f"ClusterTopologyBinding {binding.name}, {backend.name}",
                difference,
                "the scheduler places gangs by another topology than their workloads name",
                "change the object, or set the profile's topologyObjects to write",
            )


def _difference(snapshot: Snapshot, backend: Backend[Any], binding: ClusterTopologyBinding) -> str | None:
    if backend.topology_kind is None:
        return None
    live = {name_of(raw): raw for raw in snapshot.all(SnapshotPart(backend.topology_kind))}
    try:
        if backend.topology_from_nodes:
            drift = backend.node_topology_drift(binding, _labels(snapshot), live)
        else:
            objects = backend.topology_objects(binding)
            object_name = binding.references.get(backend.name) or (name_of(objects[0]) if objects else "")
            drift = backend.topology_drift(binding, live.get(object_name))
    except Inexpressible as refusal:
        return str(refusal)
    return None if drift is None else drift.message
