"""Faults that keep a single pod waiting for a group: a group that is missing or cannot have pods, a priority that
differs from the group's, a scheduler that does not know groups or differs from that of the other pods. These rules
judge pods that are not Grove's; the pods of Rollcall's gangs are correct.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from webhook.backends import families
from webhook.backends.kube.facts import (
    POD_GROUPS_OF_GANGS,
    WORKLOADS_OF_GANGS,
    Membership,
    membership_of,
    scheduler_of,
)
from webhook.backends.kube.generation import CARRIES_CLASS, generation, workload_apis
from webhook.backends.kube.groups import groups_of_tree, priority_of, resolved
from webhook.backends.kube.rules.examples import ON, TREE, TREES, known, member, pod, root, waiting
from webhook.backends.kube.settings import RuleContext
from webhook.model.bounds import name_text
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.group_tree import Group, Groups, ancestors
from webhook.model.keys import Needed
from webhook.model.living_gang import NamedGroup
from webhook.model.reading import integer, mapping, text
from webhook.model.stored_object import PODS, StoredObject
from webhook.validators.creation_order import least_action
from webhook.validators.registry import Example, Results, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

_GROUP = SPEC / "schedulingGroup" / "podGroupName"
_ENTRY = SPEC / "workloadRef" / "podGroup"
_WORKER = Group(composite=False, minimum=2)
_KNOWN = known(pod_groups={"worker": _WORKER}, workloads={"demo": TREE})
_HIGH = known(pod_groups={"worker": replace(_WORKER, priority_class="high")})
# The schedulers that Rollcall knows and that do not read memberships of the Workload API.
_OTHERS = frozenset({"koord-scheduler", "volcano", "kai-scheduler", "lpx-scheduler"})


def _group_name(found: StoredObject) -> str | None:
    return text(mapping(found.spec.get("schedulingGroup")).get("podGroupName"))


def _named(found: StoredObject) -> tuple[str, str, Needed] | None:
    """What the pod's membership names: field, kind and key."""
    name = _group_name(found)
    if name is not None:
        return "schedulingGroup.podGroupName", "PodGroup", Needed("pod_groups", (found.key[0], name))
    name = text(mapping(found.spec.get("workloadRef")).get("name"))
    return None if name is None else ("workloadRef.name", "Workload", Needed("workloads", (found.key[0], name)))


