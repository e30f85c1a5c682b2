"""Objects cut down to the fields that rules read: they tell rules the same as the whole objects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from webhook.backends.registry import installed_backends
from webhook.errors import InputError
from webhook.model.bounds import Packed
from webhook.model.projections import Projection, kept, template_fields
from webhook.model.reading import Malformed, Manifest
from webhook.offline.judgement import kind_of
from webhook.offline.manifests import files_in, read_file
from webhook.offline.omissions import projections_by_part
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.workloads.known_workloads import workload_facts
from webhook.workloads.trainjob import Runtime, TrainJob

PROJECTIONS = [one for every in projections_by_part().values() for one in every]


def objects() -> Iterator[Manifest]:
    """Every object of the rules' examples, and of the published samples where they are available."""
    backends = installed_backends().values()
    for declared in (*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES, *(one for found in backends for one in found.rules)):
        for example in (declared.passes, declared.fails):
            yield from (found for found in (example.object, example.old) if found is not None)
    samples = os.environ.get("ROLLCALL_SAMPLES")
    for path in [] if samples is None else files_in(Path(samples)):
        try:
            yield from (document.manifest for document in read_file(path))
        except InputError:
            continue


def told(projection: Projection, raw: Manifest) -> Any:
    try:
        read = projection.read(raw)
    except Malformed:
        return "malformed"
    if read is None or not isinstance(read[1], Packed):
        return read
    # A runtime is kept as it is, and read as the JobSet that Trainer makes from it.
    return read[0], workload_facts(TrainJob({}).job_set(Runtime(read[1].manifest())))


def test_every_kind_says_which_fields_it_reads() -> None:
    assert [one.part for one in PROJECTIONS if not one.fields] == []


def test_the_kept_fields_tell_the_same_as_the_whole_object() -> None:
    by_kind = {(one.resource.api.group, one.resource.api.kind): one for one in PROJECTIONS}
    judged: set[str] = set()
    for raw in objects():
        projection = by_kind.get(kind_of(raw)[::2])
        if projection is None or (whole := told(projection, deepcopy(raw))) == "malformed":
            continue
        assert told(projection, kept(deepcopy(raw), projection.fields)) == whole, raw
        judged.add(projection.part)
    assert {"pod_clique_sets", "jobs", "job_sets", "leader_worker_sets", "train_jobs", "kai_queues"} <= judged
    assert {"koordinator_pod_groups", "pod_groups", "composite_pod_groups", "workloads", "group_pods"} <= judged


def test_of_a_pod_template_nothing_is_kept_that_may_hold_a_secret() -> None:
    container = {"name": "a", "image": "i", "env": [{"name": "x", "value": "s"}], "args": ["s"], "resources": {}}
    spec = {"containers": [container], "volumes": [{"name": "v"}], "schedulerName": "volcano", "hostAliases": []}
    assert kept({"template": {"spec": spec}}, template_fields("template")) == {
        "template": {"spec": {"containers": [{"name": "a", "resources": {}}], "schedulerName": "volcano"}}
    }


@pytest.mark.parametrize(
    ("annotation", "is_kept"),
    [
        ("grove.io/auto-mnnvl", True),
        ("scheduling.grove.io/volcano-queue", True),
        ("alpha.jobset.sigs.k8s.io/exclusive-topology", True),
        ("gang.scheduling.koordinator.sh/groups", True),
        ("example.com/our-queue", True),
        ("pod-group-name", True),
        ("kubectl.kubernetes.io/last-applied-configuration", False),
        ("vault.example.com/token", False),
        ("notgrove.io/token", False),
        ("token", False),
    ],
)
def test_only_annotations_of_schedulers_and_controllers_are_kept(annotation: str, is_kept: bool) -> None:
    raw = {"metadata": {"name": "a", "annotations": {annotation: "x"}}}
    found = kept(raw, ("metadata.annotations",))
    assert found == {"metadata": {"name": "a", "annotations": {annotation: "x"} if is_kept else {}}}


def test_a_value_of_another_type_than_the_schema_has_is_not_kept() -> None:
    assert kept({"spec": "a secret", "metadata": {"name": "a"}}, ("spec.queue",)) == {
        "spec": None,
        "metadata": {"name": "a"},
    }
