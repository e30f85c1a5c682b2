"""Checks that several backends share: capabilities that a table refuses, kinds that the cluster lacks, pods that are
already in a gang, gangs and spare pods of a set, and queues that are for other schedulers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.model.capabilities import Capability, CapabilityTable, Use
from webhook.model.claims import claims_on
from webhook.model.disruption import has_spare_pods
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding
from webhook.model.keys import Needed, ObjectKey
from webhook.model.known_objects import PodGangFacts, PodGangIndex, PodGangs
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.registry import Change, Context, Results


def unsupported(capability: Capability, table: CapabilityTable, context: Context[Any]) -> Results:
    """One finding for each place that asks for a capability that `table` refuses, with the table's text."""
    support = table[capability]
    for use in context.uses.get(capability, ()):
        yield Finding(at=use.path, found=use.value, why=support.why, remedy=support.remedy)


def missing_apis(context: Context[Any]) -> Results:
    """One finding for each kind or field that the chosen scheduler needs and the cluster is known to lack."""
    facts, served = context.facts, context.facts.apis
    for wanted in context.required_fields:
        if facts.lacks_field(wanted):
            yield Finding(
                at=context.choice.path,
                found=context.choice.scheduler,
                why=f"this cluster's {wanted.api} has no spec.{wanted.name}, which came with {wanted.since}",
                remedy="install a newer release of the scheduler with its CRDs, or choose another scheduler",
                absent=Needed("spec_fields"),
            )
    if served is None:
        return
    for api in context.required_apis:
        if api not in served:
            yield Finding(
                at=context.choice.path,
                found=context.choice.scheduler,
                why=f"this cluster does not serve {api}, which the scheduler needs",
                remedy="install the scheduler's CRDs, or choose another scheduler",
                absent=Needed("apis"),
            )


def claimed(pod: PodTemplate, context: Context[Any]) -> Results:
    """One finding for each label or field in a template of a set that makes its pods members of another gang."""
    if context.workload is None:
        return
    for claim in claims_on(pod):
        yield Finding(
            at=claim.path,
            found=claim.value,
            why=f"it makes the pods members of another gang ({claim.system}), so they cannot join the gang of this set",
            remedy="remove it from the template; Rollcall writes the membership when the pods are created",
        )


def has_gangs(workload: PodCliqueSet, facts: ClusterFacts) -> bool | None:
    """Whether a PodGang of the set exists; None if that is unknown."""
    if facts.pod_gangs is None:
        return None
    return any(True for _ in gangs_of_set(workload, facts.pod_gangs))


def moved(change: Change, context: Context[Any], use: Use, where: str, what: str) -> Results:
    """A forbidden change of where all pods of a set are (a queue, a quota), unless the set has no gang. `use` is the
    new value and its place, `where` says in words where the gangs are.
    """
    living = has_gangs(change.new, context.facts)
    if living is not False:
        yield Finding(
            at=use.path,
            found=use.value,
            why=where + ("" if living else ", and it is unknown whether any still exists"),
            remedy=f"delete the PodCliqueSet and recreate it with the other {what}",
            forbidden=True,
        )


def gangs_of_set(workload: PodCliqueSet, known: Mapping[ObjectKey, PodGangFacts]) -> Iterable[ObjectKey]:
    """The known PodGangs of a set."""
    indexed = known if isinstance(known, PodGangIndex) else PodGangs(known)
    return indexed.of_set((workload.namespace, workload.name))


def spare_pods(workload: PodCliqueSet, why: str, remedy: str) -> Results:
    """One finding for each clique that has, or may get, more pods than its minimum."""
    for member in workload.cliques:
        if has_spare_pods(member):
            place = member.path / "spec" / "minAvailable"
            yield Finding(at=place, found=member.min_available, why=why, remedy=remedy)


def unread_queues(context: Context[Any], scheduler: str, key: str) -> Results:
    """One finding for each queue that a set names by another scheduler's key. This scheduler reads `key`."""
    for use in context.uses.get(Capability.QUEUE, ()):
        if use.path.parts[-1] != key:
            yield Finding(
                at=use.path,
                found=use.value,
                why=f"{scheduler} does not read this key, so the gang is not in that queue",
                remedy=f"name the queue by {key} as well",
            )
