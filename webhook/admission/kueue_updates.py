"""Updates of opted-in workloads that Kueue makes: it resumes and suspends them, and restores their pod templates.

They must never be refused. The Workload stays admitted and holds its quota, while Kueue repeats the update for ever.
Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`Merge`, `RestorePodSpec`), pkg/controller/jobframework.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.config.settings import Settings
from webhook.model.admission_request import Request
from webhook.model.kueue.keys import GROUP, MANAGER, MIN_PARALLELISM
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.model.users import KUEUE_CONTROLLERS

# What Kueue changes in the spec of a pod template.
_OF_PODS = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
# The counts that partial admission changes.
_COUNTS = frozenset({"parallelism", "completions"})
_TEMPLATES = ("template", "leaderTemplate", "workerTemplate")


def is_kueues(request: Request, settings: Settings) -> bool:
    """Return whether Kueue makes this update, by its user, or whether the update changes only what Kueue changes."""
    if request.operation != "UPDATE" or request.old is None:
        return False
    if request.user in KUEUE_CONTROLLERS or request.user in settings.tenancy.exempt_users:
        return True
    try:
        old, new = request.old, request.object or {}
        # A running Job keeps its counts.
        counted = not (_is_suspended(old) or _is_suspended(new))
        return _users(old, counted=counted) == _users(new, counted=counted)
    except Malformed:
        return False


def _is_suspended(manifest: Manifest) -> bool:
    return mapping(manifest.get("spec")).get("suspend") is True


def _users(manifest: Manifest, *, counted: bool) -> Manifest:
    """Return what a user has written in a workload: everything but the fields of Kueue and of the API server.
    `counted`: whether its numbers of pods are the user's even with partial admission.
    """
    metadata = mapping(manifest.get("metadata"))
    spec = _without(mapping(manifest.get("spec")), {"suspend"})
    if not counted and MIN_PARALLELISM in mapping(metadata.get("annotations")):
        spec = _without(spec, _COUNTS)
    if "runtimePatches" in spec:
        spec["runtimePatches"] = [
            one for one in map(mapping, sequence(spec["runtimePatches"])) if not _is_kueues_patch(one)
        ]
    if "replicatedJobs" in spec:
        spec["replicatedJobs"] = [_replicated(mapping(one)) for one in sequence(spec["replicatedJobs"])]
    if "leaderWorkerTemplate" in spec:
        spec["leaderWorkerTemplate"] = _with_templates(mapping(spec["leaderWorkerTemplate"]))
    own = {field: mapping(metadata.get(field)) for field in ("labels", "annotations")}
    return {"metadata": {**own, "owners": metadata.get("ownerReferences")}, "spec": _with_templates(spec)}


def _is_kueues_patch(patch: Mapping[str, Any]) -> bool:
    """Return whether a patch of a TrainJob's runtime has only what Kueue writes. Any user may call it Kueue's."""
    if patch.get("manager") != MANAGER or not patch.keys() <= {"manager", "time", "trainingRuntimeSpec"}:
        return False
    spec = _only(mapping(patch.get("trainingRuntimeSpec")), "template", "spec")
    if spec is None or not spec.keys() <= {"replicatedJobs"}:
        return False
    return all(_is_kueues_job(mapping(one)) for one in sequence(spec.get("replicatedJobs")))


def _is_kueues_job(raw: Mapping[str, Any]) -> bool:
    template = _only(_without(raw, {"name"}), "template", "spec", "template")
    return template is not None and _template(template) == _template({})


def _only(holder: Mapping[str, Any], *fields: str) -> Mapping[str, Any] | None:
    """Return what is at the path of these fields; None if there is anything beside the path."""
    for field in fields:
        if not holder.keys() <= {field}:
            return None
        holder = mapping(holder.get(field))
    return holder


def _replicated(raw: Mapping[str, Any]) -> Manifest:
    job = mapping(raw.get("template"))
    return {**raw, "template": {**job, "spec": _with_templates(mapping(job.get("spec")))}}


def _with_templates(holder: Mapping[str, Any]) -> Manifest:
    """Return what holds pod templates, each without what Kueue writes in it."""
    found = dict(holder)
    for field in _TEMPLATES:
        if holder.get(field) is not None:
            found[field] = _template(mapping(holder[field]))
    return found


def _template(raw: Mapping[str, Any]) -> Manifest:
    metadata = mapping(raw.get("metadata"))
    marks = {"labels": _marks(metadata, "labels"), "annotations": _marks(metadata, "annotations")}
    return {**raw, "metadata": {**metadata, **marks}, "spec": _without(mapping(raw.get("spec")), _OF_PODS)}


def _marks(metadata: Mapping[str, Any], field: str) -> Manifest:
    return {key: value for key, value in mapping(metadata.get(field)).items() if not key.startswith(f"{GROUP}/")}


def _without(holder: Mapping[str, Any], fields: Iterable[str]) -> Manifest:
    left = frozenset(fields)
    return {key: value for key, value in holder.items() if key not in left}
