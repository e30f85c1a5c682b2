"""Queues of any scheduler: their tree with its limits, and the families of rules about them.

The rules judge the queue that a workload names, and the Queue objects themselves. They differ in the names of the
scheduler's fields, and in what it does with a gang in a wrong queue.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from webhook.fit.gang_shapes import GangShape
from webhook.model.capabilities import Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import JudgedKind, StoredObject
from webhook.model.keys import Needed
from webhook.model.known_objects import QueuedGroups, QueueTree
from webhook.model.reading import Manifest, text
from webhook.validators import shared_checks
from webhook.validators.examples import clique, job_set, pod_clique_set, pod_template, replicated
from webhook.validators.gang_scheduler import Limit
from webhook.validators.registry import Context, Example, Results, Rule, Subject, rule
from webhook.validators.shared_checks import Key
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_gang import has_foreign_gang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import train_job_of

# How many queues are suggested in place of a wrong one.
_OFFERED = 3


class Queue(Protocol):
    """The fields that every scheduler's queue has."""

    @property
    def parent(self) -> str | None:
        """The queue above it."""

    @property
    def limited(self) -> bool:
        """Whether it limits the resources of its gangs."""


Q = TypeVar("Q", bound=Queue)


def children_of(name: str, queues: Mapping[str, Q]) -> dict[str, Q]:
    if isinstance(queues, QueueTree):
        return {other: queues[other] for other in queues.having(name)}
    return {other: queue for other, queue in queues.items() if queue.parent == name}


def leaves(queues: Mapping[str, Queue]) -> list[str]:
    """Returns the queues without children, assuming that these are all queues."""
    if isinstance(queues, QueueTree):
        return queues.leaves
    parents = {queue.parent for queue in queues.values()}
    return sorted(name for name in queues if name not in parents)


def place_of(shape: GangShape, keys: Sequence[Key], unnamed: FieldPath) -> FieldPath:
    """Returns the field in which the author of a gang names its queue or quota, by the first of `keys` that has a name:
    of the workload before its templates. `unnamed` if there is none.
    """
    if shape.opted_in is not None:
        return next((use.path for use in shared_checks.name_uses(shape.opted_in.workload, keys, keys)), unnamed)
    holders = [(METADATA, {"labels": shape.labels, "annotations": shape.annotations})]
    for member in shape.members:
        template = member.template
        path = FieldPath(template.labels_path.parts[:-1])
        holders.append((path, {"labels": template.labels, "annotations": template.annotations}))
    for path, metadata in holders:
        for holder, key in keys:
            if metadata[holder].get(key):
                return path / holder / key
    return unnamed


def suggested(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the first few names, as many as are suggested."""
    return tuple(names)[:_OFFERED]


def missing_ancestor(
    parent: str | None, queues: Mapping[str, Queue], built_in: Container[str | None] = ()
) -> str | None:
    """Returns the first of `parent` and its ancestors that neither exists nor is in `built_in`."""
    passed: set[str] = set()
    while parent and parent not in built_in and parent not in passed:
        if parent not in queues:
            return parent
        passed.add(parent)
        parent = queues[parent].parent
    return None


def repeated_ancestor(name: str, parent: str, queues: Mapping[str, Queue]) -> str | None:
    """Returns the queue that is reached twice on the way up if `parent` is the parent of `name`, or None."""
    passed = {name}
    above: str | None = parent
    while above and above not in passed:
        passed.add(above)
        queue = queues.get(above)
        above = None if queue is None else queue.parent
    return above or None


def path_of(name: str, queues: Mapping[str, Q]) -> Iterator[tuple[str, Q]]:
    """Yields a queue and the queues above it, as far as they exist. Each queue of a cycle is returned once."""
    above: str | None = name
    passed: set[str] = set()
    while above and above not in passed and (queue := queues.get(above)) is not None:
        yield above, queue
        passed.add(above)
        above = queue.parent


def limits_of(name: str, queues: Mapping[str, Queue] | None, called: str, root: str | None = None) -> Iterator[Limit]:
    """Yields a queue and its ancestors, as far as they have a limit. The `root` has the cluster's."""
    for above, queue in path_of(name, queues or {}):
        if above == root:
            return
        if queue.limited:
            yield Limit(called, above, name)


def disagreeing(places: Iterable[Use], remedy: str) -> Iterator[Finding]:
    """Yields one finding for each place that names another queue than the first place."""
    uses = list(places)
    for use in uses[1:]:
        first = uses[0]
        if use.value != first.value:
            why = f"all pods of a gang are in one queue, and {first.path} is {shown(first.value)}"
            yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)


