"""The expected webhook configurations, written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.installation.registrations import COMMON, GANGS, HEAD, OUTSIDE, SERVICE
from tests.unit.worlds import koordinator
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from
from webhook.config.settings import Tenancy
from webhook.installation.webhooks import Address, webhook_configurations

LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}


def service(path: str) -> dict[str, Any]:
    found = {"namespace": "rollcall-system", "name": "rollcall", "path": path, "port": 443}
    return {"service": found, "caBundle": "Q0E="}


def sets(path: str) -> dict[str, Any]:
    leaving = "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)"
    return {
        "name": f"podcliquesets.{path}.rollcall.dev",
        "clientConfig": service(f"/{path}"),
        "rules": [
            {
                "apiGroups": ["grove.io"],
                "apiVersions": ["v1alpha1"],
                "resources": ["podcliquesets"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
        ],
        "matchConditions": [{"name": "not-leaving", "expression": leaving}],
        **COMMON,
    }


def pods(path: str) -> dict[str, Any]:
    return {
        "name": f"pods.{path}.rollcall.dev",
        "clientConfig": service(f"/{path}"),
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "objectSelector": {"matchExpressions": [{"key": "grove.io/podgang", "operator": "Exists"}]},
        **COMMON,
    }


SEALED = (
    'object.metadata.?annotations[?"rollcall.dev/seal"].orValue("")'
    ' == object.metadata.?labels[?"grove.io/podgang"].orValue("")'
    ' + "/" + object.metadata.?labels[?"grove.io/podclique"].orValue("")'
)
CONTAINERS = "object.spec.containers", "object.spec.?initContainers.orValue([])"
QOS = '"koordinator.sh/qosClass" in object.metadata.?labels.orValue({})'


def requests(resources: str) -> str:
    many = " || ".join(f"size({one}) > 32" for one in CONTAINERS)
    amounts = "c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})"
    either = f"[{amounts}].exists(m, size(m) > 32 || m.exists(r, r in [{resources}]))"
    return f"({many} || ({' + '.join(CONTAINERS)}).exists(c, {either}))"


def qos_besides(classes: str) -> str:
    return f'({QOS} && !(object.metadata.labels["koordinator.sh/qosClass"] in [{classes}]))'


LOOKED_FOR = (
    '"scheduling.koordinator.sh/scheduler-name" in object.metadata.?labels.orValue({})',
    '"scheduling.koordinator.sh/reserve-pod" in object.metadata.?annotations.orValue({})',
    qos_besides('"LSE", "LSR", "LS", "BE", "SYSTEM"'),
    qos_besides('"LS", "SYSTEM"'),
    '"quota.scheduling.koordinator.sh/name" in object.metadata.?labels.orValue({})',
    requests(
        '"koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory",'
        ' "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu.shared",'
        ' "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"'
    ),
)
OPERATOR = (
    '((request.userInfo.username.startsWith("system:serviceaccount:")'
    ' && request.userInfo.username.split(":").size() == 4'
    ' && request.userInfo.username.split(":")[3] in ["grove-operator"]))'
)


def unsealed(operator: str = OPERATOR) -> dict[str, str]:
    """Of koord-scheduler and default-scheduler, which is always enabled."""
    ours = f'object.spec.schedulerName == "koord-scheduler" && {SEALED} + "/0870513a2d43"'
    either = (
        f'(object.spec.schedulerName == "default-scheduler" && {SEALED} + "/735f03c83aac")'
        f" || ({ours} && !({' || '.join(LOOKED_FOR)}))"
    )
    controlled = "object.metadata.?ownerReferences[?0].?controller.orValue(false)"
    return {"name": "unsealed", "expression": f"!({operator} && {controlled} && ({either}))"}


def pod_groups() -> dict[str, Any]:
    changed = (
        "request.operation == 'CREATE'"
        " || has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)"
        " || has(object.metadata.labels) != has(oldObject.metadata.labels)"
        " || (has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)"
        " || has(object.metadata.annotations) != has(oldObject.metadata.annotations)"
        " || (has(object.metadata.annotations) && object.metadata.annotations != oldObject.metadata.annotations)"
    )
    return {
        "name": "scheduling-sigs-k8s-io.validate.rollcall.dev",
        "clientConfig": service("/validate"),
        "rules": [
            {
                "apiGroups": ["scheduling.sigs.k8s.io"],
                "apiVersions": ["*"],
                "resources": ["podgroups"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "*",
            }
        ],
        "matchConditions": [
            {
                "name": "not-exempt",
                "expression": "!(request.userInfo.username in ["
                '"system:kube-controller-manager",'
                '"system:serviceaccount:koordinator-system:koord-scheduler",'
                '"system:serviceaccount:kube-system:job-controller",'
                '"system:serviceaccount:rollcall-system:rollcall",'
                '"system:serviceaccount:rollcall-system:rollcall-reconciler"])',
            },
            {"name": "changed", "expression": changed},
        ],
        **COMMON,
    }


def group_pods() -> dict[str, Any]:
    labels, annotations = "object.metadata.?labels.orValue({})", "object.metadata.?annotations.orValue({})"
    named = (
        f'("pod-group.scheduling.sigs.k8s.io" in {labels}'
        f' || "pod-group.scheduling.sigs.k8s.io/name" in {labels}'
        f' || "gang.scheduling.koordinator.sh/name" in {annotations}'
        f' || "pod-group.scheduling.sigs.k8s.io/min-available" in {labels}'
        f' || "gang.scheduling.koordinator.sh/min-available" in {annotations})'
    )
    return {
        "name": "group-pods.validate.rollcall.dev",
        "clientConfig": service("/validate"),
        "rules": pods("validate")["rules"],
        "objectSelector": OTHER_PODS,
        "matchConditions": [{"name": "names-a-group", "expression": named}],
        **COMMON,
    }


# The controllers of known kinds, and of those whose pods are no gangs.
KNOWN_CONTROLLERS = [
    "CronJob.batch",
    "DaemonSet.apps",
    "Deployment.apps",
    "DisaggregatedSet.disaggregatedset.x-k8s.io",
    "DynamoGraphDeployment.nvidia.com",
    "Job.batch",
    "Job.batch.volcano.sh",
    "JobSet.jobset.x-k8s.io",
    "LeaderWorkerSet.leaderworkerset.x-k8s.io",
    "MPIJob.kubeflow.org",
    "Node",
    "Pod",
    "PodClique.grove.io",
    "PodCliqueScalingGroup.grove.io",
    "PyTorchJob.kubeflow.org",
    "RayCluster.ray.io",
    "RayJob.ray.io",
    "RayService.ray.io",
    "ReplicaSet.apps",
    "ReplicationController",
    "SparkApplication.sparkoperator.k8s.io",
    "StatefulSet.apps",
    "TrainJob.trainer.kubeflow.org",
]


def unknown_kinds() -> list[dict[str, Any]]:
    """Those for pods of unknown kinds: in opted-in namespaces, and elsewhere for a gang scheduler."""
    named = "(o.apiVersion.contains('/') ? o.kind + '.' + o.apiVersion.split('/')[0] : o.kind)"
    unknown = (
        "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && "
        f"!({named} in {json.dumps(KNOWN_CONTROLLERS)}))"
    )
    conditions = [{"name": "unknown-kind", "expression": unknown}]
    gangs = {"name": "names-a-gang-scheduler", "expression": 'object.spec.schedulerName in ["koord-scheduler"]'}
    both = {"clientConfig": service("/validate"), "rules": pods("validate")["rules"], **COMMON}
    elsewhere = {"key": "rollcall.dev/scheduler", "operator": "DoesNotExist"}
    return [
        {
            **both,
            "name": f"{name}.validate.rollcall.dev",
            "objectSelector": OTHER_PODS,
            "matchConditions": matched,
            "failurePolicy": "Ignore",
            "namespaceSelector": {"matchExpressions": [*OUTSIDE["matchExpressions"], within]},
        }
        for name, matched, within in (
            ("unknown-kinds-of-namespaces", conditions, OPTED_IN),
            ("unknown-kinds", [*conditions, gangs], elsewhere),
        )
    ]


def opted_in_pods(path: str) -> dict[str, Any]:
    return {
        "name": f"owned-pods.{path}.rollcall.dev",
        "clientConfig": service(f"/{path}"),
        "rules": pods(path)["rules"],
        "objectSelector": {"matchExpressions": [OPTED_IN, IN_NO_PODGANG]},
        **COMMON,
    }


OPTED_IN = {"key": "rollcall.dev/scheduler", "operator": "Exists"}
IN_NO_PODGANG = {"key": "grove.io/podgang", "operator": "DoesNotExist"}
OTHER_PODS = {"matchExpressions": [IN_NO_PODGANG, {"key": "rollcall.dev/scheduler", "operator": "DoesNotExist"}]}
UNLABELLED = {
    "name": "unlabelled",
    "expression": '!has(object.metadata.labels) || !("rollcall.dev/scheduler" in object.metadata.labels)',
}


def workloads(path: str) -> list[dict[str, Any]]:
    """Those that are opted in, and those whose namespace is."""
    kinds = (
        ("batch", "v1", "jobs"),
        ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
        ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
        ("trainer.kubeflow.org", "v1alpha1", "trainjobs"),
        ("apps", "v1", "deployments"),
        ("apps", "v1", "statefulsets"),
        ("disaggregatedset.x-k8s.io", "v1", "disaggregatedsets"),
        ("nvidia.com", "v1beta1", "dynamographdeployments"),
        ("nvidia.com", "v1alpha1", "dynamographdeployments"),
        ("kubeflow.org", "v1", "pytorchjobs"),
        ("kubeflow.org", "v2beta1", "mpijobs"),
        ("ray.io", "v1", "rayclusters"),
        ("ray.io", "v1", "rayjobs"),
        ("ray.io", "v1", "rayservices"),
        ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
        ("batch.volcano.sh", "v1alpha1", "jobs"),
    )
    both: dict[str, Any] = {
        "clientConfig": service(f"/{path}"),
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "resources": [plural],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
            for group, version, plural in kinds
        ],
        **COMMON,
    }
    (leaving,) = sets(path)["matchConditions"]
    within = {"matchExpressions": [*OUTSIDE["matchExpressions"], OPTED_IN]}
    return [
        {
            "name": f"workloads.{path}.rollcall.dev",
            "objectSelector": {"matchExpressions": [OPTED_IN]},
            "matchConditions": [leaving],
            **both,
        },
        {
            "name": f"workloads-of-namespaces.{path}.rollcall.dev",
            "matchConditions": [leaving, UNLABELLED],
            **both,
            # A namespace does not opt in what is a gang only on request.
            "rules": [rule for rule in both["rules"] if rule["apiGroups"] != ["apps"]],
            "namespaceSelector": within,
        },
    ]


def scales() -> dict[str, Any]:
    rules = [
        {
            "apiGroups": ["grove.io"],
            "apiVersions": ["v1alpha1"],
            "resources": [f"{plural}/scale"],
            "operations": ["UPDATE"],
            "scope": "Namespaced",
        }
        for plural in ("podcliques", "podcliquescalinggroups")
    ]
    changed = "object.?spec.?replicas.orValue(0) != oldObject.?spec.?replicas.orValue(0)"
    return {
        **COMMON,
        "name": "scales.validate.rollcall.dev",
        "clientConfig": service("/validate"),
        "rules": rules,
        "matchConditions": [{"name": "changed", "expression": changed}],
        "failurePolicy": "Ignore",
    }


def always(path: str) -> list[dict[str, Any]]:
    """What there is whichever schedulers are enabled."""
    judged = pods(path) | ({"matchConditions": [unsealed()]} if path == "validate" else {})
    return [sets(path), judged, opted_in_pods(path), *workloads(path)]


def test_the_webhook_configurations_match_the_design() -> None:
    again = {"reinvocationPolicy": "IfNeeded"}
    assert webhook_configurations(koordinator(), SERVICE, "rollcall-system", "Q0E=") == [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "m-rollcall", "labels": LABELS},
            "webhooks": [hook | again for hook in always("mutate")],
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "v-rollcall", "labels": LABELS},
            "webhooks": [*always("validate"), pod_groups(), group_pods(), scales(), *unknown_kinds()],
        },
    ]


def test_the_file_sets_the_failure_policy_and_the_exempt_namespaces() -> None:
    registration = {"failurePolicy": "Ignore", "timeoutSeconds": 2, "excludedNamespaces": ["monitoring"]}
    head = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
    settings = settings_from({**head, "registration": registration}, "test")
    for configuration in webhook_configurations(settings, SERVICE, "rollcall-system", None):
        for hook in configuration["webhooks"]:
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
            outside = hook["namespaceSelector"]["matchExpressions"][0]
            assert outside["values"] == ["kube-system", "kube-node-lease", "monitoring", "rollcall-system"]
            assert "caBundle" not in hook["clientConfig"]
    # A pod that /mutate may not have seen is judged.
    assert "matchConditions" not in configuration["webhooks"][1]


OPERATORS = {
    "one by its whole name": (["grove"], '(request.userInfo.username in ["grove"])'),
    "of both forms": (
        ["system:serviceaccount:*:grove-operator", "system:serviceaccount:a:b", "admin"],
        '(request.userInfo.username in ["admin","system:serviceaccount:a:b"] || ' + OPERATOR[1:],
    ),
    "none": ([], "false"),
}


@pytest.mark.parametrize(("users", "expected"), OPERATORS.values(), ids=OPERATORS)
def test_only_pods_of_grove_s_operator_are_spared_a_second_call(users: list[str], expected: str) -> None:
    settings = replace(koordinator(), tenancy=Tenancy(grove_operators=tuple(users)))
    _, validating = webhook_configurations(settings, SERVICE, "rollcall-system", "Q0E=")
    assert validating["webhooks"][1]["matchConditions"] == [unsealed(expected)]


def test_webhooks_can_have_a_url_instead_of_a_service() -> None:
    found = webhook_configurations(default_settings(), Address(url="https://127.0.0.1:8443/"), "x", "Q0E=")
    mutating, validating = ([hook["clientConfig"]["url"] for hook in one["webhooks"]] for one in found)
    assert set(mutating) == {"https://127.0.0.1:8443/mutate"}
    assert set(validating) == {"https://127.0.0.1:8443/validate"}


def test_foreign_gang_objects_are_judged_at_creation_and_update() -> None:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [{"name": "volcano"}]}}, "test")
    _, validating = webhook_configurations(settings, SERVICE, "rollcall-system", "Q0E=")
    (hook,) = (hook for hook in validating["webhooks"] if hook["name"].startswith("scheduling-volcano-sh."))
    assert hook["rules"] == [
        {
            "apiGroups": ["scheduling.volcano.sh"],
            "apiVersions": ["*"],
            "resources": ["podgroups", "queues"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        }
    ]
    assert [condition["name"] for condition in hook["matchConditions"]] == ["not-exempt", "changed"]


def validating(profile: dict[str, Any]) -> list[dict[str, Any]]:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
    found = webhook_configurations(settings, SERVICE, "rollcall-system", "Q0E=")
    # Nothing of it is ever changed.
    assert [hook["name"] for hook in found[0]["webhooks"]] == [hook["name"] for hook in always("mutate")]
    hooks: list[dict[str, Any]] = found[1]["webhooks"]
    return hooks


def test_workload_api_objects_are_judged_if_gangs_use_them() -> None:
    objects, members = validating(GANGS)[5:-2]
    assert objects["name"] == "scheduling-k8s-io.validate.rollcall.dev"
    assert objects["rules"] == [
        {
            "apiGroups": ["scheduling.k8s.io"],
            "apiVersions": ["*"],
            "resources": ["compositepodgroups", "podgroups", "workloads"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        }
    ]
    assert [condition["name"] for condition in objects["matchConditions"]] == ["not-exempt", "changed"]
    assert members["rules"][0]["resources"] == ["pods"]
    named = "(has(object.spec.schedulingGroup) || has(object.spec.workloadRef))"
    assert members["matchConditions"] == [{"name": "names-a-group", "expression": named}]
    # Without a gang scheduler, with those of namespaces and scales.
    assert len(validating({"name": "default-scheduler"})) == 7
