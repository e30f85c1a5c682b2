"""The largest workloads that are judged. Rules keep some kilobytes for each part, and a tenant may send a hundred
thousand in a small body. No API server can store that many, but it asks the webhook first.
"""

from __future__ import annotations

from webhook.errors import TooManyParts
from webhook.model import grove
from webhook.model.admission_request import Request
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.model.workloads.kinds import JOB_SETS, TRAIN_JOBS

# A stored object has at most 1.5 MiB, and a part with its pod template takes at least a hundred bytes.
MOST_PARTS = 10_000
# By group and kind, the lists below `spec` whose entries are parts.
_LISTS: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    (grove.GROUP, "PodCliqueSet"): (("template", "cliques"), ("template", "podCliqueScalingGroups")),
    (JOB_SETS.api.group, JOB_SETS.api.kind): (("replicatedJobs",),),
    (TRAIN_JOBS.api.group, TRAIN_JOBS.api.kind): (("runtimePatches",),),
}


def require_few_parts(request: Request) -> None:
    """Raise `TooManyParts` for a workload with more than `MOST_PARTS` parts of one sort, stored or new."""
    for path in _LISTS.get(request.kind[::2], ()):
        for manifest in (request.object, request.old):
            number = _entries(manifest or {}, path)
            if number > MOST_PARTS:
                raise TooManyParts(".".join(("spec", *path)), number, MOST_PARTS)


def _entries(manifest: Manifest, path: tuple[str, ...]) -> int:
    try:
        holder = mapping(manifest.get("spec"))
        for step in path[:-1]:
            holder = mapping(holder.get(step))
        return len(sequence(holder.get(path[-1])))
    except Malformed:
        # The decision itself says what is wrong with the object.
        return 0
