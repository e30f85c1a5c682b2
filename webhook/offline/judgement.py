"""Judge manifests from a file, without I/O: the code that `rollcall check` and `POST /check` share.

An object goes through the whole admission as if it were being created: mutated, then validated. An AdmissionReview is
judged with its own operation and old object. A PodGang is judged by whether its scheduler can express it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from webhook import admission
from webhook.admission import decision
from webhook.admission.review import KIND as REVIEW
from webhook.admission.review import request_from
from webhook.config.settings import Profile, Settings
from webhook.errors import Inexpressible
from webhook.model import grove
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.kubernetes_kinds import POD
from webhook.model.reading import Malformed, Manifest, text
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.facts import VIEWS
from webhook.model.workloads.podgang import PodGang
from webhook.offline.fact_supply import supplied
from webhook.offline.overridden import name_scheduler_in_member, overridden
from webhook.offline.stock_runtimes import assumed
from webhook.offline.translation import gang_objects, shown_record

_JUDGED = frozenset({(grove.GROUP, "PodCliqueSet"), (grove.SCHEDULER_GROUP, "PodGang"), ("", "Pod"), *VIEWS})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one object, and its place in the document (an item of a List, the object of a review)."""

    kind: str
    namespace: str
    name: str
    at: FieldPath
    verdict: Verdict


def judge(manifest: Manifest, facts: ClusterFacts, settings: Settings) -> Iterator[Judgement]:
    """Yield the judgement of each object in a document that has rules; other objects yield nothing.

    Changes the manifest as admission would. Raises `ReviewError` for a broken AdmissionReview.
    """
    for request, at in requests_in(manifest, judged=_JUDGED | settings.judging.keys()):
        yield _judgement(request, at, facts, settings)


def profile_of(podgang: PodGang, settings: Settings) -> Profile | None:
    """Return the profile of a PodGang: by the record that Grove mirrors onto it, else as for a new workload."""
    if settings.forced is not None:
        return settings.profiles[settings.forced]
    return settings.profiles.get(text(podgang.labels.get(SCHEDULER_LABEL)) or settings.default)


def requests_in(
    manifest: Manifest, at: FieldPath = ROOT, judged: Container[tuple[str, str]] = _JUDGED
) -> Iterator[tuple[Request, FieldPath]]:
    """Yield a creation request for each object in a document that has rules, and its place. For a review, yield its own
    request. `judged` are the groups and kinds that have rules.
    """
    kind = kind_of(manifest)
    if kind.kind == REVIEW:
        request = request_from(manifest)
        if request.kind[::2] in judged and request.object is not None:
            yield request, at / "request" / "object"
    elif kind.kind.endswith("List") and isinstance(manifest.get("items"), list):
        for index, item in enumerate(manifest["items"]):
            if isinstance(item, dict):
                # The items of a typed list may omit apiVersion and kind.
                typed = {"apiVersion": manifest.get("apiVersion"), "kind": kind.kind.removesuffix("List"), **item}
                yield from requests_in(typed, at / "items" / Item(index), judged)
    elif kind[::2] in judged:
        name, namespace = _names(manifest)
        yield Request("", "CREATE", kind, namespace, name, manifest), at


def kind_of(manifest: Manifest) -> Kind:
    """Return group, version and kind of a manifest; empty where they are missing."""
    group, _, version = _word(manifest, "apiVersion").rpartition("/")
    return Kind(group, version, _word(manifest, "kind"))


def _names(manifest: Manifest) -> tuple[str, str]:
    """Return name and namespace for reports. The rules check whether they are valid."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        return "", "default"
    return _word(metadata, "name") or _word(metadata, "generateName"), _word(metadata, "namespace") or "default"


def _word(holder: Manifest, key: str) -> str:
    found = holder.get(key)
    return found if isinstance(found, str) else ""


def _judgement(request: Request, at: FieldPath, facts: ClusterFacts, settings: Settings) -> Judgement:
    if request.kind.kind == "PodGang":
        verdict = _podgang(request, facts, settings)
    else:
        verdict = _admitted(request, facts, settings)
    if verdict.unjudged:
        verdict = replace(verdict, unjudged=supplied(verdict.unjudged, facts))
    return Judgement(request.kind.kind, request.namespace, request.name, at, verdict)


def _admitted(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    # Before mutation: the record would hide what chose the scheduler, and what `settings.forced` overrides.
    notes = overridden(request, facts, settings)
    if notes and request.kind[::2] == POD:
        name_scheduler_in_member(request.object or {}, settings.forced)
    new = request.operation == "CREATE" and request.kind[::2] in decision.WORKLOADS
    judged = admission.validate(request, facts, settings) if new else None
    mutated = admission.mutate(request, facts, settings)
    judged = judged or admission.validate(request, facts, settings)
    told = (*notes, *assumed(request, facts), *mutated.notes, *judged.notes)
    return replace(judged, patch=mutated.patch, notes=told)


def _podgang(request: Request, facts: ClusterFacts, settings: Settings) -> Verdict:
    try:
        podgang = PodGang(request.object or {}, request.namespace)
        profile = profile_of(podgang, settings)
    except Malformed:
        return decision.malformed(request, settings)
    if profile is None:
        return Verdict(notes=("its scheduler has no profile here; it is not changed",))
    try:
        gang_objects(podgang, shown_record(podgang, profile, facts), profile, facts)
    except Malformed:
        return decision.malformed(request, settings)
    except Inexpressible as refusal:
        return Verdict(not refusal.findings, profile.name, refusal.findings, refusal.unjudged)
    return Verdict(scheduler=profile.name)
