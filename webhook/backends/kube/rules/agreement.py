"""What the groups of one tree and the templates of a Workload must agree on: priority, disruption, gangs below gangs,
and topology that gets narrower down the tree. Up to 1.37 the API server compares only the priorities of a Workload's
own templates. From 1.38 on it compares more of the templates, and kube-scheduler the same of the groups.
"""

from __future__ import annotations

from webhook.backends.kube.facts import templates_in
from webhook.backends.kube.groups import (
    Chain,
    above_of,
    group_of,
    is_of_1_37,
    is_refused,
    is_wider,
    most,
    neighbours,
    parent_of,
    priority_of,
    template_of,
    topology_path,
)
from webhook.backends.kube.keys import GROUPS, WORKLOADS
from webhook.backends.kube.rules.examples import (
    ALL,
    BASIC,
    OF_1_38,
    ON,
    RACK,
    ZONE,
    child_of,
    known,
    near,
    pod_group,
    root,
)
from webhook.backends.kube.settings import RuleContext
from webhook.model.disruption import Disruption
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.group_tree import MAX_DEPTH, Group, Workload
from webhook.model.keys import Needed
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, rule

_BELOW = pod_group(**child_of("root"))


@rule(
    "kube/group-priority",
    kinds=GROUPS,
    passes=Example(
        pod_group(**child_of("root"), priorityClassName="high"),
        config=ON,
        facts=known(composite_pod_groups={"root": root(priority_class="high")}),
    ),
    fails=Example(_BELOW, config=ON, facts=known(composite_pod_groups={"root": root(priority_class="high")})),
)
def group_priority(found: StoredObject, context: RuleContext) -> Results:
    """Pods must have the priority of the tree's root and of their own group. If the two differ, kube-scheduler blocks
    the gang, regardless of the priority of the pods.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority"; the API server compares the templates of a Workload only.
    """
    group = group_of(found)
    if not is_of_1_37(found):
        return
    known_template = template_of(found, group, context.facts)
    others = [(other.called, other.group, other.needed) for other in neighbours(found, group, context.facts)]
    # If a template names no priority class, the author of its group chooses one.
    if known_template is not None and (known_template[1].priority_class or known_template[1].priority is not None):
        needed = Needed("workloads", (found.key[0], group.workload or ""))
        others.append((f"its template {group.template}", known_template[1], needed))
    own = priority_of(group, context.facts)
    for called, other, needed in others:
        theirs = priority_of(other, context.facts)
        at = SPEC / "priorityClassName"
        if own is None or theirs is None:
            if group.priority_class != other.priority_class and not context.facts.is_whole("priority_classes"):
                yield Unjudged(at, "the PriorityClasses", part="priority_classes")
                return
        elif own != theirs:
            yield Finding(
                at=at,
                found=group.priority_class,
                why=f"its priority is {own}, {called} has {theirs}, "
                "and kube-scheduler blocks a tree with two priorities",
                remedy="name the same PriorityClass in all templates, groups and pods of the tree, or in none",
                absent=needed,
            )
            return


_TOGETHER = known(apis=OF_1_38.apis, composite_pod_groups={"root": root(disruption=Disruption.ALL)})


@rule(
    "kube/disruption-single",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**child_of("root"), **ALL), config=ON, facts=_TOGETHER),
    fails=Example(_BELOW, config=ON, facts=_TOGETHER),
)
def disruption_single(found: StoredObject, context: RuleContext) -> Results:
    """A group below a group with disruption mode all cannot be disrupted pod by pod. Preemption evicts the highest
    group with mode all as a whole, so mode single below it has no effect. A group without a disruptionMode has mode
    single. From 1.38 on it is refused; before that this is a warning.

    Source: kubernetes/enhancements, KEP-5710 (below a composite with all, every group has all; v1.37.0 does not check
    it); kubernetes v1.38.0-beta.0, pkg/apis/scheduling/validation (validateCompositePodGroupTemplate), pkg/scheduler.
    """
    why = "is disrupted as a whole, so a group below it cannot be disrupted pod by pod"
    remedy = "set disruptionMode to all here, or to single on the group above"
    if found.kind == WORKLOADS.kind:
        templates = {one.name: one for one in templates_in(found.spec)}
        for one in templates.values():
            above = templates.get(one.group.parent or "")
            if above is not None and _breaks(one.group, above.group):
                said = f"the template {above.name} above it {why}"
                at = one.path / "disruptionMode"
                yield Finding(at=at, found="single", why=said, remedy=remedy, at_most=most(found, context))
        return
    group = group_of(found)
    for other in neighbours(found, group, context.facts):
        if other.above and _breaks(group, other.group):
            said = f"{other.called} {why}"
        elif not other.above and _breaks(other.group, group):
            said, remedy = (
                f"{other.called} is disrupted pod by pod",
                "set disruptionMode to single here, or to all on the group below",
            )
        else:
            continue
        at, single = SPEC / "disruptionMode", str(group.disruption)
        action = most(found, context)
        yield Finding(at=at, found=single, why=said, remedy=remedy, absent=other.needed, at_most=action)
        return


