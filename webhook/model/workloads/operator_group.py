"""OperatorGroup: a PodGroup that the operator of a workload wrote, and how its minimum differs from the workload.

A minimum above the pods that are created is never reached. A minimum below the gang starts a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.model import grove
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Finding
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.workloads.shapes.gang_size import GangSize, WorkloadKey

KIND = "PodGroup"
# By group of a PodGroup, the field with its minimum: Volcano, scheduler-plugins, Koordinator, the Workload API. KAI's
# podgrouper is no operator of workloads.
MINIMUMS: Mapping[str, FieldPath] = {
    "scheduling.volcano.sh": SPEC / "minMember",
    "scheduling.x-k8s.io": SPEC / "minMember",
    "scheduling.sigs.k8s.io": SPEC / "minMember",
    "scheduling.k8s.io": SPEC / "schedulingPolicy" / "gang" / "minCount",
}
# These fields of the spec.
MINIMUM_FIELDS = frozenset({"minMember", "schedulingPolicy"})


class OperatorGroup:
    """A PodGroup of one of `MINIMUMS`. `owners` are the objects that own it, its controller first, each with its uid.
    Raises `Malformed`.
    """

    __slots__ = ("is_foreign", "key", "minimum", "owners", "path")

    def __init__(self, raw: Manifest, group: str) -> None:
        metadata = mapping(raw.get("metadata"))
        namespace = text(metadata.get("namespace")) or "default"
        self.key: WorkloadKey = (group, KIND, namespace, text(metadata.get("name")) or "")
        # Another program than Rollcall wrote it.
        self.is_foreign = mapping(metadata.get("labels")).get(grove.LABEL_MANAGED_BY) != MANAGED_BY_ROLLCALL
        self.owners = tuple(_owners(metadata, namespace))
        self.path = MINIMUMS[group]
        spec = mapping(raw.get("spec"))
        # None is a group of the Workload API that is not a gang.
        self.minimum = integer(spec.get("minMember")) or 0 if "minMember" in self.path.parts else _min_count(spec)

    def size(self, sizes: Mapping[WorkloadKey, GangSize]) -> GangSize | None:
        """The size of the first of its owners that has one, and that is not a later object of the same name."""
        for key, uid in self.owners:
            size = sizes.get(key)
            if size is not None and not (uid and size.uid and uid != size.uid):
                return size
        return None

    def mismatch(self, sizes: Mapping[WorkloadKey, GangSize]) -> Finding | None:
        """What is wrong with its minimum, compared with the size of its owner."""
        size = self.size(sizes)
        if size is None or self.minimum is None or not self.is_foreign:
            return None
        why = _why(self.minimum, size)
        if why is None:
            return None
        right = size.most if size.needed is None else min(size.needed, size.most)
        return Finding(at=self.path, found=self.minimum, why=why, remedy=_remedy(right, size), instead=(right,))


def _owners(metadata: Mapping[str, object], namespace: str) -> Iterator[tuple[WorkloadKey, str | None]]:
    every = [mapping(raw) for raw in sequence(metadata.get("ownerReferences"))]
    for one in sorted(every, key=lambda found: found.get("controller") is not True):
        group = (text(one.get("apiVersion")) or "").rpartition("/")[0]
        yield (group, text(one.get("kind")) or "", namespace, text(one.get("name")) or ""), text(one.get("uid"))


def _min_count(spec: Mapping[str, object]) -> int | None:
    return integer(mapping(mapping(spec.get("schedulingPolicy")).get("gang")).get("minCount"))


def _why(minimum: int, size: GangSize) -> str | None:
    if minimum > size.most:
        first = _pods(size.most)
        creates = f"creates {first} first and its other pods after that" if size.later else f"has only {first}"
        return f"{size.name} {creates}, so this minimum is never reached"
    # Several groups divide the pods: none of them has all that the gang needs.
    if size.needed is None or size.groups > 1:
        return None
    if minimum < size.needed:
        return f"the gang of {size.name} needs {_pods(size.needed)}, and the scheduler {_starts(minimum)}"
    if minimum > size.enough:
        return f"{size.name} can run with {_pods(size.needed)}, but the scheduler waits for {minimum}"
    return None


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _starts(minimum: int) -> str:
    return "starts each pod alone" if minimum <= 0 else f"starts {minimum} of them without the others"


def _remedy(right: int, size: GangSize) -> str:
    if size.stated_path is not None:
        return f"set {size.stated_path} of {size.name} to {right}: its operator takes the minimum from there"
    return f"set it to {right}, or delete the PodGroup if its operator then creates it again"
