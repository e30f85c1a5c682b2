"""A gang that waits for room, its shape, and the answer whether it can ever start or has room now (no I/O).

Only a gang none of whose pods has a node, and that was not started before, is judged: schedulers count pods on nodes
in different ways. The shape is what the answer depends on, without names: gangs of one shape have one answer, and the
names are put into the texts afterwards. A gang with missing pods is judged by the templates of its workload. An answer
costs some milliseconds, so each shape is judged once, and again only after a change of the facts it depends on; a look
judges few shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from webhook.admission.workload_fit import fit_of, fits_of, packing_of, room_for
from webhook.config.settings import Profile, Settings
from webhook.fit.domains import ALL_NODES
from webhook.fit.feasibility import RoomAnswer, RoomEstimate, Usage, amount_reader, room_now
from webhook.fit.gang_shapes import GangShape, shape_of_templates
from webhook.fit.packing import GangFit
from webhook.fit.verdict import (
    FitFamily,
    FitScope,
    FitVerdict,
    Shortfall,
    Witness,
    count_text,
    resource_amount_text,
    sentence_list,
)
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.members import BASE_PODGANG, GangPod, Roster, spec_in, spec_text
from webhook.gangs.pod_reasons import MemberTally
from webhook.model import grove, kueue
from webhook.model.bounds import FairMemory
from webhook.model.claims import CLAIMS
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import says_started
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.kueue_objects import ADMISSION_CHECKS, LOCAL_QUEUES
from webhook.model.kueue_objects import WORKLOADS as KUEUE_WORKLOADS
from webhook.model.node_pods import NodePods
from webhook.model.nodes import GROWTH, NODES
from webhook.model.place import JOB_INDEX, LWS_REVISION, NAME_LABELS
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.resources import (
    LIMIT_RANGES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
)
from webhook.mutators.prepare_pod import STAMP_ANNOTATION
from webhook.validators.registry import SEAL_ANNOTATION
from webhook.workloads.known_workloads import TRAIN_JOB_FACTS
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import GANG_LABEL, MEMBER_LABEL, OptedInGang, every_place
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import TrainerJobSet

# Keys that name a pod, its place in its gang, its gang or its workload. Such a key matters only if a selector of the
# pods reads it.
_NAMES = frozenset(
    {
        grove.LABEL_PART_OF,
        grove.LABEL_PODGANG,
        grove.LABEL_PODCLIQUE,
        grove.LABEL_REPLICA,
        grove.LABEL_SCALING_GROUP,
        grove.LABEL_SCALING_GROUP_REPLICA,
        grove.LABEL_EPOCH,
        "grove.io/podclique-pod-index",
        "grove.io/pod-index",
        "grove.io/pod-template-hash",
        "pod-template-hash",
        "controller-revision-hash",
        BASE_PODGANG,
        GANG_LABEL,
        MEMBER_LABEL,
        STAMP_ANNOTATION,
        SEAL_ANNOTATION,
        *NAME_LABELS.values(),
        "job-name",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "jobset.sigs.k8s.io/group-name",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-group-index",
        "jobset.sigs.k8s.io/job-key",
        "jobset.sigs.k8s.io/jobset-uid",
        "jobset.sigs.k8s.io/restart-attempt",
        "trainer.kubeflow.org/trainjob-name",
        JOB_INDEX,
        LWS_REVISION,
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
        "leaderworkerset.sigs.k8s.io/leader-name",
        "leaderworkerset.sigs.k8s.io/worker-index",
        kueue.WORKLOAD,
        kueue.POD_GROUP_NAME,
        *(mark.key for mark, _ in CLAIMS if mark.value is None),
    }
)


class WaitingPodShape(NamedTuple):
    """What decides where the pods of a member can be: the spec as text, and labels and annotations as sorted pairs."""

    spec: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]

    def manifest(self, namespace: str) -> Manifest:
        metadata = {"namespace": namespace, "labels": dict(self.labels), "annotations": dict(self.annotations)}
        return {"metadata": metadata, "spec": spec_in(self.spec)}


def pod_shapes(counted: Sequence[MemberTally]) -> dict[str, WaitingPodShape]:
    """Returns the shape of the pods of each member. Members are left out that have no pods, or whose pods differ in
    more than their names, or are not known whole.
    """
    left_out = only_names({pod.needs or "" for tally in counted for pod in tally.pods})
    by_member: dict[str, WaitingPodShape] = {}
    for tally in counted:
        if any(pod.needs is None or pod.cut for pod in tally.pods):
            continue
        shapes = {_shape(pod, left_out) for pod in tally.pods}
        if len(shapes) == 1:
            by_member[tally.member.name] = shapes.pop()
    return by_member


def template_shape(podgang: PodGang, workload: PodCliqueSet | None, member: str) -> WaitingPodShape | None:
    """Returns the shape of pods yet to be made for a member; None without a template. Raises `Malformed`."""
    template = _template_of(podgang, workload, member)
    spec = None if template is None else spec_text(template.spec)
    if template is None or spec is None:
        return None
    left_out = only_names((spec,))
    return WaitingPodShape(spec, pairs(template.labels, left_out), pairs(template.annotations, left_out))


def _template_of(podgang: PodGang, workload: PodCliqueSet | None, member: str) -> PodTemplate | None:
    if isinstance(podgang, OptedInGang):
        parts = podgang.parts.get(member, ())
        return parts[0].template if len(parts) == 1 else None
    # The name of a PodClique ends with that of its clique. If two names fit, the longer one does.
    fitting = [] if workload is None else [clique for clique in workload.cliques if member.endswith(f"-{clique.name}")]
    return max(fitting, key=lambda clique: len(clique.name)).template if fitting else None


def only_names(specs: Iterable[str] = ()) -> frozenset[str]:
    """Returns the keys that only name something, and that no selector in these specs reads."""
    whole = "\n".join(specs)
    return frozenset(key for key in _NAMES if json.dumps(key) not in whole)


def pairs(entries: Mapping[str, Any], left_out: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Returns the labels or annotations as sorted pairs, without those that are left out."""
    return tuple(sorted((key, str(value)) for key, value in entries.items() if key not in left_out))


