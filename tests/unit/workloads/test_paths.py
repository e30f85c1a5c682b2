"""The paths of WorkloadShapes: which texts are paths, and what they find."""

from __future__ import annotations

import re

import pytest

from webhook.model.fields import FieldPath
from webhook.model.reading import Malformed
from webhook.workloads.workload_shape import PathError, PathValue, ShapeScope, parsed_steps, shape_path

OBJECT = {
    "metadata": {"annotations": {"example.com/gang": "true"}},
    "spec": {
        "groups": [{"groupName": "gpu", "replicas": 2}, {"replicas": 3}],
        "roles": {"Master": {"replicas": 1}, "Worker": {"replicas": 4}},
        "nothing": None,
    },
}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("$.spec.groups[*].replicas", {"spec.groups[0].replicas": 2, "spec.groups[1].replicas": 3}),
        ("$.spec.roles[*].replicas", {"spec.roles.Master.replicas": 1, "spec.roles.Worker.replicas": 4}),
        ("$.spec.roles.*.replicas", {"spec.roles.Master.replicas": 1, "spec.roles.Worker.replicas": 4}),
        ("$.metadata.annotations['example.com/gang']", {"metadata.annotations[example.com/gang]": "true"}),
        ("$.spec.nothing.below", {}),
        ("$.spec.absent[*].below", {}),
    ],
)
def test_a_path_finds_each_value_with_its_place(written: str, found: dict[str, object]) -> None:
    assert {str(one.path): one.value for one in shape_path(written).values(ShapeScope(OBJECT))} == found


@pytest.mark.parametrize(
    "written",
    [
        "$",
        "$.a_1.B",
        "$.spec.groups[*]",
        "$['example.com/gang'].x",
        "$[*][*]",
        "$.true.and",
        "$['a']['0']",
        "$._",
        "$['*']",
    ],
)
def test_a_plain_path_has_the_steps_that_the_parser_finds(written: str) -> None:
    assert shape_path(written).steps == parsed_steps(written)


def test_an_entry_has_the_name_by_which_two_versions_are_compared() -> None:
    anchors = [one.path.anchor for one in shape_path("$.spec.groups[*]").values(ShapeScope(OBJECT))]
    assert anchors == ["spec.groups[gpu]", "spec.groups[]"]


def test_a_path_of_an_entry_begins_there() -> None:
    entry = next(shape_path("$.spec.groups[*]").values(ShapeScope(OBJECT)))
    scope = ShapeScope(OBJECT, entry)
    assert shape_path("@.replicas").value(scope) == 2
    assert str(shape_path("@.template.spec").field_path(scope)) == "spec.groups[0].template.spec"
    assert shape_path("$.spec.roles.Master.replicas").value(scope) == 1, "from the object, inside an entry as well"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("spec.groups", "must begin with $"),
        ("$..replicas", "neither one name nor [*]"),
        ("$.spec.groups[0]", "neither a name nor [*]"),
        ("$.spec.groups[?@.replicas > 1]", "neither a name nor [*]"),
        ("$.spec['a','b']", "neither one name nor [*]"),
        ("$.spec.groups[", "is not a JSONPath"),
        ("$.spec | $.status", "is not a JSONPath"),
        (f"$.{'.'.join('a' * 17)}", "more than 16 steps"),
        (f"$.{'a' * 512}", "longer than 512 characters"),
        ("", "must begin with $"),
    ],
)
def test_other_texts_are_no_paths(written: str, why: str) -> None:
    with pytest.raises(PathError, match=re.escape(why)):
        shape_path(written)


@pytest.mark.parametrize(
    "written", ["$.spec.groups.replicas", "$.spec.groups[*].replicas.below", "$.spec.roles[*].replicas[*]"]
)
def test_a_value_of_another_type_is_an_error_and_not_absent(written: str) -> None:
    with pytest.raises(Malformed):
        list(shape_path(written).values(ShapeScope(OBJECT)))


def test_null_in_a_list_is_an_error() -> None:
    with pytest.raises(Malformed):
        list(shape_path("$.spec.groups[*]").values(ShapeScope({"spec": {"groups": [None]}})))


def test_the_key_of_an_entry_is_kept() -> None:
    keys = [one.key for one in shape_path("$.spec.roles[*]").values(ShapeScope(OBJECT))]
    assert keys == ["Master", "Worker"]
    assert PathValue(FieldPath(), 1).key == ""
