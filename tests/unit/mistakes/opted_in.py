"""Mistakes in Jobs, JobSets, LeaderWorkerSets and TrainJobs."""

from __future__ import annotations

from tests.unit.mistakes.manifests import (
    GROUPS,
    JOB,
    JOB_SET,
    KAI_QUEUES,
    NAMESPACE,
    RUNTIME,
    TRAIN_JOB,
    annotated,
    changed,
    labelled,
    on,
    other_label,
)
from tests.unit.mistakes.mistake import Mistake

_TEMPLATE = "    metadata:\n      labels:\n"
_NEVER = "      restartPolicy: Never\n"
_WORKERS = "  - name: workers\n"
_PLAIN_RUNTIME = changed(RUNTIME, "    metadata:\n      labels:\n        rollcall.dev/scheduler: koord-scheduler\n", "")


def _with_plugins(plugins: str) -> str:
    runtime = changed(RUNTIME, "  mlPolicy:\n", f"  podGroupPolicy:\n{plugins}  mlPolicy:\n")
    return f"{runtime}---\n{TRAIN_JOB}"


_JOBS = {
    "more completions than pods at a time": Mistake(
        changed(JOB, "completions: 4", "completions: 8"), ("11 error owner/completions",)
    ),
    "partial admission of Kueue": Mistake(
        annotated(JOB, 'kueue.x-k8s.io/job-min-parallelism: "2"'), ("7 error owner/partial-admission",)
    ),
    "another scheduler in the template": Mistake(
        changed(JOB, _NEVER, f"{_NEVER}      schedulerName: volcano\n"), ("18 error owner/scheduler-name",)
    ),
    "another scheduler than the namespace's": Mistake(
        f"{NAMESPACE}  labels:\n    rollcall.dev/scheduler: volcano\n---\n"
        + changed(other_label(JOB), _NEVER, f"{_NEVER}      schedulerName: koord-scheduler\n"),
        ("25 error owner/scheduler-name",),
    ),
    "a misspelt scheduler of the namespace": Mistake(
        f"{NAMESPACE}  labels:\n    rollcall.dev/scheduler: koord-schedular\n---\n{other_label(JOB)}",
        ("12 error owner/scheduler-unknown",),
    ),
    "a Job that opts out without permission": Mistake(on("none", JOB), ("7 error owner/scheduler-unknown",)),
    "a Job without gangs": Mistake(on("default-scheduler", JOB), ("7 warning kube/owner-no-gang",)),
    "a Job with the scheduler of Grove's gangs": Mistake(on("lpx-scheduler", JOB), ("7 warning lpx/owner-no-gang",)),
    "a group of Volcano with Koordinator": Mistake(
        changed(
            JOB, _TEMPLATE, "    metadata:\n      annotations: {scheduling.k8s.io/group-name: pg}\n      labels:\n"
        ),
        ("14 error owner/claim-unread",),
        "https://github.com/volcano-sh/volcano/issues/3431",
    ),
    "a group of scheduler-plugins with Koordinator": Mistake(
        changed(JOB, _TEMPLATE, f"{_TEMPLATE}        scheduling.x-k8s.io/pod-group: pg\n"),
        ("15 error owner/claim-unread",),
    ),
    "the field of the Workload API": Mistake(
        changed(JOB, "  completionMode", "  scheduling: {schedulingPolicy: {gang: {}}}\n  completionMode"),
        ("9 warning owner/native-scheduling",),
    ),
    "a quota that is unknown": Mistake(
        labelled(JOB, "quota.scheduling.koordinator.sh/name: research"), ("7 not judged koordinator/owner-quota",)
    ),
    "a Job of KAI without a minimum": Mistake(on("kai-scheduler", JOB), ("3 warning kai/owner-no-gang",)),
    "a minimum of KAI above the pods": Mistake(
        annotated(on("kai-scheduler", JOB), 'kai.scheduler/batch-min-member: "8"'), ("7 error kai/owner-minimum",)
    ),
    "a queue of KAI as an annotation": Mistake(
        annotated(
            labelled(on("kai-scheduler", JOB_SET), "team: a"),
            "kai.scheduler/queue: team-a",
        )
        + f"---\n{KAI_QUEUES}",
        ("7 warning kai/owner-queue-annotation",),
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/932",
    ),
}
_TOPOLOGY = """\
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata:
  name: dc
spec:
  levels: [{nodeLabel: example.com/zone}, {nodeLabel: example.com/rack}]
"""


