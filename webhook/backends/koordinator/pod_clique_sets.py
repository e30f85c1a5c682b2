"""Rules about PodCliqueSets that koord-scheduler would mishandle silently: priority, devices, preemption, the members
of an existing gang, which cannot be changed, and topology: one spec for the whole gang, on layers that exist.

All rules about topology fail closed except those that warn by default: `gangs` writes no PodGroup that the others
would refuse. Quality of service and quota are in `quotas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from webhook.backends import families
from webhook.backends.families import capability_rule
from webhook.backends.koordinator import keys
from webhook.backends.koordinator.gangs import THE_TOPOLOGY, is_topology_unknown, layer_of, unavailable
from webhook.backends.koordinator.keys import RuleContext
from webhook.backends.topologies import UnknownTopology
from webhook.model.capabilities import Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.known_objects import PodGangFacts, TopologyBinding, TopologyLayer
from webhook.model.pod_template import PodTemplate, requests_of_container
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.validators.pod_guard import HasAnnotation, HasLabel, Requests, sees
from webhook.validators.registry import Example, PodCliqueSetChange, Results, Subject, rule
from webhook.validators.shared_checks import has_gangs
from webhook.workloads.pod_clique_set import PodCliqueSet

multi_node_nvlink = families.multi_node_nvlink(
    "koordinator/mnnvl",
    keys.CAPABILITIES,
    """Koordinator ignores ComputeDomains when it places pods, so an NVLink group may be split over racks, and its
    processes hang or use a slower network. The rule judges the group that Grove resolves for each clique that requests
    GPUs (clique over scaling group over set, `none` opts out), and the annotation grove.io/auto-mnnvl of older
    manifests.

    Source: ai-dynamo/grove, operator/internal/mnnvl (2026-08) and GREP-537; koordinator-sh/koordinator mentions neither
    ComputeDomain nor IMEX (v1.4.0 to 2026-07).
    """,
)

resource_claims = families.resource_claims(
    "koordinator/resource-claims",
    keys.CAPABILITIES,
    """Up to v1.7 Koordinator does not support resource.k8s.io/v1 at all. From v1.8 it has the in-tree plugin, but the
    gang planner judges every pod of a gang by the first pod's claims, and DeviceShare does not see the devices that a
    claim allocated.

    Source: koordinator-sh/koordinator, go.mod of v1.4.0 to v1.8.0, config/manager/scheduler-config.yaml,
    pkg/scheduler/plugins/deviceshare.
    """,
)


@rule(
    "koordinator/only-waiting",
    passes=Example(pod_clique_set(), config={"matchPolicy": "waiting-and-running"}),
    fails=Example(pod_clique_set(), config={"matchPolicy": "only-waiting"}),
)
def only_waiting(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Under only-waiting, bound pods do not count. A replacement pod that waits alone never reaches its gang's minimum
    and never binds. Grove replaces single pods.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`).
    """
    yield from judge_match_policy(context, "a pod that Grove replaces alone")


def judge_match_policy(context: RuleContext, pod: str) -> Results:
    if context.settings.matchPolicy == keys.ONLY_WAITING:
        why = f"the profile has matchPolicy {keys.ONLY_WAITING}, so {pod} would never bind"
        remedy = "set the profile's matchPolicy to waiting-and-running"
        yield Finding(at=context.choice.path, value=keys.ONLY_WAITING, why=why, remedy=remedy)


@rule(
    "koordinator/priority-class",
    capability=Capability.PRIORITY_CLASS,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", pod={"priorityClassName": "high"}), priorityClassName="high")),
    fails=Example(pod_clique_set(clique("worker"), priorityClassName="high")),
)
def priority_class(workload: PodCliqueSet, _: RuleContext) -> Results:
    """Koordinator orders pods by their own priority. Its PodGroup has no priority class, and Grove copies the set's
    class to the PodGang but not to the pods.

    Source: the PodGroup CRD of scheduling.sigs.k8s.io/v1alpha1; ai-dynamo/grove,
    operator/internal/controller/podclique.
    """
    for member in workload.cliques:
        clique_class = text(member.pod_spec.get("priorityClassName"))
        if clique_class != workload.priority_class:
            has = clique_class or "none"
            path = SPEC / "template" / "priorityClassName"
            why = f"it is not copied to the pods, where koord-scheduler reads it; clique {member.name} has {has}"
            remedy = "set the same priorityClassName in every clique's podSpec"
            yield Finding(at=path, value=workload.priority_class, why=why, remedy=remedy)
            return


