"""The decision on one request, without I/O: a request, facts and settings in, a verdict out. The server and the
commands call only this.

* Workload (`webhook.admission.workload_admission`): `mutate` chooses its scheduler at CREATE and records it. `validate`
  judges it by the general rules and by the rules of its backend.
* Pod of a gang (`webhook.admission.pod_admission`): `mutate` finds the record of its workload and prepares the pod for
  that scheduler. `validate` judges the prepared pod.
* Gang object of another program, and scale of a PodClique or a scaling group (`webhook.admission.object_admission`):
  `validate` judges it.
* Every other request is allowed.

`request_from` parses the AdmissionReview (k8s.io/api/admission/v1; v1beta1 has the same fields). `required_facts`
lists what a decision needs and the caches lack: caches are milliseconds behind the cluster, and are empty when a
server starts. `shadow_answer` says whether another scheduler or configuration would have admitted the workload; it
never changes the object, which it shares with the real decision.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from copy import copy
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from heapq import nsmallest
from typing import Any, NamedTuple

from webhook.admission.object_admission import add_findings, changes_fields_read, validate_object, validate_scale
from webhook.admission.opted_in_admission import OptedInWorkloads
from webhook.admission.pod_admission import mutate_pod, validate_pod
from webhook.admission.workload_admission import POD_CLIQUE_SETS, WorkloadAdmission, apply_exceptions
from webhook.config.settings import SHAPE_BOUND, Settings, Shadow
from webhook.errors import ReviewError, TooManyParts
from webhook.model import grove
from webhook.model.admission_request import ALLOWED, MAX_USER_CHARACTERS, OPERATIONS, Kind, Request, Verdict
from webhook.model.any_object import AnyObject, marks_of
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import LABELS, ROOT, FieldPath, Item
from webhook.model.findings import Action, shown
from webhook.model.keys import Needed
from webhook.model.known_kinds import JOB_SETS, POD, TRAIN_JOBS
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.model.workload_record import OPTED_OUT, SCALE, SCHEDULER_LABEL
from webhook.validators.api_names import are_unremarkable
from webhook.validators.gang_scheduler import Choice, namespace_choice
from webhook.validators.registry import Context, RuleOutcome, Subject, run_each
from webhook.validators.wrong_types import UnreadableObject, declared_types
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.trainjob import TrainJob, train_job_of
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds
from webhook.workloads.workload_shape import ShapeScope

GROUP = "admission.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
KIND = "AdmissionReview"
# A Kubernetes uid has 36 characters, and a name at most 253. All of these are sent back, logged and traced.
MAX_TEXT_CHARACTERS = 1000


def request_from(review: object, now: datetime | None = None) -> Request:
    """Returns the request of an AdmissionReview that came at `now`. Raises `ReviewError` with a one-line reason."""
    if not isinstance(review, dict):
        raise ReviewError("the body is not a JSON object")
    if review.get("kind") != KIND:
        raise ReviewError(f"kind is {shown(review.get('kind'))}, not {KIND}")
    if review.get("apiVersion") not in API_VERSIONS:
        raise ReviewError(f"apiVersion is {shown(review.get('apiVersion'))}, not one of {', '.join(API_VERSIONS)}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise ReviewError("request is missing")
    operation = _word(request, "operation")
    if operation not in OPERATIONS:
        raise ReviewError(f"request.operation is {shown(operation)}, not one of {', '.join(OPERATIONS)}")
    kind = request.get("kind")
    if not isinstance(kind, dict):
        raise ReviewError("request.kind is missing")
    old = _object(request, "oldObject", needed=operation == "UPDATE")
    return Request(
        uid=_word(request, "uid"),
        operation=operation,
        kind=Kind(
            _text(kind, "group", "request.kind"),
            _text(kind, "version", "request.kind"),
            _word(kind, "kind", "request.kind"),
        ),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        object=_object(request, "object", needed=operation in {"CREATE", "UPDATE"}),
        # An API server sends none at CREATE: only a forged review has one.
        old=None if operation == "CREATE" else old,
        subresource=_text(request, "subResource"),
        resource=_resource(request),
        user=_text(_object(request, "userInfo") or {}, "username", "request.userInfo", most=None)[:MAX_USER_CHARACTERS],
        at=now,
    )


def _text(holder: dict[str, Any], key: str, path: str = "request", most: int | None = MAX_TEXT_CHARACTERS) -> str:
    value = holder.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReviewError(f"{path}.{key} is {shown(value)}, not a string")
    if most is not None and len(value) > most:
        raise ReviewError(f"{path}.{key} has {len(value)} characters, more than {most}")
    return value


def _word(holder: dict[str, Any], key: str, path: str = "request") -> str:
    value = _text(holder, key, path)
    if not value:
        raise ReviewError(f"{path}.{key} is missing")
    return value


def _resource(request: dict[str, Any]) -> str:
    """Returns the plural of the kind. It says only what a Scale is of, so a review without it can be answered."""
    resource = request.get("resource")
    plural = resource.get("resource") if isinstance(resource, dict) else None
    return plural if isinstance(plural, str) and len(plural) <= MAX_TEXT_CHARACTERS else ""


def _object(request: dict[str, Any], key: str, *, needed: bool = False) -> Manifest | None:
    value = request.get(key)
    if value is None:
        if needed:
            raise ReviewError(f"request.{key} is missing")
        return None
    if not isinstance(value, dict):
        raise ReviewError(f"request.{key} is {shown(value)}, not an object")
    return value


# No gang comes near. A stored object has at most 1.5 MiB, so with their pod templates it has at most 15,000 parts.
MOST_PARTS = 10_000
# In a path: every entry of the list before it.
_EACH = "*"
# By group and kind, the lists below `spec` whose entries are parts.
_LISTS: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    (grove.GROUP, "PodCliqueSet"): (("template", "cliques"), ("template", "podCliqueScalingGroups")),
    (JOB_SETS.api.group, JOB_SETS.api.kind): (("replicatedJobs",),),
    (TRAIN_JOBS.api.group, TRAIN_JOBS.api.kind): (
        ("runtimePatches",),
        ("runtimePatches", _EACH, "trainingRuntimeSpec", "template", "spec", "replicatedJobs"),
    ),
}


def require_few_parts(request: Request, kinds: WorkloadKinds) -> None:
    """Raises `TooManyParts` for a workload with more than `MOST_PARTS` parts of one sort, stored or new."""
    kind = request.kind[::2]
    paths = _LISTS.get(kind, ())
    for manifest in filter(None, (request.object, request.old)):
        for path in paths:
            number = _entries(manifest.get("spec"), path)
            if number > MOST_PARTS:
                raise TooManyParts(".".join(("spec", *path)), number, MOST_PARTS)
        shape = kinds.declaration_of(kind, manifest)
        for shape_path in () if shape is None else shape.lists:
            try:
                number = sum(1 for _ in shape_path.values(ShapeScope(manifest)))
            except Malformed:
                # The decision itself says what is wrong with the object.
                continue
            if number > MOST_PARTS:
                raise TooManyParts(str(shape_path), number, MOST_PARTS)


def _entries(value: Any, path: tuple[str, ...]) -> int:
    for place, step in enumerate(path):
        if step == _EACH:
            return sum(_entries(entry, path[place + 1 :]) for entry in value) if isinstance(value, list) else 0
        value = value.get(step) if isinstance(value, dict) else None
    # The decision itself says what is wrong with an object of other types.
    return len(value) if isinstance(value, list) else 0


# The most facts that are read live for one verdict at a time.
MOST_IN_DOUBT = 8


def required_facts(
    request: Request, facts: ClusterFacts, doubted: Container[str] = frozenset(), kinds: WorkloadKinds = PYTHON_KINDS
) -> tuple[Needed, ...]:
    """Returns what must be read before `request` is decided: nothing, for almost every request. `doubted` are the parts
    of the facts whose caches are not updated at the moment; `kinds` are those of opted-in workloads.
    """
    raw = request.object
    if raw is None or request.subresource:
        return ()
    group, _, kind = request.kind
    try:
        if kind == "Pod" and not group and request.operation == "CREATE":
            return _needed_for_pod(raw, request, facts, doubted, kinds)
        if kind == "PodCliqueSet" and group == grove.GROUP:
            return _needed_for_set(raw, request, facts, doubted)
        view = kinds.views.get((group, kind)) if request.operation == "CREATE" else None
        if view is not None:
            return _needed_for_opted_in(view(raw, request.namespace), facts, doubted)
    except Malformed:
        # The decision itself reports what is wrong with the object.
        pass
    return ()


def doubtful_facts(verdict: Verdict) -> tuple[Needed, ...]:
    """Returns what must be read before `verdict` is answered: facts that, if missing or stale, cause or hide a refusal.
    At most `MOST_IN_DOUBT` are returned: an object may name thousands, and one that is really missing is enough to
    refuse it.
    """
    refusals = (finding for finding in verdict.findings if finding.action is Action.DENY or finding.hides_more)
    missing = {finding.absent for finding in refusals if finding.absent is not None}
    return tuple(nsmallest(MOST_IN_DOUBT, missing, key=str))


def _needed_for_pod(
    raw: Manifest, request: Request, facts: ClusterFacts, doubted: Container[str], kinds: WorkloadKinds
) -> tuple[Needed, ...]:
    pod = Pod(raw, request.namespace)
    if pod.long_label is not None:
        return ()
    if pod.podgang is None:
        place = kinds.place_of(pod) if SCHEDULER_LABEL in pod.template.labels else None
        if place is None:
            return ()
        intermediate = () if place.role_place is None else _lacking(facts, place.role_place.workload, doubted)
        return (*_lacking(facts, place.workload, doubted), *intermediate)
    if pod.podclique is None or pod.workload is None:
        return ()
    return _lacking(facts, Needed("pod_clique_sets", (pod.namespace, pod.workload)), doubted)


def _needed_for_set(
    raw: Manifest, request: Request, facts: ClusterFacts, doubted: Container[str]
) -> tuple[Needed, ...]:
    if request.operation == "CREATE":
        # The labels of the namespace choose the scheduler, and the choice is permanent.
        return _lacking(facts, Needed("namespaces", request.namespace), doubted)
    before, now = (
        mapping(mapping(mapping(manifest).get("metadata")).get("labels")).get(SCHEDULER_LABEL)
        for manifest in (request.old, raw)
    )
    if before is None and now is not None and facts.bound_gangs is None:
        # A set that predates Rollcall is adopted, or gets back the record that it lost: allowed only while no pod is on
        # a node that was not prepared for that scheduler.
        return (Needed("bound_gangs", (request.namespace, request.name, now if isinstance(now, str) else "")),)
    return ()


def _needed_for_opted_in(workload: OptedInWorkload, facts: ClusterFacts, doubted: Container[str]) -> tuple[Needed, ...]:
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


def judge_keys(verdict: Verdict, request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Adds what is wrong with labels and annotations, unless a controller made the object of a judged template."""
    manifest = request.object or {}
    if are_unremarkable(marks_of(request.kind[::2], manifest)):
        return verdict
    any_object = AnyObject(request.kind, manifest)
    if any_object.is_controlled:
        return verdict
    return judge_names(verdict, any_object, request.namespace, facts, settings, Subject.KEYS)


