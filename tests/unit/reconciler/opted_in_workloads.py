"""Recorded Jobs, JobSets and LeaderWorkerSets, and their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.reconciler.cluster import POD_GROUPS, SERVED, WritableWorld
from webhook.model.known_kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS, STATEFUL_SETS, TRAIN_JOBS

JOB_PATH = "/apis/batch/v1/jobs"
JOB_SET_PATH = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
LWS_PATH = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
STATEFUL_SET_PATH = "/apis/apps/v1/statefulsets"
_API_VERSIONS = {"JobSet": "jobset.x-k8s.io/v1alpha2", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "Pod": "v1"}
LABEL, GANG, MEMBER = "rollcall.dev/scheduler", "rollcall.dev/gang", "rollcall.dev/gang-member"
GATE = "rollcall.dev/gang-sync"
# Of a JobSet whose replicated Jobs start one after the other.
IN_TURN = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def opted_in_world(*objects: tuple[str, dict[str, Any]]) -> WritableWorld:
    """A cluster that serves them, with these objects."""
    found = WritableWorld(*SERVED, POD_GROUPS, JOBS, STATEFUL_SETS, JOB_SETS, LEADER_WORKER_SETS, TRAIN_JOBS)
    for collection, raw in objects:
        put_workload(found, collection, raw)
    return found


def put_workload(cluster: WritableWorld, collection: str, raw: dict[str, Any]) -> None:
    """A workload comes, and what its controller makes between it and its pods."""
    cluster.put(collection, raw)
    for made, one in _made(collection, raw):
        cluster.put(made, one)


def _made(collection: str, raw: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the controllers of JobSets and LeaderWorkerSets make: Jobs, and a StatefulSet for each group. In a cluster a
    group's leader is between the StatefulSet and the LeaderWorkerSet.
    """
    name = raw["metadata"]["name"]
    if collection == JOB_SET_PATH:
        for part in raw["spec"]["replicatedJobs"]:
            yield JOB_PATH, child("job", f"{name}-{part['name']}-0", "JobSet", raw, "jobset.sigs.k8s.io/jobset-name")
    elif collection == LWS_PATH:
        for group in range(raw["spec"]["replicas"]):
            label = "leaderworkerset.sigs.k8s.io/name"
            yield STATEFUL_SET_PATH, child("sts", f"{name}-{group}", "LeaderWorkerSet", raw, label)


def child(prefix: str, name: str, kind: str, owner: dict[str, Any], label: str) -> dict[str, Any]:
    """An object that the controller of `owner` made."""
    uid = owner["metadata"]["uid"]
    api_version = _API_VERSIONS[kind]
    reference = {"apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"], "uid": uid}
    return {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"{prefix}-{name}",
            "labels": {label: owner["metadata"]["name"]},
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": {},
    }


def _metadata(name: str, kind: str, scheduler: str) -> dict[str, Any]:
    return {"name": name, "namespace": "team-a", "uid": f"{kind}-{name}", "labels": {LABEL: scheduler}}


def template(*, restarts: str | None = None, **metadata: Any) -> dict[str, Any]:
    policy = {} if restarts is None else {"restartPolicy": restarts}
    labels = {LABEL: "koord-scheduler", **metadata.pop("labels", {})}
    return {"metadata": {"labels": labels, **metadata}, "spec": {"containers": [{"name": "main"}], **policy}}


def job(name: str = "train", pods: int = 2, *, scheduler: str = "koord-scheduler", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": _metadata(name, "job", scheduler),
        "spec": {"parallelism": pods, "completions": pods, "template": template(restarts="Never"), **spec},
    }


def job_set(name: str, *parts: tuple[str, int], **spec: Any) -> dict[str, Any]:
    replicated = [
        {
            "name": part,
            "replicas": 1,
            "template": {"spec": {"parallelism": pods, "completions": pods, "template": template()}},
        }
        for part, pods in parts
    ]
    return {
        "metadata": _metadata(name, "jobset", "koord-scheduler"),
        "spec": {"replicatedJobs": replicated, **spec},
    }


def lws(name: str = "serve", size: int = 2, **spec: Any) -> dict[str, Any]:
    templates = {"size": size, "workerTemplate": template()}
    return {
        "metadata": _metadata(name, "lws", "koord-scheduler"),
        "spec": {"replicas": 2, "leaderWorkerTemplate": templates, **spec},
    }


def _pod(
    name: str, kind: str, owner: str, labels: dict[str, str], gates: tuple[str, ...], **spec: Any
) -> dict[str, Any]:
    api_version = "batch/v1" if kind == "Job" else "apps/v1"
    uid = f"{'job' if kind == 'Job' else 'sts'}-{owner}"
    reference = {"apiVersion": api_version, "kind": kind, "name": owner, "uid": uid, "controller": True}
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": name,
        "labels": {LABEL: "koord-scheduler", **labels},
        "annotations": {},
        "ownerReferences": [reference],
    }
    return {"metadata": metadata, "spec": {"schedulingGates": [{"name": gate} for gate in gates], **spec}}


def job_pod(index: int, *gates: str, of: str = "train", **spec: Any) -> dict[str, Any]:
    """A pod of a Job, prepared."""
    return _pod(f"{of}-{index}", "Job", of, {GANG: of, MEMBER: of, "batch.kubernetes.io/job-name": of}, gates, **spec)


def job_set_pod(part: str, index: int, *gates: str, of: str, gang: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of a JobSet; without a `gang` it was not prepared."""
    keys = {"jobset-name": of, "replicatedjob-name": part, "job-index": "0"}
    labels = {f"jobset.sigs.k8s.io/{key}": value for key, value in keys.items()}
    if gang is not None:
        labels |= {GANG: gang, MEMBER: f"{of}-{part}"}
    return _pod(f"{of}-{part}-0-{index}", "Job", f"{of}-{part}-0", labels, gates, **spec)


def lws_pod(group: int, index: int, revision: str, *gates: str, of: str = "serve", size: int = 2) -> dict[str, Any]:
    """A worker of a group of a LeaderWorkerSet, prepared."""
    gang = f"{of}-{group}-{revision}"
    labels = {
        "leaderworkerset.sigs.k8s.io/name": of,
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
        GANG: gang,
        MEMBER: gang,
    }
    # Called after its revision, too, so that a test may have those of two.
    found = _pod(f"{of}-{group}-{index}-{revision}", "StatefulSet", f"{of}-{group}", labels, gates)
    found["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/size"] = str(size)
    return found
