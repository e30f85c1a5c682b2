"""Gang objects and prepared pods of workloads: what a PodCliqueSet or an opted-in workload gets, and the objects of a
PodGang.

The names and the topology of PodGangs follow the generation of Grove. PodGroups have the names of PodCliques, which
are the same in all versions. Source: ai-dynamo/grove,
operator/internal/controller/podcliqueset/components/podgang/syncflow.go; pull request 778. Where only Grove's operator
will choose a name, the object is made twice, for two epochs of the length of a real one. What differs between the two
depends on the epoch: the epoch itself, or a digest of it.

`--scheduler NAME` asks what would happen if each workload had the label. A sentence says which label that is, and what
the object would choose, so that the answer is not mistaken for the object's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from webhook.admission import decision
from webhook.admission.opted_in_admission import OptedInWorkloads, made_job_set, record_choice
from webhook.admission.pod_admission import complete_record, mutate_pod
from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.model import grove
from webhook.model.admission_request import Request
from webhook.model.capabilities import Capability, Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import shown
from webhook.model.grove import (
    EPOCH,
    EPOCH_DIGITS,
    NEWEST,
    SHORTENED,
    GroveGeneration,
    PodGang,
    PodGangNames,
    generation_of,
    is_shortened,
)
from webhook.model.keys import GroupKind, Record
from webhook.model.known_kinds import POD
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.model.workload_record import SCHEDULER_LABEL, record_in, record_of
from webhook.mutators.prepare_pod import prepare_pod
from webhook.offline.expected_pods import REVISION, expected_pods
from webhook.validators.gang_scheduler import DEFAULT_PROFILE, DEFAULT_SCHEDULER, template_names
from webhook.workloads.jobset import JobSet
from webhook.workloads.known_workloads import workload_facts
from webhook.workloads.kueue_integration import workload_with_pods
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of, gangs_of_roles, group_gang, is_claimed, no_gang, starts_alone
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import Clique, GroupCliques, PodCliqueSet, ScalingGroup, Topology
from webhook.workloads.trainjob import Runtime, TrainJob
from webhook.workloads.workload_kinds import WorkloadKinds, fact_of

# What chooses a scheduler, in words, and the scheduler.
_Chosen = tuple[str, str]


def override_notes(request: Request, facts: ClusterFacts, settings: Settings) -> tuple[str, ...]:
    """Returns which label the caller's scheduler stands for and what it overrides; empty if the object agrees."""
    if settings.forced is None:
        return ()
    try:
        choices = dict(_stated_choices(request, facts, settings))
        label = _label(request, facts, settings)
    except Malformed:
        # The rules report what is wrong with the object.
        return ()
    notes = () if label is None else (f"stands for {label}",)
    if others := [(by, name) for by, name in choices.items() if name != settings.forced]:
        by, name = others[0]
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        notes = (*notes, f"overrides {by}, which says {shown(name)}{more}")
    return (f"{settings.forced_by} {settings.forced} {', and '.join(notes)}",) if notes else ()


def name_scheduler(pod: Manifest, scheduler: str | None) -> None:
    """Lets a pod name `scheduler`, the caller's, instead of another one. A pod without a schedulerName keeps that."""
    spec = pod.get("spec")
    current = spec.get("schedulerName") if isinstance(spec, dict) else None
    if scheduler is not None and isinstance(current, str) and current != DEFAULT_SCHEDULER:
        pod["spec"]["schedulerName"] = scheduler


def name_scheduler_in_member(pod: Manifest, scheduler: str | None, kinds: WorkloadKinds) -> None:
    """Does the same with a pod that may be in no gang: such a pod is left as it is."""
    if scheduler is not None and _is_member(Pod(pod), kinds):
        name_scheduler(pod, scheduler)


def _is_member(pod: Pod, kinds: WorkloadKinds) -> bool:
    return pod.podgang is not None or kinds.place_of(pod) is not None


