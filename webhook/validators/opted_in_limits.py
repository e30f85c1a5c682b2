"""Values of workloads of other kinds that the schema, webhook or controller of their own project refuses: a file on the
command line has no such check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job, job_set, leader_worker_set, replicated
from webhook.validators.registry import Context, Example, Results, Subject, rule


@rule(
    "owner/group-size",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(leader_worker_set(size=1)),
    fails=Example(leader_worker_set(size=0)),
)
def group_size(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A group of a LeaderWorkerSet has at least its leader. LeaderWorkerSet's webhook refuses a smaller size.

    Source: lws, pkg/webhooks/leaderworkerset_webhook.go; the CRD (`size`: "The minimum is 1", v0.9).
    """
    if isinstance(workload, LeaderWorkerSet) and workload.size < 1:
        yield Finding(
            at=SPEC / "leaderWorkerTemplate" / "size",
            found=workload.size,
            why="a group has at least a leader, and LeaderWorkerSet refuses a smaller size",
            remedy="set the number of pods of a group, including its leader",
            instead=(1,),
        )


# The groups and kinds whose schema, webhook or controller refuses a negative number. Others make no pod of it.
_REFUSING = frozenset(
    {
        "apps",
        "batch",
        "batch.volcano.sh",
        "jobset.x-k8s.io",
        "leaderworkerset.x-k8s.io",
        "trainer.kubeflow.org",
        "MPIJob",
        "SparkApplication",
    }
)


