"""Whether one set of a packing can be placed: refuted, placed, or looked at in every way, in this order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from webhook.fit.budget import Budget, OutOfStepsError
from webhook.fit.domains import Domain
from webhook.fit.exact import Exact, TooLargeError
from webhook.fit.first_fit import ORDERS, FirstFit
from webhook.fit.ground import Area, Ground
from webhook.fit.packing import Need
from webhook.fit.parts import Part, part_of
from webhook.fit.placement import Spot, holds
from webhook.fit.refusal import Refusal
from webhook.fit.refutation import Refuter, nearness
from webhook.fit.selections import TooManyError
from webhook.fit.spots import spots_of

# What the attempts to place a gang quickly may take, in each order.
_QUICK_STEPS = (4_500, 1_500)
# What a look at every way may take in one domain: at first, and how much more in each further round.
_EXACT_STEPS, _MORE = 2_000, 4
# What checking and telling the place of some pods takes.
_CHECK_STEPS = 5
_MANY_WAYS = "the conditions hold, and there are too many ways to place the pods"
_OF_LABELS = "the conditions hold, and it depends on the labels that the nodes of a group that grows will get"


class SetOutcome(NamedTuple):
    """What is known of a set: why it never fits, where its pods can be, or neither."""

    part: Part
    refusal: Refusal | None = None
    spots: tuple[Spot, ...] | None = None
    cause: str = ""


def judge_set(need: Need, ground: Ground, budget: Budget) -> SetOutcome:
    """Return what is known of a set. It never raises `OutOfStepsError`."""
    part = part_of(need, ground)
    try:
        return _judged(part, need, ground, budget)
    except OutOfStepsError:
        return SetOutcome(part, cause=f"no answer within {budget.steps} steps")


def _judged(part: Part, need: Need, ground: Ground, budget: Budget) -> SetOutcome:
    quick = Refuter(ground, budget, strong=False)
    if (refusal := _refused(quick, part, ground)) is not None:
        return SetOutcome(part, refusal)
    domains = quick.domains(part, ground.whole)
    open_domains = [one for one in domains if part.within is None or quick.refused_inside(part, one.area) is None]
    # The largest domains first.
    open_domains.reverse()
    spots = _placed_quickly(part, need, open_domains, ground, budget)
    if spots is not None:
        return SetOutcome(part, spots=tuple(spots))
    strong = Refuter(ground, budget, strong=True)
    if (refusal := _refused(strong, part, ground)) is not None:
        return SetOutcome(part, refusal)
    if part.within is not None:
        open_domains = [one for one in open_domains if strong.refused_inside(part, one.area) is None]
    return _looked_at(part, need, open_domains, ground, budget)


def _refused(refuter: Refuter, part: Part, ground: Ground) -> Refusal | None:
    """Why the part fits nowhere: on all nodes together, which is the simpler reason, or in each domain."""
    found = refuter.refused_inside(part, ground.whole)
    return refuter.refused(part, ground.whole) if found is None and part.within is not None else found


def _placed_quickly(
    part: Part, need: Need, domains: Sequence[Domain], ground: Ground, budget: Budget
) -> list[Spot] | None:
    """The spots of the first placement that is found and holds."""
    for order, steps in zip(ORDERS, _QUICK_STEPS, strict=True):
        share = budget.share(steps)
        try:
            for domain in domains:
                spots = FirstFit(ground, share, order).placed(part, _areas(domain)[0])
                if spots is not None:
                    budget.spend(len(spots) * _CHECK_STEPS)
                    if holds(spots, need, ground.room):
                        return spots
        except OutOfStepsError:
            pass
        finally:
            budget.settle(share)
    return None


def _areas(domain: Domain) -> tuple[Area, ...]:
    if not domain.area.single:
        return domain.areas
    area = Area(domain.area.counts, domain.area.classes, single=True)
    area.ordinal = 0
    return (area,)


def _looked_at(part: Part, need: Need, domains: Sequence[Domain], ground: Ground, budget: Budget) -> SetOutcome:
    """Every way in every domain, with more steps for each domain in every round."""
    waiting = list(domains)
    unclear = unsure = False
    refused: list[Refusal] = []
    steps = _EXACT_STEPS
    while waiting:
        later = []
        for domain in waiting:
            area = _areas(domain)[0]
            share = budget.share(steps)
            try:
                found = Exact(ground, share).arranged(part, area)
            except (TooLargeError, TooManyError):
                unclear = True
            except OutOfStepsError:
                later.append(domain)
            else:
                if found is None:
                    refused.append(Refusal("C6", part, area, domain=domain, partition=part.within))
                else:
                    spots = spots_of(found, ground)
                    if holds(spots, need, ground.room):
                        return SetOutcome(part, spots=tuple(spots))
                    unsure = True
            finally:
                budget.settle(share)
        waiting = later
        steps *= _MORE
    if unsure and any(one.future for one in ground.room.classes):
        return SetOutcome(part, cause=_OF_LABELS)
    if unclear or unsure or not refused:
        return SetOutcome(part, cause=_MANY_WAYS)
    return SetOutcome(part, max(refused, key=nearness))