claimed_pods = families.claimed_pods(
    "koordinator/claimed-pods",
    source="koordinator-sh/koordinator, apis/extension/coscheduling.go (`GetGangName`): a pod has one gang.",
    annotations={"scheduling.k8s.io/group-name": "training"},
)


@rule(
    "koordinator/scheduler-name-label",
    subject=Subject.POD,
    guard=sees(HasLabel(keys.LABEL_SCHEDULER_NAME)),
    looks_at=(keys.LABEL_SCHEDULER_NAME,),
    independent=True,
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example(pod_clique_set(clique("worker", labels={"scheduling.koordinator.sh/scheduler-name": "batch"}))),
)
def scheduler_name_label(pod: PodTemplate, _: RuleContext) -> Results:
    """In koord-scheduler this label wins over spec.schedulerName, even if it is empty. The pod is then not scheduled by
    any profile, and its gang waits for ever.

    Source: koordinator-sh/koordinator, apis/extension/multi_scheduler.go (`GetSchedulerName`), v1.7.0 and newer.
    """
    if keys.LABEL_SCHEDULER_NAME in pod.labels and pod.labels[keys.LABEL_SCHEDULER_NAME] != keys.NAME:
        path = pod.labels_path / keys.LABEL_SCHEDULER_NAME
        why = "koord-scheduler reads it instead of schedulerName and would not schedule the pod"
        yield Finding(at=path, value=pod.labels[keys.LABEL_SCHEDULER_NAME], why=why, remedy="remove the label")


@rule(
    "koordinator/device-requests",
    subject=Subject.POD,
    guard=sees(Requests(keys.KOORDINATOR_GPUS)),
    looks_at=keys.KOORDINATOR_GPUS,
    independent=True,
    passes=Example(pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "1"}))),
    fails=Example(pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "1", "koordinator.sh/gpu-core": "50"}))),
)
def device_requests(pod: PodTemplate, _: RuleContext) -> Results:
    """DeviceShare refuses on every node a pod that requests both whole vendor GPUs and Koordinator's shares of a GPU.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/deviceshare/utils.go (`ValidateDeviceRequest`).
    """
    if pod.request_of(keys.VENDOR_GPUS) is not None and (share := pod.request_of(keys.KOORDINATOR_GPUS)) is not None:
        why = "koord-scheduler refuses a pod that requests it together with a vendor's GPU resource"
        remedy = "request only one of the two"
        yield Finding(at=FieldPath((*pod.spec_path.parts, *share.path)), value=share.resource, why=why, remedy=remedy)


_GPU, _SHARED, _CORE, _MEMORY, _RATIO = (
    f"koordinator.sh/{name}" for name in ("gpu", "gpu.shared", "gpu-core", "gpu-memory", "gpu-memory-ratio")
)
_NPU_CORE = "huawei.com/npu-core"
_WHOLE = 100


def _shares(**amounts: str) -> Manifest:
    requests = {f"koordinator.sh/{name.replace('_', '-')}": amount for name, amount in amounts.items()}
    return pod_clique_set(clique("worker", requests=requests))


@rule(
    "koordinator/gpu-share",
    subject=Subject.POD,
    guard=sees(Requests(keys.KOORDINATOR_GPUS)),
    looks_at=keys.KOORDINATOR_GPUS,
    default=Action.WARN,
    passes=Example(_shares(gpu="50")),
    fails=Example(_shares(gpu="150")),
)
def gpu_share(pod: PodTemplate, _: RuleContext) -> Results:
    """A pod states Koordinator's shares of GPUs in one of two ways: as koordinator.sh/gpu in percent, of several GPUs
    whole ones, or as koordinator.sh/gpu.shared with either gpu-memory or gpu-memory-ratio, each a multiple of the
    number of GPUs. koord-manager refuses others if its gate ValidatePodDeviceResource is on.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/verify_device_resource.go, v1.8.0.
    """
    return share_faults(pod)


def share_faults(template: PodTemplate) -> Iterator[Finding]:
    if keys.KOORDINATOR_GPUS.isdisjoint(template.resources):
        return
    for index, container in enumerate(sequence(template.spec.get("containers"))):
        requests = requests_of_container(container, from_limits=True)
        amounts = {
            name: parse_quantity(requests[name]) or Fraction(0)
            for name in (*keys.KOORDINATOR_GPUS, _NPU_CORE)
            if name in requests
        }
        if (fault := next(_faults_of_amounts(amounts), None)) is not None:
            resource, why, remedy = fault
            stated = mapping(mapping(mapping(container).get("resources")).get("requests"))
            name = text(mapping(container).get("name"))
            at = template.spec_path / "containers" / Item(index, name) / "resources"
            at = at / ("requests" if resource in stated else "limits") / resource
            yield Finding(at=at, value=requests[resource], why=why, remedy=remedy)


