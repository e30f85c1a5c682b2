"""The answers of all schedulers about one workload, as a table that fits a terminal: a row for each scheduler.

There are more capabilities than fit beside each other, so a row lists those that are not a plain yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from webhook.admission.opinion import Answer, Honoured
from webhook.explain.workload import Explanation, View
from webhook.fit.verdict import Answer as Verdict
from webhook.model.findings import Action
from webhook.offline.fit_report import worst_of

CELLS = {
    Honoured.YES: ("yes", "green"),
    Honoured.NO: ("no", "bold red"),
    Honoured.IN_PART: ("in part", "yellow"),
    Honoured.UNKNOWN: ("?", "cyan"),
    Honoured.UNSTATED: ("-", "yellow"),
}
_SHORT = {
    Answer.RUNS: ("runs", "green"),
    Answer.PARTLY: ("in part", "yellow"),
    Answer.REFUSED: ("refused", "bold red"),
    Answer.UNKNOWN: ("?", "cyan"),
}
# In the order of the groups of a row.
_WORDS = dict(CELLS[one] for one in (Honoured.NO, Honoured.IN_PART, Honoured.UNKNOWN, Honoured.UNSTATED))
_OTHERS = "other faults"
_LEGEND = {
    "in part": "admitted, with something missing, unknown or warned about",
    "?": "facts are missing; --facts or --live supplies them",
    "-": "not known whether the scheduler acts on it",
    _OTHERS: "errors or warnings about what no word of this table names",
}
_HEAD = ("scheduler", "as written", "what it does not get")
# A column of its own, only where nodes are known.
_FITS = "fits"
_FIT_CELLS = {Verdict.NEVER: ("never", "bold red"), Verdict.FITS: ("yes", "green"), Verdict.UNKNOWN: ("?", "cyan")}
_INDENT = 4
# A table that is not on a terminal must fit one.
_WIDTH = 80
_GAP = 2
_FIT_WIDTH = len("never") + _GAP


def print_matrix(found: Explanation, out: Console) -> None:
    """Print what the workload asks for, the row of each scheduler, and the meaning of the words that need one."""
    for line in _lines(found, out):
        line.rstrip()
        out.print(Text(" " * _INDENT) + line if line.plain else line, soft_wrap=True)


def _lines(found: Explanation, out: Console) -> Iterator[Text]:
    width = (out.width if out.is_terminal else _WIDTH) - _INDENT
    asked = Text(", ".join(str(one) for one in found.uses or ()) or "nothing special")
    yield from _beside(Text("asks for  ", "dim"), asked, width, out)
    yield Text()
    first, second = (max(map(len, column)) + _GAP for column in _columns(found))
    fits = any(view.fits for view in found.views)
    third = _FITS.ljust(_FIT_WIDTH) if fits else ""
    yield Text(_HEAD[0].ljust(first) + _HEAD[1].ljust(second) + third + _HEAD[2], "dim")
    for view in found.views:
        word, style = _SHORT[view.opinion.answer]
        row = Text.assemble((view.scheduler.ljust(first), "bold"), (word.ljust(second), style))
        if fits:
            row.append(*_fit_cell(view))
        for line in _exceptions(view) or (Text(),):
            yield from _beside(row, line, width, out)
            row = Text(" " * len(row))
    legend = {word: _LEGEND[word] for word in _LEGEND if word in _used(found.views)}
    if legend:
        yield Text()
    for word, meaning in legend.items():
        yield Text(f"{word}: {meaning}", "dim")


def _fit_cell(view: View) -> tuple[str, str]:
    worst = worst_of(view.fits)
    word, style = ("-", "dim") if worst is None else _FIT_CELLS[worst.verdict.answer]
    return word.ljust(_FIT_WIDTH), style


def _columns(found: Explanation) -> Iterator[list[str]]:
    yield [_HEAD[0], *(view.scheduler for view in found.views)]
    yield [_HEAD[1], *(_SHORT[view.opinion.answer][0] for view in found.views)]


def _used(views: Iterable[View]) -> set[str]:
    cells = {word for view in views for cell in _cells(view).items() for word in cell}
    return cells | {_SHORT[view.opinion.answer][0] for view in views}


def _exceptions(view: View) -> list[Text]:
    """Return the capabilities that are not a plain yes, a text for each word."""
    cells = _cells(view)
    groups = [(word, [name for name, cell in cells.items() if cell == word]) for word in _WORDS]
    return [Text.assemble((f"{word}: ", _WORDS[word]), ", ".join(names)) for word, names in groups if names]


def _cells(view: View) -> dict[str, str]:
    cells = {str(honour.capability): CELLS[honour.honoured][0] for honour in view.opinion.honours}
    actions = {found.action for found in view.opinion.others}
    if Action.DENY in actions:
        cells[_OTHERS] = CELLS[Honoured.NO][0]
    elif Action.WARN in actions:
        cells[_OTHERS] = CELLS[Honoured.IN_PART][0]
    return cells


def _beside(start: Text, rest: Text, width: int, out: Console) -> Iterator[Text]:
    """Yield `rest` wrapped beside `start`; further lines begin below its own start."""
    lines = rest.wrap(out, max(width - len(start), 20)) or [Text()]
    for index, line in enumerate(lines):
        yield (start if index == 0 else Text(" " * len(start))) + line
