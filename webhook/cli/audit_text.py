"""An audit on a terminal: one line for each rule and namespace, and how far it is while it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from webhook.audit.json_form import LEVELS
from webhook.audit.tally import NOT_JUDGED
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.model.plain_text import printable
from webhook.reports.summary import counted

if TYPE_CHECKING:
    from webhook.audit.results import Audit
    from webhook.audit.tally import Tally

_HEAD = ("LEVEL", "RULE", "NAMESPACE", "OBJECTS", "FOR EXAMPLE")
_STYLES = {"error": "bold red", "warning": "yellow", "audit": "cyan", NOT_JUDGED: "dim"}
# Progress is shown so often at most.
_SHOW_SECONDS = 0.2


class Progress:
    """How many objects were read, on standard error: one line that changes on a terminal, else a line for each kind."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._what = ""
        self._shown = 0.0

    def show(self, what: str, count: int | None = None) -> None:
        """Show that so many objects of a kind were read."""
        said = f"rollcall: {printable(what)}" + ("" if count is None else f": {count} read")
        if not self._terminal:
            if what != self._what:
                print(said, file=sys.stderr)
        elif what != self._what or self._clock.monotonic() - self._shown > _SHOW_SECONDS:
            self._shown = self._clock.monotonic()
            print(f"\r\033[K{said}", end="", file=sys.stderr, flush=True)
        self._what = what

    def end(self) -> None:
        """Remove the line."""
        if self._terminal and self._what:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_audit(audit: Audit, out: Console, compared_with: str = "") -> None:
    """Print the tables and the last line."""
    if audit.new is None or audit.gone is None:
        _print_table(audit.today, out)
        out.print(Text(last_line(audit)))
        return
    for word, tally in (("new", audit.new), ("gone", audit.gone)):
        if tally.groups:
            out.print(Text(f"{word} {compared_with}", "bold"))
            _print_table(tally, out)
            out.print()
    out.print(Text(compared_line(audit, compared_with)))


def _print_table(tally: Tally, out: Console) -> None:
    rows = [_HEAD, *_rows(tally)]
    if len(rows) == 1:
        return
    # The last column is not padded.
    widths = [max(len(row[index]) for row in rows) for index in range(len(_HEAD) - 1)]
    for row in rows:
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(row[0].ljust(widths[0] + 2), _STYLES.get(row[0], "dim"))
        for cell, width in zip(row[1:-1], widths[1:], strict=True):
            line.append(cell.ljust(width + 2))
        line.append(row[-1])
        out.print(line, overflow="ellipsis", no_wrap=True, crop=out.is_terminal)


def _rows(tally: Tally) -> Iterator[tuple[str, ...]]:
    for group, count in tally.ordered():
        at = f" at {count.at}" if count.at else ""
        yield (
            LEVELS[group.action],
            group.rule,
            printable(group.namespace or "-"),
            str(count.objects),
            printable(f"{count.example}{at}"),
        )


def last_line(audit: Audit) -> str:
    """Return how many objects were judged, what was found, and what to do next."""
    found = audit.today
    said = f"{_judged(audit)}: {', '.join(_totals(found))}; {counted(found.refused, 'object')} would be refused"
    first = next((one for one in found.kept if one.group.action == "deny"), None)
    if first is None:
        return said
    named = f"{first.object.kind}/{first.object.name} -n {first.object.namespace}"
    return f"{said}; rollcall explain {printable(named)}"


def compared_line(audit: Audit, compared_with: str) -> str:
    """Return what a switch changes."""
    new, gone = audit.new, audit.gone
    if new is None or gone is None or not (new.groups or gone.groups):
        return f"{_judged(audit)}: nothing changes {compared_with}"
    changes = f"{counted(audit.newly_refused, 'object')} would be refused in addition, {audit.newly_allowed} no longer"
    return f"{_judged(audit)}: {changes}; new: {', '.join(_totals(new))}; gone: {', '.join(_totals(gone))}"


def _judged(audit: Audit) -> str:
    kinds = audit.today.judged
    if len(kinds) == 1:
        return f"{counted(kinds.total(), next(iter(kinds)))} judged"
    return f"{counted(kinds.total(), 'object')} judged"


def _totals(found: Tally) -> Sequence[str]:
    said = [counted(found.total("deny"), "error")]
    if warnings := found.total("warn"):
        said.append(counted(warnings, "warning"))
    if audits := found.total("audit"):
        said.append(f"{audits} for audit")
    if missing := found.total(NOT_JUDGED):
        said.append(f"{counted(missing, 'check')} not judged")
    return said