def _faults_of_amounts(amounts: Mapping[str, Fraction]) -> Iterator[tuple[str, str, str]]:
    if _GPU in amounts:
        if _SHARED in amounts:
            why = "koordinator.sh/gpu is requested as well, and only one of the two may be"
            yield _SHARED, why, "keep one of the two"
        if amounts[_GPU] <= 0:
            yield _GPU, "a share of a GPU must be greater than 0", "set the percentage of a GPU"
        elif amounts[_GPU] > _WHOLE and amounts[_GPU] % _WHOLE:
            yield _GPU, "above 100 percent it must be whole GPUs", "set a multiple of 100, or at most 100"
        return
    if _SHARED not in amounts or amounts.get(_NPU_CORE):
        return
    memory, ratio = amounts.get(_MEMORY), amounts.get(_RATIO)
    if amounts[_SHARED] <= 0:
        yield _SHARED, "the number of shared GPUs must be greater than 0", "set the number of GPUs"
    elif not memory and not ratio:
        yield _SHARED, "neither gpu-memory nor gpu-memory-ratio says how much of each GPU", f"add {_RATIO}"
    elif memory and ratio:
        yield _RATIO, "gpu-memory is requested as well, and only one of the two may be", "keep one of the two"
    else:
        for name in (_CORE, _RATIO):
            if amounts.get(name, 0) % amounts[_SHARED]:
                yield name, "it is no multiple of the number of GPUs in gpu.shared", "set a multiple of gpu.shared"


@rule(
    "koordinator/reserve-pod",
    subject=Subject.POD,
    guard=sees(HasAnnotation(keys.ANNOTATION_RESERVE_POD)),
    looks_at=(keys.ANNOTATION_RESERVE_POD,),
    independent=True,
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example(pod_clique_set(clique("worker", annotations={"scheduling.koordinator.sh/reserve-pod": "true"}))),
)
def reserve_pod(pod: PodTemplate, _: RuleContext) -> Results:
    """koord-manager refuses to create a pod with this annotation, so the gang never starts.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/verify_annotations.go.
    """
    if keys.ANNOTATION_RESERVE_POD in pod.annotations:
        at = pod.annotations_path / keys.ANNOTATION_RESERVE_POD
        why = "koord-manager refuses every pod with this annotation"
        remedy = "remove the annotation"
        yield Finding(at=at, value=pod.annotations[keys.ANNOTATION_RESERVE_POD], why=why, remedy=remedy)


disruption_ignored = families.pods_are_taken_singly(
    "koordinator/disruption-ignored",
    """koord-scheduler preempts pods, not gangs. All three plugins that preempt (Coscheduling with enablePreemption,
    ElasticQuota, DefaultPreemption) choose victims pod by pod on each node and do not look at their gang. A gang that
    loses a pod keeps the others running below its minimum. The label quota.scheduling.koordinator.sh/preemptible with
    the value "false" keeps pods from the first two, and then counts them against the min of their quota.

    Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/coscheduling/core/preemption.go (`selectVictims`),
    pkg/scheduler/plugins/elasticquota/preempt.go, apis/extension/elastic_quota.go,
    config/manager/scheduler-config.yaml.
    """,
    why="koord-scheduler chooses victims pod by pod, so it may take single pods of the gang",
    remedy="remove the label, or give the gang the highest priority",
)

_LIVING = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


@rule(
    "koordinator/frozen-members",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(clique("worker", replicas=4)), old=pod_clique_set(clique("worker", replicas=2)), facts=_LIVING
    ),
    fails=Example(
        pod_clique_set(clique("leader"), clique("worker")), old=pod_clique_set(clique("worker")), facts=_LIVING
    ),
)
def frozen_members(change: PodCliqueSetChange, context: RuleContext) -> Results:
    """koord-scheduler reads the list of PodGroups in a GangGroup once and ignores later edits. It does not wait for a
    member that is added to an existing gang, and waits for ever for a member that is removed.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (v1.4.0 to v1.8.0).
    """
    others = list(_moved(change.old, change.new))
    if not others or (living := has_gangs(change.new, context.facts)) is False:
        return
    yield Finding(
        at=SPEC / "template" / ("cliques" if any("/" not in name for name in others) else "podCliqueScalingGroups"),
        value=min(others),
        why="it would be added to or removed from an existing gang, "
        "and Koordinator ignores a change of a gang's members"
        + ("" if living else " (whether the set has any PodGang is unknown)"),
        remedy="delete and recreate the PodCliqueSet",
        forbidden=True,
    )


