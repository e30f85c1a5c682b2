"""Explanations on a terminal, in JSON and as pictures: the table of schedulers, what refuses the workload, the tree of
gangs, and trees of groups written by hand.

There are more capabilities than fit beside each other, so a row for each scheduler lists those that are not a plain
yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from webhook.admission.opinion import Honour, Honoured, OpinionAnswer
from webhook.cli.author_commands import Picture
from webhook.cli.options import console
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, change_line, tell
from webhook.cluster.clock import MACHINE_CLOCK
from webhook.config.settings import Settings
from webhook.errors import InputError, ReviewError, TooLarge
from webhook.fit.verdict import FitAnswer as Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding, printable, shown
from webhook.offline.explanation import Edit, Explanation, SchedulerView, explain_document
from webhook.offline.fit_report import fit_sentence, worst_answer
from webhook.offline.group_forest import JudgedTree, trees_in
from webhook.offline.judgement import Judgement, name_judgements
from webhook.offline.manifests import Document
from webhook.offline.pictures import drawing, flowchart, gang_picture, group_picture, tree_lines
from webhook.offline.report import Position, finding_as_json, position_in
from webhook.offline.satisfiability import Standing
from webhook.offline.worlds import Worlds

CELLS = {
    Honoured.YES: ("yes", "green"),
    Honoured.NO: ("no", "bold red"),
    Honoured.IN_PART: ("in part", "yellow"),
    Honoured.UNKNOWN: ("?", "cyan"),
    Honoured.UNSTATED: ("-", "yellow"),
}
_SHORT = {
    OpinionAnswer.RUNS: ("runs", "green"),
    OpinionAnswer.PARTLY: ("in part", "yellow"),
    OpinionAnswer.REFUSED: ("refused", "bold red"),
    OpinionAnswer.UNKNOWN: ("?", "cyan"),
}
# In the order of the groups of a row.
_WORDS = dict(CELLS[honoured] for honoured in (Honoured.NO, Honoured.IN_PART, Honoured.UNKNOWN, Honoured.UNSTATED))
_OTHERS = "other faults"
_LEGEND = {
    "in part": "admitted, with something missing, unknown or warned about",
    "?": "facts are missing; --facts or --live supplies them",
    "-": "not known whether the scheduler acts on it",
    _OTHERS: "errors or warnings about what no word of this table names",
}
_HEAD = ("scheduler", "as written", "what it does not get")
_FIT_CELLS = {Verdict.NEVER: ("never", "bold red"), Verdict.FITS: ("yes", "green"), Verdict.UNKNOWN: ("?", "cyan")}
_INDENT = 4
# A table that is not on a terminal must fit one.
_WIDTH = 80
_GAP = 2
_FIT_WIDTH = len("never") + _GAP


def _lines(explanation: Explanation, out: Console) -> Iterator[Text]:
    width = (out.width if out.is_terminal else _WIDTH) - _INDENT
    uses = Text(", ".join(str(use) for use in explanation.uses or ()) or "nothing special")
    yield from _wrapped_beside(Text("asks for  ", "dim"), uses, width, out)
    yield Text()
    first = max(map(len, (_HEAD[0], *(view.scheduler for view in explanation.views)))) + _GAP
    second = max(map(len, (_HEAD[1], *(_SHORT[view.opinion.answer][0] for view in explanation.views)))) + _GAP
    fits = any(view.fits for view in explanation.views)
    # A column of its own, only where nodes are known.
    third = "fits".ljust(_FIT_WIDTH) if fits else ""
    yield Text(_HEAD[0].ljust(first) + _HEAD[1].ljust(second) + third + _HEAD[2], "dim")
    words: set[str] = set()
    for view in explanation.views:
        word, style = _SHORT[view.opinion.answer]
        row = Text.assemble((view.scheduler.ljust(first), "bold"), (word.ljust(second), style))
        if fits:
            worst = worst_answer(view.fits)
            fit, fit_style = ("-", "dim") if worst is None else _FIT_CELLS[worst]
            row.append(fit.ljust(_FIT_WIDTH), fit_style)
        cells = _cells(view)
        words |= {word, *cells, *cells.values()}
        for line in _exceptions(cells) or (Text(),):
            yield from _wrapped_beside(row, line, width, out)
            row = Text(" " * len(row))
    legend = {word: meaning for word, meaning in _LEGEND.items() if word in words}
    if legend:
        yield Text()
    for word, meaning in legend.items():
        yield Text(f"{word}: {meaning}", "dim")


def _exceptions(cells: dict[str, str]) -> list[Text]:
    """Returns the capabilities that are not a plain yes, a text for each word."""
    groups = [(word, [name for name, cell in cells.items() if cell == word]) for word in _WORDS]
    return [Text.assemble((f"{word}: ", _WORDS[word]), ", ".join(names)) for word, names in groups if names]


def _cells(view: SchedulerView) -> dict[str, str]:
    cells = {str(honour.capability): CELLS[honour.honoured][0] for honour in view.opinion.honours}
    actions = {finding.action for finding in view.opinion.others}
    if Action.DENY in actions:
        cells[_OTHERS] = CELLS[Honoured.NO][0]
    elif Action.WARN in actions:
        cells[_OTHERS] = CELLS[Honoured.IN_PART][0]
    return cells


def _wrapped_beside(start: Text, rest: Text, width: int, out: Console) -> Iterator[Text]:
    """Yields `rest` wrapped beside `start`; further lines begin below its own start."""
    lines = rest.wrap(out, max(width - len(start), 20)) or [Text()]
    for index, line in enumerate(lines):
        yield (start if index == 0 else Text(" " * len(start))) + line


_ANSWERS = {
    OpinionAnswer.RUNS: ("runs as written", "green"),
    OpinionAnswer.PARTLY: ("admitted, but not as written", "yellow"),
    OpinionAnswer.REFUSED: ("refused", "bold red"),
    OpinionAnswer.UNKNOWN: ("not known", "cyan"),
}


def print_head(place: Position, title: str, out: Console) -> None:
    out.print(Text(printable(f"{place}: {title}"), "bold"))


def print_explanation(place: Position, explanation: Explanation, out: Console) -> None:
    print_head(place, f"{explanation.kind} {explanation.namespace}/{explanation.name}", out)
    if explanation.choice.scheduler:
        say(out, 1, f"scheduler {explanation.choice.scheduler}, {explanation.chosen_by}")
    for note in explanation.notes:
        say(out, 1, note)
    for problem in (*explanation.broken, *explanation.names):
        _finding(problem, out, 1)
    if explanation.views:
        out.print()
        for line in _lines(explanation, out):
            line.rstrip()
            out.print(Text(" " * _INDENT) + line if line.plain else line, soft_wrap=True)
        for view in explanation.views:
            out.print()
            _view(view, explanation.choice.scheduler, out, edited=explanation.kind == "PodCliqueSet")
    if explanation.tree is not None:
        out.print()
        for branch in tree_lines(gang_picture(explanation.tree)):
            say(out, 1, branch)
    out.print()


def _view(view: SchedulerView, chosen: str, out: Console, *, edited: bool) -> None:
    opinion = view.opinion
    answer, style = _ANSWERS[opinion.answer]
    if opinion.answer is OpinionAnswer.PARTLY and all(
        honour.honoured in {Honoured.YES, Honoured.UNKNOWN, Honoured.UNSTATED} for honour in opinion.honours
    ):
        answer = "admitted, not known to run as written"
    note = ", the one chosen" if view.scheduler == chosen else ""
    out.print(Text.assemble("    ", (view.scheduler, "bold"), f"{note}: ", (answer, style)))
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
    covered = (
        f"{finding.rule}: {finding.excepted.terms}" for finding in opinion.findings if finding.excepted is not None
    )
    for line in dict.fromkeys(covered):
        say(out, 2, line)
    printed = {missing for honour in opinion.honours for missing in honour.unjudged}
    for missing in opinion.unjudged:
        if missing not in printed:
            say(out, 2, f"not judged: {missing.rule} at {missing.at}: {missing.lacking}")
    if view.edit is not None:
        _edit(view.edit, out)
    elif edited and opinion.answer is OpinionAnswer.REFUSED:
        # Only the author knows a missing value for which the facts offer none.
        valueless = any(denial.value is None and not denial.instead for denial in opinion.denials)
        why = "the edit needs a value that only you know" if valueless else "no small edit was found"
        say(out, 2, f"{why}; see what to do above")


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
    for index, finding in enumerate(honour.findings):
        say(out, 3, f"at   {finding.at}: {shown(finding.value)}")
        # Printed once if many places have the same fault.
        following = honour.findings[index + 1 : index + 2]
        if not following or (following[0].why, following[0].remedy) != (finding.why, finding.remedy):
            say(out, 3, f"why  {finding.why}")
            say(out, 3, f"do   {finding.remedy}")


def _finding(finding: Finding, out: Console, depth: int) -> None:
    word = "error" if finding.action is Action.DENY else "warning"
    style = "bold red" if finding.action is Action.DENY else "yellow"
    out.print(Text.assemble("    " * depth, (word, style), f" {finding.rule}"))
    say(out, depth + 1, f"at   {finding.at}: {shown(finding.value)}")
    say(out, depth + 1, f"why  {finding.why}")
    say(out, depth + 1, f"do   {finding.remedy}")


def _edit(edit: Edit, out: Console) -> None:
    word, style = _ANSWERS[edit.then]
    then = ("runs", style) if edit.then is OpinionAnswer.RUNS else (f"is {word}", style)
    out.print(Text.assemble("        ", ("smallest edit", "bold"), ", after which it ", then))
    for change in edit.changes:
        say(out, 3, change_line(change))


def say(out: Console, depth: int, text: str) -> None:
    """Prints one line, indented by `depth` steps."""
    if out.is_terminal:
        # A long line then continues below its own start.
        out.print(Padding(Text(printable(text)), (0, 0, 0, 4 * depth)))
    else:
        out.print(Text("    " * depth + printable(text)))


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Returns the widths of the columns of a table, without the last one, which is not padded."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]


def print_row(row: Sequence[str], widths: Sequence[int], styles: Mapping[int, str], out: Console) -> None:
    """Prints a row of a table, each cell with the style for its index; a terminal cuts a line that is too long."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for index, (cell, width) in enumerate(zip(row, (*widths, 0), strict=True)):
        line.append(cell.ljust(width + 2), styles.get(index, ""))
    line.rstrip()
    out.print(line, overflow="ellipsis", no_wrap=True, crop=out.is_terminal)


