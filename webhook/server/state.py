"""The shared state of the server: settings, facts, the certificate, and whether the server is ready."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from webhook.certificates.files import Pair, validity
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.cluster_facts import LiveFacts, live_facts
from webhook.cluster.logs import log
from webhook.config.settings import Settings
from webhook.model.facts import ClusterFacts
from webhook.server.intake import SMALL_BYTES, Intake
from webhook.server.lane import Lane
from webhook.server.memory import memory_limit
from webhook.server.metrics import CLIENT_AUTHORITIES, MANIFESTS, REVIEWS, SERVING, ServerMetrics
from webhook.server.shadows import Shadows

# Each lane may fill this fraction (1/LANE_SHARE) of the intake with decoded values, and as much again with waiting
# bodies.
LANE_SHARE = 4


@dataclass(slots=True)
class ServerState:
    """The state of one server. The configuration is already loaded. The certificate may expire, and facts may be
    updated from a cluster.
    """

    settings: Settings
    facts: ClusterFacts
    certificate: Pair | None
    # The cluster that the facts are read from; None if the facts never change.
    cluster: LiveFacts | None = None
    # The number of webhook calls that are being answered.
    in_flight: int = 0
    # The number of webhook calls that wait for live reads. All others are answered in one step of the event loop, or in
    # the lane.
    reading: int = 0
    # Why changed certificate files were not loaded, by name: serving, next, client-ca.
    refused: dict[str, str] = field(default_factory=dict)
    # Whether clients must have certificates, but no client CA is loaded.
    unguarded: bool = False
    # Why the self-probe fails; None if it succeeds or does not run.
    unseen: str | None = None
    # Whether the process was told to stop.
    stopping: bool = False
    clock: Clock = field(default=MACHINE_CLOCK, kw_only=True)
    metrics: ServerMetrics = field(init=False)
    intake: Intake = field(init=False)
    # The lanes for large reviews, and for manifests without a cluster.
    reviews: Lane = field(init=False)
    manifests: Lane = field(init=False)
    # None if there are none.
    shadows: Shadows | None = field(init=False)

    def __post_init__(self) -> None:
        rules = {rule.id for profile in self.settings.profiles.values() for rule in profile.every_rule}
        self.metrics = ServerMetrics(
            rules,
            self.settings.profiles,
            self.settings.kinds.views,
            self.settings.exceptions.every,
            self.settings.shadows,
        )
        self.shadows = None
        if self.settings.shadows:
            self.shadows = Shadows(self.settings, self.metrics.shadows, clock=self.clock)
        serving = self.settings.serving
        limit = memory_limit() * serving.body_memory_percent // 100
        share = limit // LANE_SHARE
        # There is always room for as many small bodies as may be answered at once.
        kept = min(serving.max_in_flight * SMALL_BYTES, share)
        self.intake = Intake(limit, self.metrics.intake, kept, clock=self.clock)
        self.reviews = Lane(REVIEWS, self.metrics.lanes[REVIEWS], share, clock=self.clock)
        self.manifests = Lane(MANIFESTS, self.metrics.lanes[MANIFESTS], share, clock=self.clock)
        self.metrics.in_flight.set_function(lambda: self.in_flight)
        self.metrics.life.ready.set_function(lambda: float(not any(self.unready())))
        if self.certificate is not None:
            self.metrics.life.expiry[SERVING].set(self.certificate.not_after.timestamp())

    def share_of_intake(self, size: int) -> int:
        """Returns the charge of a lane for `size` bytes of decoded values, at most its share. There are two lanes and
        each decodes one body at a time. So the memory above the shares is limited and fits beside the intake, which
        must have room for ordinary calls.
        """
        return min(size, self.intake.limit // LANE_SHARE)

    def unready(self) -> Iterator[str]:
        """Yields the reasons why the server is not ready."""
        if self.stopping:
            yield "stopping"
        if self.certificate is None:
            why = self.refused.get(SERVING)
            yield "certificate: none is loaded" + ("" if why is None else f": {why}")
        elif (why := validity(self.certificate, self.clock.now())) is not None:
            yield f"certificate: {why}"
        if self.unguarded:
            yield f"{CLIENT_AUTHORITIES}: none is loaded: {self.refused[CLIENT_AUTHORITIES]}"
        if self.unseen is not None:
            yield self.unseen
        if self.cluster is not None:
            yield from self.cluster.unready()

    def details(self) -> Iterator[str]:
        """Yields problems that need attention but do not make the server unready."""
        for name, why in self.refused.items():
            # A missing certificate or client CA is already a reason not to be ready.
            lacking = {SERVING: self.certificate is None, CLIENT_AUTHORITIES: self.unguarded}
            if not lacking.get(name, False):
                yield f"{name}: not loaded: {why}"

    def degraded(self) -> Iterator[str]:
        """Yields what the enabled backends cannot do in the cluster as it is known."""
        for profile in self.settings.profiles.values():
            yield from profile.backend.init(self.facts)

    def follow(self, access: Access) -> LiveFacts:
        """Uses the cluster that `access` connects to. The caller must run `LiveFacts.run` as a task."""
        self.cluster = live_facts(self.settings, Client(access, clock=self.clock), self._changed, clock=self.clock)
        self.metrics.watch(self.cluster)
        return self.cluster

    def _changed(self, facts: ClusterFacts) -> None:
        before = set(self.degraded()) if self.facts.apis is not None else set()
        self.facts = facts
        if facts.apis is not None:
            for reason in self.degraded():
                if reason not in before:
                    log.warning("degraded", reason=reason)
