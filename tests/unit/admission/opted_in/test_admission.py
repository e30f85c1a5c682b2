"""The record of an opted-in workload: created at CREATE, kept on UPDATE, and never without an opt-in."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import jsonpatch
import pytest

from tests.unit.admission.opted_in.worlds import EVERY, RECORD, known, mutate, schedulers, stored, validate
from tests.unit.worlds import rules
from webhook.admission.decision import doubtful_facts
from webhook.model.findings import Action
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, runtimes, train_job

LABELLED = {RECORD: "koord-scheduler"}


def _templates(manifest: Manifest) -> list[Manifest]:
    spec = manifest["spec"]
    if manifest["kind"] == "Job":
        return [spec["template"]]
    if manifest["kind"] == "JobSet":
        return [one["template"]["spec"]["template"] for one in spec["replicatedJobs"]]
    if manifest["kind"] == "LeaderWorkerSet":
        found = spec["leaderWorkerTemplate"]
        return [found[field] for field in ("leaderTemplate", "workerTemplate") if field in found]
    return []


WITHOUT = [
    job(scheduler=None),
    job_set(replicated("a"), replicated("b"), scheduler=None),
    leader_worker_set(scheduler=None),
    leader_worker_set(scheduler=None, leader=pod_template()),
    train_job(scheduler=None),
]
KINDS = ["Job", "JobSet", "LeaderWorkerSet", "LeaderWorkerSet with a leader's template", "TrainJob"]


@pytest.mark.parametrize("manifest", WITHOUT, ids=KINDS)
def test_a_workload_in_a_namespace_without_labels_is_left_unchanged(manifest: Manifest) -> None:
    found, verdict = mutate(manifest, facts=known())
    assert (found, verdict.patch) == (manifest, ())
    assert validate(manifest, facts=known()).allowed


@pytest.mark.parametrize("manifest", WITHOUT, ids=KINDS)
def test_a_labelled_namespace_opts_in_its_new_workloads(manifest: Manifest) -> None:
    found, verdict = mutate(manifest, facts=known(default="koord-scheduler"))
    assert verdict.scheduler == "koord-scheduler"
    assert found["metadata"]["labels"] == LABELLED
    assert [one["metadata"]["labels"] for one in _templates(found)] == [LABELLED] * len(_templates(manifest))
    assert jsonpatch.apply_patch(manifest, list(verdict.patch)) == found


@pytest.mark.parametrize("manifest", WITHOUT, ids=KINDS)
def test_a_workload_s_label_has_precedence_over_its_namespace_s(manifest: Manifest) -> None:
    own = deepcopy(manifest)
    own["metadata"]["labels"] = {RECORD: "volcano", "kept": "yes"}
    found, _ = mutate(own, facts=known(default="koord-scheduler"))
    assert found["metadata"]["labels"] == {RECORD: "volcano", "kept": "yes"}
    assert all(one["metadata"]["labels"] == {RECORD: "volcano"} for one in _templates(found))


def test_a_template_s_wrong_label_is_replaced_by_the_workload_s() -> None:
    found, _ = mutate(job(template=pod_template(labels={RECORD: "volcano", "kept": "yes"})))
    assert found["spec"]["template"]["metadata"]["labels"] == {**LABELLED, "kept": "yes"}


def test_a_second_pass_changes_nothing() -> None:
    for manifest in WITHOUT:
        facts = known(default="koord-scheduler")
        assert mutate(stored(manifest, facts=facts), facts=facts)[1].patch == ()


@pytest.mark.parametrize("manifest", WITHOUT, ids=KINDS)
def test_an_update_without_the_record_keeps_it(manifest: Manifest) -> None:
    old = stored(manifest, facts=known(default="koord-scheduler"))
    found, _ = mutate(manifest, old, facts=known(default="volcano"))
    assert found == old


def test_a_template_that_never_had_the_label_stays_without_it() -> None:
    # Recorded by hand while no webhook was registered: the template is immutable, and every update would be refused.
    old = job(suspend=True)
    found, verdict = mutate(job(suspend=False), old)
    assert (found, verdict.patch) == (job(suspend=False), ())


def test_a_template_that_an_update_adds_gets_the_label() -> None:
    old = stored(leader_worker_set())
    found, _ = mutate(leader_worker_set(leader=pod_template()), old)
    assert found["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["labels"] == LABELLED


@pytest.mark.parametrize("manifest", WITHOUT, ids=KINDS)
def test_an_older_workload_is_not_adopted_by_its_namespace(manifest: Manifest) -> None:
    facts = known(default="koord-scheduler")
    assert mutate(manifest, manifest, facts=facts)[1].patch == ()
    assert validate(manifest, manifest, facts=facts).findings == ()


@pytest.mark.parametrize("old", [job(), job(scheduler=None)], ids=["another record", "no record"])
def test_an_update_can_neither_change_nor_add_a_record(old: Manifest) -> None:
    changed = job(scheduler="volcano")
    assert mutate(changed, old)[1].patch == ()
    verdict = validate(changed, old)
    assert [finding for finding in rules(verdict) if finding == "owner/scheduler-change"]
    assert not verdict.allowed


@pytest.mark.parametrize("manifest", WITHOUT, ids=KINDS)
def test_a_record_that_the_pod_templates_still_have_may_be_set_again(manifest: Manifest) -> None:
    recorded = stored(manifest, facts=known(default="koord-scheduler"))
    lost, changed = deepcopy(recorded), deepcopy(recorded)
    del lost["metadata"]["labels"]
    changed["metadata"]["labels"] = {RECORD: "volcano"}
    # A TrainJob has no templates that would say it.
    refused = [] if _templates(manifest) else ["owner/scheduler-change"]
    assert [rule for rule in rules(validate(recorded, lost)) if rule == "owner/scheduler-change"] == refused
    assert "owner/scheduler-change" in rules(validate(changed, lost))
    for template in _templates(lost)[:1]:
        del template["metadata"]["labels"]
        assert "owner/scheduler-change" in rules(validate(recorded, lost))


def test_a_scheduler_without_a_profile_is_refused_and_not_recorded() -> None:
    manifest = job(scheduler="koordinator")
    assert mutate(manifest)[1].patch == ()
    assert rules(validate(manifest)) == ["owner/scheduler-unknown"]
    # Once it is stored (the profile was removed), an update is not to blame.
    assert validate(manifest, manifest).allowed


def _made_by(manifest: Manifest, version: str, kind: str, name: str = "demo") -> Manifest:
    found = deepcopy(manifest)
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": "1", "controller": True}
    found["metadata"]["ownerReferences"] = [reference]
    return found


def test_a_job_of_a_jobset_is_left_to_the_jobset() -> None:
    part = _made_by(job(scheduler=None, parallelism=2, completions=5), "jobset.x-k8s.io/v1alpha2", "JobSet")
    made_it = job_set()
    made_it["metadata"]["uid"] = "1"
    facts = known(made_it, default="koord-scheduler")
    assert mutate(part, facts=facts)[1].patch == ()
    assert validate(part, facts=facts).findings == ()


NO_SUCH = "this JobSet does not"
ANOTHER = "the JobSet demo has another uid"


@pytest.mark.parametrize("scheduler", [None, "koord-scheduler"], ids=["by its namespace", "by its own label"])
@pytest.mark.parametrize(("uid", "why"), [(None, NO_SUCH), ("2", ANOTHER)], ids=["no JobSet", "another JobSet"])
def test_a_job_that_claims_a_missing_jobset_is_refused_after_a_live_read(
    uid: str | None, why: str, scheduler: str | None
) -> None:
    forged = _made_by(job(scheduler=scheduler), "jobset.x-k8s.io/v1alpha2", "JobSet")
    there = job_set()
    there["metadata"]["uid"] = uid
    facts = known(*([] if uid is None else [there]), default="koord-scheduler")
    verdict = validate(forged, facts=facts)
    (finding,) = verdict.findings
    assert (verdict.allowed, finding.rule) == (False, "owner/foreign-job")
    assert finding.why.startswith(why)
    (needed,) = doubtful_facts(verdict)
    assert needed == Needed("job_sets", ("default", "demo"))
    # The cache was late: the JobSet was created, or created again, a moment before.
    there["metadata"]["uid"] = "1"
    assert validate(forged, facts=known(there, default="koord-scheduler")).findings == ()


def test_a_job_of_a_jobset_is_not_refused_where_jobsets_cannot_be_read() -> None:
    part = _made_by(job(scheduler=None), "jobset.x-k8s.io/v1alpha2", "JobSet")
    facts = known(default="koord-scheduler")
    newer = Api("jobset.x-k8s.io", "v1", "JobSet")
    for unread in (replace(facts, job_sets=None), replace(facts, apis=frozenset({newer}))):
        verdict = validate(part, facts=unread)
        assert verdict.allowed
        assert [str(one) for one in verdict.unjudged] == [
            "owner/foreign-job at metadata.ownerReferences: not judged: the JobSet default/demo unknown"
        ]
    for read in (replace(newer, version="v1alpha2"), Api("batch", "v1", "Job")):
        assert not validate(part, facts=replace(facts, apis=frozenset({read}))).allowed


def test_an_update_cannot_make_a_recorded_job_part_of_a_missing_jobset() -> None:
    forged = _made_by(job(), "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert rules(validate(forged, job(), facts=known())) == ["owner/foreign-job"]
    # One that was stored before is allowed: the garbage collector deletes it.
    assert validate(forged, forged, facts=known()).allowed


def test_a_jobset_without_a_uid_as_in_a_file_is_identified_by_its_name() -> None:
    part = _made_by(job(scheduler=None), "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert validate(part, facts=known(job_set(), default="koord-scheduler")).findings == ()


def test_a_job_that_claims_a_missing_jobset_is_refused_whatever_scheduler_it_names() -> None:
    forged = _made_by(job(scheduler="none-of-these"), "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert rules(validate(forged, facts=known())) == ["owner/foreign-job"]


@pytest.mark.parametrize("scheduler", [None, "koord-scheduler"], ids=["by its namespace", "by its own label"])
def test_jobs_that_a_deleted_jobset_leaves_behind_can_be_updated(scheduler: str | None) -> None:
    orphan = job(scheduler=scheduler, parallelism=2, completions=5)
    part = _made_by(orphan, "jobset.x-k8s.io/v1alpha2", "JobSet")
    there = job_set()
    there["metadata"]["uid"] = "1"
    facts = known(there, default="koord-scheduler")
    verdict = validate(orphan, part, facts=facts)
    assert verdict.allowed
    # One that was no part of it before is excused by nothing.
    there["metadata"]["uid"] = "2"
    assert validate(orphan, part, facts=known(there, default="koord-scheduler")).allowed == (scheduler is None)


def test_a_job_of_another_controller_is_a_workload() -> None:
    own = _made_by(job(scheduler=None), "batch/v1", "CronJob")
    assert mutate(own, facts=known(default="koord-scheduler"))[1].patch


def test_the_jobset_of_a_trainjob_gets_the_trainjob_s_scheduler() -> None:
    made = _made_by(job_set(scheduler=None), "trainer.kubeflow.org/v1alpha1", "TrainJob")
    facts = known(train_job(scheduler="volcano"), default="koord-scheduler")
    found, verdict = mutate(made, facts=facts)
    assert verdict.scheduler == "volcano"
    assert found["metadata"]["labels"] == {RECORD: "volcano"}


def test_the_jobset_of_an_older_trainjob_is_left_alone() -> None:
    made = _made_by(job_set(scheduler=None), "trainer.kubeflow.org/v1alpha1", "TrainJob")
    facts = known(train_job(scheduler=None), default="koord-scheduler")
    assert mutate(made, facts=facts)[1].patch == ()
    assert validate(made, facts=facts).findings == ()


def test_a_fault_of_a_runtime_is_reported_at_the_trainjob() -> None:
    steps = replicated("node", 2, job={"completions": 5})
    step = {"labels": {}, "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}}
    steps["template"]["metadata"] = step
    verdict = validate(train_job(), facts=known(facts=runtimes(steps)))
    (found,) = verdict.denials
    assert str(found.at) == "spec.runtimeRef.name"
    assert found.why.startswith(
        "ClusterTrainingRuntime torch, spec.template.spec.replicatedJobs[0].template.metadata.annotations"
        "[alpha.jobset.sigs.k8s.io/exclusive-topology]: JobSet creates the other"
    )


def test_a_fault_of_a_trainjob_s_patch_is_reported_at_the_patch() -> None:
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    patch = {"trainingRuntimeSpec": {"template": {"metadata": {"annotations": annotations}}}}
    verdict = validate(train_job(runtimePatches=[patch]), facts=known(facts=runtimes()))
    (found,) = verdict.denials
    assert str(found.at) == (
        "spec.runtimePatches[0].trainingRuntimeSpec.template.metadata.annotations"
        "[alpha.jobset.sigs.k8s.io/exclusive-topology]"
    )


def test_a_namespaced_runtime_is_looked_up_in_the_namespace() -> None:
    reference = {"name": "torch", "kind": "TrainingRuntime"}
    facts = known(facts=runtimes())
    missing = validate(train_job(runtimeRef=reference), facts=facts)
    assert rules(missing) == ["owner/runtime"]
    (found,) = missing.findings
    assert found.action is Action.WARN
    assert found.why.startswith("this TrainingRuntime ")


def test_an_unknown_runtime_is_not_judged() -> None:
    verdict = validate(train_job(), facts=replace(known(), cluster_training_runtimes=None))
    (unjudged,) = verdict.unjudged
    assert (unjudged.rule, str(unjudged.at)) == ("owner/runtime", "spec.runtimeRef.name")
    assert "`kubectl get ClusterTrainingRuntime torch -o yaml`" in str(unjudged)


def test_a_namespace_that_only_warns_gets_warnings_for_what_can_be_translated() -> None:
    facts = known()
    labels = {"rollcall.dev/enforcement": "warn"}
    warned = replace(facts, namespaces={"default": Namespace(labels)})
    claimed = job(template=pod_template(annotations={"scheduling.k8s.io/group-name": "mine"}))
    hopeless = job(parallelism=2, completions=5)
    assert not validate(claimed, facts=facts).allowed
    assert validate(claimed, facts=warned).allowed
    assert not validate(hopeless, facts=warned).allowed
    # The rules about pods know no other ceiling.
    quality = job(template=pod_template(labels={"koordinator.sh/qosClass": "lsr"}))
    assert not validate(quality, facts=facts).allowed
    assert validate(quality, facts=warned).allowed


def test_a_template_of_leader_and_workers_is_judged_once() -> None:
    verdict = validate(leader_worker_set(worker=pod_template(labels={"koordinator.sh/qosClass": "lsr"})))
    assert rules(verdict) == ["koordinator/qos-class"]


def test_the_profile_s_class_is_judged_with_the_template() -> None:
    settings = schedulers({"name": "koord-scheduler", "config": {"defaultQoSClass": "LSR"}})
    verdict = validate(job(), facts=replace(known(), priority_classes={}), settings=settings)
    assert set(rules(verdict)) == {"koordinator/qos-cpu", "koordinator/qos-priority"}


def test_an_old_fault_is_a_warning() -> None:
    old = job(template=pod_template(annotations={"scheduling.k8s.io/group-name": "mine"}))
    verdict = validate({**old, "spec": {**old["spec"], "suspend": True}}, old)
    assert [(finding.rule, finding.action) for finding in verdict.findings] == [("owner/claim-unread", Action.WARN)]


def test_a_malformed_workload_is_refused_with_the_field_and_not_patched() -> None:
    broken = job(parallelism="four")
    found, verdict = mutate(broken)
    assert (found, verdict.patch) == (broken, ())
    assert len(verdict.notes) == 1
    (refusal,) = validate(broken).denials
    assert (refusal.rule, str(refusal.at)) == ("owner/shape", "spec.parallelism")


def test_the_command_line_s_scheduler_judges_workloads_that_are_not_opted_in() -> None:
    forced = replace(EVERY, forced="kai-scheduler", standalone=True)
    assert "kai/owner-no-gang" in rules(validate(job(scheduler=None), settings=forced))
