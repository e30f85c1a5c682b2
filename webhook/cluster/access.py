"""The address of a cluster and our credentials: inside a pod, or from a kubeconfig.

Inside a pod these are four facts from the environment and two files; the token file is replaced every hour. A
kubeconfig has a dozen kinds of credentials. The `kubernetes` package reads them, and is imported only for that.

A pod never uses a proxy for the API server, which is near. The cluster of a kubeconfig is reached as by kubectl:
through its `proxy-url`, else through the proxy of the environment.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import complaints_of
from webhook.cluster.sockets import looking, proxy_for, trusting, trusting_system
from webhook.errors import AccessError, CertificateError

# The service account of a pod (Kubernetes documentation, "Accessing the Kubernetes API from a Pod").
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The maximum age of credentials from a kubeconfig.
RELOAD_SECONDS = 60.0
# What the library says of a name that another part of the kubeconfig does not have, and of an empty file.
_MISSING = re.compile(r"Expected object with name (?P<name>\S+) in \S*/(?P<kind>context|cluster|user)s list")
_EMPTY = re.compile(r"Invalid kube-config\. .* file is empty")


class Access(NamedTuple):
    """Address and credentials of a cluster. `authorization` returns the header's value for the next request; it may
    block. `namespace` is the one that the context of a kubeconfig names.
    """

    url: str
    tls: ssl.SSLContext
    authorization: Callable[[], str | None]
    proxy: str | None = None
    server_name: str | None = None
    namespace: str | None = None


def find_access(kubeconfig: Path | None = None, context: str | None = None, *, clock: Clock = MACHINE_CLOCK) -> Access:
    """Returns the access to a cluster. Without `kubeconfig` it is the cluster of our pod, else that of $KUBECONFIG or
    ~/.kube/config, as for kubectl.

    Raises `AccessError`.
    """
    if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return pod_access()
    return kubeconfig_access(kubeconfig, context, clock=clock)


def pod_access(folder: Path | None = None) -> Access:
    """Returns the access to the cluster of our pod. Raises `AccessError`."""
    folder = folder or SERVICE_ACCOUNT
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    authorities, token = folder / "ca.crt", folder / "token"
    try:
        tls = trusting(authorities.read_bytes())
        token.read_bytes()
    except CertificateError as error:
        raise AccessError(f"cannot connect to a cluster: {authorities}: {error}") from None
    except OSError as error:
        needs = "a pod that reads its cluster needs automountServiceAccountToken"
        raise AccessError(f"cannot connect to a cluster: {folder}: {_why(error)}; {needs}") from None

    def authorization() -> str:
        return f"Bearer {token.read_text().strip()}"

    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(url, tls, authorization, server_name=_certified_name(host))


def pod_namespace(folder: Path | None = None) -> str | None:
    """Returns the namespace of our pod; None outside of a cluster."""
    try:
        return ((folder or SERVICE_ACCOUNT) / "namespace").read_text().strip() or None
    except OSError:
        return None


def kubeconfig_access(path: Path | None, context: str | None, *, clock: Clock = MACHINE_CLOCK) -> Access:
    """Returns the access to the cluster of a kubeconfig. Raises `AccessError`."""
    # These imports take a fifth of a second and 35 MB, which a pod does not need.
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415
    from yaml import YAMLError  # noqa: PLC0415

    def load() -> Any:
        configuration: Any = Configuration()
        # `Configuration` reads a proxy from the environment, but without the exceptions (NO_PROXY). The proxy of the
        # kubeconfig is set below.
        configuration.proxy = None
        with complaints_of("kube_config") as complaints:
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=None if path is None else str(path),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        if complaints:
            # The library would continue without credentials. Its text may quote the output of the program, which may be
            # a token.
            raise ConfigException("the program that it names (exec) gave no credentials; run kubectl to see why")
        return configuration

    shown = str(path or os.environ.get("KUBECONFIG") or "~/.kube/config")
    try:
        configuration = load()
        way, tls = _way(configuration), _tls(configuration)
        namespace = _namespace(path, context)
    except YAMLError:
        raise AccessError(f"cannot connect to a cluster: {shown}: is not YAML") from None
    except (TypeError, KeyError, AttributeError):
        # The library does not check the shape of the document.
        raise AccessError(f"cannot connect to a cluster: {shown}: is not a kubeconfig") from None
    except (ConfigException, CertificateError, OSError, ValueError) as error:
        # $KUBECONFIG may name several files.
        alone = path or (None if os.environ.get("KUBECONFIG") else Path("~/.kube/config").expanduser())
        why = _why(error) if alone is None or alone.exists() else "no such file"
        raise AccessError(f"cannot connect to a cluster: {shown}: {why}") from None
    loaded = clock.monotonic()

    def authorization() -> str | None:
        nonlocal configuration, loaded
        # Token files are replaced, and credentials from a program expire.
        if clock.monotonic() - loaded > RELOAD_SECONDS:
            configuration, loaded = load(), clock.monotonic()
        # The name of the setting differs between releases of the library; this finds the header in all of them.
        settings: Any = configuration.auth_settings().values()
        header = next((setting["value"] for setting in settings if setting["key"].lower() == "authorization"), None)
        if header is None and configuration.username:
            header = configuration.get_basic_auth_token()
        return None if header is None else str(header)

    return Access(way.url, tls, authorization, way.proxy, way.server_name, namespace)


def _namespace(path: Path | None, context: str | None) -> str | None:
    from kubernetes.config.kube_config import (  # noqa: PLC0415
        KUBE_CONFIG_DEFAULT_LOCATION,
        KubeConfigLoader,
        KubeConfigMerger,
    )

    # `list_kube_config_contexts` fails without a current context, even if another one is asked for.
    merged = KubeConfigMerger(KUBE_CONFIG_DEFAULT_LOCATION if path is None else str(path)).config  # type: ignore[no-untyped-call]
    chosen: Any = KubeConfigLoader(merged, active_context=context).current_context  # type: ignore[no-untyped-call]
    return (chosen.get("context") or {}).get("namespace") or None


def _tls(configuration: object) -> ssl.SSLContext:
    authorities = getattr(configuration, "ssl_ca_cert", None)
    if not getattr(configuration, "verify_ssl", True):
        tls = looking()
    elif authorities:
        tls = trusting(Path(authorities).read_bytes())
    else:
        tls = trusting_system()
    certificate = getattr(configuration, "cert_file", None)
    if certificate:
        tls.load_cert_chain(certificate, getattr(configuration, "key_file", None))
    return tls


class _Way(NamedTuple):
    url: str
    proxy: str | None
    server_name: str | None


def _way(configuration: Any) -> _Way:
    """Returns URL, proxy and certificate name of the server of a kubeconfig. Raises `ValueError`."""
    url = str(configuration.host).rstrip("/")
    host = _host(url)
    if host is None:
        raise ValueError(f"the server {url!r} is not a URL")
    proxy = configuration.proxy or proxy_for(url, os.environ)
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        kind = proxy.partition(":")[0]
        raise ValueError(
            f"the proxy for {url} has the scheme {kind!r}; use one whose URL begins with http:// or https://"
        )
    return _Way(url, proxy, configuration.tls_server_name or _certified_name(host))


def _host(url: str) -> str | None:
    """Returns the host of a server's URL, or None if it is not an http or https URL."""
    try:
        parts = urlsplit(url)
        # `port` is parsed and checked only when it is read.
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.scheme in {"http", "https"} else None


def _certified_name(host: str) -> str | None:
    """Returns the name that the API server's certificate must have if it differs from the host: an absolute name ends
    in a dot, names in certificates do not.
    """
    return host.rstrip(".") if host.endswith(".") else None


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if missing := _MISSING.search(str(error)):
        return f"has no {missing['kind']} {missing['name']}; `kubectl config get-{missing['kind']}s` lists them"
    if _EMPTY.match(str(error)):
        return "is empty"
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}"
    return str(error).rstrip(".") or type(error).__name__
