"""Rules about TrainJobs, JobSets, LeaderWorkerSets and Jobs on koord-scheduler: their quota, their devices, one
setting of their gangs, and the topology that Rollcall writes on their PodGroups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.backends import families
from webhook.backends.koordinator import keys, pod_groups
from webhook.backends.koordinator import pod_clique_sets as set_rules
from webhook.backends.koordinator.gang_groups import SPINE_LAYERS, gather_from
from webhook.backends.koordinator.gangs import TOPOLOGY_RULE, differing_use, topology_uses
from webhook.backends.koordinator.keys import RuleContext
from webhook.backends.koordinator.pod_clique_sets import judge_match_policy, share_faults
from webhook.backends.koordinator.quotas import judge_quota
from webhook.backends.queues import opted_in_disagreement
from webhook.backends.topologies import CarriedTopology, left_out, opted_in_topology
from webhook.model.capabilities import QUOTA_LABEL, Capability
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.known_objects import Quota
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, pod_template, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.shared_checks import name_uses
from webhook.workloads.opted_in_gang import AnnotationPlace, Annotations, domains, no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload, Part
from webhook.workloads.trainjob import TrainerJobSet

_QUOTAS = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False), "all-teams": Quota(is_parent=True)})


def _job_with_share(percent: str) -> Manifest:
    resources = {"requests": {"koordinator.sh/gpu": percent}}
    return job(template=pod_template({"containers": [{"name": "main", "image": "a", "resources": resources}]}))


@rule(
    "koordinator/owner-gpu-share",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_job_with_share("50")),
    fails=Example(_job_with_share("150")),
)
def gpu_share(workload: OptedInWorkload, _: RuleContext) -> Results:
    """As for `koordinator/gpu-share`: koord-manager refuses pods that state shares of GPUs in other ways, if its gate
    ValidatePodDeviceResource is on.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/verify_device_resource.go, v1.8.0.
    """
    for part in workload.distinct_parts:
        yield from share_faults(part.template)


@rule(
    "koordinator/owner-quota",
    subject=Subject.OPTED_IN,
    passes=Example(job(labels={QUOTA_LABEL: "team-a"}), facts=_QUOTAS),
    fails=Example(job(labels={QUOTA_LABEL: "all-teams"}), facts=_QUOTAS),
)
def quota(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Koordinator charges a pod that names a missing quota to koordinator-default-quota, without a message. It refuses
    the creation of a pod that names a parent quota. A workload names its quota by Koordinator's label or by Grove's
    annotation scheduling.grove.io/koordinator-quota. Rollcall writes the label on its pods.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go,
    pkg/webhook/elasticquota/pod_check.go.
    """
    for use in name_uses(workload, keys.QUOTA_KEYS, keys.QUOTA_KEYS_OF_PODS):
        yield from judge_quota(use.value, use.path, context)


quota_disagree = opted_in_disagreement(
    "koordinator/owner-quota-disagree",
    """A gang with two quotas starts only when both have room at the same moment. The quota that the workload names
    replaces the quota of its pods.

    Source: koordinator-sh/koordinator checks quotas pod by pod in PreFilter
    (pkg/scheduler/plugins/elasticquota/plugin.go).
    """,
    scheduler=keys.NAME,
    key=("labels", QUOTA_LABEL),
    keys=lambda _: keys.QUOTA_KEYS,
    of_pods=lambda _: keys.QUOTA_KEYS_OF_PODS,
    remedy=lambda _: f"name one quota, preferably in the label {QUOTA_LABEL} of the workload",
    what="quota",
    passes=Example(job_set(replicated("node", template=pod_template(labels={QUOTA_LABEL: "team-a"})))),
)


