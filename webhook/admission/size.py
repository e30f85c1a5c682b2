"""The largest workloads that are judged. Rules keep some kilobytes for each part, and a tenant may send a hundred
thousand in a small body. An API server asks the webhook before it refuses an object that is too large to store.
"""

from __future__ import annotations

from typing import Any

from webhook.errors import TooManyParts
from webhook.model import grove
from webhook.model.admission_request import Request
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.kinds import JOB_SETS, TRAIN_JOBS
from webhook.model.workloads.shapes.kinds import WorkloadKinds
from webhook.model.workloads.shapes.path import Scope, ShapePath

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
    """Raise `TooManyParts` for a workload with more than `MOST_PARTS` parts of one sort, stored or new."""
    kind = request.kind[::2]
    paths = _LISTS.get(kind, ())
    for manifest in filter(None, (request.object, request.old)):
        for path in paths:
            number = _entries(manifest.get("spec"), path)
            if number > MOST_PARTS:
                raise TooManyParts(".".join(("spec", *path)), number, MOST_PARTS)
        shape = kinds.declaration_of(kind, manifest)
        for each in () if shape is None else shape.lists:
            _require_few(each, manifest)


def _require_few(path: ShapePath, manifest: Manifest) -> None:
    try:
        number = sum(1 for _ in path.values(Scope(manifest)))
    except Malformed:
        # The decision itself says what is wrong with the object.
        return
    if number > MOST_PARTS:
        raise TooManyParts(str(path), number, MOST_PARTS)


def _entries(value: Any, path: tuple[str, ...]) -> int:
    """The number of entries in the lists at `path`."""
    for place, step in enumerate(path):
        if step == _EACH:
            return sum(_entries(one, path[place + 1 :]) for one in value) if isinstance(value, list) else 0
        value = value.get(step) if isinstance(value, dict) else None
    # The decision itself says what is wrong with an object of other types.
    return len(value) if isinstance(value, list) else 0
