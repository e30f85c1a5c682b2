"""What is stored of self-managed certificates: two Secrets and two webhook configurations, read as values. Pure.

Whatever is in them was perhaps written by somebody else, so nothing here raises: what cannot be used is said
(`trouble`), and what still can be read of it is kept, because servers may be presenting it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from webhook.certificates.x509 import (
    KeyPair,
    fingerprint,
    holds,
    is_authority,
    issued_by,
    pem,
    read_certificates,
    read_pair,
)
from webhook.errors import CertificateError
from webhook.installation.names import SERVER, SERVICE_PORT
from webhook.installation.webhooks import is_next_hook
from webhook.model.reading import Manifest, mapping, sequence

# What the keys of the two Secrets are named: CURRENT and NEXT in rollcall-ca, SERVED and NEXT in rollcall-tls.
CURRENT, NEXT, SERVED = "ca", "next", "tls"
# On either Secret: what is in it is to be renewed now, whatever its age. The leader takes it off when it begins.
ROTATE_ANNOTATION = "rollcall.dev/rotate"
# Whose the caBundles are while they are being written; see `Registered.claimed`.
FIELD_MANAGER = "rollcall-certificates"
# More authorities than anybody trusts at once. What somebody else left in a caBundle may be a whole system's list.
MOST_TRUSTED = 16


@dataclass(frozen=True, slots=True)
class AuthorityState:
    """The Secret rollcall-ca. `trusted` are the certificates that stay in the caBundles beside those of `next`;
    `current` is that of them which signs, None where its key is lost; `next` is there during a rotation. Where there is
    `trouble` none of it can be used, and `trusted` is what could be read.
    """

    trusted: tuple[x509.Certificate, ...] = ()
    current: KeyPair | None = None
    next: KeyPair | None = None
    trouble: str = ""
    asked: bool = False
    data: Mapping[str, bytes] | None = None

    @property
    def bundle(self) -> bytes:
        """What every caBundle should be."""
        return pem(self.certificates)

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """Every certificate that the API server should trust."""
        return self.trusted if self.next is None else distinct((*self.trusted, self.next.certificate))


@dataclass(frozen=True, slots=True)
class ServingState:
    """The Secret rollcall-tls: the pair that is served, the next one during a rotation, and who signed the former."""

    pair: KeyPair | None = None
    next: KeyPair | None = None
    authorities: tuple[x509.Certificate, ...] = ()
    trouble: str = ""
    asked: bool = False
    data: Mapping[str, bytes] | None = None


class Hook(NamedTuple):
    """One webhook of a configuration: where it leads (a host and a port, and the Service where it is one), and the
    authorities that it trusts, as PEM.
    """

    name: str
    bundle: bytes
    host: str
    port: int
    # Namespace and name.
    service: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook configuration. `owned`: it goes with the namespace. `claimed`: its caBundles are fields of ours, and
    then nobody who applies on the server's side can drop a hook: what is left of it, a name and a caBundle, is no hook.
    """

    kind: str
    name: str
    uid: str
    version: str
    hooks: tuple[Hook, ...]
    owned: bool
    claimed: bool
    managers: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything that there is, and the names by which the API server will call the server."""

    namespace: str
    authority: AuthorityState
    serving: ServingState
    registered: tuple[Registered, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every name that a serving certificate must be for."""
        services = {(self.namespace, SERVER): None}
        urls: dict[str, None] = {}
        for hook in self._hooks():
            if hook.service is None:
                urls[hook.host] = None
            else:
                services[hook.service] = None
        named = [name for namespace, service in services for name in _service_names(namespace, service)]
        return (*named, *(host for host in urls if host))

    @property
    def places(self) -> tuple[Hook, ...]:
        """Where the API server asks, or will once it is told to: one hook for each Service and for each address."""
        found = {(hook.service, hook.host, hook.port): hook for hook in self._hooks() if not is_next(hook)}
        own = Hook("", b"", _service_names(self.namespace, SERVER)[2], SERVICE_PORT, (self.namespace, SERVER))
        return tuple(found.values()) or (own,)

    @property
    def is_asked(self) -> bool:
        """Whether the API server asks anybody at all."""
        return any(one.hooks for one in self.registered)

    def _hooks(self) -> Iterator[Hook]:
        for one in self.registered:
            yield from one.hooks


def is_next(hook: Hook) -> bool:
    """Whether it is the hook that is asked for the next certificate alone."""
    return is_next_hook(hook.name)


