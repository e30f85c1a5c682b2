"""The namespace and the configuration that commands about gangs use if none is given: the context's, the installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import CONFIG, Run
from tests.unit.cli.gang_cluster import cluster, config, quiet
from tests.unit.cluster.scripted import NO_TLS
from tests.unit.operations.test_installed import manifests
from tests.unit.operations.test_snapshot import OWN
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods
from webhook.cluster import access

__all__ = ["cluster", "config", "quiet"]


def installed(cluster: WritableWorld, content: str) -> None:
    """Put an installation with this configuration into the cluster."""
    for one in manifests(content):
        if one["kind"] in {"Deployment", "ConfigMap"}:
            group = "apis/apps/v1" if one["kind"] == "Deployment" else "api/v1"
            cluster.put(f"/{group}/namespaces/{OWN}/{one['kind'].lower()}s", one)


def context(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    """Let the kubeconfig's context name this namespace."""
    reached = access.Access("https://cluster", NO_TLS, lambda: None, namespace=namespace)
    monkeypatch.setattr(access, "find_access", lambda *_: reached)


def test_gangs_are_judged_by_the_installed_configuration(rollcall: Run, cluster: WritableWorld) -> None:
    installed(cluster, CONFIG)
    ran = rollcall("gangs")
    assert (ran.code, ran.err) == (0, "")
    assert "koord-scheduler" in ran.out
    assert rollcall("explain", "podgang/demo-0", "-n", "team-a").err == ""


def test_an_unknown_installed_configuration_is_reported(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    assert cluster.objects
    ran = rollcall("gangs")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert f"(HTTP 404: /apis/apps/v1/namespaces/{OWN}/deployments/rollcall not found)" in ran.err
    assert ran.err.endswith("counts as enabled\n")
    assert rollcall("gangs", "--config", config).err == ""


def test_the_namespace_of_the_context_is_used(
    rollcall: Run, cluster: WritableWorld, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pods(cluster, grove_pod("one"))
    context(monkeypatch, "team-a")
    ran = rollcall("gangs", "--config", config)
    assert len(ran.out.splitlines()) == 2
    assert ran.err.startswith("rollcall: namespace team-a, from the context; ")
    assert ran.err.count("\n") == 1
    assert rollcall("explain", "pod/one", "--config", config).out.startswith("PodGang team-a/demo-0: held\n")
    context(monkeypatch, "team-b")
    assert rollcall("gangs", "--config", config).out == ""
    assert len(rollcall("gangs", "--config", config, "-A").out.splitlines()) == 2
    assert len(rollcall("gangs", "--config", config, "-n", "team-a").out.splitlines()) == 2
    assert rollcall("gangs", "-A", "-n", "team-a").code == 2
    ran = rollcall("explain", "pcs/demo", "--config", config)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("rollcall: there is no PodCliqueSet team-b/demo, or Grove ")
    assert "no PodGang of it" in ran.err
    ran = rollcall("explain", "pod/one", "--config", config)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("rollcall: there is no Pod team-b/one, or it belongs to no ")


def test_names_that_no_cluster_has_are_usage_errors(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for command in (["gangs"], ["gangs", "ungate", "--all"], ["explain", "pcs/demo"], ["doctor"], ["reconcile"]):
        ran = rollcall(*command, "-n", "Team_A")
        assert ran.code == 2
        assert "'Team_A' is not the name" in ran.err
    for name in ("trainjob/demo", "PodCliqueSet/demo", "pod/"):
        ran = rollcall("explain", name)
        assert ran.code == 2
        assert f"{name}: there is no such file, " in ran.err
        assert " must be one of podgang, " in ran.err
    assert rollcall("explain", "deploy/set.yaml") == (2, "", "rollcall: deploy/set.yaml: no such file\n")


def test_a_cluster_that_does_not_answer_is_one_line(
    rollcall: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = access.Access("https://127.0.0.1:1", NO_TLS, lambda: None)
    monkeypatch.setattr(access, "find_access", lambda *_: nowhere)
    commands = (["gangs"], ["gangs", "ungate", "--all"], ["explain", "pcs/demo"], ["doctor"], ["certs", "status"])
    for command in commands:
        ran = rollcall(*command)
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.endswith(" context?\n")
        assert (ran.err.count("\n"), "ConnectError" in ran.err, "(https://127.0.0.1:1)" in ran.err) == (1, True, True)
