"""The rules of default-scheduler: one file for each subject, in the order in which they are run and listed."""

from webhook.backends.kube.rules import (
    agreement,
    change,
    claims,
    disruption,
    group_shape,
    opted_in,
    opted_in_topology,
    pod,
    pod_group,
    preemption,
    stages,
    tree,
    workload,
)
from webhook.validators.registry import collect

RULES = collect(
    workload,
    disruption,
    change,
    pod_group,
    tree,
    agreement,
    preemption,
    claims,
    pod,
    opted_in,
    opted_in_topology,
    stages,
    group_shape,
)
