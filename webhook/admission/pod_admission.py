"""How the pods of gangs are prepared and judged: those of Grove and those of opted-in workloads.

`membership_of` finds the workload that a pod belongs to, its record, and its place in a gang. `mutate_pod` prepares
the pod for the recorded scheduler, and seals it if `/validate` need not see it (`webhook.validators.registry`).
`validate_pod` judges the prepared pod. `unknown_owner` finds pods that should start as a gang, and whose controller is
of a kind that Rollcall does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.admission.object_admission import add_findings, validate_object
from webhook.admission.opinion import gang_context, pod_context, pod_verdict
from webhook.backends.base import GangMember
from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable
from webhook.model.admission_request import ALLOWED, Operation, Request, Verdict
from webhook.model.claims import Claim, claims_on
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT
from webhook.model.gang_objects import gang_joined, gangs_of_set, is_divided
from webhook.model.grove import controller_in
from webhook.model.keys import NAME_LIMIT, Record
from webhook.model.place import Place
from webhook.model.place import membership as place_in_gang
from webhook.model.pod_template import Pod
from webhook.model.reading import mapping, text
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL, record_in
from webhook.mutators.json_patch import PatchBuilder
from webhook.mutators.prepare_pod import STAMP_ANNOTATION, alone_stamp, foreign_claims, prepare_pod
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, Choice, namespace_choice
from webhook.validators.registry import SEAL_ANNOTATION, BoundRule, PodCreation, UnknownOwner, run, run_each
from webhook.workloads.known_workloads import WorkloadFacts


def seal_for(pod: Pod, user: str, profile: Profile, facts: ClusterFacts, settings: Settings) -> str | None:
    """Returns the seal of a pod prepared for the scheduler of `profile`; None for a pod that `/validate` must see."""
    seal = profile.seal
    if seal is None or not seal.given or not settings.registration.must_answer:
        return None
    podgang, podclique = pod.podgang, pod.podclique
    if not settings.tenancy.is_grove_operator(user) or podgang is None or podclique is None:
        return None
    if seal.parts and any(getattr(facts, part) for part in seal.parts):
        outcome = run(seal.rules_by_facts, pod_context(pod, profile, facts, settings, {}), pod.template)
        if outcome.findings or outcome.unjudged:
            return None
    return f"{podgang}/{podclique}/{seal.digest}"


def seal_patch(pod: Pod, seal: str | None) -> tuple[Operation, ...]:
    """Returns the patch that gives the pod this seal, or empties that of its author. Raises `Malformed`."""
    if seal is None and SEAL_ANNOTATION not in pod.template.annotations:
        return ()
    patch = PatchBuilder(pod.raw)
    patch.set(("metadata", "annotations"), SEAL_ANNOTATION, seal or "")
    return tuple(patch.operations)


def remove_seal(verdict: Verdict, pod: Pod) -> Verdict:
    """Returns the verdict of `/mutate` on a pod that gets no seal. Raises `Malformed`."""
    emptied = seal_patch(pod, None)
    return replace(verdict, patch=(*verdict.patch, *emptied)) if emptied else verdict


def unknown_owner(pod: Pod, facts: ClusterFacts, settings: Settings) -> UnknownOwner | None:
    """Returns the controller of an opted-in pod of whose kind Rollcall makes no gangs. Raises `Malformed`."""
    controller = controller_in(mapping(pod.raw.get("metadata")))
    if controller is None or (controller.group, controller.kind) in settings.kinds.judged_controllers:
        return None
    by = text(pod.template.labels.get(SCHEDULER_LABEL)) or facts.namespace_label(pod.namespace, SCHEDULER_LABEL)
    scheduler_name = pod.scheduler_name
    if by is None and scheduler_name in settings.profiles and scheduler_name != DEFAULT_SCHEDULER:
        by = scheduler_name
    return None if by in {None, OPTED_OUT} else UnknownOwner(pod.template, controller, str(by))


def rules_about(
    owner: UnknownOwner, scheduler: str | None, namespace: str, facts: ClusterFacts, settings: Settings
) -> tuple[Profile, tuple[BoundRule, ...]]:
    """Returns the profile that judges such a pod, and its rules. `scheduler` is that of the pod's verdict."""
    profile = settings.profiles.get(scheduler or owner.opted_in_by, settings.profiles[settings.default])
    return profile, profile.unknown_rules[settings.ceiling(profile, facts, namespace)]


# The most characters of a label key that a note repeats.
_MAX_KEY_CHARACTERS = 80
_NO_PROFILE = "pod left as it is: no profile {} is enabled here"


