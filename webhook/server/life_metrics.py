"""Metrics of the server's life: its certificates, its connections, and whether it is stopping."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

SERVING, NEXT, CLIENT_AUTHORITIES = "serving", "next", "client-ca"


class LifeMetrics:
    """The metrics of one server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        expiry = Gauge(
            "rollcall_certificate_expiry_timestamp_seconds",
            "When a certificate expires: the one that is served, and the next one. 0: there is none.",
            ("certificate",), registry=registry,
        )  # fmt: skip
        reloads = Counter(
            "rollcall_certificate_reloads",
            "Times that certificate files had new content, by whether it was valid; the first load counts too.",
            ("certificate", "outcome"), registry=registry,
        )  # fmt: skip
        refused = Gauge(
            "rollcall_certificate_refused", "1 while the files have content that cannot be served.",
            ("certificate",), registry=registry,
        )  # fmt: skip
        self.ready = Gauge(
            "rollcall_ready", "1 while the server is ready; if it is not, /readyz says why.", registry=registry
        )
        self.draining = Gauge("rollcall_draining", "1 while the server is shutting down.", registry=registry)
        self.connections = Gauge("rollcall_connections", "Connections to the serving port.", registry=registry)
        self.recycled = Counter(
            "rollcall_connections_recycled", "Connections that were closed because of their age.", registry=registry
        )
        names = (SERVING, NEXT, CLIENT_AUTHORITIES)
        self.expiry = {name: expiry.labels(name) for name in (SERVING, NEXT)}
        self.reloads = {(name, word): reloads.labels(name, word) for name in names for word in ("loaded", "refused")}
        self.refused = {name: refused.labels(name) for name in names}
