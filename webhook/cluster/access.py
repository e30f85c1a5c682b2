"""How a cluster is reached, and who we are there: from inside a pod, or from a kubeconfig.

Inside a pod it is four facts from the environment and two files, the token being replaced under us every hour. A
kubeconfig has a dozen ways to say who one is; those are the `kubernetes` package's to know, which is imported for
nothing else.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from webhook.errors import AccessError
from webhook.logs import complaints_of

# Where a pod finds its service account (Kubernetes documentation, "Accessing the Kubernetes API from a Pod").
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# How old what a kubeconfig said of our credentials may be.
RELOAD_SECONDS = 60.0


class Access(NamedTuple):
    """A way to a cluster. `authorization` gives the header's value for the next request; it may block."""

    url: str
    tls: ssl.SSLContext
    authorization: Callable[[], str | None]
    proxy: str | None = None
    server_name: str | None = None


def find(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """The cluster that `kubeconfig` names; without one that of the pod we run in, else that of $KUBECONFIG or
    ~/.kube/config, as kubectl would.

    Raises `AccessError`.
    """
    if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    return from_kubeconfig(kubeconfig, context)


def in_cluster(folder: Path | None = None) -> Access:
    """The cluster of the pod that we run in. Raises `AccessError`."""
    folder = folder or SERVICE_ACCOUNT
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = folder / "token"
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        token.read_bytes()
    except (OSError, ssl.SSLError) as error:
        needs = "a pod that reads its cluster needs automountServiceAccountToken"
        raise AccessError(f"no way to a cluster: {folder}: {_why(error)}; {needs}") from None

    def authorization() -> str:
        return f"Bearer {token.read_text().strip()}"

    return Access(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", tls, authorization)


def from_kubeconfig(path: Path | None, context: str | None) -> Access:
    """The cluster that a kubeconfig names. Raises `AccessError`."""
    # A fifth of a second and 35 MB, which a pod is spared.
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415
    from yaml import YAMLError  # noqa: PLC0415

    def load() -> Any:
        configuration: Any = Configuration()
        # It has taken one from the environment, without its exceptions (NO_PROXY). The kubeconfig's own is set below.
        configuration.proxy = None
        with complaints_of("kube_config") as complaints:
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=None if path is None else str(path),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        if complaints:
            # It would go on as nobody. Its words may quote what the program printed, and that may be a token.
            raise ConfigException("the program that it names (exec) gave no credentials; kubectl says more")
        return configuration

    shown = str(path or os.environ.get("KUBECONFIG") or "~/.kube/config")
    try:
        configuration = load()
        tls = _tls(configuration)
    except YAMLError:
        raise AccessError(f"no way to a cluster: {shown}: is not YAML") from None
    except (TypeError, KeyError, AttributeError):
        # It takes a document of another shape for what it is not.
        raise AccessError(f"no way to a cluster: {shown}: is no kubeconfig") from None
    except (ConfigException, OSError, ValueError) as error:
        # Not so for $KUBECONFIG, which may name several.
        alone = path or (None if os.environ.get("KUBECONFIG") else Path("~/.kube/config").expanduser())
        why = _why(error) if alone is None or alone.exists() else "no such file"
        raise AccessError(f"no way to a cluster: {shown}: {why}") from None
    url = str(configuration.host).rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise AccessError(f"no way to a cluster: {shown}: the server {url!r} is no URL")
    loaded = time.monotonic()

    def authorization() -> str | None:
        nonlocal configuration, loaded
        # Token files are replaced under us, and what a program gives runs out.
        if time.monotonic() - loaded > RELOAD_SECONDS:
            configuration, loaded = load(), time.monotonic()
        # The name of the setting has changed between releases; what it comes to is found the same way in all of them.
        settings: Any = configuration.auth_settings().values()
        found = next((said["value"] for said in settings if said["key"].lower() == "authorization"), None)
        if found is None and configuration.username:
            found = configuration.get_basic_auth_token()
        return None if found is None else str(found)

    return Access(
        url,
        tls,
        authorization,
        configuration.proxy or None,
        configuration.tls_server_name or None,
    )


def _tls(configuration: object) -> ssl.SSLContext:
    verify = bool(getattr(configuration, "verify_ssl", True))
    tls = ssl.create_default_context(cafile=getattr(configuration, "ssl_ca_cert", None))
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = getattr(configuration, "cert_file", None)
    if certificate:
        tls.load_cert_chain(certificate, getattr(configuration, "key_file", None))
    return tls


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}"
    return str(error).rstrip(".") or type(error).__name__
