"""Whether a gang can ever start: the gang as its scheduler packs it, held against nodes, quotas, queues and devices.
Pure.

`gang_shapes` is the gang as its workload states it. `packing` is what one scheduler must place at one moment.
`node_classes` makes the room of the nodes. `feasibility` judges, and `verdict` is the answer. A verdict *never* is a
proof: whatever the scheduler starts is not called never. docs/explanation/fit.md has the proofs.
"""
