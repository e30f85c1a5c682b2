"""A workload that says that it is no gang: `rollcall.dev/scheduler: none` in a namespace that chooses a scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.texts import require_like
from tests.unit.worlds import koordinator, request, rules, validate
from webhook import admission
from webhook.config.file import settings_from
from webhook.config.settings import NamespaceDefaults, Settings
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.testing.start import may_start
from webhook.validators.examples import job, job_set, leader_worker_set, pod_clique_set, pod_template, train_job
from webhook.workloads.known_workloads import WorkloadFacts

LABELLED = ClusterFacts(namespaces={"default": Namespace({"rollcall.dev/scheduler": "koord-scheduler"})})
LABEL = "metadata.labels[rollcall.dev/scheduler]"
TEMPLATE = "spec.template"


def permitting(*, standalone: bool = False) -> Settings:
    return replace(koordinator(standalone=standalone), opt_out=True)


WORKLOADS = {
    "Job": job(scheduler="none"),
    "JobSet": job_set(scheduler="none"),
    "LeaderWorkerSet": leader_worker_set(scheduler="none"),
    "TrainJob": train_job(scheduler="none"),
}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_a_workload_that_opts_out_is_admitted_and_left_as_it_is(workload: Manifest) -> None:
    asked = request(workload)
    assert admission.mutate(asked, LABELLED, permitting()).patch == ()
    verdict = admission.validate(asked, LABELLED, permitting())
    assert (verdict.allowed, verdict.scheduler, verdict.findings) == (True, "none", ())


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_without_permission_it_is_refused(workload: Manifest) -> None:
    verdict = validate(workload, settings=koordinator(standalone=False), facts=LABELLED)
    assert [(found.rule, str(found.at)) for found in verdict.findings] == [("owner/scheduler-unknown", LABEL)]
    assert "does not permit" in verdict.findings[0].why


def test_a_namespace_may_permit_or_forbid_it_for_itself() -> None:
    here = {"default": NamespaceDefaults(opt_out=True)}
    assert validate(job(scheduler="none"), settings=replace(koordinator(), namespaces=here)).allowed
    forbidden = replace(permitting(), namespaces={"default": NamespaceDefaults(opt_out=False)})
    assert not validate(job(scheduler="none"), settings=forbidden).allowed


def test_the_configuration_says_where_it_is_permitted() -> None:
    document = configuration_of({"name": "koord-scheduler"})
    document["scheduler"]["optOut"] = True
    document["namespaces"] = {"team-a": {"optOut": False}, "team-b": {"scheduler": "koord-scheduler"}}
    settings = settings_from(document, "test")
    assert [settings.permits_opt_out(name) for name in ("team-a", "team-b", "team-c")] == [False, True, True]


GANGS: dict[str, tuple[Manifest, str]] = {
    "a gang scheduler": (pod_template({"schedulerName": "koord-scheduler"}), f"{TEMPLATE}.spec.schedulerName"),
    "the label of a gang scheduler": (
        pod_template(labels={"rollcall.dev/scheduler": "koord-scheduler"}),
        f"{TEMPLATE}.metadata.labels[rollcall.dev/scheduler]",
    ),
    "a group of Volcano": (
        pod_template(annotations={"scheduling.k8s.io/group-name": "mine"}),
        f"{TEMPLATE}.metadata.annotations[scheduling.k8s.io/group-name]",
    ),
    "a group of the Workload API": (
        pod_template({"schedulingGroup": {"podGroupName": "mine"}}),
        f"{TEMPLATE}.spec.schedulingGroup",
    ),
}


@pytest.mark.parametrize(("template", "place"), GANGS.values(), ids=GANGS)
def test_a_workload_whose_pods_are_in_a_gang_cannot_opt_out(template: Manifest, place: str) -> None:
    verdict = validate(job(scheduler="none", template=template), settings=permitting(), facts=LABELLED)
    assert [(found.rule, str(found.at)) for found in verdict.findings] == [("owner/opted-out", place)]
    assert not verdict.allowed


@pytest.mark.parametrize("scheduler", ["default-scheduler", "my-own-scheduler"])
def test_its_pods_may_name_a_scheduler_without_gangs(scheduler: str) -> None:
    template = pod_template({"schedulerName": scheduler})
    assert validate(job(scheduler="none", template=template), settings=permitting(), facts=LABELLED).allowed


def test_a_pod_clique_set_is_always_a_gang() -> None:
    found = validate(pod_clique_set(labels={"rollcall.dev/scheduler": "none"}), settings=permitting())
    assert rules(found) == ["rollcall/scheduler-unknown"]


def test_a_namespace_cannot_opt_out_for_its_workloads() -> None:
    nobody = ClusterFacts(namespaces={"default": Namespace({"rollcall.dev/scheduler": "none"})})
    assert validate(job(scheduler=None), settings=koordinator(standalone=False), facts=nobody).allowed is False


@pytest.mark.parametrize(("before", "now"), [("none", "koord-scheduler"), ("koord-scheduler", "none"), (None, "none")])
def test_the_choice_cannot_change(before: str | None, now: str) -> None:
    verdict = validate(job(scheduler=now), job(scheduler=before), settings=permitting(), facts=LABELLED)
    assert "owner/scheduler-change" in rules(verdict)


def test_a_job_set_of_a_train_job_that_opted_out_is_left_as_it_is() -> None:
    known = replace(LABELLED, train_jobs={("default", "demo"): WorkloadFacts(Record("none"), uid="u")})
    made = job_set(scheduler=None)
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "demo", "uid": "u"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    asked = request(made)
    assert admission.mutate(asked, known, permitting()).patch == ()
    assert admission.validate(asked, known, permitting()).allowed


def pod(**labels: Any) -> Manifest:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "u", "controller": True}
    metadata = {"name": "demo-x", "namespace": "default", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "a"}]}}


@pytest.mark.parametrize("labels", [{}, {"rollcall.dev/scheduler": "none"}], ids=["without", "with the label"])
def test_its_pods_are_not_prepared_and_may_start(labels: dict[str, str]) -> None:
    facts = replace(LABELLED, jobs={("default", "demo"): WorkloadFacts(Record("none"), uid="u")})
    asked = request(pod(**labels))
    verdict = admission.mutate(asked, facts, permitting())
    assert (verdict.patch, verdict.notes) == ((), ())
    assert admission.validate(asked, facts, permitting()).allowed
    assert may_start(asked, facts, permitting())


def test_in_files_a_note_says_so() -> None:
    verdict = validate(job(scheduler="none"), settings=permitting(standalone=True))
    require_like(verdict.notes, ["no gang: ... rollcall.dev/scheduler is none, ..."])
