"""`rollcall manifests`: the objects that register and run Rollcall in a cluster, made from the configuration."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.manifest_names import IMAGE
from webhook.cli.network_options import (
    USUAL_PORTS,
    Callers,
    ClientAuthority,
    ClientNames,
    DnsChoice,
    HealthPort,
    HostNetwork,
    NextPort,
    ReconcilerPort,
    ServingPort,
    chosen_clients,
    chosen_network,
)
from webhook.cli.options import Configuration, Format, Output, configured
from webhook.cli.output import as_json_text, tell
from webhook.installation.names import NAMESPACE, NEXT_PATH, RECONCILER, SERVER, SERVICE_PORT
from webhook.installation.options import Reconciler

if TYPE_CHECKING:
    from webhook.config.settings import Settings
    from webhook.model.reading import Manifest

manifests_app = typer.Typer(help="The objects that a cluster needs, as manifests.", no_args_is_help=True)

_KEY_APART = (
    "with self-managed certificates the reconciler has the authority's key, which the server's Pods "
    "must not be able to read"
)


class FailurePolicy(StrEnum):
    """What the API server does if the webhook does not answer."""

    FAIL = "Fail"
    IGNORE = "Ignore"


Authority = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="The authority of the server's certificate, PEM.",
        show_default="injected by another system",
    ),
]
WithoutAnswer = Annotated[
    FailurePolicy | None,
    typer.Option(
        help="What the API server does if the webhook does not answer; overrides the file. Ignore is for emergencies.",
        show_default="registration.failurePolicy",
    ),
]
InstalledIn = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace to run in.")]
Image = Annotated[str, typer.Option(metavar="IMAGE", help="The image to run.")]


@manifests_app.callback()
def root() -> None:
    """The objects that a cluster needs, as manifests for `kubectl apply -f -`."""


@manifests_app.command()
def webhooks(  # noqa: PLR0913 - one parameter for each option
    *,
    config: Configuration = None,
    service: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME[:PORT]", help="The Service in front of `rollcall serve`.")
    ] = f"{NAMESPACE}/{SERVER}:{SERVICE_PORT}",
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The server's URL instead of a Service, for a server outside of a cluster.",
            show_default=False,
        ),
    ] = None,
    next_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The URL at which the server presents its next certificate (--next-port), outside of a "
            "cluster; needed if certificates are self-managed.",
            show_default=False,
        ),
    ] = None,
    ca: Authority = None,
    failure_policy: WithoutAnswer = None,
    output: Output = Format.TEXT,
) -> None:
    """Print the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    They never cover the namespace of the Service, kube-system, or a namespace with the label rollcall.dev/exempt. The
    file's `registration` sets the rest.

    **Examples**

    - `rollcall manifests webhooks --config rollcall.yaml --ca ca.crt | kubectl apply -f -`
    - `rollcall manifests webhooks --config rollcall.yaml --failure-policy Ignore | kubectl apply -f -`
    - `rollcall manifests webhooks --url https://127.0.0.1:8443 --ca certs/ca.crt`
    - `rollcall manifests webhooks --config rollcall.yaml --url https://10.0.0.7:8443 --next-url https://10.0.0.7:8444`
    """
    from webhook.cli.manifest_names import is_reachable, service_of
    from webhook.installation.webhooks import Address, webhook_configurations

    namespace, address = service_of(service, "--service")
    settings = _deciding(configured(config), failure_policy)
    if url is not None:
        for said, option in ((url, "--url"), (next_url or url, "--next-url")):
            if not is_reachable(said):
                raise typer.BadParameter(
                    f"{said!r} is not an https:// URL of a host and a port, without user, query and fragment",
                    param_hint=option,
                )
        if settings.certificates.self_managed and next_url is None:
            raise typer.BadParameter("certificates are self-managed, so --url needs it too", param_hint="--next-url")
        address = Address(url=url, next_url=f"{(next_url or '').rstrip('/')}/{NEXT_PATH}")
    elif next_url is not None:
        raise typer.BadParameter("it needs --url", param_hint="--next-url")
    _print(webhook_configurations(settings, address, namespace, _bundle(ca)), output)


@manifests_app.command()
def rbac(
    *,
    config: Configuration = None,
    account: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The service account of `rollcall serve`.")
    ] = f"{NAMESPACE}/{SERVER}",
    reconciler: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The service account of `rollcall reconcile`.")
    ] = f"{NAMESPACE}/{RECONCILER}",
    output: Output = Format.TEXT,
) -> None:
    """Print the roles that `rollcall serve` and `rollcall reconcile` need, and their bindings.

    The server reads, and writes nothing. The reconciler writes the gang objects of the enabled schedulers, events, and
    the Lease that elects the leader.

    **Examples**

    - `rollcall manifests rbac --config rollcall.yaml | kubectl apply -f -`
    """
    from webhook.cli.manifest_names import account_of
    from webhook.installation.access import access_rules, reconciler_access_rules

    own, other = account_of(account, "--account"), account_of(reconciler, "--reconciler")
    settings = configured(config)
    if settings.certificates.self_managed and own == other:
        raise typer.BadParameter(_KEY_APART, param_hint="--reconciler")
    _print([*access_rules(settings, *own), *reconciler_access_rules(settings, *other)], output)


@manifests_app.command()
def net(
    *,
    config: Configuration = None,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Rollcall's own namespace.")] = NAMESPACE,
    output: Output = Format.TEXT,
) -> None:
    """Print the ValidatingAdmissionPolicy with which the API server itself protects gangs, and its bindings.

    The file's `registration.net` says what happens to a pod that would start without its gang.

    **Examples**

    - `rollcall manifests net --config rollcall.yaml | kubectl apply -f -`
    """
    from webhook.cli.manifest_names import namespace_of
    from webhook.installation.net import net_policy

    found = net_policy(configured(config), namespace_of(namespace))
    if not found:
        tell("registration.net is off: there is nothing to print")
    _print(found, output)


@manifests_app.command("all")
def everything_(  # noqa: PLR0913 - one parameter for each option
    *,
    config: Configuration = None,
    namespace: InstalledIn = NAMESPACE,
    image: Image = IMAGE,
    replicas: Annotated[int, typer.Option(min=1, help="How many Pods each Deployment has.")] = 2,
    reconciler: Annotated[
        Reconciler | None,
        typer.Option(
            help="Where `rollcall reconcile` runs: in its own Pods with its own rights (while moving, earlier "
            "sidecars keep theirs), or beside the server, which then has the rights of both.",
            show_default="deployment",
        ),
    ] = None,
    cert_manager: Annotated[
        bool, typer.Option("--cert-manager", help="Let cert-manager make the certificates.")
    ] = False,
    ca: Authority = None,
    client_ca: ClientAuthority = None,
    client_name: ClientNames = None,
    callers: Callers = None,
    host_network: HostNetwork = False,
    dns_policy: DnsChoice = None,
    serving_port: ServingPort = USUAL_PORTS.serving,
    next_port: NextPort = USUAL_PORTS.next,
    health_port: HealthPort = USUAL_PORTS.health,
    reconciler_port: ReconcilerPort = USUAL_PORTS.reconciler,
    failure_policy: WithoutAnswer = None,
    output: Output = Format.TEXT,
) -> None:
    """Print everything that the configuration needs in a cluster: workloads, rights, certificates, network, and the
    webhook configurations.

    With `certificates.mode: files` the certificate is in the Secret rollcall-tls, made by cert-manager or by you. With
    `selfManaged` the reconciler makes it.

    **Examples**

    - `rollcall manifests all --config rollcall.yaml --image registry.example.com/rollcall:1.0 | kubectl apply -f -`
    - `rollcall manifests all --config rollcall.yaml --cert-manager | kubectl apply -f -`
    - `rollcall manifests all --config rollcall.yaml --host-network --serving-port 10443 | kubectl apply -f -`
    """
    from webhook.cli.manifest_names import image_of, namespace_of
    from webhook.cli.shadow_files import shadow_texts
    from webhook.installation.installed_objects import everything
    from webhook.installation.options import Options, named_by_content
    from webhook.installation.pod_network import Ports

    ports = Ports(serving_port, next_port, health_port, reconciler_port)
    settings = _deciding(configured(config), failure_policy)
    options = Options(
        image=image_of(image),
        namespace=namespace_of(namespace),
        configuration=None
        if config is None
        else named_by_content(config.read_text(encoding="utf-8"), shadow_texts(config, settings)),
        replicas=replicas,
        reconciler=_reconciler(settings, reconciler),
        cert_manager=_cert_manager(settings, cert_manager),
        ca_bundle=_bundle(ca),
        network=chosen_network(ports, host_network=host_network, dns_policy=dns_policy, callers=callers or ()),
        clients=chosen_clients(client_ca, client_name or ()),
    )
    _print(everything(settings, options), output)


@manifests_app.command()
def crds(*, config: Configuration = None, output: Output = Format.TEXT) -> None:
    """List the CustomResourceDefinitions of other projects that the configuration depends on. Rollcall has none of its
    own.

    The required ones must be served before a workload of that scheduler is admitted. The others are read if they are
    served.

    **Examples**

    - `rollcall manifests crds --config rollcall.yaml`
    """
    from webhook.installation.needed_kinds import needed_kinds

    found = needed_kinds(configured(config))
    if output is Format.JSON:
        named = [
            {"name": one.name, "version": one.version, "wantedBy": list(one.wanted_by), "required": one.required}
            for one in found
        ]
        typer.echo(as_json_text(named))
        return
    width = max(len(one.name) for one in found)
    typer.echo("# Rollcall defines no kinds. Kinds of other projects that it needs, or reads if they are served:")
    for one in found:
        need = "required" if one.required else "optional"
        typer.echo(f"# {one.name:<{width}}  {one.version:<8}  {need}  {', '.join(one.wanted_by)}")


@manifests_app.command()
def write(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.", show_default=False)],
    *,
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="A RollcallConfiguration.", show_default=False)
    ],
    namespace: InstalledIn = NAMESPACE,
    image: Image = IMAGE,
) -> None:
    """Write the kustomizations base, cert-manager and self-managed, and the Helm chart, from a configuration.

    In the first two, another system provides the certificates, whatever the file says. In the third the reconciler
    makes them. The content of DIR/monitoring becomes a part of the chart.

    **Examples**

    - `rollcall manifests write deploy --config rollcall.yaml && kubectl apply -k deploy/self-managed`
    """
    from webhook.cli.manifest_names import image_of, namespace_of
    from webhook.cli.write_manifests import write as write_files
    from webhook.cli.write_manifests import written

    # Reports mistakes with their positions in the file.
    settings = configured(config)
    write_files(folder, written(config, settings, namespace_of(namespace), image_of(image), folder))


def _deciding(settings: Settings, without_answer: FailurePolicy | None) -> Settings:
    if without_answer is None:
        return settings
    return replace(settings, registration=replace(settings.registration, failure_policy=without_answer.value))


def _reconciler(settings: Settings, wanted: Reconciler | None) -> Reconciler:
    from webhook.installation.options import placed

    found = placed(settings, wanted)
    if wanted is not None and found is not wanted:
        raise typer.BadParameter(_KEY_APART, param_hint="--reconciler")
    return found


def _cert_manager(settings: Settings, wanted: bool) -> bool:
    if wanted and settings.certificates.self_managed:
        raise typer.BadParameter(
            "the configuration lets the reconciler make the certificates (certificates.mode: selfManaged)",
            param_hint="--cert-manager",
        )
    return wanted


def _bundle(ca: Path | None) -> str | None:
    if ca is None:
        return None
    from webhook.certificates.files import read_authorities

    return b64encode(read_authorities(ca)).decode()


def _print(manifests: Iterable[Manifest], output: Format) -> None:
    from webhook.cli.yaml_text import as_yaml_text

    if output is Format.JSON:
        whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        typer.echo(as_json_text(whole))
    else:
        typer.echo("".join(f"---\n{as_yaml_text(manifest)}" for manifest in manifests), nl=False)
