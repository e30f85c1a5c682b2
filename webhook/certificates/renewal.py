"""The renewal of self-managed certificates: the stored state as values, and the next step that follows from it (no
I/O).

The state is two Secrets and two webhook configurations. Other clients may have written any of them, so reading it
never raises. Unusable content is described in `trouble`, and the readable part is kept, because servers may present
it.

A rotation of the authority is a sequence of writes. After each of them every server is trusted, and the next step
follows from what is stored. So no other state is kept, and a reconciler may crash between any two writes. A new
authority is trusted before its certificate is presented, and the old CA is removed last.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
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
    names_missing,
    pem,
    read_certificates,
    read_pair,
    renewal,
)
from webhook.config.settings import Certificates
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
    rotation_requested: bool = False
    data: Mapping[str, bytes] | None = None

    def pair_of(self, certificate: x509.Certificate | None) -> KeyPair | None:
        """Returns the current or the next authority, whichever has that certificate; None if its key is not stored."""
        return next(
            (pair for pair in (self.current, self.next) if pair is not None and pair.certificate == certificate), None
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
    rotation_requested: bool = False
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
        names = [name for namespace, service in services for name in _service_names(namespace, service)]
        return (*names, *(host for host in urls if host))

    @property
    def places(self) -> tuple[Hook, ...]:
        """The targets that the API server calls, or will call: one hook for each Service and each address."""
        targets = {(hook.service, hook.host, hook.port): hook for hook in self._hooks() if not is_next(hook)}
        default = Hook("", b"", _service_names(self.namespace, SERVER)[2], SERVICE_PORT, (self.namespace, SERVER))
        return tuple(targets.values()) or (default,)

    @property
    def is_called(self) -> bool:
        """Whether the API server calls any webhook at all."""
        return any(configuration.hooks for configuration in self.registered)

    def _hooks(self) -> Iterator[Hook]:
        for configuration in self.registered:
            yield from configuration.hooks


def is_next(hook: Hook) -> bool:
    """Returns whether this is the hook that only tests the next certificate."""
    return is_next_hook(hook.name)


def authority_state(secret: Manifest | None) -> AuthorityState:
    """Returns the state of the Secret rollcall-ca."""
    if secret is None:
        return AuthorityState(trouble="this Secret does not exist")
    data, requested = secret_data(secret), _requests_rotation(secret)
    try:
        trusted = read_certificates(data.get("ca.crt", b""))
        current = _authority(data, CURRENT) if data.get("ca.key") else None
        following = _authority(data, NEXT) if data.get("next.crt") or data.get("next.key") else None
        if current is None and following is None:
            raise CertificateError("ca.key: missing")
    except CertificateError as error:
        certificates = distinct((*readable(data.get("ca.crt")), *readable(data.get("next.crt"))))
        return AuthorityState(certificates, trouble=str(error), rotation_requested=requested, data=data)
    return AuthorityState(trusted, current, following, rotation_requested=requested, data=data)


def serving_state(secret: Manifest | None) -> ServingState:
    """Returns the state of the Secret rollcall-tls."""
    if secret is None:
        return ServingState(trouble="this Secret does not exist")
    data = secret_data(secret)
    pair, trouble = _pair(data, SERVED)
    following, _ = _pair(data, NEXT)
    return ServingState(pair, following, readable(data.get("ca.crt")), trouble, _requests_rotation(secret), data)


def registered(configuration: Manifest, namespace: str) -> Registered:
    """Returns the state of a webhook configuration; `namespace` is Rollcall's."""
    metadata = mapping(configuration.get("metadata"))
    managers = tuple(mapping(manager) for manager in sequence(metadata.get("managedFields")))
    owners = [mapping(owner) for owner in sequence(metadata.get("ownerReferences"))]
    return Registered(
        str(configuration.get("kind") or ""),
        str(metadata.get("name")),
        str(metadata.get("uid")),
        str(metadata.get("resourceVersion")),
        tuple(_hook(mapping(webhook)) for webhook in sequence(configuration.get("webhooks"))),
        any((owner.get("kind"), owner.get("name")) == ("Namespace", namespace) for owner in owners),
        any(manager.get("manager") == FIELD_MANAGER for manager in managers),
        managers,
    )