_CODES = {Standing.CAN: CLEAN, Standing.CANNOT: REFUSED, Standing.UNKNOWN: NOT_EVALUATED}
_TREE_ANSWERS = {
    Standing.CAN: ("can start", "green"),
    Standing.CANNOT: ("can never start", "bold red"),
    Standing.UNKNOWN: ("not known whether it can start", "cyan"),
}
# The first causes are printed: the later ones often follow from them.
_MOST_CAUSES = 5


def print_tree(judged_tree: JudgedTree, out: Console) -> None:
    print_head(judged_tree.place, f"{judged_tree.tree.kind} {judged_tree.tree.full_name}", out)
    lead = Text.assemble("    ", _TREE_ANSWERS[judged_tree.verdict.standing])
    first, *others = [str(cause) for cause in judged_tree.verdict.causes] or [""]
    if judged_tree.verdict.standing is Standing.UNKNOWN:
        first = judged_tree.missing_facts
    out.print(lead + (f": {printable(first)}" if first else ""))
    for other in others[: _MOST_CAUSES - 1]:
        say(out, 2, f"and {other}")
    if len(others) >= _MOST_CAUSES:
        say(out, 2, f"and {len(others) - _MOST_CAUSES + 1} more")
    out.print()
    for line_of_tree in tree_lines(group_picture(judged_tree.tree)):
        say(out, 1, line_of_tree)
    out.print()


