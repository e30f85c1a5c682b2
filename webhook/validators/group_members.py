"""Rules about groups and pods that do not meet: a PodGroup that no pod names, a pod that names a group by a key that
its scheduler does not read, or a group that is missing, and a schedulerName that is misspelt. They judge files only:
in a cluster pods come after their group.

Opted-in workloads and PodCliqueSets are left out. Rollcall writes the membership of their pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import islice
from types import MappingProxyType
from typing import Any

from webhook.model import claims, grove
from webhook.model.admission_request import value_at
from webhook.model.any_object import KNOWN_KEYS, RETIRED_KEYS, AnyObject, KeyPlace
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, MOST_COMPARED, SPEC, FieldPath, NearMisses
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_kinds import POD
from webhook.model.known_objects import QueuedGroup, QueuedGroups
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.shaped_workload import KIND as POD_GROUP
from webhook.workloads.volcano_job import VOLCANO_JOB

_KAI_GROUPS = QueuedGroups({("default", "train"): QueuedGroup("team-a")})
_HELD = ClusterFacts(file_groups={("KAI", "default"): {"train": False}})
_ALONE = ClusterFacts(file_groups={("KAI", "default"): {"train": True}})
# Koordinator makes a gang of pods that name one by another key and state its minimum, without a PodGroup.
_KEY_OF_POD_GROUPS = "pod-group.scheduling.sigs.k8s.io"
_GANG = {claims.KOORDINATOR_GANG: "train", claims.GANG_MINIMUM: "2"}
# Where KAI's podgrouper does not replace the group that a pod names.
_SKIPPED = "kai.scheduler/skip-podgrouper"
_WORD = "group"
_READ_WITHOUT_SCHEDULER_NAME = frozenset({"Koordinator", "scheduler-plugins"})
# The labels and annotations of an object itself.
_OBJECT_MARKS = (("metadata", "labels"), ("metadata", "annotations"))
# What is known by another name than the scheduler that pods name.
_PROGRAMS = {
    "volcano-scheduler": "volcano",
    "vc-scheduler": "volcano",
    "koordinator": "koord-scheduler",
    "koordinator-scheduler": "koord-scheduler",
    "kai": "kai-scheduler",
    "coscheduling": "scheduler-plugins-scheduler",
    "scheduler-plugins": "scheduler-plugins-scheduler",
    "kube-scheduler": "default-scheduler",
}
# By group and kind: where an object names the scheduler of pods whose templates are not known, or do not name it.
_OF_SPARK = "batchScheduler"
_SCHEDULERS_OF_SPARK = ("kube-scheduler", "yunikorn")
_SCHEDULER_FIELDS: Mapping[tuple[str, str], FieldPath] = {
    ("batch", "CronJob"): SPEC / "jobTemplate" / "spec" / "template" / "spec" / "schedulerName",
    ("batch.volcano.sh", "CronJob"): SPEC / "jobTemplate" / "spec" / "schedulerName",
    VOLCANO_JOB: SPEC / "schedulerName",
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): SPEC / "template" / _OF_SPARK,
    ("sparkoperator.k8s.io", "SparkApplication"): SPEC / _OF_SPARK,
}
_NOTHING: Mapping[str, bool] = MappingProxyType({})
# Of more PodGroups in a namespace none is offered for a wrong name.
_MOST_OFFERED = 100
_SIMILAR_SCHEDULER = 0.85
_LONGEST_SCHEDULER = 63


def _pod_group(name: str) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": {}}


def _pod(scheduler: str = "kai-scheduler", **metadata: dict[str, str]) -> Manifest:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "example.com/main"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "w0", "namespace": "default", **metadata},
        "spec": spec,
    }


def _groups_in_files(facts: ClusterFacts, system: str, namespace: str) -> Mapping[str, bool]:
    """Returns the PodGroups that the files define, and whether pods beside them name none."""
    return (facts.file_groups or {}).get((system, namespace), _NOTHING)


def _judged_templates(manifest: AnyObject) -> Iterable[PodTemplate]:
    """Returns the pod templates whose membership Rollcall does not write, each once: leaders and workers may share
    one.
    """
    is_grouped = SCHEDULER_LABEL in manifest.labels or manifest.kind[::2] == (grove.GROUP, "PodCliqueSet")
    return () if is_grouped else {template.spec_path: template for template in manifest.templates}.values()


@rule(
    "groups/no-pods",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_pod_group("train"), facts=_HELD),
    fails=Example(_pod_group("train"), facts=_ALONE),
)
def no_pods(manifest: AnyObject, context: Context[Any]) -> Results:
    """A PodGroup holds only the pods that name it. Pods beside it that name no group start one by one, and the PodGroup
    waits for its minimum for ever. The rule reports nothing if the files have no pods of that scheduler without a group
    in the namespace.

    Source: the code by which each scheduler finds the group of a pod, as for the marks of pods
    (webhook/model/claims.py).
    """
    system = claims.SYSTEM_OF_GROUP.get(manifest.kind.group) if manifest.kind.kind == POD_GROUP else None
    if system is not None and _groups_in_files(context.facts, system, manifest.namespace).get(manifest.name):
        why = "in these files no pod names the group, though pods of its namespace have the same scheduler"
        yield Finding(METADATA / "name", manifest.name, why, f"name it on its pods by {claims.SYSTEMS[system].mark}")


@rule(
    "groups/unread-key",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_pod(annotations={"pod-group-name": "train"}), facts=_HELD),
    fails=Example(_pod(labels={"scheduling.x-k8s.io/pod-group": "train"}), facts=_ALONE),
)
def unread_key(manifest: AnyObject, context: Context[Any]) -> Results:
    """Each scheduler reads the group of a pod under keys of its own. A pod that names its group only by the key of
    another scheduler, or by one that no scheduler reads, is in no group: it starts alone, or its group waits for it.

    Source: koordinator-sh/koordinator, apis/extension/coscheduling.go; volcano-sh/volcano, pkg/controllers/podgroup;
    kai-scheduler/KAI-Scheduler, pkg/common/constants; kubernetes-sigs/scheduler-plugins, pkg/util/podgroup.go;
    kubernetes, pkg/scheduler (`spec.schedulingGroup`).
    """
    for template in _judged_templates(manifest):
        scheduler = claims.scheduler_of(template)
        system = claims.SYSTEM_OF_SCHEDULER.get(scheduler)
        groups = tuple(claims.groups_in_pod(template))
        if system is None or any(group.system == system for group in groups):
            continue
        for group in groups:
            # A ClusterColocationProfile sets the scheduler of pods, and coscheduling may run in default-scheduler.
            if template.spec.get("schedulerName") is None and group.system in _READ_WITHOUT_SCHEDULER_NAME:
                continue
            # The profile of default-scheduler judges a pod with its own mark.
            if manifest.kind[::2] == POD and group.system == "the Workload API":
                continue
            of_other = group.name in _groups_in_files(context.facts, group.system, manifest.namespace)
            why = f"{scheduler} does not read this key ({group.system} does), so the pod is in no group"
            remedy = _scheduler_remedy(group.system, system) if of_other else _remedy(system, template)
            yield Finding(group.claim.path, group.name, why, remedy)
        yield from _unknown_keys(template, manifest.namespace, system, groups, context.facts)
    yield from _keys_beside_pods(manifest)


def _keys_beside_pods(manifest: AnyObject) -> Iterator[Finding]:
    """Yields the keys that name a group on an object that makes pods, and not on its pods."""
    templates = tuple(_judged_templates(manifest))
    if not templates or manifest.kind[::2] == POD:
        return
    systems = {group.system for template in templates for group in claims.groups_in_pod(template)}
    for parts, keys in manifest.holders:
        for key, value in keys.items() if parts in _OBJECT_MARKS else ():
            name = claims.group_in_mark(key, value)
            if name is not None and claims.NAMES_OF[key] not in systems:
                why = "it is read only on pods, and the pods of this object name no group"
                yield Finding(FieldPath((*parts, key)), name, why, "move it to the metadata of the pod template")


def _unknown_keys(
    template: PodTemplate, namespace: str, system: str, groups: tuple[claims.GroupName, ...], facts: ClusterFacts
) -> Iterator[Finding]:
    """Yields a key that nobody reads, with the name of a PodGroup that no pod names."""
    read = {group.claim.key for group in groups}
    for path, keys, misplaced in (
        (template.labels_path, template.labels, KeyPlace.ANNOTATION),
        (template.annotations_path, template.annotations, KeyPlace.LABEL),
    ):
        for key, value in keys.items():
            if _WORD not in key.casefold() or key in read or key in RETIRED_KEYS or not isinstance(value, str):
                continue
            # Another rule reports a label that is read only as an annotation, and the other way round.
            if KNOWN_KEYS.get(key) is misplaced:
                continue
            if _groups_in_files(facts, system, namespace).get(value):
                why = f"it is the name of a PodGroup, but {claims.SYSTEMS[system].scheduler} does not read this key"
                yield Finding(path / key, value, why, _remedy(system, template))


def _scheduler_remedy(of_group: str, of_pods: str) -> str:
    """Returns the remedy where the group is written for another scheduler than the one that the pods name."""
    group, pods = claims.SYSTEMS[of_group], claims.SYSTEMS[of_pods]
    return (
        f"the PodGroup is of {of_group}: set schedulerName to {group.scheduler}, or write the PodGroup as one of "
        f"{pods.api_group} and name it by {pods.mark}"
    )


def _remedy(system: str, template: PodTemplate) -> str:
    if template.spec.get("schedulerName") is None:
        return "set schedulerName to the scheduler of the group; without one default-scheduler places the pod"
    return f"name the group by {claims.SYSTEMS[system].mark}"


@rule(
    "groups/missing",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_pod(annotations={"pod-group-name": "train"}), facts=ClusterFacts(kai_pod_groups=_KAI_GROUPS)),
    fails=Example(_pod(annotations={"pod-group-name": "trian"}), facts=ClusterFacts(kai_pod_groups=_KAI_GROUPS)),
)
def missing_group(manifest: AnyObject, context: Context[Any]) -> Results:
    """A pod that names a PodGroup that its namespace does not have waits for ever. A PodGroup in another namespace, or
    of another scheduler, does not count. Where neither the files nor the facts have PodGroups of that scheduler in the
    namespace, it is not judged. A gang of Koordinator that its pods describe needs no PodGroup. The rules of
    Koordinator and of default-scheduler judge Pods themselves.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core; volcano-sh/volcano, pkg/scheduler/cache
    (a job without PodGroup is left out); kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info;
    kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go; kubernetes, pkg/scheduler (gang scheduling).
    """
    near = NearMisses()
    for template in _judged_templates(manifest):
        system = claims.SYSTEM_OF_SCHEDULER.get(claims.scheduler_of(template))
        for group in claims.groups_in_pod(template):
            if group.system != system or system is None:
                continue
            here = _groups_in_files(context.facts, system, manifest.namespace)
            if _is_described(group, template, manifest.namespace, context.facts):
                continue
            in_other_system = (
                other
                for other in claims.SYSTEMS
                if group.name in _groups_in_files(context.facts, other, manifest.namespace)
            )
            namesake = None if group.name in here else next(in_other_system, None)
            if namesake is not None:
                scheduler = claims.scheduler_of(template)
                why = f"the PodGroup of this name is one of {namesake}, which {scheduler} does not read"
                remedy = f"write the PodGroup as one of {claims.SYSTEMS[system].api_group}"
                yield Finding(group.claim.path, group.name, why, remedy)
            elif _needs_group(group, template, manifest):
                yield from _missing_group(group, manifest.namespace, context.facts, near)


def _needs_group(group: claims.GroupName, template: PodTemplate, manifest: AnyObject) -> bool:
    if group.system == "KAI":
        return manifest.kind[::2] == POD or template.annotations.get(_SKIPPED) == "true"
    return group.system not in {"Koordinator", "the Workload API"} or manifest.kind[::2] != POD


def _is_described(group: claims.GroupName, template: PodTemplate, namespace: str, facts: ClusterFacts) -> bool:
    """Returns whether koord-scheduler needs no PodGroup: pods describe the gang, or it reads another key of this
    pod.
    """
    if group.system != "Koordinator" or group.claim.key == _KEY_OF_POD_GROUPS:
        return False
    gang = claims.pods_gang(template)
    return gang is None or gang.name != group.name or (namespace, gang.name) in (facts.pods_gangs or {})


def _missing_group(group: claims.GroupName, namespace: str, facts: ClusterFacts, near: NearMisses) -> Results:
    """Yields what is wrong with one name of a group. A file's group that no pod names is the likely one."""
    here, sizes = _groups_in_files(facts, group.system, namespace), facts.group_sizes or {}
    part = claims.SYSTEMS[group.system].groups
    if group.name in here or (part is not None and not facts.lacks(Needed(part, (namespace, group.name)))):
        return
    alone = here if len(here) <= _MOST_OFFERED else ()
    likely = near.likely(group.name, [name for name in alone if (group.system, namespace, name) not in sizes])
    if not here and (part is None or not facts.is_whole(part, namespace)):
        yield Unjudged(
            group.claim.path,
            f"whether there is a PodGroup {shown(group.name)} is",
            part=part or "",
            remedy="" if part else "add the PodGroup to the files",
        )
        return
    why = f"there is no such PodGroup of {group.system} in the namespace {namespace[:63]}, so the pod waits for ever"
    remedy = "name a PodGroup of the namespace, or add it"
    if group.system == "Koordinator" and group.claim.key != _KEY_OF_POD_GROUPS:
        why = f"no pod of the gang states its minimum, and {why}"
        remedy = f'set the annotation {claims.GANG_MINIMUM} on its pods, such as "2", or add the PodGroup'
    absent = None if likely or part is None else Needed(part, (namespace, group.name))
    remedy = f"did you mean {likely}? write that name" if likely else remedy
    yield Finding(group.claim.path, group.name, why, remedy, absent=absent)


