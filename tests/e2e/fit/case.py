"""Case: one cluster and one gang as plain values, so that a failure can be kept in a file.

A text that starts with "@" names something of the case itself: "@n3" its fourth node, "@r1" a domain. Many cases share
a control plane, so these become names of the case's own when it is stored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tests.e2e.control_plane import Manifest

# On the nodes of a case, and in the nodeSelector of its pods.
CASE_LABEL, BATCH_LABEL = "example.com/case", "example.com/batch"
BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"


@dataclass
class NodePlan:
    """A node. `capacity` is that of resources of which less is allocatable."""

    allocatable: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Manifest] = field(default_factory=list)
    capacity: dict[str, str] = field(default_factory=dict)
    cordoned: bool = False


@dataclass
class MemberPlan:
    """The pods of one template."""

    name: str
    spec: Manifest
    minimum: int
    pods: int
    labels: dict[str, str] = field(default_factory=dict)
    required: str | None = None


@dataclass
class SubsetPlan:
    """Members that must share a domain, or with `enough` a group of which so many are needed."""

    name: str
    members: list[str]
    required: str | None = None


@dataclass
class ForeignPod:
    """A pod of others, which is on a node before the gang comes."""

    node: int
    spec: Manifest
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Case:
    """A cluster and a gang. `enough` is how many of the gang's parts are needed, None for all. `namespaced` are objects
    of the gang's namespace: quotas and limits. `quota` is the ElasticQuota that its pods name.
    """

    seed: int
    family: str
    nodes: list[NodePlan]
    members: list[MemberPlan]
    subsets: list[SubsetPlan] = field(default_factory=list)
    required: str | None = None
    enough: int | None = None
    namespaced: list[Manifest] = field(default_factory=list)
    quota: str | None = None
    foreign: list[ForeignPod] = field(default_factory=list)
    # Objects of the cluster, by the path of their kind in the API.
    objects: dict[str, list[Manifest]] = field(default_factory=dict)
    # How the drawn amounts stand to the limit: "at", "below", "above".
    drawn: str = ""

    def as_json(self) -> Manifest:
        """The case as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, raw: Manifest) -> Case:
        """The case that `as_json` returned."""
        parts: dict[str, Any] = dict(raw)
        for name, kind in (
            ("nodes", NodePlan),
            ("members", MemberPlan),
            ("subsets", SubsetPlan),
            ("foreign", ForeignPod),
        ):
            parts[name] = [kind(**one) for one in raw.get(name, ())]
        return cls(**parts)

    @property
    def pods(self) -> int:
        """How many pods the gang has."""
        return sum(member.pods for member in self.members)


def named(value: Any, case_id: str) -> Any:
    """`value` with the names of the case: "@n3" becomes "CASE-n3"."""
    if isinstance(value, str):
        return f"{case_id}-{value[1:]}" if value.startswith("@") else value
    if isinstance(value, dict):
        return {key: named(one, case_id) for key, one in value.items()}
    if isinstance(value, list):
        return [named(one, case_id) for one in value]
    return value
