"""Names (of a queue or a quota) in the labels and annotations of an opted-in workload and of its pod templates. Used by
the rules of several backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webhook.model.capabilities import Use
from webhook.model.fields import METADATA, FieldPath
from webhook.model.findings import Finding, shown
from webhook.model.reading import text
from webhook.model.workloads.gang import made_elsewhere
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload

# `labels` or `annotations`, and a key in it.
Key = tuple[str, str]


def named(workload: OptedInWorkload, keys: Sequence[Key], of_pods: Sequence[Key]) -> list[Use]:
    """The places that have a name, each with its name: first the workload's own, by one of `keys`, or where its
    operator takes the name from, then those of its templates, by one of `of_pods`, sorted by template name. Reordering
    the templates moves no finding. If something else makes the gang, what the operator reads counts first.
    """
    carried = [use for _, key in keys if (use := workload.carried(key)) is not None][:1]
    own = list(_first(workload.labels, workload.annotations, METADATA, keys))
    found = carried if carried and (not own or made_elsewhere(workload)) else own
    templates = {part.place: part.template for part in workload.distinct_parts}
    for place in sorted(templates, key=lambda one: one.anchor):
        template = templates[place]
        found += _first(template.labels, template.annotations, place / "metadata", of_pods)
    return found


def first_named(workload: OptedInWorkload, keys: Sequence[Key], of_pods: Sequence[Key]) -> str | None:
    """The name that counts: the workload's own; for a TrainJob's JobSet else the TrainJob's; else a template's."""
    above = named(workload.train_job, keys, ()) if isinstance(workload, MadeJobSet) else []
    return next((use.value for use in (*named(workload, keys, ()), *above, *named(workload, (), of_pods))), None)


def _first(
    labels: Mapping[str, Any], annotations: Mapping[str, Any], path: FieldPath, keys: Sequence[Key]
) -> Iterator[Use]:
    for holder, key in keys:
        name = (text((labels if holder == "labels" else annotations).get(key)) or "").strip()
        if name:
            yield Use(path / holder / key, name)
            return


def disagreeing(
    workload: OptedInWorkload, keys: Sequence[Key], of_pods: Sequence[Key], what: str, remedy: str
) -> Iterator[Finding]:
    """One finding for each place whose name (a queue or a quota) differs from that of the first place. For a TrainJob's
    JobSet, also if its name differs from the TrainJob's.
    """
    uses = named(workload, keys, of_pods)
    above = named(workload.train_job, keys, ()) if isinstance(workload, MadeJobSet) else []
    if not uses:
        return
    first = above[0] if above else uses[0]
    where = workload.where(first.path) if isinstance(workload, MadeJobSet) and not above else str(first.path)
    for use in uses:
        if use.value != first.value:
            yield Finding(
                at=use.path,
                found=use.value,
                why=f"all pods of a workload must be in the same {what}, and {where} says {shown(first.value)}",
                remedy=remedy,
            )
