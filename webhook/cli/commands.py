"""All commands by name: where each is declared, and how the help of `rollcall` lists it.

A command imports what it works with, and none of the others should wait for that: its module is imported when it runs.
Its line in the help stands here, and a test compares it with the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NamedTuple

import typer

from webhook.cli.command_classes import AnyCommand, with_our_classes

# The help shows the commands by task, and the tasks in the order of their first command.
AUTHOR = "Author: judge and understand manifests"
OPERATE = "Operate: look into a cluster"
RUN = "Run: the processes of Rollcall"
INSTALL = "Install: configuration and manifests"


class Entry(NamedTuple):
    """The module of a command, its function or Typer there, its task, and its line in the help."""

    module: str
    attribute: str
    panel: str
    help: str


COMMANDS: Mapping[str, Entry] = {
    "check": Entry(
        "webhook.cli.check",
        "check",
        AUTHOR,
        "Judge manifests as the webhook would, without a cluster, or with the facts of one.",
    ),
    "explain": Entry(
        "webhook.cli.explain",
        "explain",
        AUTHOR,
        "Show which schedulers could run a workload, what stops each of the others, and the smallest edit that would "
        "help. For gang objects written by hand: whether their trees can ever start. For a PodGang, Job, JobSet or "
        "LeaderWorkerSet in a cluster: why it does not start.",
    ),
    "fit": Entry(
        "webhook.cli.fit",
        "fit",
        AUTHOR,
        "Say whether the gangs of a workload can ever start, and whether there is room for them now.",
    ),
    "render": Entry(
        "webhook.cli.render",
        "render",
        AUTHOR,
        "Print what a workload would get: its gang objects and one stamped pod for each gang.",
    ),
    "rules": Entry(
        "webhook.cli.rules",
        "rules",
        AUTHOR,
        "List the rules, or show one with its reason, its source and its examples.",
    ),
    "facts": Entry(
        "webhook.cli.facts",
        "facts",
        AUTHOR,
        "Write what rules may ask about in a cluster into a folder, for `--facts` of `check`, `explain`, `fit`, "
        "`render` and `serve`.",
    ),
    "doctor": Entry(
        "webhook.cli.doctor",
        "doctor",
        OPERATE,
        "Check the installation in a cluster: what is wrong, why it matters and what to do.",
    ),
    "audit": Entry(
        "webhook.cli.audit",
        "audit",
        OPERATE,
        "Judge what a cluster stores, by today's rules and configuration, as if it were created now.",
    ),
    "upgrade-plan": Entry(
        "webhook.cli.upgrade_plan",
        "upgrade_plan",
        OPERATE,
        "Show what an upgrade of Grove, Kubernetes or a scheduler means for the living gangs of a cluster, "
        "and what to do before, in which order.",
    ),
    "serve": Entry(
        "webhook.cli.serve",
        "serve",
        RUN,
        "Serve the webhook over TLS, following a cluster, or alone with --standalone.",
    ),
    "reconcile": Entry(
        "webhook.cli.reconcile",
        "reconcile",
        RUN,
        "Keep the schedulers' gang objects up to date with Grove's PodGangs, and with Jobs, JobSets and "
        "LeaderWorkerSets.",
    ),
    "metrics": Entry(
        "webhook.cli.metrics",
        "metrics",
        RUN,
        "List the metrics of the server and of the reconciler, with their labels and the values that these can have.",
    ),
    "gangs": Entry(
        "webhook.cli.gangs",
        "gangs_app",
        OPERATE,
        "Show the gangs of a cluster: how many of the pods that a gang needs to start are on nodes, and why it does "
        "not start.",
    ),
    "certs": Entry("webhook.cli.certs", "certs_app", OPERATE, "Certificates."),
    "config": Entry("webhook.cli.config", "config_app", INSTALL, "The configuration file."),
    "manifests": Entry(
        "webhook.cli.manifests", "manifests_app", INSTALL, "The objects that a cluster needs, as manifests."
    ),
    "schema": Entry("webhook.cli.schema", "schema_app", AUTHOR, "Print the JSON Schemas of what Rollcall prints."),
    "shapes": Entry(
        "webhook.cli.shapes", "shapes_app", AUTHOR, "Kinds of workloads that are declared by WorkloadShapes."
    ),
}


class Commands(Mapping[str, AnyCommand]):
    """The commands of a table. Each is imported and built when it is first looked up."""

    def __init__(self, table: Mapping[str, Entry]) -> None:
        self._table = table
        self._built: dict[str, AnyCommand] = {}

    def __getitem__(self, name: str) -> AnyCommand:
        if name not in self._built:
            self._built[name] = _built(name, self._table[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _built(name: str, entry: Entry) -> AnyCommand:
    declared = getattr(import_module(entry.module), entry.attribute)
    parent = typer.Typer(rich_markup_mode="markdown")
    if isinstance(declared, typer.Typer):
        parent.add_typer(declared, name=name, rich_help_panel=entry.panel)
    else:
        parent.command(name, rich_help_panel=entry.panel)(declared)
    with_our_classes(parent)
    command: AnyCommand = typer.main.get_group(parent).commands[name]
    return command
