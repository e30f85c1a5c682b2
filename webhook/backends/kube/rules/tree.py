"""What the groups of one tree must agree on. The API server does not compare them, because it checks one object at a
time. Each group is judged with its parent. A composite is also judged with the children that were created before it.
"""

from __future__ import annotations

from itertools import islice

from webhook.backends.kube.groups import (
    MOST_BELOW,
    PARENT,
    REFERENCE,
    Chain,
    above_of,
    group_of,
    is_refused,
    neighbours,
    parent_of,
    template_of,
)
from webhook.backends.kube.keys import COMPOSITES, GROUPS, POD_GROUPS
from webhook.backends.kube.rules.examples import (
    ON,
    TREE,
    child_of,
    composite,
    known,
    pod_group,
    root,
)
from webhook.backends.kube.settings import RuleContext
from webhook.model.fields import METADATA
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.group_tree import MAX_DEPTH, Group, Groups
from webhook.model.keys import Needed, ObjectKey
from webhook.model.stored_object import StoredObject
from webhook.validators.creation_order import least_action
from webhook.validators.registry import Example, Results, rule

_BELOW = pod_group(**child_of("root"))
_ROOT = known(workloads={"demo": TREE}, composite_pod_groups={"root": root()})


@rule(
    "kube/parent-missing",
    kinds=GROUPS,
    default=Action.WARN,
    passes=Example(_BELOW, config=ON, facts=_ROOT),
    fails=Example(_BELOW, config=ON, facts=known(workloads={"demo": TREE})),
)
def parent_missing(found: StoredObject, context: RuleContext) -> Results:
    """The pods of a group wait until every group above it exists ("failed to build hierarchy snapshot"), and only the
    scheduler's log shows it. This is a warning, because the parent may be created later. It is a refusal if the
    namespace's label rollcall.dev/creation-order is `strict`.

    Source: kubernetes, pkg/scheduler (seen with v1.37.0; the API server accepts it); KEP-6012 (creation from the root
    down).
    """
    group = group_of(found)
    composites = context.facts.composite_pod_groups
    above = above_of(found, group, context)
    last = above[-1][1] if above else group
    if last.parent is None or _is_cycle(found, group, above):
        return
    key = (found.key[0], last.parent)
    if composites is None:
        yield Unjudged(PARENT, "the CompositePodGroups", part="composite_pod_groups")
    elif key not in composites:
        which = f"CompositePodGroup {last.parent}" if above else "such CompositePodGroup"
        yield Finding(
            at=PARENT,
            found=group.parent,
            why=f"there is no {which} yet, and no pod below it is scheduled until it exists",
            remedy="create the groups from the root down",
            absent=Needed("composite_pod_groups", key),
            at_least=least_action(context),
            hides_more=True,
        )


@rule(
    "kube/tree-cycle",
    kinds=GROUPS,
    passes=Example(composite("inner", **child_of("root", "inner")), config=ON, facts=_ROOT),
    fails=Example(
        composite("root", **child_of("inner", "root")),
        config=ON,
        facts=known(composite_pod_groups={"inner": root("inner", parent="root")}),
    ),
)
def tree_cycle(found: StoredObject, context: RuleContext) -> Results:
    """Groups in a cycle have no root. kube-scheduler gives up after some steps and never schedules their pods, without
    a message.

    Source: kubernetes, pkg/scheduler (v1.37.0, seen; the API server accepts it); KEP-6012.
    """
    group = group_of(found)
    above = above_of(found, group, context)
    if not _is_cycle(found, group, above):
        return
    of_its_own = _is_root_of(found, group, above)
    why = "this group is its own ancestor" if of_its_own else "the groups above it form a cycle"
    yield Finding(
        at=PARENT,
        found=group.parent,
        why=f"{why}, and kube-scheduler never schedules the pods of a cycle",
        remedy="name a parent that is not below it" if of_its_own else "recreate one of these groups without a parent",
        absent=Needed("composite_pod_groups", above[-1][0]) if above else None,
    )


def _is_root_of(found: StoredObject, group: Group, above: Chain) -> bool:
    """Whether a composite is its own ancestor. A new composite is not in the cache; it is found because an ancestor
    names it.
    """
    return group.composite and found.name in {group.parent, *(one.parent for _, one in above)}


def _is_cycle(found: StoredObject, group: Group, above: Chain) -> bool:
    keys = [key for key, _ in above]
    return _is_root_of(found, group, above) or len(set(keys)) < len(keys)


_SAME = {"metadata": {"name": "root", "namespace": "default"}}


@rule(
    "kube/tree-name",
    kinds=GROUPS,
    passes=Example(_BELOW, config=ON, facts=_ROOT),
    fails=Example({**_BELOW, **_SAME}, config=ON, facts=_ROOT),
)
def tree_name(found: StoredObject, context: RuleContext) -> Results:
    """Up to 1.37 kube-scheduler confuses a PodGroup and a CompositePodGroup of one name. It never finds room for a
    PodGroup that has the same name as the composite above it, and does not report why. They are two kinds, so the API
    server accepts both. For two groups that are not above each other this is a warning. kube-scheduler 1.38 keeps them
    apart, but it may be older than the API server, so in 1.38 this is a warning.

    Source: kubernetes, pkg/scheduler (v1.37.0, seen: with another name the same pods start at once); pull request
    141864 (v1.38.0-beta.0: the keys of groups have their type).
    """
    group, facts = group_of(found), context.facts
    needed: Needed | None = None
    others = facts.pod_groups if group.composite else facts.composite_pod_groups
    if not group.composite and group.parent is not None and group.parent == found.key[1]:
        why = "the CompositePodGroup above it has the same name, so kube-scheduler 1.37 never finds room for its pods"
        # What is served shows the release of the API server, not that of the scheduler.
        action = Action.WARN if is_refused(found, context) else Action.DENY
    elif found.key in (others or {}):
        other, part = (POD_GROUPS, "pod_groups") if group.composite else (COMPOSITES, "composite_pod_groups")
        why = f"a {other.kind} of this namespace has the same name, and kube-scheduler 1.37 confuses the two"
        action, needed = Action.WARN, Needed(part, found.key)
    else:
        return
    yield Finding(
        at=METADATA / "name",
        found=found.key[1],
        why=why,
        remedy="give one of the two another name",
        absent=needed,
        at_most=action,
    )


