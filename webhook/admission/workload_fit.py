"""Whether the gangs of a workload can ever start under one scheduler. Admission, `rollcall fit`, `explain` and the
health of gangs all ask here.

The work is bounded in steps, so the answer does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from webhook.backends.base import Backend
from webhook.config.settings import Profile, Settings
from webhook.fit.ceilings import KueueLimits, kueue_limits, least_of_each, namespace_ceilings, refusals_of
from webhook.fit.domains import roles_of
from webhook.fit.feasibility import judge
from webhook.fit.gang_shapes import GangShape, MemberShape, shapes_of_set, shapes_of_workload
from webhook.fit.node_classes import room_of
from webhook.fit.packing import FitSettings, GangFit, Packing, Room
from webhook.fit.placement import name_taints
from webhook.fit.resource_requests import device_refusals, devices_by_node
from webhook.fit.verdict import STEPS, FitAnswer, FitVerdict
from webhook.model import kueue as kueue_module
from webhook.model.facts import ClusterFacts
from webhook.model.reading import Malformed, integer, mapping, sequence
from webhook.validators.shared_checks import has_gangs
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import (
    Held,
    HeldBy,
    framework_of,
    held,
    held_by_label,
    held_clique,
    workload_with_pods,
)
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.trainjob import TrainerJobSet, TrainJob

# What the gangs of one workload may take together, in times of what one may take.
_MOST_TIMES = 4
# What all rooms of one workload may have together, in roles times classes of nodes. The first is always looked at.
_MOST_PAIRS = 20_000
# The most different roles of one gang.
_MOST_ROLES = 24
# The most containers, and amounts of resources that these state, of all roles of one gang.
_MOST_CONTAINERS, _MOST_AMOUNTS = 512, 4096
_LONG = "the pods of the gang have more containers, or name more resources, than are judged"
_MANY_PARTS = f"the workload has more than {_MOST_ROLES} parts"
_MOST_PODS = 2**31 - 1
_NO_COUNT = "a number of pods is negative, or more than schedulers can count"
_TOLERATES_ALL = {"operator": "Exists"}
# What a verdict on a template relies on. One on stored pods does not.
_OF_TEMPLATES = (
    "no other webhook lowers the requests of the pods, adds tolerations or changes which nodes they may use",
)
# A LimitRange may demand more than a pod requests, so a webhook that raises requests cures that.
_IF_HELD = "Kueue holds {}s: its integrations.frameworks have {}"
_OF_RANGES = ("no other webhook brings the pods within the LimitRange",)
# Devices are counted, and no more.
_OF_DEVICES = "which devices the claims may use, by selectors, constraints and taints"

# What a verdict on stored pods relies on if there are fewer than the gang needs.
_OF_MISSING_PODS = ("the pods of the gang that are still to be made are like those that there are",)


def fit_of(
    shape: GangShape, backend: Backend[Any], facts: ClusterFacts, settings: FitSettings, steps: int = STEPS
) -> FitVerdict:
    """Returns whether a gang can ever start under the scheduler of `backend`. Raises `Malformed`."""
    return gang_fit_of(shape, backend, facts, settings, steps).verdict


def gang_fit_of(
    shape: GangShape, backend: Backend[Any], facts: ClusterFacts, settings: FitSettings, steps: int = STEPS
) -> GangFit:
    """Returns the verdict on a gang under the scheduler of `backend`, and what was judged. Raises `Malformed`."""
    counts = [count for member in shape.members for count in (member.minimum, member.pods)]
    most = sum(max(member.minimum, member.pods) for member in shape.members)
    if min(counts, default=0) < 0 or most > _MOST_PODS:
        return GangFit(shape, FitVerdict(FitAnswer.UNKNOWN, causes=(_NO_COUNT,)))
    if shape.refusals:
        return GangFit(
            shape, FitVerdict(FitAnswer.NEVER, shape.refusals[0], assumptions=(*_OF_TEMPLATES, *shape.assumptions))
        )
    judged = bound_roles(shape)
    if judged is None:
        return GangFit(shape, FitVerdict(FitAnswer.UNKNOWN, causes=(_MANY_PARTS,)))
    if _is_long(judged):
        return GangFit(shape, FitVerdict(FitAnswer.UNKNOWN, causes=(_LONG,)))
    packing = packing_of(judged, backend, facts, settings)
    if packing.unknown:
        return GangFit(shape, FitVerdict(FitAnswer.UNKNOWN, causes=packing.unknown))
    room = room_for(packing, backend, facts, settings)
    return GangFit(shape, name_taints(judge(packing, room, steps), packing, facts), packing, room)


def _pairs(gang_fit: GangFit) -> int:
    """Returns the roles of a gang times the classes of nodes that were looked at for it."""
    if gang_fit.packing is None or gang_fit.room is None:
        return 0
    if gang_fit.room.too_large:
        return _MOST_PAIRS
    return len(gang_fit.room.classes) * len(roles_of(gang_fit.packing.sets))


def room_for(packing: Packing, backend: Backend[Any], facts: ClusterFacts, settings: FitSettings) -> Room | None:
    """Returns the nodes as the scheduler of `backend` sees them for a packed gang; None if they are not known."""
    return room_of(packing, facts, settings, backend.pod_reading(settings), devices_by_node(facts))


def bound_roles(shape: GangShape) -> GangShape | None:
    """Returns a gang with no more roles than can be judged in little time: without its last ones. What the others need,
    it needs, too. None for a workload of which a scheduler may start some parts only, and if pods of the last
    roles above their minimum may be counted for the others, as in a merged group.
    """
    roles = dict.fromkeys(member.called for member in shape.members)
    first = frozenset(islice(roles, _MOST_ROLES))
    kept: list[MemberShape] = []
    left: list[MemberShape] = []
    for member in shape.members:
        (kept if member.called in first else left).append(member)
    if not left:
        return shape
    if shape.opted_in is not None or any(0 < member.minimum < member.pods for member in left):
        return None
    left_out = (*shape.left_out, f"all but {_MOST_ROLES} of its {len(roles)} roles")
    return shape._replace(members=tuple(kept), left_out=left_out)


def _is_long(shape: GangShape) -> bool:
    """Returns whether the templates of a gang are too long to be read in little time. Raises `Malformed`."""
    containers = [
        container
        for template in {member.called: member.template for member in shape.members}.values()
        for field in ("containers", "initContainers")
        for container in sequence(template.spec.get(field))
    ]
    if len(containers) > _MOST_CONTAINERS:
        return True
    stated = [mapping(mapping(container).get("resources")) for container in containers]
    amounts = sum(len(mapping(resources.get(part))) for resources in stated for part in ("requests", "limits"))
    return amounts > _MOST_AMOUNTS


def packing_of(shape: GangShape, backend: Backend[Any], facts: ClusterFacts, settings: FitSettings) -> Packing:
    """Returns what must be placed together, its ceilings, and what the API server refuses. Raises `Malformed`."""
    packing = backend.packing(shape, facts, settings)
    if packing.unknown:
        return packing
    roles = {role.name: role for role in roles_of(packing.sets)}
    sources = [namespace_ceilings(shape, facts), backend.ceilings(shape, roles, facts)]
    refusals, unknown = refusals_of(shape, facts)
    # A scheduler that allocates no devices places the pods, whatever they claim.
    devices = device_refusals(shape, facts, pods_together(packing)) if backend.allocates_devices else ()
    assumed: tuple[str, ...] = () if shape.stored else (*_OF_TEMPLATES, *(_OF_RANGES if refusals else ()))
    if shape.stored and any(member.pods < member.minimum for member in shape.needed):
        assumed = _OF_MISSING_PODS
    return replace(
        packing,
        ceilings=(*packing.ceilings, *(ceiling for source in sources for ceiling in source.ceilings)),
        witnesses=(*packing.witnesses, *refusals, *devices),
        unjudged=(
            *packing.unjudged,
            *shape.unjudged,
            *(why for source in sources for why in source.unknown),
            *unknown,
            *((_OF_DEVICES,) if any(role.pods.devices for role in roles.values()) else ()),
        ),
        assumptions=(*packing.assumptions, *assumed),
    )


def pods_together(packing: Packing) -> Mapping[str, int]:
    """Returns how many pods of each role surely run at the same time."""
    together: dict[str, int] = {}
    for need in packing.sets:
        for name, pods in least_of_each(need, {}).items():
            together[name] = max(pods, together.get(name, 0))
    return together


def fits_of(
    workload: PodCliqueSet | OptedInWorkload,
    profile: Profile,
    facts: ClusterFacts,
    settings: Settings,
    steps: int = STEPS,
) -> list[GangFit]:
    """Returns the different gangs that are made of the templates of a workload, each judged. Raises `Malformed`."""
    shapes = list(_shapes(workload, profile, facts, settings))
    fits: list[GangFit] = []
    left, pairs_left = steps * _MOST_TIMES, _MOST_PAIRS
    for shape in shapes:
        fits.append(gang_fit_of(shape, profile.backend, facts, settings.fit, min(steps, left)))
        left, pairs_left = left - fits[-1].verdict.steps, pairs_left - _pairs(fits[-1])
        if left <= 0 or pairs_left <= 0:
            break
    return fits


class WorkloadFits:
    """The verdicts on the gangs of the workload that is judged, worked out when the first rule asks for them."""

    def __init__(self, profile: Profile, facts: ClusterFacts, settings: Settings) -> None:
        self._profile, self._facts, self._settings = profile, facts, settings
        self._remembered: tuple[object, Sequence[GangFit]] | None = None

    def __call__(self, workload: PodCliqueSet | OptedInWorkload) -> Sequence[GangFit]:
        """Returns the verdicts. A TrainJob has none: the JobSet that is made of it is judged."""
        if isinstance(workload, TrainJob):
            return ()
        if self._remembered is None or self._remembered[0] is not workload:
            try:
                fits = fits_of(workload, self._profile, self._facts, self._settings)
            except Malformed:
                # Rules about the shape of the object report what cannot be read.
                fits = []
            self._remembered = workload, fits
        return self._remembered[1]


def makes_new_gangs(
    workload: PodCliqueSet | OptedInWorkload, old: PodCliqueSet | OptedInWorkload, facts: ClusterFacts
) -> bool:
    """Returns whether an update may make gangs that the old version would not: the spec changed. The pods of a Job or
    JobSet that has begun, and of a PodCliqueSet that has a gang, may be on nodes, and others may join them one by one.
    Each scheduler counts such pods in its own way, so such a workload is not judged again.
    """
    if workload.raw.get("spec") == old.raw.get("spec"):
        return False
    if isinstance(workload, PodCliqueSet):
        return not has_gangs(workload, facts)
    return not has_begun(workload)


def has_begun(workload: PodCliqueSet | OptedInWorkload) -> bool:
    """Returns whether a Job, JobSet or TrainJob has or had pods, also if all of them wait. Raises `Malformed`."""
    return _counts(workload, (_ACTIVE, *_RAN))


def has_run(workload: PodCliqueSet | OptedInWorkload) -> bool:
    """Returns whether a pod of a Job, JobSet or TrainJob is ready or has ended. Raises `Malformed`."""
    return _counts(workload, _RAN)


def _counts(workload: PodCliqueSet | OptedInWorkload, counts: Sequence[str]) -> bool:
    if isinstance(workload, OptedInWorkload) and workload.crd:
        # What the status of a declared kind says is not known.
        return bool(mapping(workload.raw.get("status")))
    if not isinstance(workload, Job | JobSet | TrainJob):
        return False
    status = mapping(workload.raw.get("status"))
    holders = [
        status,
        *map(mapping, sequence(status.get("replicatedJobsStatus"))),
        *map(mapping, sequence(status.get("jobsStatus"))),
    ]
    return any(integer(holder.get(count)) for holder in holders for count in counts)


# In the status of a Job, and of each part of a JobSet or TrainJob: pods or Jobs that there are or were. Pods that wait
# for a node are active, too.
_ACTIVE, _RAN = "active", ("ready", "succeeded", "failed", "terminating")


def is_known(facts: ClusterFacts, workload: PodCliqueSet | None = None) -> bool:
    """Returns whether anything is known that a gang may not fit into; of a PodCliqueSet, apart from Kueue's quotas."""
    return bool(
        facts.nodes
        or facts.elastic_quotas
        or facts.volcano_queues
        or facts.kai_queues
        or facts.resource_quotas
        or facts.limit_ranges
        or facts.resource_claims
        or facts.resource_claim_templates
        or (workload is None and facts.cluster_queues)
    )