def _label(request: Request, facts: ClusterFacts, settings: Settings) -> str | None:
    """Returns the label that would choose the caller's scheduler for an opted-in workload; None if it is chosen."""
    admission = decision.admission_of(request.kind[::2], settings)
    if not isinstance(admission, OptedInWorkloads):
        return None
    workload = admission.view(request.object or {}, request.namespace)
    unforced = admission.choice_of(workload, None, facts, replace(settings, forced=None))
    forced = admission.choice_of(workload, None, facts, settings)
    if forced is None or (unforced is not None and unforced.scheduler == settings.forced):
        return None
    # Trainer copies no label of a TrainJob to its JobSet.
    holder = f"Namespace {workload.namespace}" if isinstance(workload, TrainJob) else f"the {request.kind.kind}"
    return f"the label {SCHEDULER_LABEL}: {settings.forced} of {holder}"


def _stated_choices(request: Request, facts: ClusterFacts, settings: Settings) -> Iterator[_Chosen]:
    """Yields what the object says about its scheduler, the strongest first."""
    manifest, namespace = request.object or {}, request.namespace
    if request.kind[::2] == POD:
        pod = Pod(manifest, namespace)
        if _is_member(pod, settings.kinds) and pod.scheduler_name not in {None, DEFAULT_SCHEDULER}:
            yield str(SPEC / "schedulerName"), pod.scheduler_name or ""
        return
    if (admission := decision.admission_of(request.kind[::2], settings)) is None:
        return
    workload = admission.view(manifest, namespace)
    if admission.choice_of(workload, None, facts, settings) is None:
        return
    unforced = admission.choice_of(workload, None, facts, replace(settings, forced=None))
    if unforced is not None and unforced.source != DEFAULT_PROFILE:
        yield unforced.chooser, unforced.scheduler
    if isinstance(workload, PodCliqueSet):
        yield from ((str(template_name.path), template_name.scheduler) for template_name in template_names(workload))
    else:
        yield from _template_choices(workload, facts)


