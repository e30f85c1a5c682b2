"""Field names of known releases, and those of CustomResourceDefinitions in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.texts import Text
from tools.make_field_lists import as_text, field_lists
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS
from webhook.model.fields import ITEMS
from webhook.model.keys import Api
from webhook.offline.fact_files import LISTS, add_field_names, known_fields, load_facts, load_schemas

CRDS = os.environ.get("ROLLCALL_CRDS")
JOB_SET = Api("jobset.x-k8s.io", "v1alpha2", "JobSet")


def crd(
    *fields: str, group: str = "jobset.x-k8s.io", kind: str = "JobSet", version: str = "v1alpha2"
) -> dict[str, Any]:
    schema = {"properties": {"spec": {"properties": {field: {"type": "string"} for field in fields}}}}
    versions = [{"name": version, "served": True, "schema": {"openAPIV3Schema": schema}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "demo"},
        "spec": {"group": group, "names": {"kind": kind}, "versions": versions},
    }


def written(folder: Path, *documents: Any, name: str = "crd.yaml") -> Path:
    file = folder / name
    file.write_text(yaml.safe_dump_all(documents))
    return file


@pytest.mark.skipif(CRDS is None, reason="ROLLCALL_CRDS names no folder of real CustomResourceDefinitions")
def test_the_lists_are_those_of_the_definitions() -> None:
    assert CRDS is not None
    assert as_text(field_lists(Path(CRDS))) == LISTS.read_text()


def test_the_fields_of_each_judged_kind_are_known() -> None:
    grove, kubernetes, trainer = Text("Grove v0.1.0-alpha.12-rc1"), Text("Kubernetes 1.36"), Text("Trainer v2.3.0")
    assert {str(api): fields.origin for api, fields in known_fields().items()} == {
        "grove.io/v1alpha1 ClusterTopologyBinding": grove,
        "grove.io/v1alpha1 PodClique": grove,
        "grove.io/v1alpha1 PodCliqueScalingGroup": grove,
        "grove.io/v1alpha1 PodCliqueSet": grove,
        "scheduler.grove.io/v1alpha1 PodGang": grove,
        "jobset.x-k8s.io/v1alpha2 JobSet": Text("JobSet v0.12.0"),
        "batch/v1 Job": kubernetes,
        "/v1 Pod": kubernetes,
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": Text("LeaderWorkerSet v0.10.0"),
        "trainer.kubeflow.org/v1alpha1 ClusterTrainingRuntime": trainer,
        "trainer.kubeflow.org/v1alpha1 TrainingRuntime": trainer,
        "trainer.kubeflow.org/v1alpha1 TrainJob": trainer,
    }


def test_the_fields_of_a_clique_are_known_down_to_its_pods() -> None:
    names = known_fields()[Api("grove.io", "v1alpha1", "PodCliqueSet")].names
    clique = names["spec"]["template"]["cliques"][ITEMS]
    assert "minAvailable" in clique["spec"]
    assert "schedulerName" in clique["spec"]["podSpec"]
    assert "image" in clique["spec"]["podSpec"]["containers"][ITEMS]
    assert clique["labels"] is None


def test_equal_parts_are_stored_once() -> None:
    assert LISTS.stat().st_size < 32_000


def test_schemas_are_read_from_files_and_folders(tmp_path: Path) -> None:
    file = written(tmp_path, crd("replicas", "unheardOf"))
    for path in (file, tmp_path):
        (api, fields), *others = load_schemas([path]).items()
        assert (api, fields.origin, others) == (JOB_SET, str(file), [])
        assert fields.names["spec"] == {"replicas": None, "unheardOf": None}


def test_a_schema_from_a_file_comes_before_the_known_release(tmp_path: Path) -> None:
    facts = add_field_names(NO_FACTS, [written(tmp_path, crd("replicas"))])
    assert facts.field_names is not None
    assert facts.field_names[JOB_SET].names["spec"] == {"replicas": None}
    assert facts.field_names[Api("batch", "v1", "Job")].origin.startswith("Kubernetes")


def test_definitions_among_the_facts_tell_the_fields_too(tmp_path: Path) -> None:
    facts = add_field_names(load_facts([written(tmp_path, crd("replicas"))]))
    assert facts.field_names is not None
    assert facts.field_names[JOB_SET].names["spec"] == {"replicas": None}


def test_a_schema_file_without_definitions_is_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap"})
    with pytest.raises(InputError) as error:
        load_schemas([file])
    assert str(error.value) == Text(f"{file}: ", "CustomResourceDefinition")


def test_a_definition_of_the_wrong_shape_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = written(tmp_path, {**crd(), "spec": ["wrong"]})
    with pytest.raises(InputError) as error:
        load_schemas([file])
    assert str(error.value) == f"{file}:1:1: CustomResourceDefinition: expected an object, found a list"
