"""The rule for an opted-in workload that cannot be read, and the types of the fields that are read."""

from __future__ import annotations

from typing import Any

from webhook.validators.opted_in_examples import job_set, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.wrong_types import METADATA, POD_SPEC, Unreadable, said_of

_TEMPLATE: dict[str, Any] = {"metadata": METADATA, "spec": POD_SPEC}
_JOB: dict[str, Any] = {"parallelism": int, "completions": int, "template": _TEMPLATE}
_JOB_SET: dict[str, Any] = {
    "managedBy": str,
    "suspend": bool,
    "startupPolicy": {"startupPolicyOrder": str},
    "replicatedJobs": [
        {
            "name": str,
            "replicas": int,
            "dependsOn": [{"name": str, "status": str}],
            "template": {"metadata": METADATA, "spec": _JOB},
        }
    ],
}
# The fields of its runtime that a TrainJob may patch and that affect gangs.
_PATCH: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicatedJobs": [
            {"name": str, "template": {"metadata": METADATA, "spec": {"template": {"metadata": METADATA}}}}
        ]
    },
}
SHAPES: dict[tuple[str, str], Any] = {
    ("batch", "Job"): {"metadata": METADATA, "spec": {**_JOB, "managedBy": str, "suspend": bool}},
    ("jobset.x-k8s.io", "JobSet"): {"metadata": METADATA, "spec": _JOB_SET},
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): {
        "metadata": METADATA,
        "spec": {
            "replicas": int,
            "startupPolicy": str,
            "leaderWorkerTemplate": {"size": int, "leaderTemplate": _TEMPLATE, "workerTemplate": _TEMPLATE},
        },
    },
    ("trainer.kubeflow.org", "TrainJob"): {
        "metadata": METADATA,
        "spec": {
            "managedBy": str,
            "suspend": bool,
            "runtimeRef": {"name": str, "kind": str, "apiGroup": str},
            "trainer": {"numNodes": int},
            "runtimePatches": [{"trainingRuntimeSpec": {"template": _PATCH}}],
        },
    },
}


@rule(
    "owner/shape",
    subject=Subject.MALFORMED,
    fails_closed=True,
    passes=Example(job_set()),
    fails=Example(job_set(replicated("node", job={"parallelism": "4"}))),
)
def opted_in_shape(found: Unreadable, _: object) -> Results:
    """A field of the wrong type cannot be judged. If it counted as missing, the object would pass without a message.

    Source: the CRDs of kubeflow/trainer, jobset and lws, k8s.io/api batch/v1; in a cluster the API server refuses such
    an object by its schema, but only after mutation. A file on the command line has no such check.
    """
    if found.kind in SHAPES:
        yield from said_of(found.manifest, SHAPES[found.kind])
    elif found.is_declared:
        yield from said_of(found.manifest, found.shape)
