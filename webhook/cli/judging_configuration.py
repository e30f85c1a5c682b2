"""The configuration that manifests are judged by: `--config`, else $ROLLCALL_CONFIG, else a `rollcall.yaml` in the
working directory or above it.

Only commands that judge files search. A configuration that is merely found never reaches a cluster.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.output import tell

FILE_NAME = "rollcall.yaml"
VARIABLE = "ROLLCALL_CONFIG"
# Instead of a file: search none.
NO_FILE = "none"
DEFAULT = f"${VARIABLE}, else {FILE_NAME} here or above, else every backend with its defaults"


def judging_configuration(command: typer.Context, given: Path | None) -> Path | None:
    """Return the configuration file, or None for every backend with its defaults. `given` is the value of `--config`.

    Standard error names a file that was not given on the command line.
    """
    if given is None and command.find_root().params.get("require_config"):
        raise typer.BadParameter(f"--require-config needs --config FILE, or --config {NO_FILE}")
    if given is not None:
        return _file(given)
    if named := os.environ.get(VARIABLE):
        tell(f"configuration {named}, from ${VARIABLE}")
        return _file(Path(named))
    found = configuration_above(Path.cwd())
    if found is None:
        return None
    shown = os.path.relpath(found)
    tell(f"configuration {shown}")
    return Path(shown)


def configuration_above(folder: Path) -> Path | None:
    """Return the nearest `rollcall.yaml` in `folder` or above it, up to the top of its Git repository or the home
    folder. What is above those belongs to other projects or other people.
    """
    try:
        home: Path | None = Path.home()
    except RuntimeError:
        # In a container whose user has no name, and no $HOME.
        home = None
    for place in (folder, *folder.parents):
        try:
            if (place / FILE_NAME).is_file():
                return place / FILE_NAME
            if (place / ".git").exists() or place == home:
                return None
        except PermissionError:
            # Of a folder that the caller may not search, nothing is known.
            return None
    return None


def _file(named: Path) -> Path | None:
    return None if str(named) == NO_FILE else named


def _of_option(command: typer.Context, given: Path | None) -> Path | None:
    # Completion of a half-written command parses it too.
    return given if command.resilient_parsing else judging_configuration(command, given)


JudgingConfiguration = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"A RollcallConfiguration; `{NO_FILE}` for no file.",
        show_default=DEFAULT,
        callback=_of_option,
    ),
]

# For a command that judges manifests, and objects of a cluster by name.
ConfigurationOrInstalled = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"A RollcallConfiguration; `{NO_FILE}` for no file.",
        show_default=f"{DEFAULT}; for KIND/NAME the one that is installed",
    ),
]