def _shapes(
    workload: PodCliqueSet | OptedInWorkload, profile: Profile, facts: ClusterFacts, settings: Settings
) -> Iterator[GangShape]:
    if isinstance(workload, PodCliqueSet):
        shapes = shapes_of_set(workload, profile.name, facts, settings.grove)
        cliques = workload.cliques
        held_cliques = (
            clique for clique in cliques if held_clique(clique, workload, facts, settings.kueue) is not None
        )
        queued = frozenset(clique.name for clique in held_cliques)
        yield from (_queued(shape, queued) for shape in shapes)
        return
    if workload.managed_elsewhere is not None:
        return
    pod_owner = workload if isinstance(workload, TrainerJobSet) else workload_with_pods(workload, facts)
    if pod_owner is None:
        return
    shapes = shapes_of_workload(pod_owner, profile.name if "Volcano" in profile.backend.reads_claims_of else None)
    by_kueue = held(pod_owner, facts, settings.kueue)
    assumed: tuple[str, ...] = ()
    if by_kueue is None and isinstance(pod_owner, ShapedWorkload) and kueue_module.QUEUE_NAME in pod_owner.labels:
        # Kueue may add tolerations to a workload of any kind that names a queue.
        by_kueue = held_by_label(pod_owner, facts, settings.kueue)
        if by_kueue is None:
            return
        if (framework := framework_of(pod_owner)) not in settings.kueue.frameworks:
            assumed = (_IF_HELD.format(pod_owner.kind, framework),)
    if by_kueue is None:
        yield from shapes
    elif not _may_run_elsewhere(by_kueue, pod_owner.namespace, facts):
        limits = kueue_limits(by_kueue, pod_owner.namespace, facts) if shapes else KueueLimits()
        for shape in shapes:
            held_shape = _held_by_kueue(shape, by_kueue)
            yield held_shape._replace(
                refusals=limits.refusals, assumptions=(*limits.assumptions, *assumed), unjudged=limits.unknown
            )


