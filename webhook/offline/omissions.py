"""What no rule judges in files: objects of an unknown kind, of a scheduler without a profile, or not rendered; and how
the facts that a rule lacks are supplied, by a command or by a right in a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from webhook.backends.registry import installed_backends
from webhook.config.settings import Settings
from webhook.fit.verdict import sentence_list
from webhook.model.admission_request import Kind, Verdict, value_at
from webhook.model.any_object import KNOWN_KEYS
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, ROOT, FieldPath, Item
from webhook.model.findings import Action, Finding, Omission, OmissionReason, Unjudged, shown
from webhook.model.known_kinds import NO_GANGS, OTHER_WORKLOADS, PODS
from webhook.model.node_pods import NODE_PODS, RESERVATIONS
from webhook.model.projections import Projection, Resource
from webhook.model.reading import Manifest, is_unrendered
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.workloads.known_workloads import EVERY_GENERAL
from webhook.workloads.shaped_workload import KIND as GROUP

FOLDER = "a folder that `rollcall facts -o DIR` wrote"


@cache
def projections_by_part() -> dict[str, tuple[Projection, ...]]:
    by_part: dict[str, tuple[Projection, ...]] = {}
    backends = installed_backends().values()
    of_backends = (projection for backend in backends for projection in backend.projections)
    for projection in (NODE_PODS, RESERVATIONS, *EVERY_GENERAL, *of_backends):
        by_part[projection.part] = (*by_part.get(projection.part, ()), projection)
    return by_part


def resources_of(part: str) -> tuple[Resource, ...]:
    """Returns the kinds that a part of the facts is read from, in each version; none for what discovery tells."""
    if part == "bound_gangs":
        return (PODS,)
    return tuple(dict.fromkeys(projection.resource for projection in projections_by_part().get(part, ())))


def add_remedies(missing: Iterable[Unjudged], facts: ClusterFacts) -> tuple[Unjudged, ...]:

    def remedy(unjudged: Unjudged) -> str:
        if unjudged.part and (unread := (facts.unread or {}).get(unjudged.part)) is not None:
            return unread
        return unjudged.remedy or (supply_of(unjudged.part) if unjudged.part else "")

    return tuple(replace(unjudged, remedy=remedy(unjudged)) for unjudged in missing)


def supply_of(part: str) -> str:
    by_hand = kubectl_of(part)
    return f"give --facts {FOLDER}{f', or the output of `{by_hand}`' if by_hand else ''}; or use --live"


def kubectl_of(part: str) -> str | None:
    resources = resources_of(part)
    if part == "spec_fields":
        return "kubectl get customresourcedefinitions -o yaml"
    if not resources:
        return None
    # Of ConfigMaps only one is a fact, and others may have what does not belong into a folder.
    selectors = [projection.field_selector for projection in projections_by_part().get(part, ())]
    where = "".join(f" --field-selector {selector}" for selector in selectors if "metadata.name=" in selector)
    return f"kubectl get {resources[0].qualified}{' -A' if resources[0].namespaced else ''}{where} -o yaml"


def may_not_read(resource: Resource) -> str:
    return f"ask for the right to list {resource.qualified}, or for {FOLDER}, and give it with --facts"


def not_served(resource: Resource) -> str:
    return f"the cluster does not serve {resource.qualified}: install it, or disable the scheduler that needs it"


def not_read(what: str, why: str) -> str:
    return f"try again: {what} could not be read ({why})"


# Fields of texts that a shell or another program fills at run time.
_TEXTS = frozenset(
    {
        "args",
        "arguments",
        "command",
        "data",
        "entrypoint",
        "env",
        "envVars",
        "envs",
        "hadoopConf",
        "image",
        "lifecycle",
        "mainClass",
        "plugins",
        "rayStartParams",
        "sparkConf",
        "stringData",
        "volumeMounts",
        "volumes",
    }
)
_RENDER = "render the manifest before it is checked, as with envsubst, helm template or kustomize build"
# Of more placeholders the others are counted.
_MOST_NAMED = 4
# The rules about the names of fields, which show a field with its value.
_OF_KEYS = ("fields/", "keys/")
# A document of a program that failed.
_FAILURES = frozenset({"error", "errors"})
_MOST_KEYS = 3
# Objects that may have the label or a scheduler's name; their pods are no gang, or made by something that is judged.
_FACTS = frozenset(
    {
        "ClusterTrainingRuntime",
        "Config",
        "DaemonSet",
        "Namespace",
        "PodClique",
        "PodCliqueScalingGroup",
        "SchedulingShard",
        "TrainingRuntime",
        # Of Kueue, which copies the templates of a job.
        "Workload",
    }
)
# API groups of Kubernetes without the suffix k8s.io whose kinds have no pods, with a few exceptions.
_WITHOUT_PODS = frozenset({"", "autoscaling", "policy"})
# Values of a chart, which are no pod templates.
_OF_CHARTS = frozenset({"values", "valuesObject"})
# The keys of what rules read: names, queues, schedulers, numbers of pods, amounts, and choices of a workload's shape.
_READ = re.compile(
    r"(?:\w*[a-z])?(?:[nN]ames?|[nN]amespaces?|[qQ]ueue|[sS]cheduler|[cC]lass|[pP]olicy|[mM]ode|[pP]riority|[rR]eplicas"
    r"|[cC]ount|[sS]ize|[mM]embers?|[aA]vailable|[pP]arallelism|[tT]opology|[dD]omain|[tT]opologyKey)"
    r"|apiVersion|kind|type|suspend|enabled|managedBy|completions|instances|numNodes|numProcPerNode|numOfHosts"
    r"|slotsPerWorker|highestTierAllowed|dependsOn|startsAfter|required|preferred|cores|memory|memoryOverhead|coreLimit"
    r"|coreRequest"
)
# Labels and annotations that the shapes of workloads read.
_OF_SHAPES = frozenset(
    {
        "nvidia.com/enable-grove",
        "nvidia.com/kai-scheduler-queue",
        "nvidia.com/volcano-queue",
        "ray.io/gang-scheduling-enabled",
    }
)
# Annotations with the reason of a person, which is any text.
_REASONS = frozenset({"rollcall.dev/exempt", "rollcall.dev/ignore"})
# What holds amounts, and what chooses nodes: rules read every text in it.
_READ_WITHIN = frozenset(
    {
        "affinity",
        "capability",
        "capacity",
        "deserved",
        "guarantee",
        "limits",
        "max",
        "min",
        "minResources",
        "nodeSelector",
        "quota",
        "requests",
        "resources",
        "resourcesPerNode",
        "tolerations",
        "topologySpreadConstraints",
    }
)


def omission_of_object(kind: Kind, raw: Manifest, settings: Settings) -> Omission:
    """Returns why an object is not judged that is of no kind with rules."""
    if not kind.kind:
        if len(raw) <= _MOST_KEYS and any(str(key).lower() in _FAILURES and isinstance(raw[key], str) for key in raw):
            why = "it has neither apiVersion nor kind, but an error: the command that wrote it has probably failed"
            return Omission(ROOT, OmissionReason.NO_MANIFEST, why, "correct the command")
        why = "it has no kind, so it is no object"
        return Omission(ROOT, OmissionReason.NO_OBJECT, why, "give the file of a manifest with apiVersion and kind")
    if (scheduler := _scheduler_of_groups().get(kind[::2])) is not None and kind.kind == GROUP:
        why = f"only {scheduler} reads it, which has no profile here"
        remedy = f"add the profile {scheduler} to the configuration"
        return Omission(ROOT / "apiVersion", OmissionReason.NO_PROFILE, why, remedy)
    if kind[::2] in _kinds_of_kubernetes() - settings.judging.keys():
        why = f"the profile of {DEFAULT_SCHEDULER} has no gangScheduling here, so its gangs are not judged"
        remedy = f"turn on gangScheduling in the profile of {DEFAULT_SCHEDULER}"
        return Omission(ROOT / "apiVersion", OmissionReason.NO_PROFILE, why, remedy)
    marks = () if kind.kind in _FACTS else _marks(raw, settings)
    # Tools add a label to every object.
    mark = next((mark for mark in marks if mark[0] != LABELS / SCHEDULER_LABEL or _may_have_pods(kind)), None)
    if mark is None and settings.forced is not None and kind[::2] in OTHER_WORKLOADS.keys() - NO_GANGS:
        # As if it had the label.
        mark = LABELS / SCHEDULER_LABEL, settings.forced
    if mark is None:
        remedy = "give the manifests of a workload, or of a gang object"
        return Omission(ROOT / "kind", OmissionReason.NO_RULES, f"no rule is about the kind {shown(kind.kind)}", remedy)
    at, name = mark
    why = f"it asks for {shown(name)}, and no rule is about the kind {shown(kind.kind)}, so its pods are no gang"
    remedy = "declare its kind by a WorkloadShape (`rollcall shapes init KIND --from-crd FILE` drafts one)"
    if at.parts[-1] == SCHEDULER_LABEL:
        remedy = OTHER_WORKLOADS.get(kind[::2], remedy)
    if kind[::2] == ("batch", "CronJob"):
        why = f"it asks for {shown(name)}, but its Jobs are not opted in, so its pods are no gang"
    if kind.kind == "CronJob" and at.parts[-1] != SCHEDULER_LABEL:
        label = f"{SCHEDULER_LABEL}: {name}"
        remedy = f"add the label {label} to spec.jobTemplate.metadata.labels, which makes each Job a gang"
    return Omission(at, OmissionReason.UNKNOWN_KIND, why, remedy)


def _may_have_pods(kind: Kind) -> bool:
    """Returns whether objects of a kind may have pods: most kinds of Kubernetes itself, such as Services, have none."""
    of_kubernetes = kind.group in _WITHOUT_PODS or kind.group.endswith(".k8s.io")
    return not of_kubernetes or (kind[::2] in NO_GANGS and kind.kind != "Node") or kind.kind == "PodTemplate"


@cache
def _scheduler_of_groups() -> Mapping[tuple[str, str], str]:
    """Returns the scheduler that reads each kind of PodGroup, of all that are installed."""
    backends = ((name, backend(backend.settings_model())) for name, backend in installed_backends().items())
    return {judged[:2]: name for name, backend in backends for judged in backend.judged_in_files}


@cache
def _kinds_of_kubernetes() -> frozenset[tuple[str, str]]:
    """Returns the kinds of Kubernetes' own gangs, which are judged only if its profile has gangs."""
    rules = installed_backends()[DEFAULT_SCHEDULER].rules
    return frozenset(judged[:2] for declared in rules for judged in declared.kinds)


