"""Labels that controllers add to pods, in what keeps the pods of a gang apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.fit.trap_world import FIXED, HOST, backend_of, facts_of, node
from tests.unit.worlds import settings_of
from webhook.admission.workload_fit import fits_of
from webhook.fit.pod_needs import PodLabels, matches
from webhook.fit.verdict import FitAnswer
from webhook.validators.examples import clique, job, job_set, pod_clique_set, pod_template, replicated
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.pod_clique_set import PodCliqueSet

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NEVER, FITS, UNKNOWN = FitAnswer.NEVER, FitAnswer.FITS, FitAnswer.UNKNOWN


def apart(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [{"topologyKey": HOST, **term}]}}}


def by(key: str, operator: str, *values: str) -> dict[str, Any]:
    return apart(labelSelector={"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]})


def answer(workload: Any, scheduler: str = "coscheduling", nodes: int = 1) -> FitAnswer:
    found = replace(settings_of(backend_of(scheduler).name, {}), fit=FIXED)
    profile = found.profiles[found.default]
    facts = facts_of(*(node(f"n{index}") for index in range(nodes)), resource_quotas={}, limit_ranges={})
    (one, *_) = fits_of(workload, profile, facts, found)
    return one.verdict.answer


# The pod fields of a clique with seven pods, and what is said of it on one node and on seven.
GROVE: dict[str, tuple[dict[str, Any], FitAnswer, FitAnswer]] = {
    "the clique's own name": (by("grove.io/podclique", "In", "demo-0-worker"), NEVER, FITS),
    "another clique's name": (by("grove.io/podclique", "In", "demo-0-other"), FITS, FITS),
    "any clique": (by("grove.io/podclique", "Exists"), NEVER, FITS),
    "the name of the set": (by("app.kubernetes.io/part-of", "In", "demo"), NEVER, FITS),
    "another set": (by("app.kubernetes.io/part-of", "In", "else"), FITS, FITS),
    "the index of the replica": (by("grove.io/podcliqueset-replica-index", "In", "0"), NEVER, FITS),
    "a label whose value Grove chooses": (by("grove.io/podgang", "In", "demo-0"), UNKNOWN, UNKNOWN),
    "a label of each pod alone": (by("grove.io/podclique-pod-index", "In", "0"), UNKNOWN, UNKNOWN),
    "the same value of a label that Grove chooses": (
        apart(labelSelector={}, matchLabelKeys=["grove.io/pod-template-hash"]),
        UNKNOWN,
        UNKNOWN,
    ),
    "a label that Rollcall adds": (by("pod-group.scheduling.sigs.k8s.io", "Exists"), UNKNOWN, UNKNOWN),
    "a label that nobody adds": (by("example.com/team", "In", "a"), FITS, FITS),
}


@pytest.mark.parametrize(("pod", "on_one", "on_seven"), GROVE.values(), ids=GROVE)
def test_the_labels_that_grove_adds_count(pod: dict[str, Any], on_one: FitAnswer, on_seven: FitAnswer) -> None:
    workload = PodCliqueSet(pod_clique_set(clique("worker", replicas=7, pod=pod)))
    assert (answer(workload), answer(workload, nodes=7)) == (on_one, on_seven)


CONTROLLERS: dict[str, tuple[Any, FitAnswer]] = {
    "a Job's name": (
        Job(job(template=pod_template(by("batch.kubernetes.io/job-name", "In", "demo")), parallelism=7, completions=7)),
        NEVER,
    ),
    "another Job's name": (Job(job(template=pod_template(by("batch.kubernetes.io/job-name", "In", "x")))), FITS),
    "a JobSet's name": (
        JobSet(job_set(replicated("a", 7, template=pod_template(by("jobset.sigs.k8s.io/jobset-name", "Exists"))))),
        NEVER,
    ),
    "the index of a JobSet's Job": (
        JobSet(job_set(replicated("a", 7, template=pod_template(by("jobset.sigs.k8s.io/job-index", "Exists"))))),
        UNKNOWN,
    ),
    "the label that Rollcall writes for Koordinator": (
        Job(job(template=pod_template(by("pod-group.scheduling.sigs.k8s.io", "Exists")))),
        UNKNOWN,
    ),
}


@pytest.mark.parametrize(("workload", "expected"), CONTROLLERS.values(), ids=CONTROLLERS)
def test_the_labels_of_other_controllers_count(workload: Any, expected: FitAnswer) -> None:
    assert answer(workload) is expected


def test_what_is_known_of_labels_decides_or_nothing_is_said() -> None:
    stored = PodLabels({"app": "a", "grove.io/podgang": "demo-0"}, stored=True)
    template = PodLabels({"app": "a"})
    selector = {"matchLabels": {"grove.io/podgang": "demo-0"}}
    assert (matches(selector, stored), matches(selector, template)) == (True, None)
    lacks = {"matchExpressions": [{"key": "grove.io/podgang", "operator": "DoesNotExist"}]}
    assert (matches(lacks, stored), matches(lacks, template), matches(lacks, PodLabels({}, stored=True))) == (
        False,
        None,
        True,
    )
    assert matches({"matchLabels": {"app": "b", "grove.io/podgang": "x"}}, template) is False
    assert matches({"matchExpressions": [{"key": "app", "operator": "Exists"}] * 65}, template) is None


def test_unknown_namespaces_of_a_term_are_not_known() -> None:
    pod = apart(labelSelector={}, namespaceSelector={"matchLabels": {"team": "a"}})
    workload = PodCliqueSet(pod_clique_set(clique("worker", replicas=2, pod=pod)))
    assert answer(workload) is UNKNOWN


def test_a_workload_that_gets_its_name_at_creation_has_labels_of_an_unknown_value() -> None:
    manifest = job(template=pod_template(by("batch.kubernetes.io/job-name", "In", "demo-")))
    manifest["metadata"] = {**manifest["metadata"], "generateName": "demo-"}
    del manifest["metadata"]["name"]
    assert answer(Job(manifest)) is UNKNOWN
    of_set = pod_clique_set(clique("worker", replicas=2, pod=by("app.kubernetes.io/part-of", "In", "demo-")))
    of_set["metadata"] = {**of_set["metadata"], "generateName": "demo-"}
    del of_set["metadata"]["name"]
    assert answer(PodCliqueSet(of_set)) is UNKNOWN
