"""A kind that is declared in several forms, for versions with other paths: each object is read as it is written."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.configurations import configuration_of
from tests.unit.admission.opted_in.worlds import EVERY, schedulers, stored, validate
from tests.unit.workloads.workloads import (
    RECORD,
    declared,
    dynamo_deployment,
    dynamo_service,
    known_shaped,
    pod_of,
    view,
    workload,
)
from tests.unit.worlds import request
from webhook import admission
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.errors import ConfigurationError, TooManyParts
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import KaiQueue, VolcanoQueue
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest
from webhook.offline.configuration_file import load_shapes
from webhook.offline.judgement import kind_of
from webhook.workloads.opted_in_gang import gangs_of, no_gang

KIND = {"group": "example.com", "kind": "Training", "plural": "trainings"}
WORKER: dict[str, Any] = {"labels": {"example.com/role": "worker"}}
NEW: dict[str, Any] = {
    "for": {**KIND, "versions": ["v1"]},
    "podLabel": "example.com/training",
    "parts": [
        {"name": "driver", "template": "$.spec.driver", "pods": 1, "pod": {"labels": {"example.com/role": "driver"}}},
        {"name": "worker", "template": "$.spec.worker", "pods": "$.spec.workers", "pod": WORKER},
    ],
}
OLD: dict[str, Any] = {
    "for": {**KIND, "versions": ["v1beta1", "v1alpha1"]},
    "podLabel": "example.com/training",
    "parts": [{"name": "worker", "template": "$.spec.template", "pods": "$.spec.replicas", "pod": WORKER}],
}
TEMPLATE: Manifest = {"spec": {"containers": [{"name": "main", "image": "example.com/node"}]}}


def both(*shapes: dict[str, Any]) -> Settings:
    """Settings with Training in two forms."""
    section = {"shapes": [declared(shape, f"training-{index}") for index, shape in enumerate(shapes or (NEW, OLD))]}
    return settings_from(configuration_of("koord-scheduler", workloads=section), "test")


def training(version: str, **spec: Any) -> Manifest:
    """A Training, as the newer versions or the older ones write it."""
    newer = {"driver": TEMPLATE, "worker": TEMPLATE, "workers": 3}
    older = {"template": TEMPLATE, "replicas": 5}
    body = deepcopy(older if "beta" in version or "alpha" in version else newer) | spec
    return workload(f"example.com/{version}", "Training", body, "koord-scheduler")


@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("v1", {"driver": 1, "worker": 3}),
        ("v1beta1", {"worker": 5}),
        ("v1alpha1", {"worker": 5}),
        # As for a kind with one shape: a version that no form declares is read as the first.
        ("v2", {"driver": 1, "worker": 3}),
    ],
)
def test_a_workload_is_read_by_the_form_of_its_version(version: str, parts: dict[str, int]) -> None:
    settings = both()
    found = view(training(version), settings)
    assert {part.name: part.pods for part in found.parts} == parts
    (gang,) = gangs_of(found)
    assert {name: part.pods for name, (part,) in zip(parts, gang.parts.values(), strict=True)} == parts
    entry = known_shaped(training(version), settings=settings).shaped_workloads
    assert entry is not None
    names = entry["trainings.example.com", "default", "demo"].names
    assert set(names or ()) == {"demo", *(f"demo-{name}" for name in parts)}
    written = stored(training(version), settings=settings)["spec"]
    assert {key for key, value in written.items() if isinstance(value, dict) and RECORD in str(value)} == (
        {"driver", "worker"} if "driver" in parts else {"template"}
    )


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_a_pod_has_the_place_that_the_first_form_says(version: str) -> None:
    labels = {"example.com/role": "worker", "example.com/training": "demo"}
    place = both().kinds.place_of(Pod(pod_of(training(version), labels)))
    assert place is not None
    assert (place.workload.key, place.part) == (("trainings.example.com", "default", "demo"), "worker")


def test_a_wrong_type_is_reported_at_the_field_of_the_version() -> None:
    for version, field in (("v1", "workers"), ("v1beta1", "replicas")):
        (found,) = validate(training(version, **{field: "many"}), settings=both()).findings
        assert (found.rule, str(found.at)) == ("owner/shape", f"spec.{field}")
    unversioned = {**dynamo_service(), "apiVersion": 1, "spec": {"components": 1}}
    asked = request(unversioned, kind=kind_of(dynamo_service()))
    (found,) = admission.validate(asked, ClusterFacts(), EVERY).findings
    assert str(found.at) == "spec.components", "without a version the first form counts"


def test_the_entries_of_each_version_are_counted() -> None:
    many: Manifest = {f"service-{index}": {} for index in range(10_001)}
    manifest = workload("nvidia.com/v1alpha1", "DynamoGraphDeployment", {"services": many}, "volcano")
    with pytest.raises(TooManyParts, match=r"spec\.services\[\*\]"):
        admission.mutate(request(manifest), ClusterFacts(), EVERY)


# DynamoGraphDeployment

DECODE: dict[str, Any] = {"replicas": 2, "multinode": {"nodeCount": 4}}


@pytest.mark.parametrize(
    ("manifest", "name", "template"),
    [
        (dynamo_deployment(**DECODE), "decode", "spec.components[0].podTemplate.metadata.labels"),
        (dynamo_service(**DECODE), "Decode", "spec.services.Decode.labels"),
    ],
)
def test_a_graph_is_never_a_gang_in_either_version(manifest: Manifest, name: str, template: str) -> None:
    found = view(manifest)
    assert [(part.name, part.pods, str(part.template.labels_path)) for part in found.parts] == [(name, 8, template)]
    assert no_gang(found) is not None
    assert stored(manifest) == manifest, "nothing is written into what Dynamo's operator reads"
    assert validate(manifest).findings == ()


@pytest.mark.parametrize(
    ("manifest", "at"),
    [
        (
            dynamo_deployment(podTemplate={"spec": {"schedulerName": "volcano"}}),
            "spec.components[0].podTemplate.spec.schedulerName",
        ),
        (
            dynamo_service(extraPodSpec={"schedulerName": "volcano"}),
            "spec.services.Decode.extraPodSpec.schedulerName",
        ),
    ],
)
def test_a_component_with_another_scheduler_is_refused_at_its_field(manifest: Manifest, at: str) -> None:
    (found,) = validate(manifest).denials
    assert (found.rule, str(found.at)) == ("owner/scheduler-name", at)


QUEUES = ClusterFacts(
    kai_queues={"research": KaiQueue(None), "dynamo": KaiQueue("research")},
    volcano_queues={"default": VolcanoQueue(None, "Open"), "team": VolcanoQueue(None, "Open")},
)
KAI, VOLCANO = "metadata.annotations[nvidia.com/kai-scheduler-queue]", "metadata.annotations[nvidia.com/volcano-queue]"


@pytest.mark.parametrize("written", [dynamo_deployment, dynamo_service])
@pytest.mark.parametrize(
    ("scheduler", "annotations", "at"),
    [
        ("kai-scheduler", {}, []),
        ("kai-scheduler", {"nvidia.com/kai-scheduler-queue": "dynamo"}, []),
        ("kai-scheduler", {"nvidia.com/kai-scheduler-queue": "nowhere"}, [KAI]),
        ("kai-scheduler", {"nvidia.com/kai-scheduler-queue": "research"}, [KAI]),
        ("volcano", {}, []),
        ("volcano", {"nvidia.com/volcano-queue": "team"}, []),
        ("volcano", {"nvidia.com/volcano-queue": "nowhere"}, [VOLCANO]),
        # The PodCliqueSet is made by Grove's provider alone.
        ("volcano", {"nvidia.com/volcano-queue": "nowhere", "nvidia.com/enable-grove": "false"}, []),
    ],
)
def test_the_queue_that_dynamo_writes_on_the_podcliqueset_is_judged(
    written: Any, scheduler: str, annotations: dict[str, str], at: list[str]
) -> None:
    manifest = written(scheduler=scheduler)
    manifest["metadata"]["annotations"] = annotations
    verdict = validate(manifest, facts=QUEUES)
    assert [str(one.at) for one in verdict.denials if one.rule.endswith("owner-queue")] == at
    assert not verdict.unjudged


def test_dynamo_s_own_queue_must_exist_on_kai() -> None:
    facts = ClusterFacts(kai_queues={"research": KaiQueue(None)})
    (found,) = validate(dynamo_service(scheduler="kai-scheduler"), facts=facts).denials
    assert (str(found.at), found.value) == (KAI, "dynamo")


def test_a_minimum_above_the_replicas_is_a_warning_and_a_component_scaled_to_zero_is_none() -> None:
    (found,) = validate(dynamo_deployment(replicas=1, minAvailable=2)).findings
    assert (found.rule, found.action, str(found.at)) == (
        "owner/operator",
        Action.WARN,
        "spec.components[0].minAvailable",
    )
    assert "gang" not in found.why
    assert validate(dynamo_deployment(replicas=0, minAvailable=2)).findings == ()
    assert validate(dynamo_deployment(replicas=2, minAvailable=2)).findings == ()


@pytest.mark.skipif("ROLLCALL_SAMPLES" not in os.environ, reason="no samples")
@pytest.mark.parametrize(
    "scheduler", ["koord-scheduler", "volcano", "kai-scheduler", "default-scheduler", "scheduler-plugins-scheduler"]
)
def test_the_samples_of_dynamo_are_accepted_for_every_scheduler(scheduler: str) -> None:
    settings = schedulers({"name": scheduler}) if scheduler not in EVERY.profiles else EVERY
    versions = set()
    for file in sorted(Path(os.environ["ROLLCALL_SAMPLES"], "dynamo").glob("*.yaml")):
        manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
        manifest["metadata"]["labels"] = {RECORD: scheduler}
        verdict = validate(manifest, facts=QUEUES, settings=settings)
        assert (verdict.allowed, verdict.scheduler, verdict.findings) == (True, scheduler, ()), file.name
        versions.add(manifest["apiVersion"])
    assert versions == {"nvidia.com/v1alpha1", "nvidia.com/v1beta1"}


# What the forms of a kind must agree on

CONFLICTS: dict[str, tuple[dict[str, Any], str]] = {
    "one version twice": (
        {"for": {**KIND, "versions": ["v1beta1", "v1"]}},
        'spec.for.versions[1]: "v1": is declared twice, by training-0 and training-1',
    ),
    "another plural": (
        {"for": {**KIND, "plural": "training", "versions": ["v1beta1"]}},
        'spec.for.plural: "training": must be trainings as in training-0',
    ),
    "another opt-in": ({"optIn": "workload"}, 'spec.optIn: "workload": must be namespace as in training-0'),
    "another pod label": ({"podLabel": "example.com/name"}, "must be example.com/training as in training-0"),
    "no pod label": ({"podLabel": ""}, 'spec.podLabel: "": must be example.com/training as in training-0'),
    "another gang": ({"gang": {"over": "part"}}, 'spec.gang.over: "part": must be all as in training-0'),
    "no gang": ({"gang": {"over": "none"}}, 'spec.gang.over: "none": must be all as in training-0'),
    "a gang of another": (
        {"gang": {"leftTo": "Job"}},
        'spec.gang.leftTo: "Job": must be empty as in training-0',
    ),
    "pods with other labels": (
        {"parts": [{**OLD["parts"][0], "pod": {"labels": {"role": "worker"}}}]},
        "spec.parts[0].pod: is that of no part of training-0",
    ),
    "a part with another name": (
        {"parts": [{**OLD["parts"][0], "name": "node"}]},
        "spec.parts[0].pod: is that of no part of training-0",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_forms_that_contradict_each_other_are_refused_in_a_configuration_and_in_a_file(
    name: str, tmp_path: Path
) -> None:
    changed, message = CONFLICTS[name]
    other = {**OLD, **changed}
    with pytest.raises(ConfigurationError) as error:
        both(NEW, other)
    found = [str(one) for one in error.value.problems]
    assert any(f"workloads.shapes[1].{message}" in one or message in one for one in found), found
    assert all(one.startswith("workloads.shapes[1].") for one in found), found
    file = tmp_path / "shapes.yaml"
    file.write_text(yaml.safe_dump_all([declared(NEW, "training-0"), declared(other, "training-1")]))
    with pytest.raises(ConfigurationError) as error:
        load_shapes(file)
    assert [f"workloads.shapes[1].{one.path}: {one.why}" for one in error.value.problems] == [
        f"{path}: {why}" for path, why in ((one.path, one.why) for one in _problems_of(NEW, other))
    ]
    assert all(one.line for one in error.value.problems)


def _problems_of(*shapes: dict[str, Any]) -> Any:
    with pytest.raises(ConfigurationError) as error:
        both(*shapes)
    return error.value.problems


def test_one_shape_with_a_version_twice_is_refused() -> None:
    (problem,) = _problems_of({**NEW, "for": {**KIND, "versions": ["v1", "v1"]}})
    assert str(problem).startswith('workloads.shapes[0].spec.for.versions[1]: "v1": is declared twice')


def test_shapes_of_a_configuration_replace_all_forms_and_one_name_disables_the_kind() -> None:
    mine = declared(
        {
            "for": {
                "group": "nvidia.com",
                "kind": "DynamoGraphDeployment",
                "plural": "dynamographdeployments",
                "versions": ["v1beta1"],
            },
            "gang": {"over": "none"},
        },
        "mine",
    )
    replaced = settings_from(configuration_of("volcano"), "test", [mine]).kinds
    assert [one.name for one in replaced.declared if one.resource.api.group == "nvidia.com"] == ["mine"]
    for name in ("dynamographdeployment", "dynamographdeployment-v1alpha1"):
        left = settings_from(configuration_of("volcano", workloads={"disabled": [name]}), "test").kinds
        assert ("nvidia.com", "DynamoGraphDeployment") not in left