@rule(
    "kube/pod-group-missing",
    kinds=(PODS,),
    default=Action.WARN,
    membership=True,
    passes=Example(member(), config=ON, facts=_KNOWN),
    fails=Example(member("wroker"), config=ON, facts=_KNOWN),
)
def pod_group_missing(found: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler holds such a pod ("waiting for pods's pod group to appear in scheduling queue") until the group
    exists. This is a warning, because the group may be created later. It is a refusal if the namespace's label
    rollcall.dev/creation-order is `strict`.

    Source: kubernetes, pkg/scheduler/framework/plugins/gangscheduling (v1.35 to v1.37).
    """
    named = _named(found)
    if named is None:
        return
    field, kind, needed = named
    path = SPEC / field.partition(".")[0] / field.partition(".")[2]
    stored = getattr(context.facts, needed.part)
    if stored is None:
        yield Unjudged(path, f"the {kind}s", part=needed.part)
    elif needed.key not in stored and not _is_composite(needed, context):
        yield Finding(
            at=path,
            found=needed.name,
            why=f"there is no such {kind} yet, and kube-scheduler holds the pod until it exists",
            remedy="create the group before its pods",
            absent=needed,
            at_least=least_action(context),
            hides_more=True,
        )


def _is_composite(needed: Needed, context: RuleContext) -> bool:
    return needed.part == "pod_groups" and needed.key in (context.facts.composite_pod_groups or {})


@rule(
    "kube/pod-composite",
    kinds=(PODS,),
    membership=True,
    passes=Example(member(), config=ON, facts=_KNOWN),
    fails=Example(member("root"), config=ON, facts=known(composite_pod_groups={"root": root()})),
)
def pod_composite(found: StoredObject, context: RuleContext) -> Results:
    """A pod belongs to a PodGroup, never to the CompositePodGroup above it. kube-scheduler looks for a PodGroup with
    that name and holds the pod for ever.

    Source: k8s.io/api core/v1 (PodSchedulingGroup.podGroupName); kubernetes, pkg/scheduler (v1.37.0).
    """
    name = _group_name(found)
    groups = context.facts.pod_groups
    needed = Needed("pod_groups", (found.key[0], name or ""))
    if name is not None and groups is not None and needed.key not in groups and _is_composite(needed, context):
        yield Finding(
            at=_GROUP,
            found=name,
            why="it is a CompositePodGroup, and kube-scheduler looks only for a PodGroup with this name",
            remedy="name the PodGroup below it that the pod belongs to",
            absent=needed,
        )


_CYCLE = known(
    pod_groups={"worker": replace(_WORKER, parent="a")},
    composite_pod_groups={"a": root(parent="b"), "b": root(parent="a")},
)


@rule(
    "kube/pod-cycle",
    kinds=(PODS,),
    membership=True,
    passes=Example(member(), config=ON, facts=_KNOWN),
    fails=Example(member(), config=ON, facts=_CYCLE),
)
def pod_cycle(found: StoredObject, context: RuleContext) -> Results:
    """If two composites are created at the same moment, each below the other, the check of each one does not see the
    other. The pods of a tree without a root are never scheduled, and only this rule reports it.

    Source: kubernetes, pkg/scheduler (v1.37.0, seen).
    """
    key = (found.key[0], _group_name(found) or "")
    group = None if context.facts.pod_groups is None else context.facts.pod_groups.get(key)
    if group is None:
        return
    above = [one for one, _ in ancestors(key, group, context.facts.composite_pod_groups or {})]
    if len(set(above)) < len(above):
        yield Finding(
            at=_GROUP,
            found=key[1],
            why="the groups above it form a cycle, and kube-scheduler never schedules the pods of a cycle",
            remedy=f"delete the CompositePodGroup {above[0][1]} and recreate it without a parent",
            absent=Needed("composite_pod_groups", above[0]),
        )


@rule(
    "kube/pod-entry",
    kinds=(PODS,),
    membership=True,
    passes=Example(pod(workloadRef={"name": "demo", "podGroup": "worker"}), config=ON, facts=_KNOWN),
    fails=Example(pod(workloadRef={"name": "demo", "podGroup": "wroker"}), config=ON, facts=_KNOWN),
)
def pod_entry(found: StoredObject, context: RuleContext) -> Results:
    """In 1.35 a pod names an entry of a Workload. The list of entries is immutable, so a pod that names another entry
    is held for ever ("pod group doesn't exist for a workload").

    Source: kubernetes, pkg/scheduler/framework/plugins/gangscheduling (v1.35); k8s.io/api scheduling/v1alpha1.
    """
    reference = mapping(found.spec.get("workloadRef"))
    key = (found.key[0], text(reference.get("name")) or "")
    entry = text(reference.get("podGroup"))
    stored = (context.facts.workloads or {}).get(key)
    if stored is not None and entry is not None and entry not in stored.templates:
        yield Finding(
            at=_ENTRY,
            found=entry,
            why=f"the Workload {key[1]} has no such entry, and its list of entries is immutable",
            remedy="name one of its entries, or recreate the Workload",
            absent=Needed("workloads", key),
        )


@rule(
    "kube/pod-priority",
    kinds=(PODS,),
    passes=Example(member(priorityClassName="high"), config=ON, facts=_HIGH),
    fails=Example(member(), config=ON, facts=_HIGH),
)
def pod_priority(found: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler 1.37 rejects a whole group if the priority of one pod differs from the group's priority. 1.36 uses
    the group's priority.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority".
    """
    facts = context.facts
    key = (found.key[0], _group_name(found) or "")
    group = None if facts.pod_groups is None else facts.pod_groups.get(key)
    if group is None or generation(context.settings, workload_apis(context.settings, facts)) not in CARRIES_CLASS:
        return
    name, at = text(found.spec.get("priorityClassName")), SPEC / "priorityClassName"
    own, wanted = resolved(integer(found.spec.get("priority")), name, facts), priority_of(group, facts)
    if own is None or wanted is None:
        if not facts.is_whole("priority_classes") and name != group.priority_class:
            yield Unjudged(at, "the PriorityClasses", part="priority_classes")
    elif own != wanted:
        yield Finding(
            at=at,
            found=name,
            why=f"the pod's priority is {own}, its group's is {wanted}, and kube-scheduler rejects the whole group",
            remedy=f"name the group's PriorityClass {group.priority_class}" if group.priority_class else "remove it",
            absent=Needed("pod_groups", key),
        )


@rule(
    "kube/pod-scheduler",
    kinds=(PODS,),
    membership=True,
    passes=Example(member(schedulerName=DEFAULT_SCHEDULER), config=ON, facts=_KNOWN),
    fails=Example(member(schedulerName="volcano"), config=ON, facts=_KNOWN),
)
def pod_scheduler(found: StoredObject, context: RuleContext) -> Results:
    """Only kube-scheduler reads the membership. Another scheduler places the pod alone. kube-scheduler then rejects the
    rest of the group, because its pods must name one scheduler.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    .spec.schedulerName set"; no other scheduler that Rollcall knows reads these fields.
    """
    scheduler = scheduler_of(found.spec)
    if _named(found) is not None and _reads_no_group(scheduler, context):
        yield Finding(
            at=SPEC / "schedulerName",
            found=scheduler,
            why="this scheduler ignores the pod's group and places the pod alone, and the rest of the group waits",
            remedy=f"set schedulerName to {DEFAULT_SCHEDULER}, or remove the pod's membership",
        )


def _reads_no_group(scheduler: str, context: RuleContext) -> bool:
    # An unknown scheduler may be a second kube-scheduler.
    return scheduler != DEFAULT_SCHEDULER and (scheduler in _OTHERS or scheduler in context.choice.available)


@rule(
    "kube/pod-schedulers",
    kinds=(PODS,),
    membership=True,
    passes=Example(member(), config=ON, facts=known(group_pods={"worker-1": waiting(DEFAULT_SCHEDULER)})),
    fails=Example(member(), config=ON, facts=known(group_pods={"worker-1": waiting("batch-scheduler")})),
)
def pod_schedulers(found: StoredObject, context: RuleContext) -> Results:
    """The pods of a group, and of all groups of its tree, must name one scheduler, even if two names are two profiles
    of one kube-scheduler. One kube-scheduler rejects the whole tree, and two kube-schedulers wait for each other. The
    rule compares pods that wait for a node.

    Source: Kubernetes documentation, PodGroup lifecycle (limitations: "All Pods in a PodGroup must use the same
    .spec.schedulerName"); kubernetes, pkg/scheduler (podgroup cycle, v1.36 and v1.37.0, seen). 1.35 starts such a group
    where both names are of one kube-scheduler.
    """
    named, scheduler = membership_of(found.spec), scheduler_of(found.spec)
    if named is None or _reads_no_group(scheduler, context):
        return
    facts, at, namespace = context.facts, SPEC / "schedulerName", found.key[0]
    if facts.group_pods is None:
        yield Unjudged(at, "the pods that wait for a node", part="group_pods")
        return
    for group in _groups_of_one_scheduler(namespace, named, facts):
        other = facts.group_pods.of_another_scheduler((namespace, group), scheduler, found.key)
        if other is not None:
            whose = "its group" if group == named else f"PodGroup {group.group} in its tree"
            yield Finding(
                at=at,
                found=scheduler,
                why=f"the pod {other[1]} of {whose} waits for {facts.group_pods[other].scheduler}, and no scheduler "
                "starts a group with two schedulers",
                remedy="set one schedulerName in all of these pods, "
                "and delete the pods that wait for another scheduler",
                absent=Needed("group_pods", other),
            )
            return


def _groups_of_one_scheduler(namespace: str, named: Membership, facts: ClusterFacts) -> Iterator[Membership]:
    """The group that a pod names, then the others of its tree. The entries of a 1.35 Workload are not in a tree."""
    yield named
    if named.workload is None:
        tree = groups_of_tree((namespace, named.group), facts)
        yield from (Membership(name) for _, name in tree if name != named.group)


def named_group(pod: StoredObject, facts: ClusterFacts) -> NamedGroup | None:
    """The group that a pod names: a PodGroup, or the Workload that it was made from, says whose it is."""
    group, workload = name_text(_group_name(pod)), name_text(mapping(pod.spec.get("workloadRef")).get("name"))
    at = SPEC / "workloadRef" / "name" if group is None else _GROUP
    if group is not None:
        stored = None if facts.pod_groups is None else facts.pod_groups.get((pod.key[0], group))
        workload = None if stored is None else stored.workload
    unread = "pod_groups" if group is not None and facts.pod_groups is None else None
    name = group or workload
    if name is None:
        return None
    groups = () if group is None else tuple((kind.api, pod.key[0], group) for kind in POD_GROUPS_OF_GANGS)
    workloads = () if workload is None else tuple((kind.api, pod.key[0], workload) for kind in WORKLOADS_OF_GANGS)
    return NamedGroup(at, name, (*groups, *workloads), unread)


foreign_member = families.foreign_member(
    "kube/foreign-member",
    "kubernetes, pkg/scheduler/framework/plugins/gangscheduling (pods are counted by this field alone), v1.37.0, seen.",
    WORKLOADS_OF_GANGS[0].api,
    Mark("spec", "schedulingGroup"),
    group_of=named_group,
    facts=replace(TREES, pod_groups=Groups({("default", "demo-0"): Group(False, 2, workload="demo-0")})),
    config=ON,
)
