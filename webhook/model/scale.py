"""A scale: the replicas of a PodClique or a PodCliqueScalingGroup, which `kubectl scale` and autoscalers write through
`/scale`.

The review has only numbers and a name. What the gang needs is kept with the record of its PodCliqueSet, which is found
by the name: `<set>-<replica>-<clique>`, `<set>-<replica>-<group>` or `<set>-<replica>-<group>-<replica>-<clique>`.
Source: ai-dynamo/grove, operator/api/common/namegen.go; k8s.io/api autoscaling/v1 (Scale: 0 replicas are left out).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from webhook.model.bounds import fits
from webhook.model.keys import ObjectKey, Record, Scalable
from webhook.model.kueue import keys as kueue
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.model.workloads.podcliqueset import Clique, PodCliqueSet

SCALE = ("autoscaling", "Scale")
POD_CLIQUE, SCALING_GROUP = "podcliques", "podcliquescalinggroups"


class ScaleChange(NamedTuple):
    """A change of the replicas of `target`. `group` is the name of the PodCliqueScalingGroup of a PodClique that
    belongs to one.
    """

    name: str
    old: int
    new: int
    target: Scalable
    group: str | None = None

    @property
    def is_of_group(self) -> bool:
        """Whether it scales a PodCliqueScalingGroup."""
        return self.target.cliques is not None


class ScaleTarget(NamedTuple):
    """What a name may mean: a clique or a scaling group of the set with that record."""

    record: Record
    target: Scalable
    group: str | None = None


def scalable_in(workload: PodCliqueSet) -> tuple[Scalable, ...]:
    """The cliques and scaling groups of a set; none if they are too many to keep."""
    single = [_of_clique(one) for one in workload.cliques if one.group is None]
    groups = []
    for group in workload.scaling_groups:
        members = [one for one in workload.cliques if one.group is group]
        most = group.replicas if any(_has_fixed_size(one) for one in members) else None
        cliques = tuple(Scalable(one.name, one.min_available) for one in members)
        groups.append(Scalable(group.name, group.min_available, most, cliques))
    found = (*single, *groups)
    every = [*(one.name for one in groups), *(one.name for one in workload.cliques)]
    return found if fits(every) else ()


def _of_clique(clique: Clique) -> Scalable:
    return Scalable(clique.name, clique.min_available, clique.replicas if _has_fixed_size(clique) else None)


def _has_fixed_size(clique: Clique) -> bool:
    """Whether the pods of a clique are in a pod group of Kueue, which states its number of pods."""
    labels = mapping(clique.raw.get("labels"))
    return kueue.QUEUE_NAME in labels and bool(text(clique.annotations.get(kueue.POD_GROUP_TOTAL_COUNT)))


def numbers_in(scale: Manifest | None) -> int:
    """The replicas that a Scale states. Raises `Malformed`."""
    return integer(mapping(mapping(scale).get("spec")).get("replicas")) or 0


def target_of(name: str, namespace: str, resource: str, sets: Mapping[ObjectKey, Record]) -> ScaleTarget | None:
    """The clique or scaling group of that name; None if there is none, or if the name may mean several. An empty
    `resource` is not known.
    """
    found = list(_targets(name, namespace, resource, sets))
    return found[0] if len(found) == 1 else None


def _targets(name: str, namespace: str, resource: str, sets: Mapping[ObjectKey, Record]) -> Iterator[ScaleTarget]:
    for workload, first, rest in _divisions(name):
        record = sets.get((namespace, workload))
        if record is None:
            continue
        for target in record.scalable:
            is_group = target.cliques is not None
            if target.name == rest and resource in {"", SCALING_GROUP if is_group else POD_CLIQUE}:
                yield ScaleTarget(record, target)
        if resource == SCALING_GROUP:
            continue
        for group, _, clique in _divisions(rest):
            for target in record.scalable:
                if target.name == group:
                    whole = f"{workload}-{first}-{group}"
                    yield from (ScaleTarget(record, one, whole) for one in target.cliques or () if one.name == clique)


def _divisions(name: str) -> Iterator[tuple[str, str, str]]:
    """Each way to read a name as a name, an index and a name, joined by dashes."""
    words = name.split("-")
    for place in range(1, len(words) - 1):
        if words[place].isascii() and words[place].isdigit():
            yield "-".join(words[:place]), words[place], "-".join(words[place + 1 :])
