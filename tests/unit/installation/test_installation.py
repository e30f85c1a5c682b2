"""The objects of an installation, compared with the Pod Security Standard, the image and the commands themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from webhook.cli.commands import app
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from
from webhook.installation.installed_objects import installed_objects, port_of
from webhook.installation.parameters import Network, Options, ReconcilerPlace, name_by_content, reconciler_place
from webhook.model.reading import Manifest

ROOT = Path(__file__).parents[3]
OWN = {"certificates": {"mode": "selfManaged"}}
WAYS = {
    "sidecar": (ReconcilerPlace.SIDECAR, {}),
    "deployment": (ReconcilerPlace.DEPLOYMENT, {}),
    "moving": (ReconcilerPlace.MOVING, {}),
    "self-managed": (ReconcilerPlace.DEPLOYMENT, OWN),
}


def installed(way: str, network: Network | None = None, **sections: Any) -> list[Manifest]:
    reconciler, own = WAYS[way]
    settings = settings_from(
        {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration", **own, **sections}, "test"
    )
    configuration = name_by_content("a: b")
    options = Options("rollcall:1", configuration=configuration, reconciler=reconciler, network=network or Network())
    return installed_objects(settings, options)


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def pods(way: str, **sections: Any) -> dict[str, Manifest]:
    deployments = of_kind(installed(way, **sections), "Deployment")
    return {name: found["spec"]["template"]["spec"] for name, found in deployments.items()}


@pytest.mark.parametrize("way", WAYS)
def test_every_pod_has_minimal_privileges(way: str) -> None:
    """The Pod Security Standard *restricted*, and a read-only root file system."""
    for pod in pods(way).values():
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
            "secret",
            "configMap",
            "projected",
            "emptyDir",
        }
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }


@pytest.mark.parametrize("way", WAYS)
def test_only_the_token_and_the_serving_pair_are_mounted(way: str) -> None:
    for name, pod in pods(way).items():
        assert pod["automountServiceAccountToken"] is False
        secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        assert secrets == (["rollcall-tls"] if name == "rollcall" else [])
        mounted = {one["name"]: {mount["name"] for mount in one["volumeMounts"]} for one in pod["containers"]}
        # Both ask the cluster; the pair is for the server alone.
        assert all("token" in names for names in mounted.values())
        assert [name for name, names in mounted.items() if "tls" in names] in (["server"], [])
    accounts = of_kind(installed(way), "ServiceAccount")
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())


def test_the_server_cannot_write_if_the_reconciler_runs_separately() -> None:
    ways = {
        "sidecar": ["rollcall"],
        "deployment": ["rollcall-reconciler"],
        "moving": ["rollcall-reconciler", "rollcall"],
    }
    for way, writers in ways.items():
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            binding = of_kind(installed(way), kind)["rollcall-reconcile"]
            assert [one["name"] for one in binding["subjects"]] == writers
        (reading,) = of_kind(installed(way), "ClusterRoleBinding")["rollcall-serve"]["subjects"]
        assert reading["name"] == "rollcall"


def test_during_the_move_of_a_sidecar_only_its_rights_differ() -> None:
    moving, moved = installed("moving"), installed("deployment")
    differing = [one["kind"] for one, other in zip(moving, moved, strict=True) if one != other]
    assert differing == ["ClusterRoleBinding", "RoleBinding"]


def test_the_server_s_account_cannot_write_anything() -> None:
    serving = of_kind(installed("self-managed"), "ClusterRole")["rollcall-serve"]
    assert {verb for rule in serving["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert not any("secrets" in rule["resources"] for rule in serving["rules"])


def test_an_authority_s_key_is_never_in_the_server_s_pod() -> None:
    settings = settings_from({"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration", **OWN}, "test")
    assert reconciler_place(settings, ReconcilerPlace.SIDECAR) is ReconcilerPlace.DEPLOYMENT
    # Nor is the right to change pods, unless that is asked for.
    assert reconciler_place(default_settings(), None) is Options("rollcall:1").reconciler is ReconcilerPlace.DEPLOYMENT
    for way in WAYS:
        assert "rollcall-ca" not in str([pod["volumes"] for pod in pods(way).values()])


@pytest.mark.parametrize("way", WAYS)
def test_the_commands_accept_the_arguments_of_their_containers(way: str) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for pod in pods(way).values():
        for container in pod["containers"]:
            command, *arguments = container["args"]
            known = {option for parameter in commands[command].params for option in parameter.opts}
            assert {argument.partition("=")[0] for argument in arguments} <= known


@pytest.mark.parametrize("way", WAYS)
def test_every_named_port_has_a_listener(way: str) -> None:
    manifests = installed(way)
    services, policies = of_kind(manifests, "Service"), of_kind(manifests, "NetworkPolicy")
    for name, deployment in of_kind(manifests, "Deployment").items():
        template = deployment["spec"]["template"]
        ports = {
            port["name"]: port["containerPort"]
            for container in template["spec"]["containers"]
            for port in container["ports"]
        }
        assert {port["targetPort"] for port in services[name]["spec"]["ports"]} == set(ports)
        assert services[name]["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        let_in = [port["port"] for rule in policies[name]["spec"]["ingress"] for port in rule["ports"]]
        assert set(let_in) == set(ports.values())
        for container in template["spec"]["containers"]:
            own = {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert container[probe]["httpGet"]["port"] in own
    assert {port["name"]: port["port"] for port in services["rollcall"]["spec"]["ports"]}["https"] == 443


@pytest.mark.parametrize("way", WAYS)
def test_a_rollout_a_drain_and_a_lost_node_each_leave_a_replica(way: str) -> None:
    manifests = installed(way)
    budgets = of_kind(manifests, "PodDisruptionBudget")
    for name, deployment in of_kind(manifests, "Deployment").items():
        spec, labels = deployment["spec"], deployment["spec"]["template"]["metadata"]["labels"]
        assert spec["replicas"] == 2
        # What is new is ready before anything old goes.
        assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        assert spec["selector"] == budgets[name]["spec"]["selector"] == {"matchLabels": labels}
        assert budgets[name]["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budgets[name]["spec"]
        pod = spec["template"]["spec"]
        spread = {one["topologyKey"]: one for one in pod["topologySpreadConstraints"]}
        assert set(spread) == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
        for one in spread.values():
            # A cluster of one node has two replicas all the same; those of a roll are not counted with the old ones.
            assert (one["maxSkew"], one["whenUnsatisfiable"]) == (1, "ScheduleAnyway")
            assert one["labelSelector"] == {"matchLabels": labels}
            assert one["matchLabelKeys"] == ["pod-template-hash"]
        # Gangs wait for it, so it waits for no room.
        assert pod["priorityClassName"] == "system-cluster-critical"


@pytest.mark.parametrize("way", WAYS)
def test_traffic_depends_on_readiness_and_restarts_on_liveness(way: str) -> None:
    for pod in pods(way).values():
        for container in pod["containers"]:
            asked = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
            assert asked == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
            # Who has lost its certificate is out of the way in seconds, long before a drain is over.
            ready = container["readinessProbe"]
            assert ready["periodSeconds"] * ready["failureThreshold"] <= 5


@pytest.mark.parametrize(("way", "waits"), [("sidecar", True), ("deployment", True), ("self-managed", False)])
def test_the_pair_is_group_readable_and_optional_if_the_reconciler_creates_it(way: str, waits: bool) -> None:
    (secret,) = (volume["secret"] for volume in pods(way)["rollcall"]["volumes"] if "secret" in volume)
    assert secret["defaultMode"] == 0o440
    assert secret.get("optional", False) is not waits


def test_the_grace_period_of_pods_covers_draining() -> None:
    assert pods("sidecar", serving={"drainSeconds": 100})["rollcall"]["terminationGracePeriodSeconds"] == 130
    assert pods("self-managed")["rollcall"]["terminationGracePeriodSeconds"] == 45


def test_the_image_matches_the_containers_settings() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for pod in pods("self-managed").values():
        assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in dockerfile
        for container in pod["containers"]:
            assert "command" not in container, "the image's own entry point"
    assert 'ENTRYPOINT ["rollcall"]' in dockerfile
    exposed = re.search(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)
    assert exposed is not None
    listened = {
        str(port["containerPort"])
        for pod in pods("self-managed").values()
        for container in pod["containers"]
        for port in container["ports"]
    }
    assert set(exposed[1].split()) == listened


def test_the_network_policy_allows_traces_to_the_collector() -> None:
    assert "rollcall-tracing" not in of_kind(installed("sidecar"), "NetworkPolicy")
    traced = of_kind(installed("sidecar", tracing={"endpoint": "http://otel:4318/v1"}), "NetworkPolicy")
    assert traced["rollcall-tracing"]["spec"]["egress"] == [{"ports": [{"protocol": "TCP", "port": 4318}]}]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://otel", 80),
        ("https://otel/v1/traces", 443),
        ("https://[::1]:4318/x", 4318),
        ("http://me:secret@otel:99/a:1", 99),
    ],
)
def test_the_port_of_a_url_is_found(url: str, port: int) -> None:
    assert port_of(url) == port


def test_a_reconciler_with_self_managed_certificates_can_reach_the_servers() -> None:
    policies = of_kind(installed("self-managed"), "NetworkPolicy")
    *_, servers = policies["rollcall-reconciler"]["spec"]["egress"]
    assert servers["ports"] == [{"protocol": "TCP", "port": 8443}, {"protocol": "TCP", "port": 8444}]
    (selected,) = servers["to"]
    labels = of_kind(installed("self-managed"), "Deployment")["rollcall"]["spec"]["template"]["metadata"]["labels"]
    assert selected["podSelector"]["matchLabels"] == labels


def test_cert_manager_gets_its_certificates_and_injection_annotations() -> None:
    manifests = installed_objects(default_settings(), Options("rollcall:1", "team", cert_manager=True))
    certificates = of_kind(manifests, "Certificate")
    assert certificates["rollcall"]["spec"]["secretName"] == "rollcall-tls"
    assert certificates["rollcall"]["spec"]["dnsNames"] == ["rollcall.team.svc", "rollcall.team.svc.cluster.local"]
    # A renewed authority with the same key holds for what the old one signed.
    assert certificates["rollcall-ca"]["spec"]["privateKey"]["rotationPolicy"] == "Never"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for found in of_kind(manifests, kind).values():
            assert found["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "team/rollcall"}


# The kinds that a cluster needs to live: which of them webhooks may select, and only with these restrictions.
NARROWED = ("objectSelector", "matchConditions")


def test_a_hook_that_fails_closed_selects_only_gangs() -> None:
    """Every backend is enabled here, so these are all the hooks that there can be."""
    settings = settings_from(
        {
            "apiVersion": "rollcall.dev/v1alpha1",
            "kind": "RollcallConfiguration",
            "scheduler": {
                "profiles": [
                    {"name": "default-scheduler", "config": {"gangScheduling": True}},
                    *({"name": name} for name in default_settings().profiles if name != "default-scheduler"),
                ]
            },
            **OWN,
        },
        "test",
    )
    options = Options("rollcall:1", reconciler=ReconcilerPlace.DEPLOYMENT)
    hooks = [hook for one in installed_objects(settings, options) for hook in one.get("webhooks", ())]
    assert len(hooks) > 15
    for hook in hooks:
        if hook["failurePolicy"] != "Fail":
            assert hook["name"].startswith(("next.", "unknown-kinds", "warned-pods", "scales."))
            continue
        outside, exempt, *_ = hook["namespaceSelector"]["matchExpressions"]
        assert {"kube-system", "kube-node-lease", "rollcall-system"} <= set(outside["values"]), hook["name"]
        assert exempt == {"key": "rollcall.dev/exempt", "operator": "DoesNotExist"}
        for rule in hook["rules"]:
            assert not any("/" in resource or resource == "*" for resource in rule["resources"])
            assert set(rule["operations"]) <= {"CREATE", "UPDATE"}
            assert not {"*", "coordination.k8s.io", "rbac.authorization.k8s.io"} & set(rule["apiGroups"])
            if rule["apiGroups"] == ["apps"]:
                # A Deployment or a StatefulSet opts in by its own label.
                assert hook["objectSelector"] == {
                    "matchExpressions": [{"key": "rollcall.dev/scheduler", "operator": "Exists"}]
                }
            if rule["apiGroups"] == [""]:
                assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
                assert any(key in hook for key in NARROWED), hook["name"]
            if rule["apiGroups"] == ["batch"]:
                assert "objectSelector" in hook or len(hook["namespaceSelector"]["matchExpressions"]) > 2


def test_the_kustomizations_are_valid_for_kubectl() -> None:
    for path in (ROOT / "manifests").rglob("*.yaml"):
        if "templates" not in path.parts:
            assert list(yaml.load_all(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))), path
