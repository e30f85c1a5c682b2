"""Options that several commands share, and what they stand for: manifests, the configuration, facts, and the cluster
that is read.

Every command declares options, also for its help and for completion. What the conversions need is therefore imported
when they run.

Manifests are judged by `--config`, else $ROLLCALL_CONFIG, else a `rollcall.yaml` in the working directory or above it.
Only commands that judge files search. A configuration that is merely found never reaches a cluster.

An input without a manifest is an error: `kustomize build | rollcall check -` must not end green because kustomize
failed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli.output import tell
from webhook.errors import FactsUnavailable, InputError
from webhook.installation.names import NAMESPACE
from webhook.model.grove import GroveGeneration
from webhook.model.keys import NAMESPACE_PATTERN

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts
    from webhook.offline.manifests import Document
    from webhook.operations.cluster_facts import InstalledSettings

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
    """Returns the name of a namespace as written. Raises `typer.BadParameter` if no namespace can have it."""
    if written is not None and not re.fullmatch(NAMESPACE_PATTERN, written):
        raise typer.BadParameter(f"{written!r} is not the name of a namespace")
    return written


OwnNamespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Where Rollcall is installed.", callback=namespace_name)
]


def namespace_option(help_text: str, default: str) -> Any:
    """Returns the option of the namespace that a command reads: `default` says what holds without it."""
    return typer.Option(
        "--namespace", "-n", metavar="NAME", help=help_text, show_default=default, callback=namespace_name
    )


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


ClientNames = Annotated[
    list[str] | None,
    typer.Option(
        "--client-name",
        metavar="NAME",
        help="The client certificate must be for this name. Repeatable.",
        show_default="any",
    ),
]


class KubernetesRelease(StrEnum):
    """The releases of Kubernetes whose gangs are known. The newest that is out is assumed where no cluster is read."""

    V1_35 = "1.35"
    V1_36 = "1.36"
    V1_37 = "1.37"
    V1_38 = "1.38"


NEWEST = KubernetesRelease.V1_37
Kubernetes = Annotated[
    KubernetesRelease | None,
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
    if configuration is None:
        from webhook.config.defaults import default_settings

        return default_settings()
    from webhook.offline.configuration_file import load_settings

    return load_settings(configuration)


def settings_of(
    configuration: Path | None, scheduler: str | None = None, generation: GroveGeneration | None = None
) -> Settings:
    return judging_files(configured(configuration), scheduler, generation)


def judging_files(settings: Settings, scheduler: str | None, generation: GroveGeneration | None = None) -> Settings:
    """Returns `settings` for judging files. A pod's workload cannot be read, so each object gets a scheduler."""
    from webhook.config.defaults import force_scheduler

    if scheduler is not None:
        settings = force_scheduler(settings, scheduler)
    return replace(settings, standalone=True, grove=generation or settings.grove)


def facts_of(paths: Sequence[Path] | None, settings: Settings) -> ClusterFacts:
    from webhook.offline.fact_files import load_facts

    return load_facts(paths or (), settings.kinds)


def assume_release(release: KubernetesRelease | None, facts: ClusterFacts, settings: Settings) -> ClusterFacts:
    """Returns the facts with an assumed release of Kubernetes; standard error says so if the caller named none."""
    assumed = replace(facts, kubernetes=(release or NEWEST).value)
    names = settings.profiles if settings.forced is None else [settings.forced]
    notes = [note for name in names if (note := settings.profiles[name].backend.assumed(assumed)) is not None]
    for note in notes if release is None else ():
        tell(f"{note}; say --kubernetes or give --facts for another cluster")
    return assumed


def console() -> Console:
    """Returns the console for results: coloured on a terminal, plain and unwrapped when piped."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            """Raises `BrokenPipeError` for `cli.run`: Rich would exit with 1, which is a verdict here."""
            raise BrokenPipeError(errno.EPIPE, "the reader closed the pipe")

    terminal = sys.stdout.isatty()
    return _Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 10_000, legacy_windows=False)


FILE_NAME = "rollcall.yaml"
VARIABLE = "ROLLCALL_CONFIG"
# Instead of a file: search none.
NO_FILE = "none"
DEFAULT = f"${VARIABLE}, else {FILE_NAME} here or above, else every backend with its defaults"


def judging_configuration(command: typer.Context, given: Path | None) -> Path | None:
    """Returns the configuration file, or None for every backend with its defaults. `given` is the value of `--config`.

    Standard error names a file that was not given on the command line.
    """
    if given is None and command.find_root().params.get("require_config"):
        raise typer.BadParameter(f"--require-config needs --config FILE, or --config {NO_FILE}")
    if given is not None:
        return _file(given)
    if from_variable := os.environ.get(VARIABLE):
        tell(f"configuration {from_variable}, from ${VARIABLE}")
        return _file(Path(from_variable))
    path = configuration_above(Path.cwd())
    if path is None:
        return None
    shown = os.path.relpath(path)
    tell(f"configuration {shown}")
    return Path(shown)


def configuration_above(folder: Path) -> Path | None:
    """Returns the nearest `rollcall.yaml` in `folder` or above it, up to the top of its Git repository or the home
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


def _file(path: Path) -> Path | None:
    return None if str(path) == NO_FILE else path


