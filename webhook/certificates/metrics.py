"""The metrics of self-managed certificates; all are 0 if certificates are not self-managed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.certificates.plan import Step
from webhook.certificates.state import Stored
from webhook.certificates.x509 import KeyPair

CA, LEAF = "ca", "leaf"
# The actions for each kind, as in `rollcall_writes`.
CERTIFICATE_WRITES = {
    "Secret": ("create", "replace"),
    "MutatingWebhookConfiguration": ("apply", "disown"),
    "ValidatingWebhookConfiguration": ("apply", "disown"),
}


class CertificateMetrics:
    """The certificate metrics of one reconciler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.authorities = Gauge(
            "rollcall_ca_expiry_timestamp_seconds",
            "When the self-managed authority expires: the current one and, during a rotation, the next one; 0 "
            "if there is none.",
            ["ca"],
            registry=registry,
        )
        self.leaf = Gauge(
            "rollcall_leaf_expiry_timestamp_seconds",
            "When the stored self-managed serving certificate expires; 0 if there is none.",
            registry=registry,
        )
        self.step = Gauge(
            "rollcall_rotation_step",
            "1 for the current step of the self-managed certificates; step none: nothing is to be done.",
            ["step"],
            registry=registry,
        )
        self.rotations = Counter(
            "rollcall_rotations", "Authorities and serving certificates replaced.", ["what"], registry=registry
        )
        self.repairs = Counter(
            "rollcall_certificate_repairs",
            "Secrets of certificates that were lost or unusable and were recreated.",
            ["what"],
            registry=registry,
        )
        self.bundles = Counter(
            "rollcall_ca_bundle_writes", "Times that caBundles of a configuration were written.", registry=registry
        )
        self.failures = Counter(
            "rollcall_certificate_failures",
            "Times that a step of the self-managed certificates failed.",
            registry=registry,
        )
        for which in ("current", "next"):
            self.authorities.labels(which)
        for what in (CA, LEAF):
            self.rotations.labels(what)
            self.repairs.labels(what)
        for step in Step:
            self.step.labels(step.value)

    def show(self, stored: Stored) -> None:
        """Set the metrics of the stored certificates."""
        authority = stored.authority
        self.authorities.labels("current").set(_end(authority.current))
        self.authorities.labels("next").set(_end(authority.next))
        self.leaf.set(_end(stored.serving.pair))

    def at(self, now: Step) -> None:
        """Set the metric of the next step."""
        for step in Step:
            self.step.labels(step.value).set(1 if step is now else 0)


def _end(pair: KeyPair | None) -> float:
    return 0.0 if pair is None else pair.certificate.not_valid_after_utc.timestamp()
