"""The packing: what one scheduler must place at one moment before it starts any pod of a gang, and the room for it.

A backend makes a packing of a `GangShape`. `Need` is a tree: pods of one role, all of several needs, or a number of
them; each may have to share one domain of a `Partition` of the nodes. `Room` is the nodes by class: nodes are of one
class if no role and no partition of the gang can tell them apart. `PodReading` says how one scheduler reads a pod
template; a flag is only on where the scheduler surely has that part of its arithmetic. `FitSettings` is the section
`fit` of the configuration. `growth_of` says whether the cluster may get other or more nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from webhook.fit import pod_needs
from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.resource_requests import OF_KUBERNETES, RequestRules, add_device_needs, requests_of
from webhook.fit.verdict import FitFamily, FitScope, FitVerdict, Witness
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.kueue import PROVISIONING
from webhook.model.nodes import GROWTH, NODE_POOL_LABEL, NODE_POOLS, Taint, is_device
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import text


class Growth(StrEnum):
    """Whether the cluster may get more or other nodes."""

    # It grows if an autoscaler is seen.
    AUTO = "auto"
    FIXED = "fixed"
    MAY_GROW = "mayGrow"


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A node group that can grow: what each of its nodes has. `most` is the most nodes, None without a limit."""

    name: str
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    most: int | None = None


@dataclass(frozen=True, slots=True)
class FitSettings:
    """`ignored_resources` and `ignored_groups` are those that the scheduler's NodeResourcesFitArgs or its extenders
    leave out. `templates` make a growing cluster judged by its node groups. `disabled_filters` are the plugins that the
    profile of the scheduler disables.
    """

    nodes: Growth = Growth.AUTO
    templates: tuple[NodeTemplate, ...] = ()
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    disabled_filters: frozenset[str] = frozenset()


NOTHING_STATED = FitSettings()


# By part of the facts, what messages call it.
_CALLED = {
    "cluster_autoscaler": "the Cluster Autoscaler",
    "machine_deployments": "Cluster API, which scales MachineDeployments",
    "machine_sets": "Cluster API, which scales MachineSets",
    "machine_pools": "Cluster API, which scales MachinePools",
    "node_pools": "Karpenter",
}


class NodeGrowth(NamedTuple):
    """Whether nodes may come whose shape is unknown. `why` says by what, if so. It is not `certain` if what could not
    be read may add them.
    """

    grows: bool
    why: str = ""
    certain: bool = True


FIXED = NodeGrowth(grows=False)


def growth_of(facts: ClusterFacts, settings: FitSettings) -> NodeGrowth:
    """Returns whether nodes of unknown shape may come. Configured node groups tell all that may come."""
    if settings.templates or settings.nodes is Growth.FIXED:
        return FIXED
    if settings.nodes is Growth.MAY_GROW:
        return NodeGrowth(grows=True, why="the configuration")
    for part, called in _CALLED.items():
        if getattr(facts, part):
            return NodeGrowth(grows=True, why=called)
    if facts.node_pools is None and facts.nodes is not None and facts.nodes.has_key(NODE_POOL_LABEL):
        # A list of nodes alone shows that Karpenter made some of them.
        return NodeGrowth(grows=True, why=_CALLED[NODE_POOLS.part])
    if any(check.controller == PROVISIONING for check in (facts.admission_checks or {}).values()):
        return NodeGrowth(grows=True, why="Kueue, which asks for nodes by a ProvisioningRequest")
    for part, called in _CALLED.items():
        if getattr(facts, part) is None and _is_served(facts, part):
            return NodeGrowth(grows=True, why=f"{called}, which could not be read", certain=False)
    return FIXED


def startup_taints(facts: ClusterFacts) -> frozenset[Taint]:
    """Returns the taints that new nodes lose when they are set up."""
    return frozenset(taint for grower in (facts.node_pools or {}).values() for taint in grower.startup_taints)


def _is_served(facts: ClusterFacts, part: str) -> bool:
    """Returns whether the cluster surely serves a kind of that part. Without a list of kinds it may."""
    apis = (projection.resource.api for projection in GROWTH if projection.part == part)
    return facts.apis is not None and any(api in facts.apis or not api.group for api in apis)


class PackingRole(NamedTuple):
    """Pods that are equal for the scheduler. `at` is the field of their template."""

    name: str
    at: FieldPath
    pods: pod_needs.PodNeeds


