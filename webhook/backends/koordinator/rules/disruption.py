"""What preemption by koord-scheduler does to a gang that asks to be preempted as a whole."""

from webhook.backends import disruption_families

disruption_ignored = disruption_families.pods_are_taken_singly(
    "koordinator/disruption-ignored",
    """koord-scheduler preempts pods, not gangs. All three plugins that preempt (Coscheduling with enablePreemption,
    ElasticQuota, DefaultPreemption) choose victims pod by pod on each node and do not look at their gang. A gang that
    loses a pod keeps the others running below its minimum. The label quota.scheduling.koordinator.sh/preemptible with
    the value "false" keeps pods from the first two, and then counts them against the min of their quota.

    Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/coscheduling/core/preemption.go (`selectVictims`),
    pkg/scheduler/plugins/elasticquota/preempt.go, apis/extension/elastic_quota.go,
    config/manager/scheduler-config.yaml.
    """,
    why="koord-scheduler chooses victims pod by pod, so it may take single pods of the gang",
    remedy="remove the label, or give the gang the highest priority",
)
