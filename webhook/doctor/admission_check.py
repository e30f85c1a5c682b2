"""The check of Rollcall's own AdmissionCheck in Kueue: an installation that uses it also answers it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from webhook.doctor.checking import Symptom, Symptoms, check, first_of
from webhook.doctor.examples import configured, installed, lease, thing
from webhook.doctor.parts import ADMISSION_CHECKS, CLUSTER_QUEUES
from webhook.doctor.reconcilers import unled
from webhook.doctor.snapshot import Snapshot
from webhook.model.conditions import any_true
from webhook.model.kueue import keys
from webhook.model.kueue.admission_check import CONTROLLER, CheckMode
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence


def _used(active: str = "True") -> tuple[Manifest, Manifest]:
    conditions = [{"type": keys.ACTIVE, "status": active}]
    api = f"{keys.GROUP}/{keys.VERSION}"
    own = thing(api, "AdmissionCheck", "gang", spec={"controllerName": CONTROLLER}, status={"conditions": conditions})
    strategy = {"admissionChecks": [{"name": "gang"}]}
    return own, thing(api, "ClusterQueue", "research", spec={"admissionChecksStrategy": strategy})


_ON = replace(configured(), admission_check=CheckMode.ON)


@check(
    "kueue/admission-check",
    passes=lambda: installed(*_used(), settings=_ON),
    fails=lambda: installed(*_used(), lease(renewTime="2026-09-01T11:30:00.000000Z"), settings=_ON, without=("Lease",)),
)
def admission_check(snapshot: Snapshot) -> Symptoms:
    """Each AdmissionCheck of Rollcall that a ClusterQueue uses is active and answered: `kueue.admissionCheck` is not
    off, a reconciler leads, and the check has the condition Active. A Workload whose check is not answered holds its
    quota without a limit, and a ClusterQueue with an inactive check admits nothing.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/scheduler/clusterqueue.go, pkg/workload/admissionchecks.go.
    """
    for found in snapshot.all(ADMISSION_CHECKS):
        name = name_of(found)
        if mapping(found.get("spec")).get("controllerName") != CONTROLLER:
            continue
        if (queues := sorted(_queues(snapshot, name))) and (unserved := _unserved(snapshot, found)) is not None:
            what, why, remedy = unserved
            yield Symptom(f"AdmissionCheck {name}", f"ClusterQueue {first_of(queues)} uses it, and {what}", why, remedy)


_HELD = "each Workload whose check waits holds its quota, without a limit, and does not start"


def _unserved(snapshot: Snapshot, found: Manifest) -> tuple[str, str, str] | None:
    """What is missing for a check to be answered, why that matters, and what to do; None if nothing is."""
    if snapshot.settings.admission_check is CheckMode.OFF:
        remedy = "set kueue.admissionCheck to audit or on, or take the check out of the ClusterQueue"
        return "kueue.admissionCheck is off", _HELD, remedy
    if (why := unled(snapshot)) is not None:
        return f"no reconciler leads: {why}", _HELD, "run a reconciler, or take the check out of the ClusterQueue"
    if not any_true(found, {keys.ACTIVE}):
        remedy = "look into the reconciler's log: it needs the right to patch admissionchecks/status"
        return "it has no condition Active=True", "the ClusterQueue admits nothing", remedy
    return None


def _queues(snapshot: Snapshot, check_name: str) -> Iterator[str]:
    """The names of the ClusterQueues that use a check."""
    for queue in snapshot.all(CLUSTER_QUEUES):
        strategy = mapping(mapping(queue.get("spec")).get("admissionChecksStrategy"))
        if any(mapping(one).get("name") == check_name for one in sequence(strategy.get("admissionChecks"))):
            yield name_of(queue)