def judge_names(
    verdict: Verdict,
    any_object: AnyObject,
    namespace: str,
    facts: ClusterFacts,
    settings: Settings,
    *subjects: Subject,
) -> Verdict:
    """Adds the findings of the rules about names, by the profile of the verdict's scheduler or the default one."""
    profile = settings.profiles.get(verdict.scheduler or "", settings.profiles[settings.default])
    ceiling = settings.ceiling(profile, facts, namespace)
    rules = [bound for subject in subjects for bound in profile.name_rules[subject][ceiling]]
    # These rules ask nothing about the scheduler, so its context need not be made.
    choice = Choice(profile.name, ROOT, settings.available)
    context: Context[None] = Context(
        facts, choice, {}, None, configured_keys=settings.configured_keys, kueue=settings.kueue
    )
    outcome = run_each(rules, context, any_object)
    if not (outcome.findings or outcome.unjudged):
        return verdict
    return add_findings(verdict, outcome.findings, outcome.unjudged)


_POD_CLIQUE_SET = (grove.GROUP, "PodCliqueSet")
# For the rule about malformed objects, which reads only the object.
_NO_CONTEXT: Context[None] = Context(NO_FACTS, Choice("", ROOT), {}, None)


def admission_of(kind: tuple[str, ...], settings: Settings) -> WorkloadAdmission[Any] | None:
    """Returns the admission of a kind of workload, by group and kind; None for an object of another kind."""
    if kind == _POD_CLIQUE_SET:
        return POD_CLIQUE_SETS
    view = settings.kinds.views.get(kind)  # type: ignore[arg-type]
    return None if view is None else _opted_in(view)


