"""What a shadow says of a workload that is being admitted, without I/O: whether another scheduler, or another
configuration, would have admitted it.

A workload is judged after its mutation, so it has the record of its scheduler. A scheduler as a shadow judges it as if
the record named that scheduler. Another configuration chooses a scheduler itself: at CREATE the workload is judged
without what Rollcall has recorded, and an update has the record that is stored. The object of the request is shared
with the real decision and never changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from copy import copy
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.admission.decision import admission_of, mutate, validate
from webhook.admission.workload import WorkloadAdmission
from webhook.config.settings import Settings, Shadow
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath, Item
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.record import OPTED_OUT, SCHEDULER_LABEL
from webhook.model.workloads.workload import OptedInWorkload

# The label as `managedFields` write it. Source: KEP-555, structured-merge-diff fieldpath/serialize.
_MANAGED = ("f:metadata", "f:labels", f"f:{SCHEDULER_LABEL}")


class Would(StrEnum):
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

    would: Would
    rules: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.would}: {','.join(self.rules)}" if self.rules else str(self.would)


def is_shadowed(request: Request, verdict: Verdict, settings: Settings) -> bool:
    """Return whether shadows judge what `verdict` is about: workloads for which a scheduler is chosen."""
    return verdict.scheduler not in {None, OPTED_OUT} and admission_of(request.kind[::2], settings) is not None


def shadow_answer(
    shadow: Shadow,
    request: Request,
    facts: ClusterFacts,
    settings: Settings,
    doubted: Container[str],
) -> ShadowAnswer:
    """Return what `shadow` says of a mutated workload. `settings` are those of the real decision. A refusal that rests
    on a missing fact in one of the `doubted` parts counts as unjudged.
    """
    theirs, asked = shadow.settings, request
    if theirs.forced is None and request.operation == "CREATE":
        asked = replace(request, object=_without_record(request, facts, settings))
        mutate(asked, facts, theirs)
    return _read(validate(asked, facts, theirs), doubted)


def _read(verdict: Verdict, doubted: Container[str]) -> ShadowAnswer:
    denied = {one.rule for one in verdict.denials if one.absent is None or one.absent.part not in doubted}
    unjudged = {one.rule for one in verdict.denials} - denied | {one.rule for one in verdict.unjudged}
    if denied:
        return ShadowAnswer(Would.DENIED, tuple(sorted(denied)), tuple(sorted(unjudged)))
    if unjudged:
        return ShadowAnswer(Would.UNJUDGED, tuple(sorted(unjudged)), tuple(sorted(unjudged)))
    warned = sorted({one.rule for one in verdict.warnings})
    return ShadowAnswer(Would.WARNED, tuple(warned)) if warned else ShadowAnswer(Would.ALLOWED)


def _without_record(request: Request, facts: ClusterFacts, settings: Settings) -> Manifest:
    """Return the new object without the labels that Rollcall has recorded, in containers that may be changed. Where the
    API server has not noted who wrote the label, Rollcall did if it would choose the same without it.
    """
    manifest = request.object or {}
    workloads: WorkloadAdmission[Any] | None = admission_of(request.kind[::2], settings)
    if workloads is None:
        return manifest
    workload = workloads.view(manifest, request.namespace)
    places = (LABELS, *(workload.marked_paths if isinstance(workload, OptedInWorkload) else ()))
    metadata = mapping(manifest.get("metadata"))
    recorded = mapping(metadata.get("labels")).get(SCHEDULER_LABEL)
    bare = _with_own(manifest, places, without=recorded)
    noted = _noted_author(metadata)
    if noted is None:
        choice = workloads.choice_of(workloads.view(bare, request.namespace), None, facts, settings)
        noted = choice is None or choice.scheduler != recorded
    return _with_own(manifest, places) if noted else bare


def _noted_author(metadata: Mapping[str, Any]) -> bool | None:
    """Return whether the author of a new object wrote the scheduler's label, as the API server has noted before it
    called webhooks; None if there are no notes.
    """
    managers = sequence(metadata.get("managedFields"))
    if not managers:
        return None
    return any(_manages_label(mapping(mapping(one).get("fieldsV1"))) for one in managers)


def _manages_label(fields: Mapping[str, Any]) -> bool:
    for step in _MANAGED[:-1]:
        fields = mapping(fields.get(step))
    return _MANAGED[-1] in fields


def _with_own(manifest: Manifest, places: Iterable[FieldPath], *, without: object = None) -> Manifest:
    """Return the manifest with containers of its own on the way to the labels at `places`; it shares the rest. A
    scheduler's label with the value `without` is left out.
    """
    root = copy(manifest)
    own = {id(root)}
    for place in places:
        holder: Any = root
        for part in place.parts:
            key: Any = part.index if isinstance(part, Item) else part
            below = holder.get(key) if isinstance(holder, dict) else holder[key]
            if not isinstance(below, dict | list):
                break
            if id(below) not in own:
                below = holder[key] = copy(below)
                own.add(id(below))
            holder = below
        else:
            if isinstance(holder, dict) and without is not None and holder.get(SCHEDULER_LABEL) == without:
                del holder[SCHEDULER_LABEL]
    return root
