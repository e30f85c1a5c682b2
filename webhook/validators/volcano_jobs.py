"""Rules about Volcano Jobs (batch.volcano.sh): what Volcano's own webhook refuses, whichever scheduler the pods name.
That is the minimum, from which Volcano's controller makes a PodGroup, and the shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from webhook.model.fields import METADATA, SPEC, FieldPath, Item
from webhook.model.findings import Finding, shown
from webhook.model.keys import LABEL_VALUE_LIMIT, is_label, is_subdomain
from webhook.model.reading import integer, is_unrendered, mapping, sequence, text
from webhook.validators.examples import volcano_job, volcano_task
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.validators.wrong_types import wrong_fields
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.volcano_job import VOLCANO_JOB, minimum_of, tasks_of

_MINIMUM = SPEC / "minAvailable"
# What Volcano v1.15 accepts.
_PLUGINS = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
_ANY = "*"
_EVENTS = (_ANY, "JobUpdated", "PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown")
_ACTIONS = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)
_POLICIES = [{"event": str, "events": [str], "action": str, "exitCode": int}]
_TIERS = {"mode": str, "highestTierAllowed": int, "highestTierName": str}
# The fields that are read here, besides those of a Job's gang.
_TYPES: dict[str, Any] = {
    "spec": {
        "maxRetry": int,
        "ttlSecondsAfterFinished": int,
        "plugins": {},
        "networkTopology": _TIERS,
        "volumes": [{"mountPath": str, "volumeClaimName": str, "volumeClaim": {}}],
        "policies": _POLICIES,
        "tasks": [
            {
                "name": str,
                "replicas": int,
                "dependsOn": {"name": [str]},
                "policies": _POLICIES,
                "partitionPolicy": {
                    "totalPartitions": int,
                    "partitionSize": int,
                    "minPartitions": int,
                    "networkTopology": _TIERS,
                },
            }
        ],
    }
}
_MASTER = re.compile(r"(?:^|\s)--?master[=\s](\S+)")
_REFUSED = "so Volcano refuses the Job"
_MOST_NAMES = 4

_TAIL = volcano_task("tail", 2, dependsOn={"name": ["head"]})


@rule(
    "volcano/job-minimum",
    subject=Subject.OPTED_IN,
    independent=True,
    of_kind=VOLCANO_JOB,
    passes=Example(volcano_job(volcano_task("worker", 4), minAvailable=4)),
    fails=Example(volcano_job(volcano_task("worker", 4), minAvailable=5)),
)
def job_minimum(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """Volcano's own webhook refuses a Job whose minAvailable is above the replicas of all tasks, or that of a task
    above the task's replicas. Without the webhook the gang waits for pods that are never created.

    Source: volcano-sh/volcano, pkg/webhooks/admission/jobs/validate/admit_job.go (v1.9 to v1.15.1).
    """
    tasks, minimum = tasks_of(workload), minimum_of(workload)
    pods = sum(max(task.replicas, 0) for task in tasks)
    if minimum is not None and (minimum < 0 or (tasks and minimum > pods)):
        yield _refused(_MINIMUM, minimum, f"all tasks have {pods} pods together", pods)
    for task in tasks:
        replicas = max(task.replicas, 0)
        if task.stated is not None and not 0 <= task.stated <= replicas:
            yield _refused(task.path / "minAvailable", task.stated, f"the task has {replicas} pods", replicas)


def _refused(at: FieldPath, minimum: int, has: str, pods: int) -> Finding:
    why = f"{'a minimum is not below 0' if minimum < 0 else has}, {_REFUSED}"
    return Finding(at=at, value=minimum, why=why, remedy=f"set 0 to {pods}", instead=(pods,))


@rule(
    "volcano/job-shape",
    subject=Subject.OPTED_IN,
    independent=True,
    of_kind=VOLCANO_JOB,
    passes=Example(volcano_job(volcano_task("head", 1), _TAIL, plugins={"svc": []}, maxRetry=3)),
    fails=Example(volcano_job(volcano_task("head", 1), volcano_task("tail", 2, dependsOn={"name": ["heda"]}))),
)
def job_shape(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """Volcano refuses a Job when it is created if it has no task, a task's name is no DNS label or is given twice, a
    name of a pod is too long, a number is below 0, partitions do not add up to the replicas, a topology states two
    tiers, a volume is incomplete, a plugin, an event or an action is unknown, two policies are for one event, or tasks
    wait for one another in a cycle or for a task that does not exist.

    Source: volcano-sh/volcano, pkg/webhooks/admission/jobs/validate/admit_job.go and util.go, and since v1.15
    installer/volcano-development-vap.yaml (job-validation-policy); pkg/controllers/job/plugins/factory.go.
    """
    if wrong := tuple(wrong_fields(workload.raw, _TYPES)):
        yield from wrong
        return
    yield from _negative_numbers(SPEC, workload.spec, "maxRetry", "ttlSecondsAfterFinished")
    for name in mapping(workload.spec.get("plugins")):
        if name not in _PLUGINS:
            remedy = f"name one of {', '.join(_PLUGINS)}"
            yield _shape(SPEC / "plugins" / name, name, "there is no such plugin of Jobs", remedy)
    yield from _topology(SPEC, workload.spec)
    yield from _volumes(workload.spec)
    yield from _policies(SPEC, workload.spec)
    raw = [mapping(task) for task in sequence(workload.spec.get("tasks"))]
    if not raw:
        yield _shape(SPEC / "tasks", None, "it has no task", "add a task")
    # Volcano gives a task without a name one of its index.
    tasks = [(text(task.get("name")) or f"default{index}", task) for index, task in enumerate(raw)]
    yield from _mpi_master(workload.spec, [name for name, _ in tasks])
    yield from _pod_names(workload, tasks)
    names: set[str] = set()
    for index, (name, task) in enumerate(tasks):
        path = SPEC / "tasks" / Item(index, text(task.get("name")))
        if name in names:
            yield _shape(path / "name", name, "another task has this name", "give each task a name of its own")
        elif not is_label(name):
            remedy = "use at most 63 lowercase letters, digits and dashes"
            yield _shape(path / "name", name, "the name of a task is no DNS label", remedy)
        names.add(name)
        yield from _negative_numbers(path, task, "replicas")
        yield from _partitions(path / "partitionPolicy", task)
        yield from _policies(path, task)
    yield from order_faults(workload)


def _shape(at: FieldPath, value: object, why: str, remedy: str) -> Finding:
    return Finding(at=at, value=value, why=f"{why}, {_REFUSED}", remedy=remedy)


def _negative_numbers(path: FieldPath, holder: Mapping[str, Any], *names: str) -> Iterator[Finding]:
    for name in names:
        value = integer(holder.get(name))
        if value is not None and value < 0:
            yield _shape(path / name, value, "it is below 0", "set 0 or more")


def _topology(path: FieldPath, holder: Mapping[str, Any]) -> Iterator[Finding]:
    topology, at = mapping(holder.get("networkTopology")), path / "networkTopology"
    mode, tier = text(topology.get("mode")), text(topology.get("highestTierName"))
    if mode not in {None, "hard", "soft"}:
        yield _shape(at / "mode", mode, "there is no such mode of a topology", "set hard or soft")
    if tier is not None and topology.get("highestTierAllowed") is not None:
        yield _shape(
            at / "highestTierName", tier, "a topology has a tier or its name, not both", "remove one of the two"
        )


def _volumes(spec: Mapping[str, Any]) -> Iterator[Finding]:
    places: set[str] = set()
    for index, raw in enumerate(sequence(spec.get("volumes"))):
        volume, at = mapping(raw), SPEC / "volumes" / Item(index)
        place, claim = text(volume.get("mountPath")), text(volume.get("volumeClaimName"))
        if place is None:
            yield _shape(at / "mountPath", None, "a volume has a mountPath", "add it")
        elif place in places:
            yield _shape(at / "mountPath", place, "another volume has this mountPath", "change one of the two")
        places.add(place or "")
        is_new = volume.get("volumeClaim") is not None
        if claim is None and not is_new:
            why = "a volume has a volumeClaim or a volumeClaimName"
            yield _shape(at / "volumeClaimName", None, why, "name a PersistentVolumeClaim")
        elif claim is not None and is_new:
            why = "a volume has a volumeClaim or a volumeClaimName, not both"
            yield _shape(at / "volumeClaimName", claim, why, "remove one of the two")
        elif claim is not None and not is_subdomain(claim):
            remedy = "use lowercase letters, digits, dashes and dots"
            yield _shape(at / "volumeClaimName", claim, "no PersistentVolumeClaim can have this name", remedy)


def _mpi_master(spec: Mapping[str, Any], names: list[str]) -> Iterator[Finding]:
    """Yields one finding if the task is missing that starts MPI: `master`, unless an argument of the plugin names
    another.
    """
    plugins = mapping(spec.get("plugins"))
    arguments = plugins.get("mpi")
    if "mpi" not in plugins or not names:
        return
    line = " ".join(word for word in arguments if isinstance(word, str)) if isinstance(arguments, list) else ""
    argument = _MASTER.search(line)
    master = argument[1] if argument else "master"
    if master not in names:
        why = "the plugin mpi has no task of this name to start from"
        yield _shape(SPEC / "plugins" / "mpi", master, why, "name a task with --master=NAME")


def _pod_names(workload: OptedInWorkload, tasks: list[tuple[str, Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yields one finding if the Job's name, or that of a pod as Volcano's webhook makes it, is too long. The webhook
    counts the index of the task, not that of the pod.
    """
    if not (job := text(workload.metadata.get("name"))):
        return
    names = [f"{job}-{name}-{index}" for index, (name, _) in enumerate(tasks) if is_label(name)]
    longest = max((job, *names), key=len)
    if (over := len(longest) - LABEL_VALUE_LIMIT) > 0:
        why = f"the name {shown(longest)} has {len(longest)} characters, and {LABEL_VALUE_LIMIT} is the most"
        yield _shape(METADATA / "name", job, why, f"shorten it, or the task's name, by {over}")


