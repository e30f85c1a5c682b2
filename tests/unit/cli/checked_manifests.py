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
    podCliqueScalingGroups:
    - name: pool
      cliqueNames: [worker]
"""


KOORD = ("--scheduler", "koord-scheduler")
