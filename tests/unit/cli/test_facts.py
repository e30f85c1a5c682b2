"""`rollcall facts`, `check --live` and `explain --live` with a simulated cluster, and with none."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.conftest import Run, answer_for_the_cluster, documents
from tests.unit.cluster.kubeconfigs import kubeconfig
from tests.unit.cluster.world import World
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS, POD_GROUP_FACTS
from webhook.cluster import client
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS

QUOTA_PATH = "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
OPENAPI = "/openapi/v3/apis/grove.io/v1alpha1"
SET = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: demo
  namespace: team-a
  labels: {rollcall.dev/scheduler: koord-scheduler}
  annotations: {scheduling.grove.io/koordinator-quota: NAME}
spec:
  replicas: 1
  template:
    cliques:
      - name: worker
        spec:
          replicas: 2
          minAvailable: 2
          podSpec: {containers: [{name: main, image: example.com/main}]}
"""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster with a namespace and a quota, which the commands read."""
    found = World(POD_CLIQUE_SETS.resource, POD_GANGS.resource, ELASTIC_QUOTAS.resource, POD_GROUP_FACTS.resource)
    found.put("/api/v1/namespaces", {"metadata": {"name": "team-a", "labels": {"team": "a"}}})
    found.put(QUOTA_PATH, {"metadata": {"namespace": "team-a", "name": "here"}, "spec": {"max": {"cpu": "1"}}})
    answer_for_the_cluster(found, monkeypatch)
    return found


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "set.yaml"
    path.write_text(SET.replace("NAME", "absent"))
    return path


def test_the_facts_of_a_cluster_are_written_one_file_for_each_kind(rollcall: Run, world: World, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    ran = rollcall("facts", "-o", str(folder))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"{folder}/apigroups.yaml: 3",
        f"{folder}/configmaps.yaml: 0",
        f"{folder}/customresourcedefinitions.apiextensions.k8s.io.yaml: 0",
        f"{folder}/elasticquotas.scheduling.sigs.k8s.io.yaml: 1",
        f"{folder}/limitranges.yaml: 0",
        f"{folder}/namespaces.yaml: 1",
        f"{folder}/nodes.yaml: 0",
        f"{folder}/podcliquesets.grove.io.yaml: 0",
        f"{folder}/podgangs.scheduler.grove.io.yaml: 0",
        f"{folder}/podgroups.scheduling.sigs.k8s.io.yaml: 0",
        f"{folder}/pods.yaml: 0",
        f"{folder}/resourcequotas.yaml: 0",
    ]
    assert (folder / "elasticquotas.scheduling.sigs.k8s.io.yaml").read_text() == (
        "# Written by `rollcall facts`. Edits are lost when it runs again.\n"
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\n"
        "kind: ElasticQuotaList\n"
        "items:\n"
        "- metadata: {name: here, namespace: team-a}\n"
        "  spec:\n"
        "    max:\n"
        "      cpu: '1'\n"
    )


def test_check_with_the_written_folder_answers_as_with_the_cluster(
    rollcall: Run, world: World, tmp_path: Path, manifest: Path
) -> None:
    folder = tmp_path / "cluster"
    rollcall("facts", "-o", str(folder))
    stored = rollcall("check", "-o", "json", "--facts", str(folder), str(manifest))
    live = rollcall("check", "-o", "json", "--live", str(manifest))
    assert live == stored
    assert live.code == 1
    (finding,) = json.loads(live.out)["findings"]
    assert (finding["rule"], finding["found"]) == ("koordinator/quota", "absent")
    manifest.write_text(SET.replace("NAME", "here"))
    assert rollcall("check", "--live", str(manifest)).code == 0


def test_explain_with_the_cluster_answers_as_check(rollcall: Run, world: World, manifest: Path) -> None:
    ran = rollcall("explain", "-o", "json", "--live", "--scheduler", "koord-scheduler", str(manifest))
    assert ran.code == 1
    (workload,) = json.loads(ran.out)["workloads"]
    koordinator = next(one for one in workload["schedulers"] if one["scheduler"] == "koord-scheduler")
    assert [found["rule"] for found in koordinator["findings"]] == ["koordinator/quota"]


def test_a_kind_that_the_caller_may_not_read_is_not_judged_with_the_right_that_is_missing(
    rollcall: Run, world: World, tmp_path: Path, manifest: Path
) -> None:
    world.refused[QUOTA_PATH] = httpx.Response(403, json={"message": "elasticquotas is forbidden"})
    ran = rollcall("check", "--live", str(manifest))
    assert ran.code == 0
    (remedy,) = (line for line in ran.out.splitlines() if line.startswith("    do "))
    assert "right to list elasticquotas.scheduling.sigs.k8s.io" in remedy
    assert remedy.endswith(" --facts")
    told = rollcall("facts", "-o", str(tmp_path / "cluster"))
    assert (told.code, told.err.count("\n")) == (3, 1)
    assert told.err.startswith("rollcall: elasticquotas.scheduling.sigs.k8s.io ")
    assert told.err.endswith(" not be read: HTTP 403: elasticquotas is forbidden\n")
    assert not (tmp_path / "cluster" / "elasticquotas.scheduling.sigs.k8s.io.yaml").exists()


def test_a_kind_that_is_no_longer_known_is_removed_and_said(rollcall: Run, world: World, tmp_path: Path) -> None:
    rollcall("facts", "-o", str(tmp_path))
    world.served.remove(ELASTIC_QUOTAS.resource)
    ran = rollcall("facts", "-o", str(tmp_path))
    path = tmp_path / "elasticquotas.scheduling.sigs.k8s.io.yaml"
    assert ran.out.splitlines()[-1].startswith(f"{path}: removed, ")
    assert ran.out.endswith(" no longer known\n")
    assert not path.exists()


def test_the_field_names_of_the_served_kinds_are_written(rollcall: Run, world: World, tmp_path: Path) -> None:
    spec = {"type": "object", "description": "long", "properties": {"replicas": {"type": "integer", "minimum": 0}}}
    named = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    schema = {"x-kubernetes-group-version-kind": [named], "type": "object", "properties": {"spec": spec}}
    world.objects[OPENAPI.rpartition("/")[0]] = [
        {"metadata": {"name": "v1alpha1"}, "components": {"schemas": {"a": schema}}}
    ]
    rollcall("facts", "-o", str(tmp_path))
    (written,) = documents((tmp_path / "customresourcedefinitions.apiextensions.k8s.io.yaml").read_text())
    names = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {}}}}}
    assert written == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinitionList",
        "items": [
            {
                "metadata": {"name": "podcliquesets.grove.io"},
                "spec": {
                    "group": "grove.io",
                    "names": {"kind": "PodCliqueSet", "plural": "podcliquesets"},
                    "scope": "Namespaced",
                    "versions": [{"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": names}}],
                },
            }
        ],
    }


def test_live_and_facts_are_not_mixed(rollcall: Run, world: World, manifest: Path) -> None:
    assert "exclude each other" in rollcall("check", "--live", "--facts", ".", str(manifest)).err
    assert "need --live" in rollcall("check", "--context", "prod", str(manifest)).err


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that never accepts a connection: its queue of connections is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            waiting.append(one)
        yield listener.getsockname()[1]
        for one in waiting:
            one.close()


@pytest.mark.parametrize("command", [["facts", "-o", "DIR"], ["check", "--live"], ["explain", "--live"]])
def test_a_cluster_that_cannot_be_reached_is_one_line(
    rollcall: Run,
    tmp_path: Path,
    manifest: Path,
    silent: int,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.1)
    config = kubeconfig(tmp_path, server=f"https://127.0.0.1:{silent}")
    arguments = [str(tmp_path / "cluster") if word == "DIR" else word for word in command]
    files = [] if command[0] == "facts" else [str(manifest)]
    ran = rollcall(*arguments, "--kubeconfig", str(config), *files)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("rollcall: cannot connect ")
    assert f": ConnectTimeout (https://127.0.0.1:{silent}); " in ran.err
    assert ran.err.endswith(" context?\n")
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "cluster").exists()
