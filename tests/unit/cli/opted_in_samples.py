"""The published samples of Kubeflow Trainer, JobSet, LeaderWorkerSet and KAI, or stand-ins of the same shape.

The published ones are read where ROLLCALL_SAMPLES says where they are. A stand-in has what the expectations depend on:
names, counts, order, schedulers and marks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from webhook.errors import InputError
from webhook.offline.manifests import Document, files_in, read_file

PUBLISHED = os.environ.get("ROLLCALL_SAMPLES")


def place_samples(folder: Path) -> Path:
    """Where the samples are: `folder`, into which the stand-ins are written, unless there are the published ones."""
    if PUBLISHED is not None:
        return Path(PUBLISHED)
    for name, content in _STAND_INS.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return folder


def readable_files(folder: Path) -> dict[Path, list[Document]]:
    """The files in a folder with their documents, without what cannot be read: in a published one a key is twice."""
    readable, files = {}, list(files_in(folder))
    for path in files:
        with suppress(InputError):
            readable[path] = read_file(path)
    assert len(readable) > 0.95 * len(files)
    return readable


def _runtime(name: str, policy: str, plugin: str = "") -> str:
    return f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {{name: {name}}}
spec:
  mlPolicy: {{numNodes: 1, {policy}: {{}}}}
{plugin}  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec: {{template: {{spec: {{containers: [{{name: node, image: example.com/node}}]}}}}}}
"""


def _train_job(name: str, runtime: str, nodes: int, more: str = "") -> str:
    return f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: {name}}}
spec:
  runtimeRef: {{apiGroup: trainer.kubeflow.org, kind: ClusterTrainingRuntime, name: {runtime}}}
  trainer: {{numNodes: {nodes}}}
{more}"""


def _replicated(name: str, pods: int) -> str:
    return f"""\
  - name: {name}
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        template: {{spec: {{containers: [{{name: sleep, image: example.com/sleep}}]}}}}
"""


def _job_set(name: str, *jobs: str, order: str = "") -> str:
    head = f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: {name}}}\nspec:\n"
    return head + order + ("  replicatedJobs:\n" + "".join(jobs) if jobs else "")


def _group(name: str, replicas: int, scheduler: str = "") -> str:
    return f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  leaderWorkerTemplate:
    size: 4
    workerTemplate: {{spec: {{{scheduler}containers: [{{name: nginx, image: example.com/nginx}}]}}}}
"""


def _job(name: str, pods: int, annotation: str, template: str) -> str:
    return f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, annotations: {{{annotation}}}}}
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    metadata: {template}
    spec: {{schedulerName: kai-scheduler, restartPolicy: Never, containers: [{{name: main, image: example.com/main}}]}}
"""


_QUEUES = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-parent-queue}
spec: {resources: {cpu: {quota: 0}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-queue}
spec: {parentQueue: default-parent-queue, resources: {cpu: {quota: 0}}}
"""
_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: cpu-only-pod, labels: {kai.scheduler/queue: default-queue}}
spec: {schedulerName: kai-scheduler, containers: [{name: main, image: example.com/main}]}
"""
_EXTERNAL = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: external-batch-job}
spec: {minMember: 2, queue: default-queue, subGroups: [{name: workers, minMember: 2}]}
---
"""
_PATCHES = """\
  runtimePatches:
  - manager: example.io/platform-team
    trainingRuntimeSpec: {template: {metadata: {labels: {team: ml-platform}}}}
"""
_STAND_INS = {
    "trainer/torch_distributed.yaml": _runtime("torch-distributed", "torch"),
    "trainer/jax_distributed.yaml": _runtime("jax-distributed", "jax"),
    "trainer/01-multi-node.yaml": _train_job("multi-node-example", "torch-distributed", 3),
    "trainer/02-runtime-patches.yaml": _train_job("runtime-patches-example", "torch-distributed", 2, _PATCHES),
    "trainer/04-volcano-integration.yaml": _runtime(
        "torch-distributed-volcano", "torch", "  podGroupPolicy: {volcano: {}}\n"
    )
    + "---\n"
    + _train_job("volcano-example", "torch-distributed-volcano", 4),
    "jobset/batch_v1alpha2_jobset.yaml": _job_set("jobset-sample"),
    "jobset/paralleljobs.yaml": _job_set("paralleljobs", _replicated("workers", 4), _replicated("driver", 1)),
    "jobset/startup-driver-ready.yaml": _job_set(
        "startup-driver-ready",
        _replicated("driver", 1),
        _replicated("workers", 4),
        order="  startupPolicy: {startupPolicyOrder: InOrder}\n",
    ),
    "lws/leaderworkerset_v1_leaderworkerset.yaml": _group("leaderworkerset-sample", 3),
    "lws/lws.yaml": _group("leaderworkerset-sample", 3),
    "lws/lws-sample-volcano.yaml": _group("lws-sample-volcano", 2, "schedulerName: volcano, "),
    "kai/default-queues.yaml": _QUEUES,
    "kai/cpu-only-pod.yaml": _POD,
    "kai/batch-job-min-member.yaml": _job(
        "batch-job-min-member",
        6,
        'kai.scheduler/batch-min-member: "2"',
        "{labels: {kai.scheduler/queue: default-queue}}",
    ),
    "kai/external-podgroup-job.yaml": _EXTERNAL
    + _job(
        "external-batch-job",
        2,
        'kai.scheduler/skip-podgrouper: "true"',
        "{annotations: {pod-group-name: external-batch-job}, labels: {kai.scheduler/subgroup-name: workers}}",
    ),
}
