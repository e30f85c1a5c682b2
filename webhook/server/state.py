"""What the server's parts share: settings, facts, the certificate, and whether it is ready to serve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from webhook.certificates import Pair, validity
from webhook.model.facts import ClusterFacts
from webhook.server.metrics import Metrics
from webhook.settings import Settings


@dataclass(slots=True)
class ServerState:
    """One server's state. Configuration and facts were loaded before; the certificate may run out."""

    settings: Settings
    facts: ClusterFacts
    certificate: Pair | None
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        rules = {rule.id for profile in self.settings.profiles.values() for rule in profile.every_rule}
        self.metrics = Metrics(rules)
        if self.certificate is not None:
            self.metrics.certificate_expiry.set(self.certificate.not_after.timestamp())

    def unready(self) -> Iterator[str]:
        """Why the server should get no traffic; nothing when it is ready."""
        if self.certificate is None:
            yield "certificate: none is loaded"
        elif (why := validity(self.certificate, datetime.now(UTC))) is not None:
            yield f"certificate: {why}"

    def degraded(self) -> Iterator[str]:
        """What the enabled backends will not be able to do with the cluster as it is known."""
        for profile in self.settings.profiles.values():
            yield from profile.backend.init(self.facts)
