"""What the server's parts share: settings, facts, the certificate, and whether it is ready to serve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from webhook.certificates.files import Pair, validity
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.facts import LiveFacts, live_facts
from webhook.config.settings import Settings
from webhook.model.facts import ClusterFacts
from webhook.server.intake import SMALL_BYTES, Intake
from webhook.server.lane import Lane
from webhook.server.lane_metrics import MANIFESTS, REVIEWS
from webhook.server.life_metrics import CLIENT_AUTHORITIES, SERVING
from webhook.server.memory import memory_limit
from webhook.server.metrics import Metrics
from webhook.telemetry.logs import log

# The part of the intake that each lane may fill with what it decodes, and as much again with bodies that wait.
LANE_SHARE = 4


@dataclass(slots=True)
class ServerState:
    """One server's state. The configuration was loaded before; the certificate may run out, and facts may follow a
    cluster.
    """

    settings: Settings
    facts: ClusterFacts
    certificate: Pair | None
    # The cluster that the facts follow; None where they are what they were at the start.
    cluster: LiveFacts | None = None
    # Calls of the webhook that are being answered.
    in_flight: int = 0
    # Calls of the webhook that wait for what they read live. All others are answered in one step of the event loop, or
    # in the lane.
    reading: int = 0
    # Why files of certificates hold something else than what is used, by whose: serving, next, client-ca.
    refused: dict[str, str] = field(default_factory=dict)
    # Whether clients must show certificates, and nobody can say whose are good.
    unguarded: bool = False
    # Why our own port is not as it should be; None where it is, or where nobody looks.
    unseen: str | None = None
    # Whether the process was told to end.
    stopping: bool = False
    metrics: Metrics = field(init=False)
    intake: Intake = field(init=False)
    # Where large reviews are judged, and manifests without a cluster.
    reviews: Lane = field(init=False)
    manifests: Lane = field(init=False)

    def __post_init__(self) -> None:
        rules = {rule.id for profile in self.settings.profiles.values() for rule in profile.every_rule}
        self.metrics = Metrics(rules, self.settings.profiles)
        serving = self.settings.serving
        limit = memory_limit() * serving.body_memory_percent // 100
        share = limit // LANE_SHARE
        # The small bodies that may be answered at once always find room.
        kept = min(serving.max_in_flight * SMALL_BYTES, share)
        self.intake = Intake(limit, self.metrics.intake, kept)
        self.reviews = Lane(REVIEWS, self.metrics.lanes[REVIEWS], share)
        self.manifests = Lane(MANIFESTS, self.metrics.lanes[MANIFESTS], share)
        self.metrics.in_flight.set_function(lambda: self.in_flight)
        self.metrics.life.ready.set_function(lambda: float(not any(self.unready())))
        if self.certificate is not None:
            self.metrics.life.expiry[SERVING].set(self.certificate.not_after.timestamp())

    def share_of_intake(self, size: int) -> int:
        """What a lane charges for `size` bytes of decoded values. There are two lanes, and each decodes one body at a
        time, so what is over their shares is bounded, and fits beside the intake: ordinary calls must find room in it.
        """
        return min(size, self.intake.limit // LANE_SHARE)

    def unready(self) -> Iterator[str]:
        """Why the server should get no traffic; nothing when it is ready."""
        if self.stopping:
            yield "stopping"
        if self.certificate is None:
            why = self.refused.get(SERVING)
            yield "certificate: none is loaded" + ("" if why is None else f": {why}")
        elif (why := validity(self.certificate, datetime.now(UTC))) is not None:
            yield f"certificate: {why}"
        if self.unguarded:
            yield f"{CLIENT_AUTHORITIES}: none is loaded: {self.refused[CLIENT_AUTHORITIES]}"
        if self.unseen is not None:
            yield self.unseen
        if self.cluster is not None:
            yield from self.cluster.unready()

    def details(self) -> Iterator[str]:
        """What somebody should see to although it keeps nobody from being served."""
        for name, why in self.refused.items():
            # Those of which there is none at all are said already, as a reason not to be ready.
            lacking = {SERVING: self.certificate is None, CLIENT_AUTHORITIES: self.unguarded}
            if not lacking.get(name, False):
                yield f"{name}: not loaded: {why}"

    def degraded(self) -> Iterator[str]:
        """What the enabled backends will not be able to do with the cluster as it is known."""
        for profile in self.settings.profiles.values():
            yield from profile.backend.init(self.facts)

    def follow(self, access: Access) -> LiveFacts:
        """Follow the cluster that `access` leads to, once the task is run that `LiveFacts.run` is."""
        self.cluster = live_facts(self.settings, Client(access), self._changed)
        self.metrics.watch(self.cluster)
        return self.cluster

    def _changed(self, facts: ClusterFacts) -> None:
        before = set(self.degraded()) if self.facts.apis is not None else set()
        self.facts = facts
        if facts.apis is not None:
            for reason in self.degraded():
                if reason not in before:
                    log.warning("degraded", reason=reason)