def secret_data(secret: Manifest) -> dict[str, bytes]:
    """Returns the content of a Secret."""
    content = {}
    for key, value in mapping(secret.get("data")).items():
        try:
            content[str(key)] = b64decode(value, validate=True)
        except (ValueError, TypeError):
            content[str(key)] = b""
    return content


def still_trusted(stored: Stored, now: datetime) -> tuple[x509.Certificate, ...]:
    """Returns every authority that may still be needed if the Secret rollcall-ca is unusable: the readable ones from
    it, from rollcall-tls and from the caBundles.
    """
    certificates = [*stored.authority.certificates, *stored.serving.authorities]
    for configuration in stored.registered:
        for hook in configuration.hooks:
            certificates += readable(hook.bundle)
    return distinct(certificate for certificate in certificates if holds(certificate, now))[:MOST_TRUSTED]


def signer_of(leaf: x509.Certificate, authorities: Iterable[x509.Certificate]) -> x509.Certificate | None:
    """Returns the authority that signed `leaf`; None if none of them did."""
    return next((authority for authority in authorities if issued_by(leaf, authority)), None)


def distinct(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Returns the certificates without duplicates, in their order."""
    return tuple({fingerprint(certificate): certificate for certificate in certificates}.values())


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
    """Returns the certificates in a PEM text; empty if it cannot be read."""
    try:
        return read_certificates(text or b"")
    except CertificateError:
        return ()


def _requests_rotation(secret: Manifest) -> bool:
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
    """Returns the names of a Service in the cluster; the API server uses the third."""
    inside = f"{service}.{namespace}"
    return service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"


class RotationStep(StrEnum):
    """The progress of a rotation: a metric's label, and printed by `rollcall certs status`."""

    NONE = "none"
    # A new authority must be stored.
    AUTHORITY = "authority"
    # The caBundles must be updated.
    BUNDLE = "bundle"
    # A certificate must be signed.
    LEAF = "leaf"
    # The API server is not known to trust the next authority yet.
    PROOF = "proof"
    # The next certificate must be served.
    SWITCH = "switch"
    # A server still presents the old certificate.
    SERVED = "served"
    # The next authority must become the only one.
    PROMOTION = "promotion"


class NewAuthority(NamedTuple):
    """A step that creates an authority. `kept` stays in the Secret; the new authority is stored at `place`."""

    kept: Mapping[str, bytes]
    place: str
    why: str
    # The stored authority could not be used.
    repair: bool = False
    step: RotationStep = RotationStep.AUTHORITY


class Publish(NamedTuple):
    """A step that writes the caBundles of a configuration, and its owner."""

    configuration: Registered
    bundle: bytes
    step: RotationStep = RotationStep.BUNDLE


class ReleaseFields(NamedTuple):
    """A step that releases the ownership of the fields of a configuration that were just written."""

    configuration: Registered
    step: RotationStep = RotationStep.BUNDLE


class Issue(NamedTuple):
    """A step that signs a certificate and stores it at `place`."""

    signer: KeyPair
    place: str
    why: str
    repair: bool = False
    step: RotationStep = RotationStep.LEAF


class ProbeTrust(NamedTuple):
    """A wait until the API server trusts the signer of this certificate."""

    leaf: x509.Certificate
    step: RotationStep = RotationStep.PROOF


class Switch(NamedTuple):
    """A step that serves the next certificate, which `signer` signed."""

    pair: KeyPair
    signer: KeyPair
    step: RotationStep = RotationStep.SWITCH


class CheckServers(NamedTuple):
    """A wait until every server presents a certificate of this authority."""

    authority: x509.Certificate
    step: RotationStep = RotationStep.SERVED


class Promote(NamedTuple):
    """A step that makes the next authority the current and only one."""

    authority: KeyPair
    step: RotationStep = RotationStep.PROMOTION


class Idle(NamedTuple):
    """Nothing to do before `until`."""

    until: datetime
    step: RotationStep = RotationStep.NONE


Action = NewAuthority | Publish | ReleaseFields | Issue | ProbeTrust | Switch | CheckServers | Promote | Idle


class SeenCertificates(NamedTuple):
    """Fingerprints of what was observed for long enough.

    `proven`: the certificate whose signer the API server trusts. `served`: the authority whose certificates all servers
    present.
    """

    proven: str = ""
    served: str = ""


def plan(stored: Stored, now: datetime, seen: SeenCertificates, settings: Certificates) -> Action:
    """Returns the next step. `now` is the API server's time, because the API server verifies the certificates."""
    return (
        _authority_step(stored, now, settings)
        or _bundle_step(stored)
        or _leaf_step(stored, now, settings)
        or _rotation_step(stored, now, seen, settings)
        or _idle_step(stored, now, settings)
    )


def _authority_step(stored: Stored, now: datetime, settings: Certificates) -> Action | None:
    authority = stored.authority
    if authority.trouble:
        trusted = still_trusted(stored, now)
        if not trusted:
            return NewAuthority({}, CURRENT, authority.trouble, repair=authority.data is not None)
        # The keys of these authorities may be lost or stolen, but servers still present certificates that they signed.
        return NewAuthority({"ca.crt": pem(trusted)}, NEXT, authority.trouble, repair=True)
    if authority.next is not None:
        if holds(authority.next.certificate, now):
            return None
        return NewAuthority(_drop_next(stored.authority.data), NEXT, "the next authority is not valid now")
    why = "" if authority.current is None else _end(authority.current.certificate, now, settings)
    if not why and authority.rotation_requested:
        why = "a rotation was requested"
    return NewAuthority(_drop_next(stored.authority.data), NEXT, why) if why else None


def _end(certificate: x509.Certificate, now: datetime, settings: Certificates) -> str:
    """Returns why an authority must be replaced; empty if it need not be."""
    if not holds(certificate, now):
        return "it is not valid now"
    return "it is due for renewal" if now >= renewal(certificate, settings.renew_at) else ""


def _drop_next(data: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """Returns the content of a Secret without the next authority or certificate."""
    return {key: value for key, value in (data or {}).items() if key not in {"next.crt", "next.key"}}


def _bundle_step(stored: Stored) -> Action | None:
    bundle = stored.authority.bundle
    for configuration in stored.registered:
        if configuration.hooks and (
            not configuration.owned or any(hook.bundle != bundle for hook in configuration.hooks)
        ):
            return Publish(configuration, bundle)
        if configuration.claimed:
            return ReleaseFields(configuration)
    return None


def _leaf_step(stored: Stored, now: datetime, settings: Certificates) -> Action | None:
    """Returns the step that repairs or renews the served certificate at once; None if there is none."""
    authority, serving = stored.authority, stored.serving
    signer, pair = authority.current, serving.pair
    if pair is None and signer is None and stored.is_called:
        # Servers may still hold the pair that was in the Secret. The next pair is served only after the API server
        # trusts it.
        return None
    if signer is None or not holds(signer.certificate, now):
        signer = authority.next or signer
    if signer is None:
        return None
    if pair is None:
        return Issue(signer, SERVED, serving.trouble, repair=serving.data is not None)
    by = signer_of(pair.certificate, authority.certificates)
    if by is None:
        return Issue(signer, SERVED, "its signer is not trusted", repair=True)
    if not holds(pair.certificate, now) or not holds(by, now):
        return Issue(signer, SERVED, "it is not valid now")
    # A renewal by the same authority needs no wait: that authority is trusted already.
    signer = authority.pair_of(by)
    if signer is not None and (why := _renewal(pair, signer, stored, now, settings)):
        return Issue(signer, SERVED, why)
    return None


def _renewal(pair: KeyPair, signer: KeyPair, stored: Stored, now: datetime, settings: Certificates) -> str:
    """Returns why a certificate must be renewed; empty if it need not be."""
    if missing := names_missing(pair.certificate, stored.hosts):
        return f"it is not for {', '.join(missing)}"
    if stored.serving.rotation_requested and pair is stored.serving.pair:
        return "a rotation was requested"
    return "it is due for renewal" if now >= _leaf_due(pair, signer, now, settings) else ""


def _leaf_due(pair: KeyPair, signer: KeyPair, now: datetime, settings: Certificates) -> datetime:
    """Returns when a certificate must be renewed; at its end if a new one would not be valid any longer."""
    end, due = pair.certificate.not_valid_after_utc, renewal(pair.certificate, settings.renew_at)
    return due if leaf_end(signer, max(now, due), settings) > end else end


def leaf_renewal(stored: Stored, now: datetime, settings: Certificates) -> datetime | None:
    """Returns when the serving certificate must be renewed; None without one. Its signer is the current authority or,
    in a rotation, the next one.
    """
    pair = stored.serving.pair
    if pair is None:
        return None
    by = signer_of(pair.certificate, stored.authority.certificates)
    signer = stored.authority.pair_of(by)
    return renewal(pair.certificate, settings.renew_at) if signer is None else _leaf_due(pair, signer, now, settings)


def leaf_end(signer: KeyPair, now: datetime, settings: Certificates) -> datetime:
    """Returns the end of a certificate that is signed now: never after the end of its authority."""
    return min(now + settings.leaf_validity, signer.certificate.not_valid_after_utc)


def _rotation_step(stored: Stored, now: datetime, seen: SeenCertificates, settings: Certificates) -> Action | None:
    signer, serving, ready = stored.authority.next, stored.serving.pair, stored.serving.next
    if signer is None:
        return None
    if serving is not None and issued_by(serving.certificate, signer.certificate):
        served = seen.served == fingerprint(signer.certificate)
        return Promote(signer) if served else CheckServers(signer.certificate)
    if ready is None or not issued_by(ready.certificate, signer.certificate):
        return Issue(signer, NEXT, "the next authority has not signed one yet")
    if not holds(ready.certificate, now):
        return Issue(signer, NEXT, "it is not valid now")
    if why := _renewal(ready, signer, stored, now, settings):
        return Issue(signer, NEXT, why)
    if stored.is_called and seen.proven != fingerprint(ready.certificate):
        return ProbeTrust(ready.certificate)
    return Switch(ready, signer)


def _idle_step(stored: Stored, now: datetime, settings: Certificates) -> Idle:
    """Returns the time of the next renewal. There is no next authority at this point, so the current one is
    complete.
    """
    current, pair = stored.authority.current, stored.serving.pair
    if current is None or pair is None:
        return Idle(now)
    ends = renewal(current.certificate, settings.renew_at), _leaf_due(pair, current, now, settings)
    return Idle(min(ends))


def authority_data(action: NewAuthority | Promote, stored: Stored, created: KeyPair | None = None) -> dict[str, bytes]:
    """Returns the whole content of the Secret rollcall-ca after a step; `created` is the new authority."""
    if isinstance(action, Promote):
        return {**_drop_next(stored.authority.data), **_files(CURRENT, action.authority)}
    return {**action.kept, **({} if created is None else _files(action.place, created))}


def serving_data(action: Issue | Switch, stored: Stored, created: KeyPair | None = None) -> dict[str, bytes]:
    """Returns the whole content of the Secret rollcall-tls after a step; `created` is the new certificate."""
    data = stored.serving.data
    if isinstance(action, Switch):
        return {**_drop_next(data), "ca.crt": action.signer.certificate_pem, **_files(SERVED, action.pair)}
    signed = {} if created is None else _files(action.place, created)
    return {**(data or {}), **({"ca.crt": action.signer.certificate_pem} if action.place == SERVED else {}), **signed}


def _files(place: str, pair: KeyPair) -> dict[str, bytes]:
    return {f"{place}.crt": pair.certificate_pem, f"{place}.key": pair.key_pem}
