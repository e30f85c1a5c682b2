"""What a PodGang needs in the cluster, pure: its scheduler's objects, or why it is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from webhook.errors import FactsUnavailable
from webhook.model import grove
from webhook.model.facts import ClusterFacts, Record
from webhook.model.podgang import PodGang
from webhook.model.reading import Manifest, mapping, text
from webhook.model.record import SCHEDULER_LABEL, record_in
from webhook.settings import Profile, Settings

# On a PodGang: the scheduler for which Grove prepares it.
GROVE_SCHEDULER_LABEL = "grove.io/scheduler-name"
# Grove's own backends for these write an object of the same kind under the same controller.
GROVE_WRITES = frozenset({"volcano", "kai-scheduler"})
EXTERNAL_LABEL = "grove.io/external-workload-managed"


class Aside(StrEnum):
    """Why nothing is done about a PodGang; a metric's label."""

    LEAVING = "leaving"
    # Its workload is older than Rollcall, or was admitted while it was down: its pods are not prepared either.
    UNRECORDED = "unrecorded"
    NO_PROFILE = "noProfile"
    GROVE = "groveWrites"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Plan:
    """The objects of a PodGang in the order of their creation, and the profile that made them."""

    profile: Profile
    objects: list[Manifest]


def plan(podgang: PodGang, facts: ClusterFacts, settings: Settings) -> Plan | Aside:
    """What `podgang` needs.

    Raises `FactsUnavailable` where its workload is not known, `Inexpressible` where its scheduler cannot have it.
    """
    if mapping(podgang.raw.get("metadata")).get("deletionTimestamp") is not None:
        return Aside.LEAVING
    if podgang.labels.get(EXTERNAL_LABEL) == "true":
        return Aside.EXTERNAL
    if podgang.labels.get(GROVE_SCHEDULER_LABEL) in GROVE_WRITES:
        return Aside.GROVE
    record = recorded(podgang, facts)
    if record is None:
        workload = f"{podgang.namespace}/{podgang.labels.get(grove.LABEL_PART_OF)}"
        raise FactsUnavailable(f"the PodCliqueSet {workload} of the PodGang is not known")
    if record.scheduler is None:
        return Aside.UNRECORDED
    profile = settings.profiles.get(record.scheduler)
    if profile is None:
        return Aside.NO_PROFILE
    return Plan(profile, profile.backend.gang_objects(podgang, record, facts))


def recorded(podgang: PodGang, facts: ClusterFacts) -> Record | None:
    """The record of the PodGang's workload, which alone tells of its cliques; else what a hand-made PodGang says. None
    where the workload is not known.
    """
    workload = text(podgang.labels.get(grove.LABEL_PART_OF))
    if workload is None:
        spec = mapping(podgang.raw.get("spec"))
        metadata = mapping(podgang.raw.get("metadata"))
        return record_in(metadata, text(podgang.labels.get(SCHEDULER_LABEL)), text(spec.get("priorityClassName")))
    known = facts.pod_clique_sets
    return None if known is None else known.get((podgang.namespace, workload))
