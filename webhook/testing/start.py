"""Say whether a pod may start: the net's question about each pod of a gang, answered by admission, from what it would
still change.

The API server answers the same question with CEL, which `webhook.installation.net_policy` compiles from the marks that
backends declare. Tests compare the two answers. Both use only the pod: its workload may be gone, or may never have
been seen. So values that admission would compute from a record do not count.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from webhook.backends.base import GangMember, PodChanges
from webhook.config.settings import Profile, Settings
from webhook.model.admission_request import Request
from webhook.model.claims import CLAIMS, claims_on
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.place import membership
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.mutators.prepare_pod import STAMP_ANNOTATION, alone_stamp, prepare_pod
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

_KNOWN = frozenset(mark.key for mark, _ in CLAIMS)


def may_start(request: Request, facts: ClusterFacts, settings: Settings) -> bool:
    """Returns whether a pod may be stored as it is, if it could start at once. A pod with a gate cannot start, and an
    update counts only if it removes the last gate. The pod before the update shows which gang it belongs to.

    Raises `FactsUnavailable` if the known facts are not enough to prepare a pod, and `Malformed`.
    """
    pod = Pod(request.object or {}, request.namespace)
    known_as = pod if request.operation == "CREATE" else Pod(request.old or {}, request.namespace)
    if _held(pod) or _leaving(pod) or (request.operation == "UPDATE" and not _held(known_as)):
        return True
    if known_as.podgang is not None:
        return known_as.podclique is None or _grove_s(pod, known_as, facts, settings)
    return SCHEDULER_LABEL not in known_as.template.labels or _opted_in(pod, known_as, facts, settings)


def _held(pod: Pod) -> bool:
    return bool(sequence(pod.template.spec.get("schedulingGates")))


def _leaving(pod: Pod) -> bool:
    return mapping(pod.raw.get("metadata")).get("deletionTimestamp") is not None


def _grove_s(pod: Pod, known_as: Pod, facts: ClusterFacts, settings: Settings) -> bool:
    """Judges a pod of Grove by the scheduler that it names: it does not have the record of its set."""
    profile = settings.profiles.get(_scheduler(pod))
    if profile is None:
        return True
    record = Record(profile.name)
    member = profile.member(pod.namespace, known_as.podgang or "", known_as.podclique or "", record, facts)
    return _is_prepared(pod, profile, member)


def _opted_in(pod: Pod, known_as: Pod, facts: ClusterFacts, settings: Settings) -> bool:
    """Judges a pod of an opted-in workload by the label with the scheduler of its workload."""
    profile = settings.profiles.get(known_as.template.labels[SCHEDULER_LABEL])
    place = settings.kinds.place_of(known_as)
    if profile is None or place is None:
        return True
    scheduler = _scheduler(pod)
    claims = list(claims_on(pod.template))
    read = profile.backend.reads_claims_of
    if scheduler == profile.name and pod.template.annotations.get(STAMP_ANNOTATION) == alone_stamp(profile.name):
        # No gang needs it.
        return True
    if scheduler not in {DEFAULT_SCHEDULER, profile.name} or any(claim.system not in read for claim in claims):
        return True
    if scheduler != profile.name or claims:
        # Another system made the group, so the pod must name the scheduler that reads it.
        return scheduler == profile.name
    gang = membership(place, sequenced=False)
    record = Record(profile.name)
    grouped_as = settings.kinds.grouped_as_at(place)
    member = profile.member(pod.namespace, gang.gang, gang.member, record, facts, grouped_as=grouped_as)
    return _is_prepared(pod, profile, member)


def _scheduler(pod: Pod) -> str:
    return pod.scheduler_name or DEFAULT_SCHEDULER


def _is_prepared(pod: Pod, profile: Profile, member: GangMember) -> bool:
    """Returns whether PreparePod changes nothing in the pod by which the scheduler finds its gang."""
    changes = profile.backend.prepare_pod(member)
    raw = _marked_copy(pod, changes)
    before = Pod(deepcopy(raw), pod.namespace)
    if prepare_pod(Pod(raw, pod.namespace), profile, member).claim is not None:
        return True
    after = Pod(raw, pod.namespace)
    fields = [("labels", key) for key in changes.labels] + [("annotations", key) for key in changes.annotations]
    other = profile.backend.prepare_pod(
        member._replace(podgang=f"{member.podgang}-x", podclique=f"{member.podclique}-x")
    )
    counts = [(part, key) for part, key in fields if key in _KNOWN or _differs(part, key, changes, other)]
    counts += [("spec", key) for key in changes.default_fields]
    if not counts and profile.name == DEFAULT_SCHEDULER and not member.opted_in:
        # The API server gives every pod this scheduler name, and nothing else identifies this one.
        stamp = pod.template.annotations.get(STAMP_ANNOTATION)
        return isinstance(stamp, str) and stamp.startswith(f"{DEFAULT_SCHEDULER}/")
    return all(
        getattr(before.template, part).get(key) == getattr(after.template, part).get(key) for part, key in counts
    )


def _marked_copy(pod: Pod, changes: PodChanges) -> Manifest:
    """Returns a copy of the pod in which the marks that PreparePod would write have the values that it would write."""
    raw = deepcopy(pod.raw)
    for claim in claims_on(pod.template):
        for part in ("labels", "annotations"):
            value: Any = getattr(changes, part).get(claim.key)
            if value is not None and claim.key in getattr(pod.template, part):
                raw["metadata"][part][claim.key] = value
    return raw


def _differs(part: str, key: str, changes: PodChanges, other: PodChanges) -> bool:
    return bool(getattr(changes, part)[key] != getattr(other, part).get(key))
