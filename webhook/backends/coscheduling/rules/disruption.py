"""What preemption by scheduler-plugins does to a gang that asks to be preempted as a whole."""

from webhook.backends import disruption_families

disruption_ignored = disruption_families.pods_are_taken_singly(
    "coscheduling/disruption-ignored",
    """Coscheduling holds a gang until its minimum is there, and has no part in preemption. kube-scheduler's plugin
    DefaultPreemption, which is on in scheduler-plugins too, chooses victims pod by pod on each node. A gang that loses
    a pod keeps the others running below its minimum.

    Source: kubernetes-sigs/scheduler-plugins v0.34.7, pkg/coscheduling/coscheduling.go (its PostFilter only rejects
    pods that wait), manifests/coscheduling/scheduler-config.yaml.
    """,
    why="Coscheduling has no part in preemption, which may take single pods of the gang",
    remedy="remove the label, or give the gang the highest priority",
)
