"""`rollcall shapes`: what it prints, and what it says of bad input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Run, unframed
from tests.unit.workloads.workloads import (
    declared,
    dynamo_deployment,
    dynamo_service,
    ray_cluster,
    ray_job,
    spark_application,
    template,
)
from webhook.config.defaults import built_in_documents, built_in_shapes

FOR = {"group": "example.com", "kind": "Farm", "plural": "farms", "versions": ["v1"]}
FARM = declared({"for": FOR, "parts": [{"template": "$.spec.template", "pods": 2}]}, "farm")
HEAD = "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"


def _file(folder: Path, name: str, *documents: object) -> str:
    (folder / name).write_text(yaml.safe_dump_all(documents))
    return str(folder / name)


def test_the_list_has_the_built_in_shapes_and_those_of_the_configuration(rollcall: Run, tmp_path: Path) -> None:
    config = tmp_path / "rollcall.yaml"
    config.write_text(f"{HEAD}workloads: {{disabled: [volcano-job]}}\n---\n{yaml.safe_dump(FARM)}")
    lines = rollcall("shapes", "list", "--config", str(config)).out.splitlines()
    assert {line.split()[0] for line in lines[1:]} == (set(built_in_shapes()) - {"volcano-job"}) | {"farm"}
    found = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[1:]}
    assert found["farm"] == "Farm.example.com all parts namespace or label the configuration"
    assert found["rayjob"] == "RayJob.ray.io that of its RayCluster namespace or label built in"
    assert found["deployment"] == "Deployment.apps all parts label built in"


@pytest.mark.parametrize("name", sorted(built_in_shapes()))
def test_a_shown_shape_is_a_shape(rollcall: Run, tmp_path: Path, name: str) -> None:
    ran = rollcall("shapes", "show", name)
    assert yaml.safe_load(ran.out) == built_in_documents()[name]
    config = tmp_path / "rollcall.yaml"
    config.write_text(f"{HEAD}---\n{ran.out}")
    assert rollcall("config", "check", str(config)).code == 0


def test_a_test_shows_gangs_pods_and_objects(rollcall: Run, tmp_path: Path) -> None:
    ran = rollcall("shapes", "test", "raycluster", _file(tmp_path, "ray.yaml", ray_cluster()), "--scheduler", "volcano")
    assert ran.code == 0
    assert "└── gang demo: 3 pods" in ran.out
    assert "a pod of gpu is known by RayCluster demo: ray.io/cluster=demo, ray.io/group=gpu" in ran.out
    assert "    kind: PodGroup" in ran.out
    submitter = ray_job(submitterPodTemplate=template())
    ran = rollcall("shapes", "test", "rayjob", _file(tmp_path, "job.yaml", submitter))
    assert "outside the gang: submitter, 1 pod" in ran.out
    assert "no gang of its own: its controller makes a RayCluster, which has the gang" in ran.out


def test_a_built_in_kind_with_two_forms_is_listed_and_tested_in_both(rollcall: Run, tmp_path: Path) -> None:
    lines = rollcall("shapes", "list").out.splitlines()
    versions = {line.split()[0]: line.split()[2] for line in lines if "DynamoGraphDeployment" in line}
    assert versions == {"dynamographdeployment": "(v1beta1)", "dynamographdeployment-v1alpha1": "(v1alpha1)"}
    samples = _file(tmp_path, "graphs.yaml", dynamo_deployment(replicas=3), dynamo_service(replicas=2))
    for name in versions:
        ran = rollcall("shapes", "test", name, samples)
        assert ran.code == 0
        assert "decode: 3 pods" in ran.out
        assert "Decode: 2 pods" in ran.out


def test_a_file_that_declares_a_version_twice_ends_with_2(rollcall: Run, tmp_path: Path) -> None:
    shapes = _file(tmp_path, "farms.yaml", FARM, {**FARM, "metadata": {"name": "second"}})
    ran = rollcall("shapes", "test", shapes, shapes)
    assert (ran.code, ran.out) == (2, "")
    assert 'spec.for.versions[0]: "v1": is declared twice, by farm and second' in ran.err


def test_a_refused_sample_ends_with_1(rollcall: Run, tmp_path: Path) -> None:
    sample = _file(tmp_path, "spark.yaml", spark_application(dynamicAllocation={"enabled": True}))
    ran = rollcall("shapes", "test", "sparkapplication", sample)
    assert ran.code == 1
    assert "owner/incomplete at spec.dynamicAllocation.enabled" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "raycluste"], "raycluste: .* a built-in shape"),
        (["test", "raycluste", "ray.yaml"], "raycluste: .* a built-in shape"),
        (["test", "raycluster", "farm.yaml"], "farm.yaml: .* no workload .* RayCluster$"),
        (["test", "raycluster", "nothing.yaml"], "nothing.yaml"),
        (["test", "broken.yaml", "ray.yaml"], "broken.yaml:"),
        (["test", "ray.yaml", "ray.yaml"], "ray.yaml:2:1: kind: "),
        (["init", "Farm", "--from-crd", "ray.yaml"], "ray.yaml: has no .* the kind Farm$"),
        (["init", "Farm", "--from-crd", "crd.yaml"], "crd.yaml: .* cannot be read"),
        (["init", "Farm", "--from-crd", "nothing.yaml"], "nothing.yaml"),
        (["init", "Farm"], "Missing option '--from-crd'"),
        (["test", "raycluster", "ray.yaml", "--scheduler", "nobody"], '"nobody": is not a scheduler'),
    ],
)
def test_bad_input_ends_with_2_and_says_what_is_wrong(
    rollcall: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _file(tmp_path, "ray.yaml", ray_cluster())
    _file(tmp_path, "farm.yaml", {"apiVersion": "example.com/v1", "kind": "Farm", "metadata": {"name": "a"}})
    (tmp_path / "broken.yaml").write_text("spec: [\n")
    names = {"kind": "Farm", "plural": "farms"}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"names": names}}
    _file(tmp_path, "crd.yaml", crd)
    ran = rollcall("shapes", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert re.search(message, unframed(ran.err))


def test_a_crd_without_pods_gives_a_draft_that_says_so(rollcall: Run, tmp_path: Path) -> None:
    names = {"kind": "Farm", "plural": "farms", "singular": "farm"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    spec = {"group": "example.com", "names": names, "versions": [version]}
    ran = rollcall("shapes", "init", "farms", "--from-crd", _file(tmp_path, "crd.yaml", {**crd, "spec": spec}))
    assert ran.code == 0
    assert "no pod template" in ran.out
    assert yaml.safe_load(ran.out)["spec"]["parts"] == []
