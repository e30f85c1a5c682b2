"""The gangs of workloads as shapes: who is in them, in which domains, and how many more are equal."""

from __future__ import annotations

from typing import Any

from webhook.fit.gang_shapes import MOST_LISTED, GangShape, shapes_of_set, shapes_of_workload
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import GroveGeneration
from webhook.model.known_objects import TopologyBinding
from webhook.model.reading import Manifest
from webhook.offline.judgement import STOCK_RUNTIMES
from webhook.validators.examples import (
    clique,
    job,
    job_set,
    leader_worker_set,
    pod_clique_set,
    replicated,
    required,
    runtimes,
    scaling_group,
    train_job,
)
from webhook.workloads.job import Job
from webhook.workloads.jobset import EXCLUSIVE, NODE_SELECTOR, JobSet
from webhook.workloads.leaderworkerset import SUBGROUP_EXCLUSIVE, LeaderWorkerSet
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import ANCESTOR, TrainJob

BINDING = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"zone": "example.com/zone", "rack": "example.com/rack"})}
)


def of_set(manifest: Manifest, facts: ClusterFacts = BINDING, **fields: Any) -> list[GangShape]:
    manifest["spec"] |= fields
    return shapes_of_set(PodCliqueSet(manifest), "koord-scheduler", facts)


def counts(shape: GangShape) -> dict[str, tuple[str, int, int]]:
    return {member.name: (member.called, member.minimum, member.pods) for member in shape.members}


def test_the_first_gang_has_the_cliques_and_the_least_replicas_of_scaling_groups() -> None:
    manifest = pod_clique_set(
        clique("router", replicas=3, minimum=2),
        clique("prefill", replicas=2),
        clique("decode", replicas=4, minimum=3),
        groups=[scaling_group("inference", "prefill", "decode", replicas=5, minAvailable=2)],
    )
    first, further = of_set(manifest, replicas=3)
    assert first.name == "demo-0-<epoch>"
    assert counts(first) == {
        "demo-0-router": ("router", 2, 3),
        "demo-0-inference-prefill": ("prefill", 4, 4),
        "demo-0-inference-decode": ("decode", 6, 8),
    }
    assert first.more == 2
    assert further.name == "demo-0-<epoch>-inference-2"
    assert counts(further) == {
        "demo-0-inference-2-prefill": ("prefill", 2, 2),
        "demo-0-inference-2-decode": ("decode", 3, 4),
    }
    assert further.more == 3 * 3 - 1


def test_replicas_that_require_a_domain_are_listed_one_by_one() -> None:
    group = scaling_group("sg", "worker", replicas=2, minAvailable=2, topologyConstraint=required("rack"))
    (shape,) = of_set(pod_clique_set(clique("worker"), groups=[group], topologyConstraint=required("zone")))
    assert counts(shape) == {
        "demo-0-sg-0-worker": ("worker", 2, 2),
        "demo-0-sg-1-worker": ("worker", 2, 2),
    }
    assert shape.required == "example.com/zone"
    assert str(shape.required_at) == "spec.template.topologyConstraint.pack.required"
    assert [(one.name, one.members, one.required) for one in shape.subsets] == [
        ("demo-0-sg-0", ("demo-0-sg-0-worker",), "example.com/rack"),
        ("demo-0-sg-1", ("demo-0-sg-1-worker",), "example.com/rack"),
    ]
    assert shape.left_out == ()


def test_a_clique_s_own_domain_is_its_member_s() -> None:
    (shape,) = of_set(pod_clique_set(clique("worker", topologyConstraint=required("rack"))))
    (member,) = shape.members
    assert member.required == "example.com/rack"
    assert str(member.required_at) == "spec.template.cliques[0].topologyConstraint.pack.required"


def test_many_replicas_with_domains_are_counted_and_said_to_be_left_out() -> None:
    group = scaling_group("sg", "worker", replicas=10**9, minAvailable=10**9, topologyConstraint=required("rack"))
    (shape,) = of_set(pod_clique_set(clique("worker", replicas=2), groups=[group]))
    assert len(shape.members) == MOST_LISTED + 1
    assert len(shape.subsets) == MOST_LISTED
    assert sum(member.minimum for member in shape.members) == 2 * 10**9
    (left_out,) = shape.left_out
    assert f"of sg above {MOST_LISTED}" in left_out


def test_up_to_alpha_11_a_further_gang_requires_the_domain_of_its_group_as_a_whole() -> None:
    group = scaling_group("sg", "worker", replicas=2, topologyConstraint=required("rack"))
    manifest = pod_clique_set(clique("worker"), groups=[group], topologyConstraint=required("zone"))
    legacy = shapes_of_set(PodCliqueSet(manifest), "koord-scheduler", BINDING, GroveGeneration.LEGACY)
    assert [(shape.name, shape.required, len(shape.subsets)) for shape in legacy] == [
        ("demo-0", "example.com/zone", 1),
        ("demo-0-sg-0", "example.com/rack", 0),
    ]
    newest = of_set(manifest)
    assert [(shape.name, shape.required, len(shape.subsets)) for shape in newest] == [
        ("demo-0-<epoch>", "example.com/zone", 1),
        ("demo-0-<epoch>-sg-1", "example.com/zone", 1),
    ]