class Partition(NamedTuple):
    """How nodes fall into domains: by the values of node label `keys`, from the broadest one down. A node without one
    of the keys is in no domain.

    `noun` is what messages call a domain ("rack"). `own_domain`: a node without the keys is a domain of its own, as
    Koordinator has it. `members`: the nodes of each domain by name, for domains that are objects and not labels, as
    Volcano's HyperNodes; these may overlap. `filled`: a node with an empty value of a key is in no domain either.
    """

    noun: str
    keys: tuple[str, ...] = ()
    at: FieldPath | None = None
    own_domain: bool = False
    # All of these must be there, too: KAI wants the label of every level of its Topology.
    required_keys: tuple[str, ...] = ()
    members: Mapping[str, frozenset[str]] | None = None
    # The next broader partition that the gang may require instead, for the remedy.
    broader: Partition | None = None
    filled: bool = False

    def lacks(self, labels: Mapping[str, str]) -> bool:
        return any(key not in labels or (self.filled and not labels[key]) for key in self.keys)


@dataclass(frozen=True, slots=True)
class PodsNeed:
    """So many pods of one role."""

    role: PackingRole
    count: int
    within: Partition | None = None


@dataclass(frozen=True, slots=True)
class GroupNeed:
    """So many of these needs together: all of them where `count` is their number."""

    name: str
    needs: tuple[Need, ...]
    count: int
    within: Partition | None = None


Need: TypeAlias = PodsNeed | GroupNeed


def all_needs(sets: Iterable[Need]) -> Iterator[Need]:
    """Yields every need, the outer ones first. Equal parts of one level that are one object are read once."""
    level = list(sets)
    while level:
        yield from level
        children = (child for need in level if isinstance(need, GroupNeed) for child in need.needs)
        level = list({id(child): child for child in children}.values())


class Ceiling(NamedTuple):
    """A limit on the sum of what a gang requests, whatever is used now: a quota, a queue or one above it. `amounts` has
    the limited resources only, in the units of `PodNeeds.request`. `counted` gives what one pod of a role counts
    against it, if that is not its request. `family` and `scope` are those of the finding. `cure` is what to do, other
    than a smaller gang.
    """

    called: str
    name: str
    amounts: Mapping[str, int]
    family: FitFamily
    scope: FitScope
    at: FieldPath | None = None
    counted: Callable[[PackingRole], Mapping[str, int]] | None = None
    # The roles that it limits; None for all.
    roles: frozenset[str] | None = None
    cure: str = ""


class Ceilings(NamedTuple):
    """The limits on a gang from one source, and why a limit that may exist is not among them, in words. Each ceiling
    holds alone, so what is `unknown` takes nothing away from the others.
    """

    ceilings: tuple[Ceiling, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Packing:
    """What must be placed together. `sets` are independent of one another: each starts alone. A gang that needs one of
    its sets to start whole needs all of them.

    `unknown` says why nothing is claimed, if so: an unknown gate, plugin or object. `assumptions` are what a verdict
    on a template relies on. `witnesses` are proofs that need no node: a pod that a LimitRange refuses, a claim of too
    many devices. `unjudged` says which ceilings are left out because something about them is unknown; the others hold.
    `left_out` says what else the scheduler may want of the gang that the packing leaves out, such as a topology that
    may be switched off: a *never* stays valid; *fits* is not reported.
    """

    sets: tuple[Need, ...]
    ceilings: tuple[Ceiling, ...] = ()
    assumptions: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())
    witnesses: tuple[Witness, ...] = ()
    unjudged: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


# Stands for the value of a label that each node of a class has alone, such as kubernetes.io/hostname: a class of n
# nodes has n values of it, each on one node. It is no valid label value, so no node has it.
OWN_VALUE = "*"


