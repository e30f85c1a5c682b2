"""The rules of Koordinator: one file for each subject, in the order in which they are run and listed."""

from webhook.backends.koordinator.rules import (
    change,
    disruption,
    gang_group,
    opted_in,
    opted_in_topology,
    pod,
    pod_group,
    pod_group_topology,
    qos,
    quota,
    topology,
    workload,
)
from webhook.validators.registry import collect

RULES = collect(
    workload,
    disruption,
    change,
    topology,
    qos,
    quota,
    gang_group,
    pod_group,
    pod_group_topology,
    pod,
    opted_in,
    opted_in_topology,
)
