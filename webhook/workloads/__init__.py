"""The kinds of workloads: PodCliqueSet, TrainJob, JobSet, LeaderWorkerSet, Job, the kinds that a WorkloadShape
declares, and the gangs of their pods.

All are pure views. `opted_in_workload` is what the opted-in kinds have in common, and each kind has one file.
`opted_in_gang` turns a workload into the gangs that backends take. `workload_kinds` has all kinds of one
configuration.
"""