@lru_cache(maxsize=1024)
def _opted_in(view: type[OptedInWorkload]) -> OptedInWorkloads:
    return OptedInWorkloads(view)


def validate(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Returns whether the object may be stored. Raises `TooManyParts`, and `FactsUnavailable` for a pod."""
    try:
        if _passes(request) or (_is_leaving(request) and not changes_fields_read(request, settings)):
            return ALLOWED
        if request.user and facts.field_names is not None:
            # What an API server sends has passed the schema of its kind, which may be of another release.
            facts = replace(facts, field_names=None)
        verdict = judge_keys(_validated(request, facts, settings), request, facts, settings)
        return apply_exceptions(verdict, request, facts, settings)
    except Malformed:
        return ALLOWED if _only_leaves(request) else malformed(request, settings)


def _validated(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    if (workloads := admission_of(request.kind[::2], settings)) is not None:
        require_few_parts(request, settings.kinds)
        return workloads.validate(request, facts, settings)
    if request.kind[::2] == POD and request.operation == "CREATE":
        return validate_pod(request, Pod(request.object or {}, request.namespace), facts, settings)
    if request.kind[::2] == SCALE:
        return validate_scale(request, facts, settings)
    return validate_object(request, facts, settings)


def mutate(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Changes the object for its scheduler. The verdict has the patch, which has already been applied to
    `request.object`. Never refuses: `validate` does that, on the result of the mutation. Raises `FactsUnavailable` if
    the workload of a pod could not be read, and `TooManyParts`.
    """
    try:
        # A manifest may set its own deletionTimestamp at CREATE. The API server drops it, but only after mutation. It
        # must not be a way to avoid the record.
        if _passes(request) or _is_leaving(request):
            return ALLOWED
        if (workloads := admission_of(request.kind[::2], settings)) is not None:
            require_few_parts(request, settings.kinds)
            return workloads.mutate(request, facts, settings)
        if request.kind[::2] == POD and request.operation == "CREATE":
            return mutate_pod(request.user, Pod(request.object or {}, request.namespace), facts, settings)
    except Malformed as error:
        return Verdict(notes=(f"left as it is: {error}",))
    return ALLOWED


def malformed(request: Request, settings: Settings) -> Verdict:
    """Returns a finding for every field of the wrong type. In a cluster the API server refuses such an object."""
    # Group and kind come from the request, because the object may not have them.
    kind = request.kind[::2]
    declared = settings.kinds.declaration_of(kind, request.object or {})
    shape = settings.shape_of(kind) if declared is None else declared_types(declared)
    unreadable = UnreadableObject(kind, request.object or {}, shape, declared is not None)
    outcome = RuleOutcome()
    for bound in SHAPE_BOUND:
        outcome.add(bound, bound.rule.check(unreadable, _NO_CONTEXT))
    return Verdict(False, None, tuple(outcome.findings))


def _passes(request: Request) -> bool:
    """Returns whether the request is not judged: deletions, connections, and subresources other than scales."""
    if request.operation not in {"CREATE", "UPDATE"} or request.object is None:
        return True
    return bool(request.subresource) and request.kind[::2] != SCALE


def _is_leaving(request: Request) -> bool:
    """Returns whether the stored object is being deleted. A deletionTimestamp in the new object may be forged."""
    old = request.old
    return old is not None and mapping(old.get("metadata")).get("deletionTimestamp") is not None


def _only_leaves(request: Request) -> bool:
    """Returns whether an unreadable object, such as one of a past schema, is being deleted and keeps its spec."""
    try:
        return _is_leaving(request) and (request.object or {}).get("spec") == mapping(request.old).get("spec")
    except Malformed:
        return False


class ShadowOutcome(StrEnum):
    """What a shadow would have answered: the label of a metric."""

    ALLOWED = "allowed"
    WARNED = "warned"
    DENIED = "denied"
    # No rule denies it, but a rule lacks the facts to judge.
    UNJUDGED = "unjudged"
    # There was no time to judge it.
    SKIPPED = "skipped"
    # Judging it failed: a fault of Rollcall.
    FAILED = "failed"


class ShadowAnswer(NamedTuple):
    """The answer of one shadow. `rules` are the ids of the rules that it rests on, sorted."""

    would: ShadowOutcome
    rules: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.would}: {','.join(self.rules)}" if self.rules else str(self.would)


