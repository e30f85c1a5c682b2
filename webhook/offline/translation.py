"""Translate workloads to gang objects and prepared pods, without I/O: what a PodCliqueSet or an opted-in workload gets,
and the objects of a PodGang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from webhook.admission.opted_in import made_of, record_choice
from webhook.admission.pod import completed, mutate_pod
from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.model import grove
from webhook.model.capabilities import Capability
from webhook.model.disruption import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.grove_generation import (
    EPOCH,
    NEWEST,
    SHORTENED,
    GroveGeneration,
    PodGangNames,
    generation_of,
    is_shortened,
)
from webhook.model.keys import GroupKind, Record
from webhook.model.reading import Manifest, mapping, text
from webhook.model.record import record_in, record_of
from webhook.model.workloads.facts import known_workload
from webhook.model.workloads.gang import gangs_of, gangs_of_roles, group_gang, is_claimed, no_gang, starts_alone
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.shapes.kinds import fact_of
from webhook.model.workloads.trainjob import Runtime, TrainJob
from webhook.model.workloads.workload import OptedInWorkload
from webhook.offline.opted_in_pods import REVISION, expected_pods
from webhook.offline.overridden import name_scheduler
from webhook.offline.placeholders import DIGEST, STAND_INS, hidden, stand_ins
from webhook.offline.pod_clique_set_gangs import ExpectedGang, pod_gangs_of, prepared

# The replicas of a set are alike, and there may be ten thousand.
FIRST_GANGS = 64


# The kinds that get the labels of what makes them: their gangs follow these. Source: ray-project/kuberay v1.7.0,
# controllers/ray/rayjob_controller.go, rayservice_controller.go.
_LABELLED = frozenset({"RayCluster"})
_ONE_BY_ONE = "no gangs for {}: its pods start one by one"


class Translated(NamedTuple):
    """One object, and the comment lines above it."""

    comment: tuple[str, ...]
    manifest: Manifest


def gang_objects(podgang: PodGang, record: Record, profile: Profile, facts: ClusterFacts) -> list[Manifest]:
    """Return the new objects that `podgang` needs, in the order of creation. Raises `Inexpressible`."""
    backend = profile.backend
    return [backend.adopt(desired, None) for desired in backend.gang_objects(podgang, record, facts)]


def shown_record(podgang: PodGang, profile: Profile, facts: ClusterFacts) -> Record:
    """Return the record of a PodGang's workload if it is known, else what the PodGang shows of it. Grove mirrors the
    metadata of the set onto the PodGang, but not that of its cliques.
    """
    workload = text(podgang.labels.get(grove.LABEL_PART_OF)) or ""
    if (known := (facts.pod_clique_sets or {}).get((podgang.namespace, workload))) is not None:
        return replace(known, scheduler=profile.name)
    metadata = mapping(podgang.raw.get("metadata"))
    return record_in(metadata, profile.name, text(mapping(podgang.raw.get("spec")).get("priorityClassName")))


def expected_gangs(
    workload: PodCliqueSet | OptedInWorkload, facts: ClusterFacts, generation: GroveGeneration
) -> Iterator[PodGang]:
    """Yield the gangs that `workload` will have; for a LeaderWorkerSet only the gang of its first group, and for a
    workload with roles only that of the first groups. An epoch in a
    name is the first of `STAND_INS`.

    Raises `FactsUnavailable` if a topology constraint of a PodCliqueSet needs an unknown ClusterTopologyBinding.
    """
    if isinstance(workload, PodCliqueSet):
        for expected in pod_gangs_of(workload, facts, PodGangNames(generation, STAND_INS[0])):
            yield expected.podgang
    elif workload.together is not None:
        yield from islice(gangs_of_roles(workload, f"{workload.name}-{REVISION}"), 1)
    elif not isinstance(workload, LeaderWorkerSet):
        yield from gangs_of(workload)
    elif workload.replicas > 0 and workload.size > 0:
        yield group_gang(workload, f"0-{REVISION}")


def disruption_modes(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts
) -> list[Disruption]:
    """Return the disruption modes that the first gangs of `workload` get; empty if its scheduler has none, or if its
    gangs cannot be made.
    """
    try:
        objects = list(_objects_of_first_gangs(workload, profile, facts))
        found = [profile.backend.disruption_mode(one) for one in objects]
    except (Inexpressible, FactsUnavailable):
        return []
    return list(dict.fromkeys(mode for mode in found if mode is not None))


def _objects_of_first_gangs(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts
) -> Iterator[list[Manifest]]:
    made: PodCliqueSet | OptedInWorkload = workload
    if isinstance(workload, PodCliqueSet):
        record = record_of(workload, profile.name)
    else:
        made = _with_pods(workload, profile, facts)[0]
        barred = no_gang(made)
        if barred is not None and not (barred.is_made and made.left_to in _LABELLED):
            return
        record = _record(workload, made, profile)
    for gang in islice(expected_gangs(made, facts, generation_of(facts)), FIRST_GANGS):
        yield gang_objects(gang, record, profile, facts)


def translated(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings
) -> Iterator[Translated]:
    """Yield what a workload gets that `profile` is recorded on; nothing if it has no pods.

    For a PodCliqueSet these are for each PodGang its gang objects in the order of creation, then one prepared pod. For
    an opted-in workload they are all its gang objects, then one prepared pod of each part: for a LeaderWorkerSet those
    of its first group, for a TrainJob, whose runtime must be known, those of its JobSet. Raises `Inexpressible`,
    `FactsUnavailable`.
    """
    if isinstance(workload, PodCliqueSet):
        yield from _of_set(workload, profile, facts, generation_of(facts, settings.grove))
    else:
        yield from _of_opted_in(workload, profile, facts, settings)


def _of_set(
    workload: PodCliqueSet, profile: Profile, facts: ClusterFacts, generation: GroveGeneration
) -> Iterator[Translated]:
    every = (pod_gangs_of(workload, facts, PodGangNames(generation, epoch)) for epoch in stand_ins(generation))
    for same in zip(*every, strict=True):
        name = hidden(same[0].podgang.name, same[-1].podgang.name)
        made = [_of_gang(gang, workload, profile, facts) for gang in same]
        for objects in zip(*made, strict=True):
            comment, manifest = hidden(objects[0], objects[-1])
            yield Translated((*comment, *_placeholder_notes(name, manifest)), manifest)


def _of_gang(gang: ExpectedGang, workload: PodCliqueSet, profile: Profile, facts: ClusterFacts) -> Iterator[Translated]:
    comment = f"PodGang {gang.podgang.name}, {profile.name}"
    support = profile.backend.capabilities.get(Capability.GANG)
    notes = () if support is None or support.supported else (_ONE_BY_ONE.format(profile.name),)
    for manifest in gang_objects(gang.podgang, record_of(workload, profile.name), profile, facts):
        yield Translated((comment,), manifest)
    yield Translated((f"{comment}: one of its pods", *notes), prepared(gang, workload, profile, facts))


def _placeholder_notes(podgang: str, manifest: Manifest) -> Iterator[str]:
    """Yield what the placeholders in an object mean. `podgang` is its PodGang's name as it is shown."""
    text = str(manifest)
    if EPOCH in text or DIGEST in text:
        digest = f", and {DIGEST} depends on it" if DIGEST in text else ""
        yield f"not to be applied: Grove's operator chooses {EPOCH}{digest}"
        if is_shortened(podgang):
            yield SHORTENED


