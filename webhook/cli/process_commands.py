"""The commands about the processes of Rollcall: `rollcall serve`, `rollcall reconcile`, and `rollcall metrics`, the
metrics that both expose to Prometheus.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli import options
from webhook.cli.output import as_json_text
from webhook.cluster.sockets import EVERYWHERE, WILDCARDS
from webhook.installation.names import NAMESPACE, NEXT_PORT, RECONCILER_PORT, SERVING_PORT

if TYPE_CHECKING:
    from webhook.reconciler.manager import Reconciler
    from webhook.server.listener import Listener


def serve(  # noqa: PLR0913 - one parameter for each option
    *,
    config: options.Configuration = None,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone", help="Run without a cluster: choose a scheduler for every object, make certificates."
        ),
    ] = False,
    facts: options.Facts = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, PEM.", show_default=False)] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the certificate, PEM.", show_default=False)
    ] = None,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where development certificates are kept, with --standalone.",
            show_default="a temporary folder",
        ),
    ] = None,
    next_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The next certificate, presented on --next-port.", show_default=False),
    ] = None,
    next_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the next certificate.", show_default=False)
    ] = None,
    next_port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port that presents the next certificate; 0 takes a free one.")
    ] = NEXT_PORT,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Callers must have a certificate of one of these authorities.", show_default=False
        ),
    ] = None,
    client_name: options.ClientNames = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The address to listen on.", show_default="127.0.0.1 standalone, else every address"
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = SERVING_PORT,
    health_host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The address that serves health and metrics.", show_default="the address of --host"
        ),
    ] = None,
    health_port: Annotated[
        int, typer.Option(min=0, max=65535, help="A port for health and metrics in plain HTTP; 0 for none.")
    ] = 0,
    drain: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long to keep answering after SIGTERM.",
            show_default="serving.drainSeconds of the configuration; 0 standalone",
        ),
    ] = None,
) -> None:
    """Serve the webhook over TLS, following a cluster, or alone with --standalone.

    POST /validate and /mutate answer AdmissionReviews, POST /check judges plain manifests; /docs describes them.
    The page at / does the same in a browser.

    **Examples**

    - `rollcall serve --standalone`
    - `rollcall serve --standalone --config rollcall.yaml --facts cluster/ --certs certs`
    - `rollcall serve --config rollcall.yaml --cert tls.crt --key tls.key --health-port 8081`
    - `rollcall serve --cert tls.crt --key tls.key --client-ca callers.crt --client-name kube-apiserver`
    """
    if standalone and (kubeconfig is not None or context is not None):
        raise typer.BadParameter("--kubeconfig and --context name a cluster, and --standalone runs without one")
    if facts and not standalone:
        raise typer.BadParameter("--facts replaces a cluster; it needs --standalone")
    _require_both("--cert", cert, "--key", key)
    if cert is None and not standalone:
        raise typer.BadParameter("--cert and --key are needed, or --standalone, which makes its own certificates")
    if certs is not None and (cert is not None or not standalone):
        raise typer.BadParameter(
            "--certs is for the development certificates of --standalone, without --cert and --key"
        )
    _require_both("--next-cert", next_cert, "--next-key", next_key)
    if client_name and client_ca is None:
        raise typer.BadParameter("--client-name needs --client-ca: it limits the callers that --client-ca allows")
    # Other machines call a webhook.
    address = host or ("127.0.0.1" if standalone else EVERYWHERE)
    places = {"--port": (address, port), "--health-port": (health_host or address, health_port)}
    _require_distinct_ports(places if next_cert is None else {**places, "--next-port": (address, next_port)})
    settings = replace(options.configured(config), standalone=standalone)
    cluster_facts = options.facts_of(facts, settings)

    # These import FastAPI and uvicorn; imported here, so that other commands start faster.
    from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, development_pair
    from webhook.cluster.access import find_access, pod_namespace
    from webhook.installation.webhooks import installation_settings
    from webhook.server.serving import ServingPlan, run
    from webhook.server.state import ServerState
    from webhook.server.tls import PairFiles

    # Until the server handles the signal, exiting lets us clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def listen(files: PairFiles, ca: Path | None) -> None:
        state = ServerState(installation_settings(settings, pod_namespace() or NAMESPACE), cluster_facts, None)
        if not standalone:
            state.follow(find_access(kubeconfig, context))
        run(
            state,
            ServingPlan(
                places["--port"],
                files,
                client_ca=client_ca,
                client_names=tuple(client_name or ()),
                next_place=None if next_cert is None else (address, next_port),
                next_files=PairFiles(next_cert, next_key) if next_cert and next_key else None,
                health_place=places["--health-port"] if health_port else None,
                # A standalone process has no load balancer, and a developer should not wait.
                drain_seconds=drain if drain is not None else 0 if standalone else settings.serving.drain_seconds,
                ca=ca,
            ),
        )

    if cert is not None and key is not None:
        listen(PairFiles(cert, key), None)
    else:
        with TemporaryDirectory(prefix="rollcall-") if certs is None else nullcontext(certs) as folder:
            place = Path(folder)
            development_pair(place)
            listen(PairFiles(place / CERTIFICATE_FILE, place / KEY_FILE), place / CA_FILE)


def _require_both(certificate: str, file: Path | None, key: str, key_file: Path | None) -> None:
    if (file is None) != (key_file is None):
        raise typer.BadParameter(f"{certificate} and {key} go together")


def _require_distinct_ports(places: dict[str, tuple[str, int]]) -> None:
    """Refuses two ports that are the same; 0 means a free port, or none."""
    for (option, (host, port)), (other, (beside, same)) in combinations(places.items(), 2):
        if port and port == same and (host == beside or WILDCARDS & {host, beside}):
            raise typer.BadParameter(f"{option} and {other} are both {port}, and each needs its own port")


def reconcile(  # noqa: PLR0913 - one parameter for each option
    *,
    config: options.Configuration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: Annotated[
        str | None, options.namespace_option("Only gangs of this namespace, and no topologies.", "all")
    ] = None,
    dry_run: options.DryRun = False,
    once: Annotated[bool, typer.Option("--once", help="End when nothing is left to write; takes no lease.")] = False,
    lease_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="The namespace of the Lease that elects the replica that writes.")
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
    settings = options.configured(config)

    # These import uvicorn and an HTTP client; imported here, so that other commands start faster.
    from webhook.cluster.access import find_access
    from webhook.cluster.logs import configure
    from webhook.cluster.spans import started
    from webhook.reconciler.manager import Reconciler, reconcile_once
    from webhook.reconciler.process import run
    from webhook.server.memory import give_back_memory, make_collections_rare, return_large_blocks

    held = None if once or dry_run else lease_namespace
    reconciler = Reconciler(
        settings, find_access(kubeconfig, context), namespace=namespace, lease_namespace=held, dry_run=dry_run
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
    """Returns the listener for health and metrics, with the limits of the server's health port."""
    from webhook.reconciler.process import create_app
    from webhook.server.connections import Connections
    from webhook.server.listener import Listener
    from webhook.server.memory import HEALTH_CONNECTIONS
    from webhook.server.metrics import ConnectionMetrics

    metrics = reconciler.metrics
    connections = Connections(HEALTH_CONNECTIONS, ConnectionMetrics(metrics.registry))
    return Listener(place, create_app(reconciler.reasons_not_ready, metrics), connections, None)


