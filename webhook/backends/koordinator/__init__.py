"""koord-scheduler: a PodGang becomes a GangGroup: one PodGroup per PodClique, each listing all the others.

Facts here come from koordinator-sh/koordinator at a7a1b76b (2026-07) and its tags v1.4.0 to v1.8.0, unless a docstring
says otherwise. Koordinator does not validate its input. The scheduler logs a wrong value and uses a default, and holds
an incomplete gang without an event. That is why so much is refused here.
"""
