"""The field names of a kind, and the fields of an object that are not among them."""

from __future__ import annotations

from typing import Any

from tests.unit.growth.step_counts import growing
from webhook.model.fields import MOST_UNKNOWN, OBJECT_META, KindFields, kind_names, names_in

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "open": {
                    "type": "object",
                    "properties": {"known": {"type": "string"}},
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "ports": {"type": "object", "additionalProperties": {"type": "object", "properties": {"number": {}}}},
                "groups": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "pod": {"type": "object", "properties": {"schedulerName": {}}},
                            "metadata": {"type": "object"},
                        },
                    },
                },
            },
        },
    },
}


def found(spec: Any, **fields: Any) -> list[tuple[str, Any, str | None, str | None]]:
    names = kind_names(SCHEMA)
    assert names is not None
    kind = KindFields(names, "Demo v1")
    return [(str(one.at), one.value, one.likely, one.belongs) for one in kind.unknown({"spec": spec, **fields})]


def test_a_schema_becomes_names_without_types() -> None:
    assert names_in(SCHEMA["properties"]["spec"]) == {
        "replicas": None,
        "labels": None,
        "open": None,
        "ports": {"*": {"number": None}},
        "groups": {"[]": {"name": None, "pod": {"schedulerName": None}, "metadata": OBJECT_META}},
    }


def test_a_schema_without_fields_has_no_names() -> None:
    assert kind_names({"type": "object", "x-kubernetes-preserve-unknown-fields": True}) is None
    assert kind_names({"type": "object"}) is None
    assert kind_names(None) is None


def test_known_fields_are_not_reported() -> None:
    groups = [{"name": "a", "pod": {"schedulerName": "b"}, "metadata": {"labels": {"any": "thing"}}}]
    assert found({"replicas": 1, "groups": groups, "ports": {"any": {"number": 1}}}, status={"any": 1}) == []


def test_fields_below_what_permits_any_field_are_not_checked() -> None:
    assert found({"labels": {"any/key": "x"}, "open": {"any": {"thing": 1}}}) == []


def test_a_misspelt_field_is_reported_with_the_likely_name() -> None:
    assert found({"replcas": 3}) == [("spec.replcas", 3, "replicas", None)]
    assert found({"Replicas": 3}) == [("spec.Replicas", 3, "replicas", None)]
    assert found({"groups": [{"name": "a"}, {"nmae": "b"}]}) == [("spec.groups[1].nmae", "b", "name", None)]
    assert found({"ports": {"web": {"numbre": 1}}}) == [("spec.ports.web.numbre", 1, "number", None)]


def test_a_field_of_another_place_is_reported_with_that_place() -> None:
    assert found({"schedulerName": "x"}) == [("spec.schedulerName", "x", None, "spec.groups[].pod.schedulerName")]
    assert found({}, replicas=2) == [("replicas", 2, None, "spec.replicas")]


def test_a_field_that_resembles_nothing_is_reported_without_a_name() -> None:
    assert found({"zzz": {"schedulerName": "x"}}) == [("spec.zzz", {"schedulerName": "x"}, None, None)]


def test_values_of_the_wrong_type_are_left_to_other_rules() -> None:
    assert found("text") == []
    assert found({"groups": {"nmae": 1}, "ports": [1]}) == []
    assert found({"groups": [[{"nmae": 1}], None, 3]}) == []


def test_a_limited_number_of_fields_is_reported() -> None:
    assert len(found({f"field{number}": 1 for number in range(10_000)})) == MOST_UNKNOWN


def test_the_steps_grow_with_the_object_and_no_faster() -> None:
    def checked(size: int) -> list[Any]:
        return found({"groups": [{"name": "a", "pod": {"schedulerName": "b"}} for _ in range(size)], "zzz": 1})

    assert checked(3) == [("spec.zzz", 1, None, None)]
    assert growing(checked, 50) == []
