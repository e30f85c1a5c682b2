"""Metrics of the reconciler, its remedies, its audits and its answers to Kueue. Labels have few values: kinds and
fixed words.

Only the leader audits, so all other replicas show 0. An AdmissionCheck that waits holds quota, so every replica counts
those that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from itertools import product
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.admission.admission_check import CheckOutcome
from webhook.certificates.observation import CERTIFICATE_WRITES, CertificateMetrics
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.process_metrics import CacheCollector, Exposition
from webhook.cluster.watch import Watch
from webhook.config.settings import Profile
from webhook.errors import FactsUnavailable, RequestFailed
from webhook.fit.verdict import FitFamily, FitScope
from webhook.gangs import hold_reasons
from webhook.gangs.escapes import DELETABLE, Escape
from webhook.gangs.health import GangState
from webhook.gangs.key import POD_GANG
from webhook.gangs.members import LossCause
from webhook.gangs.object_plan import SkipReason
from webhook.gangs.remedies import RemedyCause
from webhook.model.gang_objects import REPORTS
from webhook.model.keys import Api
from webhook.model.known_kinds import CONFIG_MAPS
from webhook.model.kueue_objects import ADMISSION_CHECK_KIND, WORKLOAD_KIND
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.operations.audit import NOT_JUDGED


class RemedyOutcome(StrEnum):
    """What came of a remedy; a metric's label."""

    HELPED = "helped"
    # The scheduler tries the gang again, and says what it lacks.
    EXPLAINED = "explained"
    NOT_HELPED = "notHelped"
    # The API server refused it, or did not answer.
    FAILED = "failed"


class RemedyMetrics:
    """The metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge, counter = partial(Gauge, registry=registry), partial(Counter, registry=registry)
        self.done = counter(
            "rollcall_remedies", "Remedies for gangs, by cause and by what came of them.", ["cause", "outcome"]
        )
        self.waiting = gauge(
            "rollcall_remedies_waiting",
            "Gangs whose remedy is due and waits, because there were enough in this minute; at most 50 are counted.",
        )
        for cause, outcome in product(RemedyCause, RemedyOutcome):
            self.done.labels(cause.value, outcome.value)


ACTIONS = ("deny", "warn", "audit", NOT_JUDGED)


class AuditMetrics:
    """The metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self.finished = gauge(
            "rollcall_audit_finished_timestamp_seconds",
            "When the last audit of stored objects ended, in seconds since 1970; 0 before the first.",
        )
        self.seconds = gauge("rollcall_audit_seconds", "Seconds that the last audit of stored objects took.")
        self.failing = gauge(
            "rollcall_audit_failing",
            "1 while the last audit did not finish, or no report can be written. Then the last reports stay.",
        )
        self.unwritten = gauge(
            "rollcall_audit_unwritten_reports",
            "Namespaces whose report the last audit that finished could not write or delete. Their last reports stay.",
        )
        self.findings = gauge(
            "rollcall_audit_findings",
            "Findings of the last audit of stored objects, by action: deny means that the object would be refused now.",
            ["action"],
        )
        self.clear()

    def clear(self) -> None:
        """Shows what a replica shows that does not lead."""
        for gauge in (self.finished, self.seconds, self.failing, self.unwritten):
            gauge.set(0)
        for action in ACTIONS:
            self.findings.labels(action).set(0)


class CheckMetrics:
    """The metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge, counter = partial(Gauge, registry=registry), partial(Counter, registry=registry)
        self.pending = gauge(
            "rollcall_admission_checks_pending", "Workloads of Kueue that have quota and wait for Rollcall's answer."
        )
        self.oldest = gauge(
            "rollcall_admission_check_oldest_seconds",
            "Seconds for which the Workload that waits longest for Rollcall's answer has held quota; 0 if none waits.",
        )
        self.answered = counter(
            "rollcall_admission_checks_answered",
            "Workloads of Kueue whose admission check was answered, by what was decided.",
            ["outcome"],
        )
        for outcome in CheckOutcome:
            self.answered.labels(outcome.value)


_SERVER_ERROR = 500

# Why a gang must be retried, by HTTP status; 0 is for no answer.
_RETRIES = {409: "conflict", 429: "throttled", 0: "unanswered"}
RETRIES = (*_RETRIES.values(), "refused", "failed", "unknown", "fault")
# The results of reconciling one gang.
OUTCOMES = ("inStep", "written", "inexpressible", "conflict", "frozen", "waiting", "refused", "failed", "gone", "fault")

# The label of a gang whose scheduler is not enabled.
OTHER = "other"


class SharedBound(StrEnum):
    """What all namespaces share, and each has a part of; a metric's label."""

    # The workers that write the objects of gangs.
    WORKERS = "workers"
    # Conditions of PodGangs, and deletions of escaped pods.
    WRITES = "writes"
    # Events of gangs of their own. The event that gangs share instead says so.
    EVENTS = "events"
    HEALTH = "health"
    # The records of lost pods.
    LOSSES = "losses"
    REMEDIES = "remedies"


