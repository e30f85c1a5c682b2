"""What KubeRay refuses of a RayCluster, a RayJob and a RayService.

KubeRay reads them after they are stored, writes an event, and makes no pod. Earlier releases refused less, so most of
it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.keys import is_key, is_label_value
from webhook.model.quantity import Version, int64, nanoseconds
from webhook.model.reading import is_unrendered, plain_object
from webhook.validators.registry import Results
from webhook.workloads.opted_in_workload import OptedInWorkload

# The field that has the RayCluster of another kind.
_HOLDERS = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
_FAULT_TOLERANCE = "gcsFaultToleranceOptions"
_ENABLED = "ray.io/ft-enabled"
_REDIS_ADDRESS = "RAY_REDIS_ADDRESS"
_SCALER = "RAY_enable_autoscaler_v2"
# Ray has tokens from the first of these on, and those of Kubernetes from the second.
_TOKENS, _KUBERNETES_TOKENS = Version(2, 52), Version(2, 55)
# What ParseGeneric of k8s.io/apimachinery needs of a version; the rest is any text.
_VERSION = re.compile(r"\s*v?([0-9]{1,4})\.([0-9]{1,4})")
# What a YAML text has that may be a mapping, a reference or a placeholder.
_MAY_BE_MAPPING = re.compile(r"[:?{!&*<$]")
_NULLS = frozenset({"", "~", "null", "Null", "NULL", "---", "..."})
_UPGRADES = {
    "RayCluster": ("Recreate", "None"),
    "RayService": ("NewClusterWithIncrementalUpgrade", "NewCluster", "None"),
}
# In the order in which they may happen.
_DELETIONS = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")
_CONDITIONS = ("jobStatus", "jobDeploymentStatus")


def refused_by_kuberay(workload: OptedInWorkload) -> Results:
    """Yields what KubeRay refuses of a workload and its groups, also of the cluster of a RayJob or a RayService."""
    kind = workload.resource.api.kind
    if kind == "RayJob":
        yield from _ray_job(workload.spec)
    elif kind == "RayService":
        yield from _ray_service(workload)
    field = _HOLDERS.get(kind)
    cluster = _Cluster(workload, SPEC if field is None else SPEC / field)
    for index, group in enumerate(cluster.groups):
        yield from _worker_group(cluster, group, cluster.path / "workerGroupSpecs" / Item(index))
    names: set[str] = set()
    for index, group in enumerate(cluster.groups):
        name = group.get("groupName")
        if isinstance(name, str) and name in names:
            at = cluster.path / "workerGroupSpecs" / Item(index) / "groupName"
            yield _warning(at, name, "KubeRay refuses two worker groups of one name", "rename one")
        names.add(str(name))
    yield from _group(cluster.head, cluster.path / "headGroupSpec")
    yield from _fault_tolerance(cluster)
    yield from _autoscaler(cluster)
    yield from _tokens(cluster)
    kinds = _UPGRADES.get(kind)
    strategy = plain_object(workload.spec.get("upgradeStrategy")).get("type")
    if kinds is not None and strategy is not None and strategy not in kinds:
        why = f"KubeRay makes no pod for an unknown strategy of upgrades of a {kind}"
        yield _warning(SPEC / "upgradeStrategy" / "type", strategy, why, f"set one of {', '.join(kinds)}")


def _warning(at: FieldPath, value: Any, why: str, remedy: str, instead: tuple[Any, ...] = ()) -> Finding:
    return Finding(at, value, why, remedy, at_most=Action.WARN, instead=instead)


class _Cluster:
    """The spec of a RayCluster at its place, with the annotations that KubeRay reads beside it."""

    def __init__(self, workload: OptedInWorkload, path: FieldPath) -> None:
        spec = workload.spec if path == SPEC else plain_object(workload.spec.get(str(path[-1])))
        groups = spec.get("workerGroupSpecs")
        self.kind = workload.resource.api.kind
        self.path = path
        self.spec = spec
        self.annotations = plain_object(workload.metadata.get("annotations"))
        self.head = plain_object(spec.get("headGroupSpec"))
        self.groups = [plain_object(raw) for raw in groups] if isinstance(groups, list) else []
        self.is_scaled = spec.get("enableInTreeAutoscaling") is True
        self.scaler = plain_object(spec.get("autoscalerOptions"))

    @cached_property
    def environment(self) -> Mapping[str, tuple[FieldPath, Any]]:
        """The variables of Ray's container in the head: where each is, and its value."""
        containers = _pod_spec(self.head).get("containers")
        variables = plain_object(containers[0] if isinstance(containers, list) and containers else None).get("env")
        path = self.path / "headGroupSpec" / "template" / "spec" / "containers" / Item(0) / "env"
        return {
            str(variable.get("name")): (path / Item(index), variable.get("value"))
            for index, variable in enumerate(map(plain_object, variables if isinstance(variables, list) else ()))
        }

    @property
    def asks_second_scaler(self) -> bool:
        """Whether a variable of the head asks for version 2 of the autoscaler."""
        return self.environment.get(_SCALER, (self.path, None))[1] in {"1", "true"}


