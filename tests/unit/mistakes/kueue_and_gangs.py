"""Mistakes in gangs behind Kueue: pods that it admits one at a time, pod groups, and topologies."""

from __future__ import annotations

from tests.unit.mistakes.manifests import JOB_SET, SET, annotated, changed, labelled, on
from tests.unit.mistakes.mistake import Mistake

_QUEUE, _GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group"
_PREFILL, _DECODE = "    - name: prefill\n", "    - name: decode\n"
_LOCAL_QUEUE = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: default
  namespace: team-a
spec:
  clusterQueue: research
"""


def _grouped(total: str) -> str:
    """Return the set in a pod group of Kueue: six pods. The annotations of its cliques are in lines 14 and 25."""
    more = (
        f"      labels: {{{_QUEUE}: team}}\n"
        f'      annotations: {{{_GROUP}-name: serve, {_GROUP}-total-count: "{total}"}}\n'
    )
    return changed(changed(SET, _PREFILL, f"{_PREFILL}{more}"), _DECODE, f"{_DECODE}{more}")


def _placed() -> str:
    """Return the JobSet with a rack that KAI requires, and one that each replicated Job asks Kueue for."""
    asked = "annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}"
    found = JOB_SET.replace(
        "        template:\n          spec:\n",
        f"        template:\n          metadata:\n            {asked}\n          spec:\n",
    )
    near = "kai.scheduler/topology: dc\n    kai.scheduler/topology-required-placement: example.com/rack"
    return annotated(labelled(on("kai-scheduler", found), f"{_QUEUE}: team"), near)


MISTAKES = {
    "a queue of Kueue in a clique": Mistake(
        changed(SET, _PREFILL, f"{_PREFILL}      labels: {{{_QUEUE}: team}}\n"), ("13 warning kueue/pod-by-pod",)
    ),
    "a default queue in the namespace of a PodCliqueSet": Mistake(
        f"{SET}{_LOCAL_QUEUE}", ("5 warning kueue/pod-by-pod",)
    ),
    "a pod group of fewer pods than the set has": Mistake(
        _grouped("4"), ("14 error kueue/pod-group-size", "25 error kueue/pod-group-size")
    ),
    "a pod group for the gangs of two replicas": Mistake(
        changed(_grouped("12"), "  replicas: 1\n", "  replicas: 2\n"), ("14 warning kueue/pod-group-name",)
    ),
    "two pod sets in one rack each, and a gang in one rack": Mistake(_placed(), ("8 warning kueue/topology-apart",)),
}
