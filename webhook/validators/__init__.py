"""The rules: small functions that each prevent one fault of one scheduler.

`registry` defines what a rule is and runs the rules. The other modules hold the rules that apply to every backend. A
backend's own rules are in its folder under `webhook.backends`. To add one, write one function: see CONTRIBUTING.md.
"""

from webhook.validators import (
    choice,
    field_names,
    fit,
    gang_shape,
    group_members,
    grove_limits,
    grove_templates,
    grove_topology,
    key_names,
    kind_names,
    kueue,
    operator_group,
    opted_in_agreement,
    opted_in_choice,
    opted_in_claims,
    opted_in_hindrances,
    opted_in_limits,
    opted_in_origin,
    opted_in_shape,
    opted_in_topology,
    pod_origin,
    podcliqueset,
    quantities,
    refused_workloads,
    scales,
    shape,
    startup_order,
    unknown_owner,
    volcano_jobs,
)
from webhook.validators.registry import collect

# Run instead of all other rules on an object that cannot be read.
SHAPE_RULES = collect(shape, opted_in_shape)
# Judged before the backend is known.
CHOICE_RULES = collect(choice, opted_in_choice)
# Judged for every backend, before its own rules.
GENERAL_RULES = collect(
    podcliqueset,
    grove_limits,
    grove_templates,
    grove_topology,
    startup_order,
    gang_shape,
    scales,
    pod_origin,
    unknown_owner,
    opted_in_hindrances,
    opted_in_limits,
    refused_workloads,
    volcano_jobs,
    opted_in_origin,
    opted_in_claims,
    opted_in_agreement,
    opted_in_topology,
    *kueue.SUBJECTS,
    *fit.SUBJECTS,
    key_names,
    field_names,
    kind_names,
    group_members,
    quantities,
    operator_group,
)
