"""Checks of Grove's generation and of who writes the gangs: an upgrade of Grove, and Grove's own backends.

Grove v0.1.0-alpha.12 and later serve PodGangMaps. An upgrade to them renames the PodGangs of living sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from webhook.backends.lpx.backend import LpxBackend
from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.examples import configured, installed, pod_clique_set, served, thing
from webhook.doctor.grove_operator import unseen
from webhook.doctor.parts import POD_CLIQUE_SETS, POD_GANGS, gang_objects
from webhook.doctor.snapshot import Snapshot
from webhook.gangs.writers import Writer
from webhook.model import grove
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.keys import ObjectKey
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.projections import key_of, labels_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.podgang import controller_in, is_pod_clique_set
from webhook.validators.selection import DEFAULT_SCHEDULER

_MAPS = POD_GANG_MAPS.resource.api
# How many of several similar objects are named.
_NAMED = 5


def _migrating() -> Manifest:
    condition = {"type": grove.MIGRATING, "status": "True"}
    return {**pod_clique_set("demo"), "status": {"conditions": [condition]}}


@check(
    "grove/migration",
    level=Level.WARNING,
    passes=lambda: installed(pod_clique_set("demo")),
    fails=lambda: installed(_migrating(), apis=served(_MAPS)),
)
def migration(snapshot: Snapshot) -> Symptoms:
    """No PodCliqueSet is in the middle of Grove's migration to PodGangMaps. Until it ends, old and new PodGangs exist
    next to each other, and pods that are replaced may wait.

    Source: ai-dynamo/grove, pull request 778 (condition PodGangMigrationInProgress).
    """
    names: dict[str, list[str]] = {}
    for raw in snapshot.all(POD_CLIQUE_SETS):
        conditions = map(mapping, sequence(mapping(raw.get("status")).get("conditions")))
        if any((one.get("type"), one.get("status")) == (grove.MIGRATING, "True") for one in conditions):
            where, name = key_of(raw)
            names.setdefault(where, []).append(name)
    for where, found in sorted(names.items()):
        yield Symptom(
            f"Namespace {where}",
            f"Grove is migrating PodCliqueSets: {first_of(sorted(found), _NAMED)}",
            "until the migration ends, pods that are replaced may wait",
            "wait until it ends; if it does not, read the log of Grove's operator; do not downgrade Grove meanwhile",
        )


def _pod_group(name: str, owner_kind: str, owner_group: str) -> Manifest:
    labels = {grove.LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL, grove.LABEL_PODGANG: "demo-0"}
    found = thing("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", name, labels, "team-a")
    owner = {"apiVersion": f"{owner_group}/v1alpha1", "kind": owner_kind, "name": "demo", "uid": "1"}
    found["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return found


def _objects(snapshot: Snapshot) -> Iterator[Manifest]:
    """The gang objects that Rollcall wrote. A kind may be served in several versions."""
    for part in gang_objects(snapshot.settings):
        yield from snapshot.all(part)


def _pod_gang(name: str, scheduler: str) -> Manifest:
    labels = {grove.LABEL_SCHEDULER: scheduler}
    return thing("scheduler.grove.io/v1alpha1", "PodGang", name, labels, "team-a")


def _grove_s(snapshot: Snapshot) -> dict[ObjectKey, str]:
    """The PodGangs for which Grove's own backend is responsible, each with its scheduler."""
    found = ((key_of(raw), labels_of(raw).get(grove.LABEL_SCHEDULER)) for raw in snapshot.all(POD_GANGS))
    return {key: str(scheduler) for key, scheduler in found if scheduler in grove.WRITERS}


@check(
    "gangs/writer",
    level=Level.NOTE,
    passes=lambda: installed(_pod_gang("demo-0", "default-scheduler")),
    fails=lambda: installed(_pod_gang("demo-0", "kai-scheduler")),
)
def writer(snapshot: Snapshot) -> Symptoms:
    """Says for which gangs Rollcall writes no objects because Grove's own backend is responsible for them.

    Source: ai-dynamo/grove, operator/internal/scheduler/{volcano,kai}; label grove.io/scheduler-name on the PodGang.
    """
    for scheduler, number in sorted(Counter(_grove_s(snapshot).values()).items()):
        yield Symptom(
            f"{number} PodGang{'' if number == 1 else 's'} for {scheduler}",
            f"their writer is {Writer.GROVE}",
            "Grove prepares their pods, and Rollcall writes nothing for them; it judges, explains and reports them",
            "nothing, if this is intended; else recreate each set with Rollcall's scheduler",
        )


