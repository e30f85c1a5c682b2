"""What KAI places together: the minimum of every leaf, each set of leaves and the whole group in the domain that it
requires.

A domain is a path of label values from the broadest level of a Topology down, and a node must have the label of every
level of it. The groups of opted-in workloads are made by KAI's podgrouper, with minimums of their own (`podgrouper`).
Where podgrouper makes no group, or one that never starts, nothing is claimed.

Source: kai-scheduler/KAI-Scheduler v0.16.8, pkg/scheduler/plugins/topology, pkg/scheduler/api/podgroup_info;
pkg/podgrouper/podgrouper/plugins (v0.17.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.backends.inexpressible import NoTopology, UnknownTopology
from webhook.backends.kai.keys import ANNOTATION_MINIMUM
from webhook.backends.kai.podgrouper import TREES, annotations_of, first_parts, grouping_of, reads_pods, root_minimum
from webhook.backends.kai.topology import levels_of
from webhook.fit.packing import GroupNeed, Need, Packing, Partition, PodsNeed
from webhook.fit.roles import Roles, all_together, group_of
from webhook.fit.shape import GangShape, MemberShape
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.known_objects import KaiLevels
from webhook.model.reading import mapping, text
from webhook.model.version import Version
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.topology_request import KAI_REQUIRED, KAI_TOPOLOGY
from webhook.model.workloads.workload import Part

_ASSUMED = f"kai-scheduler is {TREES} or newer"
_UNKNOWN = "the level of the KAI Topology that the gang requires"
# Jobs of a JobSet that each need a domain of their own are listed up to this number.
_MOST_LISTED = 64
_MOST_DIGITS = 9
_MOST_FAULTS = 3
_IN_TURN = "KAI's group needs {} of the replicated Jobs at once, and {} have pods before another one ran"


def packing_of(shape: GangShape, roles: Roles, version: Version | None, facts: ClusterFacts) -> Packing:
    """Return what KAI places together of a gang."""
    domains = _Domains(facts)
    if shape.opted_in is not None:
        found = _grouped(shape, roles, version, domains)
    else:
        binding = shape.topology_name
        found = all_together(shape, roles, lambda key, at: domains.of_binding(binding, key, at))
    return replace(found, left_out=(*found.left_out, _UNKNOWN)) if domains.unknown else found


class _Domains:
    """How nodes fall into the domains of Topologies. `unknown` says whether a level was asked for that is not known."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self.unknown = False

    def of_binding(self, binding: str | None, key: str, at: FieldPath | None) -> Partition | None:
        """Return the domains of a level of the Topology for a ClusterTopologyBinding."""
        try:
            levels = () if binding is None else levels_of(binding, self._facts)
        except (NoTopology, UnknownTopology):
            levels = ()
        known = (self._facts.topology_bindings or {}).get(binding or "")
        names = {} if known is None else {level: domain for domain, level in known.keys.items()}
        return self._of(levels, key, at, names)

    def of_annotations(self, annotations: Mapping[str, Any], at: FieldPath | None = None) -> Partition | None:
        """Return the domains that annotations require; None if they require none. Without the name of a Topology KAI
        ignores a level.
        """
        level, topology = text(annotations.get(KAI_REQUIRED)), text(annotations.get(KAI_TOPOLOGY))
        if not level or not topology:
            return None
        levels = (self._facts.kai_topologies or {}).get(topology, ())
        aliases = levels.aliases if isinstance(levels, KaiLevels) else {}
        names = {label: alias for alias, label in aliases.items()}
        return self._of(levels, aliases.get(level, level), at, names)

    def _of(
        self, levels: tuple[str, ...], key: str, at: FieldPath | None, names: Mapping[str, str]
    ) -> Partition | None:
        """Return the domains of a level: nodes with the same values up to it, and with the label of every level.
        `names` are what people call the levels.
        """
        if key not in levels:
            self.unknown = True
            return None
        partition = None
        for place, level in enumerate(levels[: levels.index(key) + 1], start=1):
            named = names.get(level, level)
            partition = Partition(named, tuple(levels[:place]), at, wanted=tuple(levels), broader=partition)
        return partition