def _pod_spec(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return plain_object(plain_object(group.get("template")).get("spec"))


# --- groups


def _worker_group(cluster: _Cluster, group: Mapping[str, Any], at: FieldPath) -> Results:
    least, most = group.get("minReplicas"), group.get("maxReplicas")
    if type(most) is int and most < 0:
        why = "KubeRay makes no pod for a negative number of replicas"
        yield _warning(at / "maxReplicas", most, why, "set 0 or more")
    elif type(least) is int and type(most) is int and least > most:
        why = f"it is above maxReplicas, so KubeRay makes {most} replicas, and from v1.6 on no pod"
        yield _warning(at / "minReplicas", least, why, "lower it, or raise maxReplicas", (most,))
    if group.get("suspend") is True and cluster.is_scaled:
        why = "KubeRay makes no pod if it scales a cluster that has a suspended group"
        yield _warning(at / "suspend", True, why, "remove it, or enableInTreeAutoscaling")
    yield from _group(group, at)
    idle = group.get("idleTimeoutSeconds")
    if type(idle) is not int:
        return
    if idle < 0:
        yield _warning(at / "idleTimeoutSeconds", idle, "KubeRay makes no pod for a negative time", "set 0 or more")
    elif cluster.scaler.get("version") != "v2" and not cluster.asks_second_scaler:
        why = "KubeRay makes no pod of a group with its own time unless version 2 of the autoscaler reads it"
        remedy = "set autoscalerOptions.version: v2, or remove it"
        yield _warning(at / "idleTimeoutSeconds", idle, why, remedy)


def _group(group: Mapping[str, Any], path: FieldPath) -> Results:
    """Yields faults in the resources and labels of the head, or of a group of workers."""
    start = plain_object(group.get("rayStartParams"))
    stated = [key for key in ("num-cpus", "num-gpus", "memory", "resources") if start.get(key)]
    if stated and group.get("resources"):
        why = "KubeRay makes no pod of a group that has its resources here and in rayStartParams"
        yield _warning(path / "resources", stated[0], why, "keep one of the two")
    if "labels" in start:
        why = "KubeRay makes no pod of a group that has labels in rayStartParams"
        at = path / "rayStartParams" / "labels"
        yield _warning(at, start["labels"], why, "write them in the labels of the group")
    for key, value in plain_object(group.get("labels")).items():
        if not is_key(str(key)) or (isinstance(value, str) and not is_label_value(value)):
            why = "KubeRay makes no pod of a group whose labels Kubernetes would refuse"
            remedy = (
                "begin and end key and value with a letter or digit, and use at most 63 of a-z, A-Z, 0-9, -, _ and ."
            )
            yield _warning(path / "labels" / str(key), value, why, remedy)


# --- clusters


def _fault_tolerance(cluster: _Cluster) -> Results:
    """Yields faults of the store of the head's state, stated once: in the options, or in the forms before them."""
    start, at = plain_object(cluster.head.get("rayStartParams")), cluster.path / "headGroupSpec" / "rayStartParams"
    annotations, environment = cluster.annotations, cluster.environment
    is_stated = isinstance(cluster.spec.get(_FAULT_TOLERANCE), dict)
    older: list[tuple[FieldPath, str, str]] = []
    if start.get("redis-username"):
        older.append((at / "redis-username", "redis-username", "redisUsername"))
    elif "REDIS_USERNAME" in environment:
        older.append((environment["REDIS_USERNAME"][0], "REDIS_USERNAME", "redisUsername"))
    if is_stated:
        for key, field in ((_ENABLED, ""), ("ray.io/external-storage-namespace", "externalStorageNamespace")):
            if annotations.get(key):
                older.append((ANNOTATIONS / key, key, field))
        if start.get("redis-password"):
            older.append((at / "redis-password", "redis-password", "redisPassword"))
        for name, field in (("REDIS_PASSWORD", "redisPassword"), (_REDIS_ADDRESS, "redisAddress")):
            if name in environment:
                older.append((environment[name][0], name, field))
    elif _REDIS_ADDRESS in environment and str(annotations.get(_ENABLED)).lower() != "true":
        older.append((environment[_REDIS_ADDRESS][0], _REDIS_ADDRESS, "redisAddress"))
    for place, name, field in older:
        beside = "beside" if is_stated else "without"
        why = f"KubeRay makes no pod of a cluster that has this {beside} {_FAULT_TOLERANCE}"
        yield _warning(place, name, why, f"write it as {_FAULT_TOLERANCE}.{field}" if field else "remove it")


def _autoscaler(cluster: _Cluster) -> Results:
    version, at = cluster.scaler.get("version"), cluster.path / "autoscalerOptions"
    idle = cluster.scaler.get("idleTimeoutSeconds")
    if type(idle) is int and idle < 0:
        yield _warning(at / "idleTimeoutSeconds", idle, "KubeRay makes no pod for a negative time", "set 0 or more")
    if not cluster.is_scaled:
        if cluster.asks_second_scaler:
            place, value = cluster.environment[_SCALER]
            why = "KubeRay makes no pod of a cluster that asks for version 2 of the autoscaler, and has none"
            yield _warning(place / "value", value, why, "remove it, or set enableInTreeAutoscaling: true")
        return
    if version is not None and _SCALER in cluster.environment:
        why = f"KubeRay makes no pod of a cluster that states the version here and as {_SCALER} of the head"
        yield _warning(at / "version", version, why, "remove the variable of the head")
    if version == "v2":
        groups = [(cluster.head, cluster.path / "headGroupSpec")]
        groups += [(group, cluster.path / "workerGroupSpecs" / Item(n)) for n, group in enumerate(cluster.groups)]
        for group, path in groups:
            policy = _pod_spec(group).get("restartPolicy")
            if policy not in {None, "", "Never"}:
                why = "KubeRay makes no pod that restarts its containers under version 2 of the autoscaler"
                place = path / "template" / "spec" / "restartPolicy"
                yield _warning(place, policy, why, "remove it, or set Never", ("Never",))


def _tokens(cluster: _Cluster) -> Results:
    options, at = plain_object(cluster.spec.get("authOptions")), cluster.path / "authOptions"
    of_kubernetes = options.get("enableK8sTokenAuth") is True
    if of_kubernetes and cluster.kind != "RayCluster":
        why = f"KubeRay runs no {cluster.kind} with tokens of Kubernetes"
        yield _warning(at / "enableK8sTokenAuth", True, why, "remove it")
    elif of_kubernetes and options.get("mode") != "token":
        why = "KubeRay makes no pod with tokens of Kubernetes in another mode than token"
        yield _warning(at / "mode", options.get("mode"), why, "set token", ("token",))
    elif of_kubernetes and options.get("secretName"):
        why = "KubeRay makes no pod with tokens of Kubernetes and of a Secret"
        yield _warning(at / "secretName", options["secretName"], why, "remove it, or enableK8sTokenAuth")
    if options.get("mode") != "token":
        return
    stated, least = cluster.spec.get("rayVersion") or "", _KUBERNETES_TOKENS if of_kubernetes else _TOKENS
    if not isinstance(stated, str) or is_unrendered(stated):
        return
    version = _VERSION.match(stated)
    if version is None or Version(int(version[1]), int(version[2])) < least:
        why = f"KubeRay makes no pod with tokens before Ray {least}, or for an unknown version"
        yield _warning(cluster.path / "rayVersion", stated, why, f"set the version of the image, {least} or later")


# --- RayJobs


def _ray_job(spec: Mapping[str, Any]) -> Results:
    selects, suspends = bool(spec.get("clusterSelector")), spec.get("suspend") is True
    deletes = spec.get("shutdownAfterJobFinishes") is True
    if not selects and not isinstance(spec.get("rayClusterSpec"), dict):
        yield Finding(SPEC / "rayClusterSpec", None, "KubeRay runs no RayJob without a cluster", "add it")
    if suspends and selects:
        why = "KubeRay does not suspend a RayJob in a cluster that others use"
        yield Finding(SPEC / "suspend", True, why, "remove it, or give the RayJob its own cluster")
    elif suspends and not deletes:
        why = "KubeRay suspends no RayJob that keeps its cluster"
        yield Finding(SPEC / "suspend", True, why, "set shutdownAfterJobFinishes: true")
    for field, least in (
        ("ttlSecondsAfterFinished", 0),
        ("backoffLimit", 0),
        ("activeDeadlineSeconds", 1),
        ("preRunningDeadlineSeconds", 1),
    ):
        value = spec.get(field)
        if type(value) is int and value < least:
            yield Finding(SPEC / field, value, "KubeRay runs no RayJob with it", f"set {least} or more")
    seconds = spec.get("ttlSecondsAfterFinished")
    if type(seconds) is int and seconds > 0 and not deletes:
        why = "KubeRay runs no RayJob that has this time and keeps its cluster"
        yield _warning(
            SPEC / "ttlSecondsAfterFinished", seconds, why, "set shutdownAfterJobFinishes: true, or remove it"
        )
    again, mode = spec.get("backoffLimit"), spec.get("submissionMode")
    if type(again) is int and again > 0 and (mode == "InteractiveMode" or selects):
        why = "KubeRay repeats no RayJob that is interactive, or runs in a cluster that others use"
        yield _warning(SPEC / "backoffLimit", again, why, "set 0", (0,))
    cluster = plain_object(spec.get("clusterSelector")).get("ray.io/cluster")
    if selects and not cluster:
        why = "KubeRay runs no RayJob whose selector names no cluster"
        yield Finding(SPEC / "clusterSelector" / "ray.io/cluster", cluster, why, "name the RayCluster")
    if _is_no_mapping(environment := spec.get("runtimeEnvYAML")):
        why = "KubeRay runs no RayJob whose environment is no mapping of YAML"
        yield Finding(SPEC / "runtimeEnvYAML", environment, why, "write key: value")
    if mode == "SidecarMode":
        yield from _sidecar_faults(spec)
    yield from _deletion_strategy(spec)


def _is_no_mapping(written: Any) -> bool:
    """Returns whether a text of YAML is surely another value than a mapping or null."""
    if not isinstance(written, str) or _MAY_BE_MAPPING.search(written):
        return False
    lines = [line.strip() for line in written.splitlines()]
    return any(line not in _NULLS and not line.startswith("#") for line in lines)


def _sidecar_faults(spec: Mapping[str, Any]) -> Results:
    """Yields what a RayJob cannot have whose submitter runs in the head."""
    for field in ("clusterSelector", "submitterPodTemplate", "submitterConfig"):
        if isinstance(value := spec.get(field), dict) and (value or field != "clusterSelector"):
            why = "KubeRay runs no RayJob of the SidecarMode with it: the submitter is in the head"
            yield _warning(SPEC / field, next(iter(value), None), why, "remove it, or choose another submissionMode")
    policy = _pod_spec(plain_object(plain_object(spec.get("rayClusterSpec")).get("headGroupSpec"))).get("restartPolicy")
    if policy not in {None, "", "Never"}:
        why = "KubeRay runs no RayJob of the SidecarMode whose head restarts its containers"
        at = SPEC / "rayClusterSpec" / "headGroupSpec" / "template" / "spec" / "restartPolicy"
        yield _warning(at, policy, why, "remove it, or set Never", ("Never",))


def _deletion_strategy(spec: Mapping[str, Any]) -> Results:
    strategy, at = spec.get("deletionStrategy"), SPEC / "deletionStrategy"
    if not isinstance(strategy, dict):
        return
    rules, deletes = strategy.get("deletionRules"), spec.get("shutdownAfterJobFinishes") is True
    ends = {field: plain_object(strategy[field]) for field in ("onSuccess", "onFailure") if field in strategy}
    if rules and (ends or deletes):
        other = next(iter(ends), "shutdownAfterJobFinishes")
        why = f"KubeRay runs no RayJob that has rules and {other}"
        yield _warning(at / "deletionRules", other, why, "keep one of the two")
    elif not rules and len(ends) < len(("onSuccess", "onFailure")):
        why = "KubeRay runs no RayJob whose strategy has neither rules, nor onSuccess and onFailure"
        yield _warning(at, next(iter(ends), None), why, "add deletionRules, or remove it")
    policies = [(at / field / "policy", end.get("policy")) for field, end in ends.items()]
    items = [plain_object(raw) for raw in rules] if isinstance(rules, list) else []
    policies += [(at / "deletionRules" / Item(n) / "policy", item.get("policy")) for n, item in enumerate(items)]
    is_scaled = plain_object(spec.get("rayClusterSpec")).get("enableInTreeAutoscaling") is True
    for place, policy in policies:
        if policy is None:
            why = "KubeRay runs no RayJob whose strategy states no policy"
        elif policy in {"DeleteCluster", "DeleteWorkers"} and spec.get("clusterSelector"):
            why = "KubeRay deletes nothing of a cluster that others use, and runs no RayJob that asks for it"
        elif policy == "DeleteWorkers" and is_scaled:
            why = "KubeRay deletes no workers of a cluster that it scales, and runs no RayJob that asks for it"
        elif policy == "DeleteNone" and deletes and ends:
            why = "KubeRay runs no RayJob that keeps all and has shutdownAfterJobFinishes"
        else:
            continue
        yield _warning(place, policy, why, "set another policy")
    yield from _deletion_rules(items, at / "deletionRules")


def _deletion_rules(items: list[Mapping[str, Any]], path: FieldPath) -> Results:
    """Yields faults in the conditions, of which each policy has its own, and in the order after one condition."""
    times: dict[tuple[str, str], dict[str, int]] = {}
    for index, item in enumerate(items):
        condition, at = plain_object(item.get("condition")), path / Item(index) / "condition"
        stated = [field for field in _CONDITIONS if condition.get(field) is not None]
        if len(stated) != 1:
            why = "KubeRay runs no RayJob that has a rule with no condition, or with both"
            yield _warning(at, stated[0] if stated else None, why, f"set one of {' and '.join(_CONDITIONS)}")
            continue
        state, policy = str(condition[stated[0]]), str(item.get("policy"))
        seconds = condition.get("ttlSeconds", 0)
        if type(seconds) is not int or seconds < 0:
            why = "KubeRay runs no RayJob that deletes after a negative time"
            yield _warning(at / "ttlSeconds", seconds, why, "set 0 or more")
            continue
        after = times.setdefault((stated[0], state), {})
        if policy in after:
            why = "KubeRay runs no RayJob that has two rules of one policy and condition"
            yield _warning(path / Item(index) / "policy", policy, why, "remove one")
            continue
        after[policy] = seconds
    for after in times.values():
        order = [(policy, after[policy]) for policy in _DELETIONS if policy in after]
        for (first, seconds), (policy, later) in pairwise(order):
            if later < seconds:
                why = f"KubeRay runs no RayJob that has {policy} after {later} s, and {first} after {seconds} s"
                yield _warning(path, policy, why, "delete workers first, then the cluster, then the RayJob")


# --- RayServices

_INITIALIZING = "ray.io/initializing-timeout"


def _ray_service(service: OptedInWorkload) -> Results:
    head = plain_object(plain_object(service.spec.get("rayClusterConfig")).get("headGroupSpec"))
    name = plain_object(plain_object(head.get("headService")).get("metadata")).get("name")
    if name:
        why = "KubeRay runs no RayService that names the Service of its head"
        at = SPEC / "rayClusterConfig" / "headGroupSpec" / "headService" / "metadata" / "name"
        yield _warning(at, name, why, "remove it: each cluster has a Service of its own")
    delay = service.spec.get("rayClusterDeletionDelaySeconds")
    if type(delay) is int and delay < 0:
        why = "KubeRay runs no RayService that deletes after a negative time"
        yield _warning(SPEC / "rayClusterDeletionDelaySeconds", delay, why, "set 0 or more")
    written = plain_object(service.metadata.get("annotations")).get(_INITIALIZING)
    if isinstance(written, str) and written:
        duration = nanoseconds(written)
        if ((int64(written) if duration is None else duration) or 0) <= 0:
            why = "KubeRay runs no RayService whose time is neither a duration of Go nor a number of seconds"
            yield _warning(ANNOTATIONS / _INITIALIZING, written, why, "write 10m, or 600")
