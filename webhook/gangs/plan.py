"""The objects that a gang needs in the cluster, or why Rollcall skips the gang (no I/O)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from webhook.admission.pod import completed, record_with_train_job
from webhook.backends.inexpressible import inexpressible
from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.reading import Manifest, mapping, text
from webhook.model.record import SCHEDULER_LABEL, record_in
from webhook.model.workloads.facts import known_workload
from webhook.model.workloads.gang import OptedInGang, no_gang
from webhook.model.workloads.podgang import PodGang

EXTERNAL_LABEL = "grove.io/external-workload-managed"


class SkipReason(StrEnum):
    """Why Rollcall skips a gang; a metric's label."""

    LEAVING = "leaving"
    # Its workload predates Rollcall or was admitted while Rollcall was down. Its pods are not prepared either.
    UNRECORDED = "unrecorded"
    NO_PROFILE = "noProfile"
    GROVE = "groveWrites"
    EXTERNAL = "external"
    # PodGangs only. It has neither pods nor a PodClique that could make them, nor objects of before.
    EMPTY = "empty"
    # Opted-in workloads only. It has no pods now, and may be resumed with other pods.
    SUSPENDED = "suspended"
    # Another system has claimed its pods, or its own controller makes its gang.
    CLAIMED = "claimed"
    # Its scheduler makes its gang.
    SCHEDULER = "schedulerWrites"


# Gangs of opted-in workloads that have no owner yet, or another one: Rollcall deletes the objects it made for them.
UNWANTED = frozenset({SkipReason.SUSPENDED, SkipReason.SCHEDULER})


@dataclass(frozen=True, slots=True)
class Plan:
    """The objects of a gang in the order of their creation, and the profile that makes them."""

    profile: Profile
    objects: list[Manifest]


def plan(podgang: PodGang, facts: ClusterFacts, settings: Settings, *, empty: bool = False) -> Plan | SkipReason:
    """The objects that `podgang` needs, or why it is skipped. `empty` as for `decided`.

    Raises `FactsUnavailable` if its workload is not known, `Inexpressible` if its scheduler cannot express it.
    """
    profile = decided(podgang, facts, settings, empty=empty)
    if isinstance(profile, SkipReason):
        return profile
    if isinstance(podgang, OptedInGang):
        if not profile.backend.makes_gangs_of(podgang.grouped_as):
            return Plan(profile, [])
        if (barred := no_gang(podgang.workload)) is not None and (found := barred.hindrance) is not None:
            raise inexpressible(found.rule, found.at, found.found, found.why, remedy=found.remedy)
    return Plan(profile, profile.backend.gang_objects(podgang, _known_record(podgang, facts), facts))


def decided(podgang: PodGang, facts: ClusterFacts, settings: Settings, *, empty: bool = False) -> Profile | SkipReason:
    """The profile that makes the objects of `podgang`, or why it is skipped. No object is made. `empty` as by
    `PodGangs.is_empty`.

    Raises `FactsUnavailable` if its workload is not known.
    """
    if mapping(podgang.raw.get("metadata")).get("deletionTimestamp") is not None:
        return SkipReason.LEAVING
    if not isinstance(podgang, OptedInGang):
        if podgang.labels.get(EXTERNAL_LABEL) == "true":
            return SkipReason.EXTERNAL
        if is_groves(podgang):
            return SkipReason.GROVE
        if empty:
            # Before its workload is looked for: a PodGang may name one that never comes.
            return SkipReason.EMPTY
    record = _known_record(podgang, facts)
    if record.scheduler is None:
        return SkipReason.UNRECORDED
    profile = settings.profiles.get(record.scheduler)
    if profile is None:
        return SkipReason.NO_PROFILE
    skipped = _of_workload(podgang, profile) if isinstance(podgang, OptedInGang) else None
    return skipped or profile


def is_groves(podgang: PodGang) -> bool:
    """Whether Grove's own backend prepares the pods of a PodGang, and writes its gang objects."""
    return podgang.labels.get(grove.LABEL_SCHEDULER) in grove.WRITERS


def _known_record(podgang: PodGang, facts: ClusterFacts) -> Record:
    record = recorded(podgang, facts)
    if record is None:
        workload = f"{podgang.namespace}/{podgang.labels.get(grove.LABEL_PART_OF)}"
        raise FactsUnavailable(f"the PodCliqueSet {workload} of the PodGang is not known")
    return record


def _of_workload(gang: OptedInGang, profile: Profile) -> SkipReason | None:
    if not profile.backend.makes_gangs_of(gang.grouped_as):
        return SkipReason.SCHEDULER if profile.backend.groups_opted_in else None
    if gang.workload.suspended:
        return SkipReason.SUSPENDED
    barred = no_gang(gang.workload)
    return SkipReason.CLAIMED if barred is not None and barred.hindrance is None else None


def is_elsewhere(podgang: PodGang, facts: ClusterFacts, settings: Settings) -> bool:
    """Whether this is the gang of an opted-in workload and Rollcall does not make that gang."""
    if not isinstance(podgang, OptedInGang):
        return False
    profile = settings.profiles.get(podgang.workload.scheduler or "")
    if profile is None:
        return False
    if podgang.workload.managed_elsewhere is not None:
        # It is shown, and nothing is written for it.
        return False
    barred = no_gang(podgang.workload)
    return not profile.backend.makes_gangs_of(podgang.grouped_as) or (barred is not None and barred.hindrance is None)


def recorded(podgang: PodGang, facts: ClusterFacts) -> Record | None:
    """The record of the gang's workload; for a PodGang without a workload its own record. None if the workload is not
    known.
    """
    if isinstance(podgang, OptedInGang):
        record = record_with_train_job(known_workload(podgang.workload), facts)
        return record if podgang.above is None else completed(record, podgang.above)
    workload = text(podgang.labels.get(grove.LABEL_PART_OF))
    if workload is None:
        spec = mapping(podgang.raw.get("spec"))
        metadata = mapping(podgang.raw.get("metadata"))
        return record_in(metadata, text(podgang.labels.get(SCHEDULER_LABEL)), text(spec.get("priorityClassName")))
    known = facts.pod_clique_sets
    return None if known is None else known.get((podgang.namespace, workload))
