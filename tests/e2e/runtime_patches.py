"""Applies the runtimePatches of a TrainJob to its runtime: the metadata and the few fields that Trainer allows."""

from __future__ import annotations

from copy import deepcopy

from tests.e2e.control_plane import Manifest

# Lists in a pod's spec whose entries are merged by name; those of the other fields are added.
_BY_NAME = frozenset({"containers", "initContainers", "volumes", "imagePullSecrets", "schedulingGates"})


def patched_template(runtime: Manifest, train_job: Manifest) -> Manifest:
    """The spec of a runtime with the patches of a TrainJob, one after the other."""
    made = deepcopy(runtime)
    for patch in train_job["spec"].get("runtimePatches", ()):
        template = patch.get("trainingRuntimeSpec", {}).get("template", {})
        _merge_metadata(made["template"], template)
        jobs = {job["name"]: job["template"] for job in made["template"]["spec"]["replicatedJobs"]}
        for one in template.get("spec", {}).get("replicatedJobs", ()):
            job, changed = jobs[one["name"]], one.get("template", {})
            _merge_metadata(job, changed)
            pod, other = job["spec"]["template"], changed.get("spec", {}).get("template", {})
            _merge_metadata(pod, other)
            _merge(pod["spec"], other.get("spec", {}))
    return made


def _merge_metadata(target: Manifest, patch: Manifest) -> None:
    for field in ("labels", "annotations"):
        if keys := patch.get("metadata", {}).get(field):
            target.setdefault("metadata", {}).setdefault(field, {}).update(keys)


def _merge(target: Manifest, patch: Manifest) -> None:
    for field, value in patch.items():
        if isinstance(value, dict):
            _merge(target.setdefault(field, {}), value)
        elif field in _BY_NAME:
            known = {entry["name"]: entry for entry in target.setdefault(field, [])}
            for entry in value:
                if entry["name"] in known:
                    _merge(known[entry["name"]], entry)
                else:
                    target[field].append(deepcopy(entry))
        elif isinstance(value, list):
            target[field] = [*target.get(field, ()), *value]
        else:
            target[field] = value
