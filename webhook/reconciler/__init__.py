"""The process that writes the schedulers' gang objects for each gang, and their topology objects for each
ClusterTopologyBinding.

In `webhook/gangs`, `plan` returns what a gang needs, `differences` finds what is missing of it (both without I/O), and
`stores` follows PodGangs and gang objects. Here, `queue` holds the keys to work on, and `gangs` brings one gang from
its plan to the cluster through `writer`, which writes only while `lease` is held. `topologies` does the same for a
binding. `events` and `metrics` report what happened, and `run` is the process.
"""
