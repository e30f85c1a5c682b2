"""Misspelt and misplaced kinds, fields, labels and annotations, and kinds of which no gang is made."""

from __future__ import annotations

from tests.unit.mistakes.manifests import (
    GROUPS,
    JOB,
    JOB_SET,
    NAMESPACE,
    RUNTIME,
    SET,
    TRAIN_JOB,
    annotated,
    changed,
    labelled,
    other_label,
)
from tests.unit.mistakes.mistake import Mistake

_LABEL = "rollcall.dev/scheduler: koord-scheduler\n"


def _of_kind(api_version: str, kind: str) -> str:
    return f"""\
apiVersion: {api_version}
kind: {kind}
metadata:
  name: train
  labels:
    {_LABEL}spec: {{}}
"""


MISTAKES = {
    "a kind in the wrong case": Mistake(
        changed(SET, "kind: PodCliqueSet", "kind: PodcliqueSet"), ("2 warning kinds/unknown",)
    ),
    "a misspelt group": Mistake(changed(SET, "grove.io/v1alpha1", "grove.dev/v1alpha1"), ("1 warning kinds/unknown",)),
    "a misspelt group of Kubernetes": Mistake(changed(JOB, "batch/v1", "bacth/v1"), ("1 warning kinds/unknown",)),
    "a misspelt minimum": Mistake(
        changed(SET, "        replicas: 4\n", "        replicas: 4\n        minAvailabe: 2\n"),
        ("25 warning fields/unknown",),
    ),
    "a misspelt size": Mistake(changed(GROUPS, "size: 4", "siez: 4"), ("11 warning fields/unknown",)),
    "a misspelt field of a pod": Mistake(
        changed(
            SET,
            "            image: example.com/decode\n",
            "            image: example.com/decode\n          tolerrations: []\n",
        ),
        ("30 warning fields/unknown",),
    ),
    "a field in snake case": Mistake(
        changed(JOB_SET, "    replicas: 2\n", "    group_name: all\n    replicas: 2\n"),
        ("22 warning fields/unknown",),
    ),
    "nodes in the singular": Mistake(
        f"{RUNTIME}---\n{changed(TRAIN_JOB, 'numNodes', 'numNode')}", ("40 warning fields/unknown",)
    ),
    "resources in the singular": Mistake(
        f"{RUNTIME}---\n{TRAIN_JOB}    resourcePerNode: {{requests: {{cpu: 1}}}}\n",
        ("41 warning fields/unknown",),
        "https://github.com/kubeflow/trainer/issues/2980",
    ),
    "the scheduler beside the cliques": Mistake(
        changed(
            SET.replace("          schedulerName: koord-scheduler\n", ""),
            "  template:\n",
            "  template:\n    schedulerName: koord-scheduler\n",
        ),
        ("8 warning kube/no-gang", "11 warning fields/misplaced"),
    ),
    "the scheduler beside the pod spec": Mistake(
        changed(JOB, "  template:\n", "  template:\n    schedulerName: koord-scheduler\n"),
        ("13 warning fields/misplaced",),
    ),
    "the parallelism in the pod spec": Mistake(
        changed(changed(JOB, "  parallelism: 4\n", ""), "    spec:\n", "    spec:\n      parallelism: 4\n"),
        ("16 warning fields/misplaced",),
    ),
    "the size beside the replicas": Mistake(
        changed(changed(GROUPS, "    size: 4\n", ""), "  replicas: 2\n", "  replicas: 2\n  size: 4\n"),
        ("10 warning fields/misplaced",),
    ),
    "the autoscaling of a scaling group in a clique": Mistake(
        changed(SET, "        replicas: 4\n", "        replicas: 4\n        scaleConfig: {maxReplicas: 8}\n"),
        ("25 warning fields/misplaced",),
    ),
    "a quota in the plural": Mistake(
        annotated(SET, "scheduling.grove.io/koordinator-quotas: research"), ("7 warning keys/unknown",)
    ),
    "a misspelt label of the scheduler": Mistake(
        changed(GROUPS, "rollcall.dev/scheduler:", "rollcall.dev/schedular:"),
        ("7 warning keys/unknown", "1 not judged: "),
    ),
    "the scheduler as an annotation": Mistake(
        annotated(other_label(JOB), _LABEL.strip()), ("7 warning keys/misplaced", "1 not judged: ")
    ),
    "the scheduler as an annotation of the namespace": Mistake(
        f"{NAMESPACE}  annotations:\n    rollcall.dev/scheduler: volcano\n", ("6 warning keys/misplaced",)
    ),
    "the scheduler as a label of the pods": Mistake(
        changed(other_label(JOB), "        app: train\n", f"        {_LABEL}"),
        ("15 warning keys/misplaced", "1 not judged: "),
    ),
    "the scheduler as a label of a replicated Job": Mistake(
        changed(
            other_label(JOB_SET),
            "    replicas: 2\n    template:\n",
            f"    replicas: 2\n    template:\n      metadata:\n        labels:\n          {_LABEL}",
        ),
        ("26 warning keys/misplaced", "1 not judged: "),
    ),
    "the enforcement on a workload": Mistake(
        labelled(SET, "rollcall.dev/enforcement: warn"), ("7 warning keys/misplaced",)
    ),
    "no label at all": Mistake(
        changed(other_label(GROUPS), "        containers:\n", "        schedulerName: volcano\n        containers:\n"),
        ("1 not judged: ",),
        "https://github.com/volcano-sh/volcano/issues/4005",
    ),
    "a TFJob": Mistake(_of_kind("kubeflow.org/v1", "TFJob"), ("6 warning kinds/no-gangs",)),
    "a ReplicaSet": Mistake(_of_kind("apps/v1", "ReplicaSet"), ("6 warning kinds/no-gangs",)),
    "a CronJob": Mistake(_of_kind("batch/v1", "CronJob"), ("6 warning kinds/no-gangs",)),
}
