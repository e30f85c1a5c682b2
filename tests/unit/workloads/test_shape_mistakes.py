"""Mistakes in a WorkloadShape: each with path, value and what is allowed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.texts import is_like
from tests.unit.workloads.workloads import HEAD, declared, mistakes_of, shape_of
from webhook.config.file import settings_from
from webhook.errors import ConfigurationError

FOR = {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1"]}
JOB = {"group": "batch", "version": "v1", "kind": "Job", "plural": "jobs"}
RAY_CLUSTER = {"group": "ray.io", "kind": "RayCluster", "plural": "rayclusters", "versions": ["v1"]}
PART: dict[str, Any] = {"name": "worker", "template": "$.spec.template", "pods": 2}
FINE: dict[str, Any] = {"for": FOR, "parts": [PART]}


def _with(**changed: Any) -> dict[str, Any]:
    return {**deepcopy(FINE), **changed}


def _part(**changed: Any) -> dict[str, Any]:
    return _with(parts=[{**PART, **changed}])


def _two(**changed: Any) -> dict[str, Any]:
    first = {**PART, "pod": {"labels": {"role": "worker"}}}
    return _with(parts=[first, {**PART, "name": "driver", "template": "$.spec.driver", **changed}])


def _deep(levels: int) -> dict[str, Any]:
    return {"path": "$.a"} if levels == 1 else {"path": "$.a", "default": _deep(levels - 1)}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key of the operator": (
        _with(operator={"minimums": "$.spec.minAvailable"}),
        'spec.operator.minimums: "$.spec.minAvailable": is an unknown key; did you mean minimum?',
    ),
    "an operator's minimum that is no path": (
        _with(operator={"minimum": 2}),
        "spec.operator.minimum: 2: must be a string",
    ),
    "an operator's minimum of many": (
        _with(operator={"minimum": "$.spec.roles[*].minimum"}),
        'spec.operator.minimum: "$.spec.roles[*].minimum": must name one value',
    ),
    "an operator's minimum in an entry": (
        _with(operator={"minimum": "@.minimum"}),
        'spec.operator.minimum: "@.minimum": begins with @',
    ),
    "an operator that is finished without a comparison": (
        _with(operator={"finished": {"path": "$.status.phase"}}),
        "spec.operator.finished[0]: must have exactly one",
    ),
    "an operator that is finished in an entry": (
        _with(operator={"finished": {"path": "@.phase", "is": "Done"}}),
        'spec.operator.finished[0].path: "@.phase": begins with @',
    ),
    "an unknown key": (_with(part=[]), "spec.part: []: is an unknown key; did you mean parts?"),
    "no kind": ({"parts": [PART]}, "spec.for: is required"),
    "no plural": (_with(**{"for": {**FOR, "plural": None}}), "spec.for.plural: must be a string"),
    "no version": (
        _with(**{"for": {**FOR, "versions": []}}),
        "spec.for.versions: []: must not be empty",
    ),
    "a kind in Python": (
        _with(**{"for": {**FOR, "group": "batch", "kind": "Job"}}),
        'spec.for.kind: "Job": is not declared',
    ),
    "Grove's kind": (
        _with(**{"for": {**FOR, "group": "grove.io", "kind": "PodCliqueSet"}}),
        'spec.for.kind: "PodCliqueSet": is not declared',
    ),
    "no parts": (_with(parts=[]), "spec.parts: must have a part"),
    "only outside": (_part(outside=True), "spec.parts: must have a part"),
    "no pods": (_with(parts=[{"name": "worker", "template": "$.spec.template"}]), "spec.parts[0].pods: is required"),
    "a path without a root": (
        _part(template="spec.template"),
        'spec.parts[0].template[0]: "spec.template": must begin with $',
    ),
    "a template of many": (
        _part(template="$.spec.roles[*].template"),
        'spec.parts[0].template[0]: "$.spec.roles[*].template": must name one value',
    ),
    "each of one": (_part(each="$.spec.roles"), 'spec.parts[0].each: "$.spec.roles": must end with [*]'),
    "an entry without each": (
        _part(template="@.template"),
        'spec.parts[0].template[0]: "@.template": begins with @',
    ),
    "no template": (_with(parts=[{"name": "worker", "pods": 2}]), "spec.parts[0].template: is required; or `fields`"),
    "template and fields": (_part(fields="$.spec.driver"), "spec.parts[0].template: is required; or `fields`"),
    "a negative number": (_part(pods=-1), "spec.parts[0].pods.number: -1: input should be greater than or equal to 0"),
    "a huge number": (_part(pods=2**31), "spec.parts[0].pods.number: 2147483648: input should be less than or equal"),
    "number and path": (
        _part(pods={"number": 1, "path": "$.spec.n"}),
        "spec.parts[0].pods: must be a number",
    ),
    "neither": (_part(pods={"times": 2}), "spec.parts[0].pods: must be a number"),
    "too deep": (
        _part(pods=_deep(5)),
        "more than 4 deep",
    ),
    "a lowest number without an entry": (
        _part(lowest={"count": "@.least"}),
        'spec.parts[0].lowest[0].count.path: "@.least": begins with @',
    ),
    "two comparisons": (
        _part(when={"path": "$.spec.on", "is": True, "exists": True}),
        "spec.parts[0].when[0]: must have exactly one",
    ),
    "no comparison": (_part(when={"path": "$.spec.on"}), "must have exactly one"),
    "a role label alone": (
        _with(gang={"roleLabel": "example.com/role"}),
        'spec.gang.roleLabel: "example.com/role": is read with `over:',
    ),
    "groups without labels": (
        _with(gang={"over": "groups"}),
        "spec.gang.roleLabel: is required with `over:",
    ),
    "groups that are left to others": (
        _with(gang={"over": "groups", "roleLabel": "example.com/role", "leftTo": "LeaderWorkerSet"}),
        'spec.gang.leftTo: "LeaderWorkerSet": is not possible',
    ),
    "groups of one template": (
        _with(gang={"over": "groups", "roleLabel": "example.com/role"}),
        "spec.parts[0]: must be the only part",
    ),
    "an unknown gang": (
        _with(gang={"over": "unit"}),
        'spec.gang.over: "unit": is not allowed (allowed: all, part, groups, none)',
    ),
    "a part without a name label": (
        _part(each="$.spec.roles[*]", name={"path": "@.name"}, template="@.template"),
        "spec.parts[0].pod.nameLabel: is required",
    ),
    "fields of an entry without each": (
        _with(parts=[{"name": "worker", "fields": {"metadata": "$.spec", "spec": "@.podSpec"}, "pods": 2}]),
        'spec.parts[0].fields.spec: "@.podSpec": begins with @',
    ),
    "fields without labels": (
        _with(parts=[{"name": "worker", "fields": {"spec": "$.spec.podSpec"}, "pods": 2}]),
        "spec.parts[0].fields.metadata: is required",
    ),
    "a carried value of an entry": (
        _with(carry=[{"key": "kai.scheduler/queue", "path": "@.queue"}]),
        'spec.carry[0].path: "@.queue": begins with @',
    ),
    "a carried value under a condition without a comparison": (
        _with(carry=[{"key": "a", "path": "$.a", "when": {"path": "$.b"}}]),
        "spec.carry[0].when[0]: must have exactly one",
    ),
    "a key without each": (_part(name={"key": "lower"}), 'spec.parts[0].name.key: "lower": needs `each`'),
    "two names": (_part(name={"literal": "a", "path": "$.spec.a"}), "spec.parts[0].name: must be one of literal"),
    "parts that look alike": (
        _two(),
        "spec.parts[1].pod.labels: is required",
    ),
    "an order that deadlocks": (
        _two(pod={"labels": {"role": "driver"}}, after=["worker"], until="ready"),
        'spec.parts[1].until: "ready": would never start',
    ),
    "after an unknown part": (
        _two(pod={"labels": {"role": "driver"}}, after=["workers"]),
        'spec.parts[1].after[0]: "workers": ... (allowed: worker, driver)',
    ),
    "a chain without the workload": (
        _part(
            pod={"chain": [{"group": "batch", "version": "v1", "kind": "Job", "plural": "jobs", "name": "launcher"}]}
        ),
        'spec.parts[0].pod.chain[0].name: "launcher": must contain {workload} once',
    ),
    "a refusal of everything": (
        _with(refuse=[{"why": "never starts"}]),
        "spec.refuse[0].when: is required, or",
    ),
    "a refusal without a reason": (
        _with(refuse=[{"when": {"path": "$.spec.on", "is": True}}]),
        "spec.refuse[0].why: is required",
    ),
    "a mark elsewhere": (_with(mark=["$.spec.template"]), 'spec.mark[0]: "$.spec.template": must end with metadata'),
    "65 parts": (_with(parts=[PART] * 65), "spec.parts: "),
    "a list": ({"for": []}, "spec.for: []: must be a mapping"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    spec, message = MISTAKES[name]
    found = mistakes_of(declared(spec))
    assert any(is_like(problem, f"...{message}...") for problem in found), found


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"spec": FINE}, "metadata: is required"),
        ({"metadata": {"name": ""}, "spec": FINE}, "metadata.name: "),
        (
            {"metadata": {"name": "my shape"}, "spec": FINE},
            'metadata.name: "my shape": must be the name',
        ),
        (
            {"metadata": {"name": "Training"}, "spec": FINE},
            "at most 253",
        ),
        ({"metadata": {"name": "a" * 254}, "spec": FINE}, "metadata.name: "),
        ({"metadata": {"name": "a"}}, "spec: is required"),
        ({"metadata": {"name": "a"}, "spec": FINE, "status": {}}, "status: {}: is an unknown key"),
        ({"metadata": {"name": "a"}, "spec": FINE, "apiVersion": "rollcall.dev/v1"}, "apiVersion"),
        ([1], "the document: [1]: must be a mapping"),
    ],
)
def test_mistakes_around_a_shape(document: Any, message: str) -> None:
    found = mistakes_of({**HEAD, **document} if isinstance(document, dict) else document)
    assert any(is_like(problem, f"...{message}...") for problem in found), found


def test_a_shape_without_mistakes_is_read() -> None:
    assert shape_of(declared(FINE)).crd == "trainings.example.com"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"disabled": ["raycluste"]},
            'workloads.disabled[0]: "raycluste": ...; did you mean raycluster?',
        ),
        ({"shapes": [declared(FINE), declared(FINE, "other")]}, "is declared twice, by training and other"),
        ({"shapes": [declared(_part(pods=-1))]}, "workloads.shapes[0].spec.parts[0].pods.number: -1"),
        ({"shapes": [declared(FINE)] * 65}, "workloads.shapes: "),
        ({"kinds": []}, "workloads.kinds: []: is an unknown key"),
    ],
)
def test_mistakes_in_the_section(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        settings_from(configuration_of("koord-scheduler", workloads=section), "rollcall.yaml")
    assert any(is_like(str(problem), f"...{message}...") for problem in error.value.problems), list(
        map(str, error.value.problems)
    )


def test_a_shape_beside_the_configuration_counts_like_one_in_it() -> None:
    inside = settings_from(configuration_of("koord-scheduler", workloads={"shapes": [declared(FINE)]}), "a")
    beside = settings_from(configuration_of("koord-scheduler"), "a", [declared(FINE)])
    assert inside.kinds.declared == beside.kinds.declared
    assert ("example.com", "Training") in beside.kinds


def test_a_shape_of_a_built_in_kind_replaces_it_and_a_disabled_one_is_unknown() -> None:
    own = declared(
        {"for": {"group": "ray.io", "kind": "RayCluster", "plural": "rayclusters", "versions": ["v1"]}, "parts": [PART]}
    )
    replaced = settings_from(configuration_of("koord-scheduler"), "a", [own]).kinds
    assert [one.name for one in replaced.declared if one.resource.api.kind == "RayCluster"] == ["training"]
    section = {"disabled": ["raycluster"]}
    disabled = settings_from(configuration_of("koord-scheduler", workloads=section), "a").kinds
    assert ("ray.io", "RayCluster") not in disabled
    assert ("ray.io", "RayJob") in disabled
