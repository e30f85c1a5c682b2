"""The queue of a gang: all its cliques use one queue, which exists, is Open, and is a leaf.

A PodCliqueSet names its queue by the annotation scheduling.grove.io/volcano-queue on itself or on its cliques. Source
of the keys and their order: ai-dynamo/grove, operator/internal/scheduler/volcano/queue.go (2026-08).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from webhook.backends.queue_families import Queues, disagreement, judge_named
from webhook.backends.volcano.keys import ANNOTATIONS_OTHER_QUEUE, OPEN, ROOT_QUEUE
from webhook.backends.volcano.rules.examples import KNOWN_QUEUES, asking
from webhook.backends.volcano.settings import RuleContext, VolcanoSettings
from webhook.model.capabilities import VOLCANO_QUEUE, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import PodGangFacts, VolcanoQueue
from webhook.model.naming import is_subdomain
from webhook.model.reading import mapping, text
from webhook.model.record import queue_of, record_of
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import moved, unread_queues
from webhook.validators.registry import Change, Example, Results, Rule, Subject, rule


@rule(
    "volcano/queue",
    passes=Example(pod_clique_set(annotations=asking("team-a")), facts=KNOWN_QUEUES),
    fails=Example(pod_clique_set(annotations=asking("team-b")), facts=KNOWN_QUEUES),
)
def queue(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Volcano drops a gang whose queue is missing, with only a log line. It holds a gang whose queue is not Open (a new
    queue has no state yet). Under its capacity plugin, a gang stops every other queue if it is in `root`, in a queue
    with children, or in a queue whose parent is missing. A PodCliqueSet that names no queue is judged by the profile's
    defaultQueue.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}, pkg/webhooks/admission/{jobs,podgroups}
    (which checks no leaf for a PodGroup); seen with vc-scheduler v1.15.1.
    """
    yield from judge_named(_named(context), context, judge_queue, ANNOTATIONS / VOLCANO_QUEUE)


def syntax_rule(
    id: str, uses: Callable[[Any, RuleContext], Iterable[Use]], *, subject: Subject, passes: Example, fails: Example
) -> Rule:
    """The rule about names that no Queue can have."""

    def check(workload: Any, context: RuleContext) -> Results:
        """The API server refuses a PodGroup whose queue is not a DNS subdomain, and the gang would wait for a PodGroup
        that cannot be written.

        Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1 (`spec.queue`).
        """
        for use in uses(workload, context):
            if not is_subdomain(use.value):
                why = "it is not a DNS subdomain, so no Queue has that name"
                yield Finding(at=use.path, found=use.value, why=why, remedy="name a Queue that exists")

    capability = Capability.QUEUE if subject is Subject.WORKLOAD else ()
    return rule(id, subject=subject, capability=capability, fails_closed=True, passes=passes, fails=fails)(check)


queue_name = syntax_rule(
    "volcano/queue-name",
    lambda _, context: _named(context),
    subject=Subject.WORKLOAD,
    passes=Example(pod_clique_set(annotations=asking("team-a"))),
    fails=Example(pod_clique_set(annotations=asking("Team A"))),
)


queue_disagree = disagreement(
    "volcano/queue-disagree",
    """A gang is one PodGroup with one queue. If a clique names another queue, that name would be ignored.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1; ai-dynamo/grove refuses it too.
    """,
    key=("annotations", VOLCANO_QUEUE),
    # First the PodCliqueSet's own, then by clique name, so that reordering the cliques moves no finding.
    uses=lambda _, context: sorted(_named(context), key=lambda use: use.path.anchor),
    remedy=lambda _: f"name one queue, preferably in the annotation {VOLCANO_QUEUE} of the set",
    capability=Capability.QUEUE,
)


@rule(
    "volcano/queue-partly-named",
    capability=Capability.QUEUE,
    passes=Example(pod_clique_set(clique("leader"), clique("worker"), annotations=asking("team-a"))),
    fails=Example(pod_clique_set(clique("leader"), clique("worker", annotations=asking("team-a")))),
)
def queue_partly_named(workload: PodCliqueSet, context: RuleContext) -> Results:
    """If the set names no queue, a clique without a queue is in the default queue, so its gang would be in two queues.

    Source: ai-dynamo/grove, operator/internal/scheduler/volcano/queue.go: all cliques must resolve to one queue.
    """
    if queue_of(mapping(workload.raw.get("metadata")), VOLCANO_QUEUE) is not None:
        return
    default = context.settings.defaultQueue
    named = sorted(_named(context), key=lambda use: use.path.anchor)
    silent = sorted(member.name for member in workload.cliques if queue_of(member.raw, VOLCANO_QUEUE) is None)
    if silent and named and named[0].value != default:
        yield Finding(
            at=named[0].path,
            found=named[0].value,
            why=f"clique {shown(silent[0])} names no queue, so it would be in {shown(default)} and the gang in two "
            "queues",
            remedy=f"name the queue in the annotation {VOLCANO_QUEUE} of the set",
        )


