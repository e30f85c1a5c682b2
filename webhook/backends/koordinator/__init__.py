"""koord-scheduler: a PodGang becomes a GangGroup, one PodGroup a PodClique, each naming all the others.

Facts here come from koordinator-sh/koordinator at a7a1b76b (2026-07) and its tags v1.4.0 to v1.8.0, unless a
docstring says otherwise. Koordinator validates none of what it is given: a wrong value is logged by the scheduler and
replaced by a default, and an incomplete gang is held without an event. That is why so much is refused here.
"""
