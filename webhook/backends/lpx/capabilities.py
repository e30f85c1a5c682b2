"""What lpx-scheduler honours, as far as Grove knows it."""

from __future__ import annotations

from webhook.backends.families import TOPOLOGY, without_topology
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable

CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    **dict.fromkeys(TOPOLOGY, without_topology("lpx-scheduler")),
}
