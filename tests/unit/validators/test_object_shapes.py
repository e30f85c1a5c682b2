"""Gang objects of others with fields of the wrong type: each such field is reported with its path, for every kind."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.unit.worlds import rules, settings_of, validate
from webhook.backends.registry import installed_backends
from webhook.config.settings import Settings
from webhook.model.fields import ROOT
from webhook.validators.registry import Example, Rule

GANGS = {"gangScheduling": True}
KUBE = {"apiVersion": "scheduling.k8s.io/v1beta1"}
COMPOSITE = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup"}
TOTAL = {"gang.scheduling.koordinator.sh/total-number": 3}
KOORDINATOR = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "demo", "annotations": TOTAL},
}
KAI = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
VOLCANO = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
TEMPLATE = {"name": "root", "podGroupTemplates": [{"name": "worker", "schedulingPolicy": {"gang": {"minCount": "2"}}}]}

# The scheduler, the object without its metadata, and the expected finding.
WRONG: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "Koordinator's PodGroup": (
        "koord-scheduler",
        {**KOORDINATOR, "spec": {"minMember": "two"}},
        [
            "metadata.annotations[gang.scheduling.koordinator.sh/total-number]: 3; write a string; quote it",
            'spec.minMember: "two"; write a whole number',
        ],
    ),
    "every field, where one alone would stop the reader": (
        "default-scheduler",
        {**COMPOSITE, "spec": {"parentCompositePodGroupName": 7, "workloadRef": {"workloadName": ["demo"]}}},
        [
            "spec.parentCompositePodGroupName: 7; write a string",
            "spec.workloadRef.workloadName: a list of 1 items; write a string",
        ],
    ),
    "a template within templates": (
        "default-scheduler",
        {**KUBE, "kind": "Workload", "spec": {"compositePodGroupTemplates": [TEMPLATE]}},
        [
            "spec.compositePodGroupTemplates[0].podGroupTemplates[0].schedulingPolicy.gang.minCount: "
            '"2"; write a whole number'
        ],
    ),
    "one of two types": (
        "default-scheduler",
        {**KUBE, "kind": "PodGroup", "spec": {"disruptionMode": ["all"]}},
        ["spec.disruptionMode: a list of 1 items; write a string or an object"],
    ),
    "KAI's subgroup": (
        "kai-scheduler",
        {**KAI, "spec": {"queue": "q", "subGroups": [{"name": "a", "minMember": True}]}},
        ["spec.subGroups[0].minMember: true; write a whole number"],
    ),
    "a map of Volcano's": (
        "volcano",
        {**VOLCANO, "kind": "PodGroup", "spec": {"minMember": 3, "minTaskMember": {"a": 1, "b": "2"}}},
        ['spec.minTaskMember.b: "2"; write a whole number'],
    ),
    "Volcano's Queue": (
        "volcano",
        {**VOLCANO, "kind": "Queue", "spec": {"parent": {"name": "root"}}},
        ["spec.parent: an object of 1 fields; write a string"],
    ),
}


def metadata() -> dict[str, Any]:
    return {"name": "demo", "namespace": "default"}


@pytest.mark.parametrize(("scheduler", "manifest", "said"), WRONG.values(), ids=WRONG)
def test_a_field_of_the_wrong_type_is_reported_with_its_path(
    scheduler: str, manifest: dict[str, Any], said: list[str]
) -> None:
    settings = settings_of(scheduler, GANGS if scheduler == "default-scheduler" else {})
    verdict = validate({"metadata": metadata(), **manifest}, settings=settings)
    why = ": the value has the wrong type"
    assert [str(found).replace(why, "") for found in verdict.findings] == [
        f"rollcall/object-shape at {one}" for one in said
    ]
    assert not verdict.allowed


@pytest.mark.parametrize("field", ["metadata", "spec"])
def test_a_value_that_is_not_an_object_is_reported(field: str) -> None:
    manifest = {**COMPOSITE, "metadata": metadata(), "spec": {}, field: ["x"]}
    (found,) = validate(manifest, settings=settings_of("default-scheduler", GANGS)).findings
    assert (found.rule, str(found.at)) == ("rollcall/object-shape", field)


def test_a_malformed_old_object_does_not_block_its_repair() -> None:
    settings = settings_of("default-scheduler", GANGS)
    right = {**COMPOSITE, "metadata": metadata(), "spec": {"schedulingPolicy": {"basic": {}}}}
    for old in ({**right, "spec": "x"}, {**right, "spec": {"priority": "high"}}):
        assert validate(right, old, settings=settings).allowed
        assert rules(validate(old, right, settings=settings)) == ["rollcall/object-shape"]


def fields_of(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each field of an object, and of the objects in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield (*place, key)
        yield from fields_of(below, (*place, key))


def with_field(manifest: dict[str, Any], way: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found: Any = deepcopy(manifest)
    holder = found
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return dict(found)


RULES = [
    (name, declared)
    for name, backend in installed_backends().items()
    for declared in backend.rules
    if any(judged.kind != "Pod" for judged in declared.kinds)
]


@pytest.mark.parametrize(("scheduler", "rule"), RULES, ids=lambda one: one.id if isinstance(one, Rule) else one)
def test_every_field_that_a_rule_reads_of_its_examples_has_a_path(scheduler: str, rule: Rule) -> None:
    """So that a field that a new rule reads is not forgotten in the shapes."""

    def judged(example: Example, settings: Settings, manifest: dict[str, Any]) -> None:
        verdict = validate(manifest, example.old, settings=settings, facts=example.facts)
        for found in verdict.findings:
            assert found.rule != "grove/shape" or manifest["kind"] == "Pod"
            assert found.rule != "rollcall/object-shape" or found.at != ROOT, manifest

    for example in (rule.passes, rule.fails):
        settings = settings_of(scheduler, example.config, kueue=example.kueue)
        for way in fields_of({"metadata": example.object["metadata"], "spec": example.object.get("spec")}):
            for wrong in (7, "x", ["x"], {"x": 7}):
                judged(example, settings, with_field(example.object, way, wrong))