class NodeClass(NamedTuple):
    """Equal nodes. `capacity` is what each of them can give, in the units of `PodNeeds.request`; a resource that is
    missing there is 0. `labels` has the node label keys that the gang's roles, their apart and spread constraints and
    its partitions name; a value may be `OWN_VALUE`. `number` is None for a node group that grows without limit. `roles`
    are the roles that may use it. `nodes` are the names of some or all of its nodes, for the witness and for a
    placement. `devices`: by driver, the most devices that one node can have; "" for all drivers together.

    `future` nodes do not exist yet: a label that is missing there may be there later, with any value.
    """

    capacity: Mapping[str, int]
    labels: Mapping[str, str]
    number: int | None
    roles: frozenset[str]
    nodes: tuple[str, ...]
    devices: Mapping[str, int] = {}
    future: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The nodes that a gang may use. `grows` says that other nodes may come whose shape is unknown: then nothing of
    the scope *on these nodes* is claimed. `unknown` says why the nodes prove nothing, if so (a partial list). `unsure`
    resources are those that no node has now, or not all of: a device plugin may not have started yet. They are not
    compared, and a gang that requests one is never said to fit. `too_large`: the nodes are unknown as they and the
    roles differ too much.

    `memo` is what `ground` has worked out of these nodes. Equal rooms that are one object share it.
    """

    classes: tuple[NodeClass, ...]
    grows: bool = False
    unknown: str | None = None
    unsure: frozenset[str] = frozenset()
    too_large: bool = False
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)


class GangFit(NamedTuple):
    """A gang, and the verdict on it under one scheduler. `packing` and `room` are what was judged: None if that was not
    looked at, `room` also if no node is known.
    """

    shape: GangShape
    verdict: FitVerdict
    packing: Packing | None = None
    room: Room | None = None


@dataclass(frozen=True, slots=True)
class PodReading:
    """What a scheduler checks of a pod. `requests` is its arithmetic; the flags are its filters: node affinity and
    taints, host ports, anti-affinity, topology spread. `both_ways`: a pod is held against the anti-affinity of those
    of its gang that were placed at the same moment, as against its own.

    Of nodes: `oversubscribes` adds what Volcano's annotations state, and `gpus_by_claims` counts the GPUs of
    ResourceSlices with those of device plugins. `devices_by_class`: a DeviceClass may stand for an extended resource,
    so that nodes without it can still give it.
    """

    requests: RequestRules = OF_KUBERNETES
    affinity: bool = True
    taints: bool = True
    ports: bool = True
    apart: bool = True
    both_ways: bool = True
    spread: bool = True
    oversubscribes: bool = False
    gpus_by_claims: bool = False
    devices_by_class: bool = True

    def restrict(self, settings: FitSettings) -> PodReading:
        """Returns the reading without what the scheduler ignores by its own configuration: resources, and filters."""
        rules, off = self.requests, settings.disabled_filters
        ignored = rules.ignored | settings.ignored_resources
        groups = rules.ignored_groups | settings.ignored_groups
        return replace(
            self,
            requests=replace(
                rules, ignored=ignored, ignored_groups=groups, compared=rules.compared and "NodeResourcesFit" not in off
            ),
            affinity=self.affinity and "NodeAffinity" not in off,
            taints=self.taints and "TaintToleration" not in off,
            ports=self.ports and "NodePorts" not in off,
            apart=self.apart and "InterPodAffinity" not in off,
            spread=self.spread and "PodTopologySpread" not in off,
        )


# What Koordinator computes from the usage of the moment, or places by Device objects, or renames.
_OF_KOORDINATOR = ("kubernetes.io/batch-", "kubernetes.io/mid-", "batch.koordinator.sh/", "koordinator.sh/")
# What Volcano's plugin deviceshare places: virtual GPUs and NPUs.
_OF_VOLCANO = ("volcano.sh/", "huawei.com/", "hami.io/", "nvidia.com/gpumem", "nvidia.com/gpucores")

# While 1.36 places a group, its list of nodes with anti-affinity stays as it was; 1.37 mends this
# (pkg/scheduler/backend/cache/snapshot.go, AssumePod).
KUBE = PodReading(both_ways=False)
COSCHEDULING = PodReading()
KOORDINATOR = PodReading(RequestRules(unsure=_OF_KOORDINATOR))
# KAI has neither pod-level resources nor topology spread.
KAI = PodReading(
    RequestRules(pod_level=False, kai_gpus=True), spread=False, gpus_by_claims=True, devices_by_class=False
)
# Each of Volcano's predicates can be switched off in its configuration. These are on as it is installed. Its list of
# nodes with anti-affinity is made when a session starts (pkg/scheduler/plugins/util/k8s/snapshot.go, NewSnapshot).
VOLCANO = PodReading(
    RequestRules(exact=True, unsure=_OF_VOLCANO), both_ways=False, oversubscribes=True, devices_by_class=False
)


def needs_of(
    template: PodTemplate,
    reading: PodReading,
    others: Mapping[str, PodTemplate],
    *,
    stored: bool,
    namespace: str,
    written: Mapping[str, Mapping[str, str]] = pod_needs.NONE_WRITTEN,
) -> pod_needs.PodNeeds:
    """Returns what a scheduler must find for each pod of a template. Raises `Malformed`. `others` has the templates of
    all roles of the gang by name, this one among them, and `written` what is known of the labels that controllers write
    into their pods. `stored` templates are those of stored pods: the API server has defaulted them, and admission can
    add nothing.
    """
    if text(template.spec.get("nodeName")) is not None:
        # No scheduler places it.
        return pod_needs.PodNeeds(
            {}, pod_needs.Eligibility(), unjudged=("spec.nodeName places the pods without a scheduler",)
        )
    request, unjudged = requests_of(template, reading.requests, stored=stored)
    devices = [resource for resource in template.resources if is_device(resource)]
    eligibility = pod_needs.Eligibility.from_spec(template.spec, stored=stored, resources=devices)
    spread = pod_needs.spread_of(template) if reading.spread else ()
    apart: tuple[pod_needs.AntiAffinity, ...] = ()
    left_out: list[str] = []
    if reading.apart:
        apart, is_all = pod_needs.apart_of(template, others, stored=stored, namespace=namespace, written=written)
        if pod_needs.requires_affinity(template):
            left_out.append("the required pod affinity of the pods")
        if not is_all:
            unknown_labels = "as the labels that controllers add to them are not all known"
            left_out.append(f"the required anti-affinity of the pods, {unknown_labels}")
    if reading.spread and pod_needs.binding_constraints(template) > len(spread):
        left_out.append("the topology spread constraints of the pods")
    if not stored and text(template.spec.get("runtimeClassName")) is not None and not template.spec.get("overhead"):
        # The API server adds it.
        left_out.append("the overhead of the RuntimeClass of the pods")
    return pod_needs.PodNeeds(
        request,
        eligibility.relax(affinity=not reading.affinity, taints=not reading.taints),
        pod_needs.ports_of(template.spec, stored=stored) if reading.ports else (),
        apart,
        spread,
        unjudged=unjudged,
        left_out=tuple(left_out),
    )


# The partition for the node label key of a required domain, and the field that requires it; None restricts nothing.
DomainOf: TypeAlias = Callable[[str, FieldPath | None], Partition | None]


class Roles(dict[str, PackingRole]):
    """The roles of a gang by name."""

    def role_of(self, member: MemberShape) -> PackingRole:
        return self[member.called]


def roles_of(shape: GangShape, reading: PodReading, claimed: ClusterFacts | None = None) -> Roles:
    """Returns the needed roles as a scheduler reads them. `claimed`: facts for their devices. Raises `Malformed`."""
    needed: dict[str, MemberShape] = {}
    for member in shape.needed:
        needed.setdefault(member.called, member)
    templates = {name: member.template for name, member in needed.items()}
    written = _written(shape)
    needs: dict[str, pod_needs.PodNeeds] = {}
    for name, member in needed.items():
        pods = needs_of(
            member.template, reading, templates, stored=shape.stored, namespace=shape.namespace, written=written
        )
        needs[name] = pods if claimed is None else add_device_needs(pods, member, shape, claimed)
    if not reading.both_ways:
        needs = pod_needs.mutual_needs(needs)
    return Roles({name: PackingRole(name, needed[name].at, pods) for name, pods in needs.items()})


def _written(shape: GangShape) -> Mapping[str, Mapping[str, str]]:
    """Returns the labels that controllers write into all pods of each role."""
    written: dict[str, Mapping[str, str]] = {}
    for member in shape.members:
        role = member.called
        before = written.get(role, member.written)
        if before != member.written:
            before = {key: value for key, value in before.items() if member.written.get(key) == value}
        written[role] = before
    return written


def pack_pods_apart(shape: GangShape, roles: Roles) -> Packing:
    """Returns the packing of a scheduler that starts each pod alone."""
    return Packing(tuple(PodsNeed(role, 1) for role in roles.values()), left_out=shape.left_out)


def pack_members_apart(shape: GangShape, roles: Roles) -> Packing:
    """Returns the packing of a scheduler for which each member is a gang of its own."""
    return Packing(
        tuple(PodsNeed(roles.role_of(member), member.minimum) for member in shape.needed), left_out=shape.left_out
    )


def no_domain(_: str, __: FieldPath | None) -> Partition | None:
    return None


def pack_together(shape: GangShape, roles: Roles, domain_of: DomainOf = no_domain) -> Packing:
    """Returns the packing of a scheduler that places the minimum of every member at one moment: the gang in its domain,
    each subset in one inside that, and each member in one inside these.
    """
    by_name = {member.name: member for member in shape.needed}
    inside: set[str] = set()
    needs: list[Need] = []
    for subset in shape.subsets:
        members = [by_name[name] for name in subset.members if name in by_name]
        inside.update(member.name for member in members)
        within = domain_of(subset.required, subset.required_at)
        if members:
            needs.append(group_of(subset.name, needs_in(members, roles, domain_of), within))
    direct = [member for member in shape.needed if member.name not in inside]
    whole = None if shape.required is None else domain_of(shape.required, shape.required_at)
    needs[:0] = needs_in(direct, roles, domain_of)
    return Packing((group_of(shape.name, needs, whole),) if needs else (), left_out=shape.left_out)


def group_of(name: str, needs: Sequence[Need], within: Partition | None) -> GroupNeed:
    return GroupNeed(name, tuple(needs), len(needs), within)


def needs_in(members: Sequence[MemberShape], roles: Roles, domain_of: DomainOf) -> list[Need]:
    """Returns what members need. Those of one role without a domain of their own are counted together."""
    counted: dict[str, int] = {}
    apart: list[Need] = []
    for member in members:
        within = None if member.required is None else domain_of(member.required, member.required_at)
        if within is None:
            counted[member.called] = counted.get(member.called, 0) + member.minimum
        else:
            apart.append(PodsNeed(roles.role_of(member), member.minimum, within))
    return [*(PodsNeed(roles[name], count) for name, count in counted.items()), *apart]
