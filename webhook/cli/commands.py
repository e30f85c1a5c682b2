"""The command `rollcall` and all its commands by name: where each is declared, how the help lists it, and how each
takes its words.

A command imports what it works with, and none of the others should wait for that: its module is imported when it runs.
Its line in the help stands here, and a test compares it with the command. `-h` is `--help`, a flag is shown without a
type, and the likely value follows a wrong one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from webhook import __version__
from webhook.model.fields import meant

# Click, which Typer vendors, has no public types.
AnyCommand = Any
HELP = {"help_option_names": ["-h", "--help"]}
# What Typer says of a value that is not among the allowed ones.
_WRONG_CHOICE = re.compile(r"(?:Value error, )?'(?P<word>.*)' is not one of (?P<known>'.*')\.")
# The flags that Typer adds. To read one that is not given, and whose default is None, it would import pydantic.
_OF_TYPER = frozenset({"help", "install_completion", "show_completion"})


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return _plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.find_root().params.get("require_config"):
            # pre-commit and shells put the names of files behind the options, and an author may add the file
            # `--config=mine.yaml`.
            for word in takewhile(lambda word: word != "--", args):
                if word.startswith("-") and word != "-" and os.path.lexists(word):
                    why = f"{word!r} is an option, and a file here; rename it, or write -- before all files"
                    raise typer.BadParameter(why)
        with _plain_mistakes():
            return super().parse_args(ctx, args)


class Listed(TyperCommand):
    """A command as the list of commands shows it. It cannot be run."""


class CommandGroup(TyperGroup):
    """A command with commands below it."""

    def get_params(self, ctx: Any) -> Any:
        return _plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _plain_mistakes():
            return super().parse_args(ctx, args)


def use_own_classes(app: typer.Typer) -> None:
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        group.cls = CommandGroup
        if group.typer_instance is not None:
            use_own_classes(group.typer_instance)


@contextmanager
def _plain_mistakes() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        # Typer's message about a wrong value, in our words and with the likely value.
        if (match := _WRONG_CHOICE.fullmatch(error.message)) is not None:
            choices = re.findall(r"'([^']*)'", match["known"])
            likely = meant(match["word"], choices)
            error.message = f"{match['word']!r} is not one of {', '.join(choices)}{likely}"
        raise


def _plain_flags(parameters: Any) -> Any:
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
            if parameter.name in _OF_TYPER:
                parameter.default = False
    return parameters


# The help shows the commands by task, and the tasks in the order of their first command.
AUTHOR = "Author: judge and understand manifests"
OPERATE = "Operate: look into a cluster"
RUN = "Run: the processes of Rollcall"
INSTALL = "Install: configuration and manifests"


class CommandEntry(NamedTuple):
    """The module of a command in this package, its function or Typer there, its task, and its line in the help."""

    module: str
    attribute: str
    panel: str
    help: str


COMMANDS: Mapping[str, CommandEntry] = {
    "check": CommandEntry(
        "check_command",
        "check",
        AUTHOR,
        "Judge manifests as the webhook would, without a cluster, or with the facts of one.",
    ),
    "explain": CommandEntry(
        "author_commands",
        "explain",
        AUTHOR,
        "Show which schedulers could run a workload, what stops each of the others, and the smallest edit that would "
        "help. For gang objects written by hand: whether their trees can ever start. For a PodGang, Job, JobSet or "
        "LeaderWorkerSet in a cluster: why it does not start.",
    ),
    "fit": CommandEntry(
        "author_commands",
        "fit",
        AUTHOR,
        "Say whether the gangs of a workload can ever start, and whether there is room for them now.",
    ),
    "render": CommandEntry(
        "author_commands",
        "render",
        AUTHOR,
        "Print what a workload would get: its gang objects and one stamped pod for each gang.",
    ),
    "rules": CommandEntry(
        "author_commands",
        "rules",
        AUTHOR,
        "List the rules, or show one with its reason, its source and its examples.",
    ),
    "facts": CommandEntry(
        "author_commands",
        "facts",
        AUTHOR,
        "Write what rules may ask about in a cluster into a folder, for `--facts` of `check`, `explain`, `fit`, "
        "`render` and `serve`.",
    ),
    "doctor": CommandEntry(
        "operations_commands",
        "doctor",
        OPERATE,
        "Check the installation in a cluster: what is wrong, why it matters and what to do.",
    ),
    "audit": CommandEntry(
        "operations_commands",
        "audit",
        OPERATE,
        "Judge what a cluster stores, by today's rules and configuration, as if it were created now.",
    ),
    "upgrade-plan": CommandEntry(
        "operations_commands",
        "upgrade_plan",
        OPERATE,
        "Show what an upgrade of Grove, Kubernetes or a scheduler means for the living gangs of a cluster, "
        "and what to do before, in which order.",
    ),
    "serve": CommandEntry(
        "process_commands",
        "serve",
        RUN,
        "Serve the webhook over TLS, following a cluster, or alone with --standalone.",
    ),
    "reconcile": CommandEntry(
        "process_commands",
        "reconcile",
        RUN,
        "Keep the schedulers' gang objects up to date with Grove's PodGangs, and with Jobs, JobSets and "
        "LeaderWorkerSets.",
    ),
    "metrics": CommandEntry(
        "process_commands",
        "metrics",
        RUN,
        "List the metrics of the server and of the reconciler, with their labels and the values that these can have.",
    ),
    "gangs": CommandEntry(
        "gangs_command",
        "gangs_app",
        OPERATE,
        "Show the gangs of a cluster: how many of the pods that a gang needs to start are on nodes, and why it does "
        "not start.",
    ),
    "certs": CommandEntry("certs_command", "certs_app", OPERATE, "Certificates."),
    "config": CommandEntry("config_command", "config_app", INSTALL, "The configuration file."),
    "manifests": CommandEntry(
        "manifests_command", "manifests_app", INSTALL, "The objects that a cluster needs, as manifests."
    ),
    "schema": CommandEntry("check_command", "schema_app", AUTHOR, "Print the JSON Schemas of what Rollcall prints."),
    "shapes": CommandEntry(
        "author_commands", "shapes_app", AUTHOR, "Kinds of workloads that are declared by WorkloadShapes."
    ),
}


class Commands(Mapping[str, AnyCommand]):
    """The commands of a table. Each is imported and built when it is first looked up."""

    def __init__(self, table: Mapping[str, CommandEntry]) -> None:
        self._table = table
        self._built: dict[str, AnyCommand] = {}

    def __getitem__(self, name: str) -> AnyCommand:
        if name not in self._built:
            self._built[name] = _built_command(name, self._table[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _built_command(name: str, entry: CommandEntry) -> AnyCommand:
    declared = getattr(import_module(f"webhook.cli.{entry.module}"), entry.attribute)
    parent = typer.Typer(rich_markup_mode="markdown")
    if isinstance(declared, typer.Typer):
        parent.add_typer(declared, name=name, rich_help_panel=entry.panel)
    else:
        parent.command(name, rich_help_panel=entry.panel)(declared)
    use_own_classes(parent)
    command: AnyCommand = typer.main.get_group(parent).commands[name]
    return command


class RootCommand(CommandGroup):
    """The group of all commands. Help and completion show the table, and only a command that is called is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Nothing adds a command, so it need not be mutable.
        self.commands = Commands(COMMANDS)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> AnyCommand | None:
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else Listed(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, AnyCommand | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.commands[name], rest


app = typer.Typer(
    name="rollcall",
    help="Gang-scheduling admission for Kubernetes: a gang starts as a whole, or not at all.",
    cls=RootCommand,
    no_args_is_help=True,
    context_settings=HELP,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
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
