"""The number of pods that name each group in some files, from pods and from objects that make pods from a template;
and the PodGroups of other authors with the sizes of the workloads that own them.

A group's number is unknown if an object names it whose number of pods the files do not say: a DaemonSet, a controller
with an autoscaler, or a kind that is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from webhook.model import claims, grove
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL
from webhook.model.keys import ObjectKey
from webhook.model.known_kinds import DEFAULT_SCHEDULER
from webhook.model.projections import key_of
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.offline.judgement import kind_of
from webhook.workloads import shaped_workload
from webhook.workloads.shaped_workload import KIND as POD_GROUP
from webhook.workloads.workload_kinds import REPLICATED, WorkloadKinds


def operator_groups(manifests: Iterable[Manifest]) -> tuple[shaped_workload.OperatorGroup, ...]:
    """Returns the readable PodGroups that Rollcall did not write. Of two versions of one the last counts."""
    groups: dict[shaped_workload.WorkloadKey, shaped_workload.OperatorGroup] = {}
    for manifest in manifests:
        group, _, kind = kind_of(manifest)
        if kind == shaped_workload.KIND and group in shaped_workload.MINIMUMS:
            try:
                operator_group = shaped_workload.OperatorGroup(manifest, group)
            except Malformed:
                continue
            if operator_group.is_foreign:
                groups[operator_group.key] = operator_group
    return tuple(groups.values())


def sizes_of_owners(
    groups: Collection[shaped_workload.OperatorGroup], manifests: Iterable[Manifest], kinds: WorkloadKinds
) -> dict[shaped_workload.WorkloadKey, shaped_workload.GangSize]:
    """Returns the size of each readable workload of a declared kind that owns one of the PodGroups."""
    # Groups that are no gangs count, too: they have a part of the pods.
    owned = Counter(key for group in groups for key in dict(group.owners))
    workloads: dict[shaped_workload.WorkloadKey, shaped_workload.ShapedWorkload] = {}
    differing: set[shaped_workload.WorkloadKey] = set()
    for manifest in manifests if owned else ():
        view = kinds.views.get(kind_of(manifest)[::2])
        if view is not None and issubclass(view, shaped_workload.ShapedWorkload):
            try:
                workload = view(manifest)
                workload.read()
            except Malformed:
                continue
            key = shaped_workload.key_of_workload(workload)
            if workloads.setdefault(key, workload).raw != manifest:
                differing.add(key)
    sizes = shaped_workload.gang_sizes(workloads.values(), owned)
    return {key: size for key, size in sizes.items() if key not in differing}


# The system of a group as `webhook.model.claims` names it, the group's namespace, and its name.
Group = tuple[str, str, str]
Sizes = dict[Group, int | None]
_HOLDERS = frozenset({"labels", "annotations"})


def group_sizes(manifests: Iterable[Manifest], kinds: WorkloadKinds, differing: list[Manifest] | None = None) -> Sizes:
    """Returns the number of pods of each group that an object names; None for an unknown number. `differing` is filled
    with objects of which another version has other numbers.
    """
    by_object: dict[Hashable, Sizes] = {}
    scaled: set[Hashable] = set()
    for manifest in manifests:
        try:
            identity, groups = _identity(manifest), _groups_of(manifest, kinds)
            scaled |= set(_scaled_by(manifest))
        except Malformed:
            # The API server refuses such an object. Which groups it would name is unknown.
            identity, groups = object(), _mentioned(manifest)
        # Without a name each object is separate. Which of two versions of an object there will be is unknown.
        other = by_object.setdefault(identity, groups)
        if other != groups:
            by_object[identity] = dict.fromkeys({**other, **groups})
            if differing is not None:
                differing.append(manifest)
    sizes: Sizes = {}
    for identity, groups in by_object.items():
        for group, pods in groups.items():
            before = sizes.get(group, 0)
            sizes[group] = None if pods is None or before is None or identity in scaled else before + pods
    return sizes


def _identity(manifest: Manifest) -> Hashable:
    kind = kind_of(manifest)
    name = text(mapping(manifest.get("metadata")).get("name"))
    return object() if name is None else (kind.group, kind.kind, *key_of(manifest))


def _groups_of(manifest: Manifest, kinds: WorkloadKinds) -> Sizes:
    group, _, kind = kind_of(manifest)
    namespace = text(mapping(manifest.get("metadata")).get("namespace")) or "default"
    counted: Counter[Group] = Counter()
    # How many gangs a PodCliqueSet makes is not read here.
    counted_kind = kind != "PodCliqueSet"
    for template, pods in kinds.templates_in(group, kind, manifest) if counted_kind else ():
        # Two marks of one system may name one group.
        for system, name in {(group_name.system, group_name.name) for group_name in claims.groups_in_pod(template)}:
            counted[(system, namespace, name)] += pods
    # A name elsewhere in the object, such as in a custom resource: how many pods have it is unknown.
    return {**_mentioned(manifest), **counted}


def _mentioned(manifest: Manifest) -> Sizes:
    """Returns every group named anywhere in an object, with an unknown number of pods. A label is no mention if the key
    is read only as an annotation, and the other way round.
    """
    sizes: Sizes = {}
    waiting: list[tuple[str, Any]] = [("", manifest)]
    while waiting:
        holder, value = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                name = claims.group_in_mark(str(key), inner)
                if name is not None and (holder not in _HOLDERS or holder == claims.PART_OF_MARK[key]):
                    sizes[(claims.NAMES_OF[key], _namespace(manifest), name)] = None
            waiting += ((str(key), inner) for key, inner in value.items())
        elif isinstance(value, list):
            waiting += (("", inner) for inner in value)
    return sizes


def _namespace(manifest: Manifest) -> str:
    metadata = manifest.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) and namespace else "default"


def file_groups(
    manifests: Iterable[Manifest], sizes: Sizes, kinds: WorkloadKinds
) -> dict[tuple[str, str], dict[str, bool]]:
    """Returns the PodGroups that the objects define, by system and namespace, and whether no pod names it although pods
    beside it name no group of its system. PodGroups that a controller or Rollcall made are not said to lack pods.
    """
    groups: dict[Group, bool] = {}
    ungrouped: set[tuple[str, str]] = set()
    for manifest in manifests:
        group, _, kind = kind_of(manifest)
        with suppress(Malformed):
            metadata = mapping(manifest.get("metadata"))
            labels = mapping(metadata.get("labels"))
            if kind == POD_GROUP and (system := claims.SYSTEM_OF_GROUP.get(group)) is not None:
                is_made = metadata.get("ownerReferences") or labels.get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
                groups[(system, *key_of(manifest))] = not is_made
            elif SCHEDULER_LABEL not in labels and kind != "PodCliqueSet":
                systems = _ungrouped_systems(group, kind, manifest, kinds)
                ungrouped.update((system, _namespace(manifest)) for system in systems)
    by_namespace: dict[tuple[str, str], dict[str, bool]] = {}
    for key, foreign in groups.items():
        by_namespace.setdefault(key[:2], {})[key[2]] = foreign and key not in sizes and key[:2] in ungrouped
    return by_namespace


def pods_gangs(manifests: Iterable[Manifest], kinds: WorkloadKinds) -> dict[ObjectKey, int | None]:
    """Returns the minimum of each gang that pods describe without a PodGroup; None if they state different ones."""
    minimums: dict[ObjectKey, set[int]] = {}
    for manifest in manifests:
        group, _, kind = kind_of(manifest)
        with suppress(Malformed):
            for template, _ in kinds.templates_in(group, kind, manifest):
                gang = claims.pods_gang(template)
                if gang is not None and gang.minimum is not None:
                    minimums.setdefault((_namespace(manifest), gang.name), set()).add(gang.minimum)
    return {key: next(iter(stated)) if len(stated) == 1 else None for key, stated in minimums.items()}


def _ungrouped_systems(group: str, kind: str, manifest: Manifest, kinds: WorkloadKinds) -> Iterator[str]:
    """Yields the system of each pod template that names no group of its own scheduler. Raises `Malformed`."""
    # Every pod that names no scheduler is default-scheduler's, and most objects make no gangs of PodGroups.
    plain = (group, kind) in REPLICATED | {("", "Pod"), ("batch", "Job")}
    for template, _ in kinds.templates_in(group, kind, manifest):
        system = claims.SYSTEM_OF_SCHEDULER.get(claims.scheduler_of(template))
        may_lack = plain or system != claims.SYSTEM_OF_SCHEDULER[DEFAULT_SCHEDULER]
        if (
            system is not None
            and may_lack
            and all(group_name.system != system for group_name in claims.groups_in_pod(template))
        ):
            yield system


def _scaled_by(manifest: Manifest) -> Iterator[Hashable]:
    """Yields the controller whose number of pods an autoscaler sets."""
    target = mapping(manifest.get("spec")).get("scaleTargetRef")
    if isinstance(target, dict):
        of_target = {"apiVersion": target.get("apiVersion"), "kind": target.get("kind")}
        kind, name = kind_of(of_target), text(target.get("name"))
        namespace = text(mapping(manifest.get("metadata")).get("namespace")) or "default"
        yield kind.group, kind.kind, namespace, name
