"""The values of the chart, with the real Helm: which field each one sets, and which values are refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.e2e.chart_configurations import GANGS, KOORDINATOR, with_profiles
from tests.e2e.control_plane import Manifest
from tests.e2e.installed import rendered, said, template
from webhook.certificates.files import CA_FILE, make_development_certificates


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


def test_the_chart_accepts_false_for_off() -> None:
    values = {"configuration": with_profiles({"name": "volcano", "config": {"topology": False}})}
    assert rendered(values)


def test_the_chart_refuses_a_shadow_without_its_file() -> None:
    configuration = with_profiles(KOORDINATOR, shadow=[{"config": "next.yaml"}])
    code, _, err = template({"configuration": configuration})
    assert code == 1
    assert 'configuration.shadow: shadowConfigurations has no "next.yaml"' in err


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_the_chart_refuses_namespaces_of_kubernetes(namespace: str) -> None:
    """Helm without -n takes the namespace of the kubeconfig, which mostly is the first of these."""
    code, out, err = template({}, namespace)
    assert (code, out) == (1, "")
    assert f'namespace "{namespace}" is not for Rollcall' in err
