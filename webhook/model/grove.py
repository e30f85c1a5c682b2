"""Grove's keys: the labels, annotations, gates and domains. Rollcall writes none of them but the trigger, for a remedy.

Source: ai-dynamo/grove, operator/api/common/labels.go and operator/internal/mnnvl (main, 2026-08).
"""

GROUP = "grove.io"
SCHEDULER_GROUP = "scheduler.grove.io"

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_GROVE = "grove-operator"
LABEL_PART_OF = "app.kubernetes.io/part-of"
LABEL_PODGANG = "grove.io/podgang"
LABEL_PODCLIQUE = "grove.io/podclique"
LABEL_REPLICA = "grove.io/podcliqueset-replica-index"
# On the PodGangs of v0.1.0-alpha.12 and later. Source: ai-dynamo/grove, pull request 778.
LABEL_EPOCH = "grove.io/epoch"
# On the pods of a scaling group: the group's full name, and the index of the replica.
LABEL_SCALING_GROUP = "grove.io/podcliquescalinggroup"
LABEL_SCALING_GROUP_REPLICA = "grove.io/podcliquescalinggroup-replica-index"

# On a PodGang: the scheduler that Grove prepares its pods for.
LABEL_SCHEDULER = "grove.io/scheduler-name"
# For these schedulers Grove's own backend prepares the pods and writes the PodGroups. They have the kind and the
# controller that Rollcall's would have.
WRITERS = frozenset({"volcano", "kai-scheduler"})

# On a PodGang with topology: the ClusterTopologyBinding of its domains.
TOPOLOGY_NAME = "grove.io/topology-name"

# A condition of a PodCliqueSet, True while the operator of v0.1.0-alpha.12 and later replaces the PodGangs of the
# versions before it. Source: pull request 778.
MIGRATING = "PodGangMigrationInProgress"

GATE = "grove.io/podgang-pending-creation"
# On a PodCliqueSet: Grove's operator reconciles it when the value changes. Source: ai-dynamo/grove,
# operator/internal/controller/podcliqueset/register.go (fcc3b3bb).
RECONCILE_TRIGGER = "grove.io/reconcile-trigger"
# How often at the least an operator with pull request 784 reconciles a PodClique without any event; without it
# (fcc3b3bb) only an event does. Source: ai-dynamo/grove, operator/internal/controller/podclique/reconciler.go: the
# smaller of `PodCliqueStatusResyncInterval` and the set's `terminationDelay`.
RESYNC_MINUTES = 3

MNNVL_GROUP = "grove.io/mnnvl-group"
# The value that removes a clique, a scaling group or a set from its parent's group.
MNNVL_NONE = "none"
# Read up to v0.1.0-alpha.8, ignored since. A manifest that has it still intends multi-node NVLink.
AUTO_MNNVL = "grove.io/auto-mnnvl"
AUTO_MNNVL_ENABLED = "enabled"

# Grove treats a clique as a GPU clique only if it requests this resource. GPUs from DRA claims do not count.
GPU_RESOURCE = "nvidia.com/gpu"
