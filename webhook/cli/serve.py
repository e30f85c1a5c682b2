"""`rollcall serve`: the webhook server."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.options import Configuration, Facts, Kubeconfig, KubeContext, configured, facts_of

if TYPE_CHECKING:
    from webhook.certificates import Pair


def serve(  # noqa: PLR0913 - one parameter for each option
    *,
    config: Configuration = None,
    standalone: Annotated[
        bool,
        typer.Option("--standalone", help="No cluster: choose a scheduler for every object, make certificates."),
    ] = False,
    facts: Facts = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, PEM.", show_default=False)] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key, PEM.", show_default=False)] = None,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where development certificates are kept, with --standalone.",
            show_default="a temporary folder",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Where to listen.", show_default="127.0.0.1 standalone, else 0.0.0.0"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8443,
) -> None:
    """Serve the webhook over TLS, following a cluster, or alone with --standalone.

    POST /validate and /mutate answer AdmissionReviews, POST /check judges plain manifests; /docs describes them.

    **Examples**

    - `rollcall serve --standalone`
    - `rollcall serve --standalone --config rollcall.yaml --facts cluster/ --certs certs`
    - `rollcall serve --config rollcall.yaml --cert tls.crt --key tls.key`
    """
    if standalone and (kubeconfig is not None or context is not None):
        raise typer.BadParameter("--kubeconfig and --context name a cluster, and --standalone says that there is none")
    if facts and not standalone:
        raise typer.BadParameter("--facts stands for a cluster; it goes with --standalone")
    if (cert is None) != (key is None):
        raise typer.BadParameter("--cert and --key go together")
    if cert is None and not standalone:
        raise typer.BadParameter("--cert and --key are needed, or --standalone, which makes certificates of its own")
    if certs is not None and (cert is not None or not standalone):
        raise typer.BadParameter(
            "--certs is for the development certificates of --standalone, without --cert and --key"
        )
    settings = replace(configured(config), standalone=standalone)
    known = facts_of(facts)
    address = host or ("127.0.0.1" if standalone else "0.0.0.0")  # noqa: S104 - a webhook is called from other machines

    # The server brings FastAPI and uvicorn with it; the other commands should not wait for them.
    from webhook.certificates import CA_FILE, development_pair, load_pair
    from webhook.cluster.access import find
    from webhook.server.run import run
    from webhook.server.state import ServerState

    # uvicorn drains on SIGTERM and then raises it again; an exit instead lets us clean up, also before it serves.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def listen(pair: Pair, ca: Path | None) -> None:
        state = ServerState(settings, known, pair)
        if not standalone:
            state.follow(find(kubeconfig, context))
        run(state, address, port, ca)

    if cert is not None and key is not None:
        listen(load_pair(cert, key), None)
    elif certs is not None:
        listen(development_pair(certs), certs / CA_FILE)
    else:
        with TemporaryDirectory(prefix="rollcall-") as folder:
            listen(development_pair(Path(folder)), Path(folder) / CA_FILE)