def test_a_domain_whose_binding_is_unknown_is_left_out_and_said_to_be() -> None:
    manifest = pod_clique_set(topologyConstraint=required("rack"))
    (shape,) = of_set(manifest, NO_FACTS)
    assert (shape.required, shape.left_out) == (None, ("the ClusterTopologyBinding dc",))


def test_a_domain_that_the_binding_lacks_is_dropped_as_by_grove() -> None:
    (shape,) = of_set(pod_clique_set(topologyConstraint=required("row")))
    assert (shape.required, shape.left_out) == (None, ())


def test_a_set_without_replicas_or_being_deleted_has_no_gang() -> None:
    assert of_set(pod_clique_set(), replicas=0) == []
    manifest = pod_clique_set()
    manifest["metadata"]["deletionTimestamp"] = "2026-11-01T10:00:00Z"
    assert of_set(manifest) == []


def test_a_job_is_one_gang_of_the_pods_that_it_has_at_once() -> None:
    (shape,) = shapes_of_workload(Job(job(parallelism=4, completions=4)))
    assert counts(shape) == {"demo-demo": ("demo", 4, 4)}
    assert [str(member.at) for member in shape.members] == ["spec.template"]


def test_a_job_set_is_one_gang_and_one_in_turn_has_one_for_each_part() -> None:
    leader, worker = replicated("leader", 1), replicated("worker", 2, replicas=3)
    (whole,) = shapes_of_workload(JobSet(job_set(leader, worker)))
    assert [(one.called, one.minimum) for one in whole.members] == [("leader", 1), ("worker", 6)]
    in_turn = job_set(leader, worker, startupPolicy={"startupPolicyOrder": "InOrder"})
    apart = shapes_of_workload(JobSet(in_turn))
    assert [[(one.called, one.minimum) for one in shape.members] for shape in apart] == [
        [("leader", 1)],
        [("worker", 6)],
    ]


def test_a_leader_worker_set_has_one_gang_for_each_group_and_its_pods_are_one_role_if_their_template_is_one() -> None:
    (shape,) = shapes_of_workload(LeaderWorkerSet(leader_worker_set(replicas=5)))
    assert sum(member.minimum for member in shape.members) == 3
    assert len(shape.members) == 1
    assert shape.more == 4


SELECTED = {EXCLUSIVE: "rack", NODE_SELECTOR: "true"}


def test_pods_that_job_set_gives_nodes_of_their_own_tolerate_the_taint_of_these_nodes() -> None:
    for annotated in (
        job_set(annotations=SELECTED),
        job_set(replicated("worker", 2, metadata={"annotations": SELECTED})),
    ):
        (shape,) = shapes_of_workload(JobSet(annotated))
        assert [one["key"] for one in shape.members[0].template.spec["tolerations"]] == [
            "alpha.jobset.sigs.k8s.io/no-schedule"
        ]
        assert shape.left_out, "JobSet adds node labels that the template does not show"


def test_exclusive_topology_keeps_a_gang_from_being_said_to_fit() -> None:
    (of_jobs,) = shapes_of_workload(JobSet(job_set(replicated("worker", 1), annotations={EXCLUSIVE: "rack"})))
    group = leader_worker_set(annotations={SUBGROUP_EXCLUSIVE: "rack"})
    (of_group,) = shapes_of_workload(LeaderWorkerSet(group))
    (plain,) = shapes_of_workload(LeaderWorkerSet(leader_worker_set()))
    assert ["JobSet" in why for why in of_jobs.left_out] == [True]
    assert ["LeaderWorkerSet" in why for why in of_group.left_out] == [True]
    assert plain.left_out == ()


def test_a_workload_that_is_over_or_that_another_cluster_runs_has_no_gang() -> None:
    over = job()
    over["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert shapes_of_workload(Job(over)) == []
    assert shapes_of_workload(Job(job(managedBy="kueue.x-k8s.io/multikueue"))) == []


def test_a_train_job_that_states_resources_is_judged_by_these() -> None:
    facts = runtimes(replicated("node", 2))
    ((_, runtime),) = (facts.cluster_training_runtimes or {}).items()
    plain = TrainJob(train_job())
    assert len(shapes_of_workload(plain.job_set_of(runtime))) == 1
    stated = train_job()
    stated["spec"]["trainer"] = {"resourcesPerNode": {"requests": {"nvidia.com/gpu": "1"}}}
    (shape,) = shapes_of_workload(TrainJob(stated).job_set_of(STOCK_RUNTIMES["torch-distributed"]))
    assert [one.template.resources for one in shape.members] == [{"nvidia.com/gpu"}]
    # Releases of Trainer differ in what MPI's launcher gets.
    assert shapes_of_workload(TrainJob(stated).job_set_of(STOCK_RUNTIMES["mlx-distributed"])) == []
    # Trainer gives them to no container of another name.
    (other,) = shapes_of_workload(TrainJob(stated).job_set_of(_named("main")))
    assert [one.template.resources for one in other.members] == [set()]


def _named(container: str) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": container}]}}
    template = {"metadata": {"labels": {ANCESTOR: "trainer"}}, "spec": {"template": pod}}
    jobs = [{"name": "node", "template": template}]
    return {"metadata": {"name": "x"}, "spec": {"mlPolicy": {}, "template": {"spec": {"replicatedJobs": jobs}}}}
