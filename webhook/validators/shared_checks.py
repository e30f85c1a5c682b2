"""Checks that the rules of several schedulers share.

They are about capabilities that a table refuses, kinds that the cluster lacks, and pods that are already in a gang;
about the gangs, the spare pods and the queues of a set; and about the names of queues and quotas in an opted-in
workload and its pod templates.

A label of the namespace demands that objects are created in order: `least_action` then denies a reference to an object
that does not exist yet. Else the reference only causes a warning, because the object may be created a moment later.

A list in an annotation may have tens of thousands of items, so `told` limits the faults that are reported. New faults
of an update come first. Of the old ones only those are reported that were reported before, so an update is never
blamed for them and cannot hide a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from webhook.model.capabilities import Capability, CapabilityTable, Use, has_spare_pods
from webhook.model.claims import claims_on
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Needed, ObjectKey
from webhook.model.known_objects import PodGangFacts, PodGangIndex, PodGangs
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import text
from webhook.validators.registry import Context, PodCliqueSetChange, Results
from webhook.workloads.opted_in_gang import has_foreign_gang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import TrainerJobSet


def unsupported(capability: Capability, table: CapabilityTable, context: Context[Any]) -> Results:
    """Yields one finding for each place that asks for a capability that `table` refuses, with the table's text."""
    support = table[capability]
    for use in context.uses.get(capability, ()):
        yield Finding(at=use.path, value=use.value, why=support.why, remedy=support.remedy)


def missing_apis(context: Context[Any]) -> Results:
    """Yields one finding for each kind or field that the chosen scheduler needs and the cluster is known to lack."""
    facts, served = context.facts, context.facts.apis
    for field in context.required_fields:
        if facts.lacks_field(field):
            why = f"this cluster's {field.api} has no spec.{field.name}, which came with {field.since}"
            remedy = "install a newer release of the scheduler with its CRDs, or choose another scheduler"
            yield Finding(context.choice.path, context.choice.scheduler, why, remedy, absent=Needed("spec_fields"))
    if served is None:
        return
    for api in context.required_apis:
        if api not in served:
            why = f"this cluster does not serve {api}, which the scheduler needs"
            remedy = "install the scheduler's CRDs, or choose another scheduler"
            yield Finding(context.choice.path, context.choice.scheduler, why, remedy, absent=Needed("apis"))


def foreign_memberships(pod: PodTemplate, context: Context[Any]) -> Results:
    """Yields one finding for each label or field in a template of a set that makes its pods members of another gang."""
    if context.workload is None:
        return
    for claim in claims_on(pod):
        why = f"it makes the pods members of another gang ({claim.system}), so they cannot join the gang of this set"
        remedy = "remove it from the template; Rollcall writes the membership when the pods are created"
        yield Finding(claim.path, claim.value, why, remedy)


def has_gangs(workload: PodCliqueSet, facts: ClusterFacts) -> bool | None:
    """Returns whether a PodGang of the set exists; None if that is unknown."""
    if facts.pod_gangs is None:
        return None
    return any(True for _ in gangs_of_set(workload, facts.pod_gangs))


def forbidden_move(change: PodCliqueSetChange, context: Context[Any], use: Use, where: str, what: str) -> Results:
    """Yields a forbidden change of where all pods of a set are (a queue, a quota), unless the set has no gang. `use` is
    the new value and its place, `where` says in words where the gangs are.
    """
    living = has_gangs(change.new, context.facts)
    if living is not False:
        why = where + ("" if living else ", and it is unknown whether any still exists")
        remedy = f"delete the PodCliqueSet and recreate it with the other {what}"
        yield Finding(use.path, use.value, why, remedy, forbidden=True)


def gangs_of_set(workload: PodCliqueSet, pod_gangs: Mapping[ObjectKey, PodGangFacts]) -> Iterable[ObjectKey]:
    """Returns the known PodGangs of a set."""
    indexed = pod_gangs if isinstance(pod_gangs, PodGangIndex) else PodGangs(pod_gangs)
    return indexed.gangs_of_set((workload.namespace, workload.name))


