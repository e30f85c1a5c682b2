"""`rollcall manifests`: what the API server must be told so that it asks Rollcall, made from the configuration."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.options import Configuration, Format, Output, configured
from webhook.cli.yaml_text import as_yaml_text
from webhook.installation.access import access_rules, reconciler_access_rules
from webhook.installation.webhooks import Address, webhook_configurations
from webhook.model.reading import Manifest

manifests_app = typer.Typer(help="The objects that a cluster needs, as manifests.", no_args_is_help=True)

# namespace/name:port, as RFC 1123 labels.
_SERVICE = re.compile(r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)(?::(\d{1,5}))?")
# What the API server accepts: HTTPS, no user, no query, no fragment.
_URL = re.compile(r"https://[^/?#@\s]+(?:/[^?#\s]*)?")


@manifests_app.callback()
def root() -> None:
    """The objects that a cluster needs, as manifests for `kubectl apply -f -`."""


@manifests_app.command()
def webhooks(
    *,
    config: Configuration = None,
    service: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME[:PORT]", help="The Service in front of `rollcall serve`.")
    ] = "rollcall-system/rollcall:443",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where it is instead, outside of a cluster.", show_default=False)
    ] = None,
    next_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the server shows its next certificate (--next-port), outside of a cluster; where certificates "
            "are self-managed.",
            show_default=False,
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The authority of its certificate, PEM.", show_default="left to who injects it"
        ),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Print the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    The namespace of the Service is never asked about, nor is kube-system. The file's `registration` says the rest.

    **Examples**

    - `rollcall manifests webhooks --config rollcall.yaml --ca ca.crt | kubectl apply -f -`
    - `rollcall manifests webhooks --url https://127.0.0.1:8443 --ca certs/ca.crt`
    - `rollcall manifests webhooks --config rollcall.yaml --url https://10.0.0.7:8443 --next-url https://10.0.0.7:8444`
    """
    namespace, address = _service(service)
    settings = configured(config)
    if url is not None:
        for said, option in ((url, "--url"), (next_url or url, "--next-url")):
            if not _URL.fullmatch(said):
                raise typer.BadParameter(
                    f"{said!r} is no https:// URL without user, query and fragment", param_hint=option
                )
        if settings.certificates.self_managed and next_url is None:
            raise typer.BadParameter(
                "certificates are self-managed, so it is needed beside --url", param_hint="--next-url"
            )
        address = Address(url=url, next_url=f"{(next_url or '').rstrip('/')}/next")
    elif next_url is not None:
        raise typer.BadParameter("it goes with --url", param_hint="--next-url")
    bundle = None
    if ca is not None:
        from webhook.certificates import read_authorities

        bundle = b64encode(read_authorities(ca)).decode()
    _print(webhook_configurations(settings, address, namespace, bundle), output)


@manifests_app.command()
def rbac(
    *,
    config: Configuration = None,
    account: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The service account of `rollcall serve`.")
    ] = "rollcall-system/rollcall",
    reconciler: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The service account of `rollcall reconcile`.")
    ] = "rollcall-system/rollcall-reconciler",
    output: Output = Format.TEXT,
) -> None:
    """Print the roles that `rollcall serve` and `rollcall reconcile` need, and their bindings.

    The server reads, and writes nothing. The reconciler writes the gang objects of the enabled schedulers, events, and
    the Lease by which its replicas agree.

    **Examples**

    - `rollcall manifests rbac --config rollcall.yaml | kubectl apply -f -`
    """
    namespace, address = _service(account)
    settings = configured(config)
    space, other = _service(reconciler)
    roles = access_rules(settings, namespace, address.service)
    _print([*roles, *reconciler_access_rules(settings, space, other.service)], output)


def _service(written: str) -> tuple[str, Address]:
    found = _SERVICE.fullmatch(written)
    if found is None or not 0 < int(found[3] or 443) < 2**16:
        raise typer.BadParameter(f"{written!r} is no NAMESPACE/NAME, such as rollcall-system/rollcall")
    return found[1], Address(found[1], found[2], int(found[3] or 443))


def _print(manifests: Iterable[Manifest], output: Format) -> None:
    if output is Format.JSON:
        whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        typer.echo(json.dumps(whole, indent=2))
    else:
        typer.echo("".join(f"---\n{as_yaml_text(manifest)}" for manifest in manifests), nl=False)
