"""Rules about Kueue in front of a gang scheduler. They hold for every scheduler.

Kueue decides when a workload starts, the scheduler where its pods run. Kueue does not know the gang, and the scheduler
does not know the quota.
"""

from webhook.validators.kueue import (
    counts,
    grove,
    kube_scheduler,
    queues,
    readiness,
    refusals,
    roles,
    template_keys,
    topology,
)

# In the order in which they are judged.
SUBJECTS = (queues, refusals, template_keys, readiness, counts, grove, roles, topology, kube_scheduler)
