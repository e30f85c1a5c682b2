"""Whether gangs fit, on a terminal: the verdict with its proof, the estimate of now, the domains, and the picture."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from webhook.cli.explain_text import say
from webhook.fit.now import NowAnswer
from webhook.fit.verdict import Answer
from webhook.model.findings import shown
from webhook.model.plain_text import printable
from webhook.offline.fit_report import FitEntry, leaving_words, now_words, surplus_words, table_of, verdict_words
from webhook.pictures.fit import fit_picture
from webhook.pictures.text import tree_lines

_STYLES = {Answer.NEVER: "bold red", Answer.FITS: "green", Answer.UNKNOWN: "cyan"}
# More domains do not fit on a screen; `-o json` has all.
_MOST_ROWS = 10
_GAP = 2


def print_entry(entry: FitEntry, out: Console) -> None:
    """Print one gang."""
    verdict = entry.verdict
    lead = Text.assemble("    ", (f"gang {printable(entry.gang)}", "bold"), f" ({entry.scheduler})")
    more = f" and {entry.more:,} more like it" if entry.more else ""
    out.print(Text.assemble(lead, f"{more}: ", (verdict_words(verdict), _STYLES[verdict.answer])))
    for name, value in _fields(entry):
        say(out, 2, f"{name:<4} {value}")
    rows = table_of(entry.domains)
    if rows:
        out.print()
        _print_table(rows, out)
    if len(entry.domains) > 1 or verdict.placement:
        out.print()
        for line in tree_lines(fit_picture(entry)):
            say(out, 2, line)
    out.print()


def _fields(entry: FitEntry) -> Iterator[tuple[str, str]]:
    verdict, witness, now = entry.verdict, entry.verdict.witness, entry.now
    if witness is not None:
        yield "at", f"{witness.at}: {shown(witness.found)}"
        yield "why", witness.why
        yield "do", witness.remedy
    for cause in verdict.causes:
        yield ("but", f"not judged: {cause}") if verdict.answer is Answer.FITS else ("why", cause)
    if entry.surplus is not None and not entry.never:
        yield "but", surplus_words(entry.surplus, entry.scheduler)
    for assumption in verdict.assumptions if witness is not None else entry.relies_on:
        yield "if", assumption
    if entry.without_growth is not None:
        yield "now", f"does not fit the nodes that there are: {entry.without_growth.why}; the cluster may grow"
    elif now is not None and not entry.never:
        yield "now", f"{now_words(now)} (an estimate)"
        if now.answer is NowAnswer.SHORT:
            for words in leaving_words(now):
                yield "go", f"{words} would have to go"


def _print_table(rows: list[tuple[str, ...]], out: Console) -> None:
    shown_rows = rows[: _MOST_ROWS + 1]
    widths = [max(len(printable(row[index])) for row in shown_rows) for index in range(len(rows[0]))]
    for index, row in enumerate(shown_rows):
        cells = (printable(cell).ljust(width + _GAP) for cell, width in zip(row, widths, strict=True))
        line = Text(" " * 8 + "".join(cells), "dim" if index == 0 else "")
        line.rstrip()
        out.print(line, soft_wrap=True)
    if len(rows) > len(shown_rows):
        out.print(Text(f"{' ' * 8}and {len(rows) - len(shown_rows):,} more", "dim"))
