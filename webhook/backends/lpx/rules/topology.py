"""What lpx-scheduler cannot do, as far as Grove knows it."""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.lpx.capabilities import CAPABILITIES

topology = families.no_topology(
    "lpx/topology",
    CAPABILITIES,
    """lpx-scheduler has no topology: it would place pods with a constraint on any node.

    Source: ai-dynamo/grove, operator/internal/scheduler/lpx (its ValidatePodCliqueSet rejects any topologyConstraint).
    """,
)