def _moved(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[str]:
    """Yields the members that join or leave the base gang: cliques, and the first such replica of scaling groups."""
    old_names, new_names = (
        {member.name for member in workload.cliques if member.group is None} for workload in (old, new)
    )
    yield from old_names ^ new_names
    before, now = _replicas(old), _replicas(new)
    for group, name in before.keys() | now.keys():
        fewer, more = sorted((before.get((group, name), 0), now.get((group, name), 0)))
        if fewer < more:
            # Sorted as text, the first number in the range is a power of ten or the smallest number.
            tens = (10**digits for digits in range(1, 10))
            first = min(map(str, (fewer, *(number for number in tens if fewer < number < more))))
            yield f"{group}-{first}/{name}"


def _replicas(workload: PodCliqueSet) -> dict[tuple[str, str], int]:
    """Returns the number of replicas that a gang starts with, by scaling group and clique."""
    replicas: dict[tuple[str, str], int] = {}
    for group in workload.scaling_groups:
        for name in group.clique_names:
            replicas[group.name, name] = max(replicas.get((group.name, name), 0), group.min_available)
    return replicas


_BLOCK = TopologyLayer("BlockLayer", None, ("example.com/block",))
_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": "example.com/block", "rack": "example.com/rack"})},
    network_topologies={"default": (_BLOCK, TopologyLayer("NodeTopologyLayer", "BlockLayer", ()))},
)
_REQUIRED = (Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE, Capability.TOPOLOGY_SCALING_GROUP)

scaling_group_topology = capability_rule(
    "koordinator/scaling-group-topology",
    Capability.TOPOLOGY_SCALING_GROUP,
    keys.CAPABILITIES,
    """Koordinator reads one topology spec, from the pod that starts the scheduling cycle, and applies it to all pending
    pods of the GangGroup. It cannot express a constraint for each replica of a scaling group.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go; GREP-537.
    """,
    passes=Example(
        pod_clique_set(
            clique("worker"), groups=[scaling_group("decode", "worker")], topologyConstraint=required("block")
        ),
        facts=_FACTS,
    ),
    fails=Example(
        pod_clique_set(
            clique("worker"), groups=[scaling_group("decode", "worker", topologyConstraint=required("block"))]
        ),
        facts=_FACTS,
    ),
    fails_closed=True,
)

divergent_topology = capability_rule(
    "koordinator/divergent-topology",
    Capability.TOPOLOGY_DIVERGENT,
    keys.CAPABILITIES,
    """If the specs in one GangGroup differ, the pod that is tried first decides which spec is used.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go.
    """,
    passes=Example(
        pod_clique_set(
            clique("leader", topologyConstraint=required("block")),
            clique("worker", topologyConstraint=required("block")),
        ),
        facts=_FACTS,
    ),
    fails=Example(
        pod_clique_set(clique("leader"), clique("worker", topologyConstraint=required("block"))), facts=_FACTS
    ),
    fails_closed=True,
)


