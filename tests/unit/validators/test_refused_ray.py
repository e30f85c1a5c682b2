"""What KubeRay makes no pod of, and what it accepts: `owner/refused`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.workloads.workloads import ray_cluster, ray_job, template, worker_group, workload
from tests.unit.worlds import settings_of
from webhook.model.facts import NO_FACTS
from webhook.model.reading import Manifest
from webhook.offline.judgement import judge

FT = "gcsFaultToleranceOptions"
STORE: dict[str, Any] = {FT: {"redisAddress": "redis:6379"}}
HEAD = "spec.headGroupSpec"
GROUP = "spec.workerGroupSpecs[0]"
VARIABLE = f"{HEAD}.template.spec.containers[0].env[0]"
RULES = "spec.deletionStrategy.deletionRules"
SCALER = "RAY_enable_autoscaler_v2"
SECOND: dict[str, Any] = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
SIDECAR = {"submissionMode": "SidecarMode"}
SHARED = {"clusterSelector": {"ray.io/cluster": "shared"}}
AFTER = {"jobStatus": "FAILED"}


def head(variable: str = "", value: str = "", policy: str | None = None, **group: Any) -> Manifest:
    """The head of a RayCluster, with a variable and a restart policy."""
    pods = template()
    if variable:
        pods["spec"]["containers"][0]["env"] = [{"name": variable, "value": value}]
    if policy is not None:
        pods["spec"]["restartPolicy"] = policy
    return {"headGroupSpec": {"template": pods, **group}}


def annotated(key: str, value: str, manifest: Manifest) -> Manifest:
    """A workload with an annotation."""
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {key: value}}}


def restarted(policy: str) -> Manifest:
    """A worker group whose pods have a restart policy."""
    pods = template()
    pods["spec"]["restartPolicy"] = policy
    return worker_group(template=pods)


def tokens(version: Any = None, **options: Any) -> Manifest:
    """A RayCluster with tokens."""
    stated = {} if version is None else {"rayVersion": version}
    return ray_cluster(authOptions={"mode": "token", **options}, **stated)


def in_shared(**spec: Any) -> Manifest:
    """A RayJob in a cluster that others use."""
    return workload("ray.io/v1", "RayJob", {"entrypoint": "python train.py", **SHARED, **spec})


def rules(*items: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A strategy of rules: what each deletes, and its condition."""
    return {"deletionStrategy": {"deletionRules": [{"policy": what, "condition": when} for what, when in items]}}


def ends(success: Any, failure: Any) -> dict[str, Any]:
    """A strategy of two policies."""
    return {"deletionStrategy": {"onSuccess": {"policy": success}, "onFailure": {"policy": failure}}}


def ray_service(**spec: Any) -> Manifest:
    """A RayService."""
    cluster = {**ray_cluster()["spec"], **spec.pop("cluster", {})}
    return workload("ray.io/v1", "RayService", {"rayClusterConfig": cluster, **spec})


