"""A gang that waits for room, and its shape: what the answer about it depends on, without the names in it.

Gangs of one shape have one answer. Its names are put into the texts afterwards. A gang with missing pods has an answer
of its own: it is judged by the templates of its workload.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from webhook.config.settings import Profile
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Witness
from webhook.gangs.waiting_pods import PodShape, only_names, pairs
from webhook.model.keys import Record
from webhook.model.reading import Malformed, mapping
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.topology_request import every_place
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload


class Waiting(NamedTuple):
    """A gang none of whose pods was on a node. `pods` has the shape of the stored pods of each member that has pods,
    and `counts` their number. `workload` is its PodCliqueSet, if known.
    """

    podgang: PodGang
    workload: PodCliqueSet | None
    profile: Profile
    record: Record
    pods: Mapping[str, PodShape]
    counts: Mapping[str, int]

    @property
    def templates_of(self) -> OptedInWorkload | PodCliqueSet | None:
        """The workload whose templates its pods are made from; None if it is unknown."""
        return self.podgang.workload if isinstance(self.podgang, OptedInGang) else self.workload

    @property
    def workload_name(self) -> str | None:
        """Kind and name of its workload, as commands take them; None for a PodGang without one."""
        gang = self.podgang
        if isinstance(gang, OptedInGang):
            return f"{gang.workload_kind.lower()}/{gang.workload.name}"
        owner = gang.pod_clique_set
        return None if owner is None else f"pcs/{owner.name}"

    @property
    def is_whole(self) -> bool:
        """Whether it has all pods that it needs to start."""
        return all(self.counts.get(member.name, 0) >= member.min_replicas for member in self.podgang.members)


def shape_key(gang: Waiting) -> Hashable:
    """What the answer about a gang depends on, besides the cluster: equal for gangs that have all their pods and differ
    in names only.
    """
    podgang, left_out = gang.podgang, only_names()
    if not gang.is_whole:
        # It is judged by its workload, and another workload's gang with as few pods may request something else.
        found = gang.templates_of
        name = "" if _has_equal_gangs(found) else podgang.name
        return gang.profile.name, podgang.workload_kind, podgang.namespace, name, _digest(found)
    places = {member.name: place for place, member in enumerate(podgang.members)}
    return (
        gang.profile.name,
        podgang.namespace,
        podgang.workload_kind,
        gang.record,
        pairs(podgang.labels, left_out),
        pairs(podgang.annotations, left_out),
        podgang.constraint.required,
        tuple(
            (
                member.min_replicas,
                gang.counts.get(member.name, 0),
                member.constraint.required,
                gang.pods.get(member.name),
            )
            for member in podgang.members
        ),
        tuple(
            (tuple(places.get(name) for name in config.members), config.constraint.required)
            for config in podgang.group_configs
        ),
        _said_beside_pods(podgang, left_out),
    )


def _said_beside_pods(podgang: PodGang, left_out: frozenset[str]) -> Hashable:
    """What schedulers read of an opted-in workload and not of its pods: the annotations of its Jobs and of its
    TrainJob, and how many pods each Job has. None if that cannot be read.
    """
    if not isinstance(podgang, OptedInGang):
        return ()
    workload = podgang.workload
    above = workload.train_job.annotations if isinstance(workload, MadeJobSet) else {}
    try:
        found = [above, *(place.found for place in every_place(workload))]
    except Malformed:
        return None
    return tuple(pairs(one, left_out) for one in found), tuple(part.each for part in workload.parts)


def _has_equal_gangs(workload: OptedInWorkload | PodCliqueSet | None) -> bool:
    """Whether the templates of a workload say the same of each of its gangs."""
    if isinstance(workload, PodCliqueSet):
        return not workload.scaling_groups
    return isinstance(workload, LeaderWorkerSet)


@lru_cache(maxsize=4)
def _digest(workload: OptedInWorkload | PodCliqueSet | None) -> bytes | None:
    """What stands for all that a workload says. Its text can be long, and many are kept. Gangs of one workload ask one
    after the other.
    """
    if workload is None:
        return None
    metadata = mapping(workload.raw.get("metadata"))
    said: list[Any] = [workload.name, metadata.get("labels"), metadata.get("annotations"), workload.raw.get("spec")]
    return blake2b(json.dumps(said, sort_keys=True, default=str).encode(), digest_size=16).digest()


def unnamed(shape: GangShape, names: Sequence[str]) -> GangShape:
    """The shape with places for the names of its members, so that the answer is that for each gang of the shape."""
    places = {name: _place(index) for index, name in enumerate(names)}
    return shape._replace(
        name="",
        members=tuple(member._replace(name=places[member.name]) for member in shape.members),
        subsets=tuple(
            one._replace(name=f"{_place(index)}-subset", members=tuple(places[name] for name in one.members))
            for index, one in enumerate(shape.subsets)
        ),
    )


def named(witness: Witness, names: Sequence[str]) -> Witness:
    """The witness with the names of a gang's members in their places."""
    return replace(
        witness,
        why=with_names(witness.why, names),
        remedy=with_names(witness.remedy, names),
        members=tuple(with_names(member, names) for member in witness.members),
    )


def with_names(text: str, names: Sequence[str]) -> str:
    """The text with the names of a gang's members in their places."""
    for index, name in enumerate(names):
        text = text.replace(_place(index), name)
    return text


def _place(index: int) -> str:
    """What stands for a member's name. No name has these characters."""
    return f"<{index}>"
