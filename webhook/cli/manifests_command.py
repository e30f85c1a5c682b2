"""`rollcall manifests`: the objects that register and run Rollcall in a cluster, made from the configuration, and the
options for its names, network and allowed callers.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from webhook import __version__
from webhook.cli.options import ClientNames, Configuration, Format, Output, configured
from webhook.cli.output import as_json_text, tell
from webhook.installation.names import NAMESPACE, NEXT_PATH, RECONCILER, SERVER, SERVICE_PORT, SHARED_NAMESPACES
from webhook.installation.parameters import ClientCertificates, DnsPolicy, Network, Ports, ReconcilerPlace
from webhook.model.keys import NAMESPACE_PATTERN
from webhook.model.reading import Manifest

if TYPE_CHECKING:
    from webhook.config.settings import Settings
    from webhook.installation.webhooks import Address

# namespace/name:port, as RFC 1123 labels.
_SERVICE = re.compile(
    r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)(?::(\d{1,5}))?", re.ASCII
)
# The name of a service account is an RFC 1123 subdomain.
_ACCOUNT = re.compile(r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/((?=.{1,253}$)[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)")
# The API server accepts HTTPS without user, query or fragment.
_URL = re.compile(r"https://[^/?#@\s]+(?:/[^?#\s]*)?")

# As container runtimes read it: HOST[:PORT]/PATH[:TAG][@DIGEST].
_IMAGE = re.compile(
    r"(?:(?:[A-Za-z0-9](?:[-.A-Za-z0-9]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)

# The name from `docker build --tag rollcall:VERSION`. Only your own registry can have it.
IMAGE = f"rollcall:{__version__}"


def namespace_of(written: str) -> str:
    """Returns the namespace that a person wrote after --namespace. Raises `BadParameter`, as the others here do."""
    if not re.fullmatch(NAMESPACE_PATTERN, written):
        raise typer.BadParameter(f"{written!r} is not the name of a namespace", param_hint="--namespace")
    if written in SHARED_NAMESPACES:
        raise typer.BadParameter(
            f"{written!r} is not suitable: Pod Security 'restricted' is enforced in the whole namespace, and "
            f"no gang in it is judged; choose a separate namespace, such as {NAMESPACE}",
            param_hint="--namespace",
        )
    return written


def image_of(written: str) -> str:
    if not _IMAGE.fullmatch(written):
        raise typer.BadParameter(
            f"{written!r} is not an image, such as registry.example.com/{IMAGE}", param_hint="--image"
        )
    return written


def service_of(written: str) -> tuple[str, Address]:
    from webhook.installation.webhooks import Address

    match = _SERVICE.fullmatch(written)
    if match is None or not 0 < int(match[3] or 443) < 2**16:
        why = f"{written!r} is not NAMESPACE/NAME[:PORT], such as rollcall-system/rollcall"
        raise typer.BadParameter(why, param_hint="--service")
    return match[1], Address(match[1], match[2], int(match[3] or 443))


def account_of(written: str, option: str) -> tuple[str, str]:
    match = _ACCOUNT.fullmatch(written)
    if match is None:
        raise typer.BadParameter(f"{written!r} is not the NAMESPACE/NAME of a service account", param_hint=option)
    return match[1], match[2]


def _listening(option: str, what: str) -> Any:
    return typer.Option(option, min=1, max=65535, metavar="PORT", help=f"Where containers listen {what}.")


ServingPort = Annotated[int, _listening("--serving-port", "for AdmissionReviews")]
NextPort = Annotated[int, _listening("--next-port", "to present the next certificate")]
HealthPort = Annotated[int, _listening("--health-port", "for the server's health and metrics")]
ReconcilerPort = Annotated[int, _listening("--reconciler-port", "for the reconciler's health and metrics")]
HostNetwork = Annotated[
    bool,
    typer.Option(
        "--host-network",
        help="Run the server's Pods in the network of their nodes, for clusters whose API server cannot reach Pods.",
    ),
]
DnsChoice = Annotated[
    DnsPolicy | None,
    typer.Option(
        "--dns-policy",
        help="The dnsPolicy of the server's Pods.",
        show_default="ClusterFirstWithHostNet with --host-network",
    ),
]
Callers = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="CIDR|NAMESPACE",
        help="Who may call the server; the NetworkPolicy allows only these. Repeatable.",
        show_default="anybody",
    ),
]
ClientAuthority = Annotated[
    str | None,
    typer.Option(
        "--client-ca",
        metavar="KIND/NAME",
        help="The ConfigMap or Secret (configmap/NAME, secret/NAME) whose ca.crt has the authorities of "
        "callers: the API server must present a certificate.",
        show_default="no client certificate is required",
    ),
]
USUAL_PORTS = Ports()
_PORT_OPTIONS = ["--serving-port", "--next-port", "--health-port", "--reconciler-port"]


def chosen_network(
    ports: Ports, *, host_network: bool, dns_policy: DnsPolicy | None, callers: Iterable[str]
) -> Network:
    network = Network(ports, host_network, dns_policy, tuple(_peer(caller) for caller in callers))
    if network.problem is not None:
        raise typer.BadParameter(network.problem, param_hint=["--host-network"] if host_network else _PORT_OPTIONS)
    return network


def chosen_clients(authority: str | None, names: Sequence[str]) -> ClientCertificates | None:
    if authority is None:
        if names:
            raise typer.BadParameter("it needs --client-ca", param_hint="--client-name")
        return None
    try:
        return ClientCertificates.read(authority, tuple(names))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--client-ca") from None


def _peer(caller: str) -> Manifest:
    """Returns a NetworkPolicyPeer. The name of a namespace never has a slash, and a CIDR always has one."""
    if re.fullmatch(NAMESPACE_PATTERN, caller):
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": caller}}}
    try:
        if "/" in caller:
            return {"ipBlock": {"cidr": str(ip_network(caller))}}
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    raise typer.BadParameter(f"{caller!r} is neither a CIDR nor the name of a namespace", param_hint="--from")


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
    from webhook.installation.webhooks import Address, webhook_configurations

    namespace, address = service_of(service)
    settings = _deciding(configured(config), failure_policy)
    if url is not None:
        _require_reachable(url, "--url")
        _require_reachable(next_url or url, "--next-url")
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
    from webhook.installation.rbac import access_rules, reconciler_access_rules

    server_account, other = account_of(account, "--account"), account_of(reconciler, "--reconciler")
    settings = configured(config)
    if settings.certificates.self_managed and server_account == other:
        raise typer.BadParameter(_KEY_APART, param_hint="--reconciler")
    _print([*access_rules(settings, *server_account), *reconciler_access_rules(settings, *other)], output)


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
    from webhook.installation.net_policy import net_policy

    objects = net_policy(configured(config), namespace_of(namespace))
    if not objects:
        tell("registration.net is off: there is nothing to print")
    _print(objects, output)


@manifests_app.command("all")
def everything_(  # noqa: PLR0913 - one parameter for each option
    *,
    config: Configuration = None,
    namespace: InstalledIn = NAMESPACE,
    image: Image = IMAGE,
    replicas: Annotated[int, typer.Option(min=1, help="How many Pods each Deployment has.")] = 2,
    reconciler: Annotated[
        ReconcilerPlace | None,
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
    from webhook.cli.manifest_files import shadow_texts
    from webhook.installation.installed_objects import installed_objects
    from webhook.installation.parameters import Options, Ports, name_by_content

    ports = Ports(serving_port, next_port, health_port, reconciler_port)
    settings = _deciding(configured(config), failure_policy)
    if cert_manager and settings.certificates.self_managed:
        why = "the configuration lets the reconciler make the certificates (certificates.mode: selfManaged)"
        raise typer.BadParameter(why, param_hint="--cert-manager")
    options = Options(
        image=image_of(image),
        namespace=namespace_of(namespace),
        configuration=None
        if config is None
        else name_by_content(config.read_text(encoding="utf-8"), shadow_texts(config, settings)),
        replicas=replicas,
        reconciler=_reconciler(settings, reconciler),
        cert_manager=cert_manager,
        ca_bundle=_bundle(ca),
        network=chosen_network(ports, host_network=host_network, dns_policy=dns_policy, callers=callers or ()),
        clients=chosen_clients(client_ca, client_name or ()),
    )
    _print(installed_objects(settings, options), output)


@manifests_app.command()
def crds(*, config: Configuration = None, output: Output = Format.TEXT) -> None:
    """List the CustomResourceDefinitions of other projects that the configuration depends on. Rollcall has none of its
    own.

    The required ones must be served before a workload of that scheduler is admitted. The others are read if they are
    served.

    **Examples**

    - `rollcall manifests crds --config rollcall.yaml`
    """
    from webhook.installation.rbac import needed_kinds

    kinds = needed_kinds(configured(config))
    if output is Format.JSON:
        rows = [
            {"name": kind.name, "version": kind.version, "wantedBy": list(kind.users), "required": kind.required}
            for kind in kinds
        ]
        typer.echo(as_json_text(rows))
        return
    width = max(len(kind.name) for kind in kinds)
    typer.echo("# Rollcall defines no kinds. Kinds of other projects that it needs, or reads if they are served:")
    for kind in kinds:
        need = "required" if kind.required else "optional"
        typer.echo(f"# {kind.name:<{width}}  {kind.version:<8}  {need}  {', '.join(kind.users)}")


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
    from webhook.cli.manifest_files import manifest_texts
    from webhook.cli.manifest_files import write as write_files

    # Reports mistakes with their positions in the file.
    settings = configured(config)
    write_files(folder, manifest_texts(config, settings, namespace_of(namespace), image_of(image), folder))


def _require_reachable(url: str, option: str) -> None:
    """Raises `typer.BadParameter` for a URL that the API server does not accept for a webhook."""
    with suppress(ValueError):
        if _URL.fullmatch(url) and urlsplit(url).port != 0:
            return
    why = f"{url!r} is not an https:// URL of a host and a port, without user, query and fragment"
    raise typer.BadParameter(why, param_hint=option)


def _deciding(settings: Settings, without_answer: FailurePolicy | None) -> Settings:
    if without_answer is None:
        return settings
    return replace(settings, registration=replace(settings.registration, failure_policy=without_answer.value))


def _reconciler(settings: Settings, requested: ReconcilerPlace | None) -> ReconcilerPlace:
    from webhook.installation.parameters import reconciler_place

    place = reconciler_place(settings, requested)
    if requested is not None and place is not requested:
        raise typer.BadParameter(_KEY_APART, param_hint="--reconciler")
    return place


def _bundle(ca: Path | None) -> str | None:
    if ca is None:
        return None
    from webhook.certificates.files import read_authorities

    return b64encode(read_authorities(ca)).decode()


def _print(manifests: Iterable[Manifest], output: Format) -> None:
    from webhook.offline.yaml_and_json import as_yaml_text

    if output is Format.JSON:
        whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        typer.echo(as_json_text(whole))
    else:
        typer.echo("".join(f"---\n{as_yaml_text(manifest)}" for manifest in manifests), nl=False)
