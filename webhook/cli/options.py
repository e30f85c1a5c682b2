"""Options that several commands share, and their conversion.

Every command declares options, also for its help and for completion. What the conversions need is therefore imported
when they run.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli.output import tell
from webhook.errors import InputError
from webhook.model.grove_generation import GroveGeneration
from webhook.model.naming import NAMESPACE_PATTERN

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts

STANDARD_INPUT = "-"

Inputs = Annotated[
    list[str], typer.Argument(metavar="FILE|DIR|-", help="Manifests; `-` is standard input.", show_default=False)
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Judge as if each workload chose this scheduler by its label (a TrainJob by that of its namespace).",
        show_default=False,
    ),
]
Facts = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE|DIR",
        help="What is known about the cluster: manifests of its nodes, queues, topologies, namespaces. Repeatable.",
        show_default=False,
    ),
]
SchemaFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--schemas",
        metavar="FILE|DIR",
        help="CustomResourceDefinitions of your cluster, to find unknown fields. Repeatable.",
        show_default="the fields of known releases",
    ),
]
Configuration = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="A RollcallConfiguration.", show_default="every backend, with its defaults"
    ),
]
InstalledConfiguration = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A RollcallConfiguration.", show_default="the one that is installed"),
]

Grove = Annotated[
    GroveGeneration | None,
    typer.Option(
        help="Whose PodGangs are shown: `podgangmap` is Grove v0.1.0-alpha.12 and later, `legacy` is what came before.",
        show_default="grove.generation of the configuration, else what --facts knows to be served, else podgangmap",
    ),
]


def namespace_name(written: str | None) -> str | None:
    """Return the name of a namespace as written. Raises `typer.BadParameter` if no namespace can have it."""
    if written is not None and not re.fullmatch(NAMESPACE_PATTERN, written):
        raise typer.BadParameter(f"{written!r} is not the name of a namespace")
    return written


OwnNamespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="Where Rollcall is installed.", callback=namespace_name),
]


def namespace_option(said: str, default: str) -> Any:
    """Return the option of the namespace that a command reads: `said` is its help, `default` what holds without it."""
    return typer.Option("--namespace", "-n", metavar="NAME", help=said, show_default=default, callback=namespace_name)


# The default of commands that read many objects.
CONTEXT_OR_ALL = "that of the kubeconfig's context; all, if it names none"
NamespaceOfNamed = Annotated[str | None, namespace_option("The namespace of KIND/NAME.", "the context's")]

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The kubeconfig of the cluster.",
        show_default="that of the pod it runs in, else $KUBECONFIG, else ~/.kube/config",
    ),
]
KubeContext = Annotated[
    str | None, typer.Option(metavar="NAME", help="The context of the kubeconfig.", show_default="the current one")
]


class Release(StrEnum):
    """The releases of Kubernetes whose gangs are known. The newest that is out is assumed where no cluster is read."""

    V1_35 = "1.35"
    V1_36 = "1.36"
    V1_37 = "1.37"
    V1_38 = "1.38"


NEWEST = Release.V1_37
Kubernetes = Annotated[
    Release | None,
    typer.Option(
        help="The release of your clusters, if neither facts nor configuration say what they serve for gangs.",
        show_default=f"{NEWEST}, the newest that is released, with a note",
    ),
]


class Format(StrEnum):
    """The formats of a command."""

    TEXT = "text"
    JSON = "json"


class ReferenceFormat(StrEnum):
    """The formats of a command that also prints a page of the reference."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


Output = Annotated[Format, typer.Option("--output", "-o", help="What to print.")]
ReferenceOutput = Annotated[ReferenceFormat, typer.Option("--output", "-o", help="What to print.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Send each write as a dry run, and change nothing.")]


def configured(configuration: Path | None) -> Settings:
    """Return the settings of a file, or every backend with its defaults."""
    if configuration is None:
        from webhook.config.defaults import default_settings

        return default_settings()
    from webhook.sources.configuration import load_settings

    return load_settings(configuration)


def settings_of(
    configuration: Path | None, scheduler: str | None = None, generation: GroveGeneration | None = None
) -> Settings:
    """Return the settings for judging files."""
    return judging_files(configured(configuration), scheduler, generation)


def judging_files(settings: Settings, scheduler: str | None, generation: GroveGeneration | None = None) -> Settings:
    """Return `settings` for judging files, with these choices of the caller. The workload of a pod cannot be read, so
    each object gets a scheduler.
    """
    from webhook.config.defaults import force_scheduler

    if scheduler is not None:
        settings = force_scheduler(settings, scheduler)
    return replace(settings, standalone=True, grove=generation or settings.grove)


def facts_of(paths: Sequence[Path] | None, settings: Settings) -> ClusterFacts:
    """Return the facts in the given files and folders."""
    from webhook.sources.facts import load_facts

    return load_facts(paths or (), settings.kinds)


def assuming(release: Release | None, facts: ClusterFacts, settings: Settings) -> ClusterFacts:
    """Return the facts with the release of Kubernetes that is assumed where they do not show what a cluster serves, and
    say so on standard error if the caller named none.
    """
    assumed = replace(facts, kubernetes=(release or NEWEST).value)
    names = settings.profiles if settings.forced is None else [settings.forced]
    notes = [note for name in names if (note := settings.profiles[name].backend.assumed(assumed)) is not None]
    for note in notes if release is None else ():
        tell(f"{note}; say --kubernetes or give --facts for another cluster")
    return assumed


def inputs_of(names: Sequence[str]) -> Iterator[str | Path]:
    """Yield the files that the arguments name; `-` is not changed. Raises `InputError`."""
    from webhook.sources.manifests import files_of

    for name in names:
        if name == STANDARD_INPUT:
            yield name
        elif not name:
            raise InputError("''", "no such file")
        else:
            yield from files_of([Path(name)])


def console() -> Console:
    """Return the console for results: coloured on a terminal, plain and unwrapped when piped."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            """Raise `BrokenPipeError` for `cli.run`: Rich would exit with 1, which is a verdict here."""
            raise BrokenPipeError(errno.EPIPE, "the reader closed the pipe")

    terminal = sys.stdout.isatty()
    return _Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 10_000, legacy_windows=False)
