"""`rollcall certs`: certificates for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

certs_app = typer.Typer(help="Certificates.", no_args_is_help=True)


@certs_app.callback()
def root() -> None:
    """Certificates."""


@certs_app.command()
def dev(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where they are written.")] = Path("certs"),
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="One more host name or address. Repeatable.", show_default=False),
    ] = None,
) -> None:
    """Make a throw-away authority and a certificate for localhost and the service's names in a cluster.

    Writes ca.crt, tls.crt and tls.key. The authority's key is not kept.

    **Examples**

    - `rollcall certs dev`
    - `rollcall certs dev --out /tmp/certs --host host.docker.internal`
    """
    from webhook.certificates import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates

    make_development_certificates(out, host or ())
    for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE):
        typer.echo(out / name)
