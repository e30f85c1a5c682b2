"""An explanation on a terminal: the matrix of capabilities and schedulers, what refuses the workload, and the tree of
gangs.
"""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from webhook.admission.opinion import Answer, Honour, Honoured
from webhook.cli.matrix import CELLS, print_matrix
from webhook.cli.output import change_line
from webhook.explain.workload import Edit, Explanation, View
from webhook.model.findings import Action, Finding, shown
from webhook.model.plain_text import printable
from webhook.offline.fit_report import fit_sentence
from webhook.offline.judgement import Judgement
from webhook.offline.position import Position
from webhook.pictures.folding import gang_picture
from webhook.pictures.text import tree_lines

_ANSWERS = {
    Answer.RUNS: ("runs as written", "green"),
    Answer.PARTLY: ("admitted, but not as written", "yellow"),
    Answer.REFUSED: ("refused", "bold red"),
    Answer.UNKNOWN: ("not known", "cyan"),
}
_VALUE_MISSING = "the edit needs a value that only you know"
_NOT_FOUND = "no small edit was found"


def print_head(place: Position, named: str, out: Console) -> None:
    """Print the line above what is said of one object."""
    out.print(Text(printable(f"{place}: {named}"), "bold"))


def print_explanation(place: Position, found: Explanation, out: Console) -> None:
    """Print the explanation of one workload."""
    print_head(place, f"{found.kind} {found.namespace}/{found.name}", out)
    if found.choice.scheduler:
        say(out, 1, f"scheduler {found.choice.scheduler}, {found.chosen_by}")
    for note in found.notes:
        say(out, 1, note)
    for problem in (*found.broken, *found.names):
        _finding(problem, out, 1)
    if found.views:
        out.print()
        print_matrix(found, out)
        for view in found.views:
            out.print()
            _view(view, found.choice.scheduler, out, edited=found.kind == "PodCliqueSet")
    if found.tree is not None:
        out.print()
        for line_of_tree in tree_lines(gang_picture(found.tree)):
            say(out, 1, line_of_tree)
    out.print()


def print_names(place: Position, found: Judgement, out: Console) -> None:
    """Print what is wrong with the names in an object that is not explained."""
    print_head(
        place, f"{found.kind} {found.namespace}/{found.name}" if found.namespace else f"{found.kind} {found.name}", out
    )
    for problem in found.verdict.findings:
        _finding(problem, out, 1)
    out.print()


def _view(view: View, chosen: str, out: Console, *, edited: bool) -> None:
    opinion = view.opinion
    answer, style = _ANSWERS[opinion.answer]
    if opinion.answer is Answer.PARTLY and all(
        honour.honoured in {Honoured.YES, Honoured.UNKNOWN, Honoured.UNSTATED} for honour in opinion.honours
    ):
        answer = "admitted, not known to run as written"
    own = ", the one chosen" if view.scheduler == chosen else ""
    out.print(Text.assemble("    ", (view.scheduler, "bold"), f"{own}: ", (answer, style)))
    for entry in view.fits:
        say(out, 2, f"fits: {fit_sentence(entry)}")
    for mode in view.disruption_modes:
        say(out, 2, f"disruption mode {mode}: {mode.meaning}")
    for honour in opinion.honours:
        _honour(honour, out)
    unstated = [str(honour.capability) for honour in opinion.honours if honour.honoured is Honoured.UNSTATED]
    if unstated:
        say(out, 2, f"not known to act on {', '.join(unstated)}")
    for other in opinion.others:
        _finding(other, out, 2)
    covered = (f"{found.rule}: {found.excepted.terms}" for found in opinion.findings if found.excepted is not None)
    for line in dict.fromkeys(covered):
        say(out, 2, line)
    told = {missing for honour in opinion.honours for missing in honour.unjudged}
    for missing in opinion.unjudged:
        if missing not in told:
            say(out, 2, f"not judged: {missing.rule} at {missing.at}: {missing.lacking}")
    if view.edit is not None:
        _edit(view.edit, out)
    elif edited and opinion.answer is Answer.REFUSED:
        # Only the author knows a missing value for which the facts offer none.
        valueless = any(found.found is None and not found.instead for found in opinion.denials)
        say(out, 2, f"{_VALUE_MISSING if valueless else _NOT_FOUND}; see what to do above")


def _honour(honour: Honour, out: Console) -> None:
    if honour.honoured in {Honoured.YES, Honoured.UNSTATED}:
        return
    support = honour.support
    word, style = CELLS[honour.honoured]
    lead = Text.assemble("        ", (str(honour.capability), "bold"), ": ")
    if honour.honoured is Honoured.UNKNOWN:
        out.print(lead + Text("not judged", style))
        for missing in honour.unjudged:
            say(out, 3, f"at   {missing.at}: {missing.needs} unknown")
            if missing.remedy:
                say(out, 3, f"do   {missing.remedy}")
        return
    out.print(lead + Text(word, style))
    if not honour.findings and support is not None:
        say(out, 3, f"why  {support.why}")
        say(out, 3, f"do   {support.remedy}")
    for index, found in enumerate(honour.findings):
        say(out, 3, f"at   {found.at}: {shown(found.found)}")
        # Printed once if many places have the same fault.
        following = honour.findings[index + 1 : index + 2]
        if not following or (following[0].why, following[0].remedy) != (found.why, found.remedy):
            say(out, 3, f"why  {found.why}")
            say(out, 3, f"do   {found.remedy}")


def _finding(found: Finding, out: Console, depth: int) -> None:
    word = "error" if found.action is Action.DENY else "warning"
    style = "bold red" if found.action is Action.DENY else "yellow"
    out.print(Text.assemble("    " * depth, (word, style), f" {found.rule}"))
    say(out, depth + 1, f"at   {found.at}: {shown(found.found)}")
    say(out, depth + 1, f"why  {found.why}")
    say(out, depth + 1, f"do   {found.remedy}")


def _edit(edit: Edit, out: Console) -> None:
    word, style = _ANSWERS[edit.then]
    then = ("runs", style) if edit.then is Answer.RUNS else (f"is {word}", style)
    out.print(Text.assemble("        ", ("smallest edit", "bold"), ", after which it ", then))
    for change in edit.changes:
        say(out, 3, change_line(change))


def say(out: Console, depth: int, text: str) -> None:
    """Print one line, indented by `depth` steps."""
    if out.is_terminal:
        # A long line then continues below its own start.
        out.print(Padding(Text(printable(text)), (0, 0, 0, 4 * depth)))
    else:
        out.print(Text("    " * depth + printable(text)))
