"""A stored group of the Workload API: its template, its neighbours in its tree, and its priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from webhook.backends.kube.facts import PARENT as PARENT_FIELD
from webhook.backends.kube.facts import group_in
from webhook.backends.kube.generation import COMPOSITE_BETA, is_of_1_38, workload_apis
from webhook.backends.kube.keys import COMPOSITES, POD_GROUPS
from webhook.backends.kube.settings import RuleContext
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action
from webhook.model.group_tree import Group, Workload, ancestors
from webhook.model.keys import Needed, ObjectKey
from webhook.model.known_objects import TopologyBinding
from webhook.model.stored_object import StoredObject

# At most this many groups directly below a new group are checked. Ordinary trees have fewer.
MOST_BELOW = 32

PARENT = SPEC / PARENT_FIELD
# The policy of pods and groups without a PriorityClass that says otherwise.
PREEMPTS = "PreemptLowerPriority"
REFERENCE = SPEC / "workloadRef"


def group_of(found: StoredObject) -> Group:
    """The PodGroup or CompositePodGroup that is judged. Raises `Malformed`."""
    return group_in(found.spec, composite=found.kind == COMPOSITES.kind)


def is_of_1_37(found: StoredObject) -> bool:
    """Whether an object is of the generation that has trees. The API server of that generation looks up no Workload."""
    return found.version not in {"v1alpha1", "v1alpha2"}


def is_refused(found: StoredObject, context: RuleContext) -> bool:
    """Whether what only 1.38 refuses is refused: the cluster, or the version of the object, is of 1.38 or newer."""
    return bool(is_of_1_38(workload_apis(context.settings, context.facts))) or (
        found.kind == COMPOSITES.kind and found.version == COMPOSITE_BETA.version
    )


def most(found: StoredObject, context: RuleContext) -> Action:
    """The strongest action for what only 1.38 refuses: before it, and in an unknown release, a warning."""
    return Action.DENY if is_refused(found, context) else Action.WARN


def workload_key(found: StoredObject, group: Group) -> ObjectKey | None:
    """The Workload that a group names."""
    return None if group.workload is None else (found.key[0], group.workload)


def template_of(found: StoredObject, group: Group, facts: ClusterFacts) -> tuple[Workload, Group] | None:
    """The Workload and the template that a group names, if both are known and the template is of the group's kind."""
    key = workload_key(found, group)
    workload = None if key is None else (facts.workloads or {}).get(key)
    if workload is None or group.template is None:
        return None
    template = workload.templates.get(group.template)
    return None if template is None or template.composite != group.composite else (workload, template)


# The ancestors of a group, nearest first.
Chain = list[tuple[ObjectKey, Group]]


def above_of(found: StoredObject, group: Group, context: RuleContext) -> Chain:
    """The known ancestors of the judged group; in a cycle they include the group itself."""
    return list(ancestors(found.key, group, context.facts.composite_pod_groups or {}))


class Neighbour(NamedTuple):
    """A group directly above or directly below the judged group."""

    # Its description in messages: "CompositePodGroup demo above it".
    called: str
    above: bool
    group: Group
    needed: Needed


def parent_of(found: StoredObject, group: Group, facts: ClusterFacts) -> Neighbour | None:
    """The parent of a group; None if it is unknown or is the group itself."""
    key = (found.key[0], group.parent or "")
    parent = None if facts.composite_pod_groups is None else facts.composite_pod_groups.get(key)
    if parent is None or (group.composite and key == found.key):
        return None
    return Neighbour(f"{COMPOSITES.kind} {key[1]} above it", True, parent, Needed("composite_pod_groups", key))


def neighbours(found: StoredObject, group: Group, facts: ClusterFacts) -> Iterator[Neighbour]:
    """The known parent of a group, then its known children, up to a limit."""
    parent = parent_of(found, group, facts)
    if parent is not None:
        yield parent
    if not group.composite:
        return
    for part, kind in (("composite_pod_groups", COMPOSITES.kind), ("pod_groups", POD_GROUPS.kind)):
        known = getattr(facts, part)
        for key in islice(known.below(found.key) if known is not None else (), MOST_BELOW):
            if key != found.key or kind != found.kind:
                yield Neighbour(f"{kind} {key[1]} below it", False, known[key], Needed(part, key))


def groups_of_tree(key: ObjectKey, facts: ClusterFacts) -> Iterator[ObjectKey]:
    """The known PodGroups in the tree of a PodGroup, up to a limit."""
    groups, composites = facts.pod_groups, facts.composite_pod_groups
    group = None if groups is None else groups.get(key)
    if groups is None or composites is None or group is None:
        return
    waiting, left = [above for above, _ in ancestors(key, group, composites)][-1:], MOST_BELOW
    while waiting:
        place = waiting.pop()
        for below in islice(groups.below(place), left):
            left -= 1
            yield below
        children = list(islice(composites.below(place), left))
        left -= len(children)
        waiting += children


def priority_of(group: Group, facts: ClusterFacts) -> int | None:
    """The priority that the API server gives, or gave, a group; None if it is unknown."""
    return resolved(group.priority, group.priority_class, facts)


def resolved(priority: int | None, name: str | None, facts: ClusterFacts) -> int | None:
    """The priority for this class name. `priority` is the number that a stored object already has and wins; without a
    class, the default class counts.
    """
    classes = facts.priority_classes
    if priority is not None or classes is None:
        return priority
    if name is not None:
        found = classes.get(name)
        return None if found is None else found.value
    if not facts.is_whole("priority_classes"):
        return None
    # If there are several, the API server uses the lowest.
    return min((found.value for found in classes.values() if found.is_default), default=0)


def policy_of(group: Group, facts: ClusterFacts) -> str | None:
    """The preemption policy of a group: its own, else that of its class; None if it is unknown."""
    return group.preemption or policy_named(group.priority_class, facts)


def policy_named(name: str | None, facts: ClusterFacts) -> str | None:
    """The preemption policy that the API server takes from this class; without a name, from the default class."""
    classes = facts.priority_classes
    if classes is None:
        return None
    if name is not None:
        found = classes.get(name)
        return None if found is None else found.preemption_policy
    if not facts.is_whole("priority_classes"):
        return None
    default = min((found for found in classes.values() if found.is_default), key=lambda one: one.value, default=None)
    return PREEMPTS if default is None else default.preemption_policy


def is_wider(key: str, than: str, bindings: Mapping[str, TopologyBinding]) -> bool:
    """Whether the domains of `key` contain those of `than` in one topology: its levels are listed broadest first."""
    for binding in bindings.values():
        keys = list(binding.keys.values())
        if key in keys and than in keys and keys.index(key) < keys.index(than):
            return True
    return False


def said_policy(group: Group) -> Any:
    """The policy of a group, as shown in a message."""
    return "basic" if group.minimum is None else group.minimum


def policy_path(place: FieldPath, group: Group) -> FieldPath:
    """The path of a group's minimum."""
    return place / "schedulingPolicy" / "gang" / ("minGroupCount" if group.composite else "minCount")


def topology_path(place: FieldPath) -> FieldPath:
    """The path of the key of a group's topology."""
    return place / "schedulingConstraints" / "topology" / Item(0) / "key"
