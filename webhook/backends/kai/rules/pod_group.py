"""The minimums of PodGroups of other authors, which KAI's own webhook does not check, or checks only at creation.

The rules about where a PodGroup runs are in their own file. PodGroups made by podgrouper are not judged: its user is
exempt. Those of Grove's own backend are judged by where they run, and a change that makes a running gang stale is a
warning: Grove makes trees with branches that may stay empty, and needs a scheduler that evicts no gang as stale.
"""

from __future__ import annotations

from functools import partial

from webhook.backends import families
from webhook.backends.kai.keys import POD_GROUPS
from webhook.backends.kai.rules.examples import pod_group, subgroup
from webhook.backends.kai.settings import RuleContext
from webhook.backends.kai.subgroups import SubGroup, Tree
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.reading import integer, mapping, text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, Rule, rule

pod_group_rule = partial(rule, kinds=(POD_GROUPS,))
_shape_rule = partial(pod_group_rule, of_grove=Action.OFF)

_TWO = (subgroup("prefill", 2), subgroup("decode", 4))


@_shape_rule(
    "kai/group-parent",
    passes=Example(pod_group(subgroup("serve"), subgroup("prefill", 2, "serve"), subgroup("decode", 4, "serve"))),
    fails=Example(pod_group(subgroup("prefill", 2, "serve"), subgroup("decode", 4))),
)
def group_parent(found: StoredObject, _: RuleContext) -> Results:
    """kai-scheduler cannot read a PodGroup if the parent of a subgroup does not exist. If subgroups form a cycle, they
    are not part of the tree. In both cases their pods are never scheduled. KAI's own webhook refuses both, where it
    runs.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go,
    pkg/apis/scheduling/v2alpha2/podgroup_webhook.go (v0.15 to 2026-08).
    """
    tree = Tree(found.spec)
    lost = tree.lost()
    missing = [
        group for group in tree.by_name.values() if group.parent is not None and group.parent not in tree.by_name
    ]
    for group in missing:
        why = "no subgroup has that name, so kai-scheduler cannot read the PodGroup and starts none of its pods"
        yield Finding(
            at=group.path / "parent", found=group.parent, why=why, remedy="name an existing subgroup, or remove parent"
        )
    if lost and not missing:
        first = tree.by_name[min(lost)]
        yield Finding(
            at=first.path / "parent",
            found=first.parent,
            why="its ancestors form a cycle, so the scheduler never counts the pods below",
            remedy="remove the parent of one subgroup in the cycle",
        )


@_shape_rule(
    "kai/group-minimum",
    passes=Example(pod_group(*_TWO, minSubGroup=2)),
    fails=Example(pod_group(*_TWO, minSubGroup=3)),
)
def group_minimum(found: StoredObject, _: RuleContext) -> Results:
    """A PodGroup, or a set of subgroups, that requires more groups than it has below it is admitted but never
    scheduled, without a message. KAI's own webhook only warns about it.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/subgroupset.go; seen with
    v0.16.8.
    """
    tree = Tree(found.spec)
    # Without subgroups, all pods form one group.
    counted = [(group, len(tree.below[group.name])) for group in tree.sets]
    for group, below in counted or [(tree.root, 1)]:
        if group.groups is not None and group.groups > below:
            yield Finding(
                at=group.path / "minSubGroup",
                found=group.groups,
                why=f"only {below} {'group is' if below == 1 else 'groups are'} below it, "
                "so this minimum is never reached",
                remedy=f"set it to at most {below}, or remove it to require all",
                instead=(below,),
            )


@_shape_rule(
    "kai/group-optional",
    passes=Example(pod_group(*_TWO, minSubGroup=2)),
    fails=Example(pod_group(*_TWO, minSubGroup=1)),
)
def group_optional(found: StoredObject, _: RuleContext) -> Results:
    """A gang with fewer groups than exist can start, but it is evicted later. If a leaf has fewer pods than its
    minMember, the gang is stale, even if minSubGroup is reached. 60 seconds later all of its pods are evicted.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/job_info.go (`IsStale`),
    pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """
    tree = Tree(found.spec)
    demanding = set() if _stays(found) else tree.demanding()
    for group in tree.sets:
        below = len(tree.below[group.name])
        if group.groups is not None and group.groups < below and group.name in demanding:
            yield Finding(
                at=group.path / "minSubGroup",
                found=group.groups,
                why=f"the gang can start with fewer than the {below} groups below it, "
                "and is evicted as incomplete 60 s later",
                remedy="remove it, and set minMember to 0 for leaves that may stay empty",
                instead=(below,),
            )


