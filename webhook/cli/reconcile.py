"""`rollcall reconcile`: the process that writes gang objects and topology objects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.options import Configuration, DryRun, Kubeconfig, KubeContext, configured, namespace_option
from webhook.installation.names import NAMESPACE, RECONCILER_PORT
from webhook.network.sockets import EVERYWHERE

if TYPE_CHECKING:
    from webhook.reconciler.run import Reconciler
    from webhook.server.listener import Listener


def reconcile(  # noqa: PLR0913 - one parameter for each option
    *,
    config: Configuration = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    namespace: Annotated[
        str | None, namespace_option("Only gangs of this namespace, and no topologies.", "all")
    ] = None,
    dry_run: DryRun = False,
    once: Annotated[bool, typer.Option("--once", help="End when nothing is left to write; takes no lease.")] = False,
    lease_namespace: Annotated[
        str,
        typer.Option(metavar="NAME", help="The namespace of the Lease that elects the replica that writes."),
    ] = NAMESPACE,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="The address that serves health and metrics.", show_default="every address"
        ),
    ] = EVERYWHERE,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port for health and metrics.")] = RECONCILER_PORT,
) -> None:
    """Keep the schedulers' gang objects up to date with Grove's PodGangs, and with Jobs, JobSets and LeaderWorkerSets.

    For each gang it applies the objects that the scheduler needs, in the order of their creation, and deletes those
    that are no longer needed. Objects that are up to date cost no write. For schedulers that have topology objects, it
    keeps one for each ClusterTopologyBinding. Run it beside the webhook, in its own Deployment.

    Exit code 3 with `--once` if a gang or a topology could not be reconciled, or the cluster could not be read.

    **Examples**

    - `rollcall reconcile --config rollcall.yaml`
    - `rollcall reconcile --config rollcall.yaml --once --dry-run --namespace team-a`
    """
    settings = configured(config)

    # These import uvicorn and an HTTP client; imported here, so that other commands start faster.
    from webhook.cluster.access import find
    from webhook.reconciler.process import run
    from webhook.reconciler.run import Reconciler
    from webhook.reconciler.single_pass import reconcile_once
    from webhook.server.memory import give_back_memory, make_collections_rare, return_large_blocks
    from webhook.telemetry.logs import configure
    from webhook.telemetry.span_collector import started

    held = None if once or dry_run else lease_namespace
    reconciler = Reconciler(
        settings, find(kubeconfig, context), namespace=namespace, lease_namespace=held, dry_run=dry_run
    )
    with started(settings.tracing, "rollcall-reconciler"):
        if once:
            configure()
            asyncio.run(reconcile_once(reconciler))
        else:
            make_collections_rare()
            return_large_blocks()
            run(reconciler, _listener(reconciler, (host, port)), give_back_memory)


def _listener(reconciler: Reconciler, place: tuple[str, int]) -> Listener:
    """Return the listener for health and metrics, with the limits of the server's health port."""
    from webhook.reconciler.endpoints import create_app
    from webhook.server.connections import Connections
    from webhook.server.descriptors import HEALTH_CONNECTIONS
    from webhook.server.listener import Listener
    from webhook.server.network_metrics import ConnectionMetrics

    metrics = reconciler.metrics
    connections = Connections(HEALTH_CONNECTIONS, ConnectionMetrics(metrics.registry))
    return Listener(place, create_app(reconciler.reasons_not_ready, metrics), connections, None)
