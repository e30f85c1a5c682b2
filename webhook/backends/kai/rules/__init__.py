"""The rules of KAI: one file for each subject, in the order in which they are run and listed."""

from webhook.backends.kai.rules import (
    declared,
    disruption,
    kueue,
    opted_in,
    opted_in_topology,
    pod_group,
    pod_group_place,
    pod_group_topology,
    queue,
    queue_object,
    topology,
    workload,
)
from webhook.validators.registry import collect

RULES = collect(
    workload,
    disruption,
    queue,
    topology,
    pod_group,
    pod_group_place,
    pod_group_topology,
    queue_object,
    opted_in,
    opted_in_topology,
    declared,
    kueue,
)
