"""What preemption by KAI does to a gang that asks to be preempted as a whole."""

from webhook.backends import disruption_families

disruption_ignored = disruption_families.spare_pods_are_taken_singly(
    "kai/disruption-ignored",
    """KAI evicts a gang at its minimum as a whole. Pods above the minimum are taken one by one, before that. The label
    kai.scheduler/preemptibility with the value non-preemptible keeps all pods, but then the gang may use only the quota
    of its queue.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/eviction_info.go (`GetTasksToEvict`).
    """,
    why="kai-scheduler takes pods above the minimum one by one, and only the rest as a whole",
    defaultQueue="team-a",
)
