"""Rules about the topology of a PodCliqueSet, as Grove's own webhook and CRD refuse it: a constraint that Grove cannot
resolve would never become a constraint of pods. A file on the command line has no such check.

Source of all: ai-dynamo/grove, operator/internal/webhook/admission/pcs/validation and the CRDs of grove.io/v1alpha1
(2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.any_object import AnyObject
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath, Item, KindFields, NearMisses
from webhook.model.findings import Finding, Unjudged, shown
from webhook.model.grove import ClusterTopologyBinding
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import TopologyBinding
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.validators.wrong_types import METADATA, type_findings
from webhook.workloads.pod_clique_set import PodCliqueSet, Topology

_TEMPLATE = SPEC / "template"
_TOPOLOGY = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_SCALING_GROUP,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_PREFERRED,
)
_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": "example.com/block", "rack": "example.com/rack"})}
)
# Names that a message offers, and names that a wrong one is compared with.
_OFFERED, _COMPARED = 8, 64
_DOMAIN = re.compile(r"[a-z][a-z0-9-]{0,62}")


class _Place(NamedTuple):
    """A constraint of a set, the ClusterTopologyBinding that it gets by itself or from above (None if it gets none),
    and the constraints above it, nearest first.
    """

    topology: Topology
    binding: str | None
    above: tuple[Topology, ...] = ()


def _places(workload: PodCliqueSet) -> Iterator[_Place]:
    """Yields the constraints of a set, from the set to its cliques, with what each inherits."""
    whole = workload.topology
    of_set = None if whole is None else whole.name
    around = () if whole is None else (whole,)
    if whole is not None:
        yield _Place(whole, of_set)
    groups: dict[int, _Place] = {}
    for group in workload.scaling_groups:
        if (topology := group.topology) is not None:
            groups[group.index] = _Place(topology, topology.name or of_set, around)
            yield groups[group.index]
    for member in workload.cliques:
        if (topology := member.topology) is not None:
            group_place = None if member.group is None else groups.get(member.group.index)
            inherited = of_set if group_place is None else group_place.binding or of_set
            above = around if group_place is None else (group_place.topology, *around)
            yield _Place(topology, topology.name or inherited, above)


@rule(
    "grove/topology-name",
    capability=_TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack"))),
    fails=Example(pod_clique_set(topologyConstraint={"pack": {"required": "rack"}})),
)
def topology_name(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Grove refuses a constraint without the name of a ClusterTopologyBinding, unless the set or the scaling group
    names one, and constraints that name several. Without a name the domain means nothing, so the gang would be placed
    anywhere.

    Source: Grove's own validation of topologyConstraint.topologyName (v0.1.0-alpha.9 on).
    """
    named_first: Topology | None = None
    for topology, binding, _ in _places(workload):
        at = topology.path / "topologyName"
        # Up to v0.1.0-alpha.8 there were no names. Later releases refuse a new set for its packDomain, and let a stored
        # one be.
        is_old = topology.required_path.parts[-1] == "packDomain" and topology.preferred is None
        if binding is None and not is_old:
            offered = tuple(islice(context.facts.topology_bindings or (), _OFFERED))
            examples = f" ({', '.join(offered)})" if offered else ""
            why = "it names no ClusterTopologyBinding and inherits none, and Grove refuses the set"
            remedy = f"name the one whose domain it is{examples}, here or for the whole set"
            yield Finding(at, None, why, remedy, instead=offered if len(offered) == 1 else ())
        elif binding is not None and topology.name is not None:
            named_first = named_first or topology
            if topology.name != named_first.name:
                why = f"{named_first.path} names {shown(named_first.name)}, and Grove allows one name in a set"
                remedy = "name one ClusterTopologyBinding in all, with a domain that it has"
                yield Finding(at, topology.name, why, remedy, instead=(named_first.name,))


