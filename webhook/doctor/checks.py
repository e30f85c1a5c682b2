"""All checks, in the order in which they run."""

from __future__ import annotations

from webhook.doctor import (
    accounts,
    admission_check,
    certificates,
    clocks,
    gangs,
    gates,
    grove_generation,
    grove_operator,
    kinds,
    kueue_escapes,
    namespaces,
    neighbours,
    net,
    reconciling,
    registered,
    schedulers,
    serving,
)
from webhook.doctor.checking import Check, collect

EVERY_CHECK: tuple[Check, ...] = collect(
    registered,
    certificates,
    neighbours,
    net,
    serving,
    reconciling,
    admission_check,
    accounts,
    clocks,
    kinds,
    kueue_escapes,
    gates,
    schedulers,
    grove_generation,
    grove_operator,
    namespaces,
    gangs,
)
