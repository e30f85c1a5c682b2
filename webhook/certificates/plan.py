"""The next step for self-managed certificates, derived from what is stored (no I/O).

A rotation of the authority is a sequence of writes. After each of them every server is trusted, and the next step
follows from what is stored. So no other state is kept, and a reconciler may crash between any two writes. The order
keeps the service available: a new authority is trusted before its certificate is presented, and the old CA is removed
last.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from cryptography import x509

from webhook.certificates.state import (
    CURRENT,
    NEXT,
    SERVED,
    Registered,
    Stored,
    signer_of,
    still_trusted,
)
from webhook.certificates.x509 import KeyPair, fingerprint, holds, issued_by, names_missing, pem, renewal
from webhook.config.reconciler_settings import Certificates


class Step(StrEnum):
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
    """Create an authority. `kept` stays in the Secret; the new authority is stored at `place`."""

    kept: Mapping[str, bytes]
    place: str
    why: str
    # The stored authority could not be used.
    repair: bool = False
    step: Step = Step.AUTHORITY


class Publish(NamedTuple):
    """Write the caBundles of a configuration, and its owner."""

    configuration: Registered
    bundle: bytes
    step: Step = Step.BUNDLE


class ReleaseFields(NamedTuple):
    """Release the ownership of the fields of a configuration that were just written."""

    configuration: Registered
    step: Step = Step.BUNDLE


class Issue(NamedTuple):
    """Sign a certificate and store it at `place`."""

    signer: KeyPair
    place: str
    why: str
    repair: bool = False
    step: Step = Step.LEAF


class ProbeTrust(NamedTuple):
    """Wait until the API server trusts the signer of this certificate."""

    leaf: x509.Certificate
    step: Step = Step.PROOF


class Switch(NamedTuple):
    """Serve the next certificate, which `signer` signed."""

    pair: KeyPair
    signer: KeyPair
    step: Step = Step.SWITCH


class CheckServers(NamedTuple):
    """Wait until every server presents a certificate of this authority."""

    authority: x509.Certificate
    step: Step = Step.SERVED


class Promote(NamedTuple):
    """Make the next authority the current and only one."""

    authority: KeyPair
    step: Step = Step.PROMOTION


class Idle(NamedTuple):
    """Nothing to do before `until`."""

    until: datetime
    step: Step = Step.NONE


Action = NewAuthority | Publish | ReleaseFields | Issue | ProbeTrust | Switch | CheckServers | Promote | Idle


class Seen(NamedTuple):
    """Fingerprints of what was observed for long enough.

    `proven`: the certificate whose signer the API server trusts. `served`: the authority whose certificates all servers
    present.
    """

    proven: str = ""
    served: str = ""


def plan(stored: Stored, now: datetime, seen: Seen, settings: Certificates) -> Action:
    """The next step. `now` is the API server's time, because the API server verifies the certificates."""
    return (
        _authority(stored, now, settings)
        or _publish(stored)
        or _leaf(stored, now, settings)
        or _rotation(stored, now, seen, settings)
        or _rest(stored, now, settings)
    )


def _authority(stored: Stored, now: datetime, settings: Certificates) -> Action | None:
    found = stored.authority
    if found.trouble:
        trusted = still_trusted(stored, now)
        if not trusted:
            return NewAuthority({}, CURRENT, found.trouble, repair=found.data is not None)
        # The keys of these authorities may be lost or stolen, but servers still present certificates that they signed.
        return NewAuthority({"ca.crt": pem(trusted)}, NEXT, found.trouble, repair=True)
    if found.next is not None:
        if holds(found.next.certificate, now):
            return None
        return NewAuthority(_without_next(stored.authority.data), NEXT, "the next authority is not valid now")
    why = "" if found.current is None else _end(found.current.certificate, now, settings)
    if not why and found.asked:
        why = "a rotation was requested"
    return NewAuthority(_without_next(stored.authority.data), NEXT, why) if why else None


def _end(certificate: x509.Certificate, now: datetime, settings: Certificates) -> str:
    """Why an authority must be replaced; empty if it need not be."""
    if not holds(certificate, now):
        return "it is not valid now"
    return "it is due for renewal" if now >= renewal(certificate, settings.renew_at) else ""


