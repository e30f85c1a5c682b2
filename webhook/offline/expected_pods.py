"""The pods of an opted-in workload as its controllers create them, one for each part; of a declared kind, as far as
its WorkloadShape says.

They have the keys that jobset v0.12, lws v0.9, the Job and the StatefulSet controllers write on them. Values that only
a cluster knows, such as the uid of a future Job, are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import NamedTuple

from webhook.model.admission_request import value_at
from webhook.model.grove import OwnerReference
from webhook.model.place import JOB_NAME, JOB_SET_NAME, LWS_NAME, LWS_REVISION, REPLICATED_JOB_NAME
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.workloads.job import Job
from webhook.workloads.jobset import EXCLUSIVE, NODE_SELECTOR, JobSet
from webhook.workloads.leaderworkerset import EXCLUSIVE as LWS_EXCLUSIVE
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import OptedInWorkload, Part
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.workload_kinds import replicas_of
from webhook.workloads.workload_shape import LABEL_IN_NAME, WORKLOAD

# Stands for the value of a label that only the controller knows.
VALUE = "value"
# Stands for the hash of a template's revision, which only the LeaderWorkerSet controller knows.
REVISION = "revision"
_JOB_SET = "jobset.sigs.k8s.io"
_LWS = "leaderworkerset.sigs.k8s.io"


class ExpectedPod(NamedTuple):
    """One pod of a part as its controllers create it, and the chain of these controllers, from the pod upwards."""

    part: Part
    pod: Manifest
    chain: str


def expected_pods(workload: OptedInWorkload) -> Iterator[ExpectedPod]:
    """Yields the first pod of each part that has pods."""
    if isinstance(workload, ShapedWorkload):
        yield from _pods_of_shape(workload)
        return
    for index, part in enumerate(workload.parts):
        if part.pods < 1:
            continue
        if isinstance(workload, JobSet):
            yield _pod_of_job_set(workload, index, part)
        elif isinstance(workload, LeaderWorkerSet):
            yield _pod_of_group(workload, part)
        elif isinstance(workload, Job):
            pod, indexed = _pod(part, workload.namespace), workload.spec.get("completionMode") == "Indexed"
            _created_by_job(pod, workload.name, workload.uid, indexed=indexed)
            yield ExpectedPod(part, pod, f"Job {workload.name}")


def _created_by_job(pod: Manifest, name: str, uid: str | None, *, indexed: bool) -> None:
    labels = {JOB_NAME: name, "job-name": name}
    if uid is not None:
        labels |= {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
    index = {"batch.kubernetes.io/job-completion-index": "0"} if indexed else {}
    _add(pod, {**labels, **index}, index)
    pod["metadata"] = {
        "generateName": f"{name}-0-" if indexed else f"{name}-",
        **pod["metadata"],
        "ownerReferences": [_controller("batch/v1", "Job", name, uid)],
    }


def _pod_of_job_set(workload: JobSet, index: int, part: Part) -> ExpectedPod:
    raw = [mapping(entry) for entry in sequence(workload.spec.get("replicatedJobs"))]
    counts = [replicas_of(entry) for entry in raw]
    groups = [text(entry.get("groupName")) or "default" for entry in raw]
    before = sum(counts[:index])
    beside = [count for count, group in zip(counts, groups, strict=True) if group == groups[index]]
    earlier = [count for count, group in zip(counts[:index], groups[:index], strict=True) if group == groups[index]]
    job = f"{workload.name}-{part.name}-0"
    keys = {
        JOB_SET_NAME: workload.name,
        **({} if workload.uid is None else {f"{_JOB_SET}/jobset-uid": workload.uid}),
        REPLICATED_JOB_NAME: part.name,
        f"{_JOB_SET}/replicatedjob-replicas": str(counts[index]),
        f"{_JOB_SET}/job-index": "0",
        f"{_JOB_SET}/job-global-index": str(before),
        f"{_JOB_SET}/global-replicas": str(sum(counts)),
        f"{_JOB_SET}/group-name": groups[index],
        f"{_JOB_SET}/group-replicas": str(sum(beside)),
        f"{_JOB_SET}/job-group-index": str(sum(earlier)),
        f"{_JOB_SET}/job-key": _digest(f"{workload.namespace}/{job}"),
        f"{_JOB_SET}/restart-attempt": "0",
    }
    template = mapping(raw[index].get("template"))
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    spread = {key: annotations.get(key) or workload.annotations.get(key) for key in (EXCLUSIVE, NODE_SELECTOR)}
    pod = _pod(part, workload.namespace)
    # JobSet's own webhook sets these.
    pod["spec"].setdefault("restartPolicy", "OnFailure")
    indexed = (mapping(template.get("spec")).get("completionMode") or "Indexed") == "Indexed"
    _add(pod, keys, {**keys, **{key: value for key, value in spread.items() if value}})
    _created_by_job(pod, job, None, indexed=indexed)
    chain = f"Job {job} of JobSet {workload.name}"
    maker = workload.controller
    return ExpectedPod(part, pod, chain if maker is None else f"{chain} of {maker.kind} {maker.name}")


def _pod_of_group(workload: LeaderWorkerSet, part: Part) -> ExpectedPod:
    leader = f"{workload.name}-0"
    leads = part.name == "leader"
    name, parent = (leader, workload.name) if leads else (f"{leader}-1", leader)
    index = "0" if leads else "1"
    labels = {
        LWS_NAME: workload.name,
        f"{_LWS}/group-index": "0",
        LWS_REVISION: REVISION,
        f"{_LWS}/group-key": _digest(f"{workload.namespace}/{leader}"),
        f"{_LWS}/worker-index": index,
        "apps.kubernetes.io/pod-index": index,
        "statefulset.kubernetes.io/pod-name": name,
    }
    annotations = {f"{_LWS}/size": str(workload.size)}
    if not leads:
        annotations[f"{_LWS}/leader-name"] = leader
    if exclusive := text(workload.annotations.get(LWS_EXCLUSIVE)):
        annotations[LWS_EXCLUSIVE] = exclusive
    pod = _pod(part, workload.namespace)
    _add(pod, labels, annotations)
    references = [_controller("apps/v1", "StatefulSet", parent, None)]
    pod["metadata"] = {"name": name, **pod["metadata"], "ownerReferences": references}
    top = f"StatefulSet {workload.name} of LeaderWorkerSet {workload.name}"
    return ExpectedPod(part, pod, top if leads else f"StatefulSet {leader} of Pod {leader} of {top}")


def _pods_of_shape(workload: ShapedWorkload) -> Iterator[ExpectedPod]:
    if not workload.has_gangs:
        return
    if workload.together is not None:
        yield from _pods_of_roles(workload)
        return
    for part, shape in zip(workload.parts, workload.pod_shapes, strict=True):
        if part.pods < 1:
            continue
        pod = _pod(part, workload.namespace)
        pod["spec"]["schedulerName"] = part.template.spec.get("schedulerName") or workload.operator_scheduler
        of_workload = {workload.name_label: workload.name} if workload.name_label else {}
        of_part = {shape.name_label: part.name} if shape.name_label else {}
        others = {key: VALUE for link in shape.chain for key in LABEL_IN_NAME.findall(link.name)}
        _add(pod, {**of_workload, **dict(shape.labels), **of_part, **others}, {})
        makers = []
        for link in shape.chain:
            api, name = link.resource.api, LABEL_IN_NAME.sub(VALUE, link.name).replace(WORKLOAD, workload.name)
            makers.append(OwnerReference(f"{api.group}/{api.version}".lstrip("/"), api.kind, name, None))
        makers.append(workload.reference)
        pod["metadata"] = {
            # The API server, or the controller, chooses what follows.
            "generateName": f"{workload.name}-{part.name}-" if part.name else f"{workload.name}-",
            **pod["metadata"],
            "ownerReferences": [_controller(*makers[0])],
        }
        yield ExpectedPod(part, pod, " of ".join(f"{maker.kind} {maker.name}" for maker in makers))


def _pods_of_roles(workload: ShapedWorkload) -> Iterator[ExpectedPod]:
    for role in workload.roles:
        if role.groups < 1:
            continue
        entry, name = mapping(value_at(workload.raw, role.part.path)[1]), role.part.name
        metadata = {"name": f"{workload.name}-{REVISION}-{name}", "namespace": workload.namespace}
        metadata = {**mapping(entry.get("metadata")), **metadata}
        leader_worker_set = LeaderWorkerSet({"metadata": metadata, "spec": entry.get("spec")})
        for part in leader_worker_set.parts:
            expected = _pod_of_group(leader_worker_set, part)
            _add(expected.pod, {workload.name_label: workload.name, workload.role_label: name}, {})
            chain = f"{expected.chain} of {workload.kind} {workload.name}"
            yield ExpectedPod(part._replace(name=f"{name}-{part.name}"), expected.pod, chain)


def _pod(part: Part, namespace: str) -> Manifest:
    """Returns the pod of a template, before its controllers add their labels and owner references."""
    template = part.template
    metadata: Manifest = {"namespace": namespace, "labels": dict(template.labels)}
    if template.annotations:
        metadata["annotations"] = dict(template.annotations)
    spec = deepcopy(dict(template.spec))
    spec.setdefault("schedulerName", DEFAULT_SCHEDULER)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _add(pod: Manifest, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    metadata = pod["metadata"]
    metadata["labels"] = {**metadata["labels"], **labels}
    if annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}


def _controller(api_version: str, kind: str, name: str, uid: str | None) -> Manifest:
    reference: Manifest = {"apiVersion": api_version, "kind": kind, "name": name}
    if uid is not None:
        reference["uid"] = uid
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def _digest(value: str) -> str:
    # JobSet and LeaderWorkerSet use this hash. It does not protect a secret.
    return hashlib.sha1(value.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
