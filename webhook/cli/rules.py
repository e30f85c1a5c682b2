"""`rollcall rules`: list every rule, or show one in full."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.judging_configuration import DEFAULT, NO_FILE
from webhook.cli.options import ReferenceFormat, ReferenceOutput


def rules(
    command: typer.Context,
    rule: Annotated[str | None, typer.Argument(metavar="ID", help="One rule, in full.", show_default=False)] = None,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"A RollcallConfiguration whose rules are listed, with their actions; `{NO_FILE}` for every rule.",
            show_default=DEFAULT,
        ),
    ] = None,
    output: ReferenceOutput = ReferenceFormat.TEXT,
) -> None:
    """List the rules, or show one with its reason, its source and its examples.

    With a configuration it lists the rules of the enabled schedulers, each with its action there instead of its
    default. `-o markdown` is the reference and reads no configuration.

    **Examples**

    - `rollcall rules`
    - `rollcall rules koordinator/mnnvl`
    - `rollcall rules --config rollcall.yaml`
    - `rollcall rules -o markdown > rules.md`
    """
    from webhook.cli.rule_list import print_chosen

    print_chosen(command, rule, config, output)