_DEEP = {
    "root": root(),
    "a": root(parent="root"),
    "b": root(parent="a"),
    "c": root(parent="b"),
}


@rule(
    "kube/tree-depth",
    kinds=GROUPS,
    passes=Example(pod_group(**child_of("b")), config=ON, facts=known(composite_pod_groups=_DEEP)),
    fails=Example(pod_group(**child_of("c")), config=ON, facts=known(composite_pod_groups=_DEEP)),
)
def tree_depth(found: StoredObject, context: RuleContext) -> Results:
    """A Workload declares at most four levels, including the PodGroups, so a deeper tree is not a copy of a Workload.
    kube-scheduler 1.37.0 schedules no pod of a tree with six levels, without a message. The API server counts the
    levels of templates, but not those of groups.

    Source: k8s.io/api scheduling/v1beta1 (WorkloadMaxTreeDepth); kubernetes, pkg/scheduler (v1.37.0, seen: five levels
    start, six do not).
    """
    group = group_of(found)
    above = above_of(found, group, context)
    if _is_cycle(found, group, above):
        return
    below, deepest = _levels_below(found.key, context.facts.composite_pod_groups) if group.composite else (0, None)
    # A named parent is a level, even if it does not exist yet.
    named = (above[-1][1] if above else group).parent is not None and len(above) < MAX_DEPTH
    levels = named + len(above) + 1 + below
    if levels > MAX_DEPTH:
        key = deepest or (above[-1][0] if above else None)
        yield Finding(
            at=METADATA / "name" if group.parent is None else PARENT,
            found=group.parent or found.name,
            why=f"the tree would have {levels} levels, including PodGroups, "
            f"and a Workload declares at most {MAX_DEPTH}",
            remedy="remove a level of CompositePodGroups",
            absent=None if key is None else Needed("composite_pod_groups", key),
        )


def _levels_below(key: ObjectKey, composites: Groups | None) -> tuple[int, ObjectKey | None]:
    """The number of levels below a composite, including the PodGroups, and the lowest composite among them. The walk
    stops at a limit.
    """
    levels, deepest, left = 1, None, MOST_BELOW
    found: list[tuple[ObjectKey, int]] = [(key, 1)]
    while found and composites is not None:
        place, depth = found.pop()
        if depth > levels:
            levels, deepest = depth, place
        if depth > MAX_DEPTH:
            break
        children = list(islice(composites.below(place), left))
        left -= len(children)
        found += [(child, depth + 1) for child in children]
    return levels, deepest


@rule(
    "kube/tree-workload",
    kinds=GROUPS,
    passes=Example(_BELOW, config=ON, facts=_ROOT),
    fails=Example(_BELOW, config=ON, facts=known(composite_pod_groups={"root": root(workload="other")})),
)
def tree_workload(found: StoredObject, context: RuleContext) -> Results:
    """A tree is made from one Workload. A tree with groups of two Workloads is not a copy of either.

    Source: kubernetes/enhancements, KEP-6012 (calls it misuse; v1.37.0 accepts it).
    """
    group = group_of(found)
    for other in neighbours(found, group, context.facts):
        if group.workload is not None and other.group.workload not in {None, group.workload}:
            yield Finding(
                at=REFERENCE / "workloadName",
                found=group.workload,
                why=f"{other.called} is from the Workload {other.group.workload}, and a tree is made from one Workload",
                remedy="name the same Workload in all groups of a tree",
                absent=other.needed,
            )
            return


@rule(
    "kube/template-parent",
    kinds=GROUPS,
    passes=Example(_BELOW, config=ON, facts=_ROOT),
    fails=Example(pod_group(**{**child_of("root"), "parentCompositePodGroupName": None}), config=ON, facts=_ROOT),
)
def template_parent(found: StoredObject, context: RuleContext) -> Results:
    """The tree of groups must match the tree of templates. A group with another parent counts for another minimum than
    was declared, or for none.

    Source: kubernetes/enhancements, KEP-6012 (calls it misuse; v1.37.0 accepts it).
    """
    group = group_of(found)
    known_template, parent = template_of(found, group, context.facts), parent_of(found, group, context.facts)
    if known_template is None or (group.parent is not None and parent is None):
        return
    declared = known_template[1].parent
    if parent is None:
        actual = None
    elif parent.group.workload != group.workload:
        return
    else:
        actual = parent.group.template
    if declared != actual:
        yield Finding(
            at=PARENT,
            found=group.parent,
            why=f"its template {group.template} is {_position(declared)}, but this group would be {_position(actual)}",
            remedy="name a parent that was made from the template above its own" if declared else "remove the parent",
            absent=Needed("workloads", (found.key[0], group.workload or "")) if parent is None else parent.needed,
        )


def _position(template: str | None) -> str:
    return "at the root" if template is None else f"below {template}"