def _of_opted_in(
    workload: OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings
) -> Iterator[Translated]:
    made, runtime = _with_pods(workload, profile, facts)
    facts = knowing((workload, made), facts)
    title = f"{workload.kind} {workload.name}, {profile.name}"
    grouped_as = settings.kinds.grouped_as(made)
    notes = list(_notes(workload, made, runtime, profile, grouped_as))
    if profile.backend.makes_gangs_of(grouped_as) and no_gang(made) is None:
        record = _record(workload, made, profile)
        for gang in expected_gangs(made, facts, NEWEST):
            for manifest in gang_objects(gang, record, profile, facts):
                yield Translated((f"{title}: gang {gang.name}", *notes), manifest)
    for expected in expected_pods(made):
        name_scheduler(expected.pod, settings.forced)
        pod = Pod(expected.pod)
        verdict = mutate_pod("", pod, facts, settings)
        own = f": one pod of {expected.part.name}" if expected.part.name else ": one of its pods"
        lines = (f"{title}{own}, of {expected.chain}", *notes, *verdict.notes)
        yield Translated(tuple(dict.fromkeys(lines)), pod.raw)


def _with_pods(
    workload: OptedInWorkload, profile: Profile, facts: ClusterFacts
) -> tuple[OptedInWorkload, Runtime | None]:
    """Return the workload that makes the pods, as stored: for a TrainJob its JobSet, with the record."""
    if not isinstance(workload, TrainJob) or (found := made_of(workload, facts)) is None:
        return workload, None
    record_choice(found, profile.name)
    return JobSet(found.raw), found.runtime


def knowing(workloads: Iterable[OptedInWorkload], facts: ClusterFacts) -> ClusterFacts:
    """Return `facts` with these workloads, so that their pods can be prepared."""
    changed: dict[str, Any] = {}
    for workload in workloads:
        fact = fact_of(workload)
        changed[fact.part] = {**(getattr(facts, fact.part) or {}), fact.key: known_workload(workload)}
    return replace(facts, **changed)


def _record(workload: OptedInWorkload, made: OptedInWorkload, profile: Profile) -> Record:
    """Return the record of the workload that makes the pods; for a TrainJob completed by its own, as for its pods."""
    return replace(completed(made.record, workload.record), scheduler=profile.name)


def _notes(
    workload: OptedInWorkload,
    made: OptedInWorkload,
    runtime: Runtime | None,
    profile: Profile,
    grouped_as: GroupKind,
) -> Iterator[str]:
    if workload.suspended:
        yield "suspended: Rollcall writes no objects until it is resumed"
    if isinstance(made, LeaderWorkerSet):
        yield f"each of its {made.replicas} groups has its own gang; `{REVISION}` stands for the hash of its templates"
    if made.together is not None:
        yield f"each further group of a role has its own gang; `{REVISION}` stands for the hash of its roles"
    for plugin in () if runtime is None else runtime.plugins:
        yield f"Trainer's plugin {plugin.name} makes the PodGroup {workload.name}: Rollcall writes no objects"
    backend, barred = profile.backend, no_gang(made)
    if is_claimed(made):
        if barred is not None and (runtime is None or not runtime.plugins):
            yield f"Rollcall makes no gang for it: {barred.why}"
    elif backend.groups(grouped_as):
        yield f"{profile.name} makes the gang itself: Rollcall writes no objects"
    elif not (backend.makes_gangs_of(grouped_as) or starts_alone(made)):
        yield _ONE_BY_ONE.format(profile.name)
    elif barred is not None:
        yield f"Rollcall makes no gang for it: {barred.why}"
