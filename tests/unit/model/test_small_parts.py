"""Names, quantities, versions, paths, and the patch builder: tables of input and output."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from webhook.model.fields import FieldPath, Item
from webhook.model.findings import Finding, shown
from webhook.model.gang_objects import gang_metadata
from webhook.model.grove import PodGang
from webhook.model.keys import pod_group_name
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.quantity import Version, parse_quantity
from webhook.model.reading import Malformed
from webhook.mutators.json_patch import PatchBuilder


@pytest.mark.parametrize(
    ("podgang", "podgroup", "expected"),
    [
        ("demo-0", "demo-0-worker", "demo-0-worker"),
        ("demo-0-prefill-0", "demo-0-prefill-1-worker", "demo-0-prefill-0-demo-0-prefill-1-worker"),
        ("demo-0", "demo-01-worker", "demo-0-demo-01-worker"),
        # sha256sum of demo-0-aaa...: the first ten hex digits.
        ("demo-0", "a" * 60, "demo-0-" + "a" * 45 + "-4819ecadb0"),
    ],
)
def test_a_pod_group_has_the_expected_name(podgang: str, podgroup: str, expected: str) -> None:
    assert pod_group_name(podgang, podgroup) == expected


def test_a_name_of_the_maximum_length_is_not_cut() -> None:
    assert pod_group_name("demo-0", "demo-0-" + "w" * 56) == "demo-0-" + "w" * 56
    assert len(pod_group_name("demo-0", "demo-0-" + "w" * 57)) == 63


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2", 2),
        (2, 2),
        (0.5, Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("4Gi", 4 * 1024**3),
        ("3k", 3000),
        ("-1", -1),
        ("100n", Fraction(1, 10**7)),
        ("", None),
        ("1 ", None),
        ("one", None),
        ("1KI", None),
        ("1e999", None),
        ("9" * 100, None),
        (True, None),
        (None, None),
        ([], None),
    ],
)
def test_quantities_are_parsed(written: Any, value: Any) -> None:
    assert parse_quantity(written) == value


@pytest.mark.parametrize(
    ("written", "version"),
    [("1.8", (1, 8, 0)), ("v1.8.0", (1, 8, 0)), ("1.8.0-rc1", (1, 8, 0)), ("1", None), ("latest", None), ("1.x", None)],
)
def test_versions_are_parsed(written: str, version: Any) -> None:
    assert Version.parse(written) == version


def test_a_path_has_the_form_of_kubernetes_and_its_anchor_uses_names() -> None:
    path = FieldPath(("spec", "cliques", Item(1, "worker"), "annotations", "grove.io/mnnvl-group"))
    assert str(path) == "spec.cliques[1].annotations[grove.io/mnnvl-group]"
    assert path.anchor == "spec.cliques[worker].annotations[grove.io/mnnvl-group]"
    assert (str(FieldPath((Item(2),))), FieldPath((Item(2),)).anchor) == ("[2]", "[]")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("train", '"train"'),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        ({"a": 1}, "an object of 1 fields"),
        ([1, 2], "a list of 2 items"),
        ("x" * 200, '"' + "x" * 77 + '..."'),
        ('say "hi"\n', '"say \\"hi\\"\\n"'),
    ],
)
def test_a_found_value_is_shortened_to_one_line(value: Any, text: str) -> None:
    assert shown(value) == text


class Nowhere:
    metadata_path = FieldPath()
    spec_path = FieldPath()


def cpu(amount: Any, **fields: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": amount}}, **fields}


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ({}, 0),
        ({"containers": [cpu("1"), cpu("500m")]}, Fraction(3, 2)),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2),
        ({"containers": [cpu("1")], "initContainers": [cpu("3"), cpu("2")]}, 3),
        ({"containers": [cpu("1")], "initContainers": [cpu("2", restartPolicy="Always"), cpu("3")]}, 5),
        ({"containers": [cpu("2")], "initContainers": [cpu("2", restartPolicy="Always")]}, 4),
        ({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}, Fraction(5, 4)),
        ({"containers": [cpu("lots")]}, None),
        ({"initContainers": [cpu("lots")]}, None),
        ({"containers": [cpu("1500m")], **cpu("4")}, 4),
        (
            {"containers": [cpu("1")], "initContainers": [cpu("9")], "overhead": {"cpu": "250m"}, **cpu("4")},
            Fraction(17, 4),
        ),
        ({"containers": [cpu("1")], "resources": {"requests": {"memory": "1Gi"}}}, 1),
        ({"containers": [cpu("1")], **cpu("lots")}, None),
    ],
    ids=[
        "none",
        "sum",
        "limit",
        "init",
        "sidecar beside init",
        "sidecar runs on",
        "overhead",
        "unreadable",
        "unreadable init",
        "stated for the pod",
        "stated for the pod, and overhead",
        "only memory is stated for the pod",
        "unreadable for the pod",
    ],
)
def test_the_total_request_of_a_pod_is_computed(spec: Any, total: Any) -> None:
    assert PodTemplate({}, spec, Nowhere()).total_request("cpu") == total


def test_a_patch_makes_missing_parents_escapes_keys_and_applies_itself() -> None:
    target: dict[str, Any] = {"metadata": {"annotations": None}}
    patch = PatchBuilder(target)
    patch.set(("metadata", "labels"), "a/b~c", "1")
    patch.set(("metadata", "annotations"), "x", "2")
    patch.set(("metadata", "annotations"), "x", "2")
    patch.set(("metadata", "annotations"), "x", "3")
    patch.append(("spec",), "gates", {"name": "g"})
    assert patch.operations == [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "1"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/x", "value": "2"},
        {"op": "replace", "path": "/metadata/annotations/x", "value": "3"},
        {"op": "add", "path": "/spec", "value": {}},
        {"op": "add", "path": "/spec/gates", "value": []},
        {"op": "add", "path": "/spec/gates/-", "value": {"name": "g"}},
    ]
    assert target == {
        "metadata": {"annotations": {"x": "3"}, "labels": {"a/b~c": "1"}},
        "spec": {"gates": [{"name": "g"}]},
    }


def test_a_patch_never_overwrites_what_has_the_wrong_type() -> None:
    with pytest.raises(Malformed):
        PatchBuilder({"metadata": []}).set(("metadata", "labels"), "a", "1")
    with pytest.raises(Malformed):
        PatchBuilder({"spec": {"gates": "x"}}).append(("spec",), "gates", {})


def test_a_label_of_a_gang_object_is_cut_to_the_maximum_length() -> None:
    podgang = PodGang({"metadata": {"name": "g" * 64, "uid": "u-1"}})
    metadata = gang_metadata(podgang, "g" * 64, {"grove.io/podclique": "c" * 63})
    assert metadata["name"] == "g" * 64
    assert metadata["labels"] == {
        "app.kubernetes.io/managed-by": "rollcall",
        "grove.io/podgang": "g" * 52 + "-4e52b0a8d9",
        "rollcall.dev/gang": "g" * 52 + "-4e52b0a8d9",
        "grove.io/podclique": "c" * 63,
    }


def test_the_text_of_a_finding_is_bounded() -> None:
    long = Finding(at=FieldPath(("metadata", "k" * 5000, "b")), value="f" * 5000, why="w" * 5000, remedy="r" * 5000)
    assert len(str(long)) < 2 * 900 + 317 + 200
    assert str(long.at) == f"metadata[{'k' * 314}...].b"
    # Two keys that begin alike are two places.
    assert long.at.anchor != FieldPath(("metadata", "k" * 4999, "b")).anchor
    assert long.why.endswith("w...")


def test_resources_that_are_empty_and_of_another_type_request_nothing() -> None:
    asking = {"resources": {"limits": {"example.com/gpu": 1}}}
    pod = Pod({"spec": {"containers": [{"resources": ""}, asking]}})
    assert pod.template.request_of(frozenset({"example.com/other"})) is None
    found = pod.template.request_of(frozenset({"example.com/gpu"}))
    assert found is not None
    assert found.resource == "example.com/gpu"
