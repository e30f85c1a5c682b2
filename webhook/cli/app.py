"""All commands. Modules that are needed for more than reading files are imported when a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook import __version__
from webhook.cli.audit import audit
from webhook.cli.certs import certs_app
from webhook.cli.check import check
from webhook.cli.command_classes import HELP, Group, with_our_classes
from webhook.cli.config import config_app
from webhook.cli.doctor import doctor
from webhook.cli.explain import explain
from webhook.cli.facts import facts
from webhook.cli.fit import fit
from webhook.cli.gangs import gangs_app
from webhook.cli.manifests import manifests_app
from webhook.cli.metrics import metrics
from webhook.cli.reconcile import reconcile
from webhook.cli.render import render
from webhook.cli.rules import rules
from webhook.cli.schema import schema_app
from webhook.cli.serve import serve
from webhook.cli.shapes import shapes_app
from webhook.cli.upgrade_plan import upgrade_plan

app = typer.Typer(
    name="rollcall",
    help="Gang-scheduling admission for Kubernetes: a gang starts as a whole, or not at all.",
    cls=Group,
    no_args_is_help=True,
    context_settings=HELP,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
# The help shows the commands by task, and the tasks in the order of their first command.
AUTHOR = "Author: judge and understand manifests"
OPERATE = "Operate: look into a cluster"
RUN = "Run: the processes of Rollcall"
INSTALL = "Install: configuration and manifests"
for panel, commands in (
    (AUTHOR, (check, explain, fit, render, rules, facts)),
    (OPERATE, (doctor, audit, upgrade_plan)),
    (RUN, (serve, reconcile, metrics)),
):
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(gangs_app, name="gangs", rich_help_panel=OPERATE)
app.add_typer(certs_app, name="certs", rich_help_panel=OPERATE)
app.add_typer(config_app, name="config", rich_help_panel=INSTALL)
app.add_typer(manifests_app, name="manifests", rich_help_panel=INSTALL)
app.add_typer(schema_app, name="schema", rich_help_panel=AUTHOR)
app.add_typer(shapes_app, name="shapes", rich_help_panel=AUTHOR)
with_our_classes(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rollcall {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and exit.")
    ] = False,
    require_config: Annotated[
        bool,
        typer.Option(
            "--require-config", help="Search no configuration: commands that judge manifests then need --config."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an internal error comes from.")] = False,
) -> None:
    """Gang-scheduling admission for Kubernetes: a gang starts as a whole, or not at all."""
