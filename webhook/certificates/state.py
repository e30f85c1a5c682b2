"""The stored state of self-managed certificates: two Secrets and two webhook configurations, as values (no I/O).

Other clients may have written any of them, so nothing here raises. Unusable content is described in `trouble`, and the
readable part is kept, because servers may present it.
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

# Prefixes of the keys in the two Secrets: CURRENT and NEXT in rollcall-ca, SERVED and NEXT in rollcall-tls.
CURRENT, NEXT, SERVED = "ca", "next", "tls"
# On either Secret: renew its content now, regardless of its age. The leader removes it when it begins.
ROTATE_ANNOTATION = "rollcall.dev/rotate"
# The field manager of the caBundles while they are written; see `Registered.claimed`.
FIELD_MANAGER = "rollcall-certificates"
# More authorities than are ever trusted together. A foreign caBundle may contain the list of a whole system.
MOST_TRUSTED = 16


@dataclass(frozen=True, slots=True)
class AuthorityState:
    """The Secret rollcall-ca.

    `trusted` are the certificates that stay in the caBundles, in addition to `next`. `current` is the one that signs,
    None if its key is lost. `next` exists during a rotation. With `trouble` none of it can be used, and `trusted` is
    what could be read.
    """

    trusted: tuple[x509.Certificate, ...] = ()
    current: KeyPair | None = None
    next: KeyPair | None = None
    trouble: str = ""
    asked: bool = False
    data: Mapping[str, bytes] | None = None

    def pair_of(self, certificate: x509.Certificate | None) -> KeyPair | None:
        """The current or the next authority, whichever has that certificate; None if its key is not stored."""
        return next(
            (one for one in (self.current, self.next) if one is not None and one.certificate == certificate), None
        )

    @property
    def bundle(self) -> bytes:
        """The content that every caBundle should have."""
        return pem(self.certificates)

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """Every certificate that the API server should trust."""
        return self.trusted if self.next is None else distinct((*self.trusted, self.next.certificate))


@dataclass(frozen=True, slots=True)
class ServingState:
    """The Secret rollcall-tls: the served pair, the next pair during a rotation, and the authorities of the served
    pair.
    """

    pair: KeyPair | None = None
    next: KeyPair | None = None
    authorities: tuple[x509.Certificate, ...] = ()
    trouble: str = ""
    asked: bool = False
    data: Mapping[str, bytes] | None = None


class Hook(NamedTuple):
    """One webhook of a configuration: its target (host, port and, if there is one, Service) and the authorities it
    trusts, as PEM.
    """

    name: str
    bundle: bytes
    host: str
    port: int
    # Namespace and name.
    service: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook configuration.

    `owned`: it is deleted with the namespace. `claimed`: the caBundles are fields of our manager. Then a server-side
    apply by another client cannot remove a hook: a name and a caBundle would remain, which is not a valid hook.
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
    """The whole stored state, and the names by which the API server calls the server."""

    namespace: str
    authority: AuthorityState
    serving: ServingState
    registered: tuple[Registered, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """All names that a serving certificate must have."""
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
        """The targets that the API server calls, or will call: one hook for each Service and each address."""
        found = {(hook.service, hook.host, hook.port): hook for hook in self._hooks() if not is_next(hook)}
        own = Hook("", b"", _service_names(self.namespace, SERVER)[2], SERVICE_PORT, (self.namespace, SERVER))
        return tuple(found.values()) or (own,)

    @property
    def is_asked(self) -> bool:
        """Whether the API server calls any webhook at all."""
        return any(one.hooks for one in self.registered)

    def _hooks(self) -> Iterator[Hook]:
        for one in self.registered:
            yield from one.hooks


def is_next(hook: Hook) -> bool:
    """Whether this is the hook that only tests the next certificate."""
    return is_next_hook(hook.name)


def authority_state(secret: Manifest | None) -> AuthorityState:
    """The state of the Secret rollcall-ca."""
    if secret is None:
        return AuthorityState(trouble="this Secret does not exist")
    data, asked = secret_data(secret), _asked(secret)
    try:
        trusted = read_certificates(data.get("ca.crt", b""))
        current = _authority(data, CURRENT) if data.get("ca.key") else None
        following = _authority(data, NEXT) if data.get("next.crt") or data.get("next.key") else None
        if current is None and following is None:
            raise CertificateError("ca.key: missing")
    except CertificateError as error:
        known = distinct((*readable(data.get("ca.crt")), *readable(data.get("next.crt"))))
        return AuthorityState(known, trouble=str(error), asked=asked, data=data)
    return AuthorityState(trusted, current, following, asked=asked, data=data)


def serving_state(secret: Manifest | None) -> ServingState:
    """The state of the Secret rollcall-tls."""
    if secret is None:
        return ServingState(trouble="this Secret does not exist")
    data = secret_data(secret)
    pair, trouble = _pair(data, SERVED)
    following, _ = _pair(data, NEXT)
    return ServingState(pair, following, readable(data.get("ca.crt")), trouble, _asked(secret), data)


def registered(configuration: Manifest, namespace: str) -> Registered:
    """The state of a webhook configuration; `namespace` is Rollcall's."""
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
    """Every authority that may still be needed if the Secret rollcall-ca is unusable: the readable ones from it, from
    rollcall-tls and from the caBundles.
    """
    found = [*stored.authority.certificates, *stored.serving.authorities]
    for one in stored.registered:
        for hook in one.hooks:
            found += readable(hook.bundle)
    return distinct(one for one in found if holds(one, now))[:MOST_TRUSTED]


def signer_of(leaf: x509.Certificate, authorities: Iterable[x509.Certificate]) -> x509.Certificate | None:
    """The authority that signed `leaf`; None if none of them did."""
    return next((one for one in authorities if issued_by(leaf, one)), None)


def distinct(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The certificates without duplicates, in their order."""
    return tuple({fingerprint(one): one for one in certificates}.values())


def _authority(data: Mapping[str, bytes], place: str) -> KeyPair:
    try:
        pair = read_pair(data.get(f"{place}.crt", b""), data.get(f"{place}.key", b""))
    except CertificateError as error:
        raise CertificateError(f"{place}.crt and {place}.key: {error}") from None
    if not is_authority(pair.certificate) or not isinstance(pair.key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{place}.crt: not an authority with an elliptic curve key")
    return pair


def _pair(data: Mapping[str, bytes], place: str) -> tuple[KeyPair | None, str]:
    try:
        return read_pair(data.get(f"{place}.crt", b""), data.get(f"{place}.key", b"")), ""
    except CertificateError as error:
        return None, f"{place}.crt and {place}.key: {error}"


def readable(text: bytes | None) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM text; empty if it cannot be read."""
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
    """The names of a Service in the cluster; the API server uses the third."""
    inside = f"{service}.{namespace}"
    return service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"
