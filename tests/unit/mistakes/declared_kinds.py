"""Mistakes in workloads of kinds that WorkloadShapes declare."""

from __future__ import annotations

from tests.unit.mistakes.manifests import changed
from tests.unit.mistakes.mistake import Mistake

_CONTAINERS = "{containers: [{name: main, image: example.com/main}]}"
_PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: tune
  namespace: research
  labels:
    rollcall.dev/scheduler: koord-scheduler
spec:
  elasticPolicy:
    minReplicas: 2
  runPolicy: {}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        spec: {containers: [{name: pytorch, image: example.com/main}]}
"""
_VOLCANO_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: tune
  namespace: research
  labels:
    rollcall.dev/scheduler: volcano
spec:
  tasks:
  - name: driver
    replicas: 1
    template:
      spec:
        containers: [{name: main, image: example.com/main}]
"""
_STATEFUL_SET = f"""\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: serve
  namespace: research
  labels:
    rollcall.dev/scheduler: koord-scheduler
spec:
  replicas: 3
  serviceName: serve
  selector: {{matchLabels: {{app: serve}}}}
  template:
    metadata: {{labels: {{app: serve}}}}
    spec: {_CONTAINERS}
"""
MISTAKES = {
    "PyTorchJob: a minimum above minReplicas": Mistake(
        changed(_PYTORCH_JOB, "  runPolicy: {}\n", "  runPolicy:\n    schedulingPolicy:\n      minAvailable: 4\n"),
        ("13 warning owner/operator", "12 warning owner/operator"),
        "https://github.com/kubeflow/trainer/issues/1571",
    ),
    "PyTorchJob: another scheduler of the workers": Mistake(
        changed(_PYTORCH_JOB, "{containers:", "{schedulerName: volcano, containers:"),
        ("16 error owner/scheduler-name",),
    ),
    "Volcano's Job: a task of another scheduler": Mistake(
        changed(_VOLCANO_JOB, "        containers:", "        schedulerName: default-scheduler\n        containers:"),
        ("14 error owner/incomplete",),
    ),
    "StatefulSet: one pod after the other": Mistake(_STATEFUL_SET, ("8 error owner/incomplete",)),
}
