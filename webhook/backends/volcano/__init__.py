"""volcano: a PodGang becomes one PodGroup with the same name, with a subgroup for each PodClique.

Facts here come from volcano-sh/volcano at ed72c7c8 (2026-08) and its tags v1.12.0 to v1.15.1, and from runs of
vc-scheduler v1.15.1 on a real API server ("seen"), unless a docstring says otherwise. Volcano holds a gang with only a
log line, and drops a topology that it cannot resolve. That is why so much is refused here.
"""
