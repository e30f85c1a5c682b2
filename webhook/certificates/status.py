"""The certificates of a cluster, as text or JSON: what is stored, and the next step. No keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from cryptography import x509

from webhook.certificates.plan import Idle, Seen, Step, leaf_renewal, plan
from webhook.certificates.snapshot import Snapshot
from webhook.certificates.state import Registered, readable
from webhook.certificates.x509 import KeyPair, fingerprint, renewal
from webhook.config.reconciler_settings import Certificates
from webhook.errors import CertificateError

# This many characters of a fingerprint are enough to tell certificates apart.
_SHOWN = 16


def status_of(snapshot: Snapshot, settings: Certificates) -> dict[str, Any]:
    """The status as JSON values. `authority` is null if certificates are not self-managed here."""
    stored = snapshot.stored
    # Other tools use a Secret with this name too.
    kept = settings.self_managed or not stored.authority.trouble
    return {
        "namespace": stored.namespace,
        "selfManaged": kept,
        "step": _step(snapshot, settings).value if kept else None,
        "asked": [name for name, asked in (("ca", stored.authority.asked), ("leaf", stored.serving.asked)) if asked],
        "authority": {
            "current": [
                _shown(one, renewal(one, settings.renew_at) if stored.authority.current else None)
                for one in stored.authority.trusted
            ],
            "next": _of(stored.authority.next),
            "trouble": stored.authority.trouble or None,
        }
        if kept
        else None,
        "serving": {
            "current": _of(stored.serving.pair, leaf_renewal(stored, snapshot.now, settings) if kept else None),
            "next": _of(stored.serving.next),
            "trouble": stored.serving.trouble or None,
        },
        "configurations": [_configuration(one, stored.authority.bundle if kept else None) for one in stored.registered],
    }


def _step(snapshot: Snapshot, settings: Certificates) -> Step:
    try:
        action = plan(snapshot.stored, snapshot.now, Seen(), settings)
    except CertificateError:
        return Step.LEAF
    return Step.NONE if isinstance(action, Idle) else action.step


def _of(pair: KeyPair | None, due: datetime | None = None) -> dict[str, Any] | None:
    return None if pair is None else _shown(pair.certificate, due)


def _shown(certificate: x509.Certificate, due: datetime | None = None) -> dict[str, Any]:
    """The certificate as JSON values; `due` is when it is to be renewed."""
    found = {
        "fingerprint": fingerprint(certificate),
        "subject": certificate.subject.rfc4514_string(),
        "notBefore": certificate.not_valid_before_utc.isoformat(),
        "notAfter": certificate.not_valid_after_utc.isoformat(),
    }
    if due is not None:
        found["renewed"] = due.isoformat(timespec="seconds")
    return found


def _configuration(one: Registered, wanted: bytes | None) -> dict[str, Any]:
    trusted = dict.fromkeys(fingerprint(found) for hook in one.hooks for found in readable(hook.bundle))
    differing = [hook.name for hook in one.hooks if hook.bundle != (one.hooks[0].bundle if wanted is None else wanted)]
    return {
        "name": one.name,
        "trusts": list(trusted),
        # Hooks whose caBundle is wrong or differs from the others.
        "differing": differing,
        "goesWithNamespace": one.owned,
    }


def status_text(found: dict[str, Any]) -> Iterator[str]:
    """The status as lines of text."""
    authority, serving = found["authority"], found["serving"]
    if authority is not None:
        for one in authority["current"]:
            yield _line("authority", one)
        if authority["next"] is not None:
            yield _line("next authority", authority["next"])
        yield from _trouble("authority", authority["trouble"])
    if serving["current"] is not None:
        yield _line("certificate", serving["current"])
    if serving["next"] is not None:
        yield _line("next certificate", serving["next"])
    yield from _trouble("certificate", serving["trouble"])
    for one in found["configurations"]:
        trusts = ", ".join(_short(one["trusts"])) or "no authority"
        differs = f"; differs in: {', '.join(one['differing'])}" if one["differing"] else ""
        yield f"{one['name']:18}trusts {trusts}{differs}"
    if not found["configurations"]:
        yield f"{'configurations':18}none exist, so the API server does not call Rollcall"
    for what in found["asked"]:
        yield f"{'asked for':18}{what}"
    if found["step"] is not None:
        yield f"{'step':18}{found['step']}"


def _line(what: str, one: dict[str, Any]) -> str:
    renewed = f", renewal due {one['renewed']}" if "renewed" in one else ""
    return f"{what:18}{one['fingerprint'][:_SHOWN]} until {one['notAfter']}{renewed}"


def _short(fingerprints: Iterable[str]) -> Iterator[str]:
    return (one[:_SHOWN] for one in fingerprints)


def _trouble(what: str, why: str | None) -> Iterator[str]:
    if why:
        yield f"{what:18}{why}"
