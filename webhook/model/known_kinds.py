"""Kinds by name: Kubernetes' own, the opted-in workloads, those that Rollcall does not judge, and those that a cluster
serves.

Kubernetes' own kinds have no projections, because no rule needs facts of them. Source: the kinds of Kubernetes 1.36 to
1.38, aggregated discovery (KEP-3352), and the CRDs of Grove, KAI-Scheduler v0.17, Koordinator v1.8, Volcano v1.15,
scheduler-plugins v0.34, Kueue v0.20, JobSet v0.12, LeaderWorkerSet v0.10, Trainer v2.3, KubeRay v1.7,
training-operator v1.9, mpi-operator v0.8 and spark-operator v2.5 (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from webhook.model.grove import OwnerReference
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.reading import Manifest, mapping, sequence, text

# Group and kind of a pod.
POD = ("", "Pod")
PODS = Resource(Api("", "v1", "Pod"), "pods")
SERVICES = Resource(Api("", "v1", "Service"), "services")
SERVICE_ACCOUNTS = Resource(Api("", "v1", "ServiceAccount"), "serviceaccounts")
SECRETS = Resource(Api("", "v1", "Secret"), "secrets")
CONFIG_MAPS = Resource(Api("", "v1", "ConfigMap"), "configmaps")
ENDPOINT_SLICES = Resource(Api("discovery.k8s.io", "v1", "EndpointSlice"), "endpointslices")
LEASES = Resource(Api("coordination.k8s.io", "v1", "Lease"), "leases")

ADMISSION_REGISTRATION = "admissionregistration.k8s.io"
MUTATING_WEBHOOKS = Resource(
    Api(ADMISSION_REGISTRATION, "v1", "MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING_WEBHOOKS = Resource(
    Api(ADMISSION_REGISTRATION, "v1", "ValidatingWebhookConfiguration"),
    "validatingwebhookconfigurations",
    namespaced=False,
)
# The scheduler of a pod that names none.
DEFAULT_SCHEDULER = "default-scheduler"


JOBS = Resource(Api("batch", "v1", "Job"), "jobs")
# LeaderWorkerSet makes its pods through StatefulSets.
STATEFUL_SETS = Resource(Api("apps", "v1", "StatefulSet"), "statefulsets")
JOB_SETS = Resource(Api("jobset.x-k8s.io", "v1alpha2", "JobSet"), "jobsets")
LEADER_WORKER_SETS = Resource(Api("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"), "leaderworkersets")
TRAIN_JOBS = Resource(Api("trainer.kubeflow.org", "v1alpha1", "TrainJob"), "trainjobs")
TRAINING_RUNTIMES = Resource(Api("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime"), "trainingruntimes")
CLUSTER_TRAINING_RUNTIMES = Resource(
    Api("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime"), "clustertrainingruntimes", namespaced=False
)
# The kinds that own their gangs' objects. A TrainJob's gangs belong to its JobSet.
GANG_KINDS = (JOBS, JOB_SETS, LEADER_WORKER_SETS)


def is_a(reference: OwnerReference, resource: Resource) -> bool:
    """Returns whether a reference is to an object of that kind, in any version."""
    return (reference.group, reference.kind) == (resource.api.group, resource.api.kind)


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Real kinds with names like those of judged kinds.
REAL_KINDS = _names(
    "AppWrapper ClusterTopology CronJob DaemonSet Deployment DisaggregatedSet JAXJob Job JobFlow JobTemplate MPIJob "
    "MXJob NodePool PaddleJob PersistentVolume PodDisruptionBudget PodGangMap PodGroup PodMonitor PodSecurityPolicy "
    "PodTemplate PyTorchJob Queue RayCluster RayJob RayService ReplicaSet ReplicationController "
    "ScheduledSparkApplication SparkApplication StatefulSet TFJob Topology Workload XGBoostJob"
)
# Kinds whose name is used in several groups, so the name alone does not show which is meant.
SHARED_NAMES = frozenset({"Job", "PodGroup", "Queue", "Topology", "Workload", "Pod"})

# Kinds without a namespace that no rule reads. Most others begin with the word Cluster.
CLUSTER_SCOPED = _names(
    "APIService CSIDriver CSINode CustomResourceDefinition IngressClass MutatingAdmissionPolicy "
    "MutatingAdmissionPolicyBinding MutatingWebhookConfiguration Node PersistentVolume PodSecurityPolicy "
    "RuntimeClass StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
    "ValidatingWebhookConfiguration VolumeAttachment"
)
_CLUSTER = "Cluster"

_KUBEFLOW = "write it as a TrainJob, or use the gang scheduling of the training operator, and remove the label"
_SPARK = "use spec.batchScheduler of the Spark operator, and remove the label"
_START_TOGETHER = "write pods that must start together as a JobSet or a LeaderWorkerSet; else remove the label"
# By group and kind: what to do with a workload of which Rollcall makes no gangs, and for which no shape is built in.
OTHER_WORKLOADS: Mapping[tuple[str, str], str] = {
    ("batch", "CronJob"): "move the label to spec.jobTemplate.metadata.labels: Rollcall makes a gang of each Job",
    ("apps", "ReplicaSet"): _START_TOGETHER,
    ("apps", "DaemonSet"): "remove the label: each pod of a DaemonSet belongs to one node",
    ("", "ReplicationController"): _START_TOGETHER,
    **{("kubeflow.org", kind): _KUBEFLOW for kind in ("TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")},
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): _SPARK,
}
# Kinds, by group and kind, whose pods are no gangs unless they say so, and what controls pods for other kinds.
NO_GANGS = frozenset(
    {
        ("", "Node"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
    }
)
# For any other kind with pod templates.
UNKNOWN_WORKLOAD = (
    "declare its kind by a WorkloadShape (`rollcall shapes init KIND --from-crd FILE` drafts one), or remove the label"
)


def is_cluster_scoped(kind: str) -> bool:
    """Returns whether objects of a kind that no rule reads probably have no namespace."""
    return kind in CLUSTER_SCOPED or (kind.startswith(_CLUSTER) and kind != _CLUSTER)


def _served(group: str, kinds: str, *versions: str) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(group, kind): versions for kind in kinds.split()}


# Kubernetes 1.36 and 1.37 still serve betas.
_OF_DEVICES = ("v1", "v1beta2", "v1beta1")
# By group and kind: the versions that current releases serve, the one to write first.
SERVED_VERSIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    **_served("", "Node Pod ReplicationController Namespace ResourceQuota LimitRange", "v1"),
    **_served("apps", "DaemonSet Deployment ReplicaSet StatefulSet", "v1"),
    **_served("batch", "CronJob Job", "v1"),
    **_served("scheduling.k8s.io", "PriorityClass", "v1"),
    **_served("scheduling.k8s.io", "PodGroup", "v1beta1", "v1alpha3", "v1alpha2"),
    **_served("scheduling.k8s.io", "Workload", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
    **_served("scheduling.k8s.io", "CompositePodGroup", "v1beta1", "v1alpha3"),
    **_served("resource.k8s.io", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice", *_OF_DEVICES),
    **_served("karpenter.sh", "NodeClaim NodePool", "v1"),
    **_served("nvidia.com", "DynamoGraphDeployment", "v1beta1", "v1alpha1"),
    **_served("grove.io", "ClusterTopologyBinding PodClique PodCliqueScalingGroup PodCliqueSet PodGangMap", "v1alpha1"),
    **_served("scheduler.grove.io", "PodGang", "v1alpha1"),
    **_served("jobset.x-k8s.io", "JobSet", "v1alpha2"),
    **_served("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "v1"),
    **_served("disaggregatedset.x-k8s.io", "DisaggregatedSet", "v1"),
    **_served("trainer.kubeflow.org", "ClusterTrainingRuntime TrainingRuntime TrainJob", "v1alpha1"),
    # mpi-operator serves the first one, the training operator the other.
    **_served("kubeflow.org", "MPIJob", "v2beta1", "v1"),
    **_served("kubeflow.org", "JAXJob PaddleJob PyTorchJob TFJob XGBoostJob", "v1"),
    **_served("ray.io", "RayCluster RayJob RayService", "v1", "v1alpha1"),
    **_served("sparkoperator.k8s.io", "ScheduledSparkApplication SparkApplication", "v1beta2"),
    **_served("batch.volcano.sh", "Job", "v1alpha1"),
    **_served("scheduling.volcano.sh", "PodGroup Queue", "v1beta1"),
    **_served("topology.volcano.sh", "HyperNode", "v1alpha1"),
    **_served("scheduling.run.ai", "PodGroup", "v2alpha2"),
    **_served("scheduling.run.ai", "Queue", "v2"),
    **_served("kai.scheduler", "Topology", "v1alpha1"),
    **_served("kai.scheduler", "SchedulingShard", "v1"),
    **_served("scheduling.sigs.k8s.io", "ElasticQuota PodGroup", "v1alpha1"),
    **_served("scheduling.koordinator.sh", "ClusterNetworkTopology Device Reservation", "v1alpha1"),
    **_served("quota.koordinator.sh", "ElasticQuotaProfile", "v1alpha1"),
    **_served("config.koordinator.sh", "ClusterColocationProfile", "v1alpha1"),
    **_served("scheduling.x-k8s.io", "ElasticQuota PodGroup", "v1alpha1"),
    **_served(
        "kueue.x-k8s.io",
        "AdmissionCheck ClusterQueue Cohort LocalQueue ResourceFlavor Topology Workload WorkloadPriorityClass",
        "v1beta2",
    ),
}
# By group, kind and version: which releases serve it, if releases in use serve one that the current one does not.
LAST_SERVED: Mapping[tuple[str, str, str], str] = {
    (group, kind, "v1beta1"): "Kueue v0.19 and earlier" for group, kind in SERVED_VERSIONS if group == "kueue.x-k8s.io"
}
# By group, kind and version: the fields of its spec that the version to write has under another name or not at all.
# Source: kubernetes-sigs/kueue v0.19, apis/kueue/v1beta1 (the conversions to v1beta2).
CHANGED_FIELDS: Mapping[tuple[str, str, str], Mapping[str, str]] = {
    ("kueue.x-k8s.io", "ClusterQueue", "v1beta1"): {
        "cohort": "write cohortName instead of cohort",
        "admissionChecks": "write the names of admissionChecks into admissionChecksStrategy.admissionChecks[].name",
        "flavorFungibility": "write MayStopSearch instead of Borrow and Preempt in flavorFungibility",
    },
    ("kueue.x-k8s.io", "Workload", "v1beta1"): {
        "priorityClassName": "write priorityClassRef instead of priorityClassName",
        "priorityClassSource": "write the kind and group of priorityClassRef instead of priorityClassSource",
    },
    ("kueue.x-k8s.io", "AdmissionCheck", "v1beta1"): {"retryDelayMinutes": "remove retryDelayMinutes"},
}
# By group and kind: the apiVersion and kind that took its place.
RETIRED_KINDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("grove.io", "PodGangSet"): ("grove.io/v1alpha1", "PodCliqueSet"),
    **{
        (group, kind): ("scheduling.volcano.sh/v1beta1", kind)
        for group in ("scheduling.incubator.k8s.io", "scheduling.sigs.dev")
        for kind in ("PodGroup", "Queue")
    },
    **{("extensions", kind): ("apps/v1", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet")},
}


# The group and kind of one entry of the document, and the version that is written.
GROUP, VERSION, KIND = "apidiscovery.k8s.io", "v2", "APIGroupDiscovery"


def kinds_of(group: Manifest) -> Iterator[Resource]:
    """Yields the kinds of one group. Raises `Malformed`."""
    name = text(mapping(group.get("metadata")).get("name")) or ""
    for version in map(mapping, sequence(group.get("versions"))):
        for resource in map(mapping, sequence(version.get("resources"))):
            kind = text(mapping(resource.get("responseKind")).get("kind"))
            api = Api(name, text(version.get("version")) or "", kind or "")
            yield Resource(api, text(resource.get("resource")) or "", resource.get("scope") != "Cluster")


def document_of(served: Iterable[Resource]) -> Manifest:
    """Returns a discovery document that lists these kinds, and nothing else about them."""
    groups: dict[str, dict[str, list[Manifest]]] = {}
    for resource in sorted(served):
        api = resource.api
        entry = {
            "resource": resource.plural,
            "responseKind": {"group": api.group, "version": api.version, "kind": api.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
        }
        groups.setdefault(api.group, {}).setdefault(api.version, []).append(entry)
    items = [
        {
            "metadata": {"name": group},
            "versions": [{"version": version, "resources": resources} for version, resources in versions.items()],
        }
        for group, versions in groups.items()
    ]
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": f"{KIND}List", "items": items}
