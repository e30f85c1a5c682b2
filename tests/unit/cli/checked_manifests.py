"""Manifests for `rollcall check`."""

from __future__ import annotations

FINE = """\
# A set that any scheduler can run.
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: demo
spec:
  replicas: 1
  template:
    cliques:
    - name: leader
      spec:
        replicas: 1
        podSpec:
          containers:
          - name: main
            image: example.com/main
    - name: worker
      spec:
        replicas: 2
        podSpec:
          containers:
          - name: main
            image: example.com/main
        roleName: worker
    podCliqueScalingGroups:
    - name: pool
      cliqueNames: [worker]
"""


KOORD = ("--scheduler", "koord-scheduler")

# Its domains are those of the sets that ask for a topology.
BINDING = """\
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata: {name: dc}
spec: {levels: [{domain: rack, key: example.com/rack}]}
"""
# Refused by koordinator/mnnvl.
NVLINK = FINE.replace("  name: demo\n", "  name: demo\n  annotations:\n    grove.io/mnnvl-group: train\n").replace(
    "            image: example.com/main\n",
    '            image: example.com/main\n            resources: {limits: {nvidia.com/gpu: "8"}}\n',
)
