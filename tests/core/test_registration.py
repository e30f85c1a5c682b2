"""The webhook configurations and the rights, written out by hand as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.worlds import koordinator
from webhook.config import default_settings, settings_from
from webhook.installation.access import access_rules, reconciler_access_rules
from webhook.installation.webhooks import Address, webhook_configurations

SERVICE = Address("rollcall-system", "rollcall", 443)
OUTSIDE = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "kube-node-lease", "rollcall-system"],
        },
        {"key": "rollcall.dev/exempt", "operator": "DoesNotExist"},
    ]
}
COMMON: dict[str, Any] = {
    "namespaceSelector": OUTSIDE,
    "matchPolicy": "Equivalent",
    "failurePolicy": "Fail",
    "timeoutSeconds": 5,
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}


def service(path: str) -> dict[str, Any]:
    found = {"namespace": "rollcall-system", "name": "rollcall", "path": path, "port": 443}
    return {"service": found, "caBundle": "Q0E="}


def sets(path: str) -> dict[str, Any]:
    leaving = "request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp)"
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
        "objectSelector": {
            "matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"},
            "matchExpressions": [{"key": "grove.io/podgang", "operator": "Exists"}],
        },
        **COMMON,
    }


def pod_groups() -> dict[str, Any]:
    key = "app.kubernetes.io/managed-by"
    labels = "object.metadata.labels"
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
            *sets("validate")["matchConditions"],
            {
                "name": "not-ours",
                "expression": f'!has({labels}) || !("{key}" in {labels}) || {labels}["{key}"] != "rollcall"',
            },
            {"name": "changed", "expression": changed},
        ],
        **COMMON,
    }


def group_pods() -> dict[str, Any]:
    labels, annotations = "object.metadata.labels", "object.metadata.annotations"
    named = (
        f'((has({labels}) && ("pod-group.scheduling.sigs.k8s.io" in {labels}'
        f' || "pod-group.scheduling.sigs.k8s.io/name" in {labels}'
        f' || "pod-group.scheduling.sigs.k8s.io/min-available" in {labels}))'
        f' || (has({annotations}) && ("gang.scheduling.koordinator.sh/name" in {annotations}'
        f' || "gang.scheduling.koordinator.sh/min-available" in {annotations})))'
    )
    key = "app.kubernetes.io/managed-by"
    not_groves = (
        f'!has({labels}) || !("grove.io/podgang" in {labels}) || !("{key}" in {labels})'
        f' || {labels}["{key}"] != "grove-operator"'
    )
    return {
        "name": "group-pods.validate.rollcall.dev",
        "clientConfig": service("/validate"),
        "rules": pods("validate")["rules"],
        "matchConditions": [
            {"name": "not-groves", "expression": not_groves},
            UNLABELLED,
            {"name": "names-a-group", "expression": named},
        ],
        **COMMON,
    }


def owned_pods(path: str) -> dict[str, Any]:
    labels = "object.metadata.labels"
    key = "app.kubernetes.io/managed-by"
    not_groves = (
        f'!has({labels}) || !("grove.io/podgang" in {labels}) || !("{key}" in {labels})'
        f' || {labels}["{key}"] != "grove-operator"'
    )
    return {
        "name": f"owned-pods.{path}.rollcall.dev",
        "clientConfig": service(f"/{path}"),
        "rules": pods(path)["rules"],
        "objectSelector": {"matchExpressions": [OPTED_IN]},
        "matchConditions": [{"name": "not-groves", "expression": not_groves}],
        **COMMON,
    }


OPTED_IN = {"key": "rollcall.dev/scheduler", "operator": "Exists"}
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
            "namespaceSelector": within,
        },
    ]


def always(path: str) -> list[dict[str, Any]]:
    """What there is whichever schedulers are enabled."""
    return [sets(path), pods(path), owned_pods(path), *workloads(path)]


def test_the_configurations_are_as_the_design_has_them() -> None:
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
            "webhooks": [*always("validate"), pod_groups(), group_pods()],
        },
    ]


def test_the_file_says_who_decides_without_an_answer_and_where_nobody_is_asked() -> None:
    registration = {"failurePolicy": "Ignore", "timeoutSeconds": 2, "excludedNamespaces": ["monitoring"]}
    head = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
    settings = settings_from({**head, "registration": registration}, "test")
    for configuration in webhook_configurations(settings, SERVICE, "rollcall-system", None):
        for hook in configuration["webhooks"]:
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
            outside = hook["namespaceSelector"]["matchExpressions"][0]
            assert outside["values"] == ["kube-system", "kube-node-lease", "monitoring", "rollcall-system"]
            assert "caBundle" not in hook["clientConfig"]


def test_a_url_in_place_of_a_service() -> None:
    found = webhook_configurations(default_settings(), Address(url="https://127.0.0.1:8443/"), "x", "Q0E=")
    mutating, validating = ([hook["clientConfig"]["url"] for hook in one["webhooks"]] for one in found)
    assert set(mutating) == {"https://127.0.0.1:8443/mutate"}
    assert set(validating) == {"https://127.0.0.1:8443/validate"}


def test_gang_objects_of_others_are_asked_about_when_they_come_or_change() -> None:
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
    assert [condition["name"] for condition in hook["matchConditions"]] == ["not-leaving", "not-ours", "changed"]


def rights(*groups: str, settings: Any = None) -> dict[str, list[str]]:
    role, _ = access_rules(settings or default_settings(), "rollcall-system", "rollcall")
    return {
        f"{rule['apiGroups'][0]}/{rule['resources'][0]}": rule["verbs"]
        for rule in role["rules"]
        if not groups or rule["apiGroups"][0] in groups
    }


def test_a_server_may_read_what_its_caches_hold_and_write_nothing() -> None:
    reading = ["get", "list", "watch"]
    assert rights() == {
        "/namespaces": reading,
        "grove.io/podcliquesets": reading,
        "scheduler.grove.io/podgangs": reading,
        "grove.io/clustertopologybindings": reading,
        "scheduling.k8s.io/priorityclasses": reading,
        "scheduling.sigs.k8s.io/elasticquotas": reading,
        "scheduling.koordinator.sh/clusternetworktopologies": reading,
        "scheduling.sigs.k8s.io/podgroups": reading,
        "kai.scheduler/schedulingshards": reading,
        "kai.scheduler/topologies": reading,
        "scheduling.run.ai/queues": reading,
        "scheduling.run.ai/podgroups": reading,
        "scheduling.volcano.sh/queues": reading,
        "scheduling.volcano.sh/podgroups": reading,
        "topology.volcano.sh/hypernodes": reading,
        "/pods": ["list"],
        "batch/jobs": reading,
        "jobset.x-k8s.io/jobsets": reading,
        "leaderworkerset.x-k8s.io/leaderworkersets": reading,
        "trainer.kubeflow.org/trainjobs": reading,
        "trainer.kubeflow.org/trainingruntimes": reading,
        "trainer.kubeflow.org/clustertrainingruntimes": reading,
    }


def test_what_no_enabled_scheduler_needs_is_not_asked_for() -> None:
    plain = settings_from({"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}, "test")
    assert rights("scheduling.sigs.k8s.io", "scheduling.koordinator.sh", settings=plain) == {}


def test_the_pods_that_wait_in_groups_are_read_where_gangs_are_made_of_the_workload_api() -> None:
    for gangs, verbs in ((True, ["get", "list", "watch"]), (False, ["list"])):
        profile = {"name": "default-scheduler", "config": {"gangScheduling": gangs}}
        settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
        assert rights("", settings=settings)["/pods"] == verbs


def test_the_rights_are_bound_to_the_account() -> None:
    _, binding = access_rules(default_settings(), "here", "me")
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "rollcall-serve",
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "namespace": "here", "name": "me"}]


FOLLOWING = ["list", "watch"]
WRITING = ["list", "watch", "create", "patch", "delete"]
# What the reconciler needs whatever is enabled.
ALWAYS = {
    "/namespaces": FOLLOWING,
    "grove.io/podcliquesets": FOLLOWING,
    "grove.io/clustertopologybindings": FOLLOWING,
    "scheduler.grove.io/podgangs": FOLLOWING,
    "scheduling.k8s.io/priorityclasses": FOLLOWING,
    "scheduler.grove.io/podgangs/finalizers": ["update"],
    "events.k8s.io/events": ["create"],
    "/pods": FOLLOWING,
}
GATED = {"/pods": ["list", "watch", "patch"]}
# For the gangs of workloads that are not Grove's, which KAI makes itself.
OWNERS = {
    "batch/jobs": FOLLOWING,
    "batch/jobs/finalizers": ["update"],
    "jobset.x-k8s.io/jobsets": FOLLOWING,
    "jobset.x-k8s.io/jobsets/finalizers": ["update"],
    "leaderworkerset.x-k8s.io/leaderworkersets": FOLLOWING,
    "leaderworkerset.x-k8s.io/leaderworkersets/finalizers": ["update"],
    "trainer.kubeflow.org/trainjobs": FOLLOWING,
}
# By profile: what it needs besides.
BESIDES: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "default-scheduler": ({"name": "default-scheduler"}, {}),
    "default-scheduler with gangs": (
        {"name": "default-scheduler", "config": {"gangScheduling": True}},
        {
            "scheduling.k8s.io/workloads": WRITING,
            "scheduling.k8s.io/podgroups": WRITING,
            "scheduling.k8s.io/compositepodgroups": WRITING,
            **OWNERS,
        },
    ),
    "koord-scheduler": (
        {"name": "koord-scheduler"},
        {
            "scheduling.sigs.k8s.io/elasticquotas": FOLLOWING,
            "scheduling.koordinator.sh/clusternetworktopologies": FOLLOWING,
            "scheduling.sigs.k8s.io/podgroups": WRITING,
            **OWNERS,
            **GATED,
        },
    ),
    "koord-scheduler without the gate": (
        {"name": "koord-scheduler", "gate": False},
        {
            "scheduling.sigs.k8s.io/elasticquotas": FOLLOWING,
            "scheduling.koordinator.sh/clusternetworktopologies": FOLLOWING,
            "scheduling.sigs.k8s.io/podgroups": WRITING,
            **OWNERS,
        },
    ),
    "volcano": (
        {"name": "volcano", "config": {"topology": "hypernode"}},
        {
            "scheduling.volcano.sh/queues": FOLLOWING,
            "topology.volcano.sh/hypernodes": FOLLOWING,
            "scheduling.volcano.sh/podgroups": WRITING,
            **OWNERS,
        },
    ),
    "kai-scheduler": (
        {"name": "kai-scheduler"},
        {
            "scheduling.run.ai/queues": FOLLOWING,
            "kai.scheduler/topologies": WRITING,
            "grove.io/clustertopologybindings/finalizers": ["update"],
            "kai.scheduler/schedulingshards": FOLLOWING,
            "scheduling.run.ai/podgroups": WRITING,
        },
    ),
    "lpx-scheduler": ({"name": "lpx-scheduler"}, {}),
    "scheduler-plugins-scheduler": (
        {"name": "scheduler-plugins-scheduler"},
        {**OWNERS, "scheduling.x-k8s.io/podgroups": WRITING},
    ),
    "volcano with the gate": (
        {"name": "volcano", "gate": True},
        {
            "scheduling.volcano.sh/queues": FOLLOWING,
            "topology.volcano.sh/hypernodes": FOLLOWING,
            "scheduling.volcano.sh/podgroups": WRITING,
            **OWNERS,
            **GATED,
        },
    ),
}


HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}


def test_a_reconciler_may_delete_pods_only_where_the_configuration_wants_that() -> None:
    settings = settings_from({**HEAD, "escapes": {"delete": ["stale"]}}, "test")
    role = reconciler_access_rules(settings, "system", "writer")[0]
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": [*FOLLOWING, "get", "delete"]} in role["rules"]


@pytest.mark.parametrize(("profile", "besides"), BESIDES.values(), ids=BESIDES)
def test_a_reconciler_may_do_what_the_enabled_schedulers_need_and_hold_its_lease(
    profile: dict[str, Any], besides: dict[str, list[str]]
) -> None:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
    role, _, own, _ = reconciler_access_rules(settings, "system", "writer")
    granted = [
        (f"{group}/{resource}", rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    assert dict(granted) == {**ALWAYS, **besides}
    # Each once, and nothing by a wildcard.
    assert len(granted) == len(dict(granted))
    assert own["metadata"]["namespace"] == "system"
    assert own["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["rollcall-reconciler"],
            "verbs": ["get", "update"],
        },
    ]


GANGS = {"name": "default-scheduler", "config": {"gangScheduling": True}}


def validating(profile: dict[str, Any]) -> list[dict[str, Any]]:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
    found = webhook_configurations(settings, SERVICE, "rollcall-system", "Q0E=")
    # Nothing of it is ever changed.
    assert [hook["name"] for hook in found[0]["webhooks"]] == [hook["name"] for hook in always("mutate")]
    hooks: list[dict[str, Any]] = found[1]["webhooks"]
    return hooks


def test_the_workload_api_s_objects_are_asked_about_where_gangs_are_made_of_them() -> None:
    objects, members = validating(GANGS)[5:]
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
    assert [condition["name"] for condition in objects["matchConditions"]] == ["not-leaving", "not-ours", "changed"]
    assert members["rules"][0]["resources"] == ["pods"]
    assert [condition["name"] for condition in members["matchConditions"]] == [
        "not-groves",
        "unlabelled",
        "names-a-group",
    ]
    assert members["matchConditions"][2]["expression"] == (
        "(has(object.spec.schedulingGroup) || has(object.spec.workloadRef))"
    )
    assert len(validating({"name": "default-scheduler"})) == 5


def test_a_server_may_read_the_workload_api_s_objects_where_gangs_are_made_of_them() -> None:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [GANGS]}}, "test")
    reading = ["get", "list", "watch"]
    assert rights("scheduling.k8s.io", settings=settings) == {
        "scheduling.k8s.io/priorityclasses": reading,
        "scheduling.k8s.io/workloads": reading,
        "scheduling.k8s.io/podgroups": reading,
        "scheduling.k8s.io/compositepodgroups": reading,
    }