class PodMembership(NamedTuple):
    """The profile that a pod is prepared for, and its member in a gang. `workload` is what is known of its opted-in
    workload and `place` its place there, None for Grove's pods. `is_spare` means that no gang needs pods of its part.
    """

    profile: Profile
    member: GangMember
    workload: WorkloadFacts | None = None
    is_spare: bool = False
    place: Place | None = None


def mutate_pod(user: str, pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Prepares a new pod for its scheduler, sealed if possible. Raises `FactsUnavailable` and `Malformed`."""
    membership = membership_of(pod, facts, settings)
    if not isinstance(membership, PodMembership):
        return remove_seal(ALLOWED if membership is None else Verdict(notes=(membership,)), pod)
    profile = membership.profile
    if membership.workload is not None and (besides := _not_prepared(pod, membership, membership.workload)) is not None:
        return remove_seal(besides, pod)
    prepared = prepare_pod(pod, profile, membership.member)
    if prepared.claim is not None:
        return remove_seal(_left_for(prepared.claim, profile), pod)
    sealed = seal_patch(pod, seal_for(pod, user, profile, facts, settings))
    return Verdict(scheduler=profile.name, patch=(*prepared.operations, *sealed))


def validate_pod(request: Request, pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    """Returns the verdict on the creation of a pod. A member of a gang is judged as a member. A pod that Grove did not
    create is also judged by the rules about pods that name a group: Grove's labels alone do not make it a member.
    Raises `FactsUnavailable` and `Malformed`.
    """
    membership = membership_of(pod, facts, settings)
    if pod.podgang is None:
        # Another program may have put it in a gang.
        alone = isinstance(membership, PodMembership) and not foreign_claims(pod, membership.profile, membership.member)
        member = _validate_member(pod, membership, facts, settings) if alone else None
        owner = (
            membership.workload.uid
            if isinstance(membership, PodMembership) and membership.workload is not None
            else None
        )
        verdict = validate_object(request, facts, settings, owner=owner or "") if member is None else member
        if not isinstance(membership, PodMembership):
            return _add_owner_findings(verdict, pod, facts, settings)
        creation = _creation(pod, membership, request.user, settings)
        return (
            verdict if creation is None else _add_origin_findings(verdict, pod, membership, creation, facts, settings)
        )
    member = _validate_member(pod, membership, facts, settings) or ALLOWED
    if _is_groves(pod, membership, request.user, settings):
        return member
    if request.user:
        creation = PodCreation(pod.template, request.user)
        member = _add_origin_findings(member, pod, membership, creation, facts, settings)
    besides = validate_object(request, facts, settings)
    with_scheduler = replace(member, scheduler=member.scheduler or besides.scheduler)
    return add_findings(with_scheduler, besides.findings, besides.unjudged)


def membership_of(pod: Pod, facts: ClusterFacts, settings: Settings) -> PodMembership | str | None:
    """Returns the membership of a pod; None or a note if it is left as it is. Raises `FactsUnavailable`."""
    podgang, podclique = pod.podgang, pod.podclique
    if podgang is None:
        # In a cluster, a pod without the label is never opted in.
        in_file = settings.standalone and settings.kinds.place_of(pod) is not None
        if SCHEDULER_LABEL not in pod.template.labels and not in_file:
            return None
    elif podclique is None:
        return None
    if (key := pod.long_label) is not None:
        return (
            f"pod left as it is: its label {key[:_MAX_KEY_CHARACTERS]} is longer than a name, {NAME_LIMIT} characters"
        )
    if podgang is None or podclique is None:
        return _opted_in_membership(pod, facts, settings)
    return _grove_membership(pod, podgang, podclique, facts, settings)


def _grove_membership(
    pod: Pod, podgang: str, podclique: str, facts: ClusterFacts, settings: Settings
) -> PodMembership | str | None:
    record = _record(pod, facts, settings)
    if record is None:
        return f"pod left as it is: its PodCliqueSet {pod.namespace}/{pod.workload} was not found"
    if record.scheduler is None:
        return None
    profile = settings.profiles.get(record.scheduler)
    if profile is None:
        return _NO_PROFILE.format(record.scheduler)
    unread = facts.unread_gang_kinds or ()
    for head in profile.backend.gang_heads if unread else ():
        if head.api in unread:
            # A pod that is prepared for another gang than its siblings would never start.
            raise FactsUnavailable(f"the {head.api.kind} objects are not read, so the gang of the pod is not known")
    gang, divided = _gang(pod, podgang, podclique, facts)
    return PodMembership(profile, profile.member(pod.namespace, gang, podclique, record, facts, divided=divided))


def _gang(pod: Pod, podgang: str, podclique: str, facts: ClusterFacts) -> tuple[str, bool]:
    """Returns the name of the gang that a pod joins, and whether Grove divides the pods of its PodClique over several.
    The gang is the one that the PodClique is in, or else has its PodGang's name. Raises `FactsUnavailable`.
    """
    if facts.gang_objects is None:
        return podgang, False
    pod_gang_map = facts.pod_gang_map(pod.namespace, pod.template.labels)
    holders = gangs_of_set(
        facts.gang_objects.gangs_of_member(pod.namespace, podclique),
        None if pod_gang_map is None else pod_gang_map.owner,
    )
    if holders and facts.lacks_pod_gang_maps:
        raise FactsUnavailable("the PodGangMaps are not read, so the gang of the pod is not known")
    gang = gang_joined(podgang, holders, pod_gang_map) or podgang
    return gang, is_divided(gang, podgang, podclique, holders, pod_gang_map)


def _validate_member(
    pod: Pod, membership: PodMembership | str | None, facts: ClusterFacts, settings: Settings
) -> Verdict | None:
    """Runs the rules about pods on a prepared pod. None for a pod that is in no gang of Rollcall."""
    if not isinstance(membership, PodMembership) or pod.scheduler_name != membership.profile.name:
        return None
    return pod_verdict(pod, membership.profile, facts, settings)


def _left_for(claim: Claim, profile: Profile) -> Verdict:
    note = f"pod left as it is: {claim.path} says that {claim.system} has claimed it"
    return Verdict(scheduler=profile.name, notes=(note,))


def _is_groves(pod: Pod, membership: PodMembership | str | None, user: str, settings: Settings) -> bool:
    """Returns whether Grove created a pod with its labels. Without a user its group must be the prepared one."""
    if user:
        return settings.tenancy.is_grove_operator(user)
    return isinstance(membership, PodMembership) and not foreign_claims(pod, membership.profile, membership.member)


def _creation(pod: Pod, membership: PodMembership, user: str, settings: Settings) -> PodCreation | None:
    """Returns the creation of a pod of an opted-in workload by `user`, without the user if he may write gang objects.
    None for a pod without a controller, or of a workload that has no gang.
    """
    controller, place = controller_in(mapping(pod.raw.get("metadata"))), membership.place
    if controller is None or place is None or membership.workload is None or membership.workload.no_gang is not None:
        return None
    is_its_own = (controller.group, controller.kind) == settings.kinds.grouped_as_at(place)
    uid = membership.workload.uid if is_its_own else None
    return PodCreation(pod.template, "" if user in settings.exempt_users else user, controller, place.workload, uid)


def _add_origin_findings(
    verdict: Verdict,
    pod: Pod,
    membership: PodMembership | str | None,
    creation: PodCreation,
    facts: ClusterFacts,
    settings: Settings,
) -> Verdict:
    profile = membership.profile if isinstance(membership, PodMembership) else settings.profiles[settings.default]
    rules = profile.creation_rules[settings.ceiling(profile, facts, pod.namespace)]
    origin = run_each(rules, gang_context(profile, facts, Choice(profile.name, ROOT), {}, settings), creation).findings
    return add_findings(replace(verdict, scheduler=profile.name), origin) if origin else verdict


def _add_owner_findings(verdict: Verdict, pod: Pod, facts: ClusterFacts, settings: Settings) -> Verdict:
    owner = unknown_owner(pod, facts, settings)
    if owner is None:
        return verdict
    profile, rules = rules_about(owner, verdict.scheduler, pod.namespace, facts, settings)
    context = gang_context(profile, facts, Choice(profile.name, ROOT), {}, settings)
    return add_findings(verdict, run_each(rules, context, owner).findings)


def _record(pod: Pod, facts: ClusterFacts, settings: Settings) -> Record | None:
    """Returns the record of the pod's PodCliqueSet, or None if there is no such set. Raises `FactsUnavailable`."""
    records = facts.pod_clique_sets
    if records is None and not settings.standalone:
        raise FactsUnavailable(f"the PodCliqueSet {pod.namespace}/{pod.workload} of the pod could not be read")
    record = None if records is None else records.get((pod.namespace, pod.workload or ""))
    scheduler = settings.forced
    if scheduler is None:
        if not settings.standalone or (record is not None and record.scheduler is not None):
            return record
        scheduler = pod.scheduler_name
        if scheduler is None or scheduler == DEFAULT_SCHEDULER:
            namespace = settings.scheduler_of_namespace(facts, pod.namespace)
            scheduler = settings.default if namespace is None else namespace.scheduler
    if record is not None:
        return replace(record, scheduler=scheduler)
    # Its set is not known, so the record is what its own metadata says.
    return record_in(mapping(pod.raw.get("metadata")), scheduler)


def _opted_in_membership(pod: Pod, facts: ClusterFacts, settings: Settings) -> PodMembership | str | None:
    place = settings.kinds.place_of(pod)
    if place is None:
        return "pod left as it is: it belongs to no workload of a kind that Rollcall knows"
    grouped_as = settings.kinds.grouped_as_at(place)
    workload = _known_workload(place, facts, settings)
    if workload is None and place.role_place is not None:
        # Only the LeaderWorkerSet of its role is opted in.
        place = place.role_place
        workload = _known_workload(place, facts, settings)
    if workload is None:
        return f"pod left as it is: its {place.workload} was not found"
    scheduler = settings.forced or workload.record.scheduler
    if scheduler is None and settings.standalone:
        # A file shows the workload before its creation.
        chosen = namespace_choice(facts, pod.namespace)
        scheduler = None if chosen is None else chosen.scheduler
    if scheduler is None:
        return f"pod left as it is: its {place.workload} records no scheduler"
    if scheduler == OPTED_OUT:
        return None
    profile = settings.profiles.get(scheduler)
    if profile is None:
        return _NO_PROFILE.format(scheduler)
    gang = place_in_gang(place, sequenced=workload.sequenced, together=dict(workload.together))
    record = replace(record_with_train_job(workload, facts), scheduler=scheduler)
    member = profile.member(pod.namespace, gang.gang, gang.member, record, facts, grouped_as=grouped_as)
    return PodMembership(profile, member, workload, is_spare=place.part in (workload.spare or ()), place=place)


def _known_workload(place: Place, facts: ClusterFacts, settings: Settings) -> WorkloadFacts | None:
    workloads: Mapping[Any, WorkloadFacts] | None = getattr(facts, place.workload.part)
    if workloads is None:
        if settings.standalone:
            return None
        raise FactsUnavailable(f"the {place.workload} of the pod could not be read")
    return workloads.get(place.workload.key)


def record_with_train_job(workload: WorkloadFacts, facts: ClusterFacts) -> Record:
    """Returns the record of a workload, with what it lacks from the TrainJob that made it, as KAI merges labels."""
    made_by = None if workload.train_job is None else (facts.train_jobs or {}).get(workload.train_job)
    return workload.record if made_by is None else complete_record(workload.record, made_by.record)


def complete_record(record: Record, above: Record) -> Record:
    """Returns the record with the queues, quota and disruption mode that only the workload above names."""
    queues = tuple(sorted({**dict(above.queues), **dict(record.queues)}.items()))
    return replace(
        record, queues=queues, quota=record.quota or above.quota, disruption=record.disruption or above.disruption
    )


def _not_prepared(pod: Pod, membership: PodMembership, workload: WorkloadFacts) -> Verdict | None:
    """Returns the verdict on a pod that Rollcall puts in no gang: another program has, or its workload has no gang."""
    profile = membership.profile
    barred = membership.member.gang_by_rollcall and workload.no_gang is not None
    # If Rollcall makes no gang, the pod cannot be in a gang of Rollcall, even if the group has that name.
    claims: Sequence[Claim] = (
        list(claims_on(pod.template)) if barred else foreign_claims(pod, profile, membership.member)
    )
    for claim in claims:
        if claim.system not in profile.backend.reads_claims_of:
            return _left_for(claim, profile)
    if claims:
        # The program that made the gang has set the pod's group, but usually not its scheduler.
        return Verdict(scheduler=profile.name, patch=_scheduler_patch(pod, profile))
    if barred:
        return Verdict(scheduler=profile.name, notes=(f"pod left as it is: {workload.no_gang}",))
    if membership.is_spare:
        # Its scheduler would wait for a group that has no objects. The stamp tells the net that this is intended.
        patch = PatchBuilder(pod.raw)
        patch.set(("metadata", "annotations"), STAMP_ANNOTATION, alone_stamp(profile.name))
        return Verdict(scheduler=profile.name, patch=(*patch.operations, *_scheduler_patch(pod, profile)))
    return None


def _scheduler_patch(pod: Pod, profile: Profile) -> tuple[Operation, ...]:
    if pod.scheduler_name not in {None, DEFAULT_SCHEDULER}:
        return ()
    patch = PatchBuilder(pod.raw)
    patch.set(("spec",), "schedulerName", profile.name)
    return tuple(patch.operations)
