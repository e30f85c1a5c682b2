"""The rules of Volcano: one file for each subject, in the order in which they are run and listed."""

from webhook.backends.volcano.rules import (
    disruption,
    opted_in,
    opted_in_topology,
    pod_group,
    pod_group_topology,
    queue,
    queue_object,
    spark,
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
    pod_group_topology,
    queue_object,
    opted_in,
    opted_in_topology,
    spark,
)