def _queued(shape: GangShape, roles: frozenset[str]) -> GangShape:
    """Returns a gang whose pods of these roles may get any tolerations: Kueue adds those of a flavor."""
    if not roles:
        return shape
    members = list(shape.members)
    for index, member in enumerate(members):
        if member.called in roles:
            template = member.template.replace_spec({**member.template.spec, "tolerations": [_TOLERATES_ALL]})
            members[index] = member._replace(template=template)
    return shape._replace(members=tuple(members))


def _held_by_kueue(shape: GangShape, by_kueue: Held) -> GangShape:
    """Returns a gang as Kueue may start it: with the least number of pods that it may give it."""
    held_shape = _queued(shape, frozenset(member.called for member in shape.members))
    least = next((pods.min_count for pods in by_kueue.pod_sets if pods.min_count is not None), None)
    if by_kueue.by is HeldBy.ELASTIC:
        least = 1
    if least is None:
        return held_shape
    members = tuple(member._replace(minimum=min(member.minimum, least)) for member in held_shape.members)
    return held_shape._replace(members=members)


def _may_run_elsewhere(by_kueue: Held, namespace: str, facts: ClusterFacts) -> bool:
    local = (facts.local_queues or {}).get((namespace, by_kueue.queue or ""))
    queue = None if local is None else (facts.cluster_queues or {}).get(local.cluster_queue or "")
    if queue is None:
        # Kueue admits nothing by a queue that is not there.
        return facts.local_queues is None or facts.cluster_queues is None
    checks = facts.admission_checks or {}
    return any(name not in checks or checks[name].controller == kueue_module.MULTIKUEUE for name in queue.checks)