@_shape_rule(
    "kai/group-without-minimum",
    default=Action.WARN,
    passes=Example(pod_group(subgroup("prefill", 2), subgroup("helper", 0))),
    fails=Example(pod_group(subgroup("prefill", 0), subgroup("helper", 0))),
)
def group_without_minimum(found: StoredObject, _: RuleContext) -> Results:
    """A leaf that needs no pod is always satisfied. If all leaves are like that, no pod waits for another, and the pods
    start one by one as if there were no PodGroup.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/podset.go.
    """
    tree = Tree(found.spec)
    minimums = tree.minimums
    # `kai/group-structure` reports a leaf that does not state its minimum.
    if minimums and not any(minimums.values()) and all(leaf.pods is not None for leaf in tree.leaves):
        named = [leaf.path / "minMember" for leaf in tree.leaves]
        yield Finding(
            at=min(named, key=lambda path: path.anchor) if named else SPEC / "minMember",
            found=0,
            why="every minimum in this PodGroup is 0, so its pods start one by one",
            remedy="set minMember for the pods that must start together",
        )


@_shape_rule(
    "kai/set-minimum",
    passes=Example(
        pod_group(subgroup("serve", minSubGroup=1), subgroup("decode", 4, "serve")),
        old=pod_group(subgroup("serve"), subgroup("decode", 4, "serve")),
    ),
    fails=Example(
        pod_group(subgroup("serve", 4), subgroup("decode", 4, "serve")),
        old=pod_group(subgroup("serve"), subgroup("decode", 4, "serve")),
    ),
)
def set_minimum(found: StoredObject, _: RuleContext) -> Results:
    """A subgroup with other subgroups below it counts groups, not pods, so its minMember has no effect. KAI's own
    webhook only warns about it in an update, but refuses such a PodGroup when it is created. No webhook sees a file.

    Source: kai-scheduler/KAI-Scheduler, pkg/apis/scheduling/v2alpha2/podgroup_webhook.go (v0.15 to 2026-08).
    """
    before = set() if found.old is None else {group.name for group in _sets_with_pods(found.old)}
    for group in _sets_with_pods(found):
        # What 0 means at creation depends on the release. `kai/group-structure` reports both minimums in one subgroup.
        if group.name not in before and (group.pods or found.old is not None) and not group.states_both:
            yield Finding(
                at=group.path / "minMember",
                found=group.pods,
                why="the subgroup has children, so KAI ignores its minMember, "
                "and refuses the PodGroup when it is created",
                remedy="remove it, or set minSubGroup instead",
            )


def _sets_with_pods(found: StoredObject) -> list[SubGroup]:
    return [group for group in Tree(found.spec).sets if group.name and group.pods is not None]


@_shape_rule(
    "kai/group-structure",
    passes=Example(pod_group(*_TWO, minSubGroup=2)),
    fails=Example(pod_group(subgroup("prefill", 2), subgroup("decode"))),
)
def group_structure(found: StoredObject, _: RuleContext) -> Results:
    """KAI's own webhook refuses a PodGroup or a subgroup that states both minMember and minSubGroup, two subgroups of
    one name, and a leaf without minMember or with minSubGroup. No webhook sees a file, and where KAI's does not run,
    the scheduler reads one of the two and drops the other.

    Source: kai-scheduler/KAI-Scheduler, pkg/apis/scheduling/v2alpha2/podgroup_webhook.go (v0.15 to 2026-08).
    """
    tree = Tree(found.spec)
    refused = "so KAI refuses the PodGroup"
    for group in (tree.root, *tree.by_name.values()):
        if group.states_both:
            yield Finding(
                at=group.path / "minMember",
                found=group.pods,
                why=f"minSubGroup is also set, and only one of the two counts, {refused}",
                remedy="keep minSubGroup if it counts subgroups, else minMember",
            )
    for group in tree.twins:
        yield Finding(
            at=group.path / "name",
            found=group.name,
            why=f"another subgroup has this name, {refused}",
            remedy="give each subgroup its own name",
        )
    for leaf in tree.leaves:
        if leaf.groups is not None and not leaf.pods:
            why = f"no subgroup has this one as parent, so it counts pods and not groups, {refused}"
            yield Finding(at=leaf.path / "minSubGroup", found=leaf.groups, why=why, remedy="set minMember instead")
        elif leaf.pods is None:
            yield Finding(
                at=leaf.path / "minMember",
                found=None,
                why=f"a subgroup without subgroups below it must state how many pods it needs, {refused}",
                remedy="set it to the number of pods that must start together",
            )


