"""Refusals of TrainJobs, JobSets, LeaderWorkerSets and Jobs beyond each rule's own examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, known, schedulers, validate, with_kai
from tests.unit.worlds import rules
from webhook.admission.decision import doubtful_facts
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Record
from webhook.model.known_objects import PodGangFacts, VolcanoQueue
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, runtimes, train_job
from webhook.workloads.known_workloads import WorkloadFacts

CLAIMS: dict[str, dict[str, Any]] = {
    "koord-scheduler": {"labels": {"pod-group.scheduling.sigs.k8s.io": "mine"}},
    "volcano": {"annotations": {"scheduling.k8s.io/group-name": "mine"}},
    "kai-scheduler": {"annotations": {"pod-group-name": "mine", "kai.scheduler/skip-podgrouper": "true"}},
    "scheduler-plugins": {"labels": {"scheduling.x-k8s.io/pod-group": "mine"}},
}


@pytest.mark.parametrize("scheduler", EVERY.profiles)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_membership_that_the_scheduler_does_not_read_is_refused(scheduler: str, claim: str) -> None:
    found = rules(validate(job(scheduler=scheduler, template=pod_template(**CLAIMS[claim])), facts=known()))
    own = [rule for rule in found if rule.startswith("owner/claim")]
    unsure = (claim, scheduler) == ("scheduler-plugins", "default-scheduler")
    # KAI's is two annotations.
    assert set(own) == (set() if claim == scheduler else {"owner/claim-unsure" if unsure else "owner/claim-unread"})


@pytest.mark.parametrize("scheduler", EVERY.profiles)
@pytest.mark.parametrize("plugin", ["coscheduling", "volcano"])
def test_a_trainer_plugin_with_another_scheduler_is_refused_with_both_fields(scheduler: str, plugin: str) -> None:
    facts = known(facts=runtimes(podGroupPolicy={plugin: {}}))
    verdict = validate(train_job(scheduler=scheduler), facts=facts)
    found = [finding for finding in verdict.findings if finding.rule.startswith("owner/claim")]
    if scheduler == plugin:
        assert found == []
        return
    (finding,) = found
    assert str(finding.at) == "spec.runtimeRef.name"
    assert finding.why.startswith(f"ClusterTrainingRuntime torch, spec.podGroupPolicy.{plugin}: ")
    if (plugin, scheduler) == ("coscheduling", "default-scheduler"):
        assert (finding.rule, finding.action) == ("owner/claim-unsure", Action.WARN)
    else:
        assert (finding.rule, finding.action) == ("owner/claim-unread", Action.DENY)
        assert finding.why.endswith(f"metadata.labels[rollcall.dev/scheduler] chooses {scheduler}, which does not")


AFTER = [{"name": "data", "status": "Complete"}]


@pytest.mark.parametrize(
    ("steps", "policy", "in_turn"),
    [
        ([replicated("node")], {}, None),
        ([replicated("data"), replicated("node")], {}, None),
        (
            [replicated("data"), replicated("node", dependsOn=AFTER)],
            {},
            "spec.template.spec.replicatedJobs[1].dependsOn",
        ),
        (
            [replicated("data"), replicated("node")],
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            "spec.template.spec.startupPolicy.startupPolicyOrder",
        ),
    ],
    ids=["one step", "two at once", "dependsOn", "InOrder"],
)
@pytest.mark.parametrize("plugin", ["coscheduling", "volcano"])
def test_a_plugin_s_group_across_steps_in_turn_is_refused(
    plugin: str, steps: list[Manifest], policy: dict[str, Any], in_turn: str | None
) -> None:
    facts = known(facts=runtimes(*steps, podGroupPolicy={plugin: {}}))
    assert facts.cluster_training_runtimes is not None
    facts.cluster_training_runtimes["torch"]["spec"]["template"]["spec"].update(policy)
    verdict = validate(train_job(scheduler="volcano"), facts=facts)
    found = [finding for finding in verdict.denials if finding.rule == "owner/plugin-in-turn"]
    assert [f"because of its {in_turn}, so no step" in finding.why for finding in found] == (
        [] if in_turn is None else [True]
    )
    # Said once.
    assert "owner/membership-in-turn" not in rules(verdict)


def test_steps_in_turn_without_a_plugin_are_separate_gangs() -> None:
    facts = known(facts=runtimes(replicated("data"), replicated("node", dependsOn=AFTER)))
    assert validate(train_job(), facts=facts).findings == ()


GROUP = {"labels": {"pod-group.scheduling.sigs.k8s.io": "mine"}}


@pytest.mark.parametrize(
    ("parts", "refused"),
    [
        ({"a": (), "b": ()}, False),
        ({"a": (), "b": ("a",)}, True),
        # Neither of the first two waits for the other, and the third has no group.
        ({"a": (), "b": (), "no-group": ("a", "b")}, False),
        ({"a": (), "no-group": ("a",), "c": ("no-group",)}, True),
    ],
    ids=["at once", "one after the other", "the others at once", "by way of a third"],
)
def test_a_preset_group_can_span_parts_that_start_together(parts: dict[str, tuple[str, ...]], refused: bool) -> None:
    jobs = []
    for name, after in parts.items():
        template = pod_template() if name == "no-group" else pod_template(**GROUP)
        fields: dict[str, Any] = {"dependsOn": [{"name": one} for one in after]} if after else {}
        jobs.append(replicated(name, template=template, **fields))
    found = rules(validate(job_set(*jobs), facts=known()))
    assert found == (["owner/membership-in-turn"] if refused else [])


MINIMUM = "kai.scheduler/batch-min-member"
STEPS = replicated("data", 1), replicated("node", 2, dependsOn=AFTER)
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


@pytest.mark.parametrize(
    ("version", "steps", "policy", "minimum", "found"),
    [
        ("0.15.2", "turn", {}, None, ["kai/owner-version"]),
        ("0.15.2", "turn", {}, "1", []),
        ("0.15.2", "turn", {}, "3", ["kai/owner-in-turn"]),
        ("0.15.2", "once", {}, None, ["kai/owner-version"]),
        ("0.15.2", "once", {}, "3", []),
        ("0.15.2", "once", {}, "9", ["kai/owner-minimum"]),
        ("0.16.0", "once", {}, None, []),
        ("0.16.0", "once", {}, "9", []),
        ("0.16.0", "turn", {}, None, ["kai/owner-in-turn"]),
        ("0.16.0", "turn", {}, "1", ["kai/owner-stale"]),
        ("0.16.0", "turn", {}, "2", ["kai/owner-in-turn"]),
        ("0.16.0", "once", IN_ORDER, None, ["kai/owner-stale"]),
        (None, "turn", {}, None, ["kai/owner-in-turn"]),
        (None, "once", {}, None, []),
    ],
)
@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_the_groups_of_steps_on_kai_depend_on_its_version(
    kind: str, version: str | None, steps: str, policy: dict[str, Any], minimum: str | None, found: list[str]
) -> None:
    jobs = STEPS if steps == "turn" else (replicated("data", 1), replicated("node", 2))
    annotations = None if minimum is None else {MINIMUM: minimum}
    if kind == "JobSet":
        manifest = job_set(*jobs, scheduler="kai-scheduler", annotations=annotations, **policy)
        verdict = validate(manifest, facts=known(), settings=with_kai(version))
    else:
        facts = known(facts=runtimes(*jobs))
        assert facts.cluster_training_runtimes is not None
        facts.cluster_training_runtimes["torch"]["spec"]["template"]["spec"].update(policy)
        manifest = train_job(scheduler="kai-scheduler", annotations=annotations)
        verdict = validate(manifest, facts=facts, settings=with_kai(version))
    assert rules(verdict) == found
    unset = "spec.startupPolicy.startupPolicyOrder" if kind == "JobSet" else "spec.runtimeRef.name"
    at = unset if policy else f"metadata.annotations[{MINIMUM}]"
    assert all(str(one.at) == at for one in verdict.findings)


@pytest.mark.parametrize(("pods", "found"), [(1, []), (2, ["kai/owner-version"])])
def test_a_job_set_of_one_pod_starts_whole_on_any_kai(pods: int, found: list[str]) -> None:
    manifest = job_set(replicated("node", pods), scheduler="kai-scheduler")
    assert rules(validate(manifest, facts=known(), settings=with_kai("0.15.2"))) == found


def test_the_runtime_can_set_kai_s_minimum() -> None:
    patient = {MINIMUM: "1", "kai.scheduler/staleness-grace-period": "-1s"}
    facts = known(facts=runtimes(*STEPS, annotations=patient))
    assert validate(train_job(scheduler="kai-scheduler"), facts=facts, settings=with_kai()).findings == ()


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
LWS_EXCLUSIVE = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}


@pytest.mark.parametrize(
    ("manifest", "version", "refused"),
    [
        (job_set(annotations=EXCLUSIVE), "0.17.0", True),
        (job_set(annotations=EXCLUSIVE), None, True),
        (job_set(annotations={**EXCLUSIVE, MINIMUM: "1"}), "0.15.2", False),
        (job_set(annotations={**EXCLUSIVE, MINIMUM: "2"}), "0.15.2", True),
        (job_set(replicated("a", metadata={"annotations": {MINIMUM: "1"}}), annotations=EXCLUSIVE), None, False),
        (job_set(replicated("a", job={"completions": 7})), None, True),
        (job(parallelism=2, completions=7), None, False),
        (job(parallelism=2, completions=7, annotations={MINIMUM: "2"}), None, True),
        (leader_worker_set(annotations=LWS_EXCLUSIVE), None, True),
        (leader_worker_set(annotations=LWS_EXCLUSIVE, startupPolicy="LeaderReady"), None, False),
        (leader_worker_set(startupPolicy="LeaderReady"), None, False),
    ],
)
def test_a_gang_whose_kai_group_counts_later_pods_is_refused(
    manifest: Manifest, version: str | None, refused: bool
) -> None:
    manifest["metadata"]["labels"] = {"rollcall.dev/scheduler": "kai-scheduler"}
    found = validate(manifest, facts=known(), settings=with_kai(version)).denials
    assert [finding.rule for finding in found] == (["kai/owner-pods-to-come"] if refused else [])


def _kube(version: str, **config: Any) -> Any:
    settings = {"gangScheduling": True, "apiGeneration": version, **config}
    return schedulers({"name": "default-scheduler", "config": settings})


PARTS = [replicated(f"part-{index}", 1) for index in range(9)]


@pytest.mark.parametrize(
    ("manifest", "version", "config", "found"),
    [
        (job_set(*PARTS[:8]), "v1beta1", {}, []),
        (job_set(*PARTS), "v1beta1", {}, ["kube/owner-gang"]),
        # Merged into one group, they are one template.
        (job_set(*PARTS), "v1alpha2", {}, []),
        (job_set(*PARTS[:2]), "v1alpha2", {"flat": "refuse"}, ["kube/owner-gang"]),
        (leader_worker_set(), "v1alpha2", {"flat": "refuse"}, []),
        # A foreign gang.
        (job_set(*PARTS, scheduling={}), "v1beta1", {}, []),
    ],
)
def test_a_gang_that_a_workload_api_version_cannot_express_is_refused(
    manifest: Manifest, version: str, config: dict[str, Any], found: list[str]
) -> None:
    manifest["metadata"]["labels"] = {"rollcall.dev/scheduler": "default-scheduler"}
    verdict = validate(manifest, facts=known(), settings=_kube(version, **config))
    assert rules(verdict) == found
    assert all(str(one.at) == "metadata.labels[rollcall.dev/scheduler]" for one in verdict.findings)


HIGH, LOW = ({"priorityClassName": name} for name in ("high", "low"))


@pytest.mark.parametrize(
    ("manifest", "at"),
    [
        (leader_worker_set(leader=pod_template(HIGH), worker=pod_template(HIGH)), None),
        (
            leader_worker_set(leader=pod_template(HIGH), worker=pod_template(LOW)),
            "spec.leaderWorkerTemplate.workerTemplate.spec.priorityClassName",
        ),
        (leader_worker_set(leader=pod_template(HIGH), worker=pod_template(LOW), size=1), None),
        (
            job_set(replicated("a"), replicated("b", template=pod_template(HIGH))),
            "spec.replicatedJobs[1].template.spec.template.spec.priorityClassName",
        ),
    ],
)
def test_a_gang_with_two_priorities_is_refused_for_kube_scheduler(manifest: Manifest, at: str | None) -> None:
    manifest["metadata"]["labels"] = {"rollcall.dev/scheduler": "default-scheduler"}
    verdict = validate(manifest, facts=known(), settings=_kube("v1alpha2"))
    found = [str(one.at) for one in verdict.denials if one.rule == "kube/owner-priority"]
    assert found == ([] if at is None else [at])


def test_a_missing_priority_class_is_reported_at_the_template() -> None:
    facts = known(facts=ClusterFacts(priority_classes={}))
    manifest = job(scheduler="default-scheduler", template=pod_template(HIGH))
    (found,) = validate(manifest, facts=facts, settings=_kube("v1beta1")).denials
    assert str(found.at) == "spec.template.spec.priorityClassName"
    assert [str(one) for one in doubtful_facts(validate(manifest, facts=facts, settings=_kube("v1beta1")))] == [
        "PriorityClass high"
    ]


def _taken(scheduler: str, *names: str) -> WorkloadFacts:
    return WorkloadFacts(Record(scheduler), names=frozenset(names))


def _called(name: str) -> Manifest:
    """A Job of that name."""
    return {**job(), "metadata": {**job()["metadata"], "name": name}}


@pytest.mark.parametrize(
    ("manifest", "facts", "taken"),
    [
        (job(), known(job_set()), True),
        (job(), known(job_set(scheduler="volcano")), False),
        (job(), known(job_set(scheduling={})), False),
        (job(), known(job()), False),
        (job_set(), known(job_set()), False),
        # The member of one is called as the gang of the other.
        (job_set(), ClusterFacts(jobs={("default", "demo-node"): _taken("koord-scheduler", "demo-node")}), True),
        (job_set(), ClusterFacts(jobs={("team", "demo-node"): _taken("koord-scheduler", "demo-node")}), False),
        (job(), ClusterFacts(pod_gangs={("default", "demo"): PodGangFacts("set")}), True),
        (_called("x-w"), ClusterFacts(pod_gangs={("default", "x"): PodGangFacts("set", frozenset({"x-w"}))}), True),
        (_called("demo-0-5f8"), known(leader_worker_set()), True),
        (_called("demo-driver"), known(leader_worker_set()), False),
        (
            job(),
            ClusterFacts(
                pod_gangs={("default", "demo"): PodGangFacts("set")},
                pod_clique_sets={("default", "set"): Record("volcano")},
            ),
            False,
        ),
        (train_job(), replace(runtimes(), jobs={("default", "demo"): _taken("koord-scheduler", "demo")}), True),
        (leader_worker_set(), known(job_set()), False),
    ],
)
def test_a_name_that_another_gang_uses_is_refused(manifest: Manifest, facts: ClusterFacts, taken: bool) -> None:
    found = [one.rule for one in validate(manifest, facts=facts).denials]
    assert found == (["owner/name-taken"] if taken else [])


def test_a_generated_name_is_not_judged_before_it_exists() -> None:
    manifest = job()
    manifest["metadata"] = {**manifest["metadata"], "generateName": "demo"}
    del manifest["metadata"]["name"]
    assert validate(manifest, facts=known(job_set())).findings == ()


@pytest.mark.parametrize("scheduler", EVERY.profiles)
def test_a_gang_from_the_workload_s_own_controller_needs_kube_scheduler(scheduler: str) -> None:
    native: Manifest = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
    manifest = job(scheduler=scheduler, scheduling=native, annotations={MINIMUM: "2"})
    verdict = validate(
        manifest, facts=known(facts=ClusterFacts(volcano_queues={"default": VolcanoQueue("root", "Open")}))
    )
    assert verdict.allowed
    assert rules(verdict) == ([] if scheduler == "default-scheduler" else ["owner/native-scheduling"])


def test_a_scheduler_without_rollcall_gangs_causes_no_deadlock_finding() -> None:
    settings = schedulers({"name": "default-scheduler"})
    manifest = job(scheduler="default-scheduler", parallelism=2, completions=9)
    assert rules(validate(manifest, facts=known(), settings=settings)) == ["kube/owner-no-gang"]


def test_a_minimum_with_too_many_digits_is_not_read() -> None:
    found = validate(job(scheduler="kai-scheduler", annotations={MINIMUM: "9" * 5000}), facts=known())
    assert "kai/owner-ungrouped" in rules(found)


def test_in_order_a_group_cannot_be_used_again_after_other_parts() -> None:
    parts = [
        replicated(f"part-{index}", template=pod_template(labels={"pod-group.scheduling.sigs.k8s.io": f"g-{index}"}))
        for index in range(3)
    ]
    order = {"startupPolicyOrder": "InOrder"}
    assert "owner/membership-in-turn" not in rules(validate(job_set(*parts, startupPolicy=order), facts=known()))
    last = replicated("last", template=pod_template(labels={"pod-group.scheduling.sigs.k8s.io": "g-0"}))
    assert "owner/membership-in-turn" in rules(validate(job_set(*parts, last, startupPolicy=order), facts=known()))


def _patch(job: str, container: str) -> Manifest:
    pod = {"spec": {"containers": [{"name": container}]}}
    replicated_jobs = [{"name": job, "template": {"spec": {"template": pod}}}]
    return {
        "manager": "example.com/me",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated_jobs}}},
    }


_PATCHED = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
_LACKING: dict[str, tuple[dict[str, Any], set[tuple[str, str]]]] = {
    "a model that the runtime prepares": ({"initializer": {"model": {}}}, set()),
    "data that the runtime does not prepare": (
        {"initializer": {"dataset": {}, "model": {}}},
        {("spec.initializer.dataset", "dataset-initializer")},
    ),
    "a patch of its node": ({"runtimePatches": [_patch("node", "node")]}, set()),
    "a patch of another Job": ({"runtimePatches": [_patch("nodes", "node")]}, {(_PATCHED, "nodes")}),
    "a patch of another container": ({"runtimePatches": [_patch("node", "nodes")]}, {(_PATCHED, "nodes")}),
    "a variable of Trainer": (
        {"trainer": {"env": [{"name": "DEBUG"}, {"name": "PET_NNODES"}]}},
        {("spec.trainer.env[1]", "PET_NNODES")},
    ),
    "a variable of another policy": ({"trainer": {"env": [{"name": "DMLC_TASK_ID"}]}}, set()),
    "variables that are no list": ({"trainer": {"env": 7}}, set()),
}


@pytest.mark.parametrize(("spec", "expected"), _LACKING.values(), ids=_LACKING)
def test_what_a_train_job_needs_of_its_runtime_is_there(spec: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    model = {"spec": {"containers": [{"name": "model-initializer", "image": "example.com/model"}]}}
    jobs = (replicated("node"), replicated("model-initializer", 1, template=model))
    verdict = validate(train_job(**spec), facts=known(facts=runtimes(*jobs, mlPolicy={"torch": {}})))
    found = {(str(finding.at), finding.value) for finding in verdict.findings if finding.rule == "owner/runtime-parts"}
    assert found == expected
