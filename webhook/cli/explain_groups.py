"""Trees of groups written by hand, for `rollcall explain`: printed as text."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from webhook.cli.explain_text import print_head, say
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED
from webhook.explain.found_trees import FoundTree
from webhook.explain.satisfiability import Standing
from webhook.model.plain_text import printable
from webhook.pictures.folding import group_picture
from webhook.pictures.text import tree_lines

_CODES = {Standing.CAN: CLEAN, Standing.CANNOT: REFUSED, Standing.NOT_TOLD: NOT_EVALUATED}
_ANSWERS = {Standing.CAN: ("can start", "green"), Standing.CANNOT: ("can never start", "bold red")}
_NOT_TOLD = ("not known whether it can start", "cyan")
# The first causes are printed: the later ones often follow from them.
_TOLD = 5


def code_of(found: FoundTree) -> int:
    """Return the exit code for a tree."""
    return _CODES[found.verdict.standing]


def print_tree(found: FoundTree, out: Console) -> None:
    """Print the explanation of one tree."""
    print_head(found.place, f"{found.tree.kind} {found.tree.full_name}", out)
    answer, style = _ANSWERS.get(found.verdict.standing, _NOT_TOLD)
    lead = Text.assemble("    ", (answer, style))
    first, *others = [str(cause) for cause in found.verdict.causes] or [""]
    if found.verdict.standing is Standing.NOT_TOLD:
        first = found.untold
    out.print(lead + (f": {printable(first)}" if first else ""))
    for other in others[: _TOLD - 1]:
        say(out, 2, f"and {other}")
    if len(others) >= _TOLD:
        say(out, 2, f"and {len(others) - _TOLD + 1} more")
    out.print()
    for line_of_tree in tree_lines(group_picture(found.tree)):
        say(out, 1, line_of_tree)
    out.print()
