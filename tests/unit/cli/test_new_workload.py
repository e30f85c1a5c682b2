"""The worked example of `docs/how-to/new-workload.md`: a kind that Rollcall has never seen, declared by some lines."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.unit.cli.conftest import Run, documents
from webhook.model.reading import Manifest

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "new-workload.md"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", _PAGE.read_text(), re.DOTALL)


def _written(folder: Path) -> tuple[Path, Path]:
    """The workload and the shape of the page, in files with the names that the page uses."""
    workload, shape = _blocks("yaml")
    (folder / "llama.yaml").write_text(workload)
    (folder / "training.yaml").write_text(shape)
    return folder / "llama.yaml", folder / "training.yaml"


def test_the_test_of_the_shape_prints_what_the_page_shows(rollcall: Run, tmp_path: Path) -> None:
    workload, shape = _written(tmp_path)
    ran = rollcall("shapes", "test", str(shape), str(workload))
    assert ran.code == 0, ran.err
    shown = next(block for block in _blocks("text") if "shapes test" in block).split("\n", 1)[1]
    assert shown in ran.out.replace(f"{tmp_path}/", "")


def test_a_mistake_is_reported_with_its_line_as_the_page_says(rollcall: Run, tmp_path: Path) -> None:
    workload, shape = _written(tmp_path)
    shape.write_text(shape.read_text().replace("      pods: 1\n", "", 1))
    ran = rollcall("shapes", "test", str(shape), str(workload))
    assert ran.code == 2
    assert "training.yaml:9:7: spec.parts[0].pods: is required" in ran.err
    said = re.search(r"`(training.yaml:\S+ \S+ is required)`", _PAGE.read_text())
    assert said is not None
    assert said[1] in ran.err


def test_the_draft_of_the_page_has_the_places_of_the_shape(rollcall: Run, tmp_path: Path) -> None:
    template = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    role = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "replicas": {"type": "integer"}, "template": template},
    }
    fields: Manifest = {
        "coordinator": {"type": "object", "properties": {"template": template}},
        "roles": {"type": "array", "items": role},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    names = {"kind": "Training", "plural": "trainings", "singular": "training"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trainings.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump(crd))
    ran = rollcall("shapes", "init", "Training", "--from-crd", str(file))
    assert ran.code == 0, ran.err
    draft = yaml.safe_load(ran.out)
    (_, shape) = _written(tmp_path)
    wanted = yaml.safe_load(shape.read_text())
    assert (draft["metadata"], draft["spec"]["for"]) == (wanted["metadata"], wanted["spec"]["for"])
    for made, part in zip(draft["spec"]["parts"], wanted["spec"]["parts"], strict=True):
        assert {key: made.get(key) for key in ("name", "each", "template", "pods")} == {
            key: part.get(key) for key in ("name", "each", "template", "pods")
        }
    (tmp_path / "draft.yaml").write_text(ran.out)
    tested = rollcall("shapes", "test", str(tmp_path / "draft.yaml"), str(tmp_path / "llama.yaml"))
    assert tested.code == 0, tested.err
    assert "gang llama: 5 pods" in tested.out


def test_the_kind_is_judged_translated_and_registered_from_the_shape_alone(rollcall: Run, tmp_path: Path) -> None:
    workload, shape = _written(tmp_path)
    assert len(shape.read_text().splitlines()) < 100
    config = tmp_path / "rollcall.yaml"
    head = "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
    config.write_text(f"{head}scheduler:\n  profiles: [{{name: koord-scheduler}}]\n---\n{shape.read_text()}")
    assert "1 Training judged" in rollcall("check", "--config", str(config), str(workload)).out
    objects = [one for one in documents(rollcall("render", "--config", str(config), str(workload)).out) if one]
    groups = {one["metadata"]["name"]: one["spec"]["minMember"] for one in objects if one["kind"] == "PodGroup"}
    assert groups == {"llama-coordinator": 1, "llama-trainer": 4}
    pods = [one for one in objects if one["kind"] == "Pod"]
    assert {one["spec"]["schedulerName"] for one in pods} == {"koord-scheduler"}
    assert {one["metadata"]["labels"]["rollcall.dev/gang"] for one in pods} == {"llama"}
    assert "gang llama: 5 pods" in rollcall("explain", "--config", str(config), str(workload)).out
    hooks = rollcall("manifests", "webhooks", "--config", str(config)).out
    rights = rollcall("manifests", "rbac", "--config", str(config)).out
    assert "trainings" in hooks
    assert "trainings" in rights