_ASSUMED = "no --config: every scheduler is shown with its defaults, default-scheduler without gangScheduling"
_ANSWER_CODES = {
    OpinionAnswer.RUNS: CLEAN,
    OpinionAnswer.PARTLY: CLEAN,
    OpinionAnswer.REFUSED: REFUSED,
    OpinionAnswer.UNKNOWN: NOT_EVALUATED,
}


# The places of explained workloads, and of objects that are not explained although names in them are wrong.
_Explanations = list[tuple[Position, Explanation]]
_Misnamed = list[tuple[Position, Judgement]]


def print_explanations(
    documents: list[Document], cluster_facts: ClusterFacts, settings: Settings, output: Picture, config: Path | None
) -> int:
    """Prints what is explained of each document, and returns the exit code. Raises `InputError`."""
    worlds = Worlds(cluster_facts, documents, settings.kinds)
    for remark in worlds.remarks:
        tell(str(remark))
    explanations: _Explanations = []
    misnamed: _Misnamed = []
    for document in documents:
        cluster_facts = worlds.facts_for(document)
        try:
            explained = list(explain_document(document.manifest, cluster_facts, settings, MACHINE_CLOCK.now()))
        except (ReviewError, TooLarge) as error:
            raise InputError(document.source, str(error), document.line, 1) from None
        explanations += [(position_in(document, at), explanation) for at, explanation in explained]
        places = {at for at, _ in explained}
        for judgement in name_judgements(document.manifest, cluster_facts, settings):
            if judgement.at not in places:
                misnamed.append((position_in(document, judgement.at), judgement))
    trees = trees_in(documents)
    _print(explanations, trees, misnamed, output, config)
    if not explanations and not trees:
        tell("nothing to explain: no workload, and no gang object")
        return UNREADABLE
    codes = {
        *(_code_of(explanation) for _, explanation in explanations),
        *(_CODES[judged_tree.verdict.standing] for judged_tree in trees),
    }
    # A refusal is certain, even if other facts are unknown.
    return REFUSED if REFUSED in codes else max(codes)


