"""Pods on nodes: what each node's pods use, and the gang of each pod, for the estimate of whether a gang fits *now*.

Only a command and the reconciler read these. Admission never does: pods come and go too often.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from webhook.model import grove
from webhook.model.bounds import latest_equal, name_text
from webhook.model.claims import claims_on
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_kinds import PODS
from webhook.model.known_objects import Indexed
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.projections import Projection, Resource, key_of, name_of, pod_fields
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, mapping, text
from webhook.workloads.opted_in_gang import GANG_LABEL

# Pods that hold room. A terminating pod holds it until it is gone.
HOLDING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_ENDED = frozenset({"Succeeded", "Failed"})
# Labels that name the gang of a pod. Other marks of a gang are the claims of `webhook.model.claims`.
_GANG_LABELS = (GANG_LABEL, grove.LABEL_PODGANG)

PodAmounts = tuple[tuple[str, int], ...]


class NodePod(NamedTuple):
    """A pod on a node: what it uses, in milli for cpu and in units for all else, with "pods" for its slot, and the name
    of its gang in its namespace.
    """

    node: str
    amounts: PodAmounts
    gang: str | None = None

    @property
    def used(self) -> Mapping[str, int]:
        """What it uses by resource."""
        return dict(self.amounts)


class _OnNode(NamedTuple):
    """The index term of the pods on a node."""

    node: str


class _OfGang(NamedTuple):
    """The index term of the pods of a gang."""

    namespace: str
    gang: str


class NodePods(Indexed[ObjectKey, NodePod]):
    """Pods by namespace and name, indexed by node and by gang, with what each node's pods use together."""

    def __init__(self, pods: Mapping[ObjectKey, NodePod] | None = None) -> None:
        self._used: dict[str, dict[str, int]] = {}
        super().__init__(pods)

    @staticmethod
    def terms(key: ObjectKey, value: NodePod) -> Iterable[Hashable]:
        """Yields its node, and its gang."""
        yield _OnNode(value.node)
        if value.gang is not None:
            yield _OfGang(key[0], value.gang)

    @property
    def nodes(self) -> Set[str]:
        return self._used.keys()

    def used_on(self, node: str) -> Mapping[str, int]:
        """Returns what the pods on a node use together."""
        return self._used.get(node, {})

    def pods_on(self, node: str) -> Set[ObjectKey]:
        return self.having(_OnNode(node))

    def pods_of_gang(self, namespace: str, gang: str) -> Set[ObjectKey]:
        return self.having(_OfGang(namespace, gang))

    def __setitem__(self, key: ObjectKey, value: NodePod) -> None:
        super().__setitem__(key, value)
        used = self._used.setdefault(value.node, {})
        for resource, amount in value.amounts:
            used[resource] = used.get(resource, 0) + amount

    def _forget(self, key: ObjectKey) -> None:
        before = self.get(key)
        super()._forget(key)
        if before is None:
            return
        used = self._used[before.node]
        for resource, amount in before.amounts:
            used[resource] -= amount
        if not used["pods"]:
            del self._used[before.node]


def read_node_pod(raw: Manifest) -> tuple[ObjectKey, NodePod] | None:
    """Returns the projection of a whole pod that holds room on a node; None for another pod. Raises `Malformed`."""
    spec = mapping(raw.get("spec"))
    node = text(spec.get("nodeName"))
    if node is None or not spec.get("containers") or mapping(raw.get("status")).get("phase") in _ENDED:
        return None
    pod = Pod(raw)
    namespace, name = key_of(raw)
    amounts = _shared_amounts(_amounts(pod.template))
    return (_shared_name(namespace), name), NodePod(_shared_name(node), amounts, gang_name_in(pod.template))


def gang_name_in(pod: PodTemplate) -> str | None:
    """Returns the gang that a pod names, in its namespace; None if it names none. Raises `Malformed`."""
    for label in _GANG_LABELS:
        if (gang := name_text(pod.labels.get(label))) is not None:
            return _shared_name(gang)
    for claim in claims_on(pod):
        if (gang := _claimed(claim.value)) is not None:
            return _shared_name(gang)
    return None


def _claimed(value: object) -> str | None:
    """Returns the group in a claim's value, which names it or is an object with its name."""
    if isinstance(value, dict):
        value = value.get("podGroupName") or value.get("name")
    return name_text(value) if isinstance(value, str) and value != "true" else None


def _amounts(pod: PodTemplate) -> PodAmounts:
    """Returns what a pod uses. An amount that cannot be read counts as nothing."""
    stated = mapping(pod.spec.get("resources"))
    pod_level = map(mapping, (stated.get("requests"), stated.get("limits"), pod.spec.get("overhead")))
    resources = pod.resources.union(*pod_level)
    units = {resource: schedulable_amount(resource, pod.total_request(resource) or 0) for resource in resources}
    return ("pods", 1), *sorted((resource, amount) for resource, amount in units.items() if amount > 0)


# Many pods are equal in what they use, and name one of few nodes and gangs: one object stands for equal ones.
_shared_amounts = latest_equal(4096)
_shared_name = latest_equal(16384)


class Reservation(NamedTuple):
    """What a Koordinator Reservation still keeps free on its node for pods to come."""

    node: str
    amounts: PodAmounts


def _reservation(raw: Manifest) -> tuple[str, Reservation] | None:
    status = mapping(raw.get("status"))
    node = text(status.get("nodeName"))
    if node is None or status.get("phase") != "Available":
        return None
    whole, taken = _resources(status.get("allocatable")), _resources(status.get("allocated"))
    rest = {resource: amount - taken.get(resource, 0) for resource, amount in whole.items()}
    return name_of(raw), Reservation(node, tuple(sorted((key, left) for key, left in rest.items() if left > 0)))


def _resources(written: object) -> dict[str, int]:
    return {key: schedulable_amount(key, parse_quantity(value) or 0) for key, value in mapping(written).items()}


def schedulable_amount(resource: str, amount: Fraction | int) -> int:
    """Returns an amount in milli for cpu and in units for all else, rounded up."""
    return ceil(amount * 1000 if resource == "cpu" else amount)


# Read by commands, and followed by the reconciler; not by the webhook.
NODE_PODS = Projection(
    "node_pods",
    PODS,
    read_node_pod,
    NodePods,
    field_selector=HOLDING,
    awaited=False,
    fields=(*pod_fields("spec", "metadata"), "status.phase"),
)
RESERVATIONS = Projection(
    "node_reservations",
    Resource(Api("scheduling.koordinator.sh", "v1alpha1", "Reservation"), "reservations", namespaced=False),
    _reservation,
    awaited=False,
    fields=("status.nodeName", "status.phase", "status.allocatable", "status.allocated"),
)
