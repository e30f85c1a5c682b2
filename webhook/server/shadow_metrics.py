"""Metrics of the shadows: what they would have answered, by which rules, and for how much time."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from webhook.admission.shadow import ShadowAnswer, Would
from webhook.config.settings import Shadow
from webhook.validators import CHOICE_RULES, SHAPE_RULES

_REAL = ("allowed", "denied")


class ShadowMetrics:
    """The metrics of all shadows of a server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry, shadows: Sequence[Shadow]) -> None:
        reviews = Counter(
            "rollcall_shadow_reviews",
            "Reviews of workloads, by what was answered and what a shadow would have answered.",
            ("shadow", "decision", "would"), registry=registry,
        )  # fmt: skip
        denials = Counter(
            "rollcall_shadow_denials", "Allowed reviews of workloads that a rule of a shadow would have denied.",
            ("shadow", "rule"), registry=registry,
        )  # fmt: skip
        unjudged = Counter(
            "rollcall_shadow_unjudged", "Reviews of workloads for which a rule of a shadow lacked the facts to judge.",
            ("shadow", "rule"), registry=registry,
        )  # fmt: skip
        seconds = Counter(
            "rollcall_shadow_seconds", "Seconds of a processor that a shadow has used.", ("shadow",), registry=registry
        )
        self._reviews = {
            (one.name, real, would): reviews.labels(one.name, real, would)
            for one in shadows
            for real in _REAL
            for would in Would
        }
        ids = [(one.name, rule) for one in shadows for rule in _rules_of(one)]
        self._denials = {both: denials.labels(*both) for both in ids}
        self._unjudged = {both: unjudged.labels(*both) for both in ids}
        self._seconds = {one.name: seconds.labels(one.name) for one in shadows}

    def count(self, shadow: str, found: ShadowAnswer, *, allowed: bool, seconds: float) -> None:
        """Count what a shadow said of a review that was `allowed` or not, and the processor time that it took."""
        self._reviews[shadow, "allowed" if allowed else "denied", found.would].inc()
        self._seconds[shadow].inc(seconds)
        for rule in found.rules if allowed and found.would is Would.DENIED else ():
            self._denials[shadow, rule].inc()
        for rule in found.unjudged:
            self._unjudged[shadow, rule].inc()


def _rules_of(shadow: Shadow) -> set[str]:
    own = (rule for profile in shadow.settings.profiles.values() for rule in profile.every_rule)
    return {rule.id for rule in (*own, *SHAPE_RULES, *CHOICE_RULES)}
