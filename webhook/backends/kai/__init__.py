"""KAI: one PodGroup a PodGang, with a tree of subgroups, a queue, and topology at every level.

`kai-scheduler` reads a pod's group from an annotation and its subgroup from a label; KAI's own podgrouper is told by
another annotation to leave such pods alone. Facts of: KAI-Scheduler v0.15.2 to 2026-08.
"""
