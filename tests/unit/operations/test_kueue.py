"""Kueue beside Rollcall: its webhooks, its configuration, its release, and Grove's; the findings for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.operations.findings import reported, unknown
from webhook.model.reading import Manifest
from webhook.operations.diagnosis import Severity, configured, deployment, installed, namespace
from webhook.operations.kueue_checks import kueue_webhook, running_kueue
from webhook.operations.snapshot import Snapshot, Unread

FRAMEWORKS = [
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "trainer.kubeflow.org/trainjob",
]
PODS = kueue_webhook("mpod.kb.io", "pods")
WHERE = "Kueue's Configuration"


def beside(block: Manifest, api: str = "v1beta2", /, *arguments: str, **section: Any) -> Snapshot:
    """Kueue with these fields in its Configuration, and these in the `kueue:` block of ours."""
    found = {
        "apiVersion": f"config.kueue.x-k8s.io/{api}",
        "kind": "Configuration",
        "integrations": {"frameworks": FRAMEWORKS},
        **block,
    }
    kueue = running_kueue()
    kueue["spec"]["template"]["spec"]["containers"][0]["args"] = list(arguments)
    return installed(kueue, PODS, settings=configured(kueue=section), kueue=found)


FRAMEWORKS_SET = {"integrations": {"frameworks": ["batch/job", "kubeflow.org/tfjob"]}}
ELSEWHERE = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
}
TEAMS = {"matchLabels": {"team": "a"}}
UNMANAGED = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kueue-system", "kube-system"]}
OFF: list[tuple[str, str]] = [("waitForPodsReady.enable", Text("false", "true"))]
COMPARED: dict[str, tuple[Snapshot, list[tuple[str, str]]]] = {
    "the defaults of both": (beside({}), []),
    "a timeout": (
        beside({"waitForPodsReady": {"timeout": "1h30m"}}),
        [
            ("waitForPodsReady.timeout", Text('"5400s"', '"1800s"')),
            ("waitForPodsReady.recoveryTimeout", Text('"5400s"', '"1800s"')),
        ],
    ),
    "a timeout in both, in other words": (
        beside({"waitForPodsReady": {"timeout": "90m0s"}}, waitForPodsReady={"timeout": "1h30m"}),
        [],
    ),
    "a timeout of zero is Kueue's default": (beside({"waitForPodsReady": {"timeout": "0s"}}), []),
    "no recovery": (
        beside({"waitForPodsReady": {"timeout": "30m", "recoveryTimeout": "0s"}}),
        [("waitForPodsReady.recoveryTimeout", Text('"0s"', '"1800s"'))],
    ),
    "blocking, and a limit": (
        beside({"waitForPodsReady": {"blockAdmission": True, "requeuingStrategy": {"backoffLimitCount": 3}}}),
        [
            ("waitForPodsReady.blockAdmission", Text("true", "false")),
            ("waitForPodsReady.requeuingStrategy.backoffLimitCount", Text(" 3,", "null")),
        ],
    ),
    "v1beta1 does not wait unless it says so": (beside({}, "v1beta1"), OFF),
    "v1beta1 that waits has other defaults": (
        beside({"waitForPodsReady": {"enable": True}}, "v1beta1"),
        [
            ("waitForPodsReady.timeout", Text('"300s"', '"1800s"')),
            ("waitForPodsReady.recoveryTimeout", Text('"300s"', '"1800s"')),
            ("waitForPodsReady.blockAdmission", Text("true", "false")),
        ],
    ),
    "v1beta1 that does not wait, and neither says the block": (
        beside({"waitForPodsReady": {"timeout": "5m"}}, "v1beta1", waitForPodsReady={"enable": False}),
        [],
    ),
    "the gate that turns waiting off": (beside({"featureGates": {"DisableWaitForPodsReady": True}}), OFF),
    "what 0.20 has more": (
        beside(
            {
                "waitForPodsReady": {"unscheduledTimeout": "5m"},
                "featureGates": {
                    "WorkloadLevelWaitForPodsReady": True,
                    "WaitForPodsReadyMaxNotReady": True,
                    "BringYourOwnPodGroup": True,
                },
            }
        ),
        [
            ("waitForPodsReady.unscheduledTimeout", Text('"300s"', '"0s"')),
            ("featureGates.WorkloadLevelWaitForPodsReady", Text("true", "false")),
            ("featureGates.WaitForPodsReadyMaxNotReady", Text("true", "false")),
            ("featureGates.BringYourOwnPodGroup", Text("true", "false")),
        ],
    ),
    "gates on the command line": (
        beside({}, "v1beta2", "--feature-gates=SchedulerLibraryIntegration=true,TopologyAwareScheduling=false"),
        [
            ("featureGates.SchedulerLibraryIntegration", Text("true", "false")),
            ("featureGates.TopologyAwareScheduling", Text("false", "true")),
        ],
    ),
    "every workload": (
        beside({"manageJobsWithoutQueueName": True}),
        [("manageJobsWithoutQueueName", Text("true", "false"))],
    ),
    "only frameworks that rules ask about count": (
        beside(FRAMEWORKS_SET, integrations={"frameworks": ["batch/job"]}),
        [],
    ),
    "a framework is off": (
        beside(FRAMEWORKS_SET, integrations={"frameworks": ["batch/job", "pod"]}),
        [("integrations.frameworks", Text('["batch/job"]', '["batch/job", "pod"]'))],
    ),
    "without frameworks only Jobs": (beside({"integrations": {}}, integrations={"frameworks": ["batch/job"]}), []),
    "namespaces in another order": (beside({"managedJobsNamespaceSelector": {"matchExpressions": [UNMANAGED]}}), []),
    "other namespaces": (
        beside({"managedJobsNamespaceSelector": TEAMS}, managedJobsNamespaceSelector=ELSEWHERE),
        [
            (
                "managedJobsNamespaceSelector",
                Text(
                    '{"matchLabels": {"team": "a"}, "matchExpressions": []}',
                    '{"matchLabels": {}, "matchExpressions": [{"key": "kubernetes.io/metadata.name", ',
                    '"operator": "NotIn", "values": ["kube-system"]}]}',
                ),
            )
        ],
    ),
    "deactivated workloads are deleted": (
        beside({"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "1h"}}}),
        [
            (
                "objectRetentionPolicies.workloads.afterDeactivatedByKueue",
                Text("a duration", "null"),
            )
        ],
    ),
}


@pytest.mark.parametrize(("snapshot", "wanted"), COMPARED.values(), ids=COMPARED)
def test_each_difference_from_kueues_configuration_is_reported(
    snapshot: Snapshot, wanted: list[tuple[str, str]]
) -> None:
    found = reported(snapshot, "kueue/configuration")
    assert found == [(Severity.WARNING, f"{WHERE}, {place}", said) for place, said in wanted]


@pytest.mark.parametrize(("stated", "wanted"), [("0.19", []), ("0.20", [Text("0.19.0", "0.20")])])
def test_a_stated_release_is_compared_with_the_image(stated: str, wanted: list[str]) -> None:
    found = reported(beside({}, version=stated), "kueue/configuration")
    assert found == [(Severity.WARNING, "Kueue's image", said) for said in wanted]


def test_a_configuration_that_is_not_found_is_a_note() -> None:
    said = Text("Deployment", "ConfigMap")
    where = "MutatingWebhookConfiguration kueue-mutating-webhook-configuration"
    for snapshot in (installed(PODS), installed(PODS, running_kueue())):
        assert reported(snapshot, "kueue/configuration") == [(Severity.NOTE, where, said)]
    assert reported(installed(), "kueue/configuration") == []


def test_a_deployment_of_a_tenant_with_kueues_image_is_not_kueue() -> None:
    theirs = deployment("kueue", "registry.k8s.io/kueue/kueue:v0.19.0", "team-a")
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "manageJobsWithoutQueueName": True}
    found = reported(installed(theirs, PODS, kueue=configuration), "kueue/configuration")
    assert [level for level, _, _ in found] == [Severity.NOTE]


def test_a_configuration_that_cannot_be_read_is_not_known() -> None:
    forbidden = replace(beside({}), kueue=Unread("the ConfigMap kueue-manager-config", "HTTP 403: forbidden"))
    assert unknown(forbidden, "kueue/configuration") == [
        "the ConfigMap kueue-manager-config could not be read: HTTP 403: forbidden"
    ]
    # Where Kueue's webhooks are not registered, nothing is missed.
    without = installed(kueue=Unread("Kueue's Configuration", "HTTP 403: forbidden"))
    assert unknown(without, "kueue/configuration") == []
    odd = beside({"waitForPodsReady": {"timeout": "soon"}})
    assert unknown(odd, "kueue/configuration") == [Text("expected a duration, found text")]


@pytest.mark.parametrize("values", [5, "kube-system", {"kube-system": ""}])
def test_a_namespace_selector_that_kueue_would_refuse_is_not_known(values: Any) -> None:
    odd = beside({"managedJobsNamespaceSelector": {"matchExpressions": [{**UNMANAGED, "values": values}]}})
    (said,) = unknown(odd, "kueue/configuration")
    assert said == Text("expected a list")


@pytest.mark.parametrize("values", [None, [{"name": "kube-system"}], [["kube-system"]]])
def test_a_namespace_selector_with_odd_values_differs_from_ours(values: Any) -> None:
    odd = beside({"managedJobsNamespaceSelector": {"matchExpressions": [{**UNMANAGED, "values": values}]}})
    assert [where for _, where, _ in reported(odd, "kueue/configuration")] == [f"{WHERE}, managedJobsNamespaceSelector"]


def train_jobs(**fields: Any) -> Manifest:
    return kueue_webhook("mtrainjob.kb.io", "trainjobs", "trainer.kubeflow.org", **fields)


AGAIN = train_jobs(reinvocationPolicy="IfNeeded")
REINVOKED: dict[str, tuple[Snapshot, list[tuple[Severity, str]]]] = {
    "never": (installed(train_jobs(reinvocationPolicy="Never"), namespace("a", scheduler="volcano")), []),
    "not said is never": (installed(train_jobs(), namespace("a", scheduler="volcano")), []),
    "again, in a namespace with the label": (
        installed(AGAIN, namespace("a", scheduler="volcano"), namespace("b", scheduler="volcano")),
        [(Severity.ERROR, Text("IfNeeded", "a and 1 more"))],
    ),
    "again, without such a namespace": (installed(AGAIN), [(Severity.NOTE, Text("IfNeeded"))]),
    "again, by a release that writes once": (installed(AGAIN, running_kueue("v0.20.0")), []),
    "again, but not for TrainJobs": (
        installed(kueue_webhook("mjob.kb.io", "jobs", "batch", reinvocationPolicy="IfNeeded")),
        [],
    ),
}


@pytest.mark.parametrize(("snapshot", "wanted"), REINVOKED.values(), ids=REINVOKED)
def test_kueues_webhook_for_train_jobs_is_called_once(snapshot: Snapshot, wanted: list[tuple[Severity, str]]) -> None:
    where = "MutatingWebhookConfiguration kueue-mutating-webhook-configuration, mtrainjob.kb.io"
    found = reported(snapshot, "kueue/reinvocation")
    assert found == [(level, where, said) for level, said in wanted]


PAIRS: list[tuple[str, str, bool]] = [
    ("v0.19.2", "v2.2.1", True),
    ("v0.19.2", "v2.3.0", False),
    ("v0.20.0", "v2.2.1", False),
    ("v0.20.1", "v2.3.1", True),
    ("v0.21.0", "v2.4.0", True),
    ("main", "v2.3.0", True),
    ("v0.20.0", "latest", True),
]


@pytest.mark.parametrize(("kueue", "trainer", "together"), PAIRS)
def test_kueue_and_trainer_are_of_releases_that_go_together(kueue: str, trainer: str, together: bool) -> None:
    image = f"ghcr.io/kubeflow/trainer/trainer-controller-manager:{trainer}"
    every = (running_kueue(kueue), PODS, deployment("trainer", image, "kubeflow-system"))
    wanted = [(Severity.WARNING, "Deployment kubeflow-system/trainer", Text(trainer[1:], kueue[1:]))]
    assert reported(installed(*every), "kueue/trainer") == ([] if together else wanted)
    without = configured(kueue={"integrations": {"frameworks": ["batch/job"]}})
    assert reported(installed(*every, settings=without), "kueue/trainer") == []


RELEASES = {
    "the release of the tests": (running_kueue("v0.19.3"), []),
    "a newer one": (running_kueue("v0.20.1"), [Text("Kueue", "0.20.1", "0.19")]),
    "a tag that is no version": (running_kueue("main"), []),
    "Trainer": (
        deployment("trainer", "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.1.0"),
        [Text("Trainer", "2.1.0", "2.2")],
    ),
    "KubeRay": (
        deployment("kuberay-operator", "quay.io/kuberay/operator:v1.7.0"),
        [Text("KubeRay", "1.7.0", "1.6")],
    ),
    "JobSet": (deployment("jobset-controller-manager", "registry.k8s.io/jobset/jobset:v0.12.0"), []),
    "LeaderWorkerSet": (
        deployment("lws-controller-manager", "registry.k8s.io/lws/lws:v0.8.0"),
        [Text("LeaderWorkerSet", "0.8.0", "0.9")],
    ),
}


@pytest.mark.parametrize(("raw", "wanted"), RELEASES.values(), ids=RELEASES)
def test_the_release_of_a_controller_is_read_from_its_image(raw: Manifest, wanted: list[str]) -> None:
    found = reported(installed(raw), "controllers/release")
    assert [(level, said) for level, _, said in found] == [(Severity.NOTE, said) for said in wanted]


GATED, UNGATED = ({"name": "koord-scheduler", "gate": gate} for gate in (True, False))
GROVES: dict[str, tuple[Snapshot, list[str]]] = {
    tag: (installed(deployment("grove-operator", f"grove-operator:{tag}"), settings=configured(GATED)), wanted)
    for tag, wanted in {
        "v0.1.0-alpha.9": ["its image has the tag v0.1.0-alpha.9"],
        "v0.1.0-alpha.11": ["its image has the tag v0.1.0-alpha.11"],
        "v0.1.0-alpha.12-rc1": [],
        "v0.1.0-alpha.13": [],
        "latest": [],
    }.items()
}
OLD_GROVE = deployment("grove-operator", "grove-operator:v0.1.0-alpha.11")
GROVES["nobody else gates its pods"] = installed(OLD_GROVE, settings=configured(UNGATED)), []
GROVES["Kueue gates its pods"] = (
    installed(OLD_GROVE, running_kueue(), PODS, settings=configured(UNGATED)),
    ["its image has the tag v0.1.0-alpha.11"],
)


@pytest.mark.parametrize(("snapshot", "wanted"), GROVES.values(), ids=GROVES)
def test_a_grove_that_removes_the_gates_of_others_is_reported(snapshot: Snapshot, wanted: list[str]) -> None:
    assert [said for _, _, said in reported(snapshot, "grove/gates")] == wanted