def authority_state(secret: Manifest | None) -> AuthorityState:
    """The Secret rollcall-ca as it is."""
    if secret is None:
        return AuthorityState(trouble="there is no such Secret")
    data, asked = secret_data(secret), _asked(secret)
    try:
        trusted = read_certificates(data.get("ca.crt", b""))
        current = _authority(data, CURRENT) if data.get("ca.key") else None
        following = _authority(data, NEXT) if data.get("next.crt") or data.get("next.key") else None
        if current is None and following is None:
            raise CertificateError("ca.key: there is none")
    except CertificateError as error:
        known = distinct((*readable(data.get("ca.crt")), *readable(data.get("next.crt"))))
        return AuthorityState(known, trouble=str(error), asked=asked, data=data)
    return AuthorityState(trusted, current, following, asked=asked, data=data)


def serving_state(secret: Manifest | None) -> ServingState:
    """The Secret rollcall-tls as it is."""
    if secret is None:
        return ServingState(trouble="there is no such Secret")
    data = secret_data(secret)
    pair, trouble = _pair(data, SERVED)
    following, _ = _pair(data, NEXT)
    return ServingState(pair, following, readable(data.get("ca.crt")), trouble, _asked(secret), data)


def registered(configuration: Manifest, namespace: str) -> Registered:
    """A webhook configuration as it is; `namespace` is Rollcall's."""
    metadata = mapping(configuration.get("metadata"))
    managers = tuple(mapping(one) for one in sequence(metadata.get("managedFields")))
    owners = [mapping(one) for one in sequence(metadata.get("ownerReferences"))]
    return Registered(
        str(configuration.get("kind") or ""),
        str(metadata.get("name")),
        str(metadata.get("uid")),
        str(metadata.get("resourceVersion")),
        tuple(_hook(mapping(one)) for one in sequence(configuration.get("webhooks"))),
        any((one.get("kind"), one.get("name")) == ("Namespace", namespace) for one in owners),
        any(one.get("manager") == FIELD_MANAGER for one in managers),
        managers,
    )


def secret_data(secret: Manifest) -> dict[str, bytes]:
    """The content of a Secret."""
    found = {}
    for key, value in mapping(secret.get("data")).items():
        try:
            found[str(key)] = b64decode(value, validate=True)
        except (ValueError, TypeError):
            found[str(key)] = b""
    return found


def still_trusted(stored: Stored, now: datetime) -> tuple[x509.Certificate, ...]:
    """Every authority that anything still rests on, where the Secret rollcall-ca does not say: what can be read of it,
    of the Secret beside it, and of the caBundles.
    """
    found = [*stored.authority.certificates, *stored.serving.authorities]
    for one in stored.registered:
        for hook in one.hooks:
            found += readable(hook.bundle)
    return distinct(one for one in found if holds(one, now))[:MOST_TRUSTED]


def signer_of(leaf: x509.Certificate, authorities: Iterable[x509.Certificate]) -> x509.Certificate | None:
    """The one of them that signed it."""
    return next((one for one in authorities if issued_by(leaf, one)), None)


def distinct(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Each once, in their order."""
    return tuple({fingerprint(one): one for one in certificates}.values())


def _authority(data: Mapping[str, bytes], place: str) -> KeyPair:
    try:
        pair = read_pair(data.get(f"{place}.crt", b""), data.get(f"{place}.key", b""))
    except CertificateError as error:
        raise CertificateError(f"{place}.crt and {place}.key: {error}") from None
    if not is_authority(pair.certificate) or not isinstance(pair.key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{place}.crt: no authority with a key of an elliptic curve")
    return pair


def _pair(data: Mapping[str, bytes], place: str) -> tuple[KeyPair | None, str]:
    try:
        return read_pair(data.get(f"{place}.crt", b""), data.get(f"{place}.key", b"")), ""
    except CertificateError as error:
        return None, f"{place}.crt and {place}.key: {error}"


def readable(text: bytes | None) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM text; none where it cannot be read."""
    try:
        return read_certificates(text or b"")
    except CertificateError:
        return ()


def _asked(secret: Manifest) -> bool:
    return ROTATE_ANNOTATION in mapping(mapping(secret.get("metadata")).get("annotations"))


def _hook(raw: Mapping[str, Any]) -> Hook:
    config = mapping(raw.get("clientConfig"))
    try:
        bundle = b64decode(str(config.get("caBundle") or ""), validate=True)
    except ValueError:
        bundle = b""
    name, service = str(raw.get("name")), mapping(config.get("service"))
    if service:
        where = str(service.get("namespace")), str(service.get("name"))
        return Hook(name, bundle, _service_names(*where)[2], int(service.get("port") or 443), where)
    try:
        url = urlsplit(str(config.get("url") or ""))
        return Hook(name, bundle, url.hostname or "", url.port or 443, None)
    except ValueError:
        return Hook(name, bundle, "", 443, None)


def _service_names(namespace: str, service: str) -> tuple[str, ...]:
    """How a cluster calls a Service; the API server asks for the third."""
    inside = f"{service}.{namespace}"
    return service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"
