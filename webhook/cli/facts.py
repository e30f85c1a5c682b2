"""`rollcall facts`: write what rules may ask about in a cluster, for `--facts` where there is no access to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.connection import connected
from webhook.cli.options import Configuration, Kubeconfig, KubeContext, configured
from webhook.cli.output import NOT_EVALUATED, tell
from webhook.cli.yaml_text import as_compact_yaml_text
from webhook.model.plain_text import printable


def facts(
    *,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.", show_default=False)
    ],
    config: Configuration = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
) -> None:
    """Write what rules may ask about in a cluster into a folder, for `--facts` of `check`, `explain`, `fit`, `render`
    and `serve`.

    Reads with your own rights and changes nothing in the cluster. It writes one file for each kind: nodes, queues,
    quotas, devices, topologies and their bindings, PriorityClasses, labels of namespaces, runtimes, gangs, the
    workloads that Rollcall recorded, the served kinds and the names of their fields. Only the fields that rules read
    are written: no Secret, of ConfigMaps only that the Cluster Autoscaler has written its status, and of pods no image,
    command, environment or volume. Other files of the folder are left alone. What pods on nodes use is not written.

    A kind that you may not read is not written, so `check` says which rules it cannot judge. With `--config` only the
    kinds of the enabled schedulers are read.

    Exit code 2: the folder cannot be written. 3: the cluster cannot be reached, or some kinds could not be read.

    **Examples**

    - `rollcall facts --context prod -o cluster/`
    - `rollcall check --facts cluster/ deploy/`
    - `rollcall fit --facts cluster/ deploy/`
    """
    from webhook.sources.cluster_objects import projections_of, read_cluster
    from webhook.sources.facts_folder import SUFFIX, write_folder

    projections = projections_of(configured(config))
    read = asyncio.run(read_cluster(connected(kubeconfig, context), projections))
    removed = write_folder(folder, {kind.name: as_compact_yaml_text(kind.manifest) for kind in read.kinds})
    for kind in read.kinds:
        more = f", {kind.left_out} left out because they cannot be read" if kind.left_out else ""
        typer.echo(printable(f"{folder / kind.name}{SUFFIX}: {kind.size}{more}"))
    for path in removed:
        typer.echo(printable(f"{path}: removed, because it is no longer known"))
    for what, why in read.failed.items():
        tell(f"{what} could not be read: {why}")
    if read.failed:
        raise typer.Exit(NOT_EVALUATED)