@rule(
    "owner/negative-pods",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(parallelism=0)),
    fails=Example(job(parallelism=-2)),
)
def negative_pods(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A number of pods is never negative. The API server refuses it, or the controller makes no pod.

    Source: kubernetes, pkg/apis/batch/validation, pkg/apis/apps/validation (v1.36); the CRDs of jobset, lws,
    spark-operator and kubeflow/trainer; volcano, pkg/webhooks/admission/jobs/validate; mpi-operator,
    pkg/apis/kubeflow/validation. The CRDs of KubeRay and of the training operator have no minimum.
    """
    api = workload.resource.api
    refuses = not _REFUSING.isdisjoint((api.group, api.kind))
    for at, count in workload.counts():
        if count is not None and count < 0:
            yield Finding(
                at=at,
                found=count,
                why="a negative number of pods is refused" if refuses else "no pod is made of a negative number",
                remedy="write 0 or more",
                at_most=Action.DENY if refuses else Action.WARN,
                instead=(1,),
            )


_NODE = {"name": "node", "status": "Complete"}


@rule(
    "owner/depends-on",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job_set(replicated("node"), replicated("report", 1, dependsOn=[_NODE]))),
    fails=Example(job_set(replicated("report", 1, dependsOn=[_NODE]), replicated("node"))),
)
def depends_on(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A replicated Job of a JobSet can wait only for replicated Jobs that are before it in the list. JobSet refuses any
    other name.

    Source: jobset, pkg/webhooks/jobset_webhook.go (v0.12.0): `dependsOn` names only earlier entries.
    """
    if not isinstance(workload, JobSet) or workload.in_order:
        return
    before: set[str] = set()
    for part in workload.parts:
        for name in part.after:
            if name not in before:
                yield Finding(
                    at=part.path / "dependsOn",
                    found=name,
                    why="JobSet refuses it: no earlier replicated Job has that name",
                    remedy="name a replicated Job that is before this one, or move this one to the end of the list",
                )
        before.add(part.name)


def _target_names(job_set: JobSet) -> Results:
    names = {part.name for part in job_set.parts}
    policies = [("successPolicy", _object(job_set.spec.get("successPolicy")), SPEC / "successPolicy")]
    rules = _object(job_set.spec.get("failurePolicy")).get("rules")
    for index, raw in enumerate(rules if isinstance(rules, list) else ()):
        policies.append(("failurePolicy", _object(raw), SPEC / "failurePolicy" / "rules" / Item(index)))
    for called, policy, path in policies:
        targets = policy.get("targetReplicatedJobs")
        for index, name in enumerate(targets if isinstance(targets, list) else ()):
            if not isinstance(name, str) or name not in names:
                why = f"JobSet refuses a {called} that names a replicated Job which does not exist"
                yield Finding(
                    path / "targetReplicatedJobs" / Item(index), name, why, "name a replicated Job of the JobSet"
                )


def _job_spec(spec: Mapping[str, Any], path: FieldPath) -> Results:
    pod = _object(_object(spec.get("template")).get("spec"))
    if pod.get("restartPolicy") == "Always":
        yield Finding(
            path / "template" / "spec" / "restartPolicy",
            "Always",
            "the API server refuses a Job whose pods always restart",
            "set Never or OnFailure",
            instead=("Never",),
        )
    parallelism = spec.get("parallelism")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None and parallelism is not None:
        why = "the API server refuses an Indexed Job without completions"
        yield Finding(path / "completions", None, why, "set completions", instead=(parallelism,))


def _job_refusals(workload: OptedInWorkload) -> Results:
    return _job_spec(workload.spec, SPEC)


def _job_set_refusals(job_set: OptedInWorkload) -> Results:
    if isinstance(job_set, JobSet) and not isinstance(job_set, MadeJobSet):
        yield from _target_names(job_set)
        for index, part in enumerate(job_set.parts):
            yield from _job_spec(job_set.job_spec(index), part.path / "template" / "spec")


def _subgroup_refusals(workload: OptedInWorkload) -> Results:
    template = _object(workload.spec.get("leaderWorkerTemplate"))
    policy = _object(template.get("subGroupPolicy"))
    size, each = template.get("size", 1), policy.get("subGroupSize")
    if type(size) is not int or type(each) is not int or size < 1:
        return
    is_excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    if each < 1 or each > size or ((size - 1) % each and (is_excluded or size % each)):
        whole = f"{size - 1}, the number of workers" if is_excluded else f"{size} or {size - 1}"
        yield Finding(
            SPEC / "leaderWorkerTemplate" / "subGroupPolicy" / "subGroupSize",
            each,
            f"LeaderWorkerSet refuses it: subgroups have the same number of pods, so it divides {whole}",
            "set a divisor",
            instead=(1,),
        )


def _pytorch_refusals(workload: OptedInWorkload) -> Results:
    path = SPEC / "pytorchReplicaSpecs"
    for key, raw in _object(workload.spec.get("pytorchReplicaSpecs")).items():
        role, replica = str(key).lower(), _object(raw)
        if role not in {"master", "worker"}:
            why = "the training operator refuses a replica type other than Master and Worker"
            yield Finding(path / key, key, why, "rename it")
            continue
        if role == "master" and replica.get("replicas") not in (None, 1):
            why = "the training operator refuses a number of masters other than 1"
            yield Finding(path / key / "replicas", replica["replicas"], why, "set 1", instead=(1,))
        containers = _object(_object(replica.get("template")).get("spec")).get("containers")
        names = [_object(container).get("name") for container in containers] if isinstance(containers, list) else []
        if "pytorch" not in names:
            yield Finding(
                path / key / "template" / "spec" / "containers",
                names[0] if names else None,
                "the training operator refuses a replica without a container named pytorch",
                "name the main container pytorch",
            )


def _mpi_refusals(workload: OptedInWorkload) -> Results:
    path = SPEC / "mpiReplicaSpecs"
    replicas = _object(workload.spec.get("mpiReplicaSpecs"))
    launcher, worker = replicas.get("Launcher"), _object(replicas.get("Worker")).get("replicas")
    if launcher is None:
        yield Finding(path / "Launcher", None, "mpi-operator makes no pod without a launcher", "add it")
    elif (count := _object(launcher).get("replicas")) not in (None, 1):
        why = "mpi-operator makes no pod unless there is 1 launcher"
        yield Finding(path / "Launcher" / "replicas", count, why, "set 1", instead=(1,))
    if worker == 0 and worker is not False:
        why = "mpi-operator makes no pod for 0 workers"
        yield Finding(
            path / "Worker" / "replicas", worker, why, "set 1 or more, or leave the workers out", instead=(1,)
        )
    implementation = workload.spec.get("mpiImplementation")
    if implementation not in (None, *_IMPLEMENTATIONS):
        why = "the schema of MPIJob refuses another implementation than OpenMPI, Intel and MPICH"
        yield Finding(SPEC / "mpiImplementation", implementation, why, "name one of them", instead=_IMPLEMENTATIONS)


def _ray_refusals(workload: OptedInWorkload) -> Results:
    """Yield what KubeRay refuses of worker groups; also of those of the cluster of a RayJob and a RayService."""
    holders = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
    field = holders.get(workload.resource.api.kind)
    path = SPEC if field is None else SPEC / field
    groups = (workload.spec if field is None else _object(workload.spec.get(field))).get("workerGroupSpecs")
    for index, raw in enumerate(groups if isinstance(groups, list) else ()):
        group = _object(raw)
        least, most = group.get("minReplicas"), group.get("maxReplicas")
        if type(least) is int and type(most) is int and least > most:
            yield Finding(
                path / "workerGroupSpecs" / Item(index) / "minReplicas",
                least,
                f"it is above maxReplicas, so KubeRay makes {max(most, 0)} replicas",
                "lower it, or raise maxReplicas",
                at_most=Action.WARN,
                instead=(most,),
            )


_IMPLEMENTATIONS = ("OpenMPI", "Intel", "MPICH")
# What is refused of each kind. In a cluster the peer says so; a file is seen by nobody else.
_CHECKS: dict[tuple[str, str], Callable[[OptedInWorkload], Results]] = {
    ("batch", "Job"): _job_refusals,
    ("jobset.x-k8s.io", "JobSet"): _job_set_refusals,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _subgroup_refusals,
    ("kubeflow.org", "PyTorchJob"): _pytorch_refusals,
    ("kubeflow.org", "MPIJob"): _mpi_refusals,
    ("ray.io", "RayCluster"): _ray_refusals,
    ("ray.io", "RayJob"): _ray_refusals,
    ("ray.io", "RayService"): _ray_refusals,
}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


@rule(
    "owner/refused",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(completionMode="Indexed")),
    fails=Example(job(completionMode="Indexed", completions=None)),
)
def refused(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """What the kind's own schema, webhook or controller refuses never runs. In a file nothing else says so.

    Source: kubernetes, pkg/apis/batch/validation (v1.36); jobset and lws, pkg/webhooks; training-operator,
    pkg/webhooks/pytorch; mpi-operator, pkg/apis/kubeflow/validation; kuberay, controllers/ray/utils/util.go.
    """
    api = workload.resource.api
    if (check := _CHECKS.get((api.group, api.kind))) is not None:
        yield from check(workload)
