"""All checks, in the order in which they run."""

from __future__ import annotations

from webhook.doctor import (
    accounts,
    admission_check,
    certificates,
    clocks,
    controllers,
    gangs,
    gates,
    grove_gates,
    grove_generation,
    grove_operator,
    kinds,
    kueue,
    kueue_configuration,
    kueue_escapes,
    namespaces,
    neighbours,
    net,
    reconciling,
    registered,
    schedulers,
    serving,
    topologies,
)
from webhook.doctor.checking import Check, collect

EVERY_CHECK: tuple[Check, ...] = collect(
    registered,
    certificates,
    neighbours,
    kueue,
    kueue_configuration,
    kueue_escapes,
    net,
    serving,
    reconciling,
    admission_check,
    accounts,
    clocks,
    kinds,
    gates,
    schedulers,
    controllers,
    grove_generation,
    grove_operator,
    grove_gates,
    namespaces,
    topologies,
    gangs,
)
