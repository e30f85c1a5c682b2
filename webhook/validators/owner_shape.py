"""The rule for a workload that is not Grove's and cannot be read, and the types of the fields of it that are read."""

from __future__ import annotations

from typing import Any

from webhook.validators.owner_examples import job_set, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.wrong_types import METADATA, POD_SPEC, said_of

_TEMPLATE: dict[str, Any] = {"metadata": METADATA, "spec": POD_SPEC}
_JOB: dict[str, Any] = {"parallelism": int, "completions": int, "template": _TEMPLATE}
_JOB_SET: dict[str, Any] = {
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
# What a TrainJob may patch of its runtime, as far as it says something about gangs.
_PATCH: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {
        "replicatedJobs": [
            {"name": str, "template": {"metadata": METADATA, "spec": {"template": {"metadata": METADATA}}}}
        ]
    },
}
SHAPES: dict[str, Any] = {
    "Job": {"metadata": METADATA, "spec": {**_JOB, "suspend": bool}},
    "JobSet": {"metadata": METADATA, "spec": _JOB_SET},
    "LeaderWorkerSet": {
        "metadata": METADATA,
        "spec": {
            "replicas": int,
            "startupPolicy": str,
            "leaderWorkerTemplate": {"size": int, "leaderTemplate": _TEMPLATE, "workerTemplate": _TEMPLATE},
        },
    },
    "TrainJob": {
        "metadata": METADATA,
        "spec": {
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
def owner_shape(manifest: dict[str, Any], _: object) -> Results:
    """A field of the wrong type cannot be judged, and taken for absent it would pass in silence.

    Source: the CRDs of kubeflow/trainer, jobset and lws, k8s.io/api batch/v1; in a cluster the API server refuses such
    an object by its schema, but only after mutation, and nobody does for a file on the command line.
    """
    shape = SHAPES.get(str(manifest.get("kind")))
    if shape is not None:
        yield from said_of(manifest, shape)
