"""Checks of Grove's generation and of who writes the gangs: an upgrade of Grove, and Grove's own backends.

Grove v0.1.0-alpha.12 and later serve PodGangMaps. An upgrade to them renames the PodGangs of living sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from webhook.backends.lpx.backend import LpxBackend
from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.deployments import images
from webhook.doctor.examples import configured, deployment, installed, pod_clique_set, served, thing
from webhook.doctor.grove_operator import unseen
from webhook.doctor.parts import DEPLOYMENTS, POD_CLIQUE_SETS, POD_GANGS, gang_objects
from webhook.doctor.snapshot import Snapshot
from webhook.gangs.writers import Writer
from webhook.installation.names import NAMESPACE, RECONCILER, SERVER
from webhook.model import grove
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.keys import ObjectKey
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.projections import key_of, labels_of, name_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.version import Version
from webhook.model.workloads.podgang import controller_in, is_pod_clique_set
from webhook.validators.selection import DEFAULT_SCHEDULER

_MAPS = POD_GANG_MAPS.resource.api
# The first release of Rollcall whose gang objects outlive the PodGang that Grove deletes.
_SINCE = Version(0, 4)
# How many of several similar objects are named.
_NAMED = 5


def _serves_maps(snapshot: Snapshot) -> bool:
    return any((api.group, api.kind) == (_MAPS.group, _MAPS.kind) for api in snapshot.served())


def _rollcall(tag: str) -> Manifest:
    return deployment(RECONCILER, f"registry.example.com/rollcall:{tag}", NAMESPACE)


@check(
    "grove/podgangmaps",
    passes=lambda: installed(_rollcall("v0.4.0"), apis=served(_MAPS)),
    fails=lambda: installed(_rollcall("v0.3.0"), apis=served(_MAPS)),
)
def pod_gang_maps(snapshot: Snapshot) -> Symptoms:
    """If Grove serves PodGangMaps (v0.1.0-alpha.12 and later), the release of Rollcall that runs knows them: 0.4.0 or
    later. That Grove renames the PodGangs of living sets and deletes the old ones, and the gang objects of earlier
    releases are deleted with these. The release is read from the tags of the images; other tags are not judged.

    Source: ai-dynamo/grove, pull request 778.
    """
    if not _serves_maps(snapshot):
        return
    for raw in snapshot.all(DEPLOYMENTS):
        if key_of(raw)[0] != snapshot.namespace or name_of(raw) not in {SERVER, RECONCILER}:
            continue
        for _, tag in images(raw):
            runs = Version.parse(tag)
            if runs is not None and runs < _SINCE:
                yield Symptom(
                    f"Deployment {snapshot.namespace}/{name_of(raw)}",
                    f"its image has the tag {tag}, and the cluster serves {_MAPS}",
                    "when Grove renames a PodGang, this release loses the gang's objects: the first pod that is "
                    "replaced is never scheduled",
                    f"upgrade Rollcall to {_SINCE} or later",
                )


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
    """The gang objects that Rollcall wrote, each once. A kind may be served in several versions."""
    seen = set[tuple[str, str, ObjectKey]]()
    for part in gang_objects(snapshot.settings):
        api = part.resource.api
        for raw in snapshot.all(part):
            identity = (api.group, api.kind, key_of(raw))
            if identity not in seen:
                seen.add(identity)
                yield raw


def _is_of_a_pod_gang(raw: Manifest) -> bool:
    owner = controller_in(mapping(raw.get("metadata")))
    return owner is not None and (owner.group, owner.kind) == (grove.SCHEDULER_GROUP, "PodGang")


@check(
    "grove/ownership",
    level=Level.WARNING,
    passes=lambda: installed(_pod_group("demo-0-worker", "PodCliqueSet", grove.GROUP)),
    fails=lambda: installed(_pod_group("demo-0-worker", "PodGang", grove.SCHEDULER_GROUP)),
)
def ownership(snapshot: Snapshot) -> Symptoms:
    """No gang object is still controlled by its PodGang, as those of Rollcall up to 0.3.0 are: Grove deletes the
    PodGang when it migrates to PodGangMaps, and such objects are deleted with it. The running reconciler takes them
    over while their gangs live; no pod is touched.

    Source: ai-dynamo/grove, pull request 778; Kubernetes' garbage collector (ownerReferences).
    """
    by_namespace = Counter(key_of(raw)[0] for raw in _objects(snapshot) if _is_of_a_pod_gang(raw))
    for where, number in sorted(by_namespace.items()):
        yield Symptom(
            f"Namespace {where}",
            f"gang objects that are still controlled by a PodGang: {number}",
            "Grove deletes PodGangs when it migrates, and these objects with them: pods that are replaced would wait "
            "for ever",
            "stop Grove's operator until the reconciler has taken them over"
            if _serves_maps(snapshot)
            else "do not upgrade Grove to v0.1.0-alpha.12 or later before the reconciler has taken them over; it does "
            "so within a minute, else read its log",
        )


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