def is_shadowed(request: Request, verdict: Verdict, settings: Settings) -> bool:
    """Returns whether shadows judge what `verdict` is about: workloads for which a scheduler is chosen."""
    return verdict.scheduler not in {None, OPTED_OUT} and admission_of(request.kind[::2], settings) is not None


def shadow_answer(
    shadow: Shadow,
    request: Request,
    facts: ClusterFacts,
    settings: Settings,
    doubted: Container[str],
) -> ShadowAnswer:
    """Returns what `shadow` says of a mutated workload. `settings` are those of the real decision. A refusal that rests
    on a missing fact in one of the `doubted` parts counts as unjudged.
    """
    theirs, shadowed = shadow.settings, request
    if theirs.forced is None and request.operation == "CREATE":
        shadowed = replace(request, object=_unrecorded(request, facts, settings))
        mutate(shadowed, facts, theirs)
    return _read(validate(shadowed, facts, theirs), doubted)


def _read(verdict: Verdict, doubted: Container[str]) -> ShadowAnswer:
    denied = {denial.rule for denial in verdict.denials if denial.absent is None or denial.absent.part not in doubted}
    unjudged = {denial.rule for denial in verdict.denials} - denied | {unjudged.rule for unjudged in verdict.unjudged}
    if denied:
        return ShadowAnswer(ShadowOutcome.DENIED, tuple(sorted(denied)), tuple(sorted(unjudged)))
    if unjudged:
        return ShadowAnswer(ShadowOutcome.UNJUDGED, tuple(sorted(unjudged)), tuple(sorted(unjudged)))
    warned = sorted({warning.rule for warning in verdict.warnings})
    return ShadowAnswer(ShadowOutcome.WARNED, tuple(warned)) if warned else ShadowAnswer(ShadowOutcome.ALLOWED)


