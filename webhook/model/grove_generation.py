"""The two generations of Grove, which name and split PodGangs differently, and the names of both.

Grove v0.1.0-alpha.12 and later serve PodGangMaps. They put an epoch into the name of each PodGang: a number that
Grove's operator chooses when it makes the PodGang, so it cannot be predicted. PodCliques and pods have the same names
in both generations. Source: ai-dynamo/grove, pull request 778 and operator/internal/controller/podcliqueset.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from webhook.model import grove
from webhook.model.naming import LABEL_VALUE_LIMIT

if TYPE_CHECKING:
    from webhook.model.facts import ClusterFacts
    from webhook.model.workloads.podcliqueset import ScalingGroup

# In shown names: the number that Grove's operator chooses.
EPOCH = "<epoch>"
# Nanoseconds since 1970 have that many digits, until the year 2286.
EPOCH_DIGITS = 19
SHORTENED = f"Grove shortens PodGang names of more than {LABEL_VALUE_LIMIT} characters; they are shown in full"


class GroveGeneration(StrEnum):
    """A generation of Grove, in the words of `--grove` and of the configuration."""

    # v0.1.0-alpha.12 and later.
    POD_GANG_MAP = "podgangmap"
    # Up to v0.1.0-alpha.11.
    LEGACY = "legacy"


NEWEST = GroveGeneration.POD_GANG_MAP


def generation_of(facts: ClusterFacts, chosen: GroveGeneration | None = None) -> GroveGeneration:
    """The generation that is `chosen`, else that of the known cluster, else the newest."""
    if chosen is not None:
        return chosen
    kinds = {api.kind for api in facts.apis or () if api.group == grove.GROUP}
    older = "PodCliqueSet" in kinds and "PodGangMap" not in kinds
    return GroveGeneration.LEGACY if older else NEWEST


def is_shortened(shown: str) -> bool:
    """Whether Grove shortens the name of a PodGang that is shown with `EPOCH`."""
    return EPOCH in shown and len(shown) - len(EPOCH) + EPOCH_DIGITS > LABEL_VALUE_LIMIT


class PodGangNames(NamedTuple):
    """The names of the PodGangs of a generation. `replica` is `<PodCliqueSet>-<index>` in all of them."""

    generation: GroveGeneration
    epoch: str = EPOCH

    def first(self, replica: str) -> str:
        """The name of the PodGang that starts first: the base gang, or the anchor."""
        return replica if self.generation is GroveGeneration.LEGACY else f"{replica}-{self.epoch}"

    def further(self, replica: str, group: ScalingGroup, index: int) -> str:
        """The name of the PodGang of a scaling-group replica above the group's minimum; `index` is that replica's."""
        if self.generation is GroveGeneration.LEGACY:
            return f"{replica}-{group.name}-{index - group.min_available}"
        return f"{replica}-{self.epoch}-{group.name}-{index}"
