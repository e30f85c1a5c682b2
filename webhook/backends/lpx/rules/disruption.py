"""What is known of preemption by lpx-scheduler."""

from webhook.backends import disruption_families

disruption_ignored = disruption_families.pods_are_taken_singly(
    "lpx/disruption-ignored",
    """Rollcall writes no gang objects for lpx-scheduler, and Grove's PodGang has no disruption mode, so the scheduler
    never learns the mode that a workload asks for.

    Source: ai-dynamo/grove, scheduler/api/core/v1alpha1/podgang.go, operator/internal/scheduler (lpx).
    """,
    why="lpx-scheduler is not told the mode, so preemption may take single pods of the running gang",
    remedy="remove the label",
)