REFUSED: dict[str, tuple[Manifest, str, Any]] = {
    "a negative maximum": (ray_cluster(worker_group(minReplicas=0, maxReplicas=-1)), f"{GROUP}.maxReplicas", -1),
    "a store stated twice": (
        annotated("ray.io/ft-enabled", "true", ray_cluster(**STORE)),
        "metadata.annotations[ray.io/ft-enabled]",
        "ray.io/ft-enabled",
    ),
    "the namespace of the store beside the options": (
        annotated("ray.io/external-storage-namespace", "x", ray_cluster(**STORE)),
        "metadata.annotations[ray.io/external-storage-namespace]",
        "ray.io/external-storage-namespace",
    ),
    "a password beside the options": (
        ray_cluster(**STORE, **head(rayStartParams={"redis-password": "secret"})),
        f"{HEAD}.rayStartParams.redis-password",
        "redis-password",
    ),
    "a variable of the password": (
        ray_cluster(**STORE, **head("REDIS_PASSWORD", "secret")),
        VARIABLE,
        "REDIS_PASSWORD",
    ),
    "an address without the options": (ray_cluster(**head("RAY_REDIS_ADDRESS", "x")), VARIABLE, "RAY_REDIS_ADDRESS"),
    "an address beside the options": (
        ray_cluster(**STORE, **head("RAY_REDIS_ADDRESS", "x")),
        VARIABLE,
        "RAY_REDIS_ADDRESS",
    ),
    "a user": (ray_cluster(**head("REDIS_USERNAME", "x")), VARIABLE, "REDIS_USERNAME"),
    "a user in the parameters": (
        ray_cluster(**head(rayStartParams={"redis-username": "x"})),
        f"{HEAD}.rayStartParams.redis-username",
        "redis-username",
    ),
    "no autoscaler, and its second version": (ray_cluster(**head(SCALER, "1")), f"{VARIABLE}.value", "1"),
    "its version stated twice": (
        ray_cluster(**SECOND, **head(SCALER, "0")),
        "spec.autoscalerOptions.version",
        "v2",
    ),
    "a head that restarts": (
        ray_cluster(**SECOND, **head(policy="Always")),
        f"{HEAD}.template.spec.restartPolicy",
        "Always",
    ),
    "workers that restart": (
        ray_cluster(restarted("OnFailure"), **SECOND),
        f"{GROUP}.template.spec.restartPolicy",
        "OnFailure",
    ),
    "a negative idle time": (
        ray_cluster(autoscalerOptions={"idleTimeoutSeconds": -1}),
        "spec.autoscalerOptions.idleTimeoutSeconds",
        -1,
    ),
    "a negative idle time of a group": (
        ray_cluster(worker_group(idleTimeoutSeconds=-1), **SECOND),
        f"{GROUP}.idleTimeoutSeconds",
        -1,
    ),
    "an idle time that nothing reads": (
        ray_cluster(worker_group(idleTimeoutSeconds=60), enableInTreeAutoscaling=True),
        f"{GROUP}.idleTimeoutSeconds",
        60,
    ),
    "a label of a group": (ray_cluster(worker_group(labels={"zone": "-a"})), f"{GROUP}.labels.zone", "-a"),
    "the key of a label": (ray_cluster(**head(labels={"a/b/c": "x"})), f"{HEAD}.labels[a/b/c]", "x"),
    "tokens of an old Ray": (tokens("2.51.9"), "spec.rayVersion", "2.51.9"),
    "tokens of an unknown Ray": (tokens(), "spec.rayVersion", ""),
    "tokens of a name": (tokens("nightly"), "spec.rayVersion", "nightly"),
    "tokens of Kubernetes in an old Ray": (tokens("2.54", enableK8sTokenAuth=True), "spec.rayVersion", "2.54"),
    "tokens of two": (
        tokens("2.55.0", enableK8sTokenAuth=True, secretName="x"),
        "spec.authOptions.secretName",
        "x",
    ),
    "tokens of Kubernetes in another mode": (
        ray_cluster(authOptions={"enableK8sTokenAuth": True}),
        "spec.authOptions.mode",
        None,
    ),
    "an unknown upgrade": (ray_cluster(upgradeStrategy={"type": "Roll"}), "spec.upgradeStrategy.type", "Roll"),
    "in the cluster of a RayJob": (
        {**ray_job(), "spec": {**ray_job()["spec"], "rayClusterSpec": ray_cluster(**head(SCALER, "true"))["spec"]}},
        VARIABLE.replace("spec.", "spec.rayClusterSpec.", 1) + ".value",
        "true",
    ),
    "a time and no end": (ray_job(ttlSecondsAfterFinished=5), "spec.ttlSecondsAfterFinished", 5),
    "repeated in a shared cluster": (in_shared(backoffLimit=1), "spec.backoffLimit", 1),
    "a selector of nothing": (
        in_shared(clusterSelector={"team": "a"}),
        "spec.clusterSelector[ray.io/cluster]",
        None,
    ),
    "in the head of a shared cluster": (in_shared(**SIDECAR), "spec.clusterSelector", "ray.io/cluster"),
    "a submitter in the head": (
        ray_job(**SIDECAR, submitterPodTemplate={"spec": {}}),
        "spec.submitterPodTemplate",
        "spec",
    ),
    "a submitter's settings": (ray_job(**SIDECAR, submitterConfig={}), "spec.submitterConfig", None),
    "an environment that is text": (ray_job(runtimeEnvYAML="pip torch"), "spec.runtimeEnvYAML", "pip torch"),
    "rules and an end": (
        ray_job(shutdownAfterJobFinishes=True, **rules(("DeleteSelf", AFTER))),
        RULES,
        "shutdownAfterJobFinishes",
    ),
    "an empty strategy": (ray_job(deletionStrategy={}), "spec.deletionStrategy", None),
    "a strategy of one end": (
        ray_job(deletionStrategy={"onSuccess": {"policy": "DeleteNone"}}),
        "spec.deletionStrategy",
        "onSuccess",
    ),
    "a strategy without a policy": (
        ray_job(**ends(None, "DeleteNone")),
        "spec.deletionStrategy.onSuccess.policy",
        None,
    ),
    "a shared cluster that is deleted": (
        in_shared(**ends("DeleteNone", "DeleteCluster")),
        "spec.deletionStrategy.onFailure.policy",
        "DeleteCluster",
    ),
    "all is kept and ended": (
        ray_job(shutdownAfterJobFinishes=True, **ends("DeleteCluster", "DeleteNone")),
        "spec.deletionStrategy.onFailure.policy",
        "DeleteNone",
    ),
    "a rule without a condition": (ray_job(**rules(("DeleteSelf", {}))), f"{RULES}[0].condition", None),
    "a rule after a negative time": (
        ray_job(**rules(("DeleteSelf", {**AFTER, "ttlSeconds": -1}))),
        f"{RULES}[0].condition.ttlSeconds",
        -1,
    ),
    "a rule twice": (
        ray_job(**rules(("DeleteSelf", AFTER), ("DeleteSelf", AFTER))),
        f"{RULES}[1].policy",
        "DeleteSelf",
    ),
    "a cluster before its workers": (
        ray_job(**rules(("DeleteCluster", {**AFTER, "ttlSeconds": 5}), ("DeleteWorkers", {**AFTER, "ttlSeconds": 9}))),
        RULES,
        "DeleteCluster",
    ),
    "a named Service": (
        ray_service(cluster=head(headService={"metadata": {"name": "mine"}})),
        "spec.rayClusterConfig.headGroupSpec.headService.metadata.name",
        "mine",
    ),
    "a RayService with tokens of Kubernetes": (
        ray_service(cluster={"authOptions": {"enableK8sTokenAuth": True}}),
        "spec.rayClusterConfig.authOptions.enableK8sTokenAuth",
        True,
    ),
    "a negative delay": (ray_service(rayClusterDeletionDelaySeconds=-1), "spec.rayClusterDeletionDelaySeconds", -1),
    "a negative time to begin": (
        annotated("ray.io/initializing-timeout", "-5m", ray_service()),
        "metadata.annotations[ray.io/initializing-timeout]",
        "-5m",
    ),
    "no time to begin": (
        annotated("ray.io/initializing-timeout", "soon", ray_service()),
        "metadata.annotations[ray.io/initializing-timeout]",
        "soon",
    ),
}
ACCEPTED: dict[str, Manifest] = {
    "a store": ray_cluster(**STORE),
    "a store by annotation": annotated(
        "ray.io/ft-enabled",
        "True",
        ray_cluster(**head("RAY_REDIS_ADDRESS", "x", rayStartParams={"redis-password": "x"})),
    ),
    "the autoscaler by its variable": ray_cluster(
        worker_group(idleTimeoutSeconds=60), enableInTreeAutoscaling=True, **head(SCALER, "1")
    ),
    "its first version": ray_cluster(restarted("Always"), enableInTreeAutoscaling=True),
    "a second version without restarts": ray_cluster(restarted("Never"), **SECOND),
    "labels": ray_cluster(worker_group(labels={"example.com/zone": "", "a": "b"})),
    "tokens": tokens("v2.52"),
    "tokens of a later build": tokens("2.53.0rc1"),
    "a version that is not rendered": tokens("${RAY_VERSION}"),
    "tokens of Kubernetes": tokens("2.55.0", enableK8sTokenAuth=True),
    "an upgrade": ray_cluster(upgradeStrategy={"type": "Recreate"}),
    "a shared cluster": in_shared(**ends("DeleteSelf", "DeleteNone")),
    "a submitter outside the head": ray_job(submitterConfig={"backoffLimit": 1}, submitterPodTemplate={"spec": {}}),
    "an environment": ray_job(runtimeEnvYAML="pip:\n- torch\n"),
    "an environment of comments": ray_job(runtimeEnvYAML="# none\n"),
    "rules in order": ray_job(
        **rules(
            ("DeleteCluster", {**AFTER, "ttlSeconds": 9}),
            ("DeleteWorkers", {**AFTER, "ttlSeconds": 9}),
            ("DeleteWorkers", {"jobStatus": "SUCCEEDED"}),
            ("DeleteSelf", {"jobDeploymentStatus": "Failed"}),
        )
    ),
    "a RayService": ray_service(upgradeStrategy={"type": "NewCluster"}, rayClusterDeletionDelaySeconds=0),
    "a time to begin": annotated("ray.io/initializing-timeout", "300", ray_service()),
    "a time to begin with a unit": annotated("ray.io/initializing-timeout", "1h5m", ray_service()),
    "values of other types": ray_cluster(
        worker_group(labels=[], idleTimeoutSeconds="x"), autoscalerOptions=[], authOptions="x", **{FT: "x"}
    ),
}


def refusals(manifest: Manifest) -> list[tuple[str, str, Any]]:
    """The action, the field and the value of each finding of the rule."""
    return [
        (finding.action.name, str(finding.at), finding.value)
        for judgement in judge(manifest, NO_FACTS, settings_of("koord-scheduler"))
        for finding in judgement.verdict.findings
        if finding.rule == "owner/refused"
    ]


# What no release of KubeRay ever ran.
NEVER_RAN = {"spec.runtimeEnvYAML", "spec.clusterSelector[ray.io/cluster]"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_kuberay_makes_no_pod_of_is_reported_at_its_field(name: str) -> None:
    """As a warning, since earlier releases of KubeRay ran it."""
    manifest, field, value = REFUSED[name]
    action = "DENY" if field in NEVER_RAN else "WARN"
    assert refusals(manifest) == [(action, field, value)]


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_kuberay_accepts_is_not_reported(name: str) -> None:
    assert refusals(ACCEPTED[name]) == []
