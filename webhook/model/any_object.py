"""An object of any kind, for the rules about names: its kind, fields, labels and annotations, and the keys that are
known for them.

The known keys are those that Grove, the schedulers and Rollcall read or write, and where each belongs. They serve only
to find misspelt and misplaced keys, so the list may be longer than what Rollcall itself reads. Source: the constants
of ai-dynamo/grove, koordinator-sh/koordinator, kai-scheduler/KAI-Scheduler, volcano-sh/volcano,
kubernetes-sigs/jobset, lws, kueue and scheduler-plugins, and kubeflow/trainer (2026-08); kueue v0.19.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.admission_request import Kind
from webhook.model.fields import (
    EACH,
    ITEMS,
    MOST_UNKNOWN,
    FieldPath,
    KindFields,
    NearMisses,
    Part,
    Trail,
    UnknownField,
    path_of,
)
from webhook.model.known_kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS, TRAIN_JOBS
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Manifest, plain_object
from webhook.workloads.volcano_job import VOLCANO_JOB


class KeyPlace(Enum):
    """Where a key has an effect."""

    LABEL = "a label"
    ANNOTATION = "an annotation"
    # Read in both, or it is not known that one of them has no effect.
    EITHER = "a label or an annotation"
    NAMESPACE = "a label of a namespace"


_L, _A, _E, _N = KeyPlace.LABEL, KeyPlace.ANNOTATION, KeyPlace.EITHER, KeyPlace.NAMESPACE


def _keys(domain: str, holder: KeyPlace, names: str) -> dict[str, KeyPlace]:
    return {f"{domain}/{name}": holder for name in names.split()}


KNOWN_KEYS: Mapping[str, KeyPlace] = {
    "pod-group.scheduling.sigs.k8s.io": _L,
    "pod-group-name": _A,
    **_keys("rollcall.dev", _L, "scheduler disruption-mode"),
    **_keys("rollcall.dev", _N, "enforcement"),
    **_keys("rollcall.dev", _A, "group-claims ignore groups-together"),
    **_keys(
        "rollcall.dev",
        _E,
        "applied creation-order divided exempt gang gang-member gang-sync members next-certificate raised "
        "reconciler restored rotate seal stamp",
    ),
    **_keys("scheduling.grove.io", _A, "koordinator-quota volcano-queue"),
    **_keys("scheduling.grove.io", _E, "koordinator-schedule-timeout-seconds"),
    **_keys("grove.io", _A, "mnnvl-group auto-mnnvl topology-name"),
    **_keys(
        "grove.io",
        _E,
        "base-podgang disable-managed-resource-protection epoch external-workload-managed "
        "pod-template-hash podclique podclique-pod-index podcliquescalinggroup "
        "podcliquescalinggroup-replica-index podcliqueset-generation-hash podcliqueset-replica-index podgang "
        "podgang-pending-creation podgang-podgroup podgang-role reconcile-trigger scheduler-name",
    ),
    **_keys("quota.scheduling.koordinator.sh", _L, "name"),
    **_keys(
        "quota.scheduling.koordinator.sh",
        _E,
        "admission allow-lent-resource allow-preempt guaranteed is-parent is-root is-virtual-node namespaces "
        "non-preemptible parent preemptible profile request resource-keys runtime shared-weight "
        "total-resource tree-id type used",
    ),
    **_keys("koordinator.sh", _L, "qosClass priority priority-class"),
    **_keys(
        "gang.scheduling.koordinator.sh",
        _A,
        "name min-available waiting-time groups mode match-policy total-number network-topology-spec",
    ),
    **_keys("gang.scheduling.koordinator.sh", _E, "network-topology-index timeout"),
    **_keys("pod-group.scheduling.sigs.k8s.io", _E, "name min-available match-policy"),
    **_keys(
        "scheduling.koordinator.sh",
        _E,
        "device-allocated device-allocate-hint device-joint-allocate gpu-partition-spec gpu-partitions "
        "network-topology-selector reservation-affinity reservation-allocated reservation-ignored reserve-pod "
        "resource-spec resource-status scheduler-name",
    ),
    **_keys("kai.scheduler", _L, "node-pool subgroup-name"),
    **_keys(
        "kai.scheduler",
        _E,
        "batch-min-member detected-owner last-eviction-timestamp last-start-timestamp "
        "preemptibility preemption-delay queue segment-size segment-topology-preferred-placement "
        "segment-topology-required-placement skip-podgrouper stale-podgroup-timestamp staleness-grace-period "
        "top-owner-metadata topology topology-preferred-placement topology-required-placement",
    ),
    # Written in two ways: KEP-6089 and JobSet have a dash that KEP-5547 and LeaderWorkerSet do not have.
    **_keys("scheduling.k8s.io", _E, "parent-composite-podgroup parent-compositepodgroup"),
    **_keys("scheduling.k8s.io", _A, "group-name"),
    **_keys("scheduling.k8s.io", _E, "group-template-name podgroup-protection compositepodgroup-protection"),
    **_keys("scheduling.volcano.sh", _A, "group-name"),
    **_keys("scheduling.volcano.sh", _E, "group-min-member queue-allocation-gate queue-name preemptable task-name"),
    **_keys(
        "volcano.sh",
        _E,
        "closed-by-parent cooldown-time hierarchy hierarchy-weights jdb-max-unavailable jdb-min-available "
        "job-allocated-hypernode job-name job-namespace job-retry-count job-version "
        "network-topology-highest-tier network-topology-mode partition-id preemptable queue-name reclaimable "
        "resource-group revocable-zone sla-waiting-time task-index task-spec template-uid vgpu-number",
    ),
    **_keys("scheduling.x-k8s.io", _L, "pod-group"),
    **_keys(
        "kueue.x-k8s.io",
        _L,
        "cluster-queue-name concurrent-admission-parent job-uid local-queue-name max-exec-time-seconds "
        "multikueue-origin pod-group-pod-index podset priority-class queue-name",
    ),
    **_keys(
        "kueue.x-k8s.io",
        _A,
        "admission-gated-by component-workload-index elastic-job is-group-workload "
        "job-completions-equal-parallelism job-min-parallelism job-owner-gvk job-owner-name "
        "pod-group-fast-admission pod-group-max-not-ready-count pod-group-pod-index-label "
        "pod-group-serving pod-group-total-count "
        "pod-index-offset pod-suspending-parent podset-group-name podset-preferred-topology "
        "podset-required-topology podset-slice-required-topology podset-slice-required-topology-constraints "
        "podset-slice-size podset-unconstrained-topology priority-boost retriable-in-group role-hash "
        "safe-to-forcefully-delete wait-for-pods-ready was-podgroup workload workload-allowed-resource-flavors",
    ),
    **_keys(
        "kueue.x-k8s.io",
        _E,
        "admission auto-generated concurrent-admission managed manager multikueue multikueue-origin-uid "
        "multikueue-worker-workload-pod pod-group-name podset-replica-sizes prebuilt-workload-name "
        "provisioning-request raycluster-generation raycluster-podset-replica-sizes stopping topology "
        "workload-priority-class workload-slice-name workload-slice-replacement-for",
    ),
    **_keys("alpha.jobset.sigs.k8s.io", _A, "exclusive-topology node-selector"),
    **_keys(
        "jobset.sigs.k8s.io",
        _E,
        "coordinator global-replicas group-name group-replicas job-global-index job-group-index job-index "
        "job-key job-restart-attempt jobset-controller jobset-name jobset-uid priority replicatedjob-name "
        "replicatedjob-replicas restart-attempt",
    ),
    **_keys("leaderworkerset.sigs.k8s.io", _A, "exclusive-topology"),
    **_keys(
        "leaderworkerset.sigs.k8s.io",
        _E,
        "group-index group-key leader-name leader-requests-tpus name replicas size "
        "subgroup-exclusive-topology subgroup-index subgroup-size subgroup-unique-key subgroup-policy-type "
        "template-revision-hash worker-index workload-aware-scheduling",
    ),
    **_keys("trainer.kubeflow.org", _E, "framework resource-in-use-protection trainjob-ancestor-step"),
}
# By key that no current release reads: what to write instead, None for nothing. Some were read by earlier releases,
# others are in documents and never had an effect. Source: the changelogs of these projects; scheduler-plugins before
# v0.24.
RETIRED_KEYS: Mapping[str, str | None] = {
    "runai/queue": "kai.scheduler/queue",
    "runai/node-pool": "kai.scheduler/node-pool",
    "scheduling.kai.io/queue": "kai.scheduler/queue",
    "scheduling.kai.io/pod-group": "the annotation pod-group-name",
    "kai.scheduler/pod-group": "the annotation pod-group-name",
    "kai.scheduler/pod-group-name": "the annotation pod-group-name",
    "kai.scheduler/podgroup-name": "the annotation pod-group-name",
    "kai.scheduler/ignore-workload-api": None,
    "grove.io/ignore": "kai.scheduler/skip-podgrouper",
    "grove.io/podgangset-replica-index": "grove.io/podcliqueset-replica-index",
    "gang.scheduling.koordinator.sh/gang-groups": "gang.scheduling.koordinator.sh/groups",
    "gang.scheduling.koordinator.sh/networkTopologyAware": "gang.scheduling.koordinator.sh/network-topology-spec",
    "pod-group.scheduling.koordinator.sh/index": None,
    "scheduling.koordinator.sh/qos-class": "koordinator.sh/qosClass",
    "scheduling.koordinator.sh/gang-timeout": "gang.scheduling.koordinator.sh/waiting-time",
    "scheduling.koordinator.sh/network-topology-zone": None,
    "podgroup.scheduling.sigs.k8s.io": "scheduling.x-k8s.io/pod-group",
    "leaderworkerset.gke.io/exclusive-topology": "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.gke.io/subgroup-size": "leaderworkerset.sigs.k8s.io/subgroup-size",
}
DOMAINS: Mapping[str, tuple[str, ...]] = {
    domain: tuple(key.partition("/")[2] for key in KNOWN_KEYS if key.startswith(f"{domain}/"))
    for domain in dict.fromkeys(key.partition("/")[0] for key in KNOWN_KEYS if "/" in key)
}
# By domain and name: the key of that name below a subdomain.
_OF_FAMILY: Mapping[tuple[str, str], str] = {
    (domain, name): f"{below}/{name}"
    for domain in DOMAINS
    for below in DOMAINS
    if below.endswith(f".{domain}")
    for name in DOMAINS[below]
}
# Every key of this domain is Rollcall's.
ROLLCALL_DOMAIN = "rollcall.dev"
_SIMILAR_NAME, _SIMILAR_DOMAIN = 0.86, 0.86
# The most unknown domains of one object that are compared with the known ones.
_MOST_DOMAINS = 16
# No known domain is half as long.
_LONGEST_DOMAIN = 80


class MisspeltKeys:
    """Finds the likely known keys for the keys of one object."""

    def __init__(self) -> None:
        self._near = NearMisses()
        self._domains_left = _MOST_DOMAINS

    def likely(self, key: str) -> str | None:
        """Returns the known key that an unknown `key` most likely means, or None."""
        domain, slash, name = key.partition("/")
        meant = self._domain(domain) if slash else None
        if meant is None:
            return None
        names = DOMAINS[meant]
        likely_name = name if name in names else self._near.likely(name, names, _SIMILAR_NAME)
        if likely_name is not None:
            return f"{meant}/{likely_name}"
        # The right name below a domain of the same family: `grove.io/koordinator-quota`.
        return _OF_FAMILY.get((meant, name))

    def _domain(self, domain: str) -> str | None:
        if domain in DOMAINS:
            return domain
        self._domains_left -= 1
        return None if self._domains_left < 0 or len(domain) > _LONGEST_DOMAIN else _likely_domain(domain)


@lru_cache(maxsize=1024)
def _likely_domain(domain: str) -> str | None:
    """Returns the known domain that an unknown one most likely means: `rollcall.io` means `rollcall.dev`."""
    stem = domain.rpartition(".")[0] or domain
    alike = next((candidate for candidate in DOMAINS if candidate.rpartition(".")[0] == stem), None)
    return alike or NearMisses().likely(domain, DOMAINS, _SIMILAR_DOMAIN)


_Parts = tuple[Part, ...]
_OWN, _MARKS = ("metadata",), ("labels", "annotations")
_TEMPLATE = ("spec", "template", "metadata")
_OF_RAY = (("headGroupSpec", "template", "metadata"), ("workerGroupSpecs", ITEMS, "template", "metadata"))
_OF_TASKS = ("spec", "tasks", ITEMS, "template", "metadata")
_WORKER_TEMPLATES = ("spec", "leaderWorkerTemplate")
# Where each kind has labels and annotations, besides its own metadata.
_TEMPLATES: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    (grove.GROUP, "PodCliqueSet"): (
        ("spec", "template", "cliques", ITEMS),
        ("spec", "template", "podCliqueScalingGroups", ITEMS),
    ),
    (JOBS.api.group, JOBS.api.kind): (_TEMPLATE,),
    (JOB_SETS.api.group, JOB_SETS.api.kind): (
        ("spec", "replicatedJobs", ITEMS, "template", "metadata"),
        ("spec", "replicatedJobs", ITEMS, "template", *_TEMPLATE),
    ),
    (LEADER_WORKER_SETS.api.group, LEADER_WORKER_SETS.api.kind): (
        (*_WORKER_TEMPLATES, "leaderTemplate", "metadata"),
        (*_WORKER_TEMPLATES, "workerTemplate", "metadata"),
    ),
    (TRAIN_JOBS.api.group, TRAIN_JOBS.api.kind): (("spec",),),
    **{("apps", kind): (_TEMPLATE,) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")},
    ("batch", "CronJob"): (("spec", "jobTemplate", "metadata"), ("spec", "jobTemplate", *_TEMPLATE)),
    VOLCANO_JOB: (_OF_TASKS,),
    ("kubeflow.org", "MPIJob"): (("spec", "mpiReplicaSpecs", EACH, "template", "metadata"),),
    ("kubeflow.org", "PyTorchJob"): (("spec", "pytorchReplicaSpecs", EACH, "template", "metadata"),),
    ("ray.io", "RayCluster"): tuple(("spec", *place) for place in _OF_RAY),
    ("ray.io", "RayJob"): tuple(("spec", "rayClusterSpec", *place) for place in _OF_RAY),
}


@dataclass(frozen=True)
class AnyObject:
    """The object and its kind. `fields` are those of its kind, None if they are unknown. `judged` are the groups and
    kinds that other rules judge, and `known` those whose fields are known.
    """

    kind: Kind
    raw: Manifest
    fields: KindFields | None = None
    judged: Collection[tuple[str, str]] = ()
    kinds_with_fields: Collection[tuple[str, str]] = ()
    # Its pod templates, and the fields of a Pod; in the webhook they are not read.
    templates: tuple[PodTemplate, ...] = ()
    pod_fields: KindFields | None = None
    # Whether a WorkloadShape declares its kind in its version.
    is_declared: bool = False

    @cached_property
    def unknown_fields(self) -> tuple[UnknownField, ...]:
        """The fields that its kind does not have. Of a kind whose fields are unknown, those of its pods."""
        if self.fields is not None:
            return tuple(self.fields.unknown(self.raw))
        if self.pod_fields is None or self.kind[::2] not in self.judged:
            return ()
        names = self.pod_fields.below("spec")
        fields = (field.moved_below(path) for path, spec in self._pod_specs() for field in names.unknown(spec))
        return tuple(islice(fields, MOST_UNKNOWN))

    def _pod_specs(self) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        """Yields the pod specs of its templates, also of those that no gang has, such as that of a launcher."""
        waiting: list[tuple[Any, Trail]] = [(self.raw.get("spec"), ((), "spec"))]
        while waiting:
            value, trail = waiting.pop()
            if isinstance(value, list):
                waiting += [(item, (trail, index, item)) for index, item in enumerate(value)]
            elif isinstance(value, dict):
                spec = value.get("spec")
                if trail[1] == "template" and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
                    yield path_of((trail, "spec")), spec
                else:
                    waiting += [(inner, (trail, str(key))) for key, inner in value.items()]

    @property
    def _metadata(self) -> Mapping[str, Any]:
        return plain_object(self.raw.get("metadata"))

    @property
    def namespace(self) -> str:
        namespace = self._metadata.get("namespace")
        return namespace if isinstance(namespace, str) and namespace else "default"

    @property
    def name(self) -> str:
        """Its name; empty if it has none."""
        name = self._metadata.get("name")
        return name if isinstance(name, str) else ""

    @property
    def labels(self) -> Mapping[str, Any]:
        """Its own labels; empty if they cannot be read."""
        return plain_object(self._metadata.get("labels"))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its own annotations; empty if they cannot be read."""
        return plain_object(self._metadata.get("annotations"))

    @property
    def is_controlled(self) -> bool:
        """Whether a controller made the object."""
        owners = self._metadata.get("ownerReferences")
        return isinstance(owners, list) and any(
            isinstance(owner, dict) and owner.get("controller") is True for owner in owners
        )

    @cached_property
    def holders(self) -> tuple[tuple[_Parts, Mapping[str, Any]], ...]:
        """Its readable labels and annotations and those of its templates, with the parts of their paths."""
        return tuple(
            (path_of((trail, name)).parts, keys)
            for place in (_OWN, *_TEMPLATES.get(self.kind[::2], ()))
            for trail, holder in _marked_at(self.raw, place)
            for name in _MARKS
            if isinstance(keys := holder.get(name), dict)
        )


