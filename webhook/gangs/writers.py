"""Who writes the gang objects of a gang (no I/O). Where Rollcall does not, it judges, explains and reports the gang."""

from __future__ import annotations

from enum import StrEnum

from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.gangs.plan import SkipReason, decided
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.grove_generation import GroveGeneration, generation_of
from webhook.model.workloads.podgang import PodGang

_KAI = "kai-scheduler"


class Writer(StrEnum):
    """Who writes the gang objects of a gang."""

    ROLLCALL = "Rollcall"
    GROVE = "Grove"
    SCHEDULER = "scheduler"
    OTHER = "other"
    NONE = "none"

    @property
    def meaning(self) -> str:
        """What that means, as a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Writer.ROLLCALL: "Rollcall writes its gang objects",
    Writer.GROVE: "Grove's own backend writes its gang objects; Rollcall writes nothing, and reports",
    Writer.SCHEDULER: "its scheduler makes its gang objects itself; Rollcall writes nothing, and reports",
    Writer.OTHER: "another system writes its gang objects; Rollcall writes nothing, and reports",
    Writer.NONE: "no gang objects are written for it",
}
_SKIPPED = {
    SkipReason.GROVE: Writer.GROVE,
    SkipReason.EXTERNAL: Writer.OTHER,
    SkipReason.CLAIMED: Writer.OTHER,
    SkipReason.SCHEDULER: Writer.SCHEDULER,
}


def writer_of(podgang: PodGang, facts: ClusterFacts, settings: Settings) -> Writer:
    """Who writes the gang objects of `podgang`."""
    try:
        found = decided(podgang, facts, settings)
    except FactsUnavailable:
        return Writer.NONE
    if not isinstance(found, SkipReason):
        return Writer.ROLLCALL if found.backend.writable_kinds else Writer.NONE
    if found is SkipReason.GROVE and _is_podgrouper_s(podgang, facts):
        return Writer.SCHEDULER
    return _SKIPPED.get(found, Writer.NONE)


def _is_podgrouper_s(podgang: PodGang, facts: ClusterFacts) -> bool:
    """Whether KAI's podgrouper makes the PodGroup of a PodGang: Grove's kai backend wrote none up to v0.1.0-alpha.11.

    Source: ai-dynamo/grove, pull request 725.
    """
    older = generation_of(facts) is GroveGeneration.LEGACY
    return older and podgang.labels.get(grove.LABEL_SCHEDULER) == _KAI
