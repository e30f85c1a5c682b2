"""Metrics of network traffic: bytes of bodies, and connections that the process ended."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge


class Ended(StrEnum):
    """Why the process ended a connection before its client did."""

    # It was idle for longer than an API server keeps an idle connection.
    IDLE = "idle"
    # No data had arrived on it, and more than half of the allowed connections were in use.
    UNUSED = "unused"
    # There were as many connections as allowed.
    REPLACED = "replaced"
    # The TLS handshake was not complete in time.
    HANDSHAKE = "handshake"
    # The head of a request came too slowly, or was too large.
    HEAD = "head"
    # Too many requests were sent ahead of their answers.
    PIPELINED = "pipelined"
    # Its client did not read its answer.
    UNREAD = "unread"


class ConnectionMetrics:
    """The connection metrics of one process, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        closed = Counter(
            "rollcall_connections_closed", "Connections to any port that the process closed, by reason.", ("reason",),
            registry=registry,
        )  # fmt: skip
        self.closed = {reason: closed.labels(reason) for reason in Ended}


class IntakeMetrics:
    """The intake metrics of one server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.intake_bytes = Gauge(
            "rollcall_intake_bytes", "Bytes of bodies, and of the data decoded from them, that are held now.",
            registry=registry,
        )  # fmt: skip
        self.intake_limit = Gauge(
            "rollcall_intake_limit_bytes", "The most bytes of bodies and decoded data that may be held: a "
            "part of the memory limit.",
            registry=registry,
        )  # fmt: skip
        self.uploads_ended = Counter(
            "rollcall_uploads_ended",
            "Uploads that were closed because other requests needed the memory.",
            registry=registry,
        )
        self.uploads_refused = Counter(
            "rollcall_uploads_refused", "Uploads that were refused because there was no memory.", registry=registry
        )