def _shape(pod: GangPod, left_out: frozenset[str]) -> WaitingPodShape:
    return WaitingPodShape(pod.needs or "", pairs(pod.labels, left_out), pairs(pod.annotations, left_out))


class WaitingGang(NamedTuple):
    """A gang none of whose pods was on a node. `pods` has the shape of the stored pods of each member that has pods,
    and `counts` their number. `workload` is its PodCliqueSet, if known.
    """

    podgang: PodGang
    workload: PodCliqueSet | None
    profile: Profile
    record: Record
    pods: Mapping[str, WaitingPodShape]
    counts: Mapping[str, int]

    @property
    def templates_of(self) -> OptedInWorkload | PodCliqueSet | None:
        """The workload whose templates its pods are made from; None if it is unknown."""
        return self.podgang.workload if isinstance(self.podgang, OptedInGang) else self.workload

    @property
    def workload_name(self) -> str | None:
        """Kind and name of its workload, as commands take them; None for a PodGang without one."""
        gang = self.podgang
        if isinstance(gang, OptedInGang):
            return f"{gang.workload_kind.lower()}/{gang.workload.name}"
        owner = gang.pod_clique_set
        return None if owner is None else f"pcs/{owner.name}"

    @property
    def is_whole(self) -> bool:
        """Whether it has all pods that it needs to start."""
        return all(self.counts.get(member.name, 0) >= member.min_replicas for member in self.podgang.members)


def shape_key(gang: WaitingGang) -> Hashable:
    """Returns what the answer about a gang depends on besides the cluster; whole gangs may differ in names only."""
    podgang, left_out = gang.podgang, only_names()
    if not gang.is_whole:
        # It is judged by its workload, and another workload's gang with as few pods may request something else.
        workload = gang.templates_of
        name = "" if _has_equal_gangs(workload) else podgang.name
        return gang.profile.name, podgang.workload_kind, podgang.namespace, name, _digest(workload)
    places = {member.name: place for place, member in enumerate(podgang.members)}
    return (
        gang.profile.name,
        podgang.namespace,
        podgang.workload_kind,
        gang.record,
        pairs(podgang.labels, left_out),
        pairs(podgang.annotations, left_out),
        podgang.constraint.required,
        tuple(
            (
                member.min_replicas,
                gang.counts.get(member.name, 0),
                member.constraint.required,
                gang.pods.get(member.name),
            )
            for member in podgang.members
        ),
        tuple(
            (tuple(places.get(name) for name in config.members), config.constraint.required)
            for config in podgang.group_configs
        ),
        _workload_settings(podgang, left_out),
    )


