"""What the reconciler keeps of the health of a gang until it judges the gang again.

A health names every member and every pod that lacks something, and a cluster has ten thousand gangs. Only what is
counted and told of a gang is kept, and equal judgements are one object, as those of most gangs that have started.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from webhook.fit.verdict import Family, Scope
from webhook.gangs.escapes import Escape
from webhook.gangs.health import GangHealth, State
from webhook.gangs.hold_reasons import HoldReason
from webhook.model.bounds import latest_equal

_latest = latest_equal(256)


class NeverFits(NamedTuple):
    """That a gang can never start, as it is counted."""

    scope: Scope
    family: Family


@dataclass(frozen=True, slots=True)
class Judgement:
    """The last judgement of a gang. `escapes` are the numbers of its escaped pods. `why` is the first of `obstacles` in
    words, and `held` is why its scheduler last held it, until it starts. The other fields are those of `GangHealth`.
    """

    scheduler: str | None
    state: State
    word: str
    in_trouble: bool
    never: NeverFits | None
    escapes: tuple[tuple[str, int], ...]
    obstacles: tuple[HoldReason, ...]
    why: str
    held: HoldReason | None


def judgement_of(health: GangHealth, held: HoldReason | None) -> Judgement:
    """What is kept of a health."""
    escapes = Counter(one.escape.value for one in health.escaped)
    if health.further:
        escapes[Escape.UNOWNED.value] += health.further
    judgement = Judgement(
        health.scheduler,
        health.state,
        health.word,
        health.in_trouble,
        None if health.never is None else NeverFits(health.never.scope, health.never.family),
        tuple(escapes.items()),
        health.obstacles,
        health.why,
        held,
    )
    # Of empty PodGangs all that is kept is the same, and a tenant may create thousands.
    is_own = judgement.state is not State.EMPTY and (judgement.obstacles or judgement.held is not None)
    return judgement if is_own else _latest(judgement)
