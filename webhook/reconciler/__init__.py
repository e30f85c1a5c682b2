"""The process that writes what admission prepares pods for: the schedulers' gang objects, for each PodGang, and their
topology objects, for each ClusterTopologyBinding.

A tour: `plan` says what a PodGang needs, and `differences` what of it is not there; both are pure. `stores` follows the
PodGangs and the gang objects, `queue` holds the keys that want attention, `gangs` takes one key from the plan to the
cluster, by `writing`, which writes only while `lease` holds, and `topologies` does so for a binding. `events` and
`metrics` say what happened, and `run` is the process.
"""
