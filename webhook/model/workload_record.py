"""The record of a workload: what its pods are prepared from, and the scales that `kubectl scale` and autoscalers
write.

The review of a scale has only numbers and a name. What the gang needs is kept with the record of its PodCliqueSet,
which is found by the name: `<set>-<replica>-<clique>`, `<set>-<replica>-<group>` or
`<set>-<replica>-<group>-<replica>-<clique>`. Source: ai-dynamo/grove, operator/api/common/namegen.go; k8s.io/api
autoscaling/v1 (0 replicas are left out).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model import kueue
from webhook.model.bounds import fits, name_text
from webhook.model.capabilities import (
    DISRUPTION_LABEL,
    QUOTA_ANNOTATION,
    QUOTA_LABEL,
    VOLCANO_QUEUE,
    podclique_ends,
    spare_cliques,
)
from webhook.model.keys import ObjectKey, Record, Scalable
from webhook.model.pod_template import pods_claims
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet

SCALE = ("autoscaling", "Scale")
POD_CLIQUE, SCALING_GROUP = "podcliques", "podcliquescalinggroups"


class ScaleChange(NamedTuple):
    """A change of the replicas of `target`. `group` names the PodCliqueScalingGroup that a PodClique is in."""

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
    """Returns the cliques and scaling groups of a set; none if they are too many to keep."""
    single = [
        Scalable(clique.name, clique.min_available, clique.replicas if _has_fixed_size(clique) else None)
        for clique in workload.cliques
        if clique.group is None
    ]
    groups = []
    for group in workload.scaling_groups:
        members = [clique for clique in workload.cliques if clique.group is group]
        most = group.replicas if any(_has_fixed_size(clique) for clique in members) else None
        cliques = tuple(Scalable(clique.name, clique.min_available) for clique in members)
        groups.append(Scalable(group.name, group.min_available, most, cliques))
    scalable = (*single, *groups)
    every = [*(group.name for group in groups), *(clique.name for clique in workload.cliques)]
    return scalable if fits(every) else ()


def _has_fixed_size(clique: Clique) -> bool:
    """Returns whether the pods of a clique are in a pod group of Kueue, which states its number of pods."""
    labels = mapping(clique.raw.get("labels"))
    return kueue.QUEUE_NAME in labels and bool(text(clique.annotations.get(kueue.POD_GROUP_TOTAL_COUNT)))


def numbers_in(scale: Manifest | None) -> int:
    """Returns the replicas that a Scale states. Raises `Malformed`."""
    return integer(mapping(mapping(scale).get("spec")).get("replicas")) or 0


def target_of(name: str, namespace: str, resource: str, sets: Mapping[ObjectKey, Record]) -> ScaleTarget | None:
    """Returns the one clique or scaling group of that name, else None. An empty `resource` is not known."""
    targets = list(_targets(name, namespace, resource, sets))
    return targets[0] if len(targets) == 1 else None


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
                    yield from (
                        ScaleTarget(record, member, whole) for member in target.cliques or () if member.name == clique
                    )


def _divisions(name: str) -> Iterator[tuple[str, str, str]]:
    """Yields each way to read a name as a name, an index and a name, joined by dashes."""
    words = name.split("-")
    for place in range(1, len(words) - 1):
        if words[place].isascii() and words[place].isdigit():
            yield "-".join(words[:place]), words[place], "-".join(words[place + 1 :])


# On a workload: the choice of its scheduler, and from CREATE on its record. On a namespace: the choice for its new
# workloads.
SCHEDULER_LABEL = "rollcall.dev/scheduler"
# In place of a scheduler, on a workload that is no gang, in a namespace that chooses a scheduler for its workloads.
OPTED_OUT = "none"
# The prefix of Rollcall's own labels.
ROLLCALL_LABELS = "rollcall.dev/"
# The key of every queue contains this, for any scheduler.
QUEUE_WORD = "queue"
# Read only as annotations: no scheduler reads a queue from a label with that key.
_NO_LABELS = frozenset({VOLCANO_QUEUE})


def recorded_quota(workload: PodCliqueSet) -> str | None:
    """Returns the quota of a set: its own annotation, else the first clique's (rules refuse cliques that differ)."""
    set_quota = text(workload.annotations.get(QUOTA_ANNOTATION))
    if set_quota is not None:
        return set_quota
    return next((quota for clique in workload.cliques if (quota := quota_of_template(clique.raw)) is not None), None)


def quota_of_template(metadata: Mapping[str, Any]) -> str | None:
    """Returns the quota that one pod template, or a pod, names: Grove's annotation, else Koordinator's label."""
    annotation = text(mapping(metadata.get("annotations")).get(QUOTA_ANNOTATION))
    return annotation or text(mapping(metadata.get("labels")).get(QUOTA_LABEL))


def queues_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Returns the queues that a set, a template, a PodGang or a pod names: all keys whose name contains "queue", labels
    first.

    The scheduler decides which key counts, and with KAI the administrator. That a key names a queue is visible from its
    name.
    """
    queues: dict[str, str] = {}
    for name in ("annotations", "labels"):
        for key, value in mapping(metadata.get(name)).items():
            if QUEUE_WORD not in key or QUEUE_WORD not in key.rpartition("/")[2]:
                continue
            if (name != "labels" or key not in _NO_LABELS) and (queue := (text(value) or "").strip()):
                queues[key] = queue
    return queues


def queue_of(metadata: Mapping[str, Any], key: str) -> str | None:
    """Returns the queue that `metadata` names under `key`: by a label, else by an annotation."""
    return queues_of(metadata).get(key)


def record_of(workload: PodCliqueSet, scheduler: str | None) -> Record:
    """Returns the record of `workload` with the recorded or chosen `scheduler`.

    The queue is the set's own, else the first that a clique names (rules refuse cliques that differ).
    """
    queues: dict[str, str] = {}
    for holder in (mapping(workload.raw.get("metadata")), *(clique.raw for clique in workload.cliques)):
        for key, queue in queues_of(holder).items():
            queues.setdefault(key, queue)
    ordered = tuple((key, queues[key]) for key in sorted(queues))
    disruption = disruption_of(workload.labels)
    spare = spare_cliques(workload)
    claims = pods_claims(workload.annotations, ((end, clique.pod_spec) for end, clique in podclique_ends(workload)))
    return Record(scheduler, recorded_quota(workload), ordered, workload.priority_class, disruption, spare, claims)


def disruption_of(labels: Mapping[str, Any]) -> str | None:
    """Returns the disruption mode that the labels of a workload name."""
    return name_text(labels.get(DISRUPTION_LABEL))


def record_in(metadata: Mapping[str, Any], scheduler: str | None, priority_class: str | None = None) -> Record:
    """Returns the part of its workload's record that a PodGang or a pod shows in its own metadata."""
    queues = queues_of(metadata)
    disruption = disruption_of(mapping(metadata.get("labels")))
    ordered = tuple(sorted(queues.items())) if queues else ()
    return Record(scheduler, quota_of_template(metadata), ordered, priority_class, disruption)