_LIVING = ClusterFacts(
    volcano_queues={
        "team-a": VolcanoQueue("root", "Open"),
        "team-b": VolcanoQueue("root", "Open"),
    },
    pod_gangs={("default", "demo-0"): PodGangFacts(workload="demo")},
)


@rule(
    "volcano/queue-change",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(annotations=asking("team-a")), old=pod_clique_set(annotations=asking("team-a")), facts=_LIVING
    ),
    fails=Example(
        pod_clique_set(annotations=asking("team-b")), old=pod_clique_set(annotations=asking("team-a")), facts=_LIVING
    ),
)
def queue_change(change: Change, context: RuleContext) -> Results:
    """If an existing gang is moved, its running pods move with it. Volcano does not check whether the other queue has
    room, is Open or is a leaf, because its webhook judges a PodGroup only when it is created.

    Source: volcano-sh/volcano, pkg/webhooks/admission/podgroups/validate (CREATE only).
    """
    before, now = _effective(change.old, context.settings), _effective(change.new, context.settings)
    if before == now:
        return
    named = _named(context)
    use = Use(named[0].path if named else ANNOTATIONS / VOLCANO_QUEUE, now)
    yield from moved(change, context, use, f"its gangs are in the queue {shown(before)}", "queue")


@rule(
    "volcano/queue-key",
    default=Action.WARN,
    passes=Example(pod_clique_set(annotations=asking("team-a"))),
    fails=Example(pod_clique_set(annotations={"scheduling.volcano.sh/queue-name": "team-a"})),
)
def queue_key(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Volcano's own queue annotations are for its jobs and for the groups that it makes itself. Volcano does not read
    them on a pod that names its group, so the gang is in another queue than its author expects. The same happens if a
    set names a queue only by the keys of other schedulers.

    Source: volcano-sh/volcano, pkg/controllers/podgroup, pkg/controllers/job.
    """
    if not _named(context):
        yield from unread_queues(context, "volcano", VOLCANO_QUEUE)
    holders = [(workload.annotations, ANNOTATIONS)]
    holders += [(member.annotations, member.path / "annotations") for member in workload.cliques]
    written = [key for key in ANNOTATIONS_OTHER_QUEUE if key in workload.mentions]
    for holder, path in holders if written else ():
        for key in written:
            if key in holder:
                yield Finding(
                    at=path / key,
                    found=holder[key],
                    why="volcano does not read it on pods that name their group, and the pods of a gang do",
                    remedy=f"name the queue in the annotation {VOLCANO_QUEUE} of the set",
                )


def _named(context: RuleContext) -> list[Use]:
    """The places that name a Volcano queue, each with the name. Spaces around a name are ignored."""
    found = []
    for use in context.uses.get(Capability.QUEUE, ()):
        if use.path.parts[-1] == VOLCANO_QUEUE and (name := (text(use.value) or "").strip()):
            found.append(Use(use.path, name))
    return found


def _effective(workload: PodCliqueSet, settings: VolcanoSettings) -> str:
    named = record_of(workload, None).queue(VOLCANO_QUEUE) if VOLCANO_QUEUE in workload.mentions else None
    return named or settings.defaultQueue


def judge_queue(name: str, path: FieldPath, called: str, facts: ClusterFacts) -> Results:
    """The problems of a queue, at the place that names it. Messages refer to the queue as `called`."""
    if not is_subdomain(name):
        # Another rule refuses it.
        return
    if name == ROOT_QUEUE:
        why = f"{called} is the parent of all queues, and a gang in it can stop every other queue"
        yield Finding(at=path, found=name, why=why, remedy="name a leaf queue below it")
    else:
        yield from QUEUES.judge(name, path, called, facts)


def _closed(name: str, path: FieldPath, called: str, found: VolcanoQueue) -> Iterator[Finding]:
    fresh = found.state is None
    state = "has no state yet" if fresh else f"is {shown(found.state)}"
    yield Finding(
        at=path,
        found=name,
        why=f"{called} {state}, and volcano starts gangs only from a queue that is {OPEN}",
        remedy="wait until Volcano's controller has seen the Queue" if fresh else "open the Queue, or name another",
        # A user who makes a queue and uses it at once must not be refused because a cache is behind.
        absent=Needed("volcano_queues", name) if fresh else None,
    )


QUEUES = Queues(
    project="Volcano",
    part="volcano_queues",
    pod_groups="volcano_pod_groups",
    missing="volcano drops a gang without a Queue, with only a log line",
    with_children="a gang in a queue with children can stop all other queues",
    orphaned=", and this can stop all queues",
    have_parent="create its parent",
    root=ROOT_QUEUE,
    usable=lambda queue: queue.state == OPEN,
    closed=_closed,
)