class Marks(NamedTuple):
    """Labels or annotations of an object. `name` says which of the two, and `own` that they are not of a template."""

    name: str
    on_object: bool
    keys: Mapping[str, Any]


def marks_of(kind: tuple[str, ...], raw: Manifest) -> list[Marks]:
    """Returns `AnyObject.holders` of an object of a kind (group and kind), without their paths."""
    marks = _marks_in(raw.get(_OWN[0]), on_object=True)
    for place in _TEMPLATES.get(kind, ()):  # type: ignore[arg-type]
        for _, holder in _marked_at(raw, place):
            marks += _marks_in(holder, on_object=False)
    return marks


def _marks_in(holder: Any, *, on_object: bool) -> list[Marks]:
    if not isinstance(holder, dict):
        return []
    return [Marks(name, on_object, keys) for name in _MARKS if (keys := holder.get(name)) and isinstance(keys, dict)]


def _marked_at(value: Any, place: tuple[str, ...], trail: Trail = ()) -> list[tuple[Trail, Mapping[str, Any]]]:
    """Returns the objects with labels or annotations at `place` below a value, each with the way to it."""
    below: list[tuple[Trail, Any]]
    for depth, step in enumerate(place, 1):
        if step == ITEMS:
            items = value if isinstance(value, list) else ()
            below = [
                ((trail, index, item), item)
                for index, item in enumerate(items)
                if depth < len(place) or (isinstance(item, dict) and ("labels" in item or "annotations" in item))
            ]
        elif step == EACH:
            entries = value.items() if isinstance(value, dict) else ()
            below = [((trail, str(name)), item) for name, item in entries]
        elif isinstance(value, dict) and step in value:
            trail, value = (trail, step), value[step]
            continue
        else:
            return []
        rest = place[depth:]
        return [marked for way, item in below for marked in _marked_at(item, rest, way)]
    return [(trail, value)] if isinstance(value, dict) and ("labels" in value or "annotations" in value) else []
