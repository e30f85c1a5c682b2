"""`rollcall config`: start, check and show a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli import options
from webhook.cli.output import as_json_text
from webhook.errors import FactsUnavailable, InputError
from webhook.installation.names import NAMESPACE
from webhook.model.fields import meant

if TYPE_CHECKING:
    from webhook.config.settings import Settings

config_app = typer.Typer(help="The configuration file.", no_args_is_help=True)
# Hidden, so that `rollcall check FOLDER` does not read it as a manifest.
SCHEMA_FILE = ".rollcall.schema.json"


@config_app.callback()
def root() -> None:
    """The configuration file."""


@config_app.command()
def init(
    scheduler: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="A scheduler of the cluster; the first is the default one. Repeatable."),
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path(options.FILE_NAME),
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write a configuration to start from, and its JSON Schema beside it.

    The configuration enables the named schedulers, each with the defaults of its keys. Its first line names the schema,
    .rollcall.schema.json, so that an editor with yaml-language-server completes and checks the keys.

    Exit code 2 if a file exists, unless --force is given.

    **Examples**

    - `rollcall config init --scheduler koord-scheduler`
    - `rollcall config init --scheduler kai-scheduler --scheduler default-scheduler --out deploy/rollcall.yaml`
    """
    from webhook.backends.registry import installed_backends
    from webhook.cli.settings_text import first_configuration
    from webhook.config.configuration_schema import published_schema

    backends = installed_backends()
    for name in scheduler:
        if name not in backends:
            why = f"is not a scheduler with a backend (allowed: {', '.join(backends)}){meant(name, backends)}"
            raise typer.BadParameter(f"--scheduler {name}: {why}")
    schema = out.parent / SCHEMA_FILE
    contents = {out: first_configuration(scheduler, SCHEMA_FILE), schema: as_json_text(published_schema()) + "\n"}
    for file, content in contents.items():
        if not force and _differs(file, content):
            raise InputError(str(file), "exists; --force replaces it, --out names another file")
    for file, content in contents.items():
        try:
            file.write_text(content, encoding="utf-8")
        except OSError as error:
            raise InputError(str(file), f"cannot be written: {error.strerror or type(error).__name__}") from None
        typer.echo(f"wrote {file}")


def _differs(file: Path, content: str) -> bool:
    """Returns whether the file exists with another content. One that cannot be read is reported when it is written."""
    try:
        return file.is_file() and file.read_bytes() != content.encode()
    except OSError:
        return False


@config_app.command()
def check(file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]) -> None:
    """Check a configuration file and print its effect.

    Prints every mistake with its line, path, value and the allowed values; the exit code is then 2.

    **Examples**

    - `rollcall config check rollcall.yaml`
    """
    from webhook.offline.configuration_file import load_settings

    _print(load_settings(file))


@config_app.command()
def show(
    command: typer.Context,
    *,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The file; `{options.NO_FILE}` for no file.", show_default=options.DEFAULT),
    ] = None,
    installed: Annotated[bool, typer.Option("--installed", help="The configuration of a cluster instead.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: options.OwnNamespace = NAMESPACE,
) -> None:
    """Print the effect of the configuration by which `check`, `explain`, `render` and `rules` judge here, or with
    `--installed` of the one that Rollcall runs with in a cluster.

    Standard error names the file. Exit code 3 if the cluster cannot be read.

    **Examples**

    - `rollcall config show`
    - `rollcall config show --installed --context prod`
    """
    if installed:
        if config is not None:
            raise typer.BadParameter("--config and --installed exclude each other")
        settings, unknown = options.installed_in(options.connected(kubeconfig, context), namespace)
        if unknown:
            raise FactsUnavailable(f"the installed configuration is not known: {unknown}")
        _print(settings)
        return
    if kubeconfig is not None or context is not None:
        raise typer.BadParameter("--kubeconfig and --context need --installed")
    _print(options.configured(options.judging_configuration(command, config)))


@config_app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors and for programs that check it without Rollcall.

    It has the keys of the installed backends and their allowed values. Only `rollcall config check` checks how keys fit
    together.

    **Examples**

    - `rollcall config schema > .rollcall.schema.json`
    """
    from webhook.config.configuration_schema import published_schema

    typer.echo(as_json_text(published_schema()))


def _print(settings: Settings) -> None:
    from webhook.cli.settings_text import settings_lines
    from webhook.cluster.clock import MACHINE_CLOCK

    out = options.console()
    for line in settings_lines(settings, MACHINE_CLOCK.now()):
        out.print(line, markup=False)
