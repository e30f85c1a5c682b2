"""Rules about TrainJobs, JobSets, LeaderWorkerSets and Jobs under default-scheduler: what the Workload API cannot
express, what kube-scheduler would hold for ever, the topology of a Job or JobSet in `spec.scheduling`, and stages
under one parent.

Most apply only if gangScheduling is on and Rollcall makes the gang. Stages are parts of a workload that start in turn,
in PodGroups of one CompositePodGroup. A TrainJob is the usual case: an initializer of one pod, and a trainer that is
created when the initializer is done. A composite counts the groups that have pods at the same time, and kube-scheduler
forgets finished pods. Rollcall itself makes a tree for each stage (docs/explanation/decisions/005-stages.md), so only
trees of other authors are judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

from webhook.backends import families
from webhook.backends.kube.gangs import gang_objects
from webhook.backends.kube.groups import (
    MOST_BELOW,
    NO_WORKLOADS,
    ON,
    SERVES_TREES,
    example_cluster,
    root,
    topology_constraint,
    topology_path,
)
from webhook.backends.kube.pod_clique_sets import TOPOLOGY_GATE_OFF
from webhook.backends.kube.workload_api import ONE_BY_ONE, RuleContext
from webhook.errors import Inexpressible
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed, ObjectKey
from webhook.model.pod_groups import TreeGroup, ancestors
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.validators.examples import job, job_set, pod_template, replicated
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import workload_with_pods
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of, no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload, Part
from webhook.workloads.trainjob import TrainJob

_ALONE = ONE_BY_ONE[Capability.GANG]
opted_in_alone = families.opted_in_alone(
    "kube/owner-no-gang",
    """Without gangScheduling in the profile Rollcall makes no gang, and kube-scheduler binds each pod as soon as it
    fits. A part of the pods may hold their nodes while the others wait for ever.

    Source: kubernetes, pkg/scheduler/schedule_one.go; kubernetes/enhancements, KEP-4671.""",
    alone=lambda settings: not settings.gangScheduling,
    why=_ALONE.why,
    remedy=_ALONE.remedy,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER), config=ON, facts=SERVES_TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER)),
)

_REMEDIES = {
    "kube/workload-api": "enable the API and its feature gates, or choose another scheduler",
    "kube/priority-class": "name a PriorityClass that exists and is not one of the system's own",
}
_REMEDY = "use fewer templates, Kubernetes 1.37 or newer with CompositePodGroup, or another scheduler"


@rule(
    "kube/owner-gang",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER), config=ON, facts=SERVES_TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER), config=ON, facts=NO_WORKLOADS),
)
def inexpressible_gang(workload: OptedInWorkload, context: RuleContext) -> Results:
    """A gang gets no objects if the cluster's generation of the Workload API cannot express the whole gang. Without the
    API a pod's membership is dropped without a message. Without CompositePodGroups several templates are merged into
    one group, or refused. A list of templates has at most eight entries. The PriorityClass of a group must exist.

    Source: kubernetes/enhancements, KEP-4671 and KEP-6012; k8s.io/api scheduling (WorkloadMaxPodGroups); kubernetes,
    plugin/pkg/admission/priority.
    """
    whole = workload_with_pods(workload, context.facts)
    if not context.settings.gangScheduling or whole is None or no_gang(whole) is not None:
        return
    record = whole.record
    # All groups of a LeaderWorkerSet are alike, and there may be two billion. The steps of a JobSet may differ.
    for gang in islice(gangs_of(whole), 1 if isinstance(whole, LeaderWorkerSet) else None):
        try:
            gang_objects(gang, record, context.settings, context.facts)
        except Inexpressible as error:
            for missing in error.unjudged:
                yield replace(missing, at=context.choice.path)
            for finding in error.findings:
                yield _authored_finding(finding, whole, workload, context)
            return


def _authored_finding(
    finding: Finding, whole: OptedInWorkload, workload: OptedInWorkload, context: RuleContext
) -> Finding:
    """Returns the error of the translation, at the field that the workload's author knows."""
    remedy, absent = _REMEDIES.get(finding.rule, _REMEDY), None
    at, value = context.choice.path, finding.value
    if finding.rule == "kube/priority-class" and whole.priority_class is not None:
        in_template = whole.templates[0].spec_path / "priorityClassName"
        at = workload.runtime_path if isinstance(workload, TrainJob) else in_template
        absent = Needed("priority_classes", whole.priority_class)
    elif finding.rule == "kube/workload-api":
        value, absent = context.choice.scheduler, Needed("apis")
    return Finding(at=at, value=value, why=finding.why, remedy=remedy, absent=absent)


