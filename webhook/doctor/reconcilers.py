"""Checks of the reconciler: one leads, and no gang waits for it without end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed, lease, thing
from webhook.doctor.parts import GANG_PODS, LEASE, OWNED_PODS
from webhook.doctor.snapshot import Snapshot
from webhook.installation.names import LEASE_NAME, RECONCILER
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.mutators.prepare_pod import GATE

# The clock of the renewing machine may differ from ours; other checks report by how much.
_GRACE = timedelta(seconds=30)
# Creating a gang, or waiting for gates of other controllers, may normally take this long.
_PATIENCE = timedelta(minutes=10)


def _is_wanted(snapshot: Snapshot) -> bool:
    return any(profile.backend.writable_kinds or profile.gate for profile in snapshot.settings.profiles.values())


@check(
    "reconciler/leader",
    passes=installed,
    fails=lambda: installed(lease(renewTime="2026-09-01T11:30:00.000000Z"), without=("Lease",)),
)
def leader(snapshot: Snapshot) -> Symptoms:
    """A reconciler holds the Lease and renews it. Without a leader no gang objects are made, and every new gang is
    held. Not checked if no enabled scheduler has gang objects.

    Source: webhook/reconciler/lease.py, which renews every two seconds what is good for 15.
    """
    if _is_wanted(snapshot) and (said := unled(snapshot)) is not None:
        yield Symptom(
            f"Lease {snapshot.namespace}/{LEASE_NAME}",
            said,
            "gang objects are not written and gates are not removed: every new gang is held",
            f"find out why the reconciler does not run: kubectl -n {snapshot.namespace} get pods, logs of {RECONCILER}",
        )


def unled(snapshot: Snapshot) -> str | None:
    """Why no reconciler leads, or None."""
    found = snapshot.one(LEASE)
    if found is None:
        return "it does not exist: no reconciler has ever run here"
    spec = mapping(found.get("spec"))
    holder, renewed = text(spec.get("holderIdentity")), text(spec.get("renewTime"))
    if holder is None:
        return "it has no holder"
    if renewed is None:
        return f"{holder} holds it and has never renewed it"
    good_for = timedelta(seconds=integer(spec.get("leaseDurationSeconds")) or 0)
    if snapshot.now - datetime.fromisoformat(renewed) > good_for + _GRACE:
        return f"{holder} holds it, and has not renewed it since {renewed}"
    return None


def _gated() -> Manifest:
    found = thing("v1", "Pod", "demo-0-worker-x7k2p", {"grove.io/podgang": "demo-0"}, "team-a")
    found["metadata"]["creationTimestamp"] = "2026-09-01T10:00:00Z"
    return {**found, "spec": {"schedulerName": "koord-scheduler", "schedulingGates": [{"name": GATE}]}}


_UNGATED = {"name": "koord-scheduler", "gate": False}


@check(
    "reconciler/gated-pods",
    passes=installed,
    fails=lambda: installed(_gated(), settings=configured(_UNGATED)),
)
def gated_pods(snapshot: Snapshot) -> Symptoms:
    """No pod keeps Rollcall's gate, rollcall.dev/gang-sync, for ever. The gate stays if no profile has `gate` any more,
    or if no reconciler leads. With a leader, a gate that has been there for ten minutes is a warning.

    Source: webhook/reconciler/gates.py.
    """
    waiting = list(_waiting(snapshot))
    if not waiting:
        return
    lifted = any(profile.gate for profile in snapshot.settings.profiles.values())
    if lifted and unled(snapshot) is None:
        waiting = [(where, since) for where, since in waiting if snapshot.now - since > _PATIENCE]
        why, level = "their gangs do not start, or they do not belong to the gang that they name", Level.WARNING
        remedy = "rollcall gangs --held shows why each gang does not start; -o json also shows which pods are unowned"
    else:
        cause = "no reconciler leads" if lifted else "no profile of the configuration has `gate` any more"
        why, level = f"{cause}: the gate is not removed, and their gangs never start", Level.ERROR
        remedy = "run a reconciler with `gate: true`, or remove the gate by hand: rollcall gangs ungate --all"
    for where, number in Counter(where for where, _ in waiting).items():
        yield Symptom(where, f"{number} pod{'s have' if number > 1 else ' has'} the gate {GATE}", why, remedy, level)


def _waiting(snapshot: Snapshot) -> Iterator[tuple[str, datetime]]:
    """The namespace and creation time of each pod that has our gate."""
    for part in (GANG_PODS, OWNED_PODS):
        for pod in snapshot.all(part):
            gates = sequence(mapping(pod.get("spec")).get("schedulingGates"))
            if any(mapping(gate).get("name") == GATE for gate in gates):
                metadata = mapping(pod.get("metadata"))
                created = datetime.fromisoformat(str(metadata["creationTimestamp"]))
                yield f"Namespace {metadata.get('namespace')}", created