@_shape_rule(
    "kai/subgroup-name",
    passes=Example(pod_group(subgroup("p" * LABEL_VALUE_LIMIT, 2))),
    fails=Example(pod_group(subgroup("p" * (LABEL_VALUE_LIMIT + 1), 2))),
)
def subgroup_name(found: StoredObject, _: RuleContext) -> Results:
    """A pod names its leaf in a label. If the name of a leaf is too long for a label value, no pod can belong to the
    leaf.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/constants (`kai.scheduler/subgroup-name`); the PodGroup CRD of
    scheduling.run.ai/v2alpha2 sets no limit.
    """
    for leaf in Tree(found.spec).leaves:
        if len(leaf.name) > LABEL_VALUE_LIMIT:
            yield Finding(
                at=leaf.path / "name",
                found=leaf.name,
                why=f"a label value has at most {LABEL_VALUE_LIMIT} characters, so no pod can name this subgroup",
                remedy="give it a shorter name",
            )


_RUNNING = {"resourcesStatus": {"allocated": {"cpu": "4"}}}


def _raised_rule(
    id: str, documentation: str, *, seen: bool, why: str, remedy: str, default: Action = Action.DENY
) -> Rule:
    """The rule about a raised minimum of a gang with pods on nodes; `seen` says whether its status shows such pods."""
    status = _RUNNING if seen else None

    def check(found: StoredObject, _: RuleContext) -> Results:
        if found.old is not None and _has_pods(found.old) is seen and not _stays(found):
            for group, before, now in _raised(found, found.old):
                yield Finding(
                    at=group.path / "minMember", found=now, why=f"it was {before}{why}", remedy=remedy, forbidden=seen
                )

    declare = pod_group_rule(
        id,
        default=default,
        passes=Example(pod_group(subgroup("decode", 2)), old=pod_group(subgroup("decode", 4), status=status)),
        fails=Example(pod_group(subgroup("decode", 4)), old=pod_group(subgroup("decode", 2), status=status)),
        documentation=documentation,
        of_grove=Action.WARN,
    )
    return declare(check)


group_raised = _raised_rule(
    "kai/group-raised",
    """If a gang has pods on nodes and any leaf has fewer than its minimum, the gang is stale at once. 60 seconds later
    all of its pods are evicted, without an event on them. The status of the PodGroup shows whether it has pods on
    nodes. If Grove's own backend writes the PodGroup, it is a warning.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction, `default-staleness-grace-period`,
    pkg/podgroupcontroller (`status.resourcesStatus.allocated`); seen with v0.16.8.
    """,
    seen=True,
    why=", and kai-scheduler evicts a gang with pods on nodes that is below its minimum",
    remedy="create a new PodGroup for a larger gang, or delete its pods first",
)


group_raised_unseen = _raised_rule(
    "kai/group-raised-unseen",
    """Like kai/group-raised, but the status of the PodGroup shows no pods on nodes. The status may not have been
    written yet, and pods that were bound a moment ago would be evicted.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """,
    seen=False,
    why="; if fewer pods are on nodes by now, kai-scheduler evicts them",
    remedy="check first that none of its pods is on a node",
    default=Action.WARN,
)


def _stays(found: StoredObject) -> bool:
    """Whether the PodGroup says (as of v0.17) that it must never be evicted as stale."""
    return (text(found.spec.get("stalenessGracePeriod")) or "").startswith("-")


def _has_pods(found: StoredObject) -> bool:
    resources = mapping(mapping(found.raw.get("status")).get("resourcesStatus"))
    return any(str(amount) != "0" for amount in mapping(resources.get("allocated")).values())


def _raised(found: StoredObject, old: StoredObject) -> list[tuple[SubGroup, int, int]]:
    """The leaves that are new or need more pods than before, each with both minimums."""
    tree, before = Tree(found.spec), Tree(old.spec).minimums
    return [
        (tree.by_name.get(name, tree.root), before.get(name, 0), now)
        for name, now in tree.minimums.items()
        if now > before.get(name, 0)
    ]


group_pods = families.group_pods(
    "kai/group-pods",
    """kai-scheduler tries a PodGroup only when it has as many pods as its minMember. The rule counts the pods in the
    same files: pods, and the templates of their controllers. With subgroups minMember has no meaning.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info.
    """,
    system="KAI",
    kind=POD_GROUPS,
    version="v2alpha2",
    minimum=lambda found: None if found.spec.get("subGroups") else integer(found.spec.get("minMember")),
    queue="team-a",
)