def _without_next(data: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """The content of a Secret without the next authority or certificate."""
    return {key: value for key, value in (data or {}).items() if key not in {"next.crt", "next.key"}}


def _publish(stored: Stored) -> Action | None:
    bundle = stored.authority.bundle
    for one in stored.registered:
        if one.hooks and (not one.owned or any(hook.bundle != bundle for hook in one.hooks)):
            return Publish(one, bundle)
        if one.claimed:
            return ReleaseFields(one)
    return None


def _leaf(stored: Stored, now: datetime, settings: Certificates) -> Action | None:
    """The step that repairs or renews the served certificate at once; None if there is none."""
    authority, serving = stored.authority, stored.serving
    signer, pair = authority.current, serving.pair
    if pair is None and signer is None and stored.is_asked:
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
    """Why a certificate must be renewed; empty if it need not be."""
    if missing := names_missing(pair.certificate, stored.hosts):
        return f"it is not for {', '.join(missing)}"
    if stored.serving.asked and pair is stored.serving.pair:
        return "a rotation was requested"
    return "it is due for renewal" if now >= _leaf_due(pair, signer, now, settings) else ""


def _leaf_due(pair: KeyPair, signer: KeyPair, now: datetime, settings: Certificates) -> datetime:
    """When a certificate must be renewed; at its end if a new one would not be valid any longer."""
    end, due = pair.certificate.not_valid_after_utc, renewal(pair.certificate, settings.renew_at)
    return due if leaf_end(signer, max(now, due), settings) > end else end


def leaf_renewal(stored: Stored, now: datetime, settings: Certificates) -> datetime | None:
    """When the serving certificate must be renewed; None without one. The authority that signed it is the current one,
    or in a rotation the next one.
    """
    pair = stored.serving.pair
    if pair is None:
        return None
    by = signer_of(pair.certificate, stored.authority.certificates)
    signer = stored.authority.pair_of(by)
    return renewal(pair.certificate, settings.renew_at) if signer is None else _leaf_due(pair, signer, now, settings)


def leaf_end(signer: KeyPair, now: datetime, settings: Certificates) -> datetime:
    """The end of a certificate that is signed now: never after the end of its authority."""
    return min(now + settings.leaf_validity, signer.certificate.not_valid_after_utc)


def _rotation(stored: Stored, now: datetime, seen: Seen, settings: Certificates) -> Action | None:
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
    if stored.is_asked and seen.proven != fingerprint(ready.certificate):
        return ProbeTrust(ready.certificate)
    return Switch(ready, signer)


def _rest(stored: Stored, now: datetime, settings: Certificates) -> Idle:
    """The time of the next renewal. There is no next authority at this point, so the current one is complete."""
    current, pair = stored.authority.current, stored.serving.pair
    if current is None or pair is None:
        return Idle(now)
    ends = renewal(current.certificate, settings.renew_at), _leaf_due(pair, current, now, settings)
    return Idle(min(ends))


def authority_data(action: NewAuthority | Promote, stored: Stored, made: KeyPair | None = None) -> dict[str, bytes]:
    """The whole content of the Secret rollcall-ca after a step; `made` is the new authority."""
    if isinstance(action, Promote):
        return {**_without_next(stored.authority.data), **_files(CURRENT, action.authority)}
    return {**action.kept, **({} if made is None else _files(action.place, made))}


def serving_data(action: Issue | Switch, stored: Stored, made: KeyPair | None = None) -> dict[str, bytes]:
    """The whole content of the Secret rollcall-tls after a step; `made` is the new certificate."""
    data = stored.serving.data
    if isinstance(action, Switch):
        return {**_without_next(data), "ca.crt": action.signer.certificate_pem, **_files(SERVED, action.pair)}
    signed = {} if made is None else _files(action.place, made)
    return {**(data or {}), **({"ca.crt": action.signer.certificate_pem} if action.place == SERVED else {}), **signed}


def _files(place: str, pair: KeyPair) -> dict[str, bytes]:
    return {f"{place}.crt": pair.certificate_pem, f"{place}.key": pair.key_pem}