class ReconcilerMetrics(Exposition):
    """The metrics in a registry of their own: a process may have several reconcilers, as in tests."""

    def __init__(self, profiles: Mapping[str, Profile] = MappingProxyType({})) -> None:
        """`profiles` are the enabled ones; every other scheduler has the label `OTHER`."""
        super().__init__()
        self._schedulers = frozenset(profiles)
        gauge, counter = partial(Gauge, registry=self.registry), partial(Counter, registry=self.registry)
        self.writes = counter("rollcall_writes", "Writes to the cluster, by kind.", ["kind", "action"])
        self.outcomes = counter("rollcall_reconciled", "Reconciled gangs, by outcome.", ["outcome"])
        self.asides = counter("rollcall_left_alone", "Gangs for which no objects are wanted, by reason.", ["why"])
        self.seconds = Histogram("rollcall_reconcile_seconds", "Seconds to reconcile one gang.", registry=self.registry)
        self.queue = gauge("rollcall_queue_depth", "Gangs and topology bindings that wait to be reconciled.")
        self.failing = gauge("rollcall_queue_failing", "Gangs and topology bindings whose last reconcile failed.")
        self.retries = counter(
            "rollcall_retries", "Times that a gang was queued again after a failure, by reason.", ["why"]
        )
        self.interrupted = gauge("rollcall_watches_interrupted", "Kinds that cannot be watched now.")
        self.leads = gauge("rollcall_leads", "1 while this process is the leader: only the leader writes.")
        self.lease_lost = counter("rollcall_lease_lost", "Times that the lease was lost without being released.")
        self.events = counter(
            "rollcall_events",
            "Events written, and numbers written into an event that many gangs share, by reason.",
            ["reason"],
        )
        self.topologies = gauge(
            "rollcall_topology_problems",
            "ClusterTopologyBindings whose topology objects or node labels are wrong, by scheduler and event reason.",
            ["scheduler", "reason"],
        )
        self.circles = gauge(
            "rollcall_group_circles",
            "Circles of groups that are parents of each other: no pod below is scheduled. 0 unless this process leads.",
        )
        self._add_gang_metrics()
        self.checks = CheckMetrics(self.registry)
        self.audits = AuditMetrics(self.registry)
        self.remedies = RemedyMetrics(self.registry)
        self.certificates = CertificateMetrics(self.registry)
        self._begin(profiles)

    def _add_gang_metrics(self) -> None:
        gauge, counter = partial(Gauge, registry=self.registry), partial(Counter, registry=self.registry)
        self.gangs = gauge(
            "rollcall_gangs",
            "Gangs by scheduler and by health: started, or the reason why not.",
            ["scheduler", "health"],
        )
        self.never = gauge(
            "rollcall_gangs_never_fit",
            "Gangs that wait and can never start: whatever nodes come (ever), or on the nodes there are (theseNodes); "
            "by what they do not fit.",
            ["scheduler", "scope", "family"],
        )
        self.lost = gauge(
            "rollcall_gangs_lost_members",
            "Gangs that had started and have too few pods on nodes since they lost some, by scheduler and by why pods "
            "were lost; a gang counts once for each cause. 0 unless this process leads.",
            ["scheduler", "cause"],
        )
        self.idle_gpus = gauge(
            "rollcall_idle_gpus",
            "Whole GPUs that gangs which lost pods still hold on nodes, by scheduler. 0 unless this process leads.",
            ["scheduler"],
        )
        self.idle_gpu_hours = gauge(
            "rollcall_idle_gpu_hours",
            "GPU hours that gangs which lost pods have held idle since their losses, added up over those that are not "
            "whole now, by scheduler. 0 unless this process leads.",
            ["scheduler"],
        )
        self.escaped = gauge(
            "rollcall_escaped_pods",
            "Pods of gangs that were not prepared correctly, pods that only claim to belong to a gang, and pods of "
            "unknown kinds. Only the leader counts the last, and pods that claim a gang by the mark of its scheduler.",
            ["scheduler", "escape"],
        )
        self.uncounted = gauge(
            "rollcall_unknown_kinds_failing",
            "1 while the pods of unknown kinds cannot be listed. Then the last count stays.",
        )
        self.deleted = counter(
            "rollcall_escaped_pods_deleted", "Such pods deleted, so that Grove recreates them.", ["escape"]
        )
        self.held_back = gauge(
            "rollcall_namespaces_held_back",
            "Namespaces whose gangs are served late because they use all of their share of what all namespaces share, "
            "by what it is.",
            ["bound"],
        )

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Every label for a scheduler."""
        return (*sorted(self._schedulers), OTHER)

    def _begin(self, profiles: Mapping[str, Profile]) -> None:
        """Exposes every label from the start, so that a first increase is seen."""
        for scheduler in self.schedulers:
            for health in (*GangState, *hold_reasons.GangReason):
                self.gangs.labels(scheduler, health.value)
            for scope, family in product(FitScope, FitFamily):
                self.never.labels(scheduler, scope.label, family.value)
            for cause in LossCause:
                self.lost.labels(scheduler, cause.value)
            self.idle_gpus.labels(scheduler)
            self.idle_gpu_hours.labels(scheduler)
            for escape in Escape:
                self.escaped.labels(scheduler, escape.value)
        reasons = (
            *hold_reasons.GangReason,
            *hold_reasons.TopologyReason,
            *hold_reasons.GroupReason,
            *hold_reasons.CertificateReason,
            *hold_reasons.CheckReason,
            *hold_reasons.ExceptionReason,
            *hold_reasons.RemedyReason,
            *hold_reasons.ShareReason,
        )
        for counter, values in (
            (self.deleted, DELETABLE),
            (self.events, reasons),
            (self.outcomes, OUTCOMES),
            (self.retries, RETRIES),
            (self.asides, SkipReason),
        ):
            for value in values:
                counter.labels(str(value))
        for bound in SharedBound:
            self.held_back.labels(bound.value)
        for kind, action in _writes(profiles.values()):
            self.writes.labels(kind, action)
        for name, profile in profiles.items():
            if profile.backend.topology_kind is not None:
                for problem in hold_reasons.TopologyReason:
                    self.topologies.labels(name, problem.value)

    def watch(self, cluster: LiveFacts, kinds: Iterable[Api], watches: Callable[[], Iterable[Watch]]) -> None:
        """Exposes what is known of a cluster: its own kinds, and the kinds that are followed in addition."""
        self.registry.register(CacheCollector(cluster, kinds, watches))

    def retry(self, error: Exception) -> None:
        """Counts that a gang must be retried because of `error`."""
        if isinstance(error, RequestFailed):
            why = _RETRIES.get(error.code) or ("refused" if error.code < _SERVER_ERROR else "failed")
        else:
            why = "unknown" if isinstance(error, FactsUnavailable) else "fault"
        self.retries.labels(why).inc()

    def scheduler(self, name: str | None) -> str:
        """Returns the label for a gang's scheduler; it has few values regardless of what records contain."""
        return name if name is not None and name in self._schedulers else OTHER


def _writes(profiles: Iterable[Profile]) -> Iterator[tuple[str, str]]:
    """Yields the pairs of kind and action that may be written: gang and topology objects, pods (gates and escapes),
    certificates, records of losses, answers to Kueue.
    """
    for profile in profiles:
        topology = profile.backend.topology_kind if profile.backend.topology_written else None
        for api in (*profile.backend.writable_kinds, *(() if topology is None else (topology.api,))):
            yield api.kind, "apply"
            yield api.kind, "delete"
            yield api.kind, "release"
            yield api.kind, "wake"
    yield WORKLOAD_KIND.api.kind, "answer"
    yield ADMISSION_CHECK_KIND.api.kind, "activate"
    yield CONFIG_MAPS.api.kind, "apply"
    yield CONFIG_MAPS.api.kind, "delete"
    yield REPORTS.api.kind, "apply"
    yield REPORTS.api.kind, "delete"
    yield POD_GANG, "condition"
    yield POD_CLIQUE_SETS.resource.api.kind, "trigger"
    yield "Pod", "delete"
    yield "Pod", "ungate"
    yield "Pod", "annotate"
    yield from ((kind, action) for kind, actions in CERTIFICATE_WRITES.items() for action in actions)
