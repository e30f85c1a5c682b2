"""Kinds that Rollcall does not judge: real ones that resemble a judged kind, and workloads of which it makes no gangs.

Source: the kinds of Kubernetes 1.36 and the CRDs of KubeRay v1.7, training-operator v1.9, mpi-operator v0.8,
spark-operator v2.5, Volcano and LeaderWorkerSet (2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping

# Real kinds with names like those of judged kinds.
REAL_KINDS = frozenset(
    {
        "AppWrapper",
        "ClusterTopology",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "DisaggregatedSet",
        "JAXJob",
        "Job",
        "JobFlow",
        "JobTemplate",
        "MPIJob",
        "MXJob",
        "NodePool",
        "PaddleJob",
        "PersistentVolume",
        "PodDisruptionBudget",
        "PodGangMap",
        "PodGroup",
        "PodMonitor",
        "PodSecurityPolicy",
        "PodTemplate",
        "PyTorchJob",
        "Queue",
        "RayCluster",
        "RayJob",
        "RayService",
        "ReplicaSet",
        "ReplicationController",
        "ScheduledSparkApplication",
        "SparkApplication",
        "StatefulSet",
        "TFJob",
        "Topology",
        "Workload",
        "XGBoostJob",
    }
)
# Kinds whose name is used in several groups, so the name alone does not show which is meant.
SHARED_NAMES = frozenset({"Job", "PodGroup", "Queue", "Topology", "Workload", "Pod"})

# Kinds without a namespace that no rule reads. Most others begin with the word Cluster.
CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Node",
        "PersistentVolume",
        "PodSecurityPolicy",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
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
    """Whether objects of a kind that no rule reads probably have no namespace."""
    return kind in CLUSTER_SCOPED or (kind.startswith(_CLUSTER) and kind != _CLUSTER)
