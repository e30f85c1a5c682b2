"""Apply the exceptions of the configuration to what the rules found, without I/O: a covered finding does not refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.admission.pod import Membership, membership_of
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.exceptions import Excepted, RuleException
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.kubernetes_kinds import POD
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workloads.kinds import TRAIN_JOBS
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podgang import controller_in


def with_exceptions(verdict: Verdict, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Return the verdict on a request as the exceptions of its namespace change it at the time of the request. Raises
    `Malformed`.
    """
    if not verdict.findings or request.at is None:
        return verdict
    granted = settings.exceptions.in_force(request.namespace, request.at)
    if not granted:
        return verdict
    findings = excepted(verdict.findings, granted, _described(request, facts, settings))
    allowed = not any(found.action is Action.DENY for found in findings)
    if allowed == verdict.allowed:
        return replace(verdict, findings=tuple(findings))
    # The advice for a refused workload is about a refusal.
    return replace(verdict, allowed=allowed, findings=tuple(findings), could_run=())


def excepted(findings: Iterable[Finding], granted: Sequence[RuleException], found: Excepted) -> list[Finding]:
    """Return the findings about an object, the strictest first. One that an exception covers is a warning at most, and
    names the exception. A rule that fails closed is never covered.
    """
    # Of several that cover a rule, the first one of the configuration is named.
    covering = {rule: one for one in reversed(granted) if one.workloads.takes(found) for rule in one.rules}
    every = [_excepted(finding, covering) for finding in findings]
    return sorted(every, key=lambda finding: (-finding.action, not finding.fails_closed))


def described(kind: str, manifest: Manifest) -> Excepted:
    """Return a workload or gang object as exceptions select it: also by its controller, so that a JobSet is excepted
    with the TrainJob that makes it. Raises `Malformed`.
    """
    metadata = mapping(manifest.get("metadata"))
    controller = controller_in(metadata)
    above = () if controller is None else ((controller.kind, controller.name),)
    return Excepted((_named(kind, metadata), *above), mapping(metadata.get("labels")))


def _named(kind: str, metadata: Mapping[str, Any]) -> tuple[str, str]:
    # An object that gets its name later has none.
    return kind, text(metadata.get("name")) or ""


def _excepted(finding: Finding, covering: Mapping[str, RuleException]) -> Finding:
    by = covering.get(finding.rule)
    if by is None or finding.fails_closed or finding.excepted is not None:
        return finding
    return replace(finding, action=min(finding.action, Action.WARN), excepted=by)


def _described(request: Request, facts: ClusterFacts, settings: Settings) -> Excepted:
    manifest = request.object or {}
    if request.kind[::2] != POD or request.operation != "CREATE":
        return described(request.kind.kind, manifest)
    metadata = mapping(manifest.get("metadata"))
    above = _workloads_of(Pod(manifest, request.namespace), facts, settings)
    return Excepted((_named(request.kind.kind, metadata), *above), mapping(metadata.get("labels")))


def _workloads_of(pod: Pod, facts: ClusterFacts, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the workload of a pod, and of the TrainJob above it. A pod that is not known to belong to
    a workload has none.
    """
    found = membership_of(pod, facts, settings)
    if not isinstance(found, Membership):
        return
    if pod.podgang is not None:
        yield "PodCliqueSet", pod.workload or ""
    elif (place := settings.kinds.place_of(pod)) is not None:
        yield settings.kinds.grouped_as_at(place)[1], place.workload.name
    if found.workload is not None and found.workload.train_job is not None:
        yield TRAIN_JOBS.api.kind, found.workload.train_job[1]