@rule(
    "grove/topology-domain",
    capability=_TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=required("row")), facts=_FACTS),
)
def topology_domain(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Grove refuses a new set whose ClusterTopologyBinding does not exist or lacks a domain. Of a stored set Grove's
    operator drops the constraint without an error, and the gang is placed anywhere.

    Source: Grove's own validation of topologyConstraint; operator/internal/controller/podcliqueset/components/podgang.
    """
    bindings, name = context.facts.topology_bindings or {}, workload.topology_name()
    if name is None:
        return
    # If the names differ, `grove/topology-name` says so.
    constraints = [place.topology for place in _places(workload) if place.binding == name]
    at = constraints[0].path / "topologyName"
    binding = bindings.get(name)
    if binding is None and not context.facts.is_whole("topology_bindings"):
        yield Unjudged(at, "the ClusterTopologyBinding", part="topology_bindings")
        return
    absent, near = Needed("topology_bindings", name), NearMisses()
    if binding is None:
        likely = near.likely(name, islice(bindings, _COMPARED))
        why = "no ClusterTopologyBinding has that name, and Grove refuses a new set that names it"
        remedy = f"{_did_you_mean(likely)}name one that exists, or create it"
        yield Finding(at, name, why, remedy, absent=absent, instead=() if likely is None else (likely,))
        return
    levels = ", ".join(islice(binding.keys, _OFFERED)) or "its levels, of which it has none"
    for constraint in constraints:
        for domain, path in (
            (constraint.required, constraint.required_path),
            (constraint.preferred, constraint.preferred_path),
        ):
            if domain is not None and domain not in binding.keys:
                likely = near.likely(domain, islice(binding.keys, _COMPARED))
                why = f"the ClusterTopologyBinding {shown(name)} has no such domain, and Grove refuses a new set"
                remedy = f"{_did_you_mean(likely)}use one of {levels}"
                yield Finding(path, domain, why, remedy, absent=absent, instead=() if likely is None else (likely,))


def _did_you_mean(likely: str | None) -> str:
    return "" if likely is None else f"did you mean {likely}? "


@rule(
    "grove/topology-hierarchy",
    capability=_TOPOLOGY,
    passes=Example(
        pod_clique_set(clique("worker", topologyConstraint=required("rack")), topologyConstraint=required("block")),
        facts=_FACTS,
    ),
    fails=Example(
        pod_clique_set(clique("worker", topologyConstraint=required("block")), topologyConstraint=required("rack")),
        facts=_FACTS,
    ),
)
def topology_hierarchy(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Grove refuses a new set in which a clique or a scaling group requires, or prefers, a wider domain than what is
    above it: the narrower one holds for all below it, so the wider one means nothing.

    Source: Grove's own validation of topologyConstraint (hierarchy), which compares required with required and
    preferred with preferred.
    """
    name = workload.topology_name()
    binding = (context.facts.topology_bindings or {}).get(name or "")
    if binding is None or name is None:
        return
    levels = {domain: level for level, domain in enumerate(binding.keys)}
    needed = Needed("topology_bindings", name)
    for topology, binding_name, above in _places(workload):
        # If the names differ, `grove/topology-name` says so.
        parents = [parent for parent in above if binding_name == name and parent.name in {None, name}]
        needs = [(parent.required, parent.required_path) for parent in parents]
        yield from _wider(needs, (topology.required, topology.required_path), levels, needed)
        wishes = [(parent.preferred, parent.preferred_path) for parent in parents]
        yield from _wider(wishes, (topology.preferred, topology.preferred_path), levels, needed)


_Domain = tuple[str | None, FieldPath]


def _wider(parents: Iterable[_Domain], child: _Domain, levels: Mapping[str, int], binding: Needed) -> Results:
    domain, at = child
    level = levels.get(domain or "")
    for above, place in parents:
        if level is not None and levels.get(above or "", -1) > level:
            why = f"it is wider than {above} at {place}, and Grove refuses the set"
            yield Finding(at, domain, why, f"use {above} or a narrower domain", absent=binding, instead=(above,))
            return


def _constraints(workload: PodCliqueSet) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """Yields the constraints of a set as they are written. Raises `Malformed`."""
    holders = [(workload.template, _TEMPLATE)]
    holders += [(group.raw, group.path) for group in workload.scaling_groups]
    holders += [(member.raw, member.path) for member in workload.cliques]
    for holder, path in holders:
        if (constraint := holder.get("topologyConstraint")) is not None:
            yield mapping(constraint), path / "topologyConstraint"


@rule(
    "grove/topology-pack",
    looks_at=("topologyConstraint",),
    passes=Example(pod_clique_set(topologyConstraint=required("rack"))),
    fails=Example(pod_clique_set(topologyConstraint={"topologyName": "dc"})),
)
def topology_pack(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """The API server refuses a topologyConstraint without a domain, with two required domains, or with a domain that no
    level can have.

    Source: the CRD of grove.io/v1alpha1 (validations and patterns of topologyConstraint). A file on the command line
    has no such check.
    """
    for constraint, path in _constraints(workload):
        pack, legacy = constraint.get("pack"), constraint.get("packDomain")
        domains = mapping(pack)
        if (pack is None and legacy is None) or (
            pack is not None and domains.get("required") is None and domains.get("preferred") is None
        ):
            why = "the API server refuses a topologyConstraint that names no domain"
            yield Finding(path / "pack", pack, why, "set pack.required or pack.preferred")
        if legacy is not None and domains.get("required") is not None:
            why = "the API server refuses pack.required beside packDomain, its older spelling"
            yield Finding(path / "packDomain", legacy, why, "remove packDomain")
        written = [(path / "packDomain", legacy)]
        written += [(path / "pack" / key, domains.get(key)) for key in ("required", "preferred")]
        for at, value in written:
            if value is not None and not _DOMAIN.fullmatch(text(value) or ""):
                why = "a domain has a-z, 0-9 and -, begins with a letter, and has at most 63 characters"
                yield Finding(at, value, why, "name a domain of the ClusterTopologyBinding")


_SET = Api(grove.GROUP, "v1alpha1", PodCliqueSet.kind)
_FIELDS = ClusterFacts(field_names={_SET: KindFields({"pack": None, "packDomain": None}, "Grove v0.1.0-alpha.12-rc1")})


@rule(
    "grove/pack-domain",
    capability=_TOPOLOGY,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FIELDS),
    fails=Example(pod_clique_set(topologyConstraint={"topologyName": "dc", "packDomain": "rack"}), facts=_FIELDS),
)
def pack_domain(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """The API server refuses `packDomain` in a new set. A set that has been stored keeps it, and in releases before
    v0.1.0-alpha.10, whose CRD has no `pack`, it is right. Judged only in files, where the fields of the CRD are known:
    what an API server sends to a webhook has passed its CRD.

    Source: the CRD of grove.io/v1alpha1 (validations of PodCliqueSet).
    """
    fields = (context.facts.field_names or {}).get(_SET)
    stored = context.is_update or mapping(workload.raw.get("metadata")).get("uid") is not None
    if fields is None or "pack" not in fields.places or stored:
        return
    for topology, _, _ in _places(workload):
        if topology.required_path.parts[-1] == "packDomain":
            why = "the API server refuses this older spelling of pack.required in a new set"
            yield Finding(topology.required_path, topology.required, why, "move the domain to pack.required")


def _binding(*levels: tuple[str, str]) -> Manifest:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "dc"},
        "spec": {"levels": [{"domain": domain, "key": key} for domain, key in levels]},
    }


