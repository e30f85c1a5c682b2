"""A small world for the traps: nodes and other objects as manifests, a gang, and the answer of one scheduler's backend.

A trap is a case that a naive check calls *never* although the scheduler may start it. Each is a function with its
number. With a trap stand mutants: the naive check, put in place of ours, by which the trap must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tests.unit.fit.limited_gangs import gang, member
from tests.unit.worlds import settings_of
from webhook.admission.workload_fit import fit_of
from webhook.backends.base import Backend
from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.packing import FitSettings, Growth
from webhook.fit.verdict import FitAnswer, FitVerdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.offline.fact_files import facts_in

GPU, RACK, ZONE, HOST = "nvidia.com/gpu", "example.com/rack", "example.com/zone", "kubernetes.io/hostname"
FIXED = FitSettings(nodes=Growth.FIXED)
_GROUP = "scheduling.k8s.io"
# The generations of the Workload API, and the feature gates of a scheduler that has all.
TREES = frozenset(
    {
        Api(_GROUP, "v1beta1", "Workload"),
        Api(_GROUP, "v1beta1", "PodGroup"),
        Api(_GROUP, "v1alpha3", "CompositePodGroup"),
    }
)
FLAT = frozenset({Api(_GROUP, "v1alpha2", "Workload"), Api(_GROUP, "v1alpha2", "PodGroup")})
GATES = ["GenericWorkload", "GangScheduling", "CompositePodGroup", "TopologyAwareWorkloadScheduling"]
KUBE: Manifest = {"gangScheduling": True, "schedulerGates": GATES}
_NAMES = {
    "kube": "default-scheduler",
    "koordinator": "koord-scheduler",
    "kai": "kai-scheduler",
    "volcano": "volcano",
    "coscheduling": "scheduler-plugins-scheduler",
}


class Mutant(NamedTuple):
    """A naive check: what stands at a dotted name, and what is put in its place. `made` gets what stood there."""

    at: str
    made: Callable[[Any], Any]


class Trap(NamedTuple):
    """A numbered trap. `check` fails if the trap is not seen."""

    number: int
    check: Callable[[], None]
    mutants: tuple[Mutant, ...]


TRAPS: list[Trap] = []


def trap(number: int, *mutants: Mutant) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a trap."""

    def register(check: Callable[[], None]) -> Callable[[], None]:
        TRAPS.append(Trap(number, check, mutants))
        return check

    return register


def instead(at: str, replacement: Any) -> Mutant:
    """A mutant that does not need what stood there."""
    return Mutant(at, lambda _: replacement)


def node(
    name: str = "n0",
    amounts: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Manifest] = (),
    annotations: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A ready node with 8 cores, 64Gi and 110 slots."""
    said = {"cpu": "8", "memory": "64Gi", "pods": "110", **(amounts or {})}
    metadata = {"name": name, "labels": {HOST: name, **(labels or {})}, "annotations": dict(annotations or {})}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": said, "capacity": {**said, **(capacity or {})}, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": list(taints), **spec},
            "status": status}  # fmt: skip


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Manifest:
    return {"key": key, "value": value, "effect": effect}


def pods(count: int, requests: Mapping[str, str] | None = None, name: str = "worker", **fields: Any) -> MemberShape:
    """A member with that many pods, all of them needed."""
    return member(name, count, requests=requests, **fields)


def of(*members: MemberShape, required: str | None = None, stored: bool = False, **fields: Any) -> GangShape:
    """A gang of these members."""
    found = gang(*members, stored=stored, **fields)
    return found._replace(required=required, required_at=None if required is None else SPEC / "topologyConstraint")


def facts_of(*manifests: Manifest, **parts: Any) -> ClusterFacts:
    """What these objects tell, with the kinds of Kubernetes 1.37."""
    return replace(facts_in(manifests), **{"apis": TREES, **parts})


def backend_of(scheduler: str = "kube", config: Manifest | None = None) -> Backend[Any]:
    """The backend of a scheduler. kube-scheduler has all gates."""
    settings = settings_of(_NAMES[scheduler], config if config is not None else KUBE if scheduler == "kube" else {})
    found: Backend[Any] = settings.profiles[settings.default].backend
    return found


def verdict(
    shape: GangShape,
    *manifests: Manifest,
    scheduler: str = "kube",
    config: Manifest | None = None,
    settings: FitSettings = FIXED,
    facts: ClusterFacts | None = None,
) -> FitVerdict:
    """The verdict on a gang in a cluster with these objects."""
    known = facts_of(*manifests) if facts is None else facts
    return fit_of(shape, backend_of(scheduler, config), known, settings)


def is_never(shape: GangShape, *manifests: Manifest, **where: Any) -> None:
    found = verdict(shape, *manifests, **where)
    assert found.answer is FitAnswer.NEVER, (found.answer, found.causes)


def may_start(shape: GangShape, *manifests: Manifest, **where: Any) -> None:
    """The gang is not called never."""
    found = verdict(shape, *manifests, **where)
    assert found.answer is not FitAnswer.NEVER, found.witness


def manifest(kind: str, name: str, api: str = "v1", spec: Manifest | None = None, **rest: Any) -> Manifest:
    metadata = {"name": name, **rest.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **({} if spec is None else {"spec": spec}), **rest}
