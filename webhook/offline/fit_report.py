"""What `rollcall fit` reports of one gang: the verdict, the estimate of *now*, and the domains that it may be in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.fit.amounts import amount, amount_of, counted, sentence_list
from webhook.fit.domain_rooms import DomainRoom, in_order
from webhook.fit.now import Now, NowAnswer
from webhook.fit.verdict import Answer, Scope, Shortfall, Verdict, Witness

# The worst first.
_ORDER = (Answer.NEVER, Answer.UNKNOWN, Answer.FITS)
WORDS = {Answer.NEVER: "never fits", Answer.FITS: "fits an empty cluster", Answer.UNKNOWN: "not known"}


class Surplus(NamedTuple):
    """The pods of a gang above its minimum, which no verdict counts. `domain` is what messages call the domain in which
    the scheduler wants room for those of them that exist; empty if it starts the minimum without them.
    """

    pods: int
    domain: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the surplus as plain JSON values."""
        return {"pods": self.pods, "domain": self.domain or None}


@dataclass(frozen=True, slots=True)
class FitEntry:
    """One gang. `workload` is its kind, namespace and name, `more` the number of further gangs that are equal to it.

    `without_growth` is why it does not fit the nodes that there are, in a cluster that may grow. `now` is None if it is
    not known what pods on nodes use.
    """

    workload: tuple[str, str, str]
    gang: str
    scheduler: str
    verdict: Verdict
    more: int = 0
    # The pods that it starts with, by role.
    pods: Mapping[str, int] | None = None
    domains: tuple[DomainRoom, ...] = ()
    now: Now | None = None
    without_growth: Witness | None = None
    surplus: Surplus | None = None
    # What a placement relies on besides the nodes: tolerations that something adds.
    relies_on: tuple[str, ...] = ()

    @property
    def never(self) -> bool:
        """Whether it never fits."""
        return self.verdict.answer is Answer.NEVER

    def as_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON values."""
        kind, namespace, name = self.workload
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "gang": self.gang,
            "more": self.more,
            "scheduler": self.scheduler,
            "pods": dict(self.pods or {}),
            "surplus": None if self.surplus is None else self.surplus.as_json(),
            **self.verdict.as_json(),
            "assumptions": [*self.verdict.assumptions, *self.relies_on],
            "withoutGrowth": None if self.without_growth is None else self.without_growth.why,
            "now": None if self.now is None else self.now.as_json(),
            "domains": [_domain(one) for one in self.domains],
            "placement": [one._asdict() for one in self.verdict.placement],
            "steps": self.verdict.steps,
        }


def _domain(domain: DomainRoom) -> dict[str, Any]:
    return {
        "partition": domain.partition or None,
        "name": domain.name,
        "nodes": domain.nodes,
        "total": dict(sorted(domain.total.items())),
        "free": None if domain.free is None else dict(sorted(domain.free.items())),
    }


def verdict_words(verdict: Verdict) -> str:
    """Return the verdict in a few words, with how far *never* reaches."""
    scope = verdict.scope
    return WORDS[verdict.answer] if scope is None else f"{WORDS[verdict.answer]} {scope}".removesuffix(f" {Scope.EVER}")


def worst_of(entries: Iterable[FitEntry]) -> FitEntry | None:
    """Return the gang that says most about the whole workload: one that never fits, else one that is not known to."""
    return min(entries, key=lambda one: _ORDER.index(one.verdict.answer), default=None)


def fit_sentence(entry: FitEntry) -> str:
    """Return what is known of a gang in one line: the verdict, why, and how it is now."""
    verdict, witness = entry.verdict, entry.verdict.witness
    why = "; ".join(verdict.causes) if witness is None else witness.why
    if why and verdict.answer is Answer.FITS:
        why = f"not judged: {why}"
    why += f"; if {'; if '.join(entry.relies_on)}" if entry.relies_on else ""
    now = f"; now {now_words(entry.now)} (an estimate)" if entry.now is not None and witness is None else ""
    return f"gang {entry.gang}: {verdict_words(verdict)}{f': {why}' if why else ''}{now}"


def surplus_words(surplus: Surplus, scheduler: str) -> str:
    """Return what is not known of the pods above the minimum."""
    words = f"{counted(surplus.pods, 'pod')} above the minimum {'is' if surplus.pods == 1 else 'are'} not judged"
    if not surplus.domain:
        return words
    return f"{words}: {scheduler} wants room in the required {surplus.domain} for those that wait, too"


def remedy_of(entry: FitEntry) -> str | None:
    """Return what to do if a gang never fits."""
    return None if entry.verdict.witness is None else entry.verdict.witness.remedy


def now_words(now: Now) -> str:
    """Return the estimate as a sentence."""
    if now.answer is NowAnswer.UNKNOWN:
        return f"not known whether there is room: {now.why}" if now.why else "not known whether there is room"
    if now.answer is NowAnswer.ROOM:
        return f"room, on {_listed(now.domains)}"
    short = _listed([shortfall_text(one) for one in now.short])
    where = "" if now.nearest is None else f" on {now.nearest}"
    return f"short by {short}{where}" if short else f"short: {now.why}"


def leaving_words(now: Now) -> Iterator[str]:
    """Yield which running gangs would have to go, if it is short now."""
    if now.leaving is None:
        return
    named = _listed(now.leaving.gangs)
    others = now.leaving.others
    of_others = f"{counted(others, 'gang')} of other namespaces" if others else ""
    yield (", and " if len(now.leaving.gangs) > 1 else " and ").join(part for part in (named, of_others) if part)


def shortfall_text(short: Shortfall) -> str:
    """Return what is missing of a resource, or how many pods have no place."""
    missing = max(short.needed - short.there, 0)
    return counted(missing, "pod") if short.resource == "pods" else amount_of(short.resource, missing)


# More names do not fit on a line.
_MOST_NAMED = 5


def _listed(names: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    """Return some names as a list in words."""
    shown = list(names)[:_MOST_NAMED]
    if len(names) > _MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - _MOST_NAMED:,} more"
    return sentence_list(shown)


def table_of(domains: tuple[DomainRoom, ...]) -> list[tuple[str, ...]]:
    """Return the table of domains, its head first: what each has of what the gang requests, and what is free of it."""
    if not domains:
        return []
    resources = resources_of(domains[0])
    known = all(one.free is not None for one in domains)
    head = (
        domains[0].partition or "where",
        "nodes",
        *(f"{one} free" if known else one for one in resources),
    )
    return [head, *(_row(one, resources) for one in by_room(domains))]


def resources_of(domain: DomainRoom) -> list[str]:
    """Return the resources that are shown of a domain: those that the gang requests, or the pod slots if there are no
    others. None if its scheduler compares nothing, or does not place the pods.
    """
    ordered = in_order(domain.total)
    return [one for one in ordered if one != "pods"] or ordered


def _row(domain: DomainRoom, resources: list[str]) -> tuple[str, ...]:
    return domain.name, f"{domain.nodes:,}", *(room_text(domain, resource) for resource in resources)


def room_text(domain: DomainRoom, resource: str) -> str:
    """Return what a domain has of a resource, and what is free of it, if known: "16 of 72"."""
    total = amount(resource, domain.total[resource])
    return total if domain.free is None else f"{amount(resource, domain.free.get(resource, 0))} of {total}"


def by_room(domains: tuple[DomainRoom, ...]) -> list[DomainRoom]:
    """Return the domains with most free first, by the resources in the order of the table."""
    resources = in_order(domains[0].total) if domains else []
    return sorted(
        domains,
        key=lambda one: ([-(one.total if one.free is None else one.free).get(name, 0) for name in resources], one.name),
    )
