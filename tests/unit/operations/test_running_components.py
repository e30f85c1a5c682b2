"""Running components: endpoints, the leader, gates, clocks, schedulers; the findings for each snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.operations.findings import remedies, reported, unknown
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.operations.api_checks import OF_137, workload_api
from webhook.operations.diagnosis import (
    Severity,
    configured,
    deployment,
    examine,
    example_object,
    installed,
    lease,
    served,
    snapshot,
)
from webhook.operations.scheduler_checks import kai_fixes
from webhook.operations.snapshot import LEASE, SERVICE, ClockOffset, DryRunAnswer, Unread
from webhook.operations.snapshot_reader import endpoints

SERVICE_IS = "Service rollcall-system/rollcall"
GANGS: dict[str, Any] = {"name": "default-scheduler", "config": {"gangScheduling": True}}
GATE = "rollcall.dev/gang-sync"


def each_endpoint(change: Callable[[Manifest], None], *numbers: int) -> Callable[[Manifest], None]:
    def changed(raw: Manifest) -> None:
        for number in numbers if raw["kind"] == "EndpointSlice" else ():
            change(raw["endpoints"][number])

    return changed


ENDPOINTS: dict[str, tuple[Callable[[Manifest], None], list[tuple[Severity, str]]]] = {
    "none is ready": (
        each_endpoint(lambda one: one.update(conditions={"ready": False}), 0, 1),
        [(Severity.ERROR, "no endpoint is ready")],
    ),
    "one is ready": (
        each_endpoint(lambda one: one.update(conditions={"ready": False}), 1),
        [(Severity.WARNING, "one endpoint is ready")],
    ),
    "not said is ready": (each_endpoint(lambda one: one.pop("conditions"), 0, 1), []),
    "endpoints without a node name": (each_endpoint(lambda one: one.pop("nodeName"), 0, 1), []),
}


@pytest.mark.parametrize(("changed", "wanted"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_the_endpoints_check_gives_the_expected_findings(
    changed: Callable[[Manifest], None], wanted: list[tuple[Severity, str]]
) -> None:
    found = reported(installed(changed=changed), "server/endpoints")
    assert found == [(level, SERVICE_IS, said) for level, said in wanted]


def test_endpoints_without_the_port_of_the_service_do_not_count() -> None:
    def leads_to(target: str | int, *ports: Manifest) -> Callable[[Manifest], None]:
        def changed(raw: Manifest) -> None:
            if raw["kind"] == "Service":
                raw["spec"]["ports"][0]["targetPort"] = target
            if raw["kind"] == "EndpointSlice":
                raw["ports"] = list(ports)

        return changed

    others = {"name": "health", "port": 8081}, {"name": "next", "port": 8444}
    assert reported(installed(changed=leads_to("web", *others)), "server/endpoints") == [
        (Severity.ERROR, SERVICE_IS, Text("443 (https)"))
    ]
    assert (
        reported(installed(changed=leads_to(9443, *others, {"name": "https", "port": 9443})), "server/endpoints") == []
    )


def test_a_port_without_a_name_must_be_the_only_one() -> None:
    def unnamed(raw: Manifest) -> None:
        if raw["kind"] == "Service":
            del raw["spec"]["ports"][0]["name"]
        if raw["kind"] == "EndpointSlice":
            raw["ports"][0]["name"] = ""

    assert reported(installed(changed=unnamed), "server/endpoints") == []
    assert [str(one) for one in endpoints(installed(changed=unnamed))] == [
        "https://10.0.0.0:8443",
        "https://10.0.0.1:8443",
    ]


def test_a_service_without_the_port_that_webhooks_name_is_reported() -> None:
    def other(raw: Manifest) -> None:
        if raw["kind"] == "Service":
            raw["spec"]["ports"] = [{"port": 8443}]

    assert reported(installed(changed=other), "server/service") == [
        (Severity.ERROR, SERVICE_IS, "it has no port 443, only [8443]")
    ]


def test_a_disruption_budget_for_other_pods_does_not_count() -> None:
    def other(raw: Manifest) -> None:
        if raw["kind"] == "PodDisruptionBudget":
            raw["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] = "other"

    assert reported(installed(changed=other), "server/disruption-budget")
    # The pods may have more labels than the Service selects.
    pods = deployment("rollcall", "example.com/rollcall:1", "rollcall-system")
    pods["spec"]["template"]["metadata"] = {
        "labels": {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/component": "other"}
    }
    assert reported(installed(pods, changed=other), "server/disruption-budget") == []


LEASES: dict[str, tuple[list[Manifest], str]] = {
    "never": ([], Text("not exist")),
    "given up": ([lease(holderIdentity="")], "it has no holder"),
    "not renewed at all": ([lease(renewTime=None)], Text("rollcall-reconciler-1", "never")),
}


@pytest.mark.parametrize(("leases", "said"), LEASES.values(), ids=LEASES)
def test_a_lease_without_a_live_holder_is_reported(leases: list[Manifest], said: str) -> None:
    found = reported(installed(*leases, without=("Lease",)), "reconciler/leader")
    assert found == [(Severity.ERROR, "Lease rollcall-system/rollcall-reconciler", said)]


def test_without_gang_objects_a_missing_leader_is_not_reported() -> None:
    assert reported(snapshot(settings=configured({"name": "lpx-scheduler"})), "reconciler/leader") == []


def gated(name: str, created: str, *gates: str) -> Manifest:
    found = example_object("v1", "Pod", name, {"grove.io/podgang": "demo-0"}, "team-a")
    found["metadata"]["creationTimestamp"] = created
    return {**found, "spec": {"schedulingGates": [{"name": gate} for gate in gates or (GATE,)]}}


OLD, FRESH = "2026-09-01T11:00:00Z", "2026-09-01T11:59:00Z"


def test_pods_that_still_have_the_gate_are_reported() -> None:
    pods = [gated("a", OLD), gated("b", FRESH), gated("c", OLD, "grove.io/podgang-pending-creation")]
    waits = configured({"name": "koord-scheduler", "gate": True})
    assert reported(installed(gated("b", FRESH), settings=waits), "reconciler/gated-pods") == []
    assert reported(installed(*pods, settings=waits), "reconciler/gated-pods") == [
        (Severity.WARNING, "Namespace team-a", f"1 pod has the gate {GATE}")
    ]
    assert reported(installed(*pods, settings=waits, without=("Lease",)), "reconciler/gated-pods") == [
        (Severity.ERROR, "Namespace team-a", f"2 pods have the gate {GATE}")
    ]


CLOCKS: dict[str, tuple[float, Severity | None]] = {
    "a second": (1.0, None),
    "a minute ahead": (60.0, Severity.WARNING),
    "a minute behind": (-60.0, Severity.WARNING),
    "an hour": (3600.0, Severity.ERROR),
}


@pytest.mark.parametrize(("ahead", "level"), CLOCKS.values(), ids=CLOCKS)
def test_clocks_that_differ_are_reported(ahead: float, level: Severity | None) -> None:
    found = reported(installed(clocks=(ClockOffset("https://10.0.0.0:8443", ahead),)), "clocks/agree")
    assert [(one, where) for one, where, _ in found] == (
        [] if level is None else [(level, "the clock of https://10.0.0.0:8443")]
    )


def test_a_lease_from_the_future_shows_a_clock_that_is_ahead() -> None:
    found = reported(installed(lease(renewTime="2026-09-01T12:01:00.000000Z"), without=("Lease",)), "clocks/agree")
    assert [said for _, _, said in found] == ["it is 60 s ahead of the clock here"]


def test_versions_of_the_workload_api_that_were_not_read_are_reported_as_unknown() -> None:
    """Nothing is known to be missing, and nothing is made."""
    apis = frozenset(Api("scheduling.k8s.io", "v2", kind) for kind in ("PriorityClass", "Workload", "PodGroup"))
    kube = configured({"name": "default-scheduler", "config": {"gangScheduling": True}})
    (found,) = reported(installed(settings=kube, apis=apis, version="v1.40.0"), "kinds/workload-api")
    assert found[2].endswith("of scheduling.k8s.io it serves v2 PodGroup, v2 PriorityClass, v2 Workload")
    (symptom,) = workload_api.look(installed(settings=kube, apis=apis, version="v1.40.0"))
    assert "unknown" in symptom.why
    assert "v1beta1" in symptom.remedy


def test_kinds_that_are_served_in_another_version_are_reported() -> None:
    apis = served(Api("scheduling.volcano.sh", "v1beta2", "PodGroup"))
    (found,) = reported(installed(settings=configured({"name": "volcano"}), apis=apis), "kinds/served")
    assert found[2] == Text("scheduling.volcano.sh/v1beta1 PodGroup", "v1beta2")


def test_with_unknown_discovery_nothing_is_reported() -> None:
    blind = installed(apis=Unread("which kinds are served", "HTTP 403", "get /apis"))
    for check in ("kinds/served", "kinds/fields", "kinds/grove"):
        assert unknown(blind, check) == [
            "which kinds are served could not be read: HTTP 403; it takes the right to get /apis"
        ]


def test_a_failed_pod_probe_says_nothing_about_gates() -> None:
    tried = snapshot(settings=configured(GANGS), apis=served(*OF_137), grouped=DryRunAnswer(None, "quota exceeded"))
    assert unknown(tried, "gates/pod-field") == [Text("quota exceeded")]
    assert reported(replace(tried, grouped=None), "gates/pod-field") == []


GATES: dict[str, tuple[dict[str, Any], list[tuple[Severity, str]]]] = {
    "unsaid": ({}, [(Severity.NOTE, Text("kube-scheduler"))]),
    "enough": ({"schedulerGates": ["GenericWorkload"]}, []),
    "a tree is required": (
        {"schedulerGates": ["GenericWorkload"], "hierarchical": "required"},
        [(Severity.ERROR, Text("CompositePodGroup, TopologyAwareWorkloadScheduling"))],
    ),
}


@pytest.mark.parametrize(("config", "wanted"), GATES.values(), ids=GATES)
def test_the_feature_gates_of_the_scheduler_are_checked(
    config: dict[str, Any], wanted: list[tuple[Severity, str]]
) -> None:
    gangs = {**GANGS, "config": {"gangScheduling": True, **config}}
    found = reported(snapshot(settings=configured(gangs), apis=served(*OF_137)), "gates/scheduler")
    assert [(level, said) for level, _, said in found] == wanted


IMAGES: dict[str, tuple[str, str, bool]] = {
    "Koordinator": ("koord-scheduler", "registry.example.com:5000/koordinator-sh/koord-scheduler:v1.8.0", True),
    "Volcano": ("volcano", "docker.io/volcanosh/vc-scheduler:v1.15.0", True),
    "KAI": ("kai-scheduler", "ghcr.io/kai-scheduler/kai-scheduler/scheduler:v0.16.9", True),
    "scheduler-plugins": (
        "scheduler-plugins-scheduler",
        "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7",
        True,
    ),
    "by digest": ("volcano", "docker.io/volcanosh/vc-scheduler@sha256:0123", True),
    "another of the same house": ("volcano", "docker.io/volcanosh/vc-controller-manager:v1.15.0", False),
    "a scheduler of its own": ("kai-scheduler", "example.com/batch/scheduler:v1", False),
}


@pytest.mark.parametrize(("scheduler", "image", "is_it"), IMAGES.values(), ids=IMAGES)
def test_a_scheduler_is_identified_by_its_image(scheduler: str, image: str, is_it: bool) -> None:
    settings = configured({"name": scheduler})
    found = reported(installed(deployment("it", image), settings=settings), "schedulers/running")
    assert found == ([] if is_it else [(Severity.WARNING, f"profile {scheduler}", Text("image"))])
    assert reported(installed(deployment("it", image), settings=settings), "schedulers/version") == []


def test_a_scheduler_without_replicas_counts_as_not_running() -> None:
    idle = deployment("koord-scheduler", "koordinator-sh/koord-scheduler:v1.8.0", available=0)
    (found,) = reported(installed(idle), "schedulers/running")
    assert found[2] == "Deployment kube-system/koord-scheduler has no available replica"


def kube_lease(renewed: str) -> Manifest:
    return example_object(
        "coordination.k8s.io/v1", "Lease", "kube-scheduler", within="kube-system", spec={"renewTime": renewed}
    )


def test_kube_scheduler_is_identified_by_its_lease() -> None:
    settings = configured(GANGS)
    assert reported(snapshot(kube_lease("2026-09-01T11:59:58.000000Z"), settings=settings), "schedulers/running") == []
    (stopped,) = reported(snapshot(kube_lease("2026-09-01T11:00:00.000000Z"), settings=settings), "schedulers/running")
    assert stopped[2] == Text("Lease kube-system/kube-scheduler", "2026-09-01T11:00:00.000000Z")
    (absent,) = reported(snapshot(settings=settings), "schedulers/running")
    assert absent[2] == Text("no process", "Lease kube-system/kube-scheduler")


def test_an_unsupported_version_is_reported_whatever_the_configuration_states() -> None:
    old = deployment("koord-scheduler", "koordinator-sh/koord-scheduler:v1.4.0")
    (found,) = reported(installed(old), "schedulers/version")
    assert found == (Severity.ERROR, "Deployment kube-system/koord-scheduler", "it runs 1.4.0")


def test_another_patch_release_of_the_stated_version_is_no_contradiction() -> None:
    settings = configured({"name": "koord-scheduler", "schedulerVersion": "1.8.0"})
    runs = deployment("koord-scheduler", "koordinator-sh/koord-scheduler:v1.8.3")
    assert reported(installed(runs, settings=settings), "schedulers/version") == []


def colocation(**spec: Any) -> Manifest:
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "batch"},
        "spec": spec,
    }


def test_a_colocation_profile_without_effect_on_gangs_is_ignored() -> None:
    settings = configured({"name": "volcano"})
    of_others = {"matchLabels": {"app.kubernetes.io/managed-by": "Helm"}}
    of_some = {"matchLabels": {"team": "batch"}}
    for spec in ({"qosClass": "BE"}, {"schedulerName": "koord-scheduler", "selector": of_others}):
        assert reported(installed(colocation(**spec), settings=settings), "schedulers/colocation-profile") == []
    meant = colocation(schedulerName="koord-scheduler", selector=of_some)
    assert reported(installed(meant, settings=settings), "schedulers/colocation-profile")


def test_unreadable_objects_do_not_count_as_missing() -> None:
    known = installed()
    for part, checks in ((LEASE, ("reconciler/leader", "clocks/agree")), (SERVICE, ("server/service",))):
        blind = replace(known, parts={**known.parts, part: Unread("it", "HTTP 403", part.right("rollcall-system"))})
        for check in checks:
            assert unknown(blind, check) == [
                f"it could not be read: HTTP 403; it takes the right to {part.right('rollcall-system')}"
            ]


@pytest.mark.parametrize(
    ("image", "fixed"),
    [
        ("volcanosh/vc-webhook-manager:v1.11.2", "1.12.4"),
        ("volcanosh/vc-webhook-manager:v1.12.3", "1.12.4"),
        ("mirror.example.com/vc-webhook-manager:1.13.2", "1.13.3"),
        ("volcanosh/vc-webhook-manager:v1.13.3", None),
        ("volcanosh/vc-webhook-manager:v1.15.0", None),
        ("volcanosh/vc-webhook-manager:latest", None),
        ("volcanosh/vc-scheduler:v1.12.3", None),
    ],
)
def test_a_webhook_of_volcano_that_reads_without_a_bound_is_named(image: str, fixed: str | None) -> None:
    snapshot = installed(deployment("volcano-admission", image, "volcano-system"))
    wanted = [] if fixed is None else [(Severity.WARNING, "Deployment volcano-system/volcano-admission", CVE)]
    assert reported(snapshot, "schedulers/volcano-webhook") == wanted
    assert remedies(snapshot, "schedulers/volcano-webhook") == [Text(f"Volcano {fixed}")] * len(wanted)


CVE = Text("CVE-2026-44247")


KAI_TAGS = {"v0.14.8": True, "v0.14.9": False, "v0.14.10": False, "v0.15.3": True, "v0.16.9": True, "v0.17.1": True}


@pytest.mark.parametrize(("tag", "mixes"), KAI_TAGS.items(), ids=KAI_TAGS)
def test_of_a_kai_with_a_backport_only_the_other_fault_is_reported(tag: str, mixes: bool) -> None:
    image = f"ghcr.io/kai-scheduler/kai-scheduler/scheduler:{tag}"
    snapshot = installed(deployment("kai-scheduler-default", image), settings=configured({"name": "kai-scheduler"}))
    (finding,) = examine(snapshot, [kai_fixes]).problems
    assert ("#2096" in finding.symptom.why, "#2095" in finding.symptom.why) == (True, mixes)
