"""Decide one request, without I/O: a request, facts and settings in, a verdict out. The server and the commands call
only this.

* Workload (`webhook.admission.workload`): `mutate` chooses its scheduler at CREATE and records it. `validate` judges it
  by the general rules and by the rules of its backend.
* Pod of a gang (`webhook.admission.pod`): `mutate` finds the record of its workload and prepares the pod for that
  scheduler. `validate` judges the prepared pod.
* Gang object of another program, and scale of a PodClique or a scaling group (`webhook.admission.gang_object`):
  `validate` judges it.
* Every other request is allowed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from webhook.admission.exceptions import with_exceptions
from webhook.admission.gang_object import rewritten, validate_object, validate_scale
from webhook.admission.names import with_keys
from webhook.admission.opted_in import OptedInWorkloads
from webhook.admission.pod import mutate_pod, validate_pod
from webhook.admission.pod_clique_set import POD_CLIQUE_SETS
from webhook.admission.size import require_few_parts
from webhook.admission.workload import WorkloadAdmission
from webhook.config.settings import SHAPE_BOUND, Settings
from webhook.model import grove
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.model.fields import ROOT
from webhook.model.kubernetes_kinds import POD
from webhook.model.reading import Malformed, mapping
from webhook.model.scale import SCALE
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.declared_types import declared_types
from webhook.validators.registry import Context, Outcome
from webhook.validators.selection import Choice
from webhook.validators.wrong_types import Unreadable

_POD_CLIQUE_SET = (grove.GROUP, "PodCliqueSet")
# For the rule about malformed objects, which reads only the object.
_NO_CONTEXT: Context[None] = Context(NOTHING_KNOWN, Choice("", ROOT), {}, None)


def admission_of(kind: tuple[str, ...], settings: Settings) -> WorkloadAdmission[Any] | None:
    """Return the admission of a kind of workload, by group and kind; None for an object of another kind."""
    if kind == _POD_CLIQUE_SET:
        return POD_CLIQUE_SETS
    view = settings.kinds.views.get(kind)  # type: ignore[arg-type]
    return None if view is None else _opted_in(view)


@lru_cache(maxsize=1024)
def _opted_in(view: type[OptedInWorkload]) -> OptedInWorkloads:
    return OptedInWorkloads(view)


def validate(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Return whether the object may be stored. Raises `TooManyParts`, and `FactsUnavailable` if the workload of a pod
    could not be read.
    """
    try:
        if _passes(request) or (_leaving(request) and not rewritten(request, settings)):
            return ALLOWED
        if request.user and facts.field_names is not None:
            # What an API server sends has passed the schema of its kind, which may be of another release.
            facts = replace(facts, field_names=None)
        verdict = with_keys(_validated(request, facts, settings), request, facts, settings)
        return with_exceptions(verdict, request, facts, settings)
    except Malformed:
        return ALLOWED if _only_leaves(request) else malformed(request, settings)


def _validated(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Return the verdict by the rules about that kind. Raises `Malformed` and `TooManyParts`."""
    if (workloads := admission_of(request.kind[::2], settings)) is not None:
        require_few_parts(request, settings.kinds)
        return workloads.validate(request, facts, settings)
    if request.kind[::2] == POD and request.operation == "CREATE":
        return validate_pod(request, Pod(request.object or {}, request.namespace), facts, settings)
    if request.kind[::2] == SCALE:
        return validate_scale(request, facts, settings)
    return validate_object(request, facts, settings)


def mutate(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Change the object for its scheduler. The verdict has the patch, which has already been applied to
    `request.object`.

    Never refuses: `validate` does that, on the result of the mutation. Raises `FactsUnavailable` if the workload of a
    pod could not be read, and `TooManyParts`.
    """
    try:
        # A manifest may set its own deletionTimestamp at CREATE. The API server drops it, but only after mutation. It
        # must not be a way to avoid the record.
        if _passes(request) or _leaving(request):
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
    """Return a finding for every field of the wrong type. In a cluster the API server refuses such an object by its
    schema.
    """
    # Group and kind come from the request, because the object may not have them.
    kind = request.kind[::2]
    declared = settings.kinds.declaration_of(kind, request.object or {})
    shape = settings.shape_of(kind) if declared is None else declared_types(declared)
    found = Unreadable(kind, request.object or {}, shape, declared is not None)
    outcome = Outcome()
    for bound in SHAPE_BOUND:
        outcome.add(bound, bound.rule.check(found, _NO_CONTEXT))
    return Verdict(False, None, tuple(outcome.findings))


def _passes(request: Request) -> bool:
    """Return whether the request is not judged: deletions, connections, and subresources other than scales."""
    if request.operation not in {"CREATE", "UPDATE"} or request.object is None:
        return True
    return bool(request.subresource) and request.kind[::2] != SCALE


def _leaving(request: Request) -> bool:
    """Return whether the stored object is being deleted. A deletionTimestamp in the new object may be forged."""
    old = request.old
    return old is not None and mapping(old.get("metadata")).get("deletionTimestamp") is not None


def _only_leaves(request: Request) -> bool:
    """Return whether an unreadable object, such as one of a past schema, is being deleted and keeps its spec."""
    try:
        return _leaving(request) and (request.object or {}).get("spec") == mapping(request.old).get("spec")
    except Malformed:
        return False
