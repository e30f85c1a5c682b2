"""The process that writes the schedulers' gang objects for each gang, and their topology objects for each
ClusterTopologyBinding.

In `webhook/gangs`, `object_plan` plans what a gang needs and finds what is missing of it (without I/O), and `stores`
follows PodGangs and gang objects. Here, `work_queue` holds the keys to work on, and `gangs` brings one gang from its
plan to the cluster through `writer`, which writes only while `lease` is held. `topologies` does the same for a
binding. `events` and `metrics` report what happened, and `manager` starts and stops the controllers.
"""