@rule(
    "koordinator/topology-unavailable",
    capability=_REQUIRED,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS),
    fails=Example(
        pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config={"awareNetworkTopology": False}
    ),
)
def topology_unavailable(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Without its argument awareNetworkTopology, the first pod of a gang with topology is placed on any node and the
    others fail. Without a valid ClusterNetworkTopology "default", every pod fails. Before v1.7 the annotation is
    ignored.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/{core,network_topology_types}.go,
    pkg/scheduler/frameworkext/networktopology.
    """
    uses = next(context.uses[capability] for capability in _REQUIRED if capability in context.uses)
    first = min(uses, key=lambda use: use.path.anchor)
    reason = unavailable(context.settings, context.scheduler_version, context.facts)
    if reason is not None:
        remedy = "set up the scheduler's topology, or give up the topology: remove the topologyConstraint"
        yield Finding(at=first.path, value=first.value, why=reason, remedy=remedy, absent=THE_TOPOLOGY)


@rule(
    "koordinator/topology-layer",
    capability=(Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS),
)
def topology_layer(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A MustGather on a layer that does not exist matches no domain, so every attempt to place the gang fails.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_types.go
    (`GetMustGatherLayer`).
    """
    name = workload.topology_name()
    for capability in (Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE):
        for use in context.uses.get(capability, ()):
            yield from _missing_layer(name, context, use, "so the gang could never be placed")


@rule(
    "koordinator/preferred-topology",
    capability=Capability.TOPOLOGY_PREFERRED,
    default=Action.WARN,
    passes=Example(pod_clique_set(topologyConstraint=preferred("block")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=preferred("rack")), facts=_FACTS),
)
def preferred_topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A preferred domain is not written to the gang's topology spec if it has no layer, or if the scheduler has no
    topology. The gang starts on any nodes with room.

    Source: GREP-537 (a preference that cannot be mapped is skipped).
    """
    reason = unavailable(context.settings, context.scheduler_version, context.facts)
    name = workload.topology_name()
    for use in context.uses[Capability.TOPOLOGY_PREFERRED]:
        if reason is not None:
            # The rest of the reason holds only for a requirement: a dropped preference holds no gang.
            cause = reason.partition(", so ")[0]
            remedy = "remove the preference, or set up the scheduler's topology"
            yield Finding(at=use.path, value=use.value, why=f"{cause}, so the preference is dropped", remedy=remedy)
        else:
            yield from _missing_layer(name, context, use, "so the preference is dropped")


@rule(
    "koordinator/clique-topology-widened",
    capability=Capability.TOPOLOGY_CLIQUE,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", topologyConstraint=required("block"))), facts=_FACTS),
    fails=Example(
        pod_clique_set(
            clique("leader", topologyConstraint=required("block")),
            clique("worker", topologyConstraint=required("block")),
        ),
        facts=_FACTS,
    ),
)
def clique_topology_widened(workload: PodCliqueSet, context: RuleContext) -> Results:
    """If each clique requires the same domain, Koordinator places the whole gang in one domain, not each clique in its
    own. The gang may wait for room that it does not need.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go.
    """
    if len(workload.cliques) > 1 and Capability.TOPOLOGY_DIVERGENT not in context.uses:
        use = context.uses[Capability.TOPOLOGY_CLIQUE][0]
        why = "koord-scheduler places the whole gang in one such domain, not each clique in its own"
        remedy = "to accept this, set it once at spec.template.topologyConstraint"
        yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)


@rule(
    "koordinator/topology-surplus",
    capability=Capability.CLIQUE_MINIMUM,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", replicas=4), topologyConstraint=required("block")), facts=_FACTS),
    fails=Example(
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("block")), facts=_FACTS
    ),
)
def topology_surplus(workload: PodCliqueSet, context: RuleContext) -> Results:
    """With a required topology, Koordinator looks for one domain with room for all pending pods of the gang, not only
    for its minimum. It holds a gang even if there is room for its minimum.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_workflow.go
    (`DesiredOfferSlot`, and the FIXME above `PreFilter`).
    """
    if any(capability in context.uses for capability in _REQUIRED):
        for use in context.uses[Capability.CLIQUE_MINIMUM]:
            why = "with a required topology koord-scheduler waits for room for all replicas, not the minimum"
            remedy = "set minAvailable to replicas, or prefer the domain instead of requiring it"
            yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)


def _missing_layer(topology: str | None, context: RuleContext, use: Use, consequence: str) -> Results:
    """Yields a finding if the domain at `use` has no layer; Unjudged if that is unknown."""
    binding = (context.facts.topology_bindings or {}).get(topology or "")
    if binding is None and not context.facts.is_whole("topology_bindings"):
        yield Unjudged(use.path, "the ClusterTopologyBinding", part="topology_bindings")
        return
    # `grove/topology-domain` refuses a missing binding or domain.
    key = None if binding is None else binding.keys.get(use.value)
    if key is None:
        return
    if key == keys.HOSTNAME and is_topology_unknown(context.facts):
        # Its layer is built in, but without a valid ClusterNetworkTopology every pod still fails.
        yield Unjudged(use.path, "the ClusterNetworkTopology", part="network_topologies")
        return
    try:
        layer = layer_of(key, context.settings, context.facts)
    except UnknownTopology as unknown:
        yield Unjudged(use.path, unknown.needs, part=unknown.part)
        return
    if layer is None:
        mapped = context.settings.topologyKeyMappings.get(key)
        missing = (
            f"no layer of the ClusterNetworkTopology has the label key {key}"
            if mapped is None
            else f"topologyKeyMappings maps {key} to the layer {mapped}, which the ClusterNetworkTopology does not have"
        )
        why = f"{missing}, {consequence}"
        remedy = "use a domain that has a layer, or declare a layer for it"
        yield Finding(at=use.path, value=use.value, why=why, remedy=remedy, absent=THE_TOPOLOGY)
