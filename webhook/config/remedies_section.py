"""The section `remedies`: what the reconciler does itself for a gang that would otherwise need a person."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from webhook.config.reconciler_settings import RemedySettings
from webhook.config.sections import Section


class RemediesSection(Section):
    """Which causes the reconciler remedies, none by default: gangs that their scheduler has `forgotten`, an
    `objectLeft` by an earlier gang, pods that have an `oldMembership`, and pods that keep the `groveGate` because Grove
    has not noticed them. A cause must last for `settleSeconds`. After a remedy the gang is left alone for
    `pauseSeconds`, twice as long after each further one. In the whole cluster there are at most `perMinute` remedies a
    minute, in which each deleted pod counts.
    """

    causes: list[Literal["forgotten", "objectLeft", "oldMembership", "groveGate"]] = Field(default_factory=list)
    settleSeconds: Annotated[int, Field(ge=5, le=3600)] = 30
    pauseSeconds: Annotated[int, Field(ge=10, le=1800)] = 60
    perMinute: Annotated[int, Field(ge=1, le=600)] = 10


def remedy_settings(section: RemediesSection) -> RemedySettings:
    """Return what the section states."""
    return RemedySettings(
        frozenset(section.causes),
        float(section.settleSeconds),
        float(section.pauseSeconds),
        section.perMinute,
    )
