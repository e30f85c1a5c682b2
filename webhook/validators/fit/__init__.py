"""Rules about gangs that can never start: on the nodes there are, or at all. They share one judgement of each gang."""

from webhook.validators.fit import limits, nodes

SUBJECTS = (nodes, limits)
