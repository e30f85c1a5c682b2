"""KAI: one PodGroup per PodGang, with a tree of subgroups, a queue, and topology at every level.

`kai-scheduler` reads a pod's group from an annotation and its subgroup from a label. Another annotation tells KAI's
own podgrouper to leave such pods alone. Facts from: KAI-Scheduler v0.15.2 to 2026-08.
"""
