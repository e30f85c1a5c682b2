"""What lpx-scheduler cannot do, as far as Grove knows it."""

from __future__ import annotations

from webhook.backends.base import BackendSettings
from webhook.backends.lpx.capabilities import CAPABILITIES, TOPOLOGY
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import pod_clique_set, required
from webhook.validators.membership import unsupported
from webhook.validators.registry import Context, Example, Results, rule


@rule(
    "lpx/topology",
    capability=TOPOLOGY,
    passes=Example(pod_clique_set()),
    fails=Example(pod_clique_set(topologyConstraint=required("rack"))),
)
def topology(workload: PodCliqueSet, context: Context[BackendSettings]) -> Results:
    """lpx-scheduler has no topology: pods with a constraint would be placed anywhere.

    Source: ai-dynamo/grove, operator/internal/scheduler/lpx (its ValidatePodCliqueSet rejects any topologyConstraint).
    """
    for capability in TOPOLOGY:
        yield from unsupported(capability, CAPABILITIES, context)
