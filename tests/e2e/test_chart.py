"""The chart, rendered by the real Helm: for each configuration exactly what `rollcall manifests all` prints."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from tests.e2e.chart_configurations import CONFIGURATIONS, KOORDINATOR, VOLCANO, with_profiles
from tests.e2e.control_plane import Manifest
from tests.e2e.installed import CHART, HEAD, MANIFESTS, documents, helm, printed, rendered, said
from webhook.backends.base import BackendSettings
from webhook.backends.lpx import LpxBackend
from webhook.backends.registry import installed_backends
from webhook.cli import run
from webhook.model.keys import Api

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


def test_helm_lint_finds_no_fault() -> None:
    code, out, err = helm("lint", "--strict", CHART)
    assert code == 0, out + err


def test_the_default_values_are_the_self_managed_variant(tmp_path: Path) -> None:
    default = yaml.safe_load((CHART / "values.yaml").read_text())
    found = said(rendered({}))
    assert found == said(printed(tmp_path, default["configuration"]))
    assert json.loads((CHART / "values.schema.json").read_text())["properties"].keys() >= default.keys()