def _template_choices(workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[_Chosen]:
    """Yields the schedulers that the pod templates name; for a TrainJob those of its runtime, with its patches."""
    maker = workload_with_pods(workload, facts) or workload
    for part in maker.distinct_parts:
        scheduler = text(part.template.spec.get("schedulerName"))
        if scheduler not in {None, DEFAULT_SCHEDULER}:
            where = str(part.template.spec_path / "schedulerName")
            yield where if maker is workload else f"{where} of its JobSet", scheduler or ""


class ExpectedGang(NamedTuple):
    """A PodGang that a PodCliqueSet will have, and one of its pods as Grove's operator will create it."""

    podgang: PodGang
    pod: Manifest


def pod_gangs_of(workload: PodCliqueSet, facts: ClusterFacts, names: PodGangNames) -> Iterator[ExpectedGang]:
    """Yields the PodGangs of `workload`: for each replica the one that starts first, then one for each scaling-group
    replica above minAvailable. Raises `FactsUnavailable` if a ClusterTopologyBinding is needed and unknown.
    """
    groups = workload.groups_with_cliques()
    for replica in range(workload.replicas):
        base = f"{workload.name}-{replica}"
        members = [(f"{base}-{clique.name}", clique) for clique in workload.cliques if clique.group is None]
        configs: list[Manifest] = []
        for group, cliques in groups:
            for index in range(group.first_replicas):
                name = f"{base}-{group.name}-{index}"
                replica_members = [(f"{name}-{clique.name}", clique) for clique in cliques]
                members += replica_members
                configs += _group_configs(workload, group, name, replica_members, facts)
        if members or names.generation is GroveGeneration.LEGACY:
            yield _gang(workload, names.first(base), members, workload.topology, facts, configs)
        for group_cliques in groups:
            for index in range(group_cliques.group.min_available, group_cliques.group.replicas):
                yield _further_gang(workload, group_cliques, base, index, facts, names)


def pods_of_set(workload: PodCliqueSet) -> int:
    """Returns how many pods `workload` will have, without listing them."""
    alone = sum(clique.replicas for clique in workload.cliques if clique.group is None)
    # By group and not by clique: a faulty set may name a clique in two groups.
    grouped = sum(
        max(group.replicas, 0) * sum(clique.replicas for clique in cliques)
        for group, cliques in workload.groups_with_cliques()
    )
    return max(workload.replicas, 0) * (alone + grouped)


def prepared_pod(gang: ExpectedGang, workload: PodCliqueSet, profile: Profile, facts: ClusterFacts) -> Manifest:
    """Returns the pod of `gang` as PreparePod changes it; unchanged if another system has claimed it."""
    raw = deepcopy(gang.pod)
    name_scheduler(raw, profile.name)
    pod = Pod(raw)
    record = record_of(workload, profile.name)
    member = profile.member(pod.namespace, pod.podgang or "", pod.podclique or "", record, facts)
    prepare_pod(pod, profile, member)
    return pod.raw


def pod_of_clique(workload: PodCliqueSet, podgang: str, name: str, clique: Clique) -> Manifest:
    """Returns a pod of the PodClique `name` in `podgang` as Grove's operator creates it."""
    labels = {
        **mapping(clique.raw.get("labels")),
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: workload.name,
        grove.LABEL_PODCLIQUE: name,
        grove.LABEL_PODGANG: podgang,
    }
    metadata: Manifest = {"generateName": f"{name}-", "namespace": workload.namespace, "labels": labels}
    if clique.annotations:
        metadata["annotations"] = dict(clique.annotations)
    spec = deepcopy(dict(clique.pod_spec))
    spec.setdefault("schedulerName", "default-scheduler")
    spec["schedulingGates"] = [{"name": grove.GATE}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _further_gang(
    workload: PodCliqueSet, group_cliques: GroupCliques, base: str, index: int, facts: ClusterFacts, names: PodGangNames
) -> ExpectedGang:
    """Returns the gang of a scaling-group replica above the minimum. The constraint of its group is that of the whole
    gang up to v0.1.0-alpha.11, and one on a subset of it since.
    """
    group, full = group_cliques.group, f"{base}-{group_cliques.group.name}-{index}"
    name = names.further(base, group, index)
    members = [(f"{full}-{clique.name}", clique) for clique in group_cliques.cliques]
    if names.generation is GroveGeneration.LEGACY:
        return _gang(workload, name, members, group.topology or workload.topology, facts)
    configs = list(_group_configs(workload, group, full, members, facts))
    return _gang(workload, name, members, workload.topology, facts, configs)


def _group_configs(
    workload: PodCliqueSet, group: ScalingGroup, name: str, members: list[tuple[str, Clique]], facts: ClusterFacts
) -> Iterator[Manifest]:
    if (constraint := _constraint(workload, group.topology, facts)) is not None:
        yield {"name": name, "podGroupNames": [full for full, _ in members], "topologyConstraint": constraint}


def _gang(
    workload: PodCliqueSet,
    name: str,
    members: list[tuple[str, Clique]],
    topology: Topology | None,
    facts: ClusterFacts,
    configs: Sequence[Manifest] = (),
) -> ExpectedGang:
    spec: Manifest = {"podgroups": [_pod_group(workload, full, clique, facts) for full, clique in members]}
    if configs:
        spec["topologyConstraintGroupConfigs"] = list(configs)
    if (constraint := _constraint(workload, topology, facts)) is not None:
        spec["topologyConstraint"] = constraint
    labels = {
        **_mirrored(workload.labels),
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: workload.name,
    }
    annotations = _mirrored(workload.annotations)
    constrained = [spec, *spec["podgroups"], *configs]
    if (topology_name := workload.topology_name()) and any("topologyConstraint" in holder for holder in constrained):
        annotations[grove.TOPOLOGY_NAME] = topology_name
    metadata: Manifest = {"name": name, "namespace": workload.namespace, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    raw = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": metadata, "spec": spec}
    return ExpectedGang(PodGang(raw), pod_of_clique(workload, name, *members[0]) if members else {})


def _mirrored(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the labels or annotations that Grove's operator copies onto its PodGangs: all but Grove's own keys."""
    return {key: value for key, value in keys.items() if not key.startswith(f"{grove.GROUP}/")}


def _pod_group(workload: PodCliqueSet, name: str, clique: Clique, facts: ClusterFacts) -> Manifest:
    # The pods have no names yet; only their number matters.
    references = [{"namespace": workload.namespace, "name": f"{name}-{index}"} for index in range(clique.replicas)]
    group: Manifest = {"name": name, "podReferences": references, "minReplicas": clique.min_available}
    if (constraint := _constraint(workload, clique.topology, facts)) is not None:
        group["topologyConstraint"] = constraint
    return group


def _constraint(workload: PodCliqueSet, topology: Topology | None, facts: ClusterFacts) -> Manifest | None:
    """Returns the constraint with node label keys, without domains that the binding lacks, as in Grove's operator."""
    if topology is None or not (topology.required or topology.preferred):
        return None
    binding = (facts.topology_bindings or {}).get(workload.topology_name() or "")
    if binding is None and not facts.is_whole("topology_bindings"):
        name = workload.topology_name()
        raise FactsUnavailable(f"{topology.path} needs the ClusterTopologyBinding {name or 'that it names'}")
    keys = binding.keys if binding is not None else {}
    domains = {"required": keys.get(topology.required or ""), "preferred": keys.get(topology.preferred or "")}
    pack = {field: key for field, key in domains.items() if key is not None}
    return {"packConstraint": pack} if pack else None


_FIRST, _SECOND = "1", "2"
STAND_INS = (_FIRST * EPOCH_DIGITS, _SECOND * EPOCH_DIGITS)
# For a digest of a name with an epoch.
DIGEST = "<digest>"
_WORDS = re.compile(r"([0-9A-Za-z]+)")


def mask_epochs(first: Any, second: Any) -> Any:
    """Returns the object made for the first of `STAND_INS`, with placeholders where the other one differs."""
    if isinstance(first, str) and isinstance(second, str):
        words, others = _WORDS.split(first), _WORDS.split(second)
        if len(words) != len(others):
            return DIGEST
        # A name that is cut may end within the epoch.
        return "".join(
            word if word == other else EPOCH if (set(word), set(other)) == ({_FIRST}, {_SECOND}) else DIGEST
            for word, other in zip(words, others, strict=True)
        )
    if isinstance(first, dict) and isinstance(second, dict):
        return {
            mask_epochs(key, other): mask_epochs(first[key], second[other])
            for key, other in zip(first, second, strict=True)
        }
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return [mask_epochs(entry, other) for entry, other in zip(first, second, strict=True)]
    return first


# The replicas of a set are alike, and there may be ten thousand.
FIRST_GANGS = 64


# The kinds that get the labels of what makes them: their gangs follow these. Source: ray-project/kuberay v1.7.0,
# controllers/ray/rayjob_controller.go, rayservice_controller.go.
_LABELLED = frozenset({"RayCluster"})
_ONE_BY_ONE = "no gangs for {}: its pods start one by one"


class TranslatedObject(NamedTuple):
    """One object, and the comment lines above it."""

    comment: tuple[str, ...]
    manifest: Manifest


def gang_objects(podgang: PodGang, record: Record, profile: Profile, facts: ClusterFacts) -> list[Manifest]:
    """Returns the new objects that `podgang` needs, in the order of creation. Raises `Inexpressible`."""
    backend = profile.backend
    return [backend.adopt(desired, None) for desired in backend.gang_objects(podgang, record, facts)]


def shown_record(podgang: PodGang, profile: Profile, facts: ClusterFacts) -> Record:
    """Returns the record of a PodGang's workload if it is known, else what the PodGang shows of it: Grove mirrors the
    metadata of the set onto it, but not that of its cliques.
    """
    workload = text(podgang.labels.get(grove.LABEL_PART_OF)) or ""
    if (record := (facts.pod_clique_sets or {}).get((podgang.namespace, workload))) is not None:
        return replace(record, scheduler=profile.name)
    metadata = mapping(podgang.raw.get("metadata"))
    return record_in(metadata, profile.name, text(mapping(podgang.raw.get("spec")).get("priorityClassName")))


def expected_gangs(
    workload: PodCliqueSet | OptedInWorkload, facts: ClusterFacts, generation: GroveGeneration
) -> Iterator[PodGang]:
    """Yields the gangs that `workload` will have; for a LeaderWorkerSet only the gang of its first group, and for a
    workload with roles only that of the first groups. An epoch in a name is the first of `STAND_INS`. Raises
    `FactsUnavailable` if a ClusterTopologyBinding is needed and unknown.
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
    """Returns the disruption modes of the first gangs of `workload`; empty if there are none, or no gangs."""
    try:
        objects = list(_objects_of_first_gangs(workload, profile, facts))
        modes = [profile.backend.disruption_mode(manifests) for manifests in objects]
    except (Inexpressible, FactsUnavailable):
        return []
    return list(dict.fromkeys(mode for mode in modes if mode is not None))


def _objects_of_first_gangs(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts
) -> Iterator[list[Manifest]]:
    maker: PodCliqueSet | OptedInWorkload = workload
    if isinstance(workload, PodCliqueSet):
        record = record_of(workload, profile.name)
    else:
        maker = _pod_maker(workload, profile, facts)[0]
        barred = no_gang(maker)
        if barred is not None and not (barred.is_made and maker.left_to in _LABELLED):
            return
        record = _record(workload, maker, profile)
    for gang in islice(expected_gangs(maker, facts, generation_of(facts)), FIRST_GANGS):
        yield gang_objects(gang, record, profile, facts)


def translated_objects(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings
) -> Iterator[TranslatedObject]:
    """Yields what a workload gets that `profile` is recorded on; nothing if it has no pods.

    For a PodCliqueSet these are for each PodGang its gang objects in the order of creation, then one prepared pod. For
    an opted-in workload they are all its gang objects, then one prepared pod of each part: for a LeaderWorkerSet those
    of its first group, for a TrainJob, whose runtime must be known, those of its JobSet. Raises `Inexpressible`,
    `FactsUnavailable`.
    """
    if isinstance(workload, PodCliqueSet):
        yield from _translated_set(workload, profile, facts, generation_of(facts, settings.grove))
    else:
        yield from _translated_workload(workload, profile, facts, settings)


def _translated_set(
    workload: PodCliqueSet, profile: Profile, facts: ClusterFacts, generation: GroveGeneration
) -> Iterator[TranslatedObject]:
    # Where names are known, the epoch does not matter.
    epochs = STAND_INS[:1] if generation is GroveGeneration.LEGACY else STAND_INS
    every = (pod_gangs_of(workload, facts, PodGangNames(generation, epoch)) for epoch in epochs)
    for same in zip(*every, strict=True):
        name = mask_epochs(same[0].podgang.name, same[-1].podgang.name)
        translations = [_translated_gang(gang, workload, profile, facts) for gang in same]
        for objects in zip(*translations, strict=True):
            comment, manifest = mask_epochs(objects[0], objects[-1])
            yield TranslatedObject((*comment, *_placeholder_notes(name, manifest)), manifest)


def _translated_gang(
    gang: ExpectedGang, workload: PodCliqueSet, profile: Profile, facts: ClusterFacts
) -> Iterator[TranslatedObject]:
    comment = f"PodGang {gang.podgang.name}, {profile.name}"
    support = profile.backend.capabilities.get(Capability.GANG)
    notes = () if support is None or support.supported else (_ONE_BY_ONE.format(profile.name),)
    for manifest in gang_objects(gang.podgang, record_of(workload, profile.name), profile, facts):
        yield TranslatedObject((comment,), manifest)
    yield TranslatedObject((f"{comment}: one of its pods", *notes), prepared_pod(gang, workload, profile, facts))


def _placeholder_notes(podgang: str, manifest: Manifest) -> Iterator[str]:
    """Yields what the placeholders in an object mean. `podgang` is its PodGang's name as it is shown."""
    text = str(manifest)
    if EPOCH in text or DIGEST in text:
        digest = f", and {DIGEST} depends on it" if DIGEST in text else ""
        yield f"not to be applied: Grove's operator chooses {EPOCH}{digest}"
        if is_shortened(podgang):
            yield SHORTENED


def _translated_workload(
    workload: OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings
) -> Iterator[TranslatedObject]:
    maker, runtime = _pod_maker(workload, profile, facts)
    facts = add_workloads((workload, maker), facts)
    title = f"{workload.kind} {workload.name}, {profile.name}"
    grouped_as = settings.kinds.grouped_as(maker)
    notes = list(_notes(workload, maker, runtime, profile, grouped_as))
    if profile.backend.makes_gangs_of(grouped_as) and no_gang(maker) is None:
        record = _record(workload, maker, profile)
        for gang in expected_gangs(maker, facts, NEWEST):
            for manifest in gang_objects(gang, record, profile, facts):
                yield TranslatedObject((f"{title}: gang {gang.name}", *notes), manifest)
    for expected in expected_pods(maker):
        name_scheduler(expected.pod, settings.forced)
        pod = Pod(expected.pod)
        verdict = mutate_pod("", pod, facts, settings)
        pod_words = f": one pod of {expected.part.name}" if expected.part.name else ": one of its pods"
        lines = (f"{title}{pod_words}, of {expected.chain}", *notes, *verdict.notes)
        yield TranslatedObject(tuple(dict.fromkeys(lines)), pod.raw)


def _pod_maker(
    workload: OptedInWorkload, profile: Profile, facts: ClusterFacts
) -> tuple[OptedInWorkload, Runtime | None]:
    """Returns the workload that makes the pods, as stored: for a TrainJob its JobSet, with the record."""
    if not isinstance(workload, TrainJob) or (job_set := made_job_set(workload, facts)) is None:
        return workload, None
    record_choice(job_set, profile.name)
    return JobSet(job_set.raw), job_set.runtime


def add_workloads(workloads: Iterable[OptedInWorkload], facts: ClusterFacts) -> ClusterFacts:
    """Returns `facts` with these workloads, so that their pods can be prepared."""
    changed: dict[str, Any] = {}
    for workload in workloads:
        fact = fact_of(workload)
        changed[fact.part] = {**(getattr(facts, fact.part) or {}), fact.key: workload_facts(workload)}
    return replace(facts, **changed)


def _record(workload: OptedInWorkload, maker: OptedInWorkload, profile: Profile) -> Record:
    return replace(complete_record(maker.record, workload.record), scheduler=profile.name)


def _notes(
    workload: OptedInWorkload, maker: OptedInWorkload, runtime: Runtime | None, profile: Profile, grouped_as: GroupKind
) -> Iterator[str]:
    if workload.suspended:
        yield "suspended: Rollcall writes no objects until it is resumed"
    if isinstance(maker, LeaderWorkerSet):
        yield f"each of its {maker.replicas} groups has its own gang; `{REVISION}` stands for the hash of its templates"
    if maker.together is not None:
        yield f"each further group of a role has its own gang; `{REVISION}` stands for the hash of its roles"
    for plugin in () if runtime is None else runtime.plugins:
        yield f"Trainer's plugin {plugin.name} makes the PodGroup {workload.name}: Rollcall writes no objects"
    backend, barred = profile.backend, no_gang(maker)
    if is_claimed(maker):
        if barred is not None and (runtime is None or not runtime.plugins):
            yield f"Rollcall makes no gang for it: {barred.why}"
    elif backend.groups(grouped_as):
        yield f"{profile.name} makes the gang itself: Rollcall writes no objects"
    elif not (backend.makes_gangs_of(grouped_as) or starts_alone(maker)):
        yield _ONE_BY_ONE.format(profile.name)
    elif barred is not None:
        yield f"Rollcall makes no gang for it: {barred.why}"