def _unrecorded(request: Request, facts: ClusterFacts, settings: Settings) -> Manifest:
    """Returns the new object without the labels that Rollcall has recorded, in containers that may be changed. Without
    managedFields, Rollcall wrote the label if it would choose the same scheduler again.
    """
    manifest = request.object or {}
    workloads: WorkloadAdmission[Any] | None = admission_of(request.kind[::2], settings)
    if workloads is None:
        return manifest
    workload = workloads.view(manifest, request.namespace)
    places = (LABELS, *(workload.marked_paths if isinstance(workload, OptedInWorkload) else ()))
    metadata = mapping(manifest.get("metadata"))
    recorded = mapping(metadata.get("labels")).get(SCHEDULER_LABEL)
    bare = _unshared(manifest, places, without=recorded)
    if managers := sequence(metadata.get("managedFields")):
        # Source: KEP-555, structured-merge-diff fieldpath/serialize.
        fields = (mapping(mapping(manager).get("fieldsV1")) for manager in managers)
        labels = (mapping(mapping(entry.get("f:metadata")).get("f:labels")) for entry in fields)
        by_author = any(f"f:{SCHEDULER_LABEL}" in entry for entry in labels)
    else:
        choice = workloads.choice_of(workloads.view(bare, request.namespace), None, facts, settings)
        by_author = choice is None or choice.scheduler != recorded
    return _unshared(manifest, places) if by_author else bare


def _unshared(manifest: Manifest, places: Iterable[FieldPath], *, without: object = None) -> Manifest:
    """Returns the manifest with new containers on the way to `places`, less a scheduler's label that is `without`."""
    root = copy(manifest)
    copied = {id(root)}
    for place in places:
        holder: Any = root
        for part in place.parts:
            key: Any = part.index if isinstance(part, Item) else part
            below = holder.get(key) if isinstance(holder, dict) else holder[key]
            if not isinstance(below, dict | list):
                break
            if id(below) not in copied:
                below = holder[key] = copy(below)
                copied.add(id(below))
            holder = below
        else:
            if isinstance(holder, dict) and without is not None and holder.get(SCHEDULER_LABEL) == without:
                del holder[SCHEDULER_LABEL]
    return root
