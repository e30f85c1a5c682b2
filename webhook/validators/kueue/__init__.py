"""Rules about Kueue in front of a gang scheduler. They hold for every scheduler.

Kueue decides when a workload starts, the scheduler where its pods run. Kueue does not know the gang, and the scheduler
does not know the quota.
"""

from webhook.validators.kueue import grove, kube_scheduler, roles, topology

# In the order in which they are judged.
SUBJECTS = (grove, roles, topology, kube_scheduler)