_BINDING_SHAPE = {
    "metadata": METADATA,
    "spec": {
        "levels": [{"domain": str, "key": str}],
        "schedulerTopologyBindings": [{"schedulerName": str, "topologyReference": str}],
    },
}


@rule(
    "grove/topology-levels",
    subject=Subject.MANIFEST,
    passes=Example(_binding(("block", "example.com/block"), ("rack", "example.com/rack"))),
    fails=Example(_binding(("rack", "example.com/block"), ("rack", "example.com/rack"))),
)
def topology_levels(manifest: AnyObject, _: Context[Any]) -> Results:
    """Grove refuses a ClusterTopologyBinding without levels, with a level without domain or key, or with a domain, a
    node label key or a scheduler twice. What PodCliqueSets in the same files require of it would mean nothing.

    Source: ai-dynamo/grove, operator/internal/webhook/admission/clustertopology/validation; the CRD of
    grove.io/v1alpha1.
    """
    if manifest.kind[::2] != (grove.GROUP, "ClusterTopologyBinding"):
        return
    try:
        levels = ClusterTopologyBinding(manifest.raw).levels
        schedulers = [
            (SPEC / "schedulerTopologyBindings" / Item(index) / "schedulerName", text(entry.get("schedulerName")))
            for index, entry in enumerate(
                map(mapping, sequence(mapping(manifest.raw.get("spec")).get("schedulerTopologyBindings")))
            )
        ]
    except Malformed:
        yield from type_findings(manifest.raw, _BINDING_SHAPE)
        return
    if not levels:
        yield Finding(SPEC / "levels", None, "Grove refuses a binding without levels", "list its levels, widest first")
    columns = [[(level.path / "domain", level.domain) for level in levels]]
    columns.append([(level.path / "key", level.key) for level in levels])
    for column in (*columns, schedulers):
        seen: set[str] = set()
        for at, value in column:
            if value is None:
                yield Finding(at, None, "Grove requires it", f"write the {at.parts[-1]}")
            elif value in seen:
                why = f"another entry has the same {at.parts[-1]}, and Grove refuses the ClusterTopologyBinding"
                yield Finding(at, value, why, "name each once")
            else:
                seen.add(value)
