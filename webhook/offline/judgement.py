"""The judgement of manifests from a file: the code that `rollcall check` and `POST /check` share.

An object goes through the whole admission as if it were being created: mutated, then validated. An AdmissionReview is
judged with its own operation and old object. A PodGang is judged by whether its scheduler can express it.

Without a cluster most TrainJobs name a ClusterTrainingRuntime that Kubeflow Trainer installs, and without its runtime
the gang of a TrainJob is unknown. These runtimes are used only if nothing else tells them, and every verdict that
rests on one says so. Source: kubeflow/trainer, manifests/base/runtimes, v2.3.0 (the data-cache runtime is an optional
overlay of the same).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook import admission
from webhook.admission import decision
from webhook.admission.decision import KIND as REVIEW
from webhook.admission.decision import judge_names, request_from
from webhook.admission.workload_admission import apply_exceptions
from webhook.backends.registry import installed_backends
from webhook.config.settings import Profile, Settings
from webhook.errors import Inexpressible
from webhook.model import grove
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, ROOT, SPEC, FieldPath, Item
from webhook.model.findings import Finding, Omission, OmissionReason, shown
from webhook.model.grove import PodGang
from webhook.model.keys import Api
from webhook.model.known_kinds import POD, PODS, TRAIN_JOBS, is_cluster_scoped
from webhook.model.kueue_objects import KUEUE_PROJECTIONS, WORKLOADS
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.reading import Malformed, Manifest, text
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.offline.omissions import add_remedies, drop_placeholders, omission_of_object
from webhook.offline.translation import gang_objects, name_scheduler_in_member, override_notes, shown_record
from webhook.validators import GENERAL_RULES
from webhook.validators.registry import Subject
from webhook.workloads.known_workloads import EVERY_GENERAL
from webhook.workloads.trainjob import ANCESTOR, TrainJob

VERSION = "v2.3.0"
_PART = "cluster_training_runtimes"


def _replicated(name: str, step: str | None = None, after: Mapping[str, str] | None = None) -> Manifest:
    """Returns a replicated Job with one pod, for a step of the TrainJob, which starts after others reach a status."""
    metadata = {} if step is None else {"metadata": {"labels": {ANCESTOR: step}}}
    pod = {"spec": {"containers": [{"name": "node" if step in {None, "trainer"} else step}]}}
    waits = {} if not after else {"dependsOn": [{"name": job, "status": status} for job, status in after.items()]}
    return {"name": name, **waits, "template": {**metadata, "spec": {"template": pod}}}


def _runtime(name: str, policy: Manifest, *jobs: Manifest) -> Manifest:
    spec = {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": {"replicatedJobs": list(jobs)}}}
    return {"metadata": {"name": name}, "spec": spec}


def _plain(name: str, policy: Manifest) -> Manifest:
    return _runtime(name, policy, _replicated("node", "trainer"))


def _mpi(name: str) -> Manifest:
    launcher = _replicated("launcher", "trainer", {"node": "Ready"})
    return _runtime(name, {"mpi": {"runLauncherAsNode": True}}, _replicated("node"), launcher)


def _initialized(name: str, *initializers: str) -> Manifest:
    first = [_replicated(initializer, initializer) for initializer in initializers]
    trainer = _replicated("node", "trainer", dict.fromkeys(initializers, "Complete"))
    return _runtime(name, {"torch": {}}, *first, trainer)


_DATA, _MODEL = "dataset-initializer", "model-initializer"
STOCK_RUNTIMES: Mapping[str, Any] = MappingProxyType(
    {
        str(runtime["metadata"]["name"]): runtime
        for runtime in (
            _plain("torch-distributed", {"torch": {}}),
            _plain("jax-distributed", {"jax": {}}),
            _plain("xgboost-distributed", {"xgboost": {}}),
            _mpi("deepspeed-distributed"),
            _mpi("mlx-distributed"),
            _initialized("torch-distributed-with-cache", _DATA),
            _initialized("torchtune-llama3.2-1b", _DATA, _MODEL),
            _initialized("torchtune-llama3.2-3b", _DATA, _MODEL),
            _initialized("torchtune-qwen2.5-1.5b", _DATA, _MODEL),
        )
    }
)


def add_stock_runtimes(facts: ClusterFacts) -> ClusterFacts:
    """Returns the facts with Trainer's own runtimes, if the cluster-wide runtimes are unknown or only known in part."""
    runtimes, partial = facts.cluster_training_runtimes, facts.partial or frozenset()
    unread = facts.unread or {}
    if (runtimes is not None and _PART not in partial) or _PART in unread:
        return facts
    return replace(facts, cluster_training_runtimes={**STOCK_RUNTIMES, **(runtimes or {})}, partial=partial | {_PART})