def _option_configuration(command: typer.Context, given: Path | None) -> Path | None:
    # Completion of a half-written command parses it too.
    return given if command.resilient_parsing else judging_configuration(command, given)


JudgingConfiguration = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"A RollcallConfiguration; `{NO_FILE}` for no file.",
        show_default=DEFAULT,
        callback=_option_configuration,
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


def documents_of(names: Sequence[str]) -> list[Document]:
    """Returns every document that the arguments name. Raises `InputError` for the first that cannot be read."""
    documents, unreadable = read_inputs(names)
    if unreadable:
        raise unreadable[0]
    return documents


def read_inputs(names: Sequence[str]) -> tuple[list[Document], list[InputError]]:
    """Returns every document that can be read, and an error for each input that cannot, or has no manifest."""
    from webhook.offline.manifests import NO_MANIFEST, STDIN

    documents: list[Document] = []
    unreadable: list[InputError] = []
    # A file with only comments is an error only if nothing else is read: a template may produce one.
    comments: list[InputError] = []
    for name in names:
        read_documents, errors = _read(name)
        if not read_documents and not errors:
            path = Path(name)
            empty = InputError(STDIN if name == "-" else name, NO_MANIFEST)
            if path.is_dir():
                empty = InputError(name, "has no manifest: its files are empty or have only comments")
            # Standard input and other pipes are read by now.
            (comments if path.is_file() and path.read_bytes().strip() else errors).append(empty)
        documents += read_documents
        unreadable += errors
    return documents, unreadable if documents or unreadable else comments


def _read(name: str) -> tuple[list[Document], list[InputError]]:
    from webhook.offline.manifests import files_of, read_file, read_standard_input

    if not name:
        return [], [InputError("''", "no such file")]
    documents: list[Document] = []
    unreadable: list[InputError] = []
    try:
        paths = [None] if name == "-" else list(files_of([Path(name)]))
    except InputError as error:
        return [], [error]
    for path in paths:
        try:
            documents += read_standard_input() if path is None else read_file(path)
        except InputError as error:
            unreadable.append(error)
    return documents, unreadable


def connected(kubeconfig: Path | None, context: str | None) -> Access:
    from webhook.cluster.access import find_access
    from webhook.cluster.client import reach

    access = find_access(kubeconfig, context)
    asyncio.run(reach(access))
    return access


def namespace_there(given: str | None, access: Access, *, everywhere: bool) -> str | None:
    """Returns the namespace of the options, else of the context, and says so on standard error; None for all."""
    if everywhere and given is not None:
        raise typer.BadParameter("--namespace and --all-namespaces exclude each other")
    if given is not None or everywhere or access.namespace is None:
        return given
    tell(f"namespace {access.namespace}, from the context; -A shows all")
    return access.namespace


def settings_there(config: Path | None, access: Access) -> Settings:
    """Returns the settings of the file, else the installed ones; if these are not known, all backends, and says so."""
    if config is not None:
        return configured(config)
    settings, unknown = installed_in(access, NAMESPACE)
    if unknown:
        tell(no_installed_settings(unknown))
    return settings


def known_settings_there(config: Path | None, access: Access) -> Settings:
    """Returns the settings of the file, else the installed ones. Raises `FactsUnavailable` if these are not known."""
    if config is not None:
        return configured(config)
    settings, unknown = installed_in(access, NAMESPACE)
    if unknown:
        # With other profiles the objects of a gang would not be looked for.
        raise FactsUnavailable(f"the installed configuration is not known ({unknown}); name a file with --config")
    return settings


def no_installed_settings(unknown: str) -> str:
    return (
        f"the installed configuration is not known ({unknown}) and there is no --config: every scheduler counts as "
        "enabled"
    )


def installed_in(access: Access, namespace: str) -> InstalledSettings:
    """Returns the settings of the installation in that namespace, or why they are not known."""
    from webhook.operations.cluster_facts import installed_settings

    return asyncio.run(installed_settings(access, namespace))


Live = Annotated[
    bool, typer.Option("--live", help="Read the facts from the cluster of the kubeconfig, with your own rights.")
]


def facts_of_options(
    paths: Sequence[Path] | None,
    settings: Settings,
    kubeconfig: Path | None,
    context: str | None,
    release: KubernetesRelease | None,
    *,
    live: bool,
) -> ClusterFacts:
    """Returns the facts in files, or those of the cluster, with an assumed release of Kubernetes. Raises `InputError`,
    `AccessError`, `FactsUnavailable`.
    """
    if live and paths:
        raise typer.BadParameter("--live and --facts exclude each other: the cluster knows its own facts")
    if not live and (kubeconfig is not None or context is not None):
        raise typer.BadParameter("--kubeconfig and --context need --live")
    facts = read_cluster_facts(settings, connected(kubeconfig, context)) if live else facts_of(paths, settings)
    return assume_release(release, facts, settings)


def read_cluster_facts(settings: Settings, access: Access) -> ClusterFacts:
    """Returns the facts of a cluster. Raises `FactsUnavailable`."""
    from webhook.operations.cluster_facts import projections_of, read_cluster

    return asyncio.run(read_cluster(access, projections_of(settings))).facts(settings.kinds)
