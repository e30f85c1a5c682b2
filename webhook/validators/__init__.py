"""The rules: small functions that each prevent one fault of one scheduler.

`registry` defines what a rule is and runs the rules. The other modules hold the rules that apply to every backend. A
backend's own rules are in its folder under `webhook.backends`. To add one, write one function: see CONTRIBUTING.md.
"""

from webhook.validators import (
    api_names,
    choice,
    fit_limits,
    gang_pods,
    group_members,
    grove_cliques,
    grove_templates,
    grove_topology,
    kueue_pod_groups,
    kueue_queues,
    kueue_readiness,
    kueue_refusals,
    kueue_topology,
    operator_pod_groups,
    opted_in_agreement,
    opted_in_claims,
    opted_in_controllers,
    quantities,
    refused_workloads,
    startup_order,
    volcano_jobs,
    wrong_types,
)
from webhook.validators.registry import collect

# Run instead of all other rules on an object that cannot be read.
SHAPE_RULES = collect(wrong_types)
# Judged before the backend is known.
CHOICE_RULES = collect(choice)
# Judged for every backend, before its own rules.
GENERAL_RULES = collect(
    grove_cliques,
    grove_templates,
    grove_topology,
    startup_order,
    gang_pods,
    opted_in_controllers,
    refused_workloads,
    volcano_jobs,
    opted_in_claims,
    opted_in_agreement,
    kueue_queues,
    kueue_refusals,
    kueue_readiness,
    kueue_pod_groups,
    kueue_topology,
    fit_limits,
    api_names,
    group_members,
    quantities,
    operator_pod_groups,
)
