"""Checks of clocks: the validity of certificates and leases depends on clocks, and those of machines differ."""

from __future__ import annotations

from datetime import datetime, timedelta

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import installed
from webhook.doctor.parts import LEASE
from webhook.doctor.snapshot import ClockOffset, Snapshot
from webhook.installation.names import LEASE_NAME
from webhook.model.reading import mapping, text

# A Date header has a resolution of one second, and a response takes time.
_TOLERATED = timedelta(seconds=5)
# Certificates are backdated by this much.
_TOO_FAR = timedelta(minutes=5)


@check(
    "clocks/agree",
    level=Level.WARNING,
    passes=lambda: installed(clocks=(ClockOffset("the API server", 0.4),)),
    fails=lambda: installed(clocks=(ClockOffset("the API server", -412.0),)),
)
def agree(snapshot: Snapshot) -> Symptoms:
    """The clocks of the API server and of Rollcall's endpoints agree with the clock here, and no Lease was renewed in
    the future. The clocks are read from the Date of the answers. If they differ by five minutes, a new certificate is
    not valid yet.

    Source: RFC 9110, Date; Kubernetes API reference, coordination.k8s.io/v1.
    """
    for clock in snapshot.clocks:
        if abs(clock.ahead) > _TOLERATED.total_seconds():
            yield _apart(f"the clock of {clock.whose}", clock.ahead)
    found = snapshot.one(LEASE)
    renewed = None if found is None else text(mapping(found.get("spec")).get("renewTime"))
    if renewed is not None:
        ahead = (datetime.fromisoformat(renewed) - snapshot.now).total_seconds()
        if ahead > _TOLERATED.total_seconds():
            yield _apart(f"the clock of the process that renewed Lease {snapshot.namespace}/{LEASE_NAME}", ahead)


def _apart(where: str, ahead: float) -> Symptom:
    far = abs(ahead) > _TOO_FAR.total_seconds()
    return Symptom(
        where,
        f"it is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the clock here",
        "a new certificate is not valid yet there, or an expired one is still accepted"
        if far
        else "ages and dates are wrong",
        "synchronise both machines with a time server (NTP)",
        Level.ERROR if far else None,
    )