def _grouped(shape: GangShape, roles: Roles, version: Version | None, domains: _Domains) -> Packing:
    """Return what a group of podgrouper places together."""
    workload = None if shape.opted_in is None else shape.opted_in.workload
    within = domains.of_annotations({} if workload is None else annotations_of(workload))
    grouping = None if workload is None else grouping_of(workload, trees=version is None or version >= TREES)
    if grouping is not None and (faults := [*grouping.errors, *grouping.unreachable]):
        return Packing((), unknown=tuple(f"{fault.at}: {fault.why}" for fault in faults[:_MOST_FAULTS]))
    if isinstance(workload, JobSet):
        return _of_job_set(shape, workload, roles, version, domains)
    minimums = {} if grouping is None else grouping.minimums
    needs: list[Need] = []
    for member in shape.needed:
        part = next(iter(() if shape.opted_in is None else shape.opted_in.parts.get(member.part, ())), None)
        count = member.minimum if part is None else minimums.get(part.place, member.minimum)
        if part is not None and member.minimum < part.needed:
            # Kueue may start the workload with fewer pods.
            count = min(count, member.minimum)
        if count > 0:
            # Podgrouper reads the level of a leaf from Ray's templates.
            asked = member.template.annotations if workload is not None and reads_pods(workload) else {}
            needs.append(PodsNeed(roles.of(member), count, domains.of_annotations(asked)))
    found = _together(shape, needs, len(needs), within)
    return found if grouping is None else replace(found, left_out=(*found.left_out, *grouping.unsure))


def _of_job_set(
    shape: GangShape, workload: JobSet, roles: Roles, version: Version | None, domains: _Domains
) -> Packing:
    """Return what the group of a JobSet places together: of its replicated Jobs all, or as many as an annotation says;
    of each of these all Jobs, with the pods of each.
    """
    needed, first = root_minimum(workload), first_parts(workload)
    if (version is None or version >= TREES) and needed is not None and needed > first:
        return Packing((), unknown=(_IN_TURN.format(needed, first),))
    stated = _minimum(annotations_of(workload), None)
    left_out_members = _members_of(shape) - len(shape.needed)
    if version is not None and version < TREES:
        if left_out_members:
            # The pods count together, and any of them. So those that are left out may be enough.
            return Packing((), left_out=shape.left_out)
        if stated is None or stated <= 1 or len(workload.parts) != 1:
            needs: list[Need] = [PodsNeed(role, 1) for role in roles.values()]
            return _together(shape, needs, min(1, len(needs)), None)
        only = shape.needed[0]
        return _together(shape, [PodsNeed(roles.of(only), min(stated, only.minimum))], 1, None)
    whole = domains.of_annotations(annotations_of(workload))
    of_jobs = {part.name: mapping(workload.job_metadata(index)) for index, part in enumerate(workload.parts)}
    needs, left_out = [], False
    for member in shape.needed:
        part = _replicated_job(member, shape)
        # Without its replicated Job nothing is known but that there are pods.
        each = 1 if part is None else max(part.each, 1)
        annotations = {} if part is None else mapping(of_jobs.get(part.name, {}).get("annotations"))
        pods = min(_minimum(annotations, None) or each, each)
        jobs = 1 if part is None else member.minimum // each
        within = domains.of_annotations(annotations)
        if within is None or jobs > _MOST_LISTED:
            left_out = left_out or within is not None
            needs.append(PodsNeed(roles.of(member), jobs * pods))
        else:
            one = PodsNeed(roles.of(member), pods, within)
            needs.append(one if jobs == 1 else GroupNeed(member.name, (one,) * jobs, jobs))
    # Where some parts are enough, those that are left out may be among them.
    count = len(needs) if stated is None else max(min(stated - left_out_members, len(needs)), 0)
    found = _together(shape, needs, count, whole)
    found = replace(found, assumptions=() if version is not None else (_ASSUMED,))
    return replace(found, left_out=(*found.left_out, "the domain of each Job is not judged")) if left_out else found


def _members_of(shape: GangShape) -> int:
    """Return how many members of a gang of a JobSet have pods, also those that its shape leaves out."""
    return 0 if shape.opted_in is None else sum(member.min_replicas > 0 for member in shape.opted_in.members)


def _replicated_job(member: MemberShape, shape: GangShape) -> Part | None:
    """Return the replicated Job that a member's pods are of. Stored pods do not have its name as their role."""
    parts = () if shape.opted_in is None else shape.opted_in.parts.get(member.part, ())
    return next(iter(parts), None)


def _together(shape: GangShape, needs: list[Need], count: int, within: Partition | None) -> Packing:
    if not needs:
        return Packing((), left_out=shape.left_out)
    group = replace(group_of(shape.name, needs, within), count=count)
    return Packing((group,), left_out=shape.left_out)


def _minimum(annotations: Mapping[str, Any], default: int | None) -> int | None:
    """Return the minimum that annotations state; one pod if that cannot be read."""
    stated = text(annotations.get(ANNOTATION_MINIMUM))
    if stated is None:
        return default
    if not (stated.isascii() and stated.isdigit()) or len(stated) > _MOST_DIGITS:
        return 1
    return max(int(stated), 1)
