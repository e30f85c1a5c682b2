"""The command `rollcall`: the options before a subcommand, and the subcommands of the table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from webhook import __version__
from webhook.cli.command_classes import HELP, AnyCommand, Group, Listed
from webhook.cli.commands import COMMANDS, Commands


class Root(Group):
    """The group of all commands. Help and completion show the table, and only a command that is called is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Nothing adds a command, so it need not be mutable.
        self.commands = Commands(COMMANDS)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> AnyCommand | None:
        """Return what help and completion show of a command."""
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else Listed(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, AnyCommand | None, list[str]]:
        """Return the command that is called, imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.commands[name], rest


app = typer.Typer(
    name="rollcall",
    help="Gang-scheduling admission for Kubernetes: a gang starts as a whole, or not at all.",
    cls=Root,
    no_args_is_help=True,
    context_settings=HELP,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


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
