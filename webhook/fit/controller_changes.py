"""What the controllers of workloads write into pods besides their template: tolerations, and where pods may be.

Source: kubernetes-sigs/jobset v0.12, pkg/controllers/jobset_controller.go and pkg/webhooks/pod_mutating_webhook.go;
kubernetes-sigs/lws v0.9, pkg/webhooks/pod_webhook.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.workloads import jobset
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import SUBGROUP_EXCLUSIVE, LeaderWorkerSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.workload import OptedInWorkload

# JobSet's pods that are given nodes by a label tolerate the taint that keeps other pods off these nodes.
_GIVEN_NODES = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
_OF_JOB_SET = (jobset.EXCLUSIVE, jobset.NODE_SELECTOR)
_EXCLUSIVE = "the exclusive topology, for which {} adds affinity or node labels to the pods"


class ControllerChanges(NamedTuple):
    """What a workload's controller adds to its pods: tolerations, and in words where else it restricts them to."""

    tolerations: tuple[Manifest, ...] = ()
    left_out: tuple[str, ...] = ()

    def made(self, template: PodTemplate) -> PodTemplate:
        """Return a template with the tolerations. Raises `Malformed`."""
        if not self.tolerations:
            return template
        own = sequence(template.spec.get("tolerations"))
        return template.with_spec({**template.spec, "tolerations": [*own, *self.tolerations]})


NO_CHANGES = ControllerChanges()


def changes_of(workload: OptedInWorkload) -> ControllerChanges:
    """Return what the controller of a workload changes. Raises `Malformed`."""
    if isinstance(workload, LeaderWorkerSet) and workload.annotations.get(SUBGROUP_EXCLUSIVE):
        return ControllerChanges(left_out=(_EXCLUSIVE.format("LeaderWorkerSet"),))
    named = {key for annotations in _annotations(workload) for key in _OF_JOB_SET if key in annotations}
    return ControllerChanges(
        (_GIVEN_NODES,) if jobset.NODE_SELECTOR in named else (),
        (_EXCLUSIVE.format("JobSet"),) if jobset.EXCLUSIVE in named else (),
    )


def _annotations(workload: OptedInWorkload) -> Iterator[Mapping[str, Any]]:
    """Yield the annotations of a JobSet and of its Jobs, which their pods get together."""
    if isinstance(workload, JobSet):
        yield workload.annotations
        for index in range(len(workload.parts)):
            yield mapping(workload.job_metadata(index).get("annotations"))
