"""An upgrade plan on a terminal: a line for each gang, the facts behind them, and the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from webhook.cli.explain_text import say
from webhook.model.plain_text import printable
from webhook.upgrades.change import Outcome

if TYPE_CHECKING:
    from webhook.upgrades.plan import Effect, UpgradePlan, Verdict

_HEAD = ("NAMESPACE", "GANG", "SCHEDULER", "PODS", "OUTCOME", "BECAUSE")
_OUTCOME = _HEAD.index("OUTCOME")
_STYLES = {
    Outcome.CONTINUES: "green",
    Outcome.UNKNOWN: "cyan",
    Outcome.RECREATE: "yellow",
}


def print_plan(found: UpgradePlan, out: Console) -> None:
    """Print the plan."""
    if found.verdicts:
        rows = [_row(one) for one in found.verdicts]
        widths = [max(len(row[index]) for row in (_HEAD, *rows)) for index in range(len(_HEAD))]
        _line(out, _HEAD, widths, "dim")
        for one, row in zip(found.verdicts, rows, strict=True):
            _line(out, row, widths, _STYLES[one.outcome])
        out.print()
    for effect, gangs in _by_effect(found).items():
        _print_effect(effect, gangs, out)
    out.print(Text("Order", "bold"))
    for number, step in enumerate(found.steps, 1):
        say(out, 1, f"{number}. {step.do}{f' ({step.change})' if step.change else ''}")
    out.print()
    counted = ", ".join(f"{number} {outcome}" for outcome, number in reversed(found.counts.items()) if number)
    living = len(found.verdicts)
    out.print(Text(f"{living} living gang{'' if living == 1 else 's'}{f': {counted}' if counted else ''}"))


def _line(out: Console, row: tuple[str, ...], widths: list[int], style: str) -> None:
    line = Text(no_wrap=True, overflow="ellipsis")
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        line.append(cell.ljust(width + 2), style if index == _OUTCOME else "")
    line.rstrip()
    out.print(line, overflow="ellipsis", no_wrap=True, crop=out.is_terminal)


def _row(one: Verdict) -> tuple[str, ...]:
    gang = one.gang
    return (
        printable(gang.namespace),
        printable(f"{gang.kind.lower()}/{gang.name}" if gang.workload else gang.name),
        printable(gang.scheduler or "-"),
        str(gang.pods),
        one.outcome.value,
        _because(one.effects[0]),
    )


def _because(effect: Effect) -> str:
    """The id of the fact; without one, its reason."""
    return effect.change or printable(" ".join(effect.why.split()))


def _by_effect(found: UpgradePlan) -> dict[Effect, int]:
    """How many gangs each fact concerns, the worst fact first."""
    counted: dict[Effect, int] = {}
    for effect in (effect for one in found.verdicts for effect in one.effects if effect.change):
        counted[effect] = counted.get(effect, 0) + 1
    return dict(sorted(counted.items(), key=lambda item: -item[0].outcome.badness))


def _print_effect(effect: Effect, gangs: int, out: Console) -> None:
    out.print(Text.assemble((effect.change, "bold"), f": {gangs} {effect.outcome}"))
    for word, text in (
        ("why", effect.why),
        ("before", effect.before),
        ("after", effect.after),
        ("source", effect.source),
    ):
        if text:
            say(out, 1, f"{word:<6}  {text}")
    out.print()
