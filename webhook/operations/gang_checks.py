"""Checks of the existing gangs: the webhooks are called for them, their scheduler is recorded, what the reconciler
does itself for those left behind, the PodGroups that operators of workloads wrote, and what the configuration says of
nodes to come.

No admission shows that a workload was scaled and its PodGroup was not. A gang is called never only where the stated
growth of nodes is true.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from webhook.fit.packing import Growth
from webhook.gangs.remedies import RemedyCause
from webhook.model import grove
from webhook.model.keys import Api
from webhook.model.projections import key_of, labels_of, name_of
from webhook.model.reading import Manifest, selects
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.offline.group_sizes import operator_groups, sizes_of_owners
from webhook.operations import diagnosis
from webhook.operations.snapshot import (
    AUTOSCALER_STATUS,
    DEPLOYMENTS,
    GANG_PODS,
    NAMESPACES,
    NODE_POOLS,
    OPERATOR_GROUPS,
    POD_CLIQUE_SETS_PART,
    Snapshot,
    declared_workloads,
    images,
    namespace_labels,
    recorded_workloads,
)
from webhook.workloads.shaped_workload import OperatorGroup

# How many of several similar objects are named.
_NAMED = 5


@diagnosis.check(
    "gangs/asked-about",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(diagnosis.pod_clique_set("demo")),
    fails=lambda: diagnosis.installed(
        diagnosis.pod_clique_set("demo", within="team-b"),
        diagnosis.namespace("team-b"),
        settings=diagnosis.configured(registration={"excludedNamespaces": ["team-b"]}),
    ),
)
def covered(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The webhooks' selectors match the PodCliqueSets in the cluster: their namespace is neither excluded nor exempt.
    The pods of PodGangs have the labels that identify them.

    Source: ai-dynamo/grove, operator/api/common/labels.go.
    """
    namespaces = {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    sets = snapshot.hook("podcliquesets.mutate.rollcall.dev")
    if sets is not None:
        outside = [
            raw
            for raw in snapshot.all(POD_CLIQUE_SETS_PART)
            if not selects(sets.get("namespaceSelector"), namespace_labels(key_of(raw)[0], namespaces))
        ]
        for where, names in _names_by_namespace(outside):
            yield diagnosis.Symptom(
                where,
                f"the webhooks do not cover it, and it has PodCliqueSets: {names}",
                "they are not checked and no gangs are made of them: their pods start one by one",
                "remove it from `registration.excludedNamespaces`, remove its label, or move the PodCliqueSets",
            )
    strange = [
        raw for raw in snapshot.all(GANG_PODS) if labels_of(raw).get(grove.LABEL_MANAGED_BY) != grove.MANAGED_BY_GROVE
    ]
    for where, names in _names_by_namespace(strange):
        yield diagnosis.Symptom(
            where,
            f"pods that name a PodGang are not like those that Grove makes: {names}",
            f"Rollcall prepares only pods with {grove.LABEL_MANAGED_BY}={grove.MANAGED_BY_GROVE}",
            "find out what else makes pods with Grove's labels",
        )


@diagnosis.check(
    "gangs/recorded",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(diagnosis.pod_clique_set("demo")),
    fails=lambda: diagnosis.installed(diagnosis.pod_clique_set("demo", None)),
)
def recorded(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Every PodCliqueSet has a recorded scheduler. A set without a record predates Rollcall, or was admitted while
    Rollcall was down. Its pods are not changed, and neither are the pods that replace them.

    Source: webhook/mutators/prepare_pod.py; a gang of stamped and unstamped pods starts under no scheduler.
    """
    without = [raw for raw in snapshot.all(POD_CLIQUE_SETS_PART) if SCHEDULER_LABEL not in labels_of(raw)]
    for where, names in _names_by_namespace(without):
        yield diagnosis.Symptom(
            where,
            f"PodCliqueSets without a record: {names}",
            "they predate Rollcall or were admitted while it was down; no scheduler treats their pods as a gang",
            f"label each while none of its pods runs: kubectl label podcliqueset NAME {SCHEDULER_LABEL}=PROFILE",
        )


@diagnosis.check(
    "gangs/profile",
    passes=lambda: diagnosis.installed(diagnosis.pod_clique_set("demo")),
    fails=lambda: diagnosis.installed(diagnosis.pod_clique_set("demo", "volcano")),
)
def profile(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Every workload is recorded for a scheduler that the configuration still enables. For any other scheduler,
    Rollcall does not prepare replacement pods and does not update gang objects.

    Source: webhook/mutators/prepare_pod.py and webhook/gangs/object_plan.py (where is the record of a gang).
    """
    for part in (POD_CLIQUE_SETS_PART, *recorded_workloads(snapshot.settings)):
        lost = Counter[tuple[str, str]]()
        for raw in snapshot.all(part):
            name = labels_of(raw).get(SCHEDULER_LABEL)
            if name is not None and name not in snapshot.settings.profiles:
                lost[key_of(raw)[0], str(name)] += 1
        for (where, name), number in sorted(lost.items()):
            yield diagnosis.Symptom(
                f"Namespace {where}",
                f"{number} {part.resource.api.kind} recorded for {name}, which is not a profile",
                "their pods are not prepared and their gang objects are not updated any more",
                f"enable {name} until they are deleted, or delete them and apply them again for another scheduler",
            )


_EVICTION_REQUEST = Api("lifecycle.k8s.io", "v1alpha1", "EvictionRequest")


@diagnosis.check(
    "gangs/eviction-requests",
    level=diagnosis.Severity.NOTE,
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(apis=diagnosis.served(_EVICTION_REQUEST)),
)
def eviction_requests(snapshot: Snapshot) -> diagnosis.Symptoms:
    """Says that a cluster serves EvictionRequests (alpha in Kubernetes 1.37, feature gate EvictionRequestAPI). Each is
    for one pod, and its last responder calls pods/eviction, which no rule of Rollcall judges. Kubernetes evicts no pod
    with a `schedulingGroup` in this way.

    Source: kubernetes v1.38.0-beta.0, pkg/controller/{evictionrequest,imperativeevictionresponder}; k8s.io/api,
    lifecycle/v1alpha1.
    """
    for api in sorted(snapshot.served()):
        if (api.group, api.kind) == (_EVICTION_REQUEST.group, _EVICTION_REQUEST.kind):
            yield diagnosis.Symptom(
                "the API server",
                f"it serves {api}",
                "each request is for one pod, and Rollcall is not asked: a gang may lose single pods",
                "have what drains nodes request all pods of a gang; `rollcall gangs` names a gang that runs in part",
            )


def _names_by_namespace(objects: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    """Yields each namespace, with the first names of the objects found there."""
    names: dict[str, list[str]] = {}
    for raw in objects:
        where, name = key_of(raw)
        names.setdefault(where, []).append(name)
    for where, those in sorted(names.items()):
        yield f"Namespace {where}", diagnosis.first_of(sorted(those), _NAMED)


@diagnosis.check(
    "gangs/remedies",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(settings=diagnosis.configured(remedies={"causes": ["forgotten"]})),
    fails=lambda: diagnosis.installed(
        settings=diagnosis.configured({"name": "volcano"}, remedies={"causes": ["forgotten"]})
    ),
)
def remedies(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The remedy `forgotten` is on only if an enabled scheduler can be woken: koord-scheduler and the scheduler of
    scheduler-plugins. For other schedulers it does nothing, and the right to change and delete pods is not needed.

    Source: webhook/backends/base.py, `Wake`; what each scheduler does was seen on the real ones.
    """
    settings = snapshot.settings
    woken = any(profile.backend.wake is not None for profile in settings.profiles.values())
    if RemedyCause.FORGOTTEN.value in settings.remedies.causes and not woken:
        yield diagnosis.Symptom(
            "the configuration, remedies.causes",
            f"it has {RemedyCause.FORGOTTEN}, and none of the schedulers ({', '.join(settings.profiles)}) can be woken",
            "the remedy has no effect, and the reconciler has the right to change and delete pods for it",
            f"remove {RemedyCause.FORGOTTEN} from remedies.causes",
        )


# How many PodGroups are named one by one.
_OPERATOR_GROUPS_NAMED = 20


def _ray_cluster(minimum: int) -> tuple[Manifest, Manifest]:
    """Returns a RayCluster of a head and four workers, and the PodGroup that KubeRay makes for scheduler-plugins."""
    workers = {"groupName": "gpu", "replicas": 4, "minReplicas": 0, "maxReplicas": 8, "template": {}}
    spec = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [workers]}
    group = diagnosis.example_object(
        "scheduling.x-k8s.io/v1alpha1", "PodGroup", "train", within="team-a", spec={"minMember": minimum}
    )
    group["metadata"]["ownerReferences"] = [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "train"}]
    return diagnosis.example_object("ray.io/v1", "RayCluster", "train", within="team-a", spec=spec), group


@diagnosis.check(
    "gangs/operator-group",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(*_ray_cluster(5)),
    fails=lambda: diagnosis.installed(*_ray_cluster(3)),
)
def operator_group(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The minimum of a PodGroup that a workload's own operator wrote is that of the workload. Some operators write it
    once, and not again when the workload is scaled. A minimum above the pods of the workload is never reached: a lost
    pod does not start again. Below the gang's minimum, a part of the gang starts. The kinds of these workloads are
    declared by WorkloadShapes.

    Source: ray-project/kuberay issues 5205 and 4643; kubeflow/mpi-operator issue 608.
    """
    groups = operator_groups(raw for part in OPERATOR_GROUPS for raw in snapshot.all(part))
    sizes = sizes_of_owners(groups, _owners(snapshot, groups), snapshot.settings.kinds)
    wrong = [(group, finding) for group in groups if (finding := group.mismatch(sizes)) is not None]
    for group, finding in wrong[:_OPERATOR_GROUPS_NAMED]:
        _, kind, namespace, name = group.key
        where = f"{kind} {namespace}/{name}"
        yield diagnosis.Symptom(where, f"{finding.at} is {finding.value}", finding.why, finding.remedy)
    if len(wrong) > _OPERATOR_GROUPS_NAMED:
        more = f"{len(wrong) - _OPERATOR_GROUPS_NAMED} more with such a minimum"
        yield diagnosis.Symptom(
            "PodGroups", more, "their workloads do not start as gangs", "correct those above and check again"
        )


def _owners(snapshot: Snapshot, groups: Iterable[OperatorGroup]) -> Iterator[Manifest]:
    """Yields the workloads of the kinds that own these PodGroups, and of the kinds that these leave their gangs to.
    Without PodGroups no right to list workloads is needed.
    """
    declared = snapshot.settings.kinds.declared
    owning = {key[:2] for group in groups for key, _ in group.owners}
    left_to = {shape.left_to for shape in declared if shape.group_kind in owning}
    for shape in declared:
        if shape.group_kind in owning or shape.resource.api.kind in left_to:
            yield from snapshot.all(declared_workloads(shape))


# By the end of an image's name, without its tag.
_AUTOSCALERS = re.compile(r"(^|/)(cluster-autoscaler(-[a-z0-9]+)?|karpenter(/controller)?|karpenter-controller)$")
_IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.37.0"


def _status() -> Manifest:
    config_map = diagnosis.example_object("v1", "ConfigMap", "cluster-autoscaler-status")
    config_map["metadata"]["namespace"] = "kube-system"
    return config_map


@diagnosis.check(
    "fit/growth",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(_status(), diagnosis.deployment("cluster-autoscaler", _IMAGE)),
    fails=lambda: diagnosis.installed(_status(), settings=diagnosis.configured(fit={"nodes": "fixed"})),
)
def growth(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The configuration says that the nodes are fixed only where no autoscaler is seen, and an autoscaler that runs is
    one that Rollcall sees. Otherwise a gang is called never to fit these nodes, although others may come for it.
    Rollcall sees the ConfigMap kube-system/cluster-autoscaler-status, NodePools of Karpenter, and machines of Cluster
    API that are scaled; an autoscaler may write its status elsewhere, or none.

    Source: kubernetes/autoscaler, cluster-autoscaler/clusterstate/utils/status.go; webhook/fit/packing.py.
    """
    fit = snapshot.settings.fit
    if fit.templates or fit.nodes is Growth.MAY_GROW:
        return
    seen = next(_seen(snapshot), None)
    if fit.nodes is Growth.FIXED:
        if (where := seen or next(_running(snapshot), None)) is not None:
            yield _symptom(where, "the configuration says fit.nodes: fixed, and this adds nodes")
    elif seen is None and (where := next(_running(snapshot), None)) is not None:
        yield _symptom(where, "it runs, and neither its status nor a NodePool is found, so the nodes count as fixed")


def _symptom(where: str, observation: str) -> diagnosis.Symptom:
    why = "a gang may be called never to fit, although nodes come for it"
    remedy = "set fit.nodes to mayGrow, or list the node groups in fit.templates: then gangs are judged by them"
    return diagnosis.Symptom(where, observation, why, remedy)


def _seen(snapshot: Snapshot) -> Iterator[str]:
    yield from (f"ConfigMap {'/'.join(key_of(raw))}" for raw in snapshot.all(AUTOSCALER_STATUS))
    yield from (f"NodePool {key_of(raw)[1]}" for raw in snapshot.all(NODE_POOLS))


def _running(snapshot: Snapshot) -> Iterator[str]:
    for raw in snapshot.all(DEPLOYMENTS):
        if any(_AUTOSCALERS.search(image) for image, _ in images(raw)):
            yield f"Deployment {'/'.join(key_of(raw))}"