def _workload_settings(podgang: PodGang, left_out: frozenset[str]) -> Hashable:
    """Returns what schedulers read of an opted-in workload and not of its pods: the annotations of its Jobs and of its
    TrainJob, and how many pods each Job has. None if that cannot be read.
    """
    if not isinstance(podgang, OptedInGang):
        return ()
    workload = podgang.workload
    above = workload.train_job.annotations if isinstance(workload, TrainerJobSet) else {}
    try:
        annotations = [above, *(place.values for place in every_place(workload))]
    except Malformed:
        return None
    return tuple(pairs(entries, left_out) for entries in annotations), tuple(part.each for part in workload.parts)


def _has_equal_gangs(workload: OptedInWorkload | PodCliqueSet | None) -> bool:
    """Returns whether the templates of a workload say the same of each of its gangs."""
    if isinstance(workload, PodCliqueSet):
        return not workload.scaling_groups
    return isinstance(workload, LeaderWorkerSet)


@lru_cache(maxsize=4)
def _digest(workload: OptedInWorkload | PodCliqueSet | None) -> bytes | None:
    """Returns what stands for all that a workload says, which can be long. Its gangs ask one after the other."""
    if workload is None:
        return None
    metadata = mapping(workload.raw.get("metadata"))
    content: list[Any] = [workload.name, metadata.get("labels"), metadata.get("annotations"), workload.raw.get("spec")]
    return blake2b(json.dumps(content, sort_keys=True, default=str).encode(), digest_size=16).digest()


def remove_names(shape: GangShape, names: Sequence[str]) -> GangShape:
    """Returns the shape with places for the names of its members: then an answer is one for each gang of it."""
    places = {name: _place(index) for index, name in enumerate(names)}
    return shape._replace(
        name="",
        members=tuple(member._replace(name=places[member.name]) for member in shape.members),
        subsets=tuple(
            subset._replace(name=f"{_place(index)}-subset", members=tuple(places[name] for name in subset.members))
            for index, subset in enumerate(shape.subsets)
        ),
    )


def fill_names(witness: Witness, names: Sequence[str]) -> Witness:
    """Returns the witness with the names of a gang's members in their places."""
    return replace(
        witness,
        why=fill_places(witness.why, names),
        remedy=fill_places(witness.remedy, names),
        members=tuple(fill_places(member, names) for member in witness.members),
    )


def fill_places(text: str, names: Sequence[str]) -> str:
    """Returns the text with the names of a gang's members in their places."""
    for index, name in enumerate(names):
        text = text.replace(_place(index), name)
    return text


def _place(index: int) -> str:
    """Returns what stands for a member's name. No name has these characters."""
    return f"<{index}>"


class RoomJudge(Protocol):
    """Judges gangs that wait."""

    def never(self, gang: WaitingGang) -> Witness | None:
        """Returns the proof that the gang can never start; None without one."""

    def now(self, gang: WaitingGang) -> RoomEstimate | None:
        """Returns an estimate of whether the gang has room now; None without one."""


class RoomReasons(NamedTuple):
    """The hold reasons of a gang that are about room. `never` is the proof that it can never start. `has_room` is the
    estimate of whether there is room now; None without one.
    """

    reasons: tuple[HoldReason, ...] = ()
    never: Witness | None = None
    has_room: bool | None = None


NOTHING_ABOUT_ROOM = RoomReasons()
# What a proof by the templates relies on: pods are missing, so it is not known what they request.
_OF_TEMPLATES = ", if no other webhook lowers the requests of its pods"


def waiting_gang(  # noqa: PLR0913, PLR0917 - what is known of a gang
    podgang: PodGang,
    workload: PodCliqueSet | None,
    roster: Roster,
    tallies: Sequence[MemberTally],
    profile: Profile,
    record: Record,
    gang_objects: Sequence[Manifest],
) -> WaitingGang | None:
    """Returns the gang as it waits; None if it was started before."""
    if any(pod.node is not None or pod.failed for pod in roster.pods):
        return None
    try:
        if any(map(says_started, gang_objects)) or profile.backend.may_be_started(gang_objects):
            return None
    except Malformed:
        return None
    counts = {tally.member.name: len(tally.pods) for tally in tallies}
    return WaitingGang(podgang, workload, profile, record, pod_shapes(tallies), counts)


