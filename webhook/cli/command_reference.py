"""The page `docs/reference/command-line.md`, made from the commands, their arguments and their options."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from webhook.cli.app import app

_HEAD = """\
# Command line

Made by `scripts/reference`. `rollcall COMMAND --help` prints the same. Every command exits with one of these codes; its
section says more:

| code | meaning |
|---|---|
| 0 | clean |
| 1 | something is refused or wrong |
| 2 | a usage error, or something cannot be read |
| 3 | something could not be evaluated |
| 141 | the reader of the output closed the pipe |

Where more than one holds, the first of these counts: 141; 2; 1 for what is refused or wrong; 3; 1 for what only
`--strict` or `--fail-on` names. So strictness turns 0 into 1, and never 3.
"""


def reference() -> str:
    """Return the page: a table of all commands, then each command with its arguments and options."""
    root = typer.main.get_command(app)
    commands = dict(_commands(root, "rollcall"))
    lines = [_HEAD, "| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_first_line(one)} |" for name, one in commands.items()]
    for name, one in commands.items():
        lines += ["", *_section(name, one)]
    lines += ["", "## Options before the command", "", *_options(root.params)]
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, one in sorted(group.commands.items()):
        if not isinstance(one, TyperGroup) or one.invoke_without_command:
            yield f"{path} {name}", one
        if isinstance(one, TyperGroup):
            yield from _commands(one, f"{path} {name}")


def _first_line(command: Any) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    usage = " ".join(_argument(one) for one in arguments)
    yield f"## {name}"
    yield ""
    yield f"`{name} [OPTIONS] {usage}`".replace(" `", "`")
    yield ""
    yield (command.help or "").replace("**Examples**", "Examples:")
    for one in arguments:
        if one.help:
            yield ""
            yield f"`{_argument(one)}`: {one.help}"
    if any(isinstance(one, TyperOption) for one in command.params):
        yield ""
        yield from _options(command.params)


def _argument(one: TyperArgument) -> str:
    """Return the name of an argument, with dots if there may be several, and in brackets if it may be left out."""
    word = (one.metavar or one.name.upper()) + ("..." if one.nargs == -1 else "")
    return word if one.required else f"[{word}]"


def _options(parameters: list[Any]) -> Iterator[str]:
    yield "| option | value | default | what it does |"
    yield "|---|---|---|---|"
    for one in parameters:
        if isinstance(one, TyperOption) and not one.hidden:
            names = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
            cells = (names, _value(one), _default(one), " ".join((one.help or "").split()))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(option: TyperOption) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.default, Enum):
        return ", ".join(f"`{one.value}`" for one in type(option.default))
    return f"`{option.metavar or 'VALUE'}`"


def _default(option: TyperOption) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.default in (None, False, [], ()) or not option.show_default or callable(option.default):
        return ""
    value = option.default.value if isinstance(option.default, Enum) else option.default
    return f"`{value}`"
