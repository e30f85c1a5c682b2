"""What preemption by Volcano does to a gang that asks to be preempted as a whole."""

from webhook.backends import disruption_families

disruption_ignored = disruption_families.spare_pods_are_taken_singly(
    "volcano/disruption-ignored",
    """Volcano's plugin gang protects a gang at its minMember from the actions preempt and reclaim, which are off by
    default. Pods above minMember are taken one by one, and only the sum of all members counts: a member may fall below
    its own minimum while the sum stays above.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang/gang.go (`AddPreemptableFn`, `AddReclaimableFn`),
    installer/helm/chart/volcano/config (actions of the default configuration).
    """,
    why="Volcano takes pods above minMember one by one, and counts only the sum of all members",
)
