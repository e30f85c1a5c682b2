"""How each command takes its words: `-h` is `--help`, a flag is shown without a type, and the likely value follows a
wrong one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from webhook.model.near_names import meant

# Click, which Typer vendors, has no public types.
AnyCommand = Any
HELP = {"help_option_names": ["-h", "--help"]}
# What Typer says of a value that is not among the allowed ones.
_WRONG_CHOICE = re.compile(r"(?:Value error, )?'(?P<word>.*)' is not one of (?P<known>'.*')\.")
# The flags that Typer adds. To read one that is not given, and whose default is None, it would import pydantic.
_OF_TYPER = frozenset({"help", "install_completion", "show_completion"})


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command. Raises `typer.BadParameter`."""
        if ctx.find_root().params.get("require_config"):
            _require_no_file_as_option(args)
        with _plain_mistakes():
            return super().parse_args(ctx, args)


class Listed(TyperCommand):
    """A command as the list of commands shows it. It cannot be run."""


class Group(TyperGroup):
    """A command with commands below it."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before a subcommand. Raises `typer.BadParameter`."""
        with _plain_mistakes():
            return super().parse_args(ctx, args)


def with_our_classes(app: typer.Typer) -> None:
    """Let all commands below `app` be of these classes."""
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            with_our_classes(group.typer_instance)


def _require_no_file_as_option(args: list[str]) -> None:
    """Refuse a file name that would be read as an option. pre-commit and shells put the names of files behind the
    options, and an author may add the file `--config=mine.yaml`.
    """
    for word in takewhile(lambda word: word != "--", args):
        if word.startswith("-") and word != "-" and os.path.lexists(word):
            raise typer.BadParameter(f"{word!r} is an option, and a file here; rename it, or write -- before all files")


@contextmanager
def _plain_mistakes() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        error.message = plainly(error.message)
        raise


def plainly(message: str) -> str:
    """Return Typer's message about a wrong value in our words, with the likely value."""
    found = _WRONG_CHOICE.fullmatch(message)
    if found is None:
        return message
    known = re.findall(r"'([^']*)'", found["known"])
    return f"{found['word']!r} is not one of {', '.join(known)}{meant(found['word'], known)}"


def _without_types(parameters: Any) -> Any:
    for one in parameters:
        if isinstance(one, TyperOption) and one.is_flag:
            one.metavar = ""
            if one.name in _OF_TYPER:
                one.default = False
    return parameters
