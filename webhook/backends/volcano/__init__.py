"""volcano: a PodGang becomes one PodGroup of its name, with a subgroup for each PodClique.

Facts here come from volcano-sh/volcano at ed72c7c8 (2026-08) and its tags v1.12.0 to v1.15.1, and from runs of
vc-scheduler v1.15.1 on a real API server ("seen"), unless a docstring says otherwise. Volcano holds a gang with a log
line and nothing else, and drops a topology that it cannot resolve: that is why so much is refused here.
"""
