"""Opted-in workloads, as a user writes them."""

from __future__ import annotations

KOORD = ("--scheduler", "koord-scheduler")
VOLCANO = ("--scheduler", "volcano")
NOT_OPTED_IN = "not opted in: "
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: demo}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template: {spec: {containers: [{name: main, image: example.com/main}], restartPolicy: Never}}
"""
JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: demo}
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {template: {spec: {containers: [{name: main, image: example.com/main}]}}}}
  - name: worker
    replicas: 2
    template:
      spec: {parallelism: 3, completions: 3, template: {spec: {containers: [{name: main, image: example.com/main}]}}}
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: demo}
spec:
  runtimeRef: {name: torch}
  trainer: {numNodes: 3}
"""
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    metadata: {annotations: {}}
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: example.com/node}]}}}
"""
EXCLUSIVE = RUNTIME.replace(
    "annotations: {}", "annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack}"
)
GROUPS = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: demo}
spec:
  replicas: 3
  leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {containers: [{name: main, image: example.com/main}]}}}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {rollcall.dev/scheduler: koord-scheduler}}
"""
JOB_POD = """\
apiVersion: v1
kind: Pod
metadata:
  generateName: demo-worker-0-0-
  labels:
    jobset.sigs.k8s.io/jobset-name: demo
    jobset.sigs.k8s.io/replicatedjob-name: worker
    jobset.sigs.k8s.io/job-index: "0"
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: demo-worker-0, controller: true}]
spec: {containers: [{name: main, image: example.com/main}]}
"""
