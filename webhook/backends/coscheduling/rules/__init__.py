"""The rules of Coscheduling: one file for each subject, in the order in which they are run and listed."""

from webhook.backends.coscheduling.rules import disruption, kueue, workload
from webhook.validators.registry import collect

RULES = collect(workload, disruption, kueue)
