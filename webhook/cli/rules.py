"""`rollcall rules`: list every rule, or show one in full."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from webhook.cli.options import ReferenceFormat, console
from webhook.cli.output import as_json_text
from webhook.cli.rule_messages import messages
from webhook.cli.rule_reference import as_yaml, every_rule, reference
from webhook.model.near_names import meant
from webhook.reports.rule_pages import paragraphs, summary
from webhook.validators.registry import Rule


def rules(
    rule: Annotated[str | None, typer.Argument(metavar="[ID]", help="One rule, in full.", show_default=False)] = None,
    *,
    output: Annotated[ReferenceFormat, typer.Option("--output", "-o", help="What to print.")] = ReferenceFormat.TEXT,
) -> None:
    """List the rules, or show one with its reason, its source and its examples.

    **Examples**

    - `rollcall rules`
    - `rollcall rules koordinator/mnnvl`
    - `rollcall rules -o markdown > rules.md`
    """
    found = every_rule()
    if rule is not None:
        ids = [declared.id for declared in found]
        found = [declared for declared in found if declared.id == rule]
        if not found:
            raise typer.BadParameter(f"there is no rule {rule}; `rollcall rules` lists them{meant(rule, ids)}")
    if output is ReferenceFormat.JSON:
        typer.echo(as_json_text([_as_json(declared) for declared in found]))
    elif output is ReferenceFormat.MARKDOWN:
        typer.echo(reference(found), nl=False)
    elif rule is not None:
        _show(found[0])
    else:
        _list(found)


def _list(found: list[Rule]) -> None:
    out = console()
    rows = [(declared.id, str(declared.default), _judges(declared), summary(declared)) for declared in found]
    if not out.is_terminal:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            print(*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3], sep="  ")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("rule", "default", "judges"):
        table.add_column(column, no_wrap=True)
    table.add_column("why")
    for name, default, judges, why in rows:
        table.add_row(f"[bold]{name}[/]", default, judges, why)
    out.print(table)


def _judges(declared: Rule) -> str:
    """Return what a rule judges, in a few words: a column is as wide as its longest cell."""
    return declared.subject.value if len(declared.kinds) > 1 else declared.judges


def _show(declared: Rule) -> None:
    out = console()
    out.print(f"[bold]{declared.id}[/] ({declared.default}{', cannot be softened' if declared.fails_closed else ''})")
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


def _as_json(declared: Rule) -> dict[str, Any]:
    return {
        "id": declared.id,
        "default": str(declared.default),
        "judges": declared.judges,
        "failsClosed": declared.fails_closed,
        "capabilities": sorted(declared.capabilities),
        "documentation": "\n\n".join(paragraphs(declared)),
        "passes": declared.passes.object,
        "fails": declared.fails.object,
        "messages": messages(declared),
    }
