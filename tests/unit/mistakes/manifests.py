"""Correct manifests, one of each kind. A mistake is one of them with one change."""

from __future__ import annotations


def changed(manifest: str, old: str, new: str) -> str:
    """Return the manifest with its only `old` replaced. A line that is added after others comes with them in `new`."""
    assert manifest.count(old) == 1, (manifest.count(old), old)
    return manifest.replace(old, new)


def on(scheduler: str, manifest: str) -> str:
    """Return the manifest with another scheduler."""
    assert "koord-scheduler" in manifest
    return manifest.replace("koord-scheduler", scheduler)


def labelled(manifest: str, label: str) -> str:
    """Return the manifest with one more label, in the line before the label of the scheduler."""
    head = "  namespace: team-a\n  labels:\n"
    return changed(manifest, head, f"{head}    {label}\n")


def annotated(manifest: str, annotation: str) -> str:
    """Return the manifest with an annotation, in the two lines after its namespace."""
    return changed(manifest, "  namespace: team-a\n", f"  namespace: team-a\n  annotations:\n    {annotation}\n")


def other_label(manifest: str) -> str:
    """Return the manifest without the label of the scheduler."""
    return changed(manifest, "    rollcall.dev/scheduler: koord-scheduler\n", "    team: a\n")


SET = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: serve
  namespace: team-a
  labels:
    app: serve
spec:
  replicas: 1
  template:
    cliques:
    - name: prefill
      spec:
        roleName: prefill
        replicas: 2
        podSpec:
          schedulerName: koord-scheduler
          containers:
          - name: main
            image: example.com/prefill
    - name: decode
      spec:
        roleName: decode
        replicas: 4
        podSpec:
          schedulerName: koord-scheduler
          containers:
          - name: main
            image: example.com/decode
    podCliqueScalingGroups:
    - name: pool
      cliqueNames: [prefill, decode]
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team-a
  labels:
    rollcall.dev/scheduler: koord-scheduler
spec:
  completionMode: Indexed
  parallelism: 4
  completions: 4
  template:
    metadata:
      labels:
        app: train
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: example.com/train
"""
JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  namespace: team-a
  labels:
    rollcall.dev/scheduler: koord-scheduler
spec:
  replicatedJobs:
  - name: driver
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: example.com/driver
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: example.com/worker
"""
GROUPS = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: serve
  namespace: team-a
  labels:
    rollcall.dev/scheduler: koord-scheduler
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 4
    workerTemplate:
      spec:
        containers:
        - name: main
          image: example.com/serve
"""
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata:
  name: torch
  namespace: team-a
spec:
  mlPolicy:
    numNodes: 1
    torch: {}
  template:
    metadata:
      labels:
        rollcall.dev/scheduler: koord-scheduler
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata:
            labels:
              trainer.kubeflow.org/trainjob-ancestor-step: trainer
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: example.com/node
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: train
  namespace: team-a
  labels:
    rollcall.dev/scheduler: koord-scheduler
spec:
  runtimeRef:
    kind: TrainingRuntime
    name: torch
  trainer:
    numNodes: 4
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: team-a
"""
KAI_QUEUES = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: department
spec:
  resources:
    gpu: {quota: -1, limit: -1}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: team-a
spec:
  parentQueue: department
  resources:
    gpu: {quota: -1, limit: -1}
"""
KAI_GROUP = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: serve
  namespace: team-a
spec:
  queue: team-a
  subGroups:
  - name: all
    minSubGroup: 2
  - name: prefill
    parent: all
    minMember: 2
  - name: decode
    parent: all
    minMember: 4
"""
KUEUE_QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: research
  namespace: team-a
spec:
  clusterQueue: gpus
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: gpus
spec:
  namespaceSelector: {}
"""
VOLCANO_QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: team-a
spec:
  weight: 1
  reclaimable: true
"""
VOLCANO_GROUP = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: train
  namespace: team-a
spec:
  minMember: 2
  queue: team-a
"""
POD_GROUP = """\
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: train
  namespace: team-a
spec:
  minMember: 2
"""
KOORDINATOR_GROUP = POD_GROUP.replace("scheduling.x-k8s.io", "scheduling.sigs.k8s.io")


def pods(count: int, scheduler: str, membership: str) -> str:
    """Return Pods with one more entry of the metadata, which names their group."""
    return "".join(
        f"""\
---
apiVersion: v1
kind: Pod
metadata:
  name: train-{index}
  namespace: team-a
  {membership}
spec:
  schedulerName: {scheduler}
  containers:
  - name: main
    image: example.com/train
"""
        for index in range(count)
    )


VOLCANO_MEMBERS = "annotations: {scheduling.k8s.io/group-name: train}"
MEMBERS = "labels: {scheduling.x-k8s.io/pod-group: train}"
CORRECT = {
    "a PodCliqueSet": SET,
    "a PodCliqueSet for Volcano": on("volcano", SET),
    "a PodCliqueSet in a queue of KAI": labelled(on("kai-scheduler", SET), "kai.scheduler/queue: team-a")
    + f"---\n{KAI_QUEUES}",
    "a Job": JOB,
    "a Job for Volcano": on("volcano", JOB),
    "a Job whose pods have its label too": changed(
        JOB, "        app: train\n", "        rollcall.dev/scheduler: koord-scheduler\n"
    ),
    "a JobSet": JOB_SET,
    "a Job in a queue of Kueue": labelled(JOB, "kueue.x-k8s.io/queue-name: research") + f"---\n{KUEUE_QUEUES}",
    "a LeaderWorkerSet": GROUPS,
    "a TrainJob and its runtime": f"{RUNTIME}---\n{TRAIN_JOB}",
    "Queues of KAI": KAI_QUEUES,
    "a PodGroup of KAI and its Queues": f"{KAI_QUEUES}---\n{KAI_GROUP}",
    "a PodGroup of Volcano, its Queue and its pods": f"{VOLCANO_QUEUE}---\n{VOLCANO_GROUP}"
    + pods(2, "volcano", VOLCANO_MEMBERS),
    "a PodGroup of Koordinator and its pods": KOORDINATOR_GROUP
    + pods(2, "koord-scheduler", "labels: {pod-group.scheduling.sigs.k8s.io: train}"),
}
