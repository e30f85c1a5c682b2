"""The facts that a command judges with: from files, or with `--live` from a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.options import facts_of

if TYPE_CHECKING:
    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts

Live = Annotated[
    bool, typer.Option("--live", help="Read the facts from the cluster of the kubeconfig, with your own rights.")
]


def known_facts(
    paths: Sequence[Path] | None, settings: Settings, kubeconfig: Path | None, context: str | None, *, live: bool
) -> ClusterFacts:
    """Return the facts in files, or those of the cluster. Raises `InputError`, `AccessError`, `FactsUnavailable`."""
    if not live:
        if kubeconfig is not None or context is not None:
            raise typer.BadParameter("--kubeconfig and --context need --live")
        return facts_of(paths, settings)
    if paths:
        raise typer.BadParameter("--live and --facts exclude each other: the cluster knows its own facts")
    from webhook.cli.connection import connected

    return facts_there(settings, connected(kubeconfig, context))


def facts_there(settings: Settings, access: Access) -> ClusterFacts:
    """Return the facts of a cluster. Raises `FactsUnavailable`."""
    import asyncio

    from webhook.sources.cluster_objects import projections_of, read_cluster

    return asyncio.run(read_cluster(access, projections_of(settings))).facts(settings.kinds)
