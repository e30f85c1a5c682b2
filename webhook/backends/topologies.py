"""Topology in the translations of all backends: errors with the same wording everywhere, metadata of topology objects,
and the family of rules about the topology of opted-in workloads.

Two exceptions report that a topology is unknown or missing; rules and translations turn them into findings.
`inexpressible` and `unknown` make the errors of a gang that a translation refuses. The gang object that will carry a
topology is judged by the scheduler's rules about such objects, and what they find is reported at the annotation that
asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from webhook.backends.base import TopologyObjects
from webhook.errors import Inexpressible
from webhook.model.capabilities import Capability, Use
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL, JudgedKind, StoredObject
from webhook.model.grove import GROUP, LABEL_MANAGED_BY, ClusterTopologyBinding, PodGang
from webhook.model.keys import Needed
from webhook.model.reading import Manifest
from webhook.validators.registry import Context, Example, Results, Rule, Subject, rule
from webhook.workloads.opted_in_workload import OptedInWorkload


class UnknownTopology(Exception):
    """A level, tier or layer needs a fact that is unknown: `needs` names it, `part` is its part of the facts."""

    def __init__(self, needs: str, part: str) -> None:
        super().__init__(needs)
        self.needs = needs
        self.part = part


class NoTopology(Exception):
    """The topology, level or tier does not exist, or the scheduler would ignore it: `why` is the reason. `absent` is
    set if the reason is that an object is missing.
    """

    def __init__(self, why: str, absent: Needed | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.absent = absent


_OF_GANG = "change its workload, or choose another scheduler; until then nothing is written for this gang"


def inexpressible(rule: str, path: FieldPath, value: Any, why: str, *, remedy: str = _OF_GANG) -> Inexpressible:
    """Returns the error for an object (usually a PodGang) that has at `path` a value that `rule` refuses at admission.
    The object bypassed the webhook, or predates the rule.
    """
    return Inexpressible((Finding(path, value, why, remedy, rule=rule, fails_closed=True),))


def unknown_fact(rule: str, path: FieldPath, needs: str, part: str) -> Inexpressible:
    """Returns the error for a PodGang whose translation needs an unknown fact, of that part of the facts."""
    return Inexpressible((), (Unjudged(path, needs, rule, part=part),))


def refuse_twins(podgang: PodGang, rule: str) -> None:
    """Raises `Inexpressible` if two members or groups of a PodGang share a name: their pods would be mixed up."""
    for parts in (podgang.members, podgang.group_configs):
        seen = set()
        for part in parts:
            if part.name in seen:
                why = "two parts of the PodGang have that name, so the pods of one would count for the other"
                raise inexpressible(rule, part.path / "name", part.name, why)
            seen.add(part.name)


def refuse_spare_pods(podgang: PodGang, rule: str, why: str) -> None:
    """Raises `Inexpressible` if one of several members has pods above its minimum: only their sum is counted."""
    if len(podgang.members) < 2:  # noqa: PLR2004 - one is counted as it is
        return
    for member in podgang.members:
        if member.pods > member.min_replicas > 0:
            raise inexpressible(rule, member.path / "minReplicas", member.min_replicas, why)


class FedTopology(Protocol):
    """The settings of a scheduler whose topology objects are made from one ClusterTopologyBinding."""

    @property
    def topologyBinding(self) -> str | None:  # noqa: N802 - a key of the configuration
        """The name of the binding."""

    @property
    def topologyObjects(self) -> TopologyObjects:  # noqa: N802 - a key of the configuration
        """Whether the objects are written."""


def unfed_topology(scheduler: str, settings: FedTopology, kind: str) -> Iterator[str]:
    """Yields the reason why no topology object is written although the settings ask for it."""
    if settings.topologyObjects == "write" and settings.topologyBinding is None:
        yield f"{scheduler}: no {kind} is written: topologyBinding names no ClusterTopologyBinding"


def topology_metadata(name: str, binding: ClusterTopologyBinding) -> Manifest:
    """Returns the metadata of the object `name`; a binding from a file has no uid and owns nothing."""
    metadata: Manifest = {"name": name, "labels": {LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL}}
    if binding.uid is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "ClusterTopologyBinding",
                "name": binding.name,
                "uid": binding.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return metadata


_ASKED = Capability.TOPOLOGY_WORKLOAD


class CarriedTopology(NamedTuple):
    """A gang object with the topology that a workload asks for. `origins` has the annotation behind each of its fields,
    by the field's name; the first one stands for the object as a whole. `where` is where its author finds them, if they
    are not in the workload itself. `by_rollcall`: Rollcall writes the object.
    """

    manifest: Manifest
    origins: Mapping[str, Use]
    where: str = ""
    by_rollcall: bool = False

    def origin(self, at: FieldPath) -> Use:
        """Returns the annotation behind a field of the gang object."""
        return self.origins.get(str(at.parts[-1])) or next(iter(self.origins.values()))


def left_out(remedy: str) -> str:
    """Returns the remedy for a topology that Rollcall does not write."""
    return f"{remedy}; left out until then"


def opted_in_topology(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str,
    documentation: str,
    *,
    kind: JudgedKind,
    version: str,
    rules: tuple[Rule, ...],
    carried: Callable[[OptedInWorkload, Context[Any]], Iterator[CarriedTopology]],
    leaves_out: bool = False,
    passes: Example,
    fails: Example,
    **declared: Any,
) -> Rule:
    """Returns the rule that applies `rules`, which are about gang objects of a kind, to the topology of opted-in
    workloads. With `leaves_out` Rollcall does not write what they find.
    """

    def check(workload: OptedInWorkload, context: Context[Any]) -> Results:
        for topology in carried(workload, context):
            stored = StoredObject(topology.manifest, kind.kind, version, workload.namespace)
            for applied in rules:
                for problem in applied.check(stored, context):
                    origin = topology.origin(problem.at)
                    if not isinstance(problem, Finding):
                        yield replace(problem, at=origin.path)
                        continue
                    why = f"{topology.where}: {problem.why}" if topology.where else problem.why
                    most = min(problem.at_most, applied.default)
                    finding = replace(problem, at=origin.path, why=why, at_most=most)
                    if topology.by_rollcall and leaves_out:
                        finding = replace(finding, remedy=left_out(problem.remedy), left_out=True)
                    yield finding

    return rule(
        id,
        subject=Subject.OPTED_IN,
        capability=_ASKED,
        passes=passes,
        fails=fails,
        documentation=documentation,
        **declared,
    )(check)
