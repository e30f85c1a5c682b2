"""Settings that only the reconciler acts on: certificates, audit reports and remedies. `Settings` contains them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Certificates:
    """Whether the reconciler manages the certificates, how long each is valid, at which part of its life it is renewed,
    and how long old and new CA overlap.
    """

    self_managed: bool = False
    ca_validity: timedelta = timedelta(days=365)
    leaf_validity: timedelta = timedelta(days=30)
    renew_at: float = 0.67
    overlap: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Auditing:
    """Whether the reconciler audits what is stored and writes Reports of openreports.io, and how often."""

    open_reports: bool = False
    every: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RemedySettings:
    """Which causes the reconciler remedies, by the names in the configuration; how many seconds a cause must last, how
    many seconds a gang is left alone after its first remedy, and how many remedies there may be a minute. Each deleted
    pod counts as one.
    """

    causes: frozenset[str] = frozenset()
    settle_seconds: float = 30.0
    pause_seconds: float = 60.0
    per_minute: int = 10


# What is set without these sections of the configuration.
NO_CERTIFICATES = Certificates()
NO_REPORTS = Auditing()
NO_REMEDIES = RemedySettings()
