"""Whether a packed gang can ever be placed: ceilings, then the nodes, from the cheap conditions to the strong ones."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.fit.amounts import sentence_list
from webhook.fit.budget import STEPS, Budget
from webhook.fit.ceiling_conditions import over_a_ceiling, within_ceilings
from webhook.fit.ground import Ground, ground_of
from webhook.fit.packing import Need, Packing, Role
from webhook.fit.parts import roles_of
from webhook.fit.placement import placed
from webhook.fit.remedies import remedy_for
from webhook.fit.room import Room
from webhook.fit.set_judgement import SetOutcome, judge_set
from webhook.fit.verdict import Answer, Placed, Scope, Verdict, Witness
from webhook.fit.witnesses import witness_of

_NO_PODS = "no pod of the gang has to be on a node for it to start"


def judge(packing: Packing, room: Room | None, steps: int = STEPS) -> Verdict:
    """Return the verdict on a gang. Without a room only ceilings are judged."""
    budget = Budget(steps)
    if packing.unknown:
        return Verdict(Answer.UNKNOWN, causes=packing.unknown, assumptions=packing.assumptions)
    grows = room is None or room.grows or room.unknown is not None
    witness = next((one for one in packing.witnesses if one.scope is Scope.EVER or not grows), None)
    witness = witness or over_a_ceiling(packing, room)
    if witness is not None:
        return _never(witness, packing, budget)
    if room is None:
        return _unknown(("the nodes of the cluster are not known",), packing, budget)
    if room.unknown is not None:
        return _unknown((room.unknown,), packing, budget)
    return _on_nodes(packing, room, budget)


def _on_nodes(packing: Packing, room: Room, budget: Budget) -> Verdict:
    roles = roles_of(packing.sets)
    ground = ground_of(roles, room)
    outcomes: list[tuple[Need, SetOutcome]] = []
    for need in packing.sets:
        outcome = judge_set(need, ground, budget)
        if outcome.refusal is not None:
            return _refused(outcome, packing, ground, budget)
        outcomes.append((need, outcome))
    causes = tuple(dict.fromkeys(outcome.cause for _, outcome in outcomes if outcome.cause))
    causes += _unsure(packing, roles, room)
    for need, outcome in outcomes:
        if outcome.spots is not None and not within_ceilings(outcome.spots, need, packing):
            causes += ("a placement was found, and it is above a quota; another choice of its groups may not be",)
    if causes:
        return _unknown(causes, packing, budget)
    placement: list[Placed] = []
    for need, outcome in outcomes:
        placement += placed(outcome.spots or (), need, room)
    return Verdict(
        Answer.FITS,
        causes=packing.unjudged,
        placement=tuple(placement),
        assumptions=packing.assumptions,
        steps=budget.used,
    )


def _refused(outcome: SetOutcome, packing: Packing, ground: Ground, budget: Budget) -> Verdict:
    assert outcome.refusal is not None  # noqa: S101 - asked for by the caller
    witness = witness_of(outcome.refusal, ground)
    if ground.room.grows:
        cause = f"the cluster may grow by nodes of unknown shape; on the nodes there are: {witness.why}"
        return _unknown((cause,), packing, budget)
    return _never(remedy_for(witness, outcome, ground), packing, budget)


def _unsure(packing: Packing, roles: Sequence[Role], room: Room) -> tuple[str, ...]:
    """Why a placement would not show that the gang fits."""
    causes = dict.fromkeys(packing.left_out)
    if not roles and not causes:
        causes[_NO_PODS] = None
    for role in roles:
        causes.update(dict.fromkeys((*role.pods.unjudged, *role.pods.left_out)))
        if role.pods.shared_devices:
            causes["pods share the devices of a claim, and which nodes reach these is not known"] = None
        unsure = sorted(name for name, amount in role.pods.request.items() if amount > 0 and name in room.unsure)
        if unsure:
            # What only a scheduler counts, such as parts of a GPU, has a space in its name.
            named = [name for name in unsure if " " not in name] or unsure
            causes[f"not all nodes say how much they have of {sentence_list(named)}"] = None
    return tuple(causes)


def _never(witness: Witness, packing: Packing, budget: Budget) -> Verdict:
    return Verdict(Answer.NEVER, witness, assumptions=packing.assumptions, steps=budget.used)


def _unknown(causes: tuple[str, ...], packing: Packing, budget: Budget) -> Verdict:
    return Verdict(Answer.UNKNOWN, causes=causes + packing.unjudged, assumptions=packing.assumptions, steps=budget.used)
