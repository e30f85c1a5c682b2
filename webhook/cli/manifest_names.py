"""What a person writes after the options of `rollcall manifests` for a namespace, an image, a URL, a service or an
account.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from webhook import __version__
from webhook.installation.names import NAMESPACE, SHARED_NAMESPACES
from webhook.model.naming import NAMESPACE_PATTERN

if TYPE_CHECKING:
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
    """Return the namespace that a person wrote after --namespace. Raises `BadParameter`, as the others here do."""
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
    """Return the image that a person wrote after --image."""
    if not _IMAGE.fullmatch(written):
        raise typer.BadParameter(
            f"{written!r} is not an image, such as registry.example.com/{IMAGE}", param_hint="--image"
        )
    return written


def is_reachable(url: str) -> bool:
    """Return whether the API server accepts a URL for a webhook."""
    try:
        return _URL.fullmatch(url) is not None and urlsplit(url).port != 0
    except ValueError:
        return False


def service_of(written: str, option: str) -> tuple[str, Address]:
    """Return the namespace of a service, and its address."""
    from webhook.installation.webhooks import Address

    found = _SERVICE.fullmatch(written)
    if found is None or not 0 < int(found[3] or 443) < 2**16:
        why = f"{written!r} is not NAMESPACE/NAME[:PORT], such as rollcall-system/rollcall"
        raise typer.BadParameter(why, param_hint=option)
    return found[1], Address(found[1], found[2], int(found[3] or 443))


def account_of(written: str, option: str) -> tuple[str, str]:
    """Return the namespace and the name of a service account."""
    found = _ACCOUNT.fullmatch(written)
    if found is None:
        raise typer.BadParameter(f"{written!r} is not the NAMESPACE/NAME of a service account", param_hint=option)
    return found[1], found[2]