def stock_runtime_notes(request: Request, facts: ClusterFacts) -> tuple[str, ...]:
    """Returns a note if a TrainJob is judged with one of Trainer's own runtimes, else nothing."""
    if request.kind[::2] != (TRAIN_JOBS.api.group, TRAIN_JOBS.api.kind):
        return ()
    try:
        needed = TrainJob(request.object or {}, request.namespace).runtime
    except Malformed:
        # The rules report what is wrong with the object.
        return ()
    stock = STOCK_RUNTIMES.get(needed.name)
    if stock is None or needed.part != _PART or (facts.cluster_training_runtimes or {}).get(needed.name) is not stock:
        return ()
    note = f"the {needed} is taken as Trainer {VERSION} installs it"
    return (f"{note}; add the cluster's own to the files, or use --facts or --live",)


_CRON_JOB = ("batch", "CronJob")
_JOB_TEMPLATE = SPEC / "jobTemplate"
_TYPE_OF_JOBS = {"apiVersion": "batch/v1", "kind": "Job"}
# The rules about the names in an object of any kind, and whether it has its group.
_ABOUT_NAMES = frozenset(
    rule.id
    for rule in GENERAL_RULES
    if rule.subject is Subject.KEYS
    or (rule.subject is Subject.MANIFEST and rule.id.startswith(("fields/", "groups/", "kinds/")))
)
_JUDGED = frozenset({(grove.GROUP, "PodCliqueSet"), (grove.SCHEDULER_GROUP, "PodGang"), ("", "Pod")})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one object, and its place in the document (an item of a List, the object of a review)."""

    kind: str
    namespace: str
    name: str
    at: FieldPath
    verdict: Verdict
    # False for an object of a kind that has no rules: only the names in it were checked.
    has_rules: bool = True
    # Whether it is a workload, which `rollcall explain` takes.
    is_workload: bool = False

    @property
    def judged(self) -> bool:
        """Whether the rules about its kind judged it, or found something although a part was not judged."""
        omission = self.verdict.omission
        if omission is None or not self.has_rules:
            return self.has_rules
        by_rules = any(finding.rule not in _ABOUT_NAMES for finding in self.verdict.findings)
        return by_rules and omission.reason is not OmissionReason.GANG_ELSEWHERE


class _Kinds(NamedTuple):
    """The groups and kinds that have rules, and those whose fields are known."""

    judged: frozenset[tuple[str, str]]
    described: frozenset[tuple[str, str]]


def judge(
    manifest: Manifest, facts: ClusterFacts, settings: Settings, now: datetime | None = None
) -> Iterator[Judgement]:
    """Yields the judgement of each object in a document. Of an object without rules it has what is wrong with the names
    in it, and why it is not judged. Without `now` no exception applies.

    Changes the manifest as admission would. Raises `ReviewError` for a broken AdmissionReview.
    """
    kinds = _kinds_of(facts, settings)
    for raw, place in objects_in(manifest):
        judged_request = _request(raw, place, kinds.judged, now)
        is_review = kind_of(raw).kind == REVIEW
        if judged_request is not None:
            judgement = _judgement(*judged_request, facts, settings)
            if is_review:
                # What an API server sends has passed the schema of its kind.
                yield judgement
                continue
            checked = _add_names(raw, judgement, kinds, facts, settings)
            checked = replace(checked, verdict=drop_placeholders(checked.verdict, raw))
            yield _apply_exceptions(raw, checked, facts, settings, now)
        elif not is_review:
            checked = _names_judged(raw, place, Verdict(), kinds, facts, settings)
            if (of_job := _job_verdict(raw, checked, facts, settings, now)) is not None:
                checked = replace(checked, verdict=drop_placeholders(of_job, raw), has_rules=True)
            elif _has_content_findings(checked.verdict):
                # A quota, a queue or a runtime, of which something is wrong.
                checked = replace(checked, has_rules=True)
            else:
                omission = omission_of_object(kind_of(raw), raw, settings)
                checked = replace(checked, verdict=replace(checked.verdict, omission=omission))
            yield _apply_exceptions(raw, checked, facts, settings, now)
        else:
            why, remedy = "no rule is about its request", "record one that creates a workload"
            omission = Omission(ROOT, OmissionReason.NO_RULES, why, remedy)
            yield Judgement(REVIEW, "", "", place, Verdict(omission=omission), has_rules=False)


def _has_content_findings(verdict: Verdict) -> bool:
    """Returns whether a rule about more than names found or lacked something, as of a quota, a queue or a runtime."""
    rules = (*(finding.rule for finding in verdict.findings), *(missing.rule for missing in verdict.unjudged))
    return not _ABOUT_NAMES.issuperset(rules)


def _job_verdict(
    raw: Manifest, cron_job: Judgement, facts: ClusterFacts, settings: Settings, now: datetime | None
) -> Verdict | None:
    """Returns the verdict on a Job of a CronJob, and on the names in the CronJob; None if its Jobs are no gangs."""
    spec = raw.get("spec")
    template = spec.get("jobTemplate") if kind_of(raw)[::2] == _CRON_JOB and isinstance(spec, dict) else None
    metadata = template.get("metadata", {}) if isinstance(template, dict) else None
    if not isinstance(template, dict) or not isinstance(metadata, dict):
        return None
    metadata = {**metadata, "name": cron_job.name, "namespace": cron_job.namespace}
    job = deepcopy({**_TYPE_OF_JOBS, "metadata": metadata, "spec": template.get("spec")})
    request = Request("", "CREATE", kind_of(job), cron_job.namespace, cron_job.name, job, at=now)
    verdict = _judgement(request, cron_job.at, facts, settings).verdict
    if verdict.omission is not None or verdict.scheduler == OPTED_OUT:
        return None
    chosen_by = verdict.chosen_by.replace(str(LABELS), f"{_JOB_TEMPLATE}.{LABELS}", 1)
    findings = [replace(finding, at=_job_template_path(finding.at)) for finding in verdict.findings]
    unjudged = [replace(missing, at=_job_template_path(missing.at)) for missing in verdict.unjudged]
    return replace(
        verdict,
        findings=(*findings, *cron_job.verdict.findings),
        unjudged=(*unjudged, *cron_job.verdict.unjudged),
        patch=(),
        chosen_by=chosen_by,
    )


def _job_template_path(at: FieldPath) -> FieldPath:
    """Returns where a CronJob has a field of its Jobs. They are named after it."""
    if at.parts[:1] == METADATA.parts and at.parts[1:2] in {("name",), ("namespace",)}:
        return at
    return FieldPath((*_JOB_TEMPLATE.parts, *at.parts))


def name_judgements(manifest: Manifest, facts: ClusterFacts, settings: Settings) -> Iterator[Judgement]:
    """Yields what is wrong with the names in each object of a document, by no other rules."""
    kinds = _kinds_of(facts, settings)
    for raw, place in objects_in(manifest):
        if kind_of(raw).kind != REVIEW:
            judged = _names_judged(raw, place, Verdict(), kinds, facts, settings)
            if judged.verdict.findings:
                yield judged


def name_findings(request: Request, scheduler: str, facts: ClusterFacts, settings: Settings) -> tuple[Finding, ...]:
    """Returns what is wrong with the names in the object of a request. `scheduler` is the object's."""
    kinds = _kinds_of(facts, settings)
    verdict = Verdict(scheduler=scheduler)
    return _names_judged(request.object or {}, ROOT, verdict, kinds, facts, settings).verdict.findings