@rule(
    "koordinator/owner-only-waiting",
    subject=Subject.OPTED_IN,
    passes=Example(job(), config={"matchPolicy": "waiting-and-running"}),
    fails=Example(job(), config={"matchPolicy": "only-waiting"}),
)
def only_waiting(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Under only-waiting, bound pods do not count. A replacement pod that waits alone never reaches its gang's minimum
    and never binds. The Job controller replaces single pods.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`).
    """
    if not isinstance(workload, TrainerJobSet):
        yield from judge_match_policy(context, "a pod that is replaced alone")


resource_claims = families.opted_in_resource_claims(
    "koordinator/owner-resource-claims", set_rules.resource_claims.documentation, scheduler=keys.NAME
)

_FACTS = ClusterFacts(network_topologies=SPINE_LAYERS)
_DIFFER = "parts of one gang ask for different ones"


def _gangs(workload: OptedInWorkload, context: RuleContext) -> Iterator[Sequence[Part]]:
    if not context.makes_gangs or no_gang(workload) is not None:
        return
    parts = [part for part in workload.parts if part.pods > 0]
    yield from [parts] if workload.sequence_path is None else ([part] for part in parts)


def _carried(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    uses = [use for parts in _gangs(workload, context) for use in topology_uses(workload, parts) if use is not None]
    for use in {use.path: use for use in uses}.values():
        metadata = {"name": workload.name, "annotations": {keys.ANNOTATION_TOPOLOGY: use.value}}
        yield CarriedTopology({"metadata": metadata}, {keys.ANNOTATION_TOPOLOGY: use}, by_rollcall=True)


topology = opted_in_topology(
    TOPOLOGY_RULE,
    """If the topology of a gang requires a layer that the ClusterNetworkTopology does not declare, or if the scheduler
    has no topology, koord-scheduler places no pod of the gang. Rollcall writes the annotation of the workload, or of
    its pods, on the PodGroups: koord-scheduler does not read it on a pod whose label names a PodGroup. It leaves such a
    topology out, so that the gang starts on any nodes.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/{core,gang,network_topology_solver}.go,
    v1.7.0 to v1.8.0.
    """,
    kind=keys.POD_GROUPS,
    version=keys.POD_GROUP.version,
    rules=(pod_groups.topology_unavailable, pod_groups.topology_layer),
    carried=_carried,
    looks_at=(keys.ANNOTATION_TOPOLOGY,),
    leaves_out=True,
    passes=Example(job(annotations=gather_from("SpineLayer")), facts=_FACTS),
    fails=Example(job(annotations=gather_from("RackLayer")), facts=_FACTS),
    default=Action.WARN,
)

unread = opted_in_topology(
    "koordinator/owner-topology-unread",
    """koord-scheduler drops a topology with a value of the wrong JSON type, and ignores an entry whose strategy it does
    not know. The gang then starts on any nodes.

    Source: koordinator-sh/koordinator, apis/extension/network_topology.go (`GetNetworkTopologySpec`), v1.8.0.
    """,
    kind=keys.POD_GROUPS,
    version=keys.POD_GROUP.version,
    rules=(pod_groups.topology_unreadable, pod_groups.topology_strategy),
    carried=_carried,
    looks_at=(keys.ANNOTATION_TOPOLOGY,),
    passes=Example(job(annotations=gather_from("SpineLayer")), facts=_FACTS),
    fails=Example(job(annotations=gather_from("SpineLayer", "mustGather")), facts=_FACTS),
    default=Action.WARN,
)


def _pods(layer: str) -> dict[str, object]:
    return pod_template(annotations=gather_from(layer))


@rule(
    "koordinator/owner-topology-differs",
    subject=Subject.OPTED_IN,
    capability=Capability.TOPOLOGY_WORKLOAD,
    looks_at=(keys.ANNOTATION_TOPOLOGY,),
    default=Action.WARN,
    passes=Example(job_set(replicated("leader"), replicated("worker"), annotations=gather_from("SpineLayer"))),
    fails=Example(job_set(replicated("leader"), replicated("worker", template=_pods("SpineLayer")))),
)
def topology_differs(workload: OptedInWorkload, context: RuleContext) -> Results:
    """koord-scheduler applies the topology of the gang whose pod it tries first to all pods of the GangGroup. If the
    parts of a workload ask for different topologies, the result depends on which pod is tried first. So Rollcall writes
    none of them.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`NextPod`), v1.7.0 to v1.8.0.
    """
    for parts in _gangs(workload, context):
        if (use := differing_use(topology_uses(workload, parts))) is not None:
            place = Annotations(AnnotationPlace.PODS, use.path, {keys.ANNOTATION_TOPOLOGY: use.value})
            layer, remedy = next(filter(None, domains(place)), use.value), left_out("ask for the same")
            yield Finding(at=use.path, value=layer, why=_DIFFER, remedy=remedy, left_out=True)
