"""The disruption mode of gangs on kube-scheduler: who chooses it, its form in each version, and what a living
gang keeps.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.backends.kube_gangs import (
    RECORD,
    TREE,
    TWO,
    V1ALPHA1,
    V1ALPHA2,
    V1BETA1,
    backend,
    made,
    member,
    podgang,
)
from tests.unit.worlds import rules, settings_of, validate
from webhook.admission.pod_admission import record_with_train_job
from webhook.backends.kube.groups import example_cluster
from webhook.model.capabilities import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api, Record
from webhook.model.reading import Manifest
from webhook.model.workload_record import record_of
from webhook.validators.examples import clique, job, pod_clique_set
from webhook.workloads.job import Job
from webhook.workloads.known_workloads import WorkloadFacts
from webhook.workloads.opted_in_gang import gangs_of
from webhook.workloads.pod_clique_set import PodCliqueSet

PART_OF = {"app.kubernetes.io/part-of": "demo"}
FLAT = {"flat": "allow"}


def modes(objects: list[Manifest]) -> list[Any]:
    """The mode of each object; for a Workload those of its templates."""
    return [_modes_below(one["spec"]) if one["kind"] == "Workload" else _mode(one["spec"]) for one in objects]


def _mode(holder: Manifest) -> Any:
    return holder.get("disruptionMode", "none")


def _modes_below(holder: Manifest) -> list[Any]:
    found = []
    for field in ("podGroups", "podGroupTemplates", "compositePodGroupTemplates"):
        for entry in holder.get(field, []):
            found += [_mode(entry), *_modes_below(entry)]
    return found


SINGLE: Manifest = {"single": {}}
ALL: Manifest = {"all": {}}
FORMS: dict[str, tuple[frozenset[Api], str, list[Any]]] = {
    "1.35, all": (V1ALPHA1, "all", [["none"]]),
    "1.36, all": (V1ALPHA2, "all", [["PodGroup"], "PodGroup"]),
    "1.36, single": (V1ALPHA2, "single", [["Pod"], "Pod"]),
    "1.37 without trees, all": (V1BETA1, "all", [[ALL], ALL]),
    "1.37 without trees, single": (V1BETA1, "single", [[SINGLE], SINGLE]),
    "1.37 with trees, all": (TREE, "all", [[ALL, ALL, ALL], ALL, ALL, ALL]),
    "1.37 with trees, single": (TREE, "single", [[SINGLE, SINGLE, SINGLE], SINGLE, SINGLE, SINGLE]),
}


@pytest.mark.parametrize(("apis", "mode", "expected"), FORMS.values(), ids=FORMS)
def test_each_version_gets_its_own_form_in_every_group_and_template(
    apis: frozenset[Api], mode: str, expected: list[Any]
) -> None:
    assert modes(made(podgang(*TWO), apis, disruptionMode=mode)) == expected


CHOICES: dict[str, tuple[str, str | None, Any]] = {
    "the profile's": ("single", None, SINGLE),
    "the workload's before the profile's": ("single", "all", ALL),
    "the workload leaves it to the gang again": ("single", "auto", ALL),
    "an unknown one counts as none": ("single", "gang", SINGLE),
}


@pytest.mark.parametrize(("profile", "workload", "expected"), CHOICES.values(), ids=CHOICES)
def test_the_workload_chooses_before_the_profile(profile: str, workload: str | None, expected: Any) -> None:
    record = replace(RECORD, disruption=workload)
    assert modes(made(podgang(*TWO), V1BETA1, record, disruptionMode=profile)) == [[expected], expected]


def of_set(*cliques: Manifest, **fields: Any) -> Record:
    return record_of(PodCliqueSet(pod_clique_set(*cliques, **fields)), "default-scheduler")


def sized(name: str, replicas: int, minimum: int, **spec: Any) -> Manifest:
    found = clique(name, replicas=replicas)
    found["spec"] |= {"minAvailable": minimum, **spec}
    return found


GROUP = {"name": "prefill", "cliqueNames": ["worker"], "replicas": 2, "minAvailable": 1}
AUTOMATIC: dict[str, tuple[Record, list[Manifest], Any]] = {
    "every pod is needed": (of_set(sized("worker", 4, 4)), [member("demo-0-worker", 4)], ALL),
    "a clique has spare pods": (of_set(sized("worker", 4, 2)), [member("demo-0-worker", 2)], SINGLE),
    "a clique is autoscaled": (
        of_set(sized("worker", 2, 2, autoScalingConfig={"maxReplicas": 4})),
        [member("demo-0-worker", 2)],
        SINGLE,
    ),
    "the clique with spare pods is in another gang": (
        of_set(sized("router", 4, 2), sized("worker", 2, 2), groups=[GROUP]),
        [member("demo-0-prefill-1-worker", 2)],
        ALL,
    ),
    "a clique of a scaling group has spare pods": (
        of_set(sized("router", 2, 2), sized("worker", 4, 2), groups=[GROUP]),
        [member("demo-0-prefill-11-worker", 2)],
        SINGLE,
    ),
    "a clique whose name ends in the same way has spare pods": (
        of_set(sized("worker", 4, 2), sized("gpu-worker", 2, 2)),
        [member("demo-0-gpu-worker", 2)],
        ALL,
    ),
    "there are too many cliques with spare pods to keep": (
        of_set(*(sized(f"c{index}", 2, 1) for index in range(65)), sized("worker", 2, 2)),
        [member("demo-0-worker", 2)],
        SINGLE,
    ),
    "the pods that the PodGang names say it, without a record": (RECORD, [member("demo-0-worker", 2, 4)], SINGLE),
}


@pytest.mark.parametrize(("record", "members", "expected"), AUTOMATIC.values(), ids=AUTOMATIC)
def test_a_gang_is_preempted_whole_if_its_minimum_is_its_size(
    record: Record, members: list[Manifest], expected: Any
) -> None:
    assert modes(made(podgang(*members, labels=PART_OF), V1BETA1, record, **FLAT)) == [[expected], expected]


def test_the_gang_of_a_job_needs_every_pod_and_follows_the_label_of_its_job() -> None:
    plain, chosen = Job(job()), Job(job(labels={"rollcall.dev/disruption-mode": "single"}))
    (gang,) = gangs_of(plain)
    assert modes(made(gang, V1BETA1, plain.record)) == [[ALL], ALL]
    assert modes(made(gang, V1BETA1, chosen.record)) == [[SINGLE], SINGLE]


def test_the_gang_of_a_train_job_follows_the_label_of_its_train_job() -> None:
    train_jobs = {("default", "train"): WorkloadFacts(Record("default-scheduler", disruption="single"))}
    facts = ClusterFacts(train_jobs=train_jobs)
    made_of_it = WorkloadFacts(Record("default-scheduler"), train_job=("default", "train"))
    own = made_of_it._replace(record=Record("default-scheduler", disruption="all"))
    assert record_with_train_job(made_of_it, facts).disruption == "single"
    assert record_with_train_job(own, facts).disruption == "all"


def living(objects: list[Manifest], mode: Any) -> list[Manifest]:
    """The objects as the API server has them: templates with no mode, and groups with this one. While the gate is off,
    1.36 drops the mode, and gives one to groups only.
    """
    found = deepcopy(objects)
    for one in found:
        if one["kind"] == "Workload":
            _forget(one["spec"])
        elif mode is None:
            del one["spec"]["disruptionMode"]
        else:
            one["spec"]["disruptionMode"] = mode
    return found


def _forget(holder: Manifest) -> None:
    for field in ("podGroupTemplates", "compositePodGroupTemplates"):
        for entry in holder.get(field, []):
            entry.pop("disruptionMode", None)
            _forget(entry)


LIVING: dict[str, tuple[frozenset[Api], Any]] = {
    # Also while its gate is off.
    "1.36": (V1ALPHA2, "Pod"),
    "1.36, a group without a mode": (V1ALPHA2, None),
    "1.37": (V1BETA1, SINGLE),
    "1.37, a tree": (TREE, SINGLE),
}


@pytest.mark.parametrize(("apis", "mode"), LIVING.values(), ids=LIVING)
def test_a_living_gang_keeps_the_mode_that_it_has(apis: frozenset[Api], mode: Any) -> None:
    used, desired = backend(disruptionMode="all"), made(podgang(*TWO), apis, disruptionMode="all")
    live = living(desired, mode)
    wanted = [used.adopt(one, other) for one, other in zip(used.settle(desired, live), live, strict=True)]
    assert wanted == live
    assert used.frozen(wanted, live) is None


@pytest.mark.parametrize("missing", range(4))
def test_an_object_that_is_recreated_gets_the_mode_of_its_gang(missing: int) -> None:
    """`all` above `single` is not allowed."""
    used, desired = backend(), made(podgang(*TWO), TREE, disruptionMode="all")
    live = made(podgang(*TWO), TREE, disruptionMode="single")
    rest = [one for index, one in enumerate(live) if index != missing]
    assert used.settle(desired, rest) == live


def test_a_gang_of_which_only_the_workload_exists_gets_the_workload_s_mode() -> None:
    used, live = backend(), made(podgang(*TWO), TREE, disruptionMode="all")
    assert used.settle(made(podgang(*TWO), TREE, disruptionMode="single"), live[:1]) == live


def test_a_gang_without_objects_gets_the_chosen_mode() -> None:
    desired = made(podgang(*TWO), TREE, disruptionMode="all")
    assert backend().settle(desired, []) == desired


@pytest.mark.parametrize(
    ("apis", "config", "expected"),
    [
        (V1ALPHA1, {}, None),
        (V1ALPHA2, {}, Disruption.ALL),
        (V1ALPHA2, {"disruptionMode": "single"}, Disruption.SINGLE),
        (TREE, {}, Disruption.ALL),
        (TREE, {"disruptionMode": "single"}, Disruption.SINGLE),
    ],
)
def test_the_mode_of_a_gang_is_read_from_its_objects(
    apis: frozenset[Api], config: dict[str, Any], expected: Disruption | None
) -> None:
    assert backend().disruption_mode(made(podgang(*TWO), apis, **config)) == expected


@pytest.mark.parametrize("mode", ["all", "single"])
def test_no_rule_refuses_the_objects_that_are_written(mode: str) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True})
    facts = example_cluster()
    for one in made(podgang(*TWO), TREE, disruptionMode=mode):
        found = rules(validate({**one, "metadata": {**one["metadata"], "labels": {}}}, settings=settings, facts=facts))
        assert [rule for rule in found if rule.startswith("kube/disruption")] == []


OF_1_36 = {"apiGeneration": "v1alpha2"}


@pytest.mark.parametrize(
    ("labels", "config", "expected"),
    [
        ({}, {}, []),
        ({"rollcall.dev/disruption-mode": "auto"}, {}, []),
        ({"rollcall.dev/disruption-mode": "Pod"}, {}, ["kube/disruption-mode"]),
        ({"rollcall.dev/disruption-mode": ""}, {}, ["kube/disruption-mode"]),
        ({"rollcall.dev/disruption-mode": "all"}, {"gangScheduling": False}, ["kube/disruption-ignored"]),
        ({"rollcall.dev/disruption-mode": "single"}, {"gangScheduling": False}, []),
        (
            {"rollcall.dev/disruption-mode": "all"},
            {**OF_1_36, "schedulerGates": ["GenericWorkload"]},
            ["kube/disruption-ignored"],
        ),
        ({"rollcall.dev/disruption-mode": "all"}, {}, []),
        (
            {"rollcall.dev/disruption-mode": "all"},
            {**OF_1_36, "schedulerGates": ["WorkloadAwarePreemption"]},
            ["kube/disruption-ignored"],
        ),
    ],
)
def test_the_label_of_a_set_is_judged(labels: Manifest, config: dict[str, Any], expected: list[str]) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True, **config})
    verdict = validate(pod_clique_set(labels=labels), settings=settings, facts=ClusterFacts(apis=V1ALPHA2 | V1BETA1))
    assert [rule for rule in rules(verdict) if rule.startswith("kube/disruption")] == expected
