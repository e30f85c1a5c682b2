"""The plan of an upgrade: what happens to each living gang, and what to do in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.backends.kai.keys import NAME as KAI
from webhook.backends.koordinator.keys import NAME as KOORDINATOR
from webhook.backends.volcano.keys import NAME as VOLCANO
from webhook.gangs.key import POD_GANG
from webhook.operations.release_notes import EVERY_CHANGE, UNREAD
from webhook.operations.releases import ChangeOutcome, Cluster, PresentGang, Product, Release, ReleaseChange
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

# The scheduler whose gangs a product can change; the other products can change gangs of any scheduler.
_SCHEDULERS = {
    Product.KOORDINATOR: KOORDINATOR,
    Product.VOLCANO: VOLCANO,
    Product.KAI: KAI,
    Product.KUBERNETES: DEFAULT_SCHEDULER,
}
UNAFFECTED = "nothing that is known about these releases changes it"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What is to be upgraded, and the schedulers that are to be replaced, each with its successor."""

    targets: Mapping[Product, Release]
    moves: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {"to": {product.value: str(to) for product, to in self.targets.items()}, "scheduler": dict(self.moves)}


@dataclass(frozen=True, slots=True)
class Effect:
    """What one fact means for a gang. `change` is its id; it is empty if there is no such fact."""

    change: str
    outcome: ChangeOutcome
    why: str
    product: Product | None = None
    before: str = ""
    after: str = ""
    source: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "change": self.change or None,
            "product": self.product,
            "outcome": self.outcome.value,
            "why": self.why,
            "before": self.before or None,
            "after": self.after or None,
            "source": self.source or None,
        }


@dataclass(frozen=True, slots=True)
class UpgradeVerdict:
    """What happens to a gang: its effects, the worst first."""

    gang: PresentGang
    effects: tuple[Effect, ...]

    @property
    def outcome(self) -> ChangeOutcome:
        """That of the worst effect."""
        return self.effects[0].outcome

    def as_json(self) -> dict[str, Any]:
        gang = self.gang
        return {
            "namespace": gang.namespace,
            "name": gang.name,
            "kind": gang.kind,
            **({"workload": gang.workload} if gang.workload else {}),
            "scheduler": gang.scheduler,
            "writer": gang.writer.value,
            "state": gang.state,
            "pods": gang.pods,
            "outcome": self.outcome.value,
            "effects": [effect.as_json() for effect in self.effects],
        }


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """A step of the upgrade. `change` is the id of the fact that requires it, empty for the upgrade itself."""

    product: Product | None
    do: str
    change: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"product": self.product, "change": self.change or None, "do": self.do}


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """What happens to every living gang, and the steps in their order."""

    upgrade: Upgrade
    verdicts: tuple[UpgradeVerdict, ...]
    steps: tuple[UpgradeStep, ...]

    @property
    def counts(self) -> dict[ChangeOutcome, int]:
        """How many gangs have each outcome."""
        counted = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counted[outcome] for outcome in ChangeOutcome}

    def as_json(self) -> dict[str, Any]:
        return {
            **self.upgrade.as_json(),
            "gangs": [verdict.as_json() for verdict in self.verdicts],
            "order": [step.as_json() for step in self.steps],
            "summary": {"gangs": len(self.verdicts), **{outcome.value: n for outcome, n in self.counts.items()}},
        }


def upgrade_plan(
    upgrade: Upgrade, gangs: Sequence[PresentGang], changes: Sequence[ReleaseChange] = EVERY_CHANGE
) -> UpgradePlan:
    # Several PodGangs of one namespace may share a PodGroup.
    places = {(gang.namespace, gang.group_name) for gang in gangs if gang.kind == POD_GANG}
    twins = frozenset(name for name, count in Counter(name for _, name in places).items() if count > 1)
    cluster = Cluster(twins, upgrade.moves)
    verdicts = tuple(verdict(upgrade, gang, cluster, changes) for gang in gangs)
    return UpgradePlan(upgrade, verdicts, tuple(_steps(upgrade, verdicts)))


def verdict(
    upgrade: Upgrade, gang: PresentGang, cluster: Cluster, changes: Sequence[ReleaseChange] = EVERY_CHANGE
) -> UpgradeVerdict:
    """Returns what happens to one gang."""
    effects = [*_unknowns(upgrade, gang), *_effects(upgrade, gang, cluster, changes)]
    effects.sort(key=lambda effect: -effect.outcome.badness)
    return UpgradeVerdict(gang, tuple(effects) or (Effect("", ChangeOutcome.CONTINUES, UNAFFECTED),))


def _touches(product: Product, gang: PresentGang) -> bool:
    """Returns whether releases of a product can change what happens to a gang."""
    if product is Product.GROVE:
        return gang.kind == POD_GANG
    return gang.scheduler in {None, _SCHEDULERS.get(product, gang.scheduler)}


def _unknowns(upgrade: Upgrade, gang: PresentGang) -> Iterator[Effect]:
    touching = [(product, to) for product, to in upgrade.targets.items() if _touches(product, gang)]
    if touching and gang.unknown:
        yield Effect("", ChangeOutcome.UNKNOWN, gang.unknown)
    for product, to in touching:
        if product in UNREAD and to >= UNREAD[product]:
            why = (
                f"this release of Rollcall knows nothing about {product} {to}, which is newer than what it was made for"
            )
            yield Effect("", ChangeOutcome.UNKNOWN, why, product, before="ask a newer release of Rollcall")


def _effects(
    upgrade: Upgrade, gang: PresentGang, cluster: Cluster, changes: Sequence[ReleaseChange]
) -> Iterator[Effect]:
    for change in changes:
        if change.product is not None:
            to = upgrade.targets.get(change.product)
            if to is None or not change.holds(to):
                continue
        if change.concerns(gang, cluster):
            values = {"gang": gang, "to": upgrade.moves.get(gang.scheduler or "", "")}
            why, before, after = (part.format(**values) for part in (change.why, change.before, change.after))
            yield Effect(change.id, change.outcome, why, change.product, before, after, change.source)


def _steps(upgrade: Upgrade, verdicts: Iterable[UpgradeVerdict]) -> Iterator[UpgradeStep]:
    every_effect = dict.fromkeys(effect for verdict in verdicts for effect in verdict.effects)
    effects = sorted(every_effect, key=lambda effect: -effect.outcome.badness)
    for product in Product:
        if (to := upgrade.targets.get(product)) is not None:
            of_product = [effect for effect in effects if effect.product is product]
            yield from (UpgradeStep(product, effect.before, effect.change) for effect in of_product if effect.before)
            yield UpgradeStep(product, f"upgrade {product} to {to}")
            yield from (UpgradeStep(product, effect.after, effect.change) for effect in of_product if effect.after)
    for old, new in upgrade.moves.items():
        yield UpgradeStep(None, f"enable the profile {new} and make it the default, or choose it for new workloads")
        of_move = [effect for effect in effects if effect.change and effect.product is None and old in effect.why]
        yield from (
            UpgradeStep(None, text, effect.change)
            for effect in of_move
            for text in (effect.before, effect.after)
            if text
        )
