"""Opted-in workloads: TrainJob, JobSet, LeaderWorkerSet and Job, and the gangs of their pods.

All are pure views. `kinds` names the kinds, `workload` is what they have in common, and each kind has one file. `gang`
turns a workload into the gangs that backends take. `place` finds the place of a pod in its workload.
"""
