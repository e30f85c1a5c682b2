"""Whether a command that a page shows exists: its subcommand and its options, as the command line declares them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer
from typer.core import TyperOption

from webhook.cli.commands import app

# Between these a shell starts another command.
_SEPARATORS = re.compile(r"^(\|\|?|&&?|;|do|then)$")
_PLACEHOLDERS = {"...", "COMMAND", "[OPTIONS]"}


def unknown_words(command: str) -> list[str]:
    """Return the subcommands and options in the `rollcall` calls of a shell command that do not exist."""
    return [word for words in _calls(command) for word in _unknown(words)]


def _calls(command: str) -> Iterator[list[str]]:
    words: list[str] = []
    for word in [*shlex.split(command.replace(";", " ; "), comments=True), ";"]:
        if _SEPARATORS.match(word):
            if words[:1] == ["rollcall"]:
                yield words[1:]
            words = []
        else:
            words.append(word)


def _unknown(words: list[str]) -> Iterator[str]:
    # Of a vendored library without public types.
    command: Any = _command()
    options = {"--help": True} | _options(command)
    rest = iter(words)
    for word in rest:
        if word.startswith("-") and word != "-":
            name, _, value = word.partition("=")
            if name not in options:
                yield name
            elif not options[name] and not value:
                next(rest, None)
        elif word in _PLACEHOLDERS or word.startswith(">"):
            return
        elif getattr(command, "commands", {}):
            # `certs status|rotate` in a sentence names two subcommands.
            found = [command.commands.get(one) for one in word.split("|")]
            if None in found:
                yield word
                return
            command = found[0]
            options |= _options(command)


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def _options(command: Any) -> dict[str, bool]:
    """Return the options of a command, and whether each is a flag, which takes no value."""
    options = [one for one in command.params if isinstance(one, TyperOption)]
    return {name: bool(one.is_flag) for one in options for name in [*one.opts, *one.secondary_opts]}