# The problems of a queue: its name, the place that names it, what messages call that place, and the facts.
Judge = Callable[[str, FieldPath, str, ClusterFacts], Results]
# The labels and annotations that name a queue, under the profile's settings.
Keys = Callable[[Context[Any]], Sequence[Key]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The Queues of one scheduler, and what it does with a gang in a wrong one: ends of sentences."""

    # In messages: "KAI", for "the KAI Queues".
    project: str
    # The parts of `ClusterFacts`: the Queues, and the PodGroups in each of them.
    part: str
    pod_groups: str
    missing: str
    with_children: str
    orphaned: str
    have_parent: str
    # The queue above all others, if the scheduler has one.
    root: str | None = None
    # Whether a leaf accepts gangs now, and the problem of a leaf that does not.
    usable: Callable[[Any], bool] = lambda _: True
    closed: Callable[[str, FieldPath, str, Any], Iterator[Finding]] = lambda *_: iter(())

    def all_queues(self, facts: ClusterFacts) -> Mapping[str, Queue] | None:
        """Returns all Queues; None if they are unknown."""
        queues: Mapping[str, Queue] | None = getattr(facts, self.part)
        return queues

    def suggested(self, queues: Mapping[str, Queue]) -> tuple[str, ...]:
        """Returns some leaves that take gangs, assuming that these are all queues."""
        return suggested(name for name in leaves(queues) if self.usable(queues[name]))

    def judge(self, name: str, path: FieldPath, called: str, facts: ClusterFacts) -> Results:
        """Yields the problems of a queue, at the place that names it. Messages refer to the queue as `called`."""
        queues = self.all_queues(facts)
        if queues is None:
            yield Unjudged(path, f"the {self.project} Queues", part=self.part)
        elif (queue := queues.get(name)) is None:
            yield Finding(
                at=path,
                value=name,
                why=f"{called} names no Queue of this cluster, and {self.missing}",
                remedy="name a Queue that exists, or create it first",
                absent=Needed(self.part, name),
                instead=self.suggested(queues),
            )
        elif children := children_of(name, queues):
            why = f"{called} has the child {shown(min(children))}, and {self.with_children}"
            remedy = "name one of its children"
            yield Finding(at=path, value=name, why=why, remedy=remedy, instead=self.suggested(children))
        elif not self.usable(queue):
            yield from self.closed(name, path, called, queue)
        elif (parent := missing_ancestor(queue.parent, queues, (self.root,))) is not None:
            why = f"{called} is below {shown(parent)}, which does not exist{self.orphaned}"
            remedy = f"{self.have_parent}, or name another queue"
            yield Finding(at=path, value=name, why=why, remedy=remedy, absent=Needed(self.part, parent))


def judge_named(uses: Sequence[Use], context: Context[Any], judge: Judge, place: FieldPath) -> Results:
    """Yields the problems of the queues that a workload names. If it names none, those of the profile's defaultQueue,
    reported at `place`, where the workload would name a queue.
    """
    # Each queue is judged once even if many places name it, because judging may search all queues of the cluster.
    judged: dict[str, list[Finding | Unjudged]] = {}
    for use in uses:
        if use.value not in judged:
            judged[use.value] = list(judge(use.value, use.path, "it", context.facts))
        yield from (replace(result, at=use.path) for result in judged[use.value])
    default = context.settings.defaultQueue
    if not uses and default is not None:
        yield from judge(default, place, "the profile's defaultQueue", context.facts)


def opted_in_queue(id: str, documentation: str, *, keys: Keys, judge: Judge, passes: Example, fails: Example) -> Rule:

    def check(workload: OptedInWorkload, context: Context[Any]) -> Results:
        uses = shared_checks.name_uses(workload, keys(context), keys(context))
        # For a TrainJob's JobSet, the TrainJob may name a queue.
        if uses or not (isinstance(workload, JobSet) and train_job_of(workload)):
            holder, key = keys(context)[0]
            place = next(
                (path for _, queue_key in keys(context) if (path := workload.carried_path(queue_key)) is not None), None
            )
            # A group that something else makes is not in the profile's defaultQueue, unless its operator leaves it to
            # the objects that it makes.
            if uses or place is not None or not has_foreign_gang(workload):
                yield from judge_named(uses, context, judge, place or METADATA / holder / key)

    return rule(id, subject=Subject.OPTED_IN, passes=passes, fails=fails, documentation=documentation)(check)


def disagreement(
    id: str,
    documentation: str,
    *,
    key: Key,
    uses: Callable[[PodCliqueSet, Context[Any]], Sequence[Use]],
    remedy: Callable[[Context[Any]], str],
    capability: Capability | tuple[Capability, ...] = (),
) -> Rule:
    """Returns the rule about cliques that name different queues. `key` names the queue in the examples."""

    def check(workload: PodCliqueSet, context: Context[Any]) -> Results:
        yield from disagreeing(uses(workload, context), remedy(context))

    first, second = _asking(key, "team-a"), _asking(key, "team-b")
    return rule(
        id,
        capability=capability,
        passes=Example(pod_clique_set({**clique("worker"), **first}, **first)),
        fails=Example(pod_clique_set({**clique("worker"), **second}, **first)),
        documentation=documentation,
    )(check)


def opted_in_disagreement(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str,
    documentation: str,
    *,
    scheduler: str,
    key: Key,
    keys: Keys,
    of_pods: Keys,
    remedy: Callable[[Context[Any]], str],
    what: str = "queue",
    passes: Example | None = None,
) -> Rule:
    """Returns the rule about pod templates of an opted-in workload that name another queue, or quota, than the
    workload. `key` names it in the examples.
    """

    def check(workload: OptedInWorkload, context: Context[Any]) -> Results:
        yield from shared_checks.disagreeing(workload, keys(context), of_pods(context), what, remedy(context))

    def named_twice(of_template: str) -> Example:
        template = pod_template(**_asking(key, of_template))
        return Example(job_set(replicated("node", template=template), scheduler=scheduler, **_asking(key, "team-a")))

    return rule(
        id,
        subject=Subject.OPTED_IN,
        passes=passes or named_twice("team-a"),
        fails=named_twice("team-b"),
        documentation=documentation,
    )(check)


def _asking(key: Key, name: str) -> Any:
    part, label_key = key
    return {part: {label_key: name}}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueObjects:
    """The Queue objects of one scheduler, with what its rules about them have in common."""

    queues: Queues
    kind: JudgedKind
    # The field that names a Queue's parent.
    parent: FieldPath
    # For the examples: a builder, and a cluster with the Queue `team-a`, which has a PodGroup, below `research`.
    build: Callable[[str, str | None], Manifest]
    tree: ClusterFacts

    def missing_parent(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
        self,
        id: str,
        documentation: str,
        *,
        why: str,
        gone: str,
        remedy: str,
        built_in: tuple[str, ...] = (),
        default: Action = Action.DENY,
    ) -> Rule:
        """Returns the rule about a Queue with an ancestor that neither exists nor is in `built_in`."""

        def check(stored: StoredObject, context: Context[Any]) -> Results:
            name, queues = self._parent_of(stored), self.queues.all_queues(context.facts)
            if name is None or name in built_in:
                return
            if queues is None:
                yield self._unknown()
            elif (missing := missing_ancestor(name, queues, built_in)) is not None and missing != stored.name:
                above = (
                    "there is no such Queue" if missing == name else f"it is below {shown(missing[:63])}, which {gone}"
                )
                yield Finding(
                    at=self.parent,
                    value=name,
                    why=f"{above}, and {why}",
                    remedy=f"{remedy}, or name another",
                    absent=Needed(self.queues.part, missing),
                )

        return self._rule(id, documentation, self._child_queue("research"), self._child_queue("resaerch"), default)(
            check
        )

    def ancestor_cycle(self, id: str, documentation: str, *, why: str) -> Rule:
        root = self.queues.root

        def check(stored: StoredObject, context: Context[Any]) -> Results:
            name, queues = self._parent_of(stored), self.queues.all_queues(context.facts)
            if name is None or (root is not None and root in {name, stored.name}):
                return
            if (again := repeated_ancestor(stored.name, name, queues or {})) is None:
                if queues is None:
                    yield self._unknown()
            elif again != root:
                yield Finding(
                    at=self.parent,
                    value=name,
                    why=f"its ancestors form a cycle that includes {shown(again[:63])}, {why}",
                    remedy="name a parent that is not below this Queue",
                )

        return self._rule(id, documentation, self.build("research", root), self.build("research", "team-a"))(check)

    def parent_with_pod_groups(self, id: str, documentation: str, *, why: str) -> Rule:
        """Returns the rule about a Queue that becomes the first child of a queue with PodGroups."""

        def check(stored: StoredObject, context: Context[Any]) -> Results:
            name, queues = self._parent_of(stored), self.queues.all_queues(context.facts)
            pod_groups: QueuedGroups | None = getattr(context.facts, self.queues.pod_groups)
            if name is None or name == self.queues.root:
                return
            using = None if pod_groups is None else next(iter(pod_groups.groups_in_queue(name)), None)
            if queues is None or (using is None and not context.facts.is_whole(self.queues.pod_groups)):
                yield self._unknown("Queues" if queues is None else "PodGroups")
            elif using is not None and not children_of(name, queues).keys() - {stored.name}:
                yield Finding(
                    at=self.parent,
                    value=name,
                    why=f"PodGroup {shown('/'.join(using)[:80])} is in this parent, and {why}",
                    remedy="name a parent without PodGroups, or move or delete its PodGroups first",
                )

        return self._rule(id, documentation, self._child_queue("research"), self._child_queue("team-a"))(check)

    def _parent_of(self, stored: StoredObject) -> str | None:
        return text(stored.spec.get(str(self.parent.parts[-1])))

    def _child_queue(self, parent: str) -> Manifest:
        return self.build("team-b", parent)

    def _unknown(self, kind: str = "Queues") -> Unjudged:
        part = self.queues.part if kind == "Queues" else self.queues.pod_groups
        return Unjudged(self.parent, f"the {self.queues.project} {kind}", part=part)

    def _rule(
        self, id: str, documentation: str, right: Manifest, wrong: Manifest, default: Action = Action.DENY
    ) -> Callable[[Callable[[Any, Context[Any]], Results]], Rule]:
        passes, fails = (Example(manifest, facts=self.tree) for manifest in (right, wrong))
        kinds = (self.kind,)
        return rule(id, kinds=kinds, default=default, passes=passes, fails=fails, documentation=documentation)
