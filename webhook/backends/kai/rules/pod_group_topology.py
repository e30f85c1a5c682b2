"""The topology of PodGroups of other authors, which KAI's own webhook does not check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.kai.keys import WHOLE
from webhook.backends.kai.rules.examples import pod_group, subgroup
from webhook.backends.kai.rules.pod_group import pod_group_rule
from webhook.backends.kai.settings import RuleContext
from webhook.backends.kai.subgroups import Tree
from webhook.backends.queue_tree import offered
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.known_objects import KaiLevels
from webhook.model.reading import text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results

_RACKS = ClusterFacts(kai_topologies={"dc": KaiLevels(("example.com/zone", "example.com/rack"), {})})


def _near(topology: str | None = "dc", **levels: str) -> dict[str, str]:
    return levels if topology is None else {"topology": topology, **levels}


@pod_group_rule(
    "kai/group-topology",
    passes=Example(
        pod_group(
            subgroup("decode", 4, topologyConstraint=_near(requiredTopologyLevel="example.com/rack")),
            topologyConstraint=_near(requiredTopologyLevel="example.com/zone"),
        ),
        facts=_RACKS,
    ),
    fails=Example(pod_group(topologyConstraint=_near(requiredTopologyLevel="rack")), facts=_RACKS),
)
def group_topology(found: StoredObject, context: RuleContext) -> Results:
    """kai-scheduler never starts a PodGroup whose level is not in the Topology, or that names no level, or whose
    preferred level is broader than the required one. It reports only "unable to schedule". A Topology that does not
    exist also blocks the PodGroup.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/topology; seen with v0.16.8.
    """
    known = context.facts.kai_topologies
    instead = offered(sorted(known or ()))
    for constraint, path in _constraints(found):
        name = text(constraint.get("topology"))
        if name is None:
            continue
        if known is None:
            yield Unjudged(path, "the KAI Topologies", part="kai_topologies")
        elif (levels := known.get(name)) is None:
            yield Finding(
                at=path / "topology",
                found=name,
                why="the cluster has no such Topology, so kai-scheduler would never start the gang",
                remedy="name a Topology that exists, or create it first",
                absent=Needed("kai_topologies", name),
                instead=instead,
            )
        else:
            yield from _judge_levels(constraint, path, levels)


@pod_group_rule(
    "kai/group-topology-unnamed",
    passes=Example(pod_group(topologyConstraint=_near(requiredTopologyLevel="example.com/rack")), facts=_RACKS),
    fails=Example(pod_group(topologyConstraint=_near(None, requiredTopologyLevel="example.com/rack"))),
)
def group_topology_unnamed(found: StoredObject, _: RuleContext) -> Results:
    """kai-scheduler ignores a constraint that names no Topology, and the gang starts on any nodes.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go; seen with v0.16.8.
    """
    for constraint, path in _constraints(found):
        for field in ("requiredTopologyLevel", "preferredTopologyLevel"):
            if (level := text(constraint.get(field))) is not None and text(constraint.get("topology")) is None:
                yield Finding(
                    at=path / field,
                    found=level,
                    why="kai-scheduler ignores a constraint that names no Topology",
                    remedy="set topology in the same constraint",
                )


def _constraints(found: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """The PodGroup's own constraint and those of its subgroups."""
    tree = Tree(found.spec)
    for group in (tree.root, *tree.by_name.values()):
        if group.topology is not None:
            yield group.topology, group.path / "topologyConstraint"


def _judge_levels(constraint: Mapping[str, Any], path: FieldPath, levels: tuple[str, ...]) -> Results:
    """Checks that the levels of a constraint are levels of its Topology, by key or by alias."""
    aliases = levels.aliases if isinstance(levels, KaiLevels) else {}
    places: dict[str, int] = {}
    unknown = False
    for field in ("requiredTopologyLevel", "preferredTopologyLevel"):
        level = text(constraint.get(field))
        if level is None:
            continue
        key = aliases.get(level, level)
        if key not in (WHOLE, *levels):
            yield Finding(
                at=path / field,
                found=level,
                why="the Topology has no such level: kai-scheduler would never start the gang, without reporting why",
                remedy="name one of its levels by its node label key",
                instead=offered(levels),
            )
            unknown = True
        else:
            places[field] = -1 if key == WHOLE else levels.index(key)
    if unknown:
        return
    if not places:
        why = "the constraint has no required and no preferred level, and kai-scheduler never starts such a gang"
        yield Finding(
            at=path / "topology", found=constraint.get("topology"), why=why, remedy="set a required or preferred level"
        )
    elif places.get("preferredTopologyLevel", len(levels)) < places.get("requiredTopologyLevel", -1):
        yield Finding(
            at=path / "preferredTopologyLevel",
            found=constraint.get("preferredTopologyLevel"),
            why="it is broader than the required level, and kai-scheduler treats it as an unknown level",
            remedy="prefer a narrower level, or remove the preference",
        )
