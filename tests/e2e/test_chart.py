"""The chart, rendered by the real Helm: for each configuration exactly what `rollcall manifests all` prints."""

from __future__ import annotations

import base64
import json
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from tests.e2e.control_plane import Manifest
from tests.e2e.installed import CHART, HEAD, MANIFESTS, documents, helm, printed, rendered, said, template
from webhook.backends.base import BackendSettings
from webhook.backends.lpx.backend import LpxBackend
from webhook.backends.registry import installed_backends
from webhook.certificates.files import CA_FILE, make_development_certificates
from webhook.cli import run
from webhook.model.keys import Api

GANGS = {"name": "default-scheduler", "config": {"gangScheduling": True, "hierarchical": "off"}}
KOORDINATOR = {"name": "koord-scheduler", "config": {"gangMode": "NonStrict"}}
VOLCANO = {"name": "volcano", "config": {"topology": "hypernode", "defaultQueue": "batch"}}
KAI = {"name": "kai-scheduler", "config": {"queueLabelKey": "example.com/queue"}}


def with_profiles(*profiles: Manifest, **sections: Any) -> Manifest:
    return {"scheduler": {"profiles": list(profiles), "defaultProfileName": profiles[0]["name"]}, **sections}


_LINK = {"group": "example.com", "version": "v1", "kind": "Runner", "plural": "runners", "name": "{workload}-runner"}
# A shape with another controller above its pods, and one that is only judged and opted in by its own label.
TRAINING: Manifest = {
    "metadata": {"name": "training"},
    "spec": {
        "for": {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1", "v1beta1"]},
        "parts": [{"template": "$.spec.template", "pods": 2, "pod": {"chain": [_LINK]}}],
    },
}
# The same kind in a version with other paths.
OLDER_TRAINING: Manifest = {
    "metadata": {"name": "training-v1alpha1"},
    "spec": {
        "for": {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1alpha1"]},
        "parts": [{"template": "$.spec.pods.template", "pods": 2, "pod": {"chain": [_LINK]}}],
    },
}
REPORT: Manifest = {
    "metadata": {"name": "report"},
    "spec": {
        "for": {"group": "example.com", "kind": "Report", "plural": "reports", "versions": ["v1"]},
        "optIn": "workload",
        "gang": {"over": "none"},
    },
}
CONFIGURATIONS: dict[str, Manifest] = {
    "koord-scheduler": with_profiles(KOORDINATOR),
    "koord-scheduler without its gate": with_profiles({**KOORDINATOR, "gate": False}),
    "volcano": with_profiles(VOLCANO),
    "topology objects": with_profiles(
        {"name": "koord-scheduler", "config": {"topologyBinding": "dc", "topologyObjects": "write"}},
        {"name": "volcano", "config": {"topologyBinding": "dc", "topologyObjects": "write"}},
    ),
    "volcano gated": with_profiles({**VOLCANO, "gate": True}),
    "kai-scheduler": with_profiles(KAI),
    "gangs of kube-scheduler": with_profiles(GANGS),
    "kube-scheduler alone": with_profiles({"name": "default-scheduler"}),
    "lpx-scheduler": with_profiles({"name": "lpx-scheduler"}),
    "all of them": with_profiles(
        VOLCANO, GANGS, KAI, {"name": "lpx-scheduler"}, KOORDINATOR, {"name": "scheduler-plugins-scheduler"}
    ),
    "escapes": with_profiles(KAI, escapes={"delete": ["stale"]}),
    "audit": with_profiles(VOLCANO, KOORDINATOR, audit={"openReports": True}),
    "audit of gangs of kube-scheduler": with_profiles(GANGS, audit={"openReports": True}),
    "audit turned off": with_profiles(KAI, audit={"openReports": False}),
    "remedies": with_profiles(KAI, remedies={"causes": ["forgotten", "objectLeft", "oldMembership"]}),
    "admission check": with_profiles(KAI, kueue={"admissionCheck": "on"}),
    "admission check as YAML 1.1 writes it": with_profiles(GANGS, kueue={"admissionCheck": True}),
    "registration": with_profiles(
        GANGS,
        registration={"failurePolicy": "Ignore", "timeoutSeconds": 11, "excludedNamespaces": ["b", "a", "kube-public"]},
    ),
    "enforcement": with_profiles(
        KOORDINATOR, enforcement={"mode": "audit", "rules": {"koordinator/priority-class": "off"}}
    ),
    "the net, which denies": with_profiles(KAI, KOORDINATOR, VOLCANO, registration={"net": "Deny"}),
    "the net, which warns of gangs": with_profiles(
        GANGS, {"name": "scheduler-plugins-scheduler"}, registration={"net": "Warn", "excludedNamespaces": ["a"]}
    ),
    "the net for the audit log": with_profiles({"name": "lpx-scheduler"}, registration={"net": "Audit"}),
    "tenancy": with_profiles(
        {**VOLCANO, "controllers": ["system:serviceaccount:batch:vc-controllers"]},
        {**KOORDINATOR, "controllers": []},
        tenancy={
            "exemptUsers": ["ada@example.com", "system:serviceaccount:argocd:controller"],
            "groveOperators": ["system:serviceaccount:*:grove", "system:serviceaccount:dynamo:grove-operator", "admin"],
        },
    ),
    "operators in any namespace": with_profiles(
        KAI, tenancy={"groveOperators": ["system:serviceaccount:*:b", "system:serviceaccount:*:a"]}
    ),
    "no operator": with_profiles(KAI, tenancy={"groveOperators": []}),
    "a writer by another name": with_profiles(GANGS, tenancy={"reconcilers": ["system:serviceaccount:gangs:writer"]}),
    "serving": with_profiles(GANGS, serving={"drainSeconds": 0, "maxInFlight": 100_000}),
    "traces": with_profiles(GANGS, tracing={"endpoint": "http://otel.monitoring.svc:4318/v1/traces", "sampleRatio": 1}),
    "traces by TLS": with_profiles(GANGS, tracing={"endpoint": "https://otel.example.com"}),
    "a scheduler as a shadow": with_profiles(KOORDINATOR, shadow=["kai-scheduler", "default-scheduler", "volcano"]),
    "declared kinds": with_profiles(
        KOORDINATOR,
        workloads={
            "disabled": ["rayjob", "sparkapplication", "dynamographdeployment"],
            "shapes": [TRAINING, OLDER_TRAINING, REPORT],
        },
        kueue={"admissionCheck": "on"},
    ),
    "declared kinds with the audit": with_profiles(
        KOORDINATOR,
        workloads={"disabled": ["rayjob", "sparkapplication"], "shapes": [TRAINING, OLDER_TRAINING, REPORT]},
        audit={"openReports": True},
    ),
}
KUBE_SYSTEM = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
# Values beside the configuration, the equivalent options of the command, and the mode of the certificates.
WAYS: dict[str, tuple[Manifest, tuple[str, ...], str]] = {
    "a deployment": ({}, (), "files"),
    "a sidecar": ({"reconciler": {"placement": "sidecar"}}, ("--reconciler=sidecar",), "files"),
    "a sidecar that moves out": ({"reconciler": {"placement": "moving"}}, ("--reconciler=moving",), "files"),
    "cert-manager": ({"certManager": {"enabled": True}}, ("--cert-manager",), "files"),
    "self-managed": ({}, (), "selfManaged"),
    "the nodes' network": ({"hostNetwork": True}, ("--host-network",), "files"),
    "the nodes' network, self-managed": (
        {"hostNetwork": True, "dnsPolicy": "Default", "ports": {"serving": 10443, "health": 10081}},
        ("--host-network", "--dns-policy=Default", "--serving-port=10443", "--health-port=10081"),
        "selfManaged",
    ),
    "the nodes' network, a sidecar": (
        {"hostNetwork": True, "reconciler": {"placement": "sidecar"}},
        ("--host-network", "--reconciler=sidecar"),
        "files",
    ),
    "a port of the privileged": ({"ports": {"serving": 443}}, ("--serving-port=443",), "files"),
    "a port of the privileged for the reconciler alone": (
        {"ports": {"reconciler": 80}},
        ("--reconciler-port=80",),
        "selfManaged",
    ),
    "ports of the privileged for all": (
        {
            "ports": {"serving": 443, "next": 444, "health": 81, "reconciler": 80},
            "reconciler": {"placement": "sidecar"},
        },
        ("--serving-port=443", "--next-port=444", "--health-port=81", "--reconciler-port=80", "--reconciler=sidecar"),
        "files",
    ),
    "all ports": (
        {"ports": {"serving": 10250, "next": 10251, "health": 10252, "reconciler": 10253}},
        ("--serving-port=10250", "--next-port=10251", "--health-port=10252", "--reconciler-port=10253"),
        "selfManaged",
    ),
    "who calls": (
        {"networkPolicy": {"from": [{"ipBlock": {"cidr": "fd00::/64"}}, {"namespaceSelector": KUBE_SYSTEM}]}},
        ("--from=fd00::/64", "--from=kube-system"),
        "selfManaged",
    ),
    "certificates of callers": (
        {"clientCertificates": {"authority": "configmap/api-servers"}},
        ("--client-ca=configmap/api-servers",),
        "selfManaged",
    ),
    "certificates of callers by name": (
        {"clientCertificates": {"authority": "secret/a.b", "names": ["kube-apiserver", "x y"]}},
        ("--client-ca=secret/a.b", "--client-name=kube-apiserver", "--client-name=x y"),
        "files",
    ),
}


# Each configuration in one way, and one of them in all.
CASES = [*zip(CONFIGURATIONS, cycle(WAYS), strict=False), *(("all of them", way) for way in WAYS)]


def test_the_chart_mounts_the_file_of_a_shadow(tmp_path: Path) -> None:
    shadows = ["kai-scheduler", {"config": "next.yaml"}]
    configuration = with_profiles(KOORDINATOR, shadow=shadows, certificates={"mode": "files"})
    later = {**HEAD, **with_profiles(VOLCANO)}
    (tmp_path / "next.yaml").write_text(yaml.safe_dump(later))
    expected = said(printed(tmp_path, configuration))
    found = said(rendered({"configuration": configuration, "shadowConfigurations": {"next.yaml": later}}))
    assert found["ClusterRole", "rollcall-serve"] == expected["ClusterRole", "rollcall-serve"]
    for manifests in (found, expected):
        assert manifests["ConfigMap", "rollcall-configuration"]["data"]["next.yaml"] == later


def test_the_chart_refuses_a_shadow_without_its_file() -> None:
    configuration = with_profiles(KOORDINATOR, shadow=[{"config": "next.yaml"}])
    code, _, err = template({"configuration": configuration})
    assert code == 1
    assert 'configuration.shadow: shadowConfigurations has no "next.yaml"' in err


@pytest.mark.parametrize(("named", "way"), dict.fromkeys(CASES))
def test_the_chart_renders_what_the_command_prints(named: str, way: str, tmp_path: Path) -> None:
    values, options, mode = WAYS[way]
    configuration = {**CONFIGURATIONS[named], "certificates": {"mode": mode}}
    expected = said(printed(tmp_path, configuration, *options))
    found = said(rendered({**values, "configuration": configuration}))
    assert sorted(found) == sorted(expected)
    for key, manifest in expected.items():
        if key[0] == "ConfigMap":
            given = manifest["data"]["configuration.yaml"]
            told = found[key]["data"]["configuration.yaml"]
            # What the file does not say the chart's defaults do, which are no other than Rollcall's.
            assert merged(told, given) == told
            assert told["scheduler"] == given["scheduler"]
            continue
        assert found[key] == manifest, key


def merged(below: Any, above: Any) -> Any:
    """As Helm merges values: what is a mapping in both is merged, and all else is replaced."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}


class AcmeSettings(BackendSettings):
    flocks: Literal["none", "small", "large"] = "small"
    gangs: bool = True
    unrelated: bool = False


class AcmeBackend(LpxBackend):
    """A backend of a third party. What it writes depends on two of its settings."""

    name = "acme"
    settings_model = AcmeSettings  # type: ignore[assignment]
    gate = True
    controllers = ("system:serviceaccount:acme:controller",)

    @property
    def writable_kinds(self) -> tuple[Api, ...]:
        settings: Any = self.settings
        flocks = (Api("acme.io", "v1", "Flock"),) if settings.flocks == "large" else ()
        return (*flocks, Api("acme.io", "v1", "Gang")) if settings.gangs else flocks


@pytest.mark.parametrize(
    "profile",
    [
        {},
        {"gate": False, "controllers": []},
        {"config": {"unrelated": True}},
        {"config": {"gangs": False}},
        {"config": {"flocks": "large"}},
        {"config": {"flocks": "large", "gangs": False}},
    ],
)
def test_a_chart_that_is_written_with_an_installed_backend_supports_it(
    profile: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(installed_backends(), "acme", AcmeBackend)
    assert run(["manifests", "write", str(tmp_path), "--config", str(MANIFESTS / "configuration.yaml")]) == 0
    data = yaml.safe_load((tmp_path / "chart" / "files" / "profiles.yaml").read_text())
    assert data["acme"]["settings"] == {"flocks": "small", "gangs": True}
    configuration = with_profiles({"name": "acme", **profile}, registration={"net": "Deny"})
    expected = said(printed(tmp_path, configuration))
    values = {"configuration": {**configuration, "certificates": {"mode": "files"}}}
    found = said(rendered(values, chart=tmp_path / "chart"))
    assert sorted(found) == sorted(expected)
    for key, manifest in expected.items():
        if key[0] != "ConfigMap":
            assert found[key] == manifest, key


def test_each_value_sets_its_field(tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    bundle = base64.b64encode((tmp_path / CA_FILE).read_bytes()).decode()
    values = {
        "image": {"repository": "registry.example.com/rollcall", "tag": "7", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "mine"}],
        "replicas": 5,
        "resources": {"requests": {"cpu": "2"}},
        "reconciler": {"placement": "deployment", "replicas": 3, "resources": {"limits": {"memory": "2Gi"}}},
        "priorityClassName": "",
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"operator": "Exists"}],
        "podAnnotations": {"example.com/a": "b"},
        "networkPolicy": {"apiServerPorts": [8443]},
        "certificates": {"caBundle": bundle},
        "configuration": {"certificates": {"mode": "files"}},
    }
    found = said(rendered(values, "elsewhere"))
    for name, replicas, resources in (
        ("rollcall", 5, {"requests": {"cpu": "2"}, "limits": {"memory": "512Mi"}}),
        ("rollcall-reconciler", 3, {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "2Gi"}}),
    ):
        deployment = found["Deployment", name]
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert deployment["spec"]["replicas"] == replicas
        assert container["image"] == "registry.example.com/rollcall:7"
        assert container["imagePullPolicy"] == "Always"
        # Helm merges what it is given into the defaults.
        assert resources.items() <= {**container["resources"], **resources}.items()
        assert pod["imagePullSecrets"] == [{"name": "mine"}]
        assert "priorityClassName" not in pod
        assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert deployment["spec"]["template"]["metadata"]["annotations"] == {"example.com/a": "b"}
        policy = found["NetworkPolicy", name]["spec"]["egress"]
        assert policy[1] == {"ports": [{"protocol": "TCP", "port": 8443}]}
    assert ("ResourceQuota", "rollcall-critical-pods") not in found
    for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (hooks,) = (manifest["webhooks"] for key, manifest in found.items() if key[0] == name)
        assert {hook["clientConfig"]["caBundle"] for hook in hooks.values()} == {bundle}
        assert {hook["clientConfig"]["service"]["namespace"] for hook in hooks.values()} == {"elsewhere"}
    assert not any(kind == "NetworkPolicy" for kind, _ in said(rendered({"networkPolicy": {"enabled": False}})))


def test_autoscaling_sets_the_number_of_servers() -> None:
    assert ("HorizontalPodAutoscaler", "rollcall") not in said(rendered({"replicas": 3}))
    asked = {"enabled": True, "maxReplicas": 9, "cpuPercent": 150}
    found = said(rendered({"replicas": 3, "reconciler": {"replicas": 4}, "autoscaling": asked}))
    scaled = found["HorizontalPodAutoscaler", "rollcall"]
    deployment = found["Deployment", "rollcall"]
    target = {"type": "Utilization", "averageUtilization": 150}
    assert scaled["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "rollcall"},
        "minReplicas": 3,
        "maxReplicas": 9,
        "metrics": [
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "server", "target": target}}
        ],
    }
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    # Without a request there is nothing of which it would be a percentage.
    assert (container["name"], container["resources"]["requests"]["cpu"]) == ("server", "250m")
    # An upgrade says nothing of how many there are now.
    assert "replicas" not in deployment["spec"]
    assert found["Deployment", "rollcall-reconciler"]["spec"]["replicas"] == 4
    few = said(rendered({"replicas": 3, "autoscaling": {"enabled": True, "maxReplicas": 1}}))
    assert few["HorizontalPodAutoscaler", "rollcall"]["spec"]["maxReplicas"] == 3


# Values that the schema or a template refuses, and the message.
WRONG: dict[str, tuple[Manifest, str]] = {
    "a value that there is not": ({"replica": 2}, "replica"),
    "no replicas": ({"replicas": 0}, "replicas"),
    "a placement that there is not": ({"reconciler": {"placement": "beside"}}, "placement"),
    "a port that there is not": ({"networkPolicy": {"apiServerPorts": [65536]}}, "apiServerPorts"),
    "a bundle that is not in base64": ({"certificates": {"caBundle": "-----BEGIN"}}, "caBundle"),
    "a section that there is not": ({"configuration": {"webhooks": {}}}, "webhooks"),
    "a scheduler without a backend": ({"configuration": with_profiles({"name": "yarn"})}, "profiles"),
    "a key of another scheduler's": (
        {"configuration": with_profiles({"name": "volcano", "config": {"gangMode": "Strict"}})},
        "gangMode",
    ),
    "a word that is not allowed": (
        {"configuration": with_profiles({"name": "koord-scheduler", "config": {"gangMode": "strict"}})},
        "gangMode",
    ),
    "a failure policy that there is not": (
        {"configuration": {"registration": {"failurePolicy": "fail"}}},
        "failurePol",
    ),
    "a timeout that the API server refuses": ({"configuration": {"registration": {"timeoutSeconds": 31}}}, "31"),
    "a default that is no profile": (
        {"configuration": {"scheduler": {"profiles": [GANGS], "defaultProfileName": "volcano"}}},
        "is not one of the profiles",
    ),
    "a profile twice": (
        {"configuration": with_profiles({"name": "volcano"}, {"name": "volcano"})},
        '"volcano" is listed twice',
    ),
    "the plain scheduler twice": (
        {"configuration": with_profiles(GANGS, GANGS)},
        '"default-scheduler" is listed twice',
    ),
    "no image": ({"image": {"repository": ""}}, "repository"),
    "an image in two words": ({"image": {"repository": "roll call"}}, "repository"),
    "a tag in two words": ({"image": {"tag": "1 2"}}, "tag"),
    "a pull policy that there is not": ({"image": {"pullPolicy": "always"}}, "pullPolicy"),
    "no configuration": ({"configuration": None}, "configuration"),
    "no image at all": ({"image": None}, "image"),
    "no number of replicas": ({"reconciler": {"replicas": None}}, "replicas"),
    "a collector without a host": ({"configuration": {"tracing": {"endpoint": "http://:4318"}}}, "endpoint"),
    "two ports of the same number": ({"ports": {"health": 8443}}, "ports.health"),
    "a port of the privileged on a node": ({"hostNetwork": True, "ports": {"serving": 443}}, "ports.serving"),
    "the kubelet's port on a node": ({"hostNetwork": True, "ports": {"serving": 10250}}, "ports.serving"),
    "a policy for Pods in the nodes' network": (
        {"hostNetwork": True, "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}},
        "networkPolicy.from",
    ),
    "a DNS policy that needs more": ({"dnsPolicy": "None"}, "dnsPolicy"),
    "names of callers without an authority": ({"clientCertificates": {"names": ["a"]}}, "clientCertificates.names"),
    "an authority of no kind": ({"clientCertificates": {"authority": "api-servers"}}, "authority"),
    "two who make certificates": (
        {"certManager": {"enabled": True}, "configuration": {"certificates": {"mode": "selfManaged"}}},
        "certManager.enabled",
    ),
}


@pytest.mark.parametrize("named", WRONG)
def test_invalid_values_are_refused(named: str) -> None:
    values, why = WRONG[named]
    code, out, err = template(values)
    assert (code, out) == (1, "")
    assert why in err


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_the_chart_refuses_namespaces_of_kubernetes(namespace: str) -> None:
    """Helm without -n takes the namespace of the kubeconfig, which mostly is the first of these."""
    code, out, err = template({}, namespace)
    assert (code, out) == (1, "")
    assert f'namespace "{namespace}" is not for Rollcall' in err


def test_the_chart_and_kustomize_have_the_same_monitoring() -> None:
    files = {
        "serviceMonitor": ("ServiceMonitor", "service-monitor.yaml"),
        "alerts": ("PrometheusRule", "alerts.yaml"),
        "dashboard": ("ConfigMap", "dashboard.yaml"),
    }
    found = rendered({"monitoring": dict.fromkeys(files, True)})
    for kind, file in files.values():
        (expected,) = documents((MANIFESTS / "monitoring" / file).read_text())
        name = expected["metadata"]["name"]
        assert [one for one in found if (one["kind"], one["metadata"]["name"]) == (kind, name)] == [expected]


def test_the_chart_accepts_false_for_off() -> None:
    values = {"configuration": with_profiles({"name": "volcano", "config": {"topology": False}})}
    assert rendered(values)


def test_helm_lint_finds_no_fault() -> None:
    code, out, err = helm("lint", "--strict", CHART)
    assert code == 0, out + err


def test_the_default_values_are_the_self_managed_variant(tmp_path: Path) -> None:
    default = yaml.safe_load((CHART / "values.yaml").read_text())
    found = said(rendered({}))
    assert found == said(printed(tmp_path, default["configuration"]))
    assert json.loads((CHART / "values.schema.json").read_text())["properties"].keys() >= default.keys()
