"""The controllers of other projects beside a control plane, as real processes with their webhooks: JobSet,
LeaderWorkerSet, Trainer, KubeRay and Kueue.

A test asks for them with the fixture `controllers`. `systems` is the table of what they differ in.
"""