@rule(
    "groups/minimum",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(
        _pod("koord-scheduler", annotations=_GANG),
        facts=ClusterFacts(group_sizes={("Koordinator", "default", "train"): 2}, pods_gangs={("default", "train"): 2}),
    ),
    fails=Example(
        _pod("koord-scheduler", annotations=_GANG),
        facts=ClusterFacts(group_sizes={("Koordinator", "default", "train"): 1}, pods_gangs={("default", "train"): 2}),
    ),
)
def minimum_above_pods(manifest: AnyObject, context: Context[Any]) -> Results:
    """koord-scheduler makes a gang of pods that describe it by annotations, and holds them until as many as the minimum
    are there. The rule counts the pods in the same files: pods, and the templates of their controllers. It is silent
    where the pods state different minimums, or where a PodGroup of that name states another.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodConfig`), core.go
    (`PreEnqueue`: children below the minimum), v1.8.0.
    """
    system, facts = "Koordinator", context.facts
    for template in _judged_templates(manifest):
        gang = claims.pods_gang(template)
        if (
            gang is None
            or gang.minimum is None
            or claims.SYSTEM_OF_SCHEDULER.get(claims.scheduler_of(template)) != system
        ):
            continue
        key = (manifest.namespace, gang.name)
        if gang.name in _groups_in_files(facts, system, manifest.namespace) or key in (
            facts.koordinator_pod_groups or {}
        ):
            continue
        pods = (facts.group_sizes or {}).get((system, *key))
        if pods is not None and pods < gang.minimum and (facts.pods_gangs or {}).get(key) == gang.minimum:
            why = (
                f"in these files only {pods} {'pod names' if pods == 1 else 'pods name'} the gang, and it starts "
                "only with its minimum"
            )
            remedy = f'set it to "{pods}", or add the missing pods'
            yield Finding(gang.at, gang.written, why, remedy, instead=(str(pods),))