def spare_pods(workload: PodCliqueSet, why: str, remedy: str) -> Results:
    """Yields one finding for each clique that has, or may get, more pods than its minimum."""
    for member in workload.cliques:
        if has_spare_pods(member):
            place = member.path / "spec" / "minAvailable"
            yield Finding(at=place, value=member.min_available, why=why, remedy=remedy)


def unread_queues(context: Context[Any], scheduler: str, key: str) -> Results:
    """Yields one finding for each queue that a set names by another scheduler's key. This scheduler reads `key`."""
    for use in context.uses.get(Capability.QUEUE, ()):
        if use.path.parts[-1] != key:
            why = f"{scheduler} does not read this key, so the gang is not in that queue"
            yield Finding(use.path, use.value, why, f"name the queue by {key} as well")


CREATION_ORDER_LABEL = "rollcall.dev/creation-order"
STRICT = "strict"


def least_action(context: Context[Any]) -> Action:
    """Returns the weakest action for an object that does not exist yet."""
    order = context.facts.namespace_label(context.namespace, CREATION_ORDER_LABEL)
    return Action.DENY if order == STRICT else Action.OFF


# At most this many new ones and this many old ones: they are enough to see what is wrong.
MOST_REPORTED = 16


def reported_items(wrong: Iterable[str], before: Iterable[str] = ()) -> Iterator[str]:
    """Yields the wrong items to report, each once. `before` are the wrong items of the object before the update."""
    old = dict.fromkeys(before)
    now = dict.fromkeys(wrong)
    yield from [item for item in now if item not in old][:MOST_REPORTED]
    yield from (item for item in list(old)[:MOST_REPORTED] if item in now)


# `labels` or `annotations`, and a key in it.
Key = tuple[str, str]


def name_uses(workload: OptedInWorkload, keys: Sequence[Key], of_pods: Sequence[Key]) -> list[Use]:
    """Returns the places that have a name, each with its name: first the workload's own, by one of `keys`, or where its
    operator takes the name from, then those of its templates, by one of `of_pods`, sorted by template name. Reordering
    the templates moves no finding. If something else makes the gang, what the operator reads counts first.
    """
    carried = [use for _, key in keys if (use := workload.carried(key)) is not None][:1]
    direct = list(_first(workload.labels, workload.annotations, METADATA, keys))
    uses = carried if carried and (not direct or has_foreign_gang(workload)) else direct
    templates = {part.place: part.template for part in workload.distinct_parts}
    for place in sorted(templates, key=lambda path: path.anchor):
        template = templates[place]
        uses += _first(template.labels, template.annotations, place / "metadata", of_pods)
    return uses


def first_name(workload: OptedInWorkload, keys: Sequence[Key], of_pods: Sequence[Key]) -> str | None:
    """Returns the name that counts: the workload's own; for a TrainJob's JobSet else the TrainJob's; else a
    template's.
    """
    above = name_uses(workload.train_job, keys, ()) if isinstance(workload, TrainerJobSet) else []
    return next(
        (use.value for use in (*name_uses(workload, keys, ()), *above, *name_uses(workload, (), of_pods))), None
    )


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
    """Yields one finding for each place whose name (a queue or a quota) differs from that of the first place. For a
    TrainJob's JobSet, also if its name differs from the TrainJob's.
    """
    uses = name_uses(workload, keys, of_pods)
    above = name_uses(workload.train_job, keys, ()) if isinstance(workload, TrainerJobSet) else []
    if not uses:
        return
    first = above[0] if above else uses[0]
    where = workload.where(first.path) if isinstance(workload, TrainerJobSet) and not above else str(first.path)
    for use in uses:
        if use.value != first.value:
            why = f"all pods of a workload must be in the same {what}, and {where} says {shown(first.value)}"
            yield Finding(use.path, use.value, why, remedy)
