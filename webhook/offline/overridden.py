"""What a forced scheduler stands for, and what it overrides in an object, in a sentence, without I/O.

`--scheduler NAME` asks what would happen if each workload had the label. The sentence says which label that is, and
what the object would choose, so that the answer is not mistaken for the object's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from webhook.admission import decision
from webhook.admission.opted_in import OptedInWorkloads
from webhook.config.settings import Settings
from webhook.model.admission_request import Request
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import shown
from webhook.model.kubernetes_kinds import POD
from webhook.model.reading import Malformed, Manifest, text
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.shapes.kinds import WorkloadKinds
from webhook.model.workloads.trainjob import TrainJob
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.selection import DEFAULT_PROFILE, DEFAULT_SCHEDULER, template_names

# What chooses a scheduler, in words, and the scheduler.
_Chosen = tuple[str, str]


def overridden(request: Request, facts: ClusterFacts, settings: Settings) -> tuple[str, ...]:
    """Return a note that says which label the caller's scheduler stands for and what it overrides; nothing if the
    object chooses the same.
    """
    if settings.forced is None:
        return ()
    try:
        said = dict(_said(request, facts, settings))
        label = _label(request, facts, settings)
    except Malformed:
        # The rules report what is wrong with the object.
        return ()
    notes = () if label is None else (f"stands for {label}",)
    if others := [(by, name) for by, name in said.items() if name != settings.forced]:
        by, name = others[0]
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        notes = (*notes, f"overrides {by}, which says {shown(name)}{more}")
    return (f"{settings.forced_by} {settings.forced} {', and '.join(notes)}",) if notes else ()


def name_scheduler(pod: Manifest, scheduler: str | None) -> None:
    """Let a pod name `scheduler`, the caller's, instead of another one. A pod without a schedulerName keeps that."""
    spec = pod.get("spec")
    named = spec.get("schedulerName") if isinstance(spec, dict) else None
    if scheduler is not None and isinstance(named, str) and named != DEFAULT_SCHEDULER:
        pod["spec"]["schedulerName"] = scheduler


def name_scheduler_in_member(pod: Manifest, scheduler: str | None, kinds: WorkloadKinds) -> None:
    """Do the same with a pod that may be in no gang: such a pod is left as it is."""
    if scheduler is not None and _is_member(Pod(pod), kinds):
        name_scheduler(pod, scheduler)


def _is_member(pod: Pod, kinds: WorkloadKinds) -> bool:
    return pod.podgang is not None or kinds.place_of(pod) is not None


def _label(request: Request, facts: ClusterFacts, settings: Settings) -> str | None:
    """Return the label by which a cluster would choose the caller's scheduler for an opted-in workload; None if it does
    so already.
    """
    admission = decision.admission_of(request.kind[::2], settings)
    if not isinstance(admission, OptedInWorkloads):
        return None
    workload = admission.view(request.object or {}, request.namespace)
    own = admission.choice_of(workload, None, facts, replace(settings, forced=None))
    forced = admission.choice_of(workload, None, facts, settings)
    if forced is None or (own is not None and own.scheduler == settings.forced):
        return None
    # Trainer copies no label of a TrainJob to its JobSet.
    holder = f"Namespace {workload.namespace}" if isinstance(workload, TrainJob) else f"the {request.kind.kind}"
    return f"the label {SCHEDULER_LABEL}: {settings.forced} of {holder}"


def _said(request: Request, facts: ClusterFacts, settings: Settings) -> Iterator[_Chosen]:
    """Yield what the object says about its scheduler, the strongest first."""
    manifest, namespace = request.object or {}, request.namespace
    if request.kind[::2] == POD:
        pod = Pod(manifest, namespace)
        if _is_member(pod, settings.kinds) and pod.scheduler_name not in {None, DEFAULT_SCHEDULER}:
            yield str(SPEC / "schedulerName"), pod.scheduler_name or ""
        return
    if (admission := decision.admission_of(request.kind[::2], settings)) is None:
        return
    workload = admission.view(manifest, namespace)
    if admission.choice_of(workload, None, facts, settings) is None:
        return
    own = admission.choice_of(workload, None, facts, replace(settings, forced=None))
    if own is not None and own.source != DEFAULT_PROFILE:
        yield own.by, own.scheduler
    if isinstance(workload, PodCliqueSet):
        yield from ((str(named.path), named.scheduler) for named in template_names(workload))
    else:
        yield from _in_templates(workload, facts)


def _in_templates(workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[_Chosen]:
    """Yield the schedulers that the pod templates name; for a TrainJob those of its runtime, with its patches."""
    made = with_pods(workload, facts) or workload
    for part in made.distinct_parts:
        named = text(part.template.spec.get("schedulerName"))
        if named not in {None, DEFAULT_SCHEDULER}:
            where = str(part.template.spec_path / "schedulerName")
            yield where if made is workload else f"{where} of its JobSet", named or ""
