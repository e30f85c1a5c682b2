"""Workloads that are not Grove's: TrainJob, JobSet, LeaderWorkerSet and Job, and the gangs that their pods are.

Pure views, as everything in the model: `kinds` names them, `workload` is what all have in common, then one file a kind;
`gang` makes of a workload what the schedulers' backends take, `place` finds a pod's place in it.
"""
