"""The picture of how a gang fits: its domains as boxes, with the pods that would be placed in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webhook.fit.amounts import counted
from webhook.fit.domain_rooms import DomainRoom
from webhook.fit.now import NowAnswer
from webhook.fit.verdict import Answer, Placed, Shortfall
from webhook.offline.fit_report import (
    FitEntry,
    by_room,
    now_words,
    resources_of,
    room_text,
    shortfall_text,
    verdict_words,
)
from webhook.pictures.boxes import Box, Shape
from webhook.pictures.folding import folded


def fit_picture(entry: FitEntry) -> Box:
    """Return the boxes of one gang, folded. Its pods are laid in as they fit now, else as they fit an empty cluster."""
    placement = entry.now.placement if entry.now is not None else ()
    placement = placement or entry.verdict.placement
    used = {placed.domain or "" for placed in placement}
    # Domains that the gang would be in are drawn first: of very many, only the first are.
    ordered = sorted(by_room(entry.domains), key=lambda one: not _is_in(one, used) and not _is_nearest(entry, one))
    below = tuple(_domain(entry, one, placement) for one in ordered)
    return folded(
        Box(f"gang {entry.gang}", tuple(_details(entry)), Shape.GANG, entry.gang, cannot=entry.never, below=below)
    )


def _details(entry: FitEntry) -> Iterator[str]:
    yield verdict_words(entry.verdict)
    pods = sum((entry.pods or {}).values())
    if pods:
        yield f"starts with {counted(pods, 'pod')}"
    if entry.now is not None and entry.verdict.answer is not Answer.NEVER:
        yield f"now {now_words(entry.now)}"


def _domain(entry: FitEntry, domain: DomainRoom, placement: Iterable[Placed]) -> Box:
    free = "" if domain.free is None else " free"
    details = [counted(domain.nodes, "node")]
    details += [f"{room_text(domain, one)} {one}{free}" for one in resources_of(domain)]
    nearest = _is_nearest(entry, domain)
    if nearest:
        details += [f"short of {shortfall_text(one)}" for one in _short(entry)] or ["comes nearest"]
    below = tuple(_placed(placement, domain))
    return Box(domain.called, tuple(details), Shape.PART, domain.name, cannot=nearest and entry.never, below=below)


def _placed(placement: Iterable[Placed], domain: DomainRoom) -> Iterator[Box]:
    pods: dict[str, int] = {}
    nodes: dict[str, set[str]] = {}
    for placed in placement:
        if _is_in(domain, {placed.domain or ""}):
            pods[placed.role] = pods.get(placed.role, 0) + placed.pods
            nodes.setdefault(placed.role, set()).add(placed.node)
    for role, number in pods.items():
        where = counted(len(nodes[role]), "node")
        yield Box(role, (f"{counted(number, 'pod')} on {where}",), Shape.LEAF, role)


def _is_in(domain: DomainRoom, named: set[str]) -> bool:
    return not domain.partition or not named.isdisjoint({domain.name, domain.called})


def _is_nearest(entry: FitEntry, domain: DomainRoom) -> bool:
    witness = entry.verdict.witness
    if witness is not None:
        return witness.domain in {domain.name, domain.called}
    return entry.now is not None and entry.now.answer is NowAnswer.SHORT and entry.now.nearest == domain.called


def _short(entry: FitEntry) -> tuple[Shortfall, ...]:
    if entry.verdict.witness is not None:
        return entry.verdict.witness.shortfalls
    return () if entry.now is None else entry.now.short
