"""Mistakes in PodGroups and Queues that are written by hand."""

from __future__ import annotations

from tests.unit.cli.agreement import Case
from tests.unit.mistakes.manifests import (
    KAI_GROUP,
    KAI_QUEUES,
    KOORDINATOR_GROUP,
    MEMBERS,
    POD_GROUP,
    VOLCANO_GROUP,
    VOLCANO_MEMBERS,
    VOLCANO_QUEUE,
    annotated,
    changed,
    pods,
)
from tests.unit.mistakes.mistake import Mistake

_NAMESPACE = "  namespace: team-a\n"
_MINIMUM = "  minMember: 2\n"
_SUBGROUPS = "  subGroups:\n"
_GROUPS = "gang.scheduling.koordinator.sh/groups"


def _below_queues(group: str) -> str:
    """Return a PodGroup of KAI from line 18, after its Queues."""
    return f"{KAI_QUEUES}---\n{group}"


_OF_KAI = {
    "a parent that does not exist": Mistake(
        _below_queues(changed(KAI_GROUP, "    parent: all\n    minMember: 4", "    parent: al\n    minMember: 4")),
        ("32 error kai/group-parent", "27 error kai/group-minimum"),
    ),
    "more subgroups than there are": Mistake(
        _below_queues(changed(KAI_GROUP, "minSubGroup: 2", "minSubGroup: 3")), ("27 error kai/group-minimum",)
    ),
    "fewer subgroups than there are": Mistake(
        _below_queues(changed(KAI_GROUP, "minSubGroup: 2", "minSubGroup: 1")), ("27 error kai/group-optional",)
    ),
    "no queue": Mistake(changed(KAI_GROUP, "  queue: team-a\n", ""), ("6 error kai/group-no-queue",)),
    "the queue as a label": Mistake(
        changed(
            changed(KAI_GROUP, "  queue: team-a\n", ""),
            _NAMESPACE,
            f"{_NAMESPACE}  labels: {{kai.scheduler/queue: team-a}}\n",
        ),
        ("7 error kai/group-no-queue",),
    ),
    "a queue with children": Mistake(
        _below_queues(changed(KAI_GROUP, "queue: team-a", "queue: department")),
        ("14 error kai/queue-in-use", "24 error kai/group-queue"),
    ),
    "a topology without a name": Mistake(
        _below_queues(
            changed(KAI_GROUP, _SUBGROUPS, f"  topologyConstraint: {{requiredTopologyLevel: rack}}\n{_SUBGROUPS}")
        ),
        ("25 error kai/group-topology-unnamed",),
    ),
    "one name in two namespaces": Mistake(
        _below_queues(f"{KAI_GROUP}---\n{changed(KAI_GROUP, 'namespace: team-a', 'namespace: team-b')}"),
        ("21 warning kai/group-name", "38 warning kai/group-name"),
    ),
    "queues in a cycle": Mistake(
        changed(KAI_QUEUES, "  name: department\nspec:\n", "  name: department\nspec:\n  parentQueue: team-a\n"),
        ("6 error kai/queue-cycle", "15 error kai/queue-cycle"),
    ),
    "a queue without its parent": Mistake(
        KAI_QUEUES.partition("---\n")[2],
        ("6 not judged kai/queue-parent",),
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/499",
    ),
}
_OF_VOLCANO = {
    "a minimum above the pods": Mistake(
        f"{VOLCANO_QUEUE}---\n"
        + changed(VOLCANO_GROUP, "minMember: 2", "minMember: 3")
        + pods(2, "volcano", VOLCANO_MEMBERS),
        ("15 warning volcano/group-pods",),
    ),
    "resources without a minimum of pods": Mistake(
        changed(VOLCANO_GROUP, _MINIMUM, "  minResources: {cpu: 8}\n"),
        ("6 error volcano/group-minimum",),
        "https://github.com/volcano-sh/volcano/issues/5075",
    ),
    "minimums of tasks above the minimum": Mistake(
        changed(VOLCANO_GROUP, _MINIMUM, f"{_MINIMUM}  minTaskMember: {{master: 1, worker: 4}}\n"),
        ("8 error volcano/task-minimums",),
    ),
    "hard without a tier": Mistake(
        changed(VOLCANO_GROUP, _MINIMUM, f"{_MINIMUM}  networkTopology: {{mode: hard}}\n"),
        ("8 error volcano/group-tier", "8 warning volcano/group-topology-off"),
    ),
    "the queue as an annotation": Mistake(
        annotated(changed(VOLCANO_GROUP, "  queue: team-a\n", ""), "scheduling.volcano.sh/queue-name: team-a"),
        ("7 warning volcano/group-keys",),
    ),
    "a queue with children": Mistake(
        f"{VOLCANO_QUEUE}---\n"
        + changed(changed(VOLCANO_QUEUE, "name: team-a", "name: sub"), "weight: 1", "parent: team-a")
        + f"---\n{VOLCANO_GROUP}",
        ("14 error volcano/queue-in-use", "24 error volcano/group-queue"),
    ),
    "a queue without its parent": Mistake(
        changed(VOLCANO_QUEUE, "  weight: 1\n", "  parent: research\n"), ("6 not judged volcano/queue-parent",)
    ),
}
_OF_KOORDINATOR = {
    "a minimum above the pods": Mistake(
        changed(KOORDINATOR_GROUP, "minMember: 2", "minMember: 3")
        + pods(2, "koord-scheduler", "labels: {pod-group.scheduling.sigs.k8s.io: train}"),
        ("7 warning koordinator/group-pods",),
        "https://github.com/koordinator-sh/koordinator/pull/875",
    ),
    "groups that are not JSON": Mistake(
        annotated(KOORDINATOR_GROUP, f"{_GROUPS}: train"), ("7 error koordinator/gang-groups-unread",)
    ),
    "groups without the group itself": Mistake(
        annotated(KOORDINATOR_GROUP, f"{_GROUPS}: '[\"team-a/other\"]'"),
        ("7 error koordinator/gang-groups-itself", "7 warning koordinator/gang-member-missing"),
    ),
    "a mode in lower case": Mistake(
        annotated(KOORDINATOR_GROUP, "gang.scheduling.koordinator.sh/mode: strict"), ("7 error koordinator/gang-mode",)
    ),
    "a total below the minimum": Mistake(
        annotated(KOORDINATOR_GROUP, 'gang.scheduling.koordinator.sh/total-number: "1"'),
        ("7 error koordinator/gang-total-number",),
    ),
    "a pod without its PodGroup": Mistake(
        pods(1, "koord-scheduler", "labels: {pod-group.scheduling.sigs.k8s.io: train}"),
        ("7 not judged koordinator/pod-group-missing",),
    ),
}
_OF_SCHEDULER_PLUGINS = {
    "a minimum above the pods": Mistake(
        changed(POD_GROUP, "minMember: 2", "minMember: 3") + pods(2, "scheduler-plugins-scheduler", MEMBERS),
        ("7 warning coscheduling/group-pods",),
        case=Case(option="scheduler-plugins-scheduler"),
    ),
}
MISTAKES = {
    **{f"KAI: {name}": mistake for name, mistake in _OF_KAI.items()},
    **{f"Volcano: {name}": mistake for name, mistake in _OF_VOLCANO.items()},
    **{f"Koordinator: {name}": mistake for name, mistake in _OF_KOORDINATOR.items()},
    **{f"scheduler-plugins: {name}": mistake for name, mistake in _OF_SCHEDULER_PLUGINS.items()},
}