def _breaks(below: Group, above: Group) -> bool:
    return above.disruption is Disruption.ALL and below.disruption is Disruption.SINGLE


_GANGS_ROOT = known(apis=OF_1_38.apis, composite_pod_groups={"root": root()})


@rule(
    "kube/tree-gang",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(_BELOW, config=ON, facts=_GANGS_ROOT),
    fails=Example(pod_group(**child_of("root"), **BASIC), config=ON, facts=_GANGS_ROOT),
)
def tree_gang(found: StoredObject, context: RuleContext) -> Results:
    """Below a gang of groups every group is a gang. From 1.38 on the API server refuses other templates in a Workload,
    and kube-scheduler never places the pods of such a tree (PodGroupError, CompositePodGroupError). In 1.37 the basic
    group counts as complete without a pod, so this is a warning there, and where the release is not known.

    Source: kubernetes v1.38.0-beta.0, pkg/apis/scheduling/validation/validation.go (validateCompositePodGroupTemplate),
    pkg/scheduler/schedule_one_podgroup.go (validatePodGroupHierarchy).
    """
    refused = is_refused(found, context)
    who = "Kubernetes 1.38 refuses it" if refused else "Kubernetes 1.38 will refuse it"
    basic: list[tuple[FieldPath, str, Needed | None]]
    if found.kind == WORKLOADS.kind:
        templates = {one.name: one for one in templates_in(found.spec)}
        basic = [
            (one.path, f"the template {above.name} above it", None)
            for one in templates.values()
            if (above := templates.get(one.group.parent or "")) is not None
            and above.group.minimum is not None
            and one.group.minimum is None
        ]
    else:
        group = group_of(found)
        parent = parent_of(found, group, context.facts)
        is_below = parent is not None and parent.group.minimum is not None and group.minimum is None
        basic = [(SPEC, parent.called, parent.needed)] if parent is not None and is_below else []
    for place, above_it, needed in basic:
        yield Finding(
            at=place / "schedulingPolicy",
            found="basic",
            why=f"{above_it} is a gang, and below a gang every group is one; {who}",
            remedy="set a gang policy here, or basic above",
            absent=needed,
            at_most=most(found, context),
        )


@rule(
    "kube/topology-order",
    kinds=(WORKLOADS, *GROUPS),
    default=Action.WARN,
    passes=Example(
        pod_group(**child_of("root"), **near(RACK)),
        config=ON,
        facts=known(composite_pod_groups={"root": root(topology=ZONE)}),
    ),
    fails=Example(
        pod_group(**child_of("root"), **near(ZONE)),
        config=ON,
        facts=known(composite_pod_groups={"root": root(topology=RACK)}),
    ),
)
def topology_order(found: StoredObject, context: RuleContext) -> Results:
    """A tree's topology is decided from the root down, so a group in one rack is always in one zone. A wider constraint
    on a lower group has no effect, and most likely the two constraints were swapped. The pods start, so this is a
    warning.

    Source: kubernetes/enhancements, KEP-5732 and KEP-6012 (a parent's constraint holds for all below it); seen with
    v1.37.0.
    """
    bindings = context.facts.topology_bindings
    if found.kind == WORKLOADS.kind:
        templates = {one.name: one for one in templates_in(found.spec)}
        stored = Workload({name: one.group for name, one in templates.items()})
        judged = [(one.path, one.group, _above_template(one.group, stored)) for one in templates.values()]
    else:
        group = group_of(found)
        judged = [(SPEC, group, _needed(above_of(found, group, context)))]
    for place, group, chain in judged:
        nearest = next(((needed, one.topology) for needed, one in chain if one.topology), None)
        if group.topology is None or nearest is None or group.topology == nearest[1]:
            continue
        if bindings is None or not (bindings or context.facts.is_whole("topology_bindings")):
            yield Unjudged(topology_path(place), "the ClusterTopologyBindings", part="topology_bindings")
        elif is_wider(group.topology, nearest[1] or "", bindings):
            yield _swapped(place, group.topology, nearest[1] or "", nearest[0])


def _swapped(place: FieldPath, key: str, above: str, needed: Needed | None) -> Finding:
    return Finding(
        at=topology_path(place),
        found=key,
        why=f"it has no effect, because the group above already requires the narrower {above}",
        remedy="swap the two keys, or remove one of them",
        absent=needed,
    )


_Holders = list[tuple[Needed | None, Group]]


def _needed(above: Chain) -> _Holders:
    return [(Needed("composite_pod_groups", key), one) for key, one in above]


def _above_template(template: Group, workload: Workload) -> _Holders:
    found: _Holders = []
    while template.parent is not None and len(found) < MAX_DEPTH:
        above = workload.templates.get(template.parent)
        if above is None:
            break
        found.append((None, above))
        template = above
    return found