def has_room_for_rest(
    podgang: PodGang,
    workload: PodCliqueSet | None,
    tallies: Sequence[MemberTally],
    profile: Profile,
    record: Record,
    fits: RoomJudge,
) -> bool | None:
    """Returns whether a gang in part would have room now: as if it were placed again as a whole, where its own pods on
    nodes count as free. What a pod on a node needs is not kept, so a member whose pods are all on nodes is judged by
    its template. None without an estimate. Raises `Malformed`.
    """
    waiting = [tally._replace(pods=tuple(pod for pod in tally.pods if pod.node is None)) for tally in tallies]
    shapes = pod_shapes(waiting)
    for tally in waiting:
        if not tally.pods and (shape := template_shape(podgang, workload, tally.member.name)) is not None:
            shapes[tally.member.name] = shape
    counts = {tally.member.name: len(tally.pods) for tally in tallies}
    now = fits.now(WaitingGang(podgang, workload, profile, record, shapes, counts))
    return None if now is None or now.answer is RoomAnswer.UNKNOWN else now.answer is RoomAnswer.ROOM


def room_reasons(gang: WaitingGang, fits: RoomJudge, *, has_no_room: bool) -> RoomReasons:
    """Returns why a gang can never start, or if `has_no_room`, what it lacks now. If pods are missing, only a quota
    counts: nothing else about room keeps pods from being made.
    """
    if (witness := fits.never(gang)) is not None:
        if not gang.is_whole and witness.family is not FitFamily.QUOTA:
            return NOTHING_ABOUT_ROOM
        why = f"{_never(witness)}{'' if gang.is_whole else _OF_TEMPLATES}"
        return RoomReasons((HoldReason(GangReason.NEVER_FITS, why, witness.remedy),), witness)
    now = fits.now(gang) if has_no_room else None
    if now is None or now.answer is RoomAnswer.UNKNOWN:
        return NOTHING_ABOUT_ROOM
    if now.answer is RoomAnswer.ROOM:
        return RoomReasons(has_room=True)
    return RoomReasons((HoldReason(GangReason.NO_ROOM, _short(now), _advice(gang, now)),), has_room=False)


def _never(witness: Witness) -> str:
    if witness.scope is FitScope.EVER:
        return f"it can never start: {witness.why}"
    return f"it can never start on these nodes, even if nothing else runs there: {witness.why}"


def _short(now: RoomEstimate) -> str:
    lacks = sentence_list([_lacking(shortfall) for shortfall in now.short])
    summary = f"by an estimate it has no room now: {now.why}"
    if now.nearest in {None, ALL_NODES}:
        return f"{summary}; it lacks {lacks}" if lacks else summary
    return f"{summary}; {now.nearest} comes nearest{f', and lacks {lacks}' if lacks else ''}"


def _lacking(short: Shortfall) -> str:
    missing = short.needed - short.there
    return (
        f"room for {count_text(missing, 'pod')}"
        if short.resource == "pods"
        else resource_amount_text(short.resource, missing)
    )


def _advice(gang: WaitingGang, now: RoomEstimate) -> str:
    where = "" if now.nearest in {None, ALL_NODES} else f" in {now.nearest}"
    advice = f"wait until gangs{where} have ended, or request less"
    if (name := gang.workload_name) is None:
        return advice
    return f"{advice}: rollcall fit {name} -n {gang.podgang.namespace} shows which ones hold the room"


# Answers that are kept: of the shapes that were asked for last.
MEMORY = 2048

A = TypeVar("A")


class Answers(Generic[A]):
    """Answers by shape. `shapes_a_look` is how many shapes are judged between two calls of `look`."""

    def __init__(self, shapes_a_look: int) -> None:
        self._revision = 0
        self._most = self._left = shapes_a_look
        self._answers: FairMemory[Hashable, tuple[int, A]] = FairMemory(MEMORY)
        self._behind = False

    def changed(self) -> None:
        """Judges every shape again when it is asked for."""
        self._revision += 1

    def look(self, times: int = 1) -> None:
        """Begins a look: as many shapes as `times` looks allow may be judged again."""
        self._left = self._most * times

    @property
    def has_left(self) -> bool:
        """Whether this look may judge another shape."""
        return self._left > 0

    def take_behind(self) -> bool:
        """Returns whether a shape was not judged since the last call, because this look had judged enough."""
        behind, self._behind = self._behind, False
        return behind

    def answer(self, namespace: str, key: Hashable, judged: Callable[[], A]) -> A | None:
        """Returns the answer for a shape in a namespace; an old one, or None, if this look has judged enough shapes."""
        stored = self._answers.get(key)
        if stored is not None and stored[0] == self._revision:
            return stored[1]
        if not self._left:
            self._behind = True
            return None if stored is None else stored[1]
        self._left -= 1
        answer = judged()
        self._answers.put(namespace, key, (self._revision, answer))
        return answer