def _near(manifest: str, topology: str, level: str) -> str:
    wanted = annotated(on("kai-scheduler", manifest), f"kai.scheduler/topology: {topology}")
    return changed(
        wanted,
        f"kai.scheduler/topology: {topology}\n",
        f"kai.scheduler/topology: {topology}\n    kai.scheduler/topology-required-placement: {level}\n",
    )


_JOB_SETS = {
    "exclusive topology": Mistake(
        annotated(JOB_SET, "alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack"),
        ("7 error owner/exclusive-topology",),
    ),
    "exclusive topology of a replicated Job": Mistake(
        changed(
            JOB_SET,
            "    replicas: 2\n    template:\n",
            "    replicas: 2\n    template:\n      metadata:\n        annotations:\n"
            "          alpha.jobset.sigs.k8s.io/exclusive-topology: rack\n",
        ),
        ("26 error owner/exclusive-topology",),
        "https://github.com/kubernetes-sigs/jobset/issues/280",
    ),
    "a dependency on a later Job": Mistake(
        changed(JOB_SET, "  - name: driver\n", "  - name: driver\n    dependsOn: [{name: workers, status: Ready}]\n"),
        ("11 error owner/depends-on",),
        "https://github.com/kubernetes-sigs/jobset/pull/817",
    ),
    "a dependency on no Job": Mistake(
        changed(JOB_SET, _WORKERS, f"{_WORKERS}    dependsOn: [{{name: drivers, status: Ready}}]\n"),
        ("22 error owner/depends-on",),
    ),
    "a misspelt scheduler": Mistake(on("koord-schedular", JOB_SET), ("7 error owner/scheduler-unknown",)),
    "a JobSet without gangs": Mistake(on("default-scheduler", JOB_SET), ("7 warning kube/owner-no-gang",)),
    "replicated Jobs with fewer pods at a time": Mistake(
        changed(JOB_SET, "completions: 4", "completions: 6"), ("26 error owner/completions",)
    ),
    "a queue of KAI with children": Mistake(
        f"{labelled(on('kai-scheduler', JOB_SET), 'kai.scheduler/queue: department')}---\n{KAI_QUEUES}",
        ("7 error kai/owner-queue",),
    ),
}
_JOB_SETS |= {
    "a topology of KAI that is unknown": Mistake(
        _near(JOB_SET, "racks", "example.com/rack"), ("7 not judged kai/owner-topology",)
    ),
    "a topology of KAI with Koordinator": Mistake(
        annotated(JOB_SET, "kai.scheduler/topology: dc"), ("7 warning owner/topology-unread",)
    ),
    "a topology of Koordinator that is not JSON": Mistake(
        annotated(JOB_SET, "gang.scheduling.koordinator.sh/network-topology-spec: RackLayer"),
        ("7 warning koordinator/owner-topology-unread",),
    ),
    "a topology of Volcano without its plugin": Mistake(
        annotated(on("volcano", JOB_SET), 'volcano.sh/network-topology-highest-tier: "1"'),
        ("7 warning volcano/owner-topology-off",),
    ),
}
_LEADER_WORKER_SETS = {
    "no pods in a group": Mistake(changed(GROUPS, "size: 4", "size: 0"), ("11 error owner/group-size",)),
    "workers that wait for their leader": Mistake(
        changed(GROUPS, "  replicas: 2\n", "  replicas: 2\n  startupPolicy: LeaderReady\n"),
        ("10 error owner/leader-ready",),
        "https://github.com/kubernetes-sigs/lws/issues/379",
    ),
    "a LeaderWorkerSet without gangs": Mistake(
        on("default-scheduler", GROUPS),
        ("7 warning kube/owner-no-gang",),
        "https://github.com/kubernetes-sigs/lws/issues/167",
    ),
    "exclusive topology of a group": Mistake(
        annotated(GROUPS, "leaderworkerset.sigs.k8s.io/exclusive-topology: example.com/rack"),
        ("7 error owner/exclusive-topology",),
    ),
    "another scheduler of the leader": Mistake(
        changed(
            GROUPS,
            "    workerTemplate:\n",
            "    leaderTemplate:\n      spec:\n        schedulerName: volcano\n        containers:\n"
            "        - name: main\n          image: example.com/leader\n    workerTemplate:\n",
        ),
        ("14 error owner/scheduler-name",),
    ),
}
_TRAIN_JOBS = {
    "a level that the topology of KAI lacks": Mistake(
        f"{_near(TRAIN_JOB, 'dc', 'rack')}---\n{on('kai-scheduler', RUNTIME)}---\n{_TOPOLOGY}",
        ("8 error kai/owner-topology",),
    ),
    "a level without a topology of KAI": Mistake(
        annotated(on("kai-scheduler", TRAIN_JOB), "kai.scheduler/topology-required-placement: example.com/rack")
        + f"---\n{on('kai-scheduler', RUNTIME)}",
        ("7 warning kai/owner-topology-unnamed",),
    ),
    "a label on the TrainJob alone, in an unknown namespace": Mistake(
        f"{_PLAIN_RUNTIME}---\n{TRAIN_JOB}", ("31 not judged owner/train-job-alone",)
    ),
    "a label on the TrainJob alone": Mistake(
        f"{_PLAIN_RUNTIME}---\n{TRAIN_JOB}---\n{NAMESPACE}", ("31 error owner/train-job-alone",)
    ),
    "a runtime that the files lack": Mistake(TRAIN_JOB, ("11 not judged owner/runtime",)),
    "a misspelt runtime": Mistake(
        f"{RUNTIME}---\n{changed(TRAIN_JOB, 'name: torch', 'name: pytorch')}", ("38 not judged owner/runtime",)
    ),
    "a runtime of the namespace by the default kind": Mistake(
        f"{RUNTIME}---\n" + changed(TRAIN_JOB, "    kind: TrainingRuntime\n", ""), ("37 not judged owner/runtime",)
    ),
    "both plugins": Mistake(
        _with_plugins("    coscheduling: {scheduleTimeoutSeconds: 30}\n    volcano: {}\n"),
        ("41 error owner/two-plugins", "41 error owner/claim-unread", "41 error owner/claim-unread"),
        "https://github.com/kubeflow/trainer/issues/4060",
    ),
    "the coscheduling plugin with Koordinator": Mistake(
        _with_plugins("    coscheduling: {scheduleTimeoutSeconds: 30}\n"), ("40 error owner/claim-unread",)
    ),
    "another scheduler than the runtime's": Mistake(
        f"{RUNTIME}---\n{on('volcano', TRAIN_JOB)}", ("38 error owner/scheduler-differs",)
    ),
    "another scheduler of the runtime's pods": Mistake(
        changed(
            RUNTIME,
            "                containers:\n",
            "                schedulerName: volcano\n                containers:\n",
        )
        + f"---\n{TRAIN_JOB}",
        ("39 error owner/scheduler-name",),
    ),
}
MISTAKES = {
    **{f"Job: {name}": mistake for name, mistake in _JOBS.items()},
    **{f"JobSet: {name}": mistake for name, mistake in _JOB_SETS.items()},
    **{f"LeaderWorkerSet: {name}": mistake for name, mistake in _LEADER_WORKER_SETS.items()},
    **{f"TrainJob: {name}": mistake for name, mistake in _TRAIN_JOBS.items()},
}
