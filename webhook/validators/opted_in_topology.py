"""The rule about topology that an opted-in workload asks for where its scheduler does not read it."""

from __future__ import annotations

from typing import Any

from webhook.model.capabilities import Capability
from webhook.model.claims import reader_of
from webhook.model.findings import Action, Finding
from webhook.model.workloads.gang import no_gang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.topology_request import (
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    KOORDINATOR_TOPOLOGY,
    READERS,
    Annotations,
    Holder,
    every_place,
)
from webhook.model.workloads.trainjob import TrainJob
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Context, Example, Results, Subject, rule

_NEAR = {KAI_TOPOLOGY: "dc", KAI_REQUIRED: "example.com/rack"}
_SPEC = {KOORDINATOR_TOPOLOGY: '{"gatherStrategy":[{"layer":"RackLayer","strategy":"MustGather"}]}'}


@rule(
    "owner/topology-unread",
    subject=Subject.OPTED_IN,
    capability=Capability.TOPOLOGY_WORKLOAD,
    looks_at=READERS,
    default=Action.WARN,
    passes=Example(job(annotations=_SPEC)),
    fails=Example(job(annotations=_NEAR)),
)
def topology_unread(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Each scheduler reads topology by its own annotations. Any other annotation is stored and has no effect, so the
    pods may be spread over the cluster. KAI's podgrouper reads its keys on the workload and on the templates of a
    JobSet's Jobs, and on pod templates only those of Ray and of the workers of a LeaderWorkerSet. Rollcall reads
    Koordinator's and Volcano's keys on the workload and on its pod templates and writes them into the PodGroup. Trainer
    copies no annotation of a TrainJob.

    Source: KAI-Scheduler, pkg/podgrouper/podgrouper/plugins (v0.17.0); koordinator, pkg/scheduler/plugins/coscheduling
    (v1.8.0: a pod with a PodGroup has no settings of its own); volcano, pkg/controllers/podgroup (v1.15.1: read only
    for pods that name no group).
    """
    made_elsewhere = no_gang(workload) is not None
    for place in every_place(workload):
        for use in place.asks(*READERS):
            reader = READERS[str(use.path.parts[-1])]
            if reader not in context.reads_claims_of:
                why = f"only {reader} reads this annotation, so {context.choice.scheduler} places the pods on any nodes"
                yield Finding(at=use.path, found=use.value, why=why, remedy=f"remove it, or choose {reader_of(reader)}")
            elif not made_elsewhere and not _is_read(place, reader, workload):
                yield Finding(at=use.path, found=use.value, why=_why(place, reader), remedy=_remedy(workload, reader))


def _is_read(place: Annotations, reader: str, workload: OptedInWorkload) -> bool:
    if reader == "KAI":
        # The workers of a LeaderWorkerSet name the topology of its segments.
        of_template = isinstance(workload, LeaderWorkerSet) or workload.resource.api.group == "ray.io"
        return place.holder is not Holder.PODS or of_template
    return place.holder is Holder.PODS or (place.holder is Holder.WORKLOAD and not isinstance(workload, TrainJob))


def _why(place: Annotations, reader: str) -> str:
    if reader == "KAI":
        return f"KAI's podgrouper does not read it on {place.holder.value}, so the pods are placed on any nodes"
    copied = "Trainer does not copy it to its JobSet" if place.holder is Holder.WORKLOAD else "no pod gets it"
    return f"{copied}, so the pods are placed on any nodes"


def _remedy(workload: OptedInWorkload, reader: str) -> str:
    if isinstance(workload, TrainJob):
        return "set it in a runtimePatch, in the metadata of the JobSet"
    return "move it to the workload's own annotations" if reader == "KAI" else "move it to the pod template"