class FitJudgement(Protocol):
    """Judges one gang, whatever it costs."""

    def verdict(self, gang: WaitingGang, facts: ClusterFacts) -> FitVerdict | None:
        """Returns whether the gang can ever start; None if it is not judged."""

    def now(self, gang: WaitingGang, facts: ClusterFacts, pods: NodePods) -> RoomEstimate | None:
        """Returns an estimate of whether the gang has room now; None if there is none."""


class StoredFits:
    """Judges gangs by the facts of a cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def verdict(self, gang: WaitingGang, facts: ClusterFacts) -> FitVerdict | None:
        """Returns whether the gang can ever start; None if it is not judged."""
        try:
            if not gang.is_whole:
                return self._template_verdict(gang, facts)
            return fit_of(_gang_shape(gang), gang.profile.backend, facts, self._settings.fit)
        except Malformed:
            return None

    def now(self, gang: WaitingGang, facts: ClusterFacts, pods: NodePods) -> RoomEstimate | None:
        """Returns an estimate of whether the gang has room now, not of who holds it; None if there is none."""
        backend, settings = gang.profile.backend, self._settings.fit
        try:
            packing = packing_of(_gang_shape(gang), backend, facts, settings)
            room = room_for(packing, backend, facts, settings)
        except Malformed:
            return None
        if packing.unknown or room is None:
            return None
        usage = Usage.from_facts(replace(facts, node_pods=pods), amount_reader(backend.pod_reading(settings)))
        return room_now(packing, room, usage, (gang.podgang.namespace, gang.podgang.name))

    def _template_verdict(self, gang: WaitingGang, facts: ClusterFacts) -> FitVerdict | None:
        if (workload := gang.templates_of) is None:
            return None
        gang_fit = _fit_of_gang(gang.podgang.name, fits_of(workload, gang.profile, facts, self._settings))
        return None if gang_fit is None else gang_fit.verdict


def _gang_shape(gang: WaitingGang) -> GangShape:
    """Returns the gang with places for names. Raises `Malformed`."""
    podgang = gang.podgang
    templates = {name: [Pod(pod_shape.manifest(podgang.namespace)).template] for name, pod_shape in gang.pods.items()}
    shape = shape_of_templates(podgang, templates, gang.record)
    whole = tuple(member._replace(pods=gang.counts[member.name]) for member in shape.members)
    return remove_names(shape._replace(members=whole), [member.name for member in podgang.members])


def _fit_of_gang(name: str, fits: Iterable[GangFit]) -> GangFit | None:
    """Returns the gang of that name; the only one if none is named so, as the replicas of a set are equal."""
    every = list(fits)
    only = every[0] if len(every) == 1 else None
    return next((gang_fit for gang_fit in every if gang_fit.shape.name == name), only)


# The parts of the facts that the translation of a gang reads, besides the gang and its workload.
GANG_FACT_PARTS = frozenset(
    {"topology_bindings", "network_topologies", "hyper_nodes", "kai_topologies", "priority_classes", "apis"}
)
# The parts that change often and that no answer about room depends on.
FACT_PARTS_WITHOUT_ROOM = frozenset(
    {POD_CLIQUE_SETS.part, POD_GANG_MAPS.part, TRAIN_JOB_FACTS.part, KUEUE_WORKLOADS.part, ADMISSION_CHECKS.part}
)
# The parts with objects that only gangs of the same namespace depend on.
NAMESPACE_FACT_PARTS = frozenset(
    projection.part
    for projection in (
        LIMIT_RANGES,
        LOCAL_QUEUES,
        POD_GANG_MAPS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_CLAIMS,
        RESOURCE_QUOTAS,
    )
)
# The parts about nodes. In a large cluster one of them changes all the time, so gangs are not judged again at once.
NODE_FACT_PARTS = frozenset({NODES.part, RESOURCE_SLICES.part, *(projection.part for projection in GROWTH)})