@check(
    "gangs/two-writers",
    passes=lambda: installed(
        _pod_group("demo-0-worker", "PodCliqueSet", grove.GROUP), _pod_gang("demo-0", "default-scheduler")
    ),
    fails=lambda: installed(
        _pod_group("demo-0-worker", "PodCliqueSet", grove.GROUP),
        _pod_gang("demo-0", "kai-scheduler"),
        settings=configured({"name": "koord-scheduler"}, {"name": "kai-scheduler"}),
    ),
)
def two_writers(snapshot: Snapshot) -> Symptoms:
    """No living gang has objects of Rollcall although Grove's own backend is now responsible for it. This happens if
    Grove's default profile changes while sets live that name no scheduler: Grove labels their PodGangs again, and
    prepares replacement pods for its own PodGroup.

    Source: ai-dynamo/grove, operator/internal/controller/podcliqueset (label grove.io/scheduler-name, written at every
    reconcile).
    """
    grove_s = _grove_s(snapshot)
    # After a change of the writer the label of Rollcall's objects stays as it is when Grove renames the PodGang.
    sets = {
        (key[0], str(labels_of(raw).get(grove.LABEL_PART_OF)))
        for raw in snapshot.all(POD_GANGS)
        if (key := key_of(raw)) in grove_s
    }
    both: dict[str, set[str]] = {}
    for raw in _objects(snapshot):
        where, podgang = key_of(raw)[0], str(labels_of(raw).get(grove.LABEL_PODGANG))
        owner = controller_in(mapping(raw.get("metadata")))
        of_set = owner is not None and is_pod_clique_set(owner) and (where, owner.name) in sets
        if of_set or (where, podgang) in grove_s:
            both.setdefault(where, set()).add(podgang)
    for where, names in sorted(both.items()):
        yield Symptom(
            f"Namespace {where}",
            f"PodGangs of Grove's own backend have gang objects of Rollcall: {first_of(sorted(names), _NAMED)}",
            "pods that are replaced join another group than the running ones, and no group is ever complete",
            "set Grove's defaultProfileName back; recreate the sets if they should get the other writer",
        )


def _recorded(scheduler: str) -> Snapshot:
    gang = _pod_gang("demo-0", "koord-scheduler")
    gang["metadata"]["labels"][grove.LABEL_PART_OF] = "demo"
    settings = configured({"name": "koord-scheduler"}, {"name": "volcano"})
    return installed(gang, pod_clique_set("demo", scheduler), settings=settings)


@check("gangs/scheduler", passes=lambda: _recorded("koord-scheduler"), fails=lambda: _recorded("volcano"))
def scheduler_of_gangs(snapshot: Snapshot) -> Symptoms:
    """Where Grove puts the name of a scheduler on the pods of a set, the set is recorded for the same one. Grove does
    so if the templates name it, or if it is Grove's default (profiles of the type External, lpx-scheduler). Rollcall
    leaves pods as they are that name another scheduler than the record. Gangs of Grove's own backends are not meant.
    For lpx-scheduler this is a note, because it reads Grove's PodGangs itself.

    Source: ai-dynamo/grove, docs/proposals/787-external-scheduler-integration (d5632a9c); label
    grove.io/scheduler-name on the PodGang.
    """
    records = {key_of(raw): labels_of(raw).get(SCHEDULER_LABEL) for raw in snapshot.all(POD_CLIQUE_SETS)}
    differing: dict[tuple[str, str, str], set[str]] = {}
    for raw in snapshot.all(POD_GANGS):
        stamped = labels_of(raw).get(grove.LABEL_SCHEDULER) or DEFAULT_SCHEDULER
        (where, _), name = key_of(raw), str(labels_of(raw).get(grove.LABEL_PART_OF))
        record = records.get((where, name))
        # Rollcall overwrites default-scheduler, which the API server writes as well.
        if record is not None and stamped not in {DEFAULT_SCHEDULER, record, *grove.WRITERS}:
            differing.setdefault((where, stamped, record), set()).add(name)
    for (where, stamped, record), names in sorted(differing.items()):
        is_ours = stamped in snapshot.settings.profiles
        labelled = f"with {stamped} in the label {SCHEDULER_LABEL}, or " if is_ours else ""
        yield Symptom(
            f"Namespace {where}",
            f"Grove puts {stamped} on the pods of PodCliqueSets that are recorded for {record}: "
            f"{first_of(sorted(names), _NAMED)}",
            f"Rollcall leaves these pods as they are, and {unseen(stamped, record)}",
            f"recreate each set {labelled}with {record} in every pod template, if Grove has a profile of that name",
            Level.NOTE if stamped == LpxBackend.name else None,
        )
