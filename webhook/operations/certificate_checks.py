"""Checks of certificates: what the API server trusts, and what Rollcall presents. The certificates of the examples are
created on demand and never stored.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from webhook.certificates.x509 import issued_by, new_authority, new_leaf, pem
from webhook.errors import FactsUnavailable
from webhook.installation.names import NAMESPACE, RECONCILER, SERVER, TLS_SECRET
from webhook.model.reading import Manifest, mapping, text
from webhook.operations.diagnosis import NOW, Severity, Symptom, Symptoms, check, first_of, installed
from webhook.operations.snapshot import SECRET, PresentedCertificate, Snapshot, serves_next

HOST = f"{SERVER}.{NAMESPACE}.svc"


class SignedPair(NamedTuple):
    """An authority and a certificate that it signed."""

    authority: x509.Certificate
    leaf: x509.Certificate


def signed_pair(days: int = 90, host: str = HOST) -> SignedPair:
    """Returns an authority and a certificate for a host, both valid for this many more days."""
    begun, ends = NOW - timedelta(days=10), NOW + timedelta(days=days)
    authority = new_authority("example authority", begun, ends - begun)
    return SignedPair(authority.certificate, new_leaf(authority, (host,), begun, ends).certificate)


def bundle_of(*certificates: x509.Certificate) -> str:
    """Returns the certificates as a caBundle."""
    return b64encode(pem(certificates)).decode()


def bundled_installation(*certificates: x509.Certificate, **fields: Any) -> Snapshot:
    """Returns a working installation whose webhooks have these authorities in their caBundle."""
    bundle = bundle_of(*certificates)

    def write(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = bundle

    return installed(changed=write, **fields)


def certified_installation(pair: SignedPair, refused: str = "") -> Snapshot:
    """Returns an installation that presents the certificate of a pair. The pair's authority accepts it, unless
    `refused` says why not.
    """
    bundle = bundle_of(pair.authority)
    shown = PresentedCertificate(
        "https://10.0.0.0:8443",
        HOST,
        pair.leaf.public_bytes(serialization.Encoding.DER),
        refused={bundle: refused} if refused else {},
    )
    return bundled_installation(pair.authority, presented=(shown,))


# With this part of its life left, a certificate should have been renewed long ago: Rollcall and others renew at a
# third.
_REST = 0.1
_REDO = "rollcall manifests webhooks --config FILE --ca ca.crt | kubectl apply -f -"


def _repair(snapshot: Snapshot, by_hand: str) -> str:
    """Returns how caBundles and certificates come to agree: `by_hand`, or by the reconciler if it maintains them."""
    if not snapshot.settings.certificates.self_managed:
        return f"{by_hand}: {_REDO}"
    logs = f"kubectl -n {snapshot.namespace} logs deployment/{RECONCILER}"
    return f"the reconciler maintains it; to find out why it has not, run rollcall certs status and {logs}"


@check(
    "webhooks/ca-bundle",
    passes=lambda: bundled_installation(signed_pair().authority),
    fails=lambda: bundled_installation(signed_pair(days=-1).authority),
)
def ca_bundle(snapshot: Snapshot) -> Symptoms:
    """Every webhook has a caBundle, it is PEM, it is the same everywhere, and at least one of its authorities is valid.
    The API server trusts a server only by the caBundle. A webhook that it does not trust refuses every gang.

    Source: Kubernetes API reference, admissionregistration/v1 WebhookClientConfig.
    """
    seen: dict[str, str] = {}
    without = []
    for where, hook in snapshot.hooks():
        bundle = text(mapping(hook.get("clientConfig")).get("caBundle"))
        if bundle is None:
            without.append(where)
        else:
            seen.setdefault(bundle, where)
    if without:
        why = "the API server then trusts only the authorities of its own machine, and Rollcall's is not one of them"
        yield Symptom(
            first_of(without),
            "there is no caBundle",
            why,
            _repair(snapshot, "set the caBundle, or let another system inject it"),
        )
    if len(seen) > 1:
        yield Symptom(
            next(iter(seen.values())),
            f"there are {len(seen)} different caBundles, one of them in {list(seen.values())[1]}",
            "a rotation was interrupted, or some were set by hand: some webhooks may be trusted and others not",
            _repair(snapshot, "set all of them again"),
            Severity.WARNING,
        )
    for bundle, where in seen.items():
        yield from _bundle(bundle, where, snapshot)


def _bundle(bundle: str, where: str, snapshot: Snapshot) -> Iterator[Symptom]:
    try:
        certificates = authorities(bundle)
    except ValueError:
        why = "the API server cannot read it, and makes no calls"
        yield Symptom(where, "its caBundle is not a certificate in PEM form", why, _repair(snapshot, "set it again"))
        return
    # After a rotation an expired authority may stay beside a valid one.
    holding = [certificate for certificate in certificates if _age(certificate, snapshot.now) is None]
    if not holding:
        level, problem = next(filter(None, (_age(certificate, snapshot.now) for certificate in certificates)))
        yield Symptom(
            where,
            f"the authority in its caBundle {problem}",
            "the API server does not trust any certificate that it signed",
            _repair(snapshot, "set it to the current authority"),
            level,
        )


@check(
    "server/certificate",
    passes=lambda: certified_installation(signed_pair()),
    fails=lambda: certified_installation(
        signed_pair(), refused="certificate verify failed: unable to get local issuer certificate"
    ),
)
def certificate(snapshot: Snapshot) -> Symptoms:
    """The certificate that Rollcall presents has not expired, and every caBundle trusts it for the name that the API
    server calls. If Rollcall cannot be reached from here, the certificate in its Secret is checked instead.

    Source: Kubernetes documentation, "Contacting the webhook" (SERVICE.NAMESPACE.svc).
    """
    endpoints = reached_endpoints(snapshot)
    for shown in endpoints:
        leaf = _shown(shown)
        if leaf is not None and (aged := _age(leaf, snapshot.now)) is not None:
            yield _old(shown.where, aged)
        for why in dict.fromkeys(shown.refused.values()):
            yield _distrusted(snapshot, shown.where, f"the caBundle does not trust it as {shown.host}: {why}")
    if not endpoints:
        yield from _stored(snapshot)


def reached_endpoints(snapshot: Snapshot) -> list[PresentedCertificate]:
    """Returns the endpoints that present a certificate and are Rollcall's. Raises `FactsUnavailable`.

    From the user's network, a pod's address may lead to a proxy or an unrelated machine. An endpoint whose certificate
    lacks the Service's name is not Rollcall's.
    """
    url, host = snapshot.address().url, called_host(snapshot)
    return [
        presented
        for presented in snapshot.presented
        if (leaf := _shown(presented)) is not None and (url or is_for_host(leaf, host))
    ]


def _shown(presented: PresentedCertificate) -> x509.Certificate | None:
    try:
        return None if presented.certificate is None else x509.load_der_x509_certificate(presented.certificate)
    except ValueError:
        return None


def _stored(snapshot: Snapshot) -> Iterator[Symptom]:
    secret = snapshot.single(SECRET)
    where = f"Secret {snapshot.namespace}/{TLS_SECRET}"
    content = None if secret is None else text(mapping(secret.get("data")).get("tls.crt"))
    if content is None:
        tried = "; ".join(
            f"{presented.where}: {presented.trouble or 'another server answers'}" for presented in snapshot.presented
        )
        tried = tried or "no server can be reached"
        raise FactsUnavailable(f"which certificate is served: {tried}, and {where} is missing")
    try:
        leaf, *between = x509.load_pem_x509_certificates(b64decode(content))
    except ValueError:
        yield _distrusted(snapshot, where, "its tls.crt is not a certificate in PEM form")
        return
    if (aged := _age(leaf, snapshot.now)) is not None:
        yield _old(where, aged)
    if not is_for_host(leaf, called_host(snapshot)):
        yield _distrusted(snapshot, where, f"its certificate is not for {called_host(snapshot)}")
    for bundle in bundles(snapshot):
        try:
            certificates = authorities(bundle)
        except ValueError:
            continue
        if not _vouched(leaf, between, certificates):
            yield _distrusted(snapshot, where, "no authority of a webhook's caBundle signed its certificate")


def _old(where: str, aged: tuple[Severity, str]) -> Symptom:
    level, problem = aged
    return Symptom(
        where,
        f"the certificate that is served {problem}",
        "once it has expired, the API server refuses every gang",
        "rollcall certs rotate --leaf, or find out why the system that maintains the certificates has not renewed it",
        level,
    )


def _distrusted(snapshot: Snapshot, where: str, observation: str) -> Symptom:
    return Symptom(
        where,
        observation,
        "the API server trusts no server there, and refuses every gang",
        _repair(snapshot, "serve with a certificate of that authority, or set the right caBundle"),
    )


def called_host(snapshot: Snapshot) -> str:
    """Returns the host name by which the API server calls Rollcall. Raises `FactsUnavailable`."""
    address = snapshot.address()
    return urlsplit(address.url).hostname or f"{address.service}.{address.namespace}.svc"


def bundles(snapshot: Snapshot) -> tuple[str, ...]:
    """Returns the caBundles of the webhooks that are called, without duplicates. Raises `FactsUnavailable`."""
    every = (
        text(mapping(hook.get("clientConfig")).get("caBundle")) for _, hook in snapshot.hooks() if not serves_next(hook)
    )
    return tuple(dict.fromkeys(bundle for bundle in every if bundle))


def authorities(bundle: str) -> Sequence[x509.Certificate]:
    """Returns the certificates in a caBundle. Raises `ValueError`."""
    try:
        return x509.load_pem_x509_certificates(b64decode(bundle, validate=True))
    except NotBase64 as error:
        raise ValueError(str(error)) from None


def is_for_host(leaf: x509.Certificate, host: str) -> bool:
    try:
        alternative_names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    hosts = alternative_names.get_values_for_type(x509.DNSName)
    wildcard = f"*.{host.partition('.')[2]}"
    return host in hosts or wildcard in hosts or host in map(str, alternative_names.get_values_for_type(x509.IPAddress))


def _vouched(
    leaf: x509.Certificate, between: Iterable[x509.Certificate], trusted_certificates: Iterable[x509.Certificate]
) -> bool:
    """Returns whether a chain leads from `leaf` through the certificates in `between` to one in `trusted_certificates`.
    `leaf` itself may be one of these.
    """
    trusted, left, current = list(trusted_certificates), list(between), leaf
    while True:
        if current in trusted or any(issued_by(current, authority) for authority in trusted):
            return True
        above = next((issuer for issuer in left if issued_by(current, issuer)), None)
        if above is None:
            return False
        left.remove(above)
        current = above


def _age(certificate: x509.Certificate, now: datetime) -> tuple[Severity, str] | None:
    """Returns what is wrong with the dates of a certificate, or None."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        return Severity.ERROR, f"is not valid before {begins:%Y-%m-%d %H:%M} UTC"
    if now >= ends:
        return Severity.ERROR, f"expired at {ends:%Y-%m-%d %H:%M} UTC"
    if ends - now < (ends - begins) * _REST:
        return Severity.WARNING, f"expires at {ends:%Y-%m-%d %H:%M} UTC"
    return None