def profile_of(podgang: PodGang, settings: Settings) -> Profile | None:
    """Returns the profile of a PodGang: by the record that Grove mirrors onto it, else as for a new workload."""
    if settings.forced is not None:
        return settings.profiles[settings.forced]
    return settings.profiles.get(text(podgang.labels.get(SCHEDULER_LABEL)) or settings.default)


def requests_in(
    manifest: Manifest, judged: Container[tuple[str, str]], at: FieldPath = ROOT, now: datetime | None = None
) -> Iterator[tuple[Request, FieldPath]]:
    """Yields a creation request for each object with rules, or the own request of a review, and its place. `judged` are
    the groups and kinds that have rules, `now` is the time of the requests.
    """
    for raw, place in objects_in(manifest, at):
        if (judged_request := _request(raw, place, judged, now)) is not None:
            yield judged_request


def workload_kinds(settings: Settings) -> frozenset[tuple[str, str]]:
    return _JUDGED | settings.kinds.views.keys()


def objects_in(manifest: Manifest, at: FieldPath = ROOT) -> Iterator[tuple[Manifest, FieldPath]]:
    """Yields each object in a document, and its place: the items of a List, or the document itself."""
    kind, items = _word(manifest, "kind"), manifest.get("items")
    if not (kind.endswith("List") and isinstance(items, list)):
        yield manifest, at
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):
            # The items of a typed list may omit apiVersion and kind.
            typed = {"apiVersion": manifest.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
            yield from objects_in(typed, at / "items" / Item(index))


def _request(
    manifest: Manifest, at: FieldPath, judged: Container[tuple[str, str]], now: datetime | None
) -> tuple[Request, FieldPath] | None:
    kind = kind_of(manifest)
    if kind.kind == REVIEW:
        request = request_from(manifest, now)
        is_judged = request.kind[::2] in judged and request.object is not None
        return (request, at / "request" / "object") if is_judged else None
    if kind[::2] not in judged:
        return None
    name, namespace = _names(kind, manifest)
    return Request("", "CREATE", kind, namespace, name, manifest, at=now), at


def kind_of(manifest: Manifest) -> Kind:
    """Returns group, version and kind of a manifest; empty where they are missing."""
    group, _, version = _word(manifest, "apiVersion").rpartition("/")
    return Kind(group, version, _word(manifest, "kind"))


def _names(kind: Kind, manifest: Manifest) -> tuple[str, str]:
    """Returns name and namespace for reports, without checking them; a cluster-scoped object has no namespace."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name = _word(metadata, "name") or _word(metadata, "generateName")
    namespaced = _scopes().get(kind[::2], bool(kind.kind) and not is_cluster_scoped(kind.kind))
    return name, (_word(metadata, "namespace") or "default") if namespaced else ""


@cache
def _scopes() -> dict[tuple[str, str], bool]:
    """Returns whether the objects of each kind that is read or judged have a namespace."""
    backends = [backend(backend.settings_model()) for backend in installed_backends().values()]
    read = (projection.resource for backend in backends for projection in backend.projections)
    resources = (*read, *(projection.resource for projection in (*KUEUE_PROJECTIONS, *EVERY_GENERAL, WORKLOADS)))
    judged = {kind[:2]: kind.namespaced for backend in backends for kind in backend.judged_in_files}
    return {resource.api.group_kind: resource.namespaced for resource in resources} | judged


def _word(holder: Manifest, key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def _judgement(request: Request, at: FieldPath, facts: ClusterFacts, settings: Settings) -> Judgement:
    is_podgang = request.kind.kind == "PodGang"
    verdict = _podgang(request, facts, settings) if is_podgang else _admitted(request, facts, settings)
    if verdict.unjudged:
        verdict = replace(verdict, unjudged=add_remedies(verdict.unjudged, facts))
    is_workload = decision.admission_of(request.kind[::2], settings) is not None
    return Judgement(request.kind.kind, request.namespace, request.name, at, verdict, is_workload=is_workload)


def _admitted(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    # Before mutation: the record would hide what chose the scheduler, and what `settings.forced` overrides.
    notes = override_notes(request, facts, settings)
    if notes and request.kind[::2] == POD:
        name_scheduler_in_member(request.object or {}, settings.forced, settings.kinds)
    new = request.operation == "CREATE" and decision.admission_of(request.kind[::2], settings) is not None
    judged = admission.validate(request, facts, settings) if new else None
    mutated = admission.mutate(request, facts, settings)
    judged = judged or admission.validate(request, facts, settings)
    all_notes = (*notes, *stock_runtime_notes(request, facts), *mutated.notes, *judged.notes)
    if mutated.scheduler is None and mutated.notes and _is_opted_in_pod(request, settings):
        remedy = "give the workload that made it too, and the label or the profile that it lacks"
        judged = replace(judged, omission=Omission(LABELS, OmissionReason.POD_LEFT, mutated.notes[0], remedy))
    if judged.scheduler not in {*settings.profiles, OPTED_OUT}:
        # A name that is no scheduler's judges nothing.
        judged = replace(judged, scheduler=None)
    return replace(judged, patch=mutated.patch, notes=all_notes)


def _is_opted_in_pod(request: Request, settings: Settings) -> bool:
    """Returns whether the request is about a pod that says itself that it is in a gang of Grove's or Rollcall's."""
    if request.kind[::2] == POD:
        # The rules report what cannot be read.
        with suppress(Malformed):
            pod = Pod(request.object or {}, request.namespace)
            return pod.podgang is not None or text(pod.template.labels.get(SCHEDULER_LABEL)) in settings.profiles
    return False


def _kinds_of(facts: ClusterFacts, settings: Settings) -> _Kinds:
    described_kinds = {(api.group, api.kind) for api in facts.field_names or ()}
    return _Kinds(workload_kinds(settings) | settings.judging.keys(), _read_kinds() | described_kinds)


@cache
def _read_kinds() -> frozenset[tuple[str, str]]:
    """Returns the kinds of Kueue, and those that some backend reads: they are known even if no rule judges them."""
    of_backends = (read for backend in installed_backends().values() for read in backend.projections)
    apis = (read.resource.api for read in (*of_backends, *KUEUE_PROJECTIONS, WORKLOADS))
    return frozenset((api.group, api.kind) for api in apis)


def _names_judged(
    raw: Manifest, at: FieldPath, verdict: Verdict, kinds: _Kinds, facts: ClusterFacts, settings: Settings
) -> Judgement:
    name, namespace = _names(kind_of(raw), raw)
    judgement = Judgement(kind_of(raw).kind, namespace, name, at, verdict, has_rules=False)
    return _add_names(raw, judgement, kinds, facts, settings)


def _add_names(
    raw: Manifest, judgement: Judgement, kinds: _Kinds, facts: ClusterFacts, settings: Settings
) -> Judgement:
    """Returns the judgement with what is wrong with the names that admission did not judge."""
    kind = kind_of(raw)
    fields = (facts.field_names or {}).get(Api(*kind))
    pods = (facts.field_names or {}).get(PODS.api)
    shape = settings.kinds.declaration_of(kind[::2], raw)
    declared = shape is not None and kind.version in shape.versions
    every = AnyObject(kind, raw, fields, kinds.judged, kinds.described, _templates(kind, raw, settings), pods, declared)
    admitted = judgement.has_rules and kind.kind != "PodGang"
    subjects = (Subject.MANIFEST,) if admitted else (Subject.KEYS, Subject.MANIFEST)
    verdict = judge_names(judgement.verdict, every, judgement.namespace, facts, settings, *subjects)
    if verdict.unjudged:
        verdict = replace(verdict, unjudged=add_remedies(verdict.unjudged, facts))
    return replace(judgement, verdict=verdict)


def _templates(kind: Kind, raw: Manifest, settings: Settings) -> tuple[PodTemplate, ...]:
    try:
        return tuple(template for template, _ in settings.kinds.templates_in(kind.group, kind.kind, raw))
    except Malformed:
        return ()


def _apply_exceptions(
    raw: Manifest, judgement: Judgement, facts: ClusterFacts, settings: Settings, now: datetime | None
) -> Judgement:
    """Returns the judgement as the exceptions of its namespace change it. Those of a review were applied with its own
    request, and an object that cannot be read was refused for that.
    """
    kind = kind_of(raw)
    if kind.kind == REVIEW or not judgement.verdict.findings:
        return judgement
    request = Request("", "CREATE", kind, judgement.namespace, judgement.name, raw, at=now)
    with suppress(Malformed):
        return replace(judgement, verdict=apply_exceptions(judgement.verdict, request, facts, settings))
    return judgement


def _podgang(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    try:
        podgang = PodGang(request.object or {}, request.namespace)
        profile = profile_of(podgang, settings)
        if profile is None:
            name = shown(text(podgang.labels.get(SCHEDULER_LABEL)) or "")
            why = f"its scheduler {name} has no profile here, so it is not changed"
            remedy = f"add the profile {name} to the configuration, or judge it for another with --scheduler"
            return Verdict(omission=Omission(LABELS / SCHEDULER_LABEL, OmissionReason.NO_PROFILE, why, remedy))
        try:
            gang_objects(podgang, shown_record(podgang, profile, facts), profile, facts)
        except Inexpressible as refusal:
            return Verdict(not refusal.findings, profile.name, refusal.findings, refusal.unjudged)
        return Verdict(scheduler=profile.name)
    except Malformed:
        return decision.malformed(request, settings)
