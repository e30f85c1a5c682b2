"""The views of TrainJobs, JobSets, LeaderWorkerSets and Jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, train_job
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import names_of, no_gang
from webhook.workloads.trainjob import Runtime, TrainJob

AFTER_ALL = [{"name": "dataset-initializer", "status": "Complete"}, {"name": "model-initializer", "status": "Complete"}]
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"parallelism": None, "completions": None}, 1),
        ({"parallelism": 4, "completions": None}, 4),
        ({"parallelism": 4, "completions": 4}, 4),
        ({"parallelism": 4, "completions": 3}, 3),
        ({"parallelism": 0, "completions": 3}, 0),
    ],
)
def test_a_job_counts_the_pods_that_run_in_parallel(spec: dict[str, Any], pods: int) -> None:
    (part,) = Job(job(**spec)).parts
    assert (part.pods, part.each) == (pods, pods)


def test_a_jobset_s_parts_are_counted_by_jobs_and_pods() -> None:
    parts = JobSet(job_set(replicated("driver", 1), replicated("worker", 4, replicas=3))).parts
    assert [(part.name, part.pods, part.each) for part in parts] == [("driver", 1, 1), ("worker", 12, 4)]
    assert str(parts[1].place) == "spec.replicatedJobs[1].template.spec.template"


@pytest.mark.parametrize(
    ("manifest", "at"),
    [
        (job_set(replicated("a"), replicated("b")), None),
        (job_set(replicated("a"), startupPolicy={"startupPolicyOrder": "AnyOrder"}), None),
        (
            job_set(replicated("a"), replicated("b"), startupPolicy={"startupPolicyOrder": "InOrder"}),
            "spec.startupPolicy.startupPolicyOrder",
        ),
        (
            job_set(
                replicated("a"),
                replicated("b", dependsOn=[{"name": "a", "status": "Ready"}]),
                startupPolicy={"startupPolicyOrder": "AnyOrder"},
            ),
            "spec.replicatedJobs[1].dependsOn",
        ),
    ],
    ids=["nothing said", "any order", "in order", "depends on"],
)
def test_a_jobset_starts_in_turn_by_its_policy_or_by_dependencies(manifest: Manifest, at: str | None) -> None:
    found = JobSet(manifest).sequence_path
    assert (None if found is None else str(found)) == at


def test_dependencies_between_parts_are_transitive() -> None:
    parts = (
        replicated("a"),
        replicated("b", dependsOn=[{"name": "a"}]),
        replicated("c", dependsOn=[{"name": "b"}, {"name": "nobody"}]),
        replicated("d"),
    )
    found = JobSet(job_set(*parts))
    assert [sorted(found.follows(part)) for part in found.parts] == [[], ["a"], ["a", "b", "nobody"], []]


def test_in_order_a_part_waits_for_the_previous_one_and_follows_all_before() -> None:
    # That each names all before it took tens of gigabytes for a manifest of three megabytes.
    found = JobSet(job_set(*map(replicated, "abc"), startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert [part.after for part in found.parts] == [(), ("a",), ("b",)]
    assert [sorted(found.follows(part)) for part in found.parts] == [[], ["a"], ["a", "b"]]


def test_patches_that_name_a_part_many_times_are_read_once_each() -> None:
    class Patch(dict[str, Any]):
        reads: ClassVar[Counter[str]] = Counter()

        def get(self, key: str, default: Any = None) -> Any:
            self.reads[key] += 1
            return super().get(key, default)

    labels = [{"metadata": {"labels": {"step": str(index)}}} for index in range(500)]
    named = [Patch({"name": "node", "template": template}) for template in labels]
    patches = [{"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": named}}}}]
    TrainJob(train_job(runtimePatches=patches)).read()
    assert 0 < Patch.reads["name"] <= 4 * 500
    assert 0 < Patch.reads["template"] <= 4 * 500


def test_a_leader_without_a_template_uses_the_workers_template() -> None:
    parts = LeaderWorkerSet(leader_worker_set(size=3)).parts
    assert [(part.name, str(part.place), part.pods) for part in parts] == [
        ("leader", "spec.leaderWorkerTemplate.workerTemplate", 2),
        ("worker", "spec.leaderWorkerTemplate.workerTemplate", 4),
    ]
    parts = LeaderWorkerSet(leader_worker_set(size=1, leader=pod_template())).parts
    assert [(part.name, str(part.place)) for part in parts] == [("leader", "spec.leaderWorkerTemplate.leaderTemplate")]


@pytest.mark.parametrize(
    ("workload", "rules"),
    [
        (Job(job()), []),
        (Job(job(parallelism=1, completions=9)), []),
        (Job(job(parallelism=2, completions=3)), ["owner/completions"]),
        (Job(job(parallelism=2, completions=1)), []),
        (Job(job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"})), ["owner/partial-admission"]),
        (Job(job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"}, completions=None)), []),
        (Job(job(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})), []),
        (JobSet(job_set(replicated("a", 1, job={"completions": 5}))), []),
        # One pod at a time, in a gang of more.
        (JobSet(job_set(replicated("a", 1, job={"completions": 5}), replicated("b"))), ["owner/completions"]),
        (
            JobSet(job_set(replicated("a", 1, job={"completions": 5}), replicated("b", dependsOn=[{"name": "a"}]))),
            [],
        ),
        (JobSet(job_set(annotations={EXCLUSIVE: "rack"})), ["owner/exclusive-topology"]),
        (JobSet(job_set(annotations={EXCLUSIVE: "rack", NODE_SELECTOR: "true"})), []),
        (JobSet(job_set(annotations={NODE_SELECTOR: "true"})), []),
        (
            JobSet(job_set(replicated("a", metadata={"annotations": {EXCLUSIVE: "rack"}}))),
            ["owner/exclusive-topology"],
        ),
        # The strategy of the JobSet counts where it asks for the topology itself.
        (
            JobSet(
                job_set(
                    replicated("a", metadata={"annotations": {EXCLUSIVE: "rack"}}),
                    annotations={EXCLUSIVE: "rack", NODE_SELECTOR: "true"},
                )
            ),
            [],
        ),
        (
            JobSet(
                job_set(
                    replicated("a", metadata={"annotations": {EXCLUSIVE: "rack"}}), annotations={NODE_SELECTOR: "true"}
                )
            ),
            ["owner/exclusive-topology"],
        ),
        (JobSet(job_set(replicated("a", 1, replicas=4), annotations={EXCLUSIVE: "rack"})), []),
        (LeaderWorkerSet(leader_worker_set(startupPolicy="LeaderReady")), ["owner/leader-ready"]),
        (LeaderWorkerSet(leader_worker_set(startupPolicy="LeaderReady", size=1)), []),
        (
            LeaderWorkerSet(leader_worker_set(annotations={"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"})),
            ["owner/exclusive-topology"],
        ),
    ],
)
def test_a_workload_whose_gang_can_never_be_complete_has_a_reason(workload: Any, rules: list[str]) -> None:
    assert [found.rule for found in workload.hindrances] == rules


def _runtime(*jobs: Manifest, **spec: Any) -> Runtime:
    return Runtime(
        {"metadata": {"name": "torch"}, "spec": {"template": {"spec": {"replicatedJobs": list(jobs)}}, **spec}}
    )


def _step(name: str, step: str | None = None, **fields: Any) -> Manifest:
    """A replicated Job as Trainer ships it: without a number of pods."""
    found = replicated(name, **fields)
    for field in ("parallelism", "completions"):
        del found["template"]["spec"][field]
    if step is not None:
        found["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}
    return found


def _shipped(name: str, labels: Mapping[str, str] | None = None) -> Runtime:
    found = _runtime(*_steps(name), mlPolicy=_policy(name))
    return Runtime(
        {
            "metadata": {"name": "torch"},
            "spec": {**found.spec, "template": {**found.template, "metadata": {"labels": dict(labels or {})}}},
        }
    )


def _policy(name: str) -> Manifest:
    if name.startswith("torch"):
        return {"numNodes": 1, "torch": {}}
    return {"numNodes": 1, "mpi": {"runLauncherAsNode": name == "deepspeed-distributed"}}


def _steps(name: str) -> list[Manifest]:
    """The replicated Jobs of a runtime that Trainer ships."""
    if name == "torch-distributed":
        return [_step("node", "trainer")]
    if name == "torch-distributed-with-cache":
        after = [{"name": "dataset-initializer", "status": "Complete"}]
        return [_step("dataset-initializer", "dataset-initializer"), _step("node", "trainer", dependsOn=after)]
    if name == "torchtune":
        return [
            _step("dataset-initializer", "dataset-initializer"),
            _step("model-initializer", "model-initializer"),
            _step("node", "trainer", dependsOn=AFTER_ALL),
        ]
    return [_step("node"), _step("launcher", "trainer", dependsOn=[{"name": "node", "status": "Ready"}])]


@pytest.mark.parametrize(
    ("name", "nodes", "pods", "in_turn"),
    [
        ("torch-distributed", None, {"node": 1}, False),
        ("torch-distributed", 4, {"node": 4}, False),
        ("torch-distributed", 0, {"node": 0}, False),
        ("torch-distributed-with-cache", 4, {"dataset-initializer": 1, "node": 4}, True),
        ("torchtune", 2, {"dataset-initializer": 1, "model-initializer": 1, "node": 2}, True),
        ("deepspeed-distributed", None, {"node": 1, "launcher": 1}, True),
        ("deepspeed-distributed", 1, {"node": 1, "launcher": 1}, True),
        ("deepspeed-distributed", 4, {"node": 3, "launcher": 1}, True),
        ("mpi with a launcher that is no node", 4, {"node": 4, "launcher": 1}, True),
    ],
)
def test_a_trainjob_has_as_many_pods_as_trainer_counts(
    name: str, nodes: int | None, pods: dict[str, int], in_turn: bool
) -> None:
    asked: dict[str, Any] = {} if nodes is None else {"trainer": {"numNodes": nodes}}
    made = TrainJob(train_job(**asked)).job_set(_shipped(name))
    assert {part.name: part.pods for part in made.parts} == pods
    assert (made.sequence_path is not None) is in_turn
    # Parallelism and completions are written alike.
    assert made.hindrances == ()


def test_without_a_policy_the_number_in_the_template_counts() -> None:
    step = replicated("node", 3, metadata={"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}})
    assert TrainJob(train_job()).job_set(_runtime(step)).parts[0].pods == 3
    assert TrainJob(train_job(trainer={"numNodes": 5})).job_set(_runtime(step)).parts[0].pods == 5


def test_the_jobset_of_a_trainjob_has_the_runtime_s_labels_and_the_patches() -> None:
    runtime = _shipped("torchtune", {"team": "a", "kept": "yes"})
    patch = {
        "trainingRuntimeSpec": {
            "template": {
                "metadata": {"labels": {"team": "b"}},
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {"annotations": {"of": "job"}},
                                "spec": {"template": {"metadata": {"labels": {"of": "pod"}}}},
                            },
                        }
                    ]
                },
            }
        }
    }
    made = TrainJob(train_job(runtimePatches=[patch], suspend=True)).job_set(runtime)
    assert made.name == "demo"
    assert made.labels == {"team": "b", "kept": "yes"}
    assert made.suspended
    assert [part.template.labels for part in made.parts] == [{}, {}, {"of": "pod"}]
    assert made.job_metadata(2)["annotations"] == {"of": "job"}
    label = made.parts[2].template.labels_path / "of"
    place = "spec.runtimePatches[0].trainingRuntimeSpec.template"
    assert (
        str(made.path_in_train_job(label))
        == f"{place}.spec.replicatedJobs[0].template.spec.template.metadata.labels.of"
    )
    # The runtime itself is as it was.
    assert "labels" not in runtime.template["spec"]["replicatedJobs"][2]["template"]["spec"]["template"].get(
        "metadata", {}
    )


@pytest.mark.parametrize(
    ("policy", "owner", "key"),
    [
        ({"coscheduling": {}}, "scheduler-plugins", "scheduling.x-k8s.io/pod-group"),
        ({"volcano": {}}, "Volcano", "scheduling.k8s.io/group-name"),
    ],
)
def test_a_plugin_claims_the_pods_of_every_template(policy: dict[str, Any], owner: str, key: str) -> None:
    runtime = _shipped("torch-distributed")
    made = TrainJob(train_job()).job_set(_runtime(*runtime.template["spec"]["replicatedJobs"], podGroupPolicy=policy))
    metadata = made.parts[0].template
    assert {**metadata.labels, **metadata.annotations} == {key: "demo"}
    found = no_gang(made)
    assert found is not None
    assert found.why.endswith(f"says that {owner} has claimed its pods")


def test_the_proposed_kai_plugin_s_queue_reaches_the_pods() -> None:
    policy = {"podGroupPolicy": {"kaiScheduler": {"queue": "team-a"}}}
    made = TrainJob(train_job()).job_set(_runtime(_step("node", "trainer"), **policy))
    template = made.parts[0].template
    assert template.labels == {"kai.scheduler/queue": "team-a"}
    where = made.where(template.labels_path / "kai.scheduler/queue")
    assert where == "ClusterTrainingRuntime torch, spec.podGroupPolicy.kaiScheduler.queue"


@pytest.mark.parametrize(
    ("workload", "names"),
    [
        (Job(job()), {"demo"}),
        (JobSet(job_set(replicated("a"), replicated("b"))), {"demo", "demo-a", "demo-b"}),
        (JobSet(job_set(replicated("a"), replicated("b", dependsOn=[{"name": "a"}]))), {"demo-a", "demo-b"}),
        (Job(job(parallelism=0)), set()),
        (LeaderWorkerSet(leader_worker_set()), set()),
        (TrainJob(train_job()), set()),
    ],
)
def test_a_workload_reserves_the_names_of_its_gangs_and_members(workload: Any, names: set[str]) -> None:
    assert names_of(workload) == names


@pytest.mark.parametrize(
    ("workload", "at"),
    [
        (Job(job(scheduling={})), "spec.scheduling"),
        (JobSet(job_set(scheduling={})), "spec.scheduling"),
        (JobSet(job_set(replicated("a", job={"scheduling": {}}))), "spec.replicatedJobs[0].template.spec.scheduling"),
        (LeaderWorkerSet(leader_worker_set(scheduling={})), "spec.scheduling"),
        (Job(job()), None),
    ],
)
def test_the_field_that_asks_a_workload_s_own_controller_for_a_gang_is_found(workload: Any, at: str | None) -> None:
    found = workload.native_path
    assert (None if found is None else str(found)) == at
    assert (no_gang(workload) is None) is (at is None)


def test_exclusive_topology_is_reported_with_the_value_of_its_annotation() -> None:
    (found,) = JobSet(job_set(annotations={EXCLUSIVE: "rack"})).hindrances
    assert (str(found.at), found.value) == (f"metadata.annotations[{EXCLUSIVE}]", "rack")
