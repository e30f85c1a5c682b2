"""The rules of lpx-scheduler: one file for each subject, in the order in which they are run and listed."""

from webhook.backends.lpx.rules import disruption, opted_in, topology
from webhook.validators.registry import collect

RULES = collect(topology, disruption, opted_in)