@rule(
    "groups/scheduler-name",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_pod("koord-scheduler")),
    fails=Example(_pod("koord-schedular")),
)
def misspelt_scheduler(manifest: AnyObject, context: Context[Any]) -> Results:
    """A pod that names a scheduler that does not run stays pending, without an event. Reported are names that resemble
    the name of an enabled scheduler, or of a gang scheduler. Those of workloads that choose their scheduler are judged
    by other rules.

    Source: kubernetes, pkg/scheduler/eventhandlers.go (`responsibleForPod`): a scheduler leaves pods of other names
    alone.
    """
    names = (*context.choice.available, *claims.SYSTEM_OF_SCHEDULER)
    paths: dict[FieldPath, str] = {
        template.spec_path / "schedulerName": claims.scheduler_of(template) for template in _judged_templates(manifest)
    }
    field, why = _SCHEDULER_FIELDS.get(manifest.kind[::2]), "and no other scheduler places the pod"
    if field is not None and SCHEDULER_LABEL not in manifest.labels:
        name = value_at(manifest.raw, field)[1]
        paths |= {field: name} if isinstance(name, str) and name else {}
        if field.parts[-1] == _OF_SPARK:
            names, why = (*_SCHEDULERS_OF_SPARK, *names), "and Spark's operator knows no such batch scheduler"
    meant = {name: _likely_scheduler(name, names) for name in islice(dict.fromkeys(paths.values()), MOST_COMPARED)}
    for path, name in paths.items():
        if (likely := meant.get(name)) is not None:
            yield Finding(
                path, name, f"no gang scheduler has this name, {why}", f"did you mean {likely}? write that name"
            )


def _likely_scheduler(name: str, names: Iterable[str]) -> str | None:
    """Returns the scheduler that a misspelt name means. With a suffix, such as volcano-2, it may be that of a second
    one, but not with its last letter again.
    """
    if name in names or len(name) > _LONGEST_SCHEDULER:
        return None
    if name in _PROGRAMS:
        return _PROGRAMS[name]
    for likely in names:
        alike = SequenceMatcher(None, name.casefold(), likely).ratio() >= _SIMILAR_SCHEDULER
        is_second = name.startswith(likely) and name[len(likely) :].strip(likely[-1])
        if alike and name[0].casefold() == likely[0] and not is_second:
            return likely
    return None
