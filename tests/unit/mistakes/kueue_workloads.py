"""Mistakes in Jobs, JobSets and TrainJobs that Kueue holds: their queue, their counts, and what Kueue writes itself."""

from __future__ import annotations

from tests.unit.mistakes.manifests import JOB, JOB_SET, KAI_QUEUES, KUEUE_QUEUES, annotated, changed, labelled, on
from tests.unit.mistakes.mistake import Mistake

_QUEUED = "kueue.x-k8s.io/queue-name: research"
_KAI = "kai.scheduler/queue: team-a"
_QUEUE = f"---\n{KUEUE_QUEUES}"
_HELD = labelled(JOB, _QUEUED)
_HELD_KAI = labelled(on("kai-scheduler", JOB), _QUEUED)
_LABELS = "    metadata:\n      labels:\n"
_LIMITED = changed(
    KAI_QUEUES,
    "  name: department\nspec:\n  resources:\n    gpu: {quota: -1, limit: -1}\n",
    "  name: department\nspec:\n  resources:\n    gpu: {quota: -1, limit: 16}\n",
)
_LEAST = """\
kueue.x-k8s.io/job-min-parallelism: "2"
    kueue.x-k8s.io/job-completions-equal-parallelism: "true"
    kai.scheduler/batch-min-member: '4'"""

MISTAKES = {
    "a queue of Kueue that the files lack": Mistake(_HELD, ("7 not judged kueue/local-queue",)),
    "a misspelt queue of Kueue": Mistake(
        f"{labelled(JOB, 'kueue.x-k8s.io/queue-name: reserch')}{_QUEUE}", ("7 not judged kueue/local-queue",)
    ),
    "a stopped queue of Kueue": Mistake(
        f"{_HELD}{changed(_QUEUE, '  clusterQueue: gpus', '  clusterQueue: gpus' + chr(10) + '  stopPolicy: Hold')}",
        ("7 warning kueue/local-queue",),
    ),
    "a Job that was copied from a cluster with Kueue": Mistake(
        changed(_HELD, _LABELS, f"{_LABELS}        kueue.x-k8s.io/podset: worker\n") + _QUEUE,
        ("16 error kueue/preset-key",),
    ),
    "an elastic Job": Mistake(
        annotated(_HELD, 'kueue.x-k8s.io/elastic-job: "true"') + _QUEUE,
        ("7 warning kueue/elastic-job",),
    ),
    "a step that waits for a download": Mistake(
        changed(
            labelled(JOB_SET, _QUEUED),
            "  - name: workers\n",
            "  - name: workers\n    dependsOn: [{name: driver, status: Complete}]\n",
        )
        + _QUEUE,
        ("23 warning kueue/ready-in-turn",),
    ),
    "a limit of KAI behind Kueue": Mistake(
        f"{labelled(labelled(on('kai-scheduler', JOB_SET), _KAI), _QUEUED)}---\n{_LIMITED}{_QUEUE}",
        ("7 warning kueue/two-quotas",),
        "https://github.com/kai-scheduler/KAI-Scheduler/issues/68",
    ),
    "a minimum of KAI above that of Kueue": Mistake(
        annotated(_HELD_KAI, _LEAST) + _QUEUE,
        ("9 warning kueue/kai-minimum",),
    ),
    "a minimum of the Job's own gang above that of Kueue": Mistake(
        changed(
            changed(annotated(_HELD, 'kueue.x-k8s.io/job-min-parallelism: "2"'), "Indexed", "NonIndexed"),
            "  completions: 4\n",
            "  scheduling: {schedulingPolicy: {gang: {minCount: 3}}}\n",
        )
        + _QUEUE,
        ("14 warning owner/native-scheduling", "14 warning kueue/native-minimum"),
        "https://github.com/kubernetes-sigs/kueue/issues/14091",
    ),
}
