"""The cliques of a PodCliqueSet whose pods Kueue holds, with how many pods and gangs there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.fields import FieldPath
from webhook.model.kueue import keys
from webhook.model.kueue.holding import Held, held_clique, is_installed
from webhook.model.reading import mapping
from webhook.model.workloads.podcliqueset import Clique, PodCliqueSet
from webhook.validators.registry import Context


class HeldClique(NamedTuple):
    """A clique whose pods Kueue holds."""

    clique: Clique
    held: Held

    @property
    def group_path(self) -> FieldPath:
        """Where the clique names its pod group."""
        template = self.clique.template
        if template.annotations.get(keys.POD_GROUP_NAME):
            return template.annotations_path / keys.POD_GROUP_NAME
        return template.labels_path / keys.POD_GROUP_NAME

    @property
    def starts_early(self) -> bool:
        """Whether Kueue admits its pod group before all pods of the group exist."""
        return self.clique.annotations.get(keys.POD_GROUP_FAST_ADMISSION) == "true"


def may_be_held(labels: Mapping[str, Any], namespace: str, context: Context[Any]) -> bool:
    """Whether an object with these labels can be in a queue of Kueue. Cheap, because most objects are in none."""
    return (
        keys.QUEUE_NAME in labels
        or context.kueue.manage_without_queue_name
        or (namespace, keys.DEFAULT_QUEUE) in (context.facts.local_queues or ())
    )


def held_cliques(workload: PodCliqueSet, context: Context[Any]) -> Iterator[HeldClique]:
    """The cliques that have pods and whose pods Kueue holds."""
    cliques = [
        clique
        for clique in workload.cliques
        if may_be_held(mapping(clique.raw.get("labels")), workload.namespace, context)
    ]
    if not cliques or is_installed(context.facts) is False:
        return
    for clique in cliques:
        held = held_clique(clique, workload, context.facts, context.kueue)
        if held is not None and clique.replicas > 0:
            yield HeldClique(clique, held)


def pods_of(clique: Clique, workload: PodCliqueSet) -> int:
    """The number of pods that a set has of a clique, in all its gangs."""
    # A set without replicas gets them later.
    return max(workload.replicas, 1) * clique.replicas * (1 if clique.group is None else clique.group.replicas)


def starts_alone(workload: PodCliqueSet) -> bool:
    """Whether each gang of a set has a single pod."""
    base = sum(
        clique.replicas * (1 if clique.group is None else clique.group.min_available) for clique in workload.cliques
    )
    if base > 1:
        return False
    members = {clique.name: clique.replicas for clique in workload.cliques}
    return all(sum(members.get(name, 0) for name in group.clique_names) <= 1 for group in workload.scaling_groups)


def growth(workload: PodCliqueSet) -> str | None:
    """Why a set is not a single gang with a fixed number of pods, in words; None if it is."""
    if workload.replicas > 1:
        return f"the gangs of all {workload.replicas} replicas share this pod group, whose number of pods is fixed"
    for group in workload.scaling_groups:
        if group.replicas > group.min_available or group.raw.get("scaleConfig") is not None:
            return f"all gangs of the scaling group {group.name} share this pod group, whose number of pods is fixed"
    for clique in workload.cliques:
        if clique.spec.get("autoScalingConfig") is not None:
            return f"autoScalingConfig of {clique.name} changes the number of pods, which is fixed in a pod group"
    return None
