"""Whether a gang can ever start: the gang as its scheduler packs it, held against nodes, quotas, queues and devices.

Pure. `shape` is the gang as its workload states it, `packing` what one scheduler must place at one moment, `room` the
nodes by class, `verdict` the answer. A verdict *never* is a proof: whatever the scheduler starts is not called never.
docs/explanation/fit.md has the proofs.
"""
