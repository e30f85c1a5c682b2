"""The kinds of opted-in workloads, and the kinds from which a TrainJob takes its pods.

Source: the CRDs of kubeflow/trainer v2.3, jobset v0.12 and lws v0.9; k8s.io/api batch/v1.
"""

from __future__ import annotations

from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.workloads.podgang import OwnerReference

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
    """Whether a reference is to an object of that kind, in any version."""
    return (reference.group, reference.kind) == (resource.api.group, resource.api.kind)