@rule(
    "kube/owner-priority",
    subject=Subject.OPTED_IN,
    passes=Example(
        job_set(
            replicated("leader", template=pod_template({"priorityClassName": "high"})),
            replicated("worker", template=pod_template({"priorityClassName": "high"})),
            scheduler=DEFAULT_SCHEDULER,
        ),
        config=ON,
        facts=replace(SERVES_TREES, priority_classes={}),
    ),
    fails=Example(
        job_set(
            replicated("leader", template=pod_template({"priorityClassName": "high"})),
            replicated("worker"),
            scheduler=DEFAULT_SCHEDULER,
        ),
        config=ON,
        facts=SERVES_TREES,
    ),
)
def priorities_differ(workload: OptedInWorkload, context: RuleContext) -> Results:
    """kube-scheduler 1.37 rejects a whole group if the priority of one pod differs from the group's priority. It
    rejects a whole tree if the priorities of its groups differ. The groups of a workload have the class that all its
    templates name.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority"; LWS KEP-666 refuses it too.
    """
    if not context.makes_gangs or no_gang(workload) is not None:
        return
    parts = list({part.place: part for part in workload.parts if part.pods > 0}.values())
    for part in parts[1:]:
        first, class_name = (text(compared.template.spec.get("priorityClassName")) for compared in (parts[0], part))
        if class_name != first:
            other = parts[0].template.spec_path / "priorityClassName"
            yield Finding(
                at=part.template.spec_path / "priorityClassName",
                value=class_name,
                why=f"{other} is {shown(first)}, and kube-scheduler rejects a gang with two priorities",
                remedy="name the same class in all pod templates",
            )


_IN_A_RACK = job(
    scheduler=DEFAULT_SCHEDULER,
    scheduling={"schedulingPolicy": {"gang": {}}, **topology_constraint("example.com/rack")},
)


@rule(
    "kube/owner-topology",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_IN_A_RACK, config=ON),
    fails=Example(_IN_A_RACK, config={**ON, "schedulerGates": ["GenericWorkload", "GangScheduling"]}),
)
def native_topology(workload: OptedInWorkload, context: RuleContext) -> Results:
    """The controller of a Job copies the topology of `spec.scheduling` to its PodGroup. If the scheduler's gate
    TopologyAwareWorkloadScheduling is off, kube-scheduler ignores it, and the pods start on any nodes.

    A JobSet may also state it for some of its replicated Jobs, or for each Job of one.

    Source: kubernetes/enhancements, KEP-5547 (Job, 1.37) and KEP-5732; JobSet KEP-969 (spec.scheduling.replicatedJobs).
    """
    gates = context.settings.schedulerGates
    if gates is None or "TopologyAwareWorkloadScheduling" in gates or not context.settings.gangScheduling:
        return
    for block in workload.scheduling_blocks():
        for constraint in sequence(mapping(block.spec.get("schedulingConstraints")).get("topology"))[:1]:
            key = text(mapping(constraint).get("key"))
            why, remedy = TOPOLOGY_GATE_OFF
            yield Finding(at=topology_path(block.path), value=key, why=why, remedy=remedy)


# The most parts that are compared with each other, and the most steps from a part to those that it waits for. A
# Workload declares at most 8 groups in a list.
_MOST_PARTS, _MOST_FOLLOWED = 64, 2_000
_FIELD = "schedulingGroup"


def _group_member(name: str, pods: int, **fields: Any) -> Manifest:
    template = pod_template({_FIELD: {"podGroupName": name}})
    return replicated(name, pods, template=template, **fields)


_STAGES = job_set(
    _group_member("initializer", 1),
    _group_member("trainer", 4, dependsOn=[{"name": "initializer", "status": "Complete"}]),
    scheduler=DEFAULT_SCHEDULER,
)


def _leaf(minimum: int | None) -> TreeGroup:
    return TreeGroup(composite=False, minimum=minimum, parent="root", workload="demo")


def _tree(minimum: int) -> ClusterFacts:
    groups = {"initializer": _leaf(None), "trainer": _leaf(4)}
    return example_cluster(pod_groups=groups, composite_pod_groups={"root": root(minimum=minimum)})


