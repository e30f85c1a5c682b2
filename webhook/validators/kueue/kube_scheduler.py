"""Rules about parts of Kueue that are made for kube-scheduler only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.kueue import keys
from webhook.model.kueue.holding import Held, held, release
from webhook.model.kueue.objects import AdmissionCheck, ClusterQueue, LocalQueue
from webhook.model.reading import text
from webhook.model.version import Version
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.held_cliques import held_cliques
from webhook.validators.kueue.placement import Gangs, cluster_queue, gangs_of, places_all
from webhook.validators.opted_in_examples import job, pod_template
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER, NAMESPACE

_QUEUED = {keys.QUEUE_NAME: "team"}
_RACKS = {keys.REQUIRED_TOPOLOGY: "example.com/rack"}
_CHECKED = ClusterFacts(
    local_queues={("default", "team"): LocalQueue("booked")},
    cluster_queues={"booked": ClusterQueue(checks=("nodes",))},
    resource_flavors={},
    admission_checks={"nodes": AdmissionCheck(keys.PROVISIONING_REQUEST)},
)
_OF_PODS = "turn the gate off"
_OF_TEMPLATES = "remove schedulerName from the template (Rollcall sets it on the pods), or turn the gate off"
_LIBRARY = {"version": "0.19", "featureGates": {"SchedulerLibraryIntegration": True}}
# From here on, Kueue's check ignores which scheduler a pod set names.
_ANY_SCHEDULER = Version(0, 20)


def _named(scheduler: str | None) -> dict[str, Any]:
    return pod_template(None if scheduler is None else {"schedulerName": scheduler}, annotations=_RACKS)


@rule(
    "kueue/scheduler-library",
    looks_at=(keys.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    passes=Example(job(labels=_QUEUED, template=_named(None)), kueue=_LIBRARY),
    fails=Example(job(labels=_QUEUED, template=_named("koord-scheduler")), kueue=_LIBRARY),
)
def scheduler_library(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """With the feature gate SchedulerLibraryIntegration, Kueue up to 0.19 checks nodes with the filters of
    kube-scheduler, for a profile default-scheduler and no other. A pod set that names another scheduler gets no
    topology, so Kueue never admits its Workload. Kueue 0.20 ignores the name. The release is the one that the
    configuration states (`kueue.version`), else it follows from the versions of Kueue's API that the cluster serves.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/scheduler/was/scheduling_simulator.go; issue 15630 ("profile not
    found for scheduler name"); CHANGELOG-0.20 (pull request 15635).
    """
    if not context.kueue.scheduler_library or (gangs := gangs_of(workload, context)) is None:
        return
    runs = release(context.facts, context.kueue)
    if runs is not None and runs >= _ANY_SCHEDULER:
        return
    whole = places_all(gangs.held.queue, workload.namespace, context.facts) is True
    for path, name in _named_schedulers(workload, gangs, context, whole=whole):
        if name != DEFAULT_SCHEDULER and runs is None:
            yield Unjudged(path, "the release of Kueue", part="apis")
        elif name != DEFAULT_SCHEDULER:
            yield Finding(
                at=path,
                found=name,
                why="with the gate SchedulerLibraryIntegration, Kueue up to 0.19 knows only default-scheduler and "
                "admits no other",
                remedy=_OF_PODS if isinstance(workload, PodCliqueSet) else _OF_TEMPLATES,
            )


def _named_schedulers(
    workload: PodCliqueSet | OptedInWorkload, gangs: Gangs, context: Context[Any], *, whole: bool
) -> Iterator[tuple[FieldPath, str]]:
    """The schedulers that Kueue finds in the pod sets that it places, each with its path. Kueue copies Grove's pods,
    which have the scheduler that Rollcall has set. It copies the templates of other workloads.
    """
    placed = [one for one in gangs.pods if whole or one.request is not None]
    if isinstance(workload, PodCliqueSet):
        if placed:
            yield context.choice.path, context.choice.scheduler
        return
    for one in placed:
        name = text(one.template.spec.get("schedulerName"))
        if name is not None:
            path = one.template.spec_path / "schedulerName"
            yield path if gangs.made is None else gangs.made.in_train_job(path), name


@rule(
    "kueue/provisioning",
    looks_at=(keys.QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_QUEUED), facts=_CHECKED),
    fails=Example(job(labels=_QUEUED), facts=_CHECKED),
)
def provisioning(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A ProvisioningRequest makes the cluster autoscaler add nodes and keep them for pods with its annotation. The
    autoscaler simulates kube-scheduler. Whether its nodes fit a gang of another scheduler is not known: this was not
    run, because the autoscaler needs machines that it can add.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/admissionchecks/provisioning.
    """
    scheduler = context.choice.scheduler
    found = None if scheduler == DEFAULT_SCHEDULER else _held(workload, context)
    if found is None:
        return
    cluster = cluster_queue(found.queue, workload.namespace, context.facts)
    for name in cluster.checks if cluster is not None else ():
        check = (context.facts.admission_checks or {}).get(name)
        if check is not None and check.controller == keys.PROVISIONING_REQUEST:
            yield Finding(
                at=found.path or NAMESPACE,
                found=found.queue,
                why=f"its check {name} books nodes for kube-scheduler, and {scheduler} was not tried with it",
                remedy="try it, or use a queue without that check",
            )
            return


def _held(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Held | None:
    """How Kueue holds a workload. For a TrainJob it is not asked again for its JobSet."""
    if isinstance(workload, PodCliqueSet):
        return next((one.held for one in held_cliques(workload, context)), None)
    return None if isinstance(workload, MadeJobSet) else held(workload, context.facts, context.kueue)
