"""Kueue beside a gang scheduler: its keys and objects, how it is configured, and which workloads it holds, as which pod
sets. No rules.

Kueue decides when a workload may start; the scheduler places its pods afterwards. Source: kubernetes-sigs/kueue v0.19.
"""
