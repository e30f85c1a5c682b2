"""List the facts that a decision needs and the caches lack, without I/O. The server reads them before the decision.

Caches are milliseconds behind the cluster, and are empty when a server starts. This must not prepare a pod for the
wrong scheduler, nor refuse a workload because an object that was just created seems to be missing.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import nsmallest

from webhook.model import grove
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Needed
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.shapes.kinds import PYTHON_KINDS, WorkloadKinds
from webhook.model.workloads.trainjob import TrainJob, train_job_of
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.selection import namespace_choice

# The most facts that are read live for one verdict at a time.
MOST_IN_DOUBT = 8


def required_facts(
    request: Request, facts: ClusterFacts, doubted: Container[str] = frozenset(), kinds: WorkloadKinds = PYTHON_KINDS
) -> tuple[Needed, ...]:
    """Return what must be read before `request` is decided: nothing, for almost every request. `doubted` are the parts
    of the facts whose caches are not updated at the moment; `kinds` are those of opted-in workloads.
    """
    raw = request.object
    if raw is None or request.subresource:
        return ()
    group, _, kind = request.kind
    try:
        if kind == "Pod" and not group and request.operation == "CREATE":
            return _of_pod(raw, request, facts, doubted, kinds)
        if kind == "PodCliqueSet" and group == grove.GROUP:
            return _of_workload(raw, request, facts, doubted)
        view = kinds.views.get((group, kind)) if request.operation == "CREATE" else None
        if view is not None:
            return _of_opted_in(view(raw, request.namespace), facts, doubted)
    except Malformed:
        # The decision itself reports what is wrong with the object.
        pass
    return ()


def in_doubt(verdict: Verdict) -> tuple[Needed, ...]:
    """Return what must be read before `verdict` is answered: facts that, if missing or stale, cause or hide a refusal.

    At most `MOST_IN_DOUBT` are returned: an object may name thousands, and one that is really missing is enough to
    refuse it.
    """
    told = (finding for finding in verdict.findings if finding.action is Action.DENY or finding.hides_more)
    found = {finding.absent for finding in told if finding.absent is not None}
    return tuple(nsmallest(MOST_IN_DOUBT, found, key=str))


def _of_pod(
    raw: Manifest, request: Request, facts: ClusterFacts, doubted: Container[str], kinds: WorkloadKinds
) -> tuple[Needed, ...]:
    pod = Pod(raw, request.namespace)
    if pod.long_label is not None:
        return ()
    if pod.podgang is None:
        place = kinds.place_of(pod) if SCHEDULER_LABEL in pod.template.labels else None
        if place is None:
            return ()
        made = () if place.made is None else _lacking(facts, place.made.workload, doubted)
        return (*_lacking(facts, place.workload, doubted), *made)
    if pod.podclique is None or pod.workload is None:
        return ()
    return _lacking(facts, Needed("pod_clique_sets", (pod.namespace, pod.workload)), doubted)


def _of_workload(raw: Manifest, request: Request, facts: ClusterFacts, doubted: Container[str]) -> tuple[Needed, ...]:
    if request.operation == "CREATE":
        # The labels of the namespace choose the scheduler, and the choice is permanent.
        return _lacking(facts, Needed("namespaces", request.namespace), doubted)
    before, now = (
        mapping(mapping(mapping(found).get("metadata")).get("labels")).get(SCHEDULER_LABEL)
        for found in (request.old, raw)
    )
    if before is None and now is not None and facts.bound_gangs is None:
        # A set that predates Rollcall is adopted, or gets back the record that it lost: allowed only while no pod is on
        # a node that was not prepared for that scheduler.
        return (Needed("bound_gangs", (request.namespace, request.name, now if isinstance(now, str) else "")),)
    return ()


def _of_opted_in(workload: OptedInWorkload, facts: ClusterFacts, doubted: Container[str]) -> tuple[Needed, ...]:
    if isinstance(workload, TrainJob):
        runtime = _lacking(facts, workload.runtime, doubted)
        if workload.scheduler is not None:
            # Whether the JobSet and its pods are opted in too.
            runtime += _lacking(facts, Needed("namespaces", workload.namespace), doubted)
    else:
        made_by = train_job_of(workload) if isinstance(workload, JobSet) else None
        runtime = () if made_by is None else _lacking(facts, Needed("train_jobs", made_by), doubted)
    if (
        workload.scheduler is not None
        or not workload.by_namespace
        or namespace_choice(facts, workload.namespace) is not None
    ):
        return runtime
    # The request came here because its namespace is opted in. If the cache disagrees, the cache is behind.
    return (Needed("namespaces", workload.namespace), *runtime)


def _lacking(facts: ClusterFacts, needed: Needed, doubted: Container[str]) -> tuple[Needed, ...]:
    return (needed,) if needed.part in doubted or facts.lacks(needed) else ()
