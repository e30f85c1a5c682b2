"""The fit of the gangs in a document: the verdict, the estimate of *now*, and the domains that a gang may be in, for
the scheduler that each workload would get, or a given one.

`rollcall fit`, `explain` and the web page share this code. The judgement is that of admission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from webhook.admission import decision
from webhook.admission.opted_in_admission import IS_NO_GANG, OptedInWorkloads, is_part, omission_of
from webhook.admission.workload_admission import POD_CLIQUE_SETS
from webhook.admission.workload_fit import fits_of, gang_fit_of, has_run, pods_together
from webhook.config.settings import Profile, Settings
from webhook.fit.domains import DomainRoom, domain_rooms_of, partitions_of, sort_for_table
from webhook.fit.feasibility import RoomAnswer, RoomEstimate, Usage, amount_reader, free_room, judge, now_of
from webhook.fit.gang_shapes import changes_pods, shape_of_gang
from webhook.fit.packing import GangFit, GroupNeed, Need
from webhook.fit.placement import added_tolerations
from webhook.fit.verdict import (
    STEPS,
    FitAnswer,
    FitScope,
    FitVerdict,
    Shortfall,
    Witness,
    amount_text,
    count_text,
    resource_amount_text,
    sentence_list,
)
from webhook.model import grove
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, FieldPath
from webhook.model.findings import OmissionReason, shown
from webhook.model.grove import PodGang
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest, text
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.offline.judgement import requests_in, workload_kinds
from webhook.offline.translation import shown_record
from webhook.validators.gang_scheduler import Choice
from webhook.workloads.kueue_integration import workload_with_pods
from webhook.workloads.opted_in_gang import no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.trainjob import TrainerJobSet, TrainJob
from webhook.workloads.volcano_job import is_volcano_job

# The worst first.
_ORDER = (FitAnswer.NEVER, FitAnswer.UNKNOWN, FitAnswer.FITS)
WORDS = {FitAnswer.NEVER: "never fits", FitAnswer.FITS: "fits an empty cluster", FitAnswer.UNKNOWN: "not known"}


class Surplus(NamedTuple):
    """The pods of a gang above its minimum, which no verdict counts. `domain` is what messages call the domain in which
    the scheduler wants room for those of them that exist; empty if it starts the minimum without them.
    """

    pods: int
    domain: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"pods": self.pods, "domain": self.domain or None}


@dataclass(frozen=True, slots=True)
class FitEntry:
    """One gang. `workload` is its kind, namespace and name, `more` the number of further gangs that are equal to it.

    `without_growth` is why it does not fit the nodes that there are, in a cluster that may grow. `now` is None if it is
    not known what pods on nodes use.
    """

    workload: tuple[str, str, str]
    gang: str
    scheduler: str
    verdict: FitVerdict
    more: int = 0
    # The pods that it starts with, by role.
    pods: Mapping[str, int] | None = None
    domains: tuple[DomainRoom, ...] = ()
    now: RoomEstimate | None = None
    without_growth: Witness | None = None
    surplus: Surplus | None = None
    # What a placement relies on besides the nodes: tolerations that something adds.
    relies_on: tuple[str, ...] = ()

    @property
    def never(self) -> bool:
        return self.verdict.answer is FitAnswer.NEVER

    def as_json(self) -> dict[str, Any]:
        kind, namespace, name = self.workload
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "gang": self.gang,
            "more": self.more,
            "scheduler": self.scheduler,
            "pods": dict(self.pods or {}),
            "surplus": None if self.surplus is None else self.surplus.as_json(),
            **self.verdict.as_json(),
            "assumptions": [*self.verdict.assumptions, *self.relies_on],
            "withoutGrowth": None if self.without_growth is None else self.without_growth.why,
            "now": None if self.now is None else self.now.as_json(),
            "domains": [
                {
                    "partition": domain.partition or None,
                    "name": domain.name,
                    "nodes": domain.nodes,
                    "total": dict(sorted(domain.total.items())),
                    "free": None if domain.free is None else dict(sorted(domain.free.items())),
                }
                for domain in self.domains
            ],
            "placement": [placed._asdict() for placed in self.verdict.placement],
            "steps": self.verdict.steps,
        }


def verdict_words(verdict: FitVerdict) -> str:
    words, scope = WORDS[verdict.answer], verdict.scope
    return words if scope is None else f"{words} {scope}".removesuffix(f" {FitScope.EVER}")


def worst_answer(entries: Iterable[FitEntry]) -> FitAnswer | None:
    """Returns what says most about the whole workload: that a gang never fits, else that one is not known to."""
    return min((entry.verdict.answer for entry in entries), key=_ORDER.index, default=None)


def fit_sentence(entry: FitEntry) -> str:
    """Returns what is known of a gang in one line: the verdict, why, and how it is now."""
    verdict, witness = entry.verdict, entry.verdict.witness
    why = "; ".join(verdict.causes) if witness is None else witness.why
    if why and verdict.answer is FitAnswer.FITS:
        why = f"not judged: {why}"
    why += f"; if {'; if '.join(entry.relies_on)}" if entry.relies_on else ""
    now = f"; now {now_words(entry.now)} (an estimate)" if entry.now is not None and witness is None else ""
    return f"gang {entry.gang}: {verdict_words(verdict)}{f': {why}' if why else ''}{now}"


def surplus_words(surplus: Surplus, scheduler: str) -> str:
    words = f"{count_text(surplus.pods, 'pod')} above the minimum {'is' if surplus.pods == 1 else 'are'} not judged"
    if not surplus.domain:
        return words
    return f"{words}: {scheduler} wants room in the required {surplus.domain} for those that wait, too"


def now_words(now: RoomEstimate) -> str:
    if now.answer is RoomAnswer.UNKNOWN:
        return f"not known whether there is room: {now.why}" if now.why else "not known whether there is room"
    if now.answer is RoomAnswer.ROOM:
        return f"room, on {_listed(now.domains)}"
    short = _listed([shortfall_text(shortfall) for shortfall in now.short])
    where = "" if now.nearest is None else f" on {now.nearest}"
    return f"short by {short}{where}" if short else f"short: {now.why}"


def leaving_words(now: RoomEstimate) -> Iterator[str]:
    if now.leaving is not None:
        gangs, others = now.leaving.gangs, now.leaving.others
        words = (_listed(gangs), f"{count_text(others, 'gang')} of other namespaces" if others else "")
        yield (", and " if len(gangs) > 1 else " and ").join(filter(None, words))


def shortfall_text(short: Shortfall) -> str:
    """Returns what is missing of a resource, or how many pods have no place."""
    missing = max(short.needed - short.there, 0)
    return count_text(missing, "pod") if short.resource == "pods" else resource_amount_text(short.resource, missing)


# More names do not fit on a line.
_MOST_NAMED = 5


def _listed(names: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    shown = list(names)[:_MOST_NAMED]
    if len(names) > _MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - _MOST_NAMED:,} more"
    return sentence_list(shown)


def table_of(domains: tuple[DomainRoom, ...]) -> list[tuple[str, ...]]:
    if not domains:
        return []
    resources = resources_of(domains[0])
    free_is_known = all(domain.free is not None for domain in domains)
    titles = (f"{resource} free" if free_is_known else resource for resource in resources)
    rows = (
        (domain.name, f"{domain.nodes:,}", *(room_text(domain, resource) for resource in resources))
        for domain in sort_by_room(domains)
    )
    return [(domains[0].partition or "where", "nodes", *titles), *rows]


def resources_of(domain: DomainRoom) -> list[str]:
    """Returns the shown resources of a domain: those that the gang requests, or the pod slots if there are none."""
    ordered = sort_for_table(domain.total)
    return [resource for resource in ordered if resource != "pods"] or ordered


def room_text(domain: DomainRoom, resource: str) -> str:
    """Returns what a domain has of a resource, and what is free of it, if known: "16 of 72"."""
    total = amount_text(resource, domain.total[resource])
    return total if domain.free is None else f"{amount_text(resource, domain.free.get(resource, 0))} of {total}"


def sort_by_room(domains: tuple[DomainRoom, ...]) -> list[DomainRoom]:
    """Returns the domains with most free first, by the resources in the order of the table."""
    resources = sort_for_table(domains[0].total) if domains else []

    def order(domain: DomainRoom) -> tuple[list[int], str]:
        room = domain.total if domain.free is None else domain.free
        return [-room.get(name, 0) for name in resources], domain.name

    return sorted(domains, key=order)


_WITHOUT_NODES = "no node is known, so only quotas and queues were judged: give --facts a list of nodes, or use --live"
_NO_PODS = "none of its pods is given, so nothing is known of what they request"
_BEGUN = "it has begun: a pod of it is on a node, has ended or is being deleted"
_WORK_BEGUN = (
    "it has begun: its status counts pods that are ready or have ended, and each scheduler counts these in its own way"
)
_NO_REPLICAS = "it has no pods, or is being deleted"
_OF_TRAIN_JOB = "it is judged with the TrainJob that makes it"
_CHANGED_RUNTIME = "it may change what the pods of its runtime request, or where they may be"
_NO_TEMPLATES = "it has no pod templates, so what its pods request is not known"
_NOT_REACHED = "its minimum is never reached, or depends on partitions, or another scheduler places its pods"
_NO_GANG = (
    "it is over, or its pods are made elsewhere, as MultiKueue may do: give --facts the LocalQueues and ClusterQueues "
    "of Kueue"
)


# Stored pods by the namespace and name of their PodGang.
PodsOfGangs: TypeAlias = Mapping[tuple[str, str], Sequence[Pod]]
_NO_PODS_KNOWN: PodsOfGangs = MappingProxyType({})


class DocumentFit(NamedTuple):
    """What is known of one gang, or said of a workload, and the place of the workload in its document."""

    at: FieldPath
    # Kind, namespace and name.
    workload: tuple[str, str, str]
    entry: FitEntry | None = None
    note: str = ""
    # A field that cannot be read, and why.
    broken: tuple[FieldPath, str] | None = None
    # Whether the note says why no gang of it is judged, although it may have one that still waits.
    left_out: bool = False


def pods_of_gangs(pods: Iterable[Manifest]) -> PodsOfGangs:
    """Returns pods by the namespace and name of their PodGang. One whose labels cannot be read belongs to none."""
    by_gang: dict[tuple[str, str], list[Pod]] = {}
    for raw in pods:
        with suppress(Malformed):
            pod = Pod(raw)
            if pod.podgang is not None:
                by_gang.setdefault((pod.namespace, pod.podgang), []).append(pod)
    return by_gang


def fits_in(
    manifest: Manifest, facts: ClusterFacts, settings: Settings, effort: int = 1, pods: PodsOfGangs = _NO_PODS_KNOWN
) -> Iterator[DocumentFit]:
    """Yields the gangs of each workload in a document, and of each PodGang with its stored `pods`. Raises
    `ReviewError`. `effort` multiplies the steps that each gang may take.
    """
    for request, at in requests_in(manifest, workload_kinds(settings)):
        if request.kind[::2] == (grove.SCHEDULER_GROUP, "PodGang"):
            yield _stored(request, at, facts, settings, STEPS * effort, pods)
        if request.kind[::2] == (grove.GROUP, "PodCliqueSet") or request.kind[::2] in settings.kinds:
            yield from _fits(request, at, facts, settings, effort)


def _fits(
    request: Request, at: FieldPath, facts: ClusterFacts, settings: Settings, effort: int
) -> Iterator[DocumentFit]:
    subject = (request.kind.kind, request.namespace, request.name)
    try:
        workload, choice = _chosen(request, facts, settings)
        if isinstance(workload, OptedInWorkload):
            if is_part(workload, settings.kinds):
                return
            if choice is None:
                omission = omission_of(workload, facts, settings)
                if omission.reason is not OmissionReason.NO_GANG:
                    yield DocumentFit(at, subject, note=f"no gang is judged: {omission}", left_out=True)
                return
        if choice is None:
            return
        if choice.scheduler == OPTED_OUT:
            yield DocumentFit(at, subject, note=IS_NO_GANG)
            return
        profile = settings.profiles.get(choice.scheduler)
        if profile is None:
            yield DocumentFit(at, subject, note=_no_profile(choice.scheduler), left_out=True)
            return
        if has_run(workload):
            yield DocumentFit(at, subject, note=_WORK_BEGUN)
            return
        entries = list(entries_of(workload, profile, facts, settings, effort))
        yield from (DocumentFit(at, subject, entry) for entry in entries)
        if not entries:
            why = _why_no_gang(workload, profile, facts)
            left_out = why not in {_NO_REPLICAS, _OF_TRAIN_JOB}
            yield DocumentFit(at, subject, note=f"no gang is judged: {why}", left_out=left_out)
        elif facts.nodes is None:
            yield DocumentFit(at, subject, note=_WITHOUT_NODES)
    except Malformed:
        finding = decision.malformed(request, settings).findings[0]
        yield DocumentFit(at, subject, broken=(finding.at, f"{finding.why}; {finding.remedy}"))


def _why_no_gang(workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts) -> str:
    if isinstance(workload, PodCliqueSet):
        return _NO_REPLICAS
    maker = workload_with_pods(workload, facts)
    if maker is None:
        if not isinstance(workload, TrainJob):
            return _OF_TRAIN_JOB
        runtime = f"{workload.runtime_kind} {shown(workload.runtime.name)}"
        return f"{runtime} is not known: give it to --facts, as the pods of a TrainJob are made from it"
    barred = no_gang(maker)
    if is_volcano_job(maker) and "Volcano" in profile.backend.reads_claims_of and not maker.finished:
        why = _NOT_REACHED
    elif barred is not None and barred.hindrance is not None and profile.backend.groups(maker.resource.api.group_kind):
        # What hinders a gang of Rollcall does not hinder a group that counts the pods that exist.
        alone = f"{profile.name} groups the pods itself, and some are created only after others"
        why = f"it is not known how many of its pods start together: {alone}"
    elif barred is not None and not barred.is_made:
        why = barred.why
    elif not any(part.pods > 0 for part in maker.parts):
        why = _NO_REPLICAS
    elif isinstance(maker, TrainerJobSet) and changes_pods(maker):
        why = _CHANGED_RUNTIME
    elif isinstance(maker, ShapedWorkload) and any(part.flat for part in maker.shape.parts) and not maker.finished:
        why = _NO_TEMPLATES
    else:
        why = _NO_GANG
    return why


def _stored(
    request: Request, at: FieldPath, facts: ClusterFacts, settings: Settings, steps: int, pods: PodsOfGangs
) -> DocumentFit:
    subject = (request.kind.kind, request.namespace, request.name)
    gang_pods: Sequence[Pod] = ()
    try:
        podgang = PodGang(request.object or {}, request.namespace)
        gang_pods = pods.get((podgang.namespace, podgang.name), ())
        if not gang_pods:
            return DocumentFit(at, subject, note=_NO_PODS, left_out=True)
        scheduler = _scheduler_of(podgang, gang_pods, settings)
        profile = settings.profiles.get(scheduler)
        if profile is None:
            return DocumentFit(at, subject, note=_no_profile(scheduler), left_out=True)
        members: dict[str, list[Pod]] = {}
        for pod in gang_pods:
            members.setdefault(pod.podclique or "", []).append(pod)
        shape = shape_of_gang(podgang, members, shown_record(podgang, profile, facts))
        if shape is None:
            return DocumentFit(at, subject, note=_BEGUN)
        gang_fit = gang_fit_of(shape, profile.backend, facts, settings.fit, steps)
        return DocumentFit(at, subject, _entry(subject, gang_fit, profile, facts, settings, steps))
    except Malformed as error:
        if gang_pods:
            return DocumentFit(at, subject, broken=(METADATA / "name", _unreadable_pod(gang_pods, error, settings)))
        finding = decision.malformed(request, settings).findings[0]
        return DocumentFit(at, subject, broken=(finding.at, f"{finding.why}; {finding.remedy}"))


def _unreadable_pod(pods: Iterable[Pod], error: Malformed, settings: Settings) -> str:
    """Returns which pod of a gang cannot be read, with its field, if that is found."""
    for pod in pods:
        request = Request("", "CREATE", Kind("", "v1", Pod.kind), pod.namespace, pod.name, pod.raw)
        finding = decision.malformed(request, settings).findings[0]
        if finding.at.parts:
            return f"the pod {shown(pod.name)} cannot be read: {finding.at}: {finding.why}; {finding.remedy}"
    return f"a pod of the gang cannot be read: {error}"


def _scheduler_of(podgang: PodGang, pods: Iterable[Pod], settings: Settings) -> str:
    """Returns the scheduler that stored pods name, unless the caller asks for another. If they do not all name one, it
    is the one that the PodGang records. Raises `Malformed`.
    """
    schedulers = {pod.scheduler_name for pod in pods}
    if settings.forced is None and len(schedulers) == 1 and (scheduler := schedulers.pop()):
        return scheduler
    return settings.forced or text(podgang.labels.get(SCHEDULER_LABEL)) or settings.default


def _chosen(
    request: Request, facts: ClusterFacts, settings: Settings
) -> tuple[PodCliqueSet | OptedInWorkload, Choice | None]:
    if request.kind.kind == "PodCliqueSet":
        pod_clique_set = POD_CLIQUE_SETS.view(request.object or {}, request.namespace)
        return pod_clique_set, POD_CLIQUE_SETS.choice_of(pod_clique_set, None, facts, settings)
    admission = OptedInWorkloads(settings.kinds.views[request.kind[::2]])
    workload = admission.view(request.object or {}, request.namespace)
    return workload, admission.choice_of(workload, None, facts, settings)


def _no_profile(scheduler: str) -> str:
    why = "has no profile here: name another with --scheduler, or add the profile to the configuration"
    return f"its scheduler {shown(scheduler)} {why}"


def entries_of(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings, effort: int = 1
) -> Iterator[FitEntry]:
    """Yields the report of each different gang of a workload under one scheduler. Raises `Malformed`."""
    subject = (workload.kind, workload.namespace, workload.name)
    fits = fits_of(workload, profile, facts, settings, STEPS * effort)
    for gang_fit in fits:
        settings.proceed()
        yield _entry(subject, gang_fit, profile, facts, settings, STEPS * effort)
    if not fits and (why := _why_not_known(workload)) is not None:
        yield FitEntry(subject, workload.name, profile.name, FitVerdict(FitAnswer.UNKNOWN, causes=(why,)))


def _why_not_known(workload: PodCliqueSet | OptedInWorkload) -> str | None:
    """Returns why the gang of a workload is unknown: its operator makes it, or it has no pod templates; else None."""
    if not isinstance(workload, ShapedWorkload) or workload.finished:
        return None
    if not any(part.pods > 0 for part in workload.parts):
        return None
    if (left := next((left for left in workload.leaves() if not left.is_made), None)) is not None:
        unread = "what starts together, and what it requests, is not read"
        return None if is_volcano_job(workload) else f"{left.why}: {unread}"
    hindered = next(iter(workload.hindrances), None) is not None
    return _NO_TEMPLATES if any(part.flat for part in workload.shape.parts) and not hindered else None


def _entry(
    subject: tuple[str, str, str],
    gang_fit: GangFit,
    profile: Profile,
    facts: ClusterFacts,
    settings: Settings,
    steps: int,
) -> FitEntry:
    verdict, shape, packing, room = gang_fit.verdict, gang_fit.shape, gang_fit.packing, gang_fit.room
    started, surplus = _started(gang_fit), None
    if started is not None and (above := sum(member.pods for member in shape.members) - sum(started.values())) > 0:
        required = () if packing is None else partitions_of(packing)
        surplus = Surplus(above, required[0].noun if required and profile.backend.gathers_surplus else "")
    entry = FitEntry(subject, shape.name, profile.name, verdict, shape.more, started, surplus=surplus)
    if packing is None or room is None:
        return entry
    entry = replace(entry, relies_on=added_tolerations(verdict, shape, packing, facts))
    may_fit = verdict.answer is not FitAnswer.NEVER
    if may_fit and room.grows:
        there = replace(room, grows=False, memo={})
        witness = judge(replace(packing, ceilings=(), witnesses=()), there, steps).witness
        entry = replace(entry, without_growth=witness)
    if facts.node_pods is None:
        return replace(entry, domains=domain_rooms_of(packing, room))
    usage = Usage.from_facts(facts, amount_reader(profile.backend.pod_reading(settings.fit)))
    entry = replace(entry, domains=domain_rooms_of(packing, room, free_room(room, usage)))
    if may_fit and entry.without_growth is None:
        entry = replace(entry, now=now_of(packing, room, usage, (shape.namespace, shape.name), steps))
    return entry


def _started(gang_fit: GangFit) -> dict[str, int] | None:
    """Returns the pods that a gang starts with, by role, as its scheduler packs it; None if any parts are enough."""
    minimum: Counter[str] = Counter()
    for member in gang_fit.shape.needed:
        minimum[member.called] += member.minimum
    packing = gang_fit.packing
    packed = {} if packing is None else pods_together(packing)
    if packing is not None and not all(map(packed.get, minimum)) and any(map(_chooses, packing.sets)):
        return None
    return {role: packed.get(role) or pods for role, pods in minimum.items()}


def _chooses(need: Need) -> bool:
    return isinstance(need, GroupNeed) and (need.count < len(need.needs) or any(map(_chooses, need.needs)))