@dataclass
class _Parent:
    """A composite that is a gang, and its children: those with parts of the workload, and the number of others."""

    key: ObjectKey
    minimum: int
    parts: dict[ObjectKey, list[Part]] = field(default_factory=dict)
    others: int = 0

    @property
    def every(self) -> list[Part]:
        """The parts in all its children."""
        return [part for parts in self.parts.values() for part in parts]

    def present(self, absent: Iterable[str]) -> int:
        """Returns how many children may have pods while the parts named in `absent` have none."""
        gone = Counter(self._child_of[name] for name in absent if name in self._child_of)
        empty = sum(count == len(self.parts[child]) for child, count in gone.items())
        return self.others + len(self.parts) - empty

    @cached_property
    def _child_of(self) -> dict[str, ObjectKey]:
        return {part.name: child for child, parts in self.parts.items() for part in parts}


@rule(
    "kube/owner-stages",
    subject=Subject.OPTED_IN,
    passes=Example(_STAGES, config=ON, facts=_tree(1)),
    fails=Example(_STAGES, config=ON, facts=_tree(2)),
)
def stages_under_one_parent(workload: OptedInWorkload, context: RuleContext) -> Results:
    """A CompositePodGroup starts when as many of its groups have pods at the same time as its minimum says. The pods of
    a stage are created when the stage before it is ready or done, and finished pods no longer count. With a minimum
    above the number of groups with pods, no pod of the stage is ever scheduled, without a message.

    Source: kubernetes, pkg/scheduler/framework/plugins/gangscheduling (v1.37.0, seen: with a minimum of 1, or basic,
    the initializer starts alone and the trainer starts whole); jobset, pkg/controllers/jobset_controller.go (v0.12.0).
    """
    if not isinstance(workload, JobSet) or workload.sequence_path is None or not context.settings.gangScheduling:
        return
    grouped = {part.name: (part, key) for part in workload.parts if (key := _part_group(part, workload)) is not None}
    if not grouped:
        return
    facts = context.facts
    if facts.pod_groups is None or facts.composite_pod_groups is None:
        part, _ = next(iter(grouped.values()))
        lacking = "pod_groups" if facts.pod_groups is None else "composite_pod_groups"
        yield Unjudged(part.template.spec_path / _FIELD, "the groups of its tree", part=lacking)
    elif len(grouped) > _MOST_PARTS:
        part, _ = next(iter(grouped.values()))
        yield Unjudged(part.template.spec_path / _FIELD, "in which order so many parts start")
    else:
        for parent in _parents(grouped, facts):
            yield from _judge(parent, workload)


def _part_group(part: Part, workload: OptedInWorkload) -> ObjectKey | None:
    name = text(mapping(part.template.spec.get(_FIELD)).get("podGroupName"))
    return None if name is None or part.pods < 1 else (workload.namespace, name)


def _parents(grouped: Mapping[str, tuple[Part, ObjectKey]], facts: ClusterFacts) -> Iterator[_Parent]:
    """Yields the composites above the parts that need more than one of their groups."""
    groups: Mapping[ObjectKey, TreeGroup] = facts.pod_groups or {}
    composites: Mapping[ObjectKey, TreeGroup] = facts.composite_pod_groups or {}
    parents: dict[ObjectKey, _Parent] = {}
    for part, key in grouped.values():
        group, child = groups.get(key), key
        for above, composite in ancestors(key, group, composites) if group is not None else ():
            if composite.minimum is not None and composite.minimum > 1:
                parent = parents.setdefault(above, _Parent(above, composite.minimum))
                parent.parts.setdefault(child, []).append(part)
            child = above
    for parent in parents.values():
        below = [stored.below(parent.key) for stored in (facts.pod_groups, facts.composite_pod_groups) if stored]
        children = set(islice(chain.from_iterable(below), MOST_BELOW))
        parent.others = len(children - parent.parts.keys())
        yield parent


def _judge(parent: _Parent, workload: JobSet) -> Results:
    follows, left = dict[str, list[str]](), _MOST_FOLLOWED
    for part in parent.every:
        follows[part.name] = list(islice(workload.follows(part), left))
        left -= len(follows[part.name])
        if not left:
            yield Unjudged(part.path / "dependsOn", "in which order so many parts start")
            return
    later: dict[str, set[str]] = {}
    for name, before in follows.items():
        for earlier in before:
            later.setdefault(earlier, set()).add(name)
    for part in parent.every:
        done = workload.done_before(part, follows[part.name])
        present = parent.present(done | later.get(part.name, set()))
        if present < parent.minimum:
            yield Finding(
                at=part.template.spec_path / _FIELD,
                value=parent.key[1],
                why=f"its CompositePodGroup needs {parent.minimum} groups with pods, and only {present} "
                f"{'has' if present == 1 else 'have'} pods when this part starts: other stages start later or are done",
                remedy="set its minGroupCount to 1, or give each stage a group without a parent",
                absent=Needed("composite_pod_groups", parent.key),
            )
            return
