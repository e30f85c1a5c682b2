"""PodGroups of other authors, and the sizes of the workloads that own them, from manifests, without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.operator_group import KIND, MINIMUMS, OperatorGroup
from webhook.model.workloads.shapes.gang_size import GangSize, WorkloadKey, gang_sizes, key_of_workload
from webhook.model.workloads.shapes.kinds import WorkloadKinds
from webhook.model.workloads.shapes.workload import ShapedWorkload
from webhook.offline.judgement import kind_of


def operator_groups(manifests: Iterable[Manifest]) -> tuple[OperatorGroup, ...]:
    """Return the PodGroups that Rollcall did not write and that can be read. Of two versions of one the last counts."""
    found: dict[WorkloadKey, OperatorGroup] = {}
    for manifest in manifests:
        group, _, kind = kind_of(manifest)
        if kind == KIND and group in MINIMUMS:
            try:
                one = OperatorGroup(manifest, group)
            except Malformed:
                continue
            if one.is_foreign:
                found[one.key] = one
    return tuple(found.values())


def sizes_of_owners(
    groups: Collection[OperatorGroup], manifests: Iterable[Manifest], kinds: WorkloadKinds
) -> dict[WorkloadKey, GangSize]:
    """Return the size of each workload of a declared kind that owns one of the PodGroups. A workload that cannot be
    read is left out: rules about its own kind report it.
    """
    # Groups that are no gangs count, too: they have a part of the pods.
    owned = Counter(key for group in groups for key in dict(group.owners))
    workloads: dict[WorkloadKey, ShapedWorkload] = {}
    differing: set[WorkloadKey] = set()
    for manifest in manifests if owned else ():
        view = kinds.views.get(kind_of(manifest)[::2])
        if view is not None and issubclass(view, ShapedWorkload):
            try:
                found = view(manifest)
                found.read()
            except Malformed:
                continue
            key = key_of_workload(found)
            if workloads.setdefault(key, found).raw != manifest:
                differing.add(key)
    sizes = gang_sizes(workloads.values(), owned)
    return {key: size for key, size in sizes.items() if key not in differing}
