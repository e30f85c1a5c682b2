"""Metrics of the server's life: its certificates, its connections, and whether it is stopping."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

SERVING, NEXT, CLIENT_AUTHORITIES = "serving", "next", "client-ca"


class LifeMetrics:
    """The metrics of one server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        expiry = Gauge(
            "rollcall_certificate_expiry_timestamp_seconds",
            "When a certificate ends: the one that is served, and the one that is to follow. 0: there is none.",
            ("certificate",), registry=registry,
        )  # fmt: skip
        reloads = Counter(
            "rollcall_certificate_reloads",
            "Times that files of certificates held something new, by whether it was good; the first time, too.",
            ("certificate", "outcome"), registry=registry,
        )  # fmt: skip
        refused = Gauge(
            "rollcall_certificate_refused", "1 while the files hold something that cannot be served.",
            ("certificate",), registry=registry,
        )  # fmt: skip
        self.ready = Gauge(
            "rollcall_ready", "1 while the server is ready; /readyz says why it is not.", registry=registry
        )
        self.draining = Gauge("rollcall_draining", "1 while the server is about to stop.", registry=registry)
        self.connections = Gauge("rollcall_connections", "Connections to the serving port.", registry=registry)
        self.recycled = Counter(
            "rollcall_connections_recycled", "Connections that were ended for their age.", registry=registry
        )
        names = (SERVING, NEXT, CLIENT_AUTHORITIES)
        self.expiry = {name: expiry.labels(name) for name in (SERVING, NEXT)}
        self.reloads = {(name, word): reloads.labels(name, word) for name in names for word in ("loaded", "refused")}
        self.refused = {name: refused.labels(name) for name in names}
