"""The rules as `rollcall rules` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.backends.registry import installed_backends
from webhook.cli.judging_configuration import judging_configuration
from webhook.cli.options import ReferenceFormat, configured, console
from webhook.cli.output import as_json_text
from webhook.cli.rule_actions import actions_of
from webhook.cli.rule_messages import messages
from webhook.cli.rule_reference import as_yaml, every_rule, reference
from webhook.model.near_names import meant
from webhook.reports.rule_pages import paragraphs, summary
from webhook.validators.registry import Rule

# The actions of each rule by scheduler, by the rule's id.
Actions = Mapping[str, Mapping[str, str]]
# On a narrower terminal the last column of the table would have a word a line.
_TABLE_WIDTH = 120
_INDENT = 4


def print_chosen(command: typer.Context, rule: str | None, config: Path | None, output: ReferenceFormat) -> None:
    """Print the rule with that id, or every rule that the configuration has."""
    found = every_rule() if rule is None else [_declared(rule)]
    if output is ReferenceFormat.MARKDOWN:
        typer.echo(reference(found), nl=False)
        return
    config = judging_configuration(command, config)
    settings = configured(config)
    actions = None if config is None else actions_of(settings)
    if rule is None and actions is not None:
        others = [one for name in installed_backends() if name not in settings.profiles for one in _own(name)]
        found = [declared for declared in found if declared not in others]
    if output is ReferenceFormat.JSON:
        typer.echo(as_json_text([_as_json(declared, actions) for declared in found]))
    elif rule is not None:
        _show(found[0], actions)
    else:
        print_rules(found, actions, console())


def _own(scheduler: str) -> Sequence[Rule]:
    return installed_backends()[scheduler].rules


def _declared(rule_id: str) -> Rule:
    """Return the rule with that id. Raises `typer.BadParameter`."""
    known = {declared.id: declared for declared in every_rule()}
    if rule_id not in known:
        raise typer.BadParameter(f"there is no rule {rule_id}; `rollcall rules` lists them{meant(rule_id, known)}")
    return known[rule_id]


def _action(declared: Rule, actions: Actions | None) -> str:
    """Return what the rule does: its default, or its action in the configuration. Schedulers may differ."""
    if actions is None or declared.id not in actions:
        return str(declared.default)
    return "/".join(sorted(set(actions[declared.id].values())))


def print_rules(found: list[Rule], actions: Actions | None, out: Console) -> None:
    """Print a line for each rule; on a terminal as a table, or as two lines each if that is too narrow for a table."""
    rows = [(declared.id, _action(declared, actions), _judges(declared), summary(declared)) for declared in found]
    if not out.is_terminal:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            print(*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3], sep="  ")
        return
    if out.width < _TABLE_WIDTH:
        for name, action, judges, why in rows:
            out.print(f"[bold]{name}[/] {action}, {judges}")
            out.print(Padding(Text(why), (0, 0, 0, _INDENT)))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("rule", "default" if actions is None else "action", "judges"):
        table.add_column(column, no_wrap=True)
    table.add_column("why")
    for name, action, judges, why in rows:
        table.add_row(f"[bold]{name}[/]", action, judges, why)
    out.print(table)


def _judges(declared: Rule) -> str:
    """Return what a rule judges, in a few words: a column is as wide as its longest cell."""
    return declared.subject.value if len(declared.kinds) > 1 else declared.judges


def _show(declared: Rule, actions: Actions | None) -> None:
    out = console()
    limits = ", cannot be softened" if declared.fails_closed else ", never excepted" if declared.never_excepted else ""
    out.print(f"[bold]{declared.id}[/] ({declared.default}{limits})")
    if actions is not None:
        out.print(f"in the configuration: {_in_words(declared, actions)}")
    for paragraph in paragraphs(declared):
        out.print()
        out.print(paragraph, markup=False)
    shown = (
        ("found in", as_yaml(declared.fails)),
        ("message", "\n".join(messages(declared))),
        ("fine", as_yaml(declared.passes)),
    )
    for title, lines in shown:
        out.print(f"\n[bold]{title}:[/]\n")
        out.print(lines, markup=False, soft_wrap=True)


def _in_words(declared: Rule, actions: Actions) -> str:
    """Return the rule's action for each scheduler that has it."""
    taken = actions.get(declared.id)
    if taken is None:
        # Rules about an object's shape or the choice of a scheduler are in no profile.
        general = not any(declared in _own(name) for name in installed_backends())
        return str(declared.default) if general else "its scheduler is not enabled"
    return ", ".join(f"{action} for {scheduler}" for scheduler, action in taken.items())


def _as_json(declared: Rule, actions: Actions | None) -> dict[str, Any]:
    return {
        "id": declared.id,
        "default": str(declared.default),
        "judges": declared.judges,
        **({} if actions is None else {"actions": dict(actions.get(declared.id, {}))}),
        "failsClosed": declared.fails_closed,
        "neverExcepted": bool(declared.never_excepted),
        "capabilities": sorted(declared.capabilities),
        "documentation": "\n\n".join(paragraphs(declared)),
        "passes": declared.passes.object,
        "fails": declared.fails.object,
        "messages": messages(declared),
    }