def _marks(raw: Manifest, settings: Settings) -> Iterator[tuple[FieldPath, str]]:
    """Yields where an object asks for a gang scheduler: by the label, or in a pod template by its name."""
    schedulers = {*settings.profiles, *installed_backends()} - {DEFAULT_SCHEDULER, OPTED_OUT}
    for place, value in _texts({part: raw.get(part) for part in ("metadata", "spec", "template")}, _OF_CHARTS):
        above, key = place
        is_label = key == SCHEDULER_LABEL and above is not None and above[1] == "labels"
        if (is_label and value != OPTED_OUT) or (key == "schedulerName" and value in schedulers):
            yield _path(place), value


def drop_placeholders(verdict: Verdict, raw: Manifest) -> Verdict:
    """Returns the verdict on an object without what was found of its placeholders. An object with one is not judged:
    its values are not yet known. What is wrong with the name of a field stays.
    """
    kept, reported = list[Finding](), list[FieldPath]()
    for finding in verdict.findings:
        if is_unrendered(finding.value) and not finding.rule.startswith(_OF_KEYS):
            reported.append(finding.at)
        else:
            kept.append(finding)
    places = {str(at): at for at in reported}
    for place, value in _texts(raw, _TEXTS):
        if is_unrendered(value) and _is_read(place):
            at = _path(place)
            places.setdefault(str(at), at)
    if not places:
        return verdict
    first = list(places.values())[:_MOST_NAMED]
    placeholders = [f"{shown(value_at(raw, at)[1])} at {at}" for at in first]
    if len(places) > len(first):
        placeholders.append(f"{len(places) - len(first)} more")
    are = "are placeholders that nothing has" if len(placeholders) > 1 else "is a placeholder that nothing has"
    why = f"{sentence_list(placeholders)} {are} replaced"
    allowed = not any(finding.action is Action.DENY for finding in kept)
    omission = Omission(first[0], OmissionReason.NOT_RENDERED, why, _RENDER)
    return replace(verdict, allowed=allowed, findings=tuple(kept), omission=omission)