def _code_of(explanation: Explanation) -> int:
    if explanation.answer is not None:
        return _ANSWER_CODES[explanation.answer]
    # Without a scheduler nothing is decided; of a workload that asks for no gang there is nothing to decide.
    is_ordinary = explanation.omission is None or explanation.omission.is_ordinary
    return CLEAN if is_ordinary else NOT_EVALUATED


def _print(
    explanations: _Explanations, trees: list[JudgedTree], misnamed: _Misnamed, output: Picture, config: Path | None
) -> None:
    assumed = [_ASSUMED] if config is None else []
    boxes = [gang_picture(explanation.tree) for _, explanation in explanations if explanation.tree is not None]
    boxes += [group_picture(judged_tree.tree) for judged_tree in trees]
    if output is Picture.JSON:
        whole = {
            "workloads": [explanation.as_json() | place._asdict() for place, explanation in explanations],
            "trees": [tree.as_json() for tree in trees],
            "otherObjects": [entry for place, judgement in misnamed for entry in _misnamed_as_json(place, judgement)],
            "assumed": assumed,
            "configuration": config and str(config),
        }
        typer.echo(as_json_text(whole))
    elif output is Picture.MERMAID:
        typer.echo(flowchart(boxes), nl=False)
    elif output is Picture.SVG:
        typer.echo(drawing(boxes), nl=False)
    else:
        out = console()
        for place, judgement in misnamed:
            title = f"{judgement.kind} {f'{judgement.namespace}/' if judgement.namespace else ''}{judgement.name}"
            print_head(place, title, out)
            for problem in judgement.verdict.findings:
                _finding(problem, out, 1)
            out.print()
        for place, explanation in explanations:
            print_explanation(place, explanation, out)
        for tree in trees:
            print_tree(tree, out)
        for note in assumed if explanations else []:
            out.print(note, style="dim")


def _misnamed_as_json(place: Position, judgement: Judgement) -> Iterator[dict[str, Any]]:
    identity = {"kind": judgement.kind, "namespace": judgement.namespace, "name": judgement.name}
    for finding in judgement.verdict.findings:
        yield finding_as_json(finding) | {"object": identity, **place._asdict()}