def _partitions(path: FieldPath, task: Mapping[str, Any]) -> Iterator[Finding]:
    if task.get("partitionPolicy") is None:
        return
    policy = mapping(task["partitionPolicy"])
    yield from _topology(path, policy)
    total, size = integer(policy.get("totalPartitions")) or 0, integer(policy.get("partitionSize")) or 0
    for name, value in (("totalPartitions", total), ("partitionSize", size)):
        if value <= 0:
            yield _shape(path / name, value, "it is not above 0", "set 1 or more")
            return
    replicas, least = integer(task.get("replicas")) or 0, integer(policy.get("minPartitions")) or 0
    minimum = integer(task.get("minAvailable"))
    if replicas != total * size:
        why = f"{total} partitions of {size} are not the task's {replicas} replicas"
        yield _shape(path / "totalPartitions", total, why, "set replicas to totalPartitions times partitionSize")
    elif minimum is not None and least > 0 and minimum != least * size:
        why = f"{least} partitions of {size} are not the task's minAvailable, {minimum}"
        yield _shape(path / "minPartitions", least, why, "remove minAvailable, or set it to their product")


def _policies(path: FieldPath, holder: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields what is wrong with the policies of a Job or of a task: each is for events or for an exit code, and no two
    are for the same.
    """
    taken: set[str | int] = set()
    for index, raw in enumerate(sequence(holder.get("policies"))):
        policy, at = mapping(raw), path / "policies" / Item(index)
        code, action = integer(policy.get("exitCode")), text(policy.get("action")) or ""
        events = dict.fromkeys([text(event) or "" for event in sequence(policy.get("events"))])
        if event := text(policy.get("event")):
            events[event] = None
        if (code is None) is not bool(events):
            which = "neither an event nor" if code is None else "both an event and"
            yield _shape(at, action, f"the policy has {which} an exitCode", "state an event or an exitCode")
            continue
        if code == 0:
            yield _shape(at / "exitCode", 0, "0 is no exit code of a failure", "state another exitCode")
        if events and action not in _ACTIONS:
            remedy = f"set one of {', '.join(_ACTIONS)}"
            yield _shape(at / "action", action, "there is no such action of a policy", remedy)
        for value in events if code is None else (code,):
            place = at / ("exitCode" if code is not None else "event" if value == event else "events")
            if isinstance(value, str) and value not in _EVENTS:
                remedy = f"name one of {', '.join(_EVENTS)}"
                yield _shape(place, value, "there is no such event of a policy", remedy)
            elif value in taken:
                yield _shape(place, value, "an earlier policy is for the same", "remove one of the two")
            elif isinstance(value, str) and value != _ANY and _ANY in taken:
                yield _shape(place, value, "another entry is for every event", "remove one of the two")
            elif value == _ANY and any(isinstance(event, str) for event in taken):
                yield _shape(place, value, "it is every event, and another entry is for one", "remove the others")
            taken.add(value)


def order_faults(workload: OptedInWorkload) -> Iterator[Finding]:
    """Yields the tasks that wait for a task that does not exist, twice for one, or for one another."""
    tasks = [mapping(task) for task in sequence(workload.spec.get("tasks"))]
    names = [text(task.get("name")) or f"default{index}" for index, task in enumerate(tasks)]
    task_names, is_rendered = set(names), not any(map(is_unrendered, names))
    after: dict[str, list[str]] = {}
    places: dict[tuple[str, str], FieldPath] = {}
    for index, (name, task) in enumerate(zip(names, tasks, strict=True)):
        waits = [
            other if isinstance(other, str) else "" for other in sequence(mapping(task.get("dependsOn")).get("name"))
        ]
        at = SPEC / "tasks" / Item(index, text(task.get("name"))) / "dependsOn" / "name"
        seen: set[str] = set()
        for position, other in enumerate(waits):
            place = at / Item(position, other or None)
            is_missing = is_rendered and other not in task_names
            if is_missing or other in seen:
                why = "the task is named twice" if other in seen else "no task has this name"
                yield _shape(place, other, why, "name another task, or remove the name")
            seen.add(other)
            places.setdefault((name, other), place)
        after.setdefault(name, []).extend(other for other in waits if other in task_names)
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        around: list[str] = error.args[1][::-1]
        order = " after ".join(around[:_MOST_NAMES]) + (" after ..." if len(around) > _MOST_NAMES else "")
        waiting, first = min(pairwise(around))
        why = f"tasks wait for one another in a cycle ({shown(order)})"
        yield _shape(places[waiting, first], first, why, "remove a name of the cycle from dependsOn, such as this")
