"""Stages under one parent: parts of a workload that start in turn, in PodGroups of one CompositePodGroup.

A TrainJob is the usual case: an initializer of one pod, and a trainer that is created when the initializer is done. A
composite counts the groups that have pods at the same time, and kube-scheduler forgets finished pods. Rollcall itself
makes a tree for each stage (docs/explanation/decisions/005-stages.md), so only trees of other authors are judged here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

from webhook.backends.kube.groups import MOST_BELOW
from webhook.backends.kube.rules.examples import ON, known, root
from webhook.backends.kube.settings import RuleContext
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding, Unjudged
from webhook.model.group_tree import Group, ancestors
from webhook.model.keys import Needed, ObjectKey
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.workload import OptedInWorkload, Part
from webhook.validators.opted_in_examples import job_set, pod_template, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

# The most parts that are compared with each other, and the most steps from a part to those that it waits for. A
# Workload declares at most 8 groups in a list.
_MOST_PARTS, _MOST_FOLLOWED = 64, 2_000
_FIELD = "schedulingGroup"


def _in_group(name: str, pods: int, **fields: Any) -> Manifest:
    template = pod_template({_FIELD: {"podGroupName": name}})
    return replicated(name, pods, template=template, **fields)


_STAGES = job_set(
    _in_group("initializer", 1),
    _in_group("trainer", 4, dependsOn=[{"name": "initializer", "status": "Complete"}]),
    scheduler=DEFAULT_SCHEDULER,
)


def _leaf(minimum: int | None) -> Group:
    return Group(composite=False, minimum=minimum, parent="root", workload="demo")


def _tree(minimum: int) -> ClusterFacts:
    groups = {"initializer": _leaf(None), "trainer": _leaf(4)}
    return known(pod_groups=groups, composite_pod_groups={"root": root(minimum=minimum)})


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
        """How many children may have pods while the parts named in `absent` have none."""
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
    named = {part.name: (part, key) for part in workload.parts if (key := _group_of(part, workload)) is not None}
    if not named:
        return
    facts = context.facts
    if facts.pod_groups is None or facts.composite_pod_groups is None:
        part, _ = next(iter(named.values()))
        lacking = "pod_groups" if facts.pod_groups is None else "composite_pod_groups"
        yield Unjudged(part.template.spec_path / _FIELD, "the groups of its tree", part=lacking)
    elif len(named) > _MOST_PARTS:
        part, _ = next(iter(named.values()))
        yield Unjudged(part.template.spec_path / _FIELD, "in which order so many parts start")
    else:
        for parent in _parents(named, facts):
            yield from _judge(parent, workload)


def _group_of(part: Part, workload: OptedInWorkload) -> ObjectKey | None:
    name = text(mapping(part.template.spec.get(_FIELD)).get("podGroupName"))
    return None if name is None or part.pods < 1 else (workload.namespace, name)


def _parents(named: Mapping[str, tuple[Part, ObjectKey]], facts: ClusterFacts) -> Iterator[_Parent]:
    """The composites above the parts that need more than one of their groups."""
    groups: Mapping[ObjectKey, Group] = facts.pod_groups or {}
    composites: Mapping[ObjectKey, Group] = facts.composite_pod_groups or {}
    found: dict[ObjectKey, _Parent] = {}
    for part, key in named.values():
        group, child = groups.get(key), key
        for above, composite in ancestors(key, group, composites) if group is not None else ():
            if composite.minimum is not None and composite.minimum > 1:
                parent = found.setdefault(above, _Parent(above, composite.minimum))
                parent.parts.setdefault(child, []).append(part)
            child = above
    for parent in found.values():
        below = [stored.below(parent.key) for stored in (facts.pod_groups, facts.composite_pod_groups) if stored]
        children = set(islice(chain.from_iterable(below), MOST_BELOW))
        parent.others = len(children - parent.parts.keys())
        yield parent


def _judge(parent: _Parent, workload: JobSet) -> Results:
    """One finding for the first part that starts while too few groups of the composite have pods."""
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
                found=parent.key[1],
                why=f"its CompositePodGroup needs {parent.minimum} groups with pods, and only {present} "
                f"{'has' if present == 1 else 'have'} pods when this part starts: other stages start later or are done",
                remedy="set its minGroupCount to 1, or give each stage a group without a parent",
                absent=Needed("composite_pod_groups", parent.key),
            )
            return