def _is_read(place: _Place) -> bool:
    """Returns whether a rule may read the text at a place. What a program fills at run time stands elsewhere."""
    names: list[str] = []
    at: _Place | None = place
    while at is not None:
        at, key = at
        if not isinstance(key, int):
            names.append(str(key))
    if len(names) > 1 and names[1] in {"labels", "annotations"}:
        return (names[0] in KNOWN_KEYS or names[0] in _OF_SHAPES) and names[0] not in _REASONS
    return _READ.fullmatch(names[0]) is not None or not _READ_WITHIN.isdisjoint(names)


# The place of a value: that of what holds it, if that is not the object, and its key or index. A path for each of many
# values would take long.
_Place = tuple["_Place | None", Any]


def _texts(raw: Any, besides: frozenset[str] = frozenset()) -> Iterator[tuple[_Place, str]]:
    """Yields each text in an object, with its place, except below the keys `besides`."""
    waiting: list[tuple[_Place | None, Any]] = [(None, raw)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((place, key), value[key]) for key in reversed(value) if key not in besides]
        elif isinstance(value, list):
            waiting += [((place, index), value[index]) for index in reversed(range(len(value)))]
        elif isinstance(value, str) and place is not None:
            yield place, value


def _path(place: _Place | None) -> FieldPath:
    parts: list[str | Item] = []
    while place is not None:
        place, key = place
        parts.append(Item(key) if isinstance(key, int) else str(key))
    return FieldPath(tuple(reversed(parts)))