def metrics(
    *, config: options.Configuration = None, output: options.ReferenceOutput = options.ReferenceFormat.TEXT
) -> None:
    """List the metrics of the server and of the reconciler, with their labels and the values that these can have.

    Without a configuration every scheduler is enabled.

    **Examples**

    - `rollcall metrics`
    - `rollcall metrics --config rollcall.yaml -o json`
    - `rollcall metrics -o markdown > docs/reference/metrics.md`
    """
    # This command needs both processes; imported here, so that other commands start faster.
    from webhook.cli.metric_reference import metrics_of, reference, reference_settings

    metric_families = metrics_of(reference_settings() if config is None else options.configured(config))
    if output is options.ReferenceFormat.MARKDOWN:
        typer.echo(reference(metric_families), nl=False)
    elif output is options.ReferenceFormat.JSON:
        processes = {process: [family._asdict() for family in listed] for process, listed in metric_families.items()}
        typer.echo(as_json_text(processes))
    else:
        width = max(len(family.name) for listed in metric_families.values() for family in listed)
        for process, listed in metric_families.items():
            typer.echo(f"{process}\n")
            for family in listed:
                typer.echo(f"  {family.name:<{width}}  {family.kind:<9}  {' '.join(family.labels)}".rstrip())
            typer.echo()
