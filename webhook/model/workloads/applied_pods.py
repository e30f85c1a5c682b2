"""The pods of a TrainJob, which are made from a runtime that is stored separately."""

from __future__ import annotations

from webhook.model.bounds import Packed, unpacked
from webhook.model.facts import ClusterFacts
from webhook.model.reading import Manifest
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.trainjob import Runtime, TrainJob, train_job_of
from webhook.model.workloads.workload import OptedInWorkload


def runtime_of(workload: TrainJob, facts: ClusterFacts) -> Runtime | None:
    """The runtime of a TrainJob, or None if it is unknown."""
    found = _stored(workload, facts)
    return None if found is None else Runtime(unpacked(found))


def with_pods(workload: OptedInWorkload, facts: ClusterFacts) -> OptedInWorkload | None:
    """The workload that an applied workload's pods are made from: itself, or the JobSet of a TrainJob whose runtime is
    known. None for a JobSet that a TrainJob makes: it is judged with the TrainJob.
    """
    if isinstance(workload, TrainJob):
        found = _stored(workload, facts)
        return None if found is None else workload.job_set_of(found)
    return None if isinstance(workload, JobSet) and train_job_of(workload) is not None else workload


def _stored(workload: TrainJob, facts: ClusterFacts) -> Manifest | Packed | None:
    needed = workload.runtime
    found: Manifest | Packed | None = (getattr(facts, needed.part) or {}).get(needed.key)
    return found
