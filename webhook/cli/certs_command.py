"""`rollcall certs`: make certificates for development, and inspect those of a cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from webhook.cli import options
from webhook.cli.output import REFUSED, as_json_text, tell
from webhook.installation.names import NAMESPACE

if TYPE_CHECKING:
    from webhook.certificates.observation import BundleCheck
    from webhook.cluster.access import Access
    from webhook.cluster.client import Client

certs_app = typer.Typer(help="Certificates.", no_args_is_help=True)
T = TypeVar("T")

_LABEL = "[A-Za-z0-9_](?:[-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
# RFC 1123, plus names that tests and container networks use. The first label may be a wildcard.
_HOST = re.compile(rf"(?=.{{1,253}}$)(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")


@certs_app.callback()
def root() -> None:
    """Certificates: for development, for work by hand, and those that the reconciler maintains."""


def _hosts(written: list[str] | None) -> list[str] | None:
    for host in written or ():
        try:
            ip_address(host)
        except ValueError:
            if not _HOST.fullmatch(host):
                raise typer.BadParameter(f"{host!r} is neither a host name nor an address") from None
    return written


@certs_app.command()
def dev(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write them to.")] = Path("certs"),
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Another host name or address for the certificate. Repeatable.",
            show_default=False,
            callback=_hosts,
        ),
    ] = None,
) -> None:
    """Make a temporary authority and a certificate for localhost and for the Service's names in a cluster.

    Writes ca.crt, tls.crt and tls.key. The authority's key is not kept.

    **Examples**

    - `rollcall certs dev`
    - `rollcall certs dev --out /tmp/certs --host host.docker.internal`
    """
    from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates

    make_development_certificates(out, host or ())
    for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE):
        typer.echo(out / name)


@certs_app.command()
def status(
    *,
    config: options.Configuration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: options.OwnNamespace = NAMESPACE,
    output: options.Output = options.Format.TEXT,
) -> None:
    """Show the certificates of a cluster: what the two Secrets contain, which authorities the API server trusts, and
    the step of a rotation.

    Reads the cluster and writes nothing. Keys are not shown.

    Exit code 3 if the cluster cannot be read.

    **Examples**

    - `rollcall certs status`
    - `rollcall certs status --config rollcall.yaml -o json`
    """
    from webhook.certificates.status import read_snapshot, status_of, status_text

    settings = options.configured(config).certificates
    snapshot = _run_with_client(options.connected(kubeconfig, context), lambda client: read_snapshot(client, namespace))
    certificate_status = status_of(snapshot, settings)
    if output is options.Format.JSON:
        typer.echo(as_json_text(certificate_status))
    else:
        typer.echo("\n".join(status_text(certificate_status)))


@certs_app.command()
def rotate(  # noqa: PLR0913 - one parameter for each option
    *,
    ca: Annotated[bool, typer.Option("--ca", help="Rotate the authority, and with it the certificate.")] = False,
    leaf: Annotated[bool, typer.Option("--leaf", help="Rotate only the serving certificate.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the rotation is done.")] = False,
    timeout: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="How long --wait waits.")] = 1800,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: options.OwnNamespace = NAMESPACE,
) -> None:
    """Replace a self-managed certificate now, whatever its age.

    Sets an annotation on the Secret. The reconciler's leader then rotates as usual, and serving is not interrupted. A
    certificate takes seconds. An authority takes twice the overlap (certificates.overlapSeconds) and a few minutes.

    Exit code 3 if the cluster cannot be read, if certificates are not self-managed, or if --wait timed out.

    **Examples**

    - `rollcall certs rotate --leaf`
    - `rollcall certs rotate --ca --wait`
    """
    if ca == leaf:
        raise typer.BadParameter("give --ca or --leaf")
    from webhook.certificates.status import ask_for_rotation, wait_for_rotation

    async def rotated(client: Client) -> str:
        before = await ask_for_rotation(client, namespace, authority=ca)
        return await wait_for_rotation(client, namespace, before, timeout, tell) if wait else ""

    done = _run_with_client(options.connected(kubeconfig, context), rotated)
    typer.echo(f"rotated: {done}" if done else "asked for")


@certs_app.command()
def verify(  # noqa: PLR0913 - one parameter for each option
    *,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: options.OwnNamespace = NAMESPACE,
    cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate in a file, PEM, instead of a cluster.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate, PEM.")] = None,
    ca: Annotated[Path | None, typer.Option(metavar="FILE", help="The authority that should have signed it.")] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="The name by which the API server calls the server. Repeatable.",
            show_default="rollcall.NAMESPACE.svc",
        ),
    ] = None,
    output: options.Output = options.Format.TEXT,
) -> None:
    """Check that the API server can trust the server: authorities, names and dates, with the same handshakes.

    In a cluster each caBundle of both configurations is compared with the certificate that every server presents, and
    with the Secret that servers read. Servers behind a Service can be reached only from inside the cluster; from
    elsewhere their state is unknown. Files are compared with each other.

    Exit code 1 if something is wrong, 3 if nothing is wrong but something could not be checked.

    **Examples**

    - `rollcall certs verify`
    - `rollcall certs verify --cert tls.crt --key tls.key --ca ca.crt`
    """
    from webhook.certificates.observation import cluster_checks, file_checks

    if (cert is None) != (key is None) or (cert is None and (ca or name)):
        raise typer.BadParameter("--cert and --key go together, and --ca and --name go with them")
    if cert is not None and key is not None:
        names = name or [f"rollcall.{namespace}.svc"]
        _report(file_checks(cert, key, ca, names), output)
        return
    from webhook.certificates.status import read_snapshot

    async def checked(client: Client) -> list[BundleCheck]:
        return await cluster_checks(client, await read_snapshot(client, namespace))

    _report(_run_with_client(options.connected(kubeconfig, context), checked), output)


def _run_with_client(access: Access, work: Callable[[Client], Awaitable[T]]) -> T:
    """Returns the result of `work` with a client of the cluster. Raises `FactsUnavailable`."""
    from webhook.cluster.client import Client
    from webhook.errors import FactsUnavailable, NotFound, RequestFailed

    async def run() -> T:
        client = Client(access)
        try:
            return await work(client)
        except NotFound as error:
            raise FactsUnavailable(f"{error}: is Rollcall installed in another namespace? use --namespace") from None
        except RequestFailed as error:
            raise FactsUnavailable(f"the certificates cannot be read: {error}") from None
        finally:
            await client.close()

    return asyncio.run(run())


def _report(checks: list[BundleCheck], output: options.Format) -> None:
    from webhook.cli.output import NOT_EVALUATED
    from webhook.model.findings import printable

    if output is options.Format.JSON:
        typer.echo(as_json_text({"checks": [check.as_json() for check in checks]}))
    else:
        for check in checks:
            state = "unknown" if check.unknown else "bad" if check.problem else "good"
            typer.echo(printable(f"{state:8}{check.what}{': ' if check.problem else ''}{check.problem}"))
    if any(check.problem and not check.unknown for check in checks):
        raise typer.Exit(REFUSED)
    if any(check.unknown for check in checks):
        raise typer.Exit(NOT_EVALUATED)
