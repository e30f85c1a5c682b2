"""KAI's podgrouper makes the gangs of the kinds that it knows. Rollcall makes those of the other declared kinds."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.admission.opted_in.worlds import EVERY, known, mutate, schedulers, validate
from tests.unit.workloads.test_roles import made_for, pod, serving
from tests.unit.workloads.workloads import (
    RECORD,
    declared,
    known_shaped,
    pod_of,
    pytorch_job,
    ray_cluster,
    template,
    view,
    with_shapes,
    workload,
)
from tests.unit.worlds import request
from webhook.config.settings import Settings
from webhook.errors import Inexpressible
from webhook.gangs.object_plan import GangPlan, SkipReason, is_elsewhere, plan
from webhook.installation.net_policy import net_policy
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.offline.translation import translated_objects
from webhook.testing.start import may_start
from webhook.validators.examples import job
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of, group_gang

KAI = "kai-scheduler"
QUEUE = "kai.scheduler/queue"
GROUP, SKIP, LEAF = "pod-group-name", "kai.scheduler/skip-podgrouper", "kai.scheduler/subgroup-name"
# The digests are those of the namespace and the gang.
SHARED, FURTHER = "demo-5f8-e0bb6d07", "demo-5f8-decode-1-9c4-a702714e"
TRAINING = declared(
    {
        "for": {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1"]},
        "podLabel": "example.com/training",
        "parts": [
            {
                "name": {"path": "@.name"},
                "each": "$.spec.roles[*]",
                "template": "@.template",
                "pods": {"path": "@.replicas", "default": 1},
                "pod": {"nameLabel": "example.com/role"},
            }
        ],
    }
)
WITH_TRAINING = with_shapes(TRAINING)


def on_kai(manifest: Manifest, **labels: str) -> Manifest:
    """The workload, recorded for KAI, in a queue."""
    found = deepcopy(manifest)
    metadata = found["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), RECORD: KAI, QUEUE: "team-a", **labels}
    return found


def training(**labels: str) -> Manifest:
    roles = [{"name": name, "replicas": pods, "template": template()} for name, pods in (("trainer", 4), ("eval", 1))]
    return on_kai(workload("example.com/v1", "Training", {"roles": roles}), **labels)


def prepared(manifest: Manifest, facts: ClusterFacts, settings: Settings = EVERY) -> Manifest:
    """The pod as admission leaves it, which the net lets start."""
    found, _ = mutate(manifest, facts=facts, settings=settings)
    assert may_start(request(found), facts, settings)
    return found


@pytest.mark.parametrize(
    ("index", "group", "leaf"),
    [(0, SHARED, "demo-5f8-decode-0"), (1, FURTHER, "demo-5f8-decode-1-9c4")],
)
def test_pods_of_a_disaggregated_set_are_in_groups_that_podgrouper_leaves_alone(
    index: int, group: str, leaf: str
) -> None:
    raw = pod(index=index, labels={RECORD: KAI})
    assert not may_start(request({**raw, "spec": {**raw["spec"], "schedulerName": KAI}}), NO_FACTS, EVERY)
    found = prepared(raw, known_shaped(on_kai(serving())))
    metadata = found["metadata"]
    assert found["spec"]["schedulerName"] == KAI
    assert {key: metadata["annotations"][key] for key in (GROUP, SKIP)} == {GROUP: group, SKIP: "true"}
    assert (metadata["labels"][LEAF], metadata["labels"][QUEUE]) == (leaf, "team-a")
    assert metadata["annotations"]["rollcall.dev/stamp"].startswith("kai-scheduler/")


def test_pods_of_a_company_s_own_kind_are_in_their_group() -> None:
    labels = {RECORD: KAI, "example.com/training": "demo", "example.com/role": "trainer"}
    found = prepared(
        pod_of(training(), labels), known_shaped(training(), settings=WITH_TRAINING), settings=WITH_TRAINING
    )
    metadata = found["metadata"]
    assert metadata["annotations"][GROUP].startswith("demo-")
    assert (metadata["labels"][LEAF], metadata["labels"]["rollcall.dev/gang"]) == ("demo-trainer", "demo")


@pytest.mark.parametrize(
    ("manifest", "labels"),
    [
        (ray_cluster(), {"ray.io/cluster": "demo", "ray.io/group": "gpu"}),
        (pytorch_job(), {"training.kubeflow.org/replica-type": "worker"}),
    ],
)
def test_pods_of_kinds_that_podgrouper_knows_get_the_scheduler_and_the_queue_alone(
    manifest: Manifest, labels: dict[str, str]
) -> None:
    raw = pod_of(manifest, {RECORD: KAI, **labels})
    found = prepared(deepcopy(raw), known_shaped(on_kai(manifest)))
    raw["metadata"]["labels"][QUEUE] = "team-a"
    raw["spec"]["schedulerName"] = KAI
    assert found == raw


def test_a_leader_worker_set_alone_is_grouped_by_podgrouper() -> None:
    raw = pod(labels={RECORD: KAI})
    for key in ("name", "role"):
        del raw["metadata"]["labels"][f"disaggregatedset.x-k8s.io/{key}"]
    made = _made("decode").raw
    made["metadata"] = {"name": "demo-5f8-decode", "namespace": "default", "labels": {RECORD: KAI}}
    assert "annotations" not in prepared(raw, known(made))["metadata"]


def test_the_pods_of_a_role_are_rollcall_s_even_if_only_its_leader_worker_set_is_opted_in() -> None:
    """Podgrouper asks the topmost controller, and does not know its kind."""
    made = _made("decode").raw
    found = prepared(pod(labels={RECORD: KAI}), known_shaped(facts=known(made)))
    # Its own group: the set, which would tell how many groups start together, is not opted in.
    assert found["metadata"]["labels"][LEAF] == "demo-5f8-decode-0-9c4"
    planned = plan(_group(LeaderWorkerSet(on_kai(made)), "0-9c4"), NO_FACTS, EVERY)
    assert isinstance(planned, GangPlan)
    assert [leaf["name"] for leaf in planned.objects[0]["spec"]["subGroups"]] == ["demo-5f8-decode-0-9c4"]


def _made(role: str, groups: int = 1) -> LeaderWorkerSet:
    """The LeaderWorkerSet of a role, recorded for KAI."""
    found = made_for(role, groups).raw
    found["metadata"]["labels"][RECORD] = KAI
    return LeaderWorkerSet({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", **found})


def _group(made: LeaderWorkerSet, group: str) -> Any:
    gang = group_gang(made, group)
    gang.grouped_as = EVERY.kinds.grouped_as(made)
    return gang


def test_the_first_groups_of_a_set_are_one_tree_and_a_further_group_is_another() -> None:
    manifest = on_kai(serving("prefill=2", replicas=3))
    shared, prefill, _ = gangs_of(view(manifest))
    planned = [plan(gang, NO_FACTS, EVERY) for gang in (shared, prefill)]
    assert [one.objects for one in planned if isinstance(one, GangPlan)] == [
        [_pod_group("demo", "demo-02c8c86b", {"demo-prefill-0": 2, "demo-prefill-1": 2, "demo-decode-0": 2})],
        [_pod_group("demo-prefill-2", "demo-prefill-2-04c4eb18", {"demo-prefill-2": 2})],
    ]


def _pod_group(gang: str, name: str, minimums: dict[str, int]) -> Manifest:
    owner = {"apiVersion": "disaggregatedset.x-k8s.io/v1", "kind": "DisaggregatedSet", "name": "demo", "uid": "set"}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": "rollcall", "rollcall.dev/gang": gang},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "queue": "team-a",
            "subGroups": [{"name": leaf, "minMember": pods} for leaf, pods in minimums.items()],
        },
    }


def test_a_further_group_is_in_the_queue_of_the_set() -> None:
    """The controller does not copy the labels of a DisaggregatedSet to its LeaderWorkerSets."""
    gang = _group(_made("decode", 2), "1-9c4")
    with pytest.raises(Inexpressible, match="kai/owner-no-queue"):
        plan(gang, NO_FACTS, EVERY)
    gang.above = view(on_kai(serving())).record
    planned = plan(gang, NO_FACTS, EVERY)
    assert isinstance(planned, GangPlan)
    (group,) = planned.objects
    assert (group["metadata"]["name"], group["spec"]["queue"]) == (FURTHER, "team-a")


def test_a_leader_worker_set_without_a_role_is_left_to_podgrouper() -> None:
    alone = _made("decode")
    del alone.raw["metadata"]["ownerReferences"]
    alone.raw["metadata"]["labels"] = {RECORD: KAI}
    gang = _group(LeaderWorkerSet(alone.raw), "0-9c4")
    assert plan(gang, NO_FACTS, EVERY) is SkipReason.SCHEDULER
    assert is_elsewhere(gang, NO_FACTS, EVERY)


@pytest.mark.parametrize("manifest", [ray_cluster(), pytorch_job()], ids=lambda one: one["kind"])
def test_gangs_of_kinds_that_podgrouper_knows_are_left_to_it(manifest: Manifest) -> None:
    for gang in gangs_of(view(on_kai(manifest))):
        assert plan(gang, NO_FACTS, EVERY) is SkipReason.SCHEDULER
        assert is_elsewhere(gang, NO_FACTS, EVERY)


PLACED = {
    "kai.scheduler/topology": "dc",
    "kai.scheduler/topology-required-placement": "example.com/rack",
    "kai.scheduler/topology-preferred-placement": "kubernetes.io/hostname",
}


@pytest.mark.parametrize(
    ("annotations", "constraint"),
    [
        (
            PLACED,
            {
                "topology": "dc",
                "requiredTopologyLevel": "example.com/rack",
                "preferredTopologyLevel": "kubernetes.io/hostname",
            },
        ),
        ({key: value for key, value in PLACED.items() if "-" in key}, None),
        ({}, None),
    ],
)
def test_the_annotations_of_podgrouper_place_the_whole_group(
    annotations: dict[str, str], constraint: dict[str, str] | None
) -> None:
    manifest = on_kai(serving())
    manifest["metadata"]["annotations"] = annotations
    planned = plan(next(gangs_of(view(manifest))), NO_FACTS, EVERY)
    assert isinstance(planned, GangPlan)
    assert planned.objects[0]["spec"].get("topologyConstraint") == constraint


def _queue_of(manifest: Manifest, settings: Settings) -> str | None:
    gang = next(gangs_of(view(manifest, settings)))
    planned = plan(gang, NO_FACTS, settings)
    assert isinstance(planned, GangPlan)
    queue: str = planned.objects[0]["spec"]["queue"]
    return queue


@pytest.mark.parametrize(
    ("own", "of_template", "default", "expected"),
    [
        ("team-a", None, None, "team-a"),
        ("team-a", "team-b", "team-c", "team-a"),
        (None, "team-b", "team-c", "team-b"),
        (None, None, "team-c", "team-c"),
        (None, None, None, None),
    ],
)
def test_the_queue_is_that_of_the_workload_or_its_template_or_the_profile(
    own: str | None, of_template: str | None, default: str | None, expected: str | None
) -> None:
    config = {} if default is None else {"defaultQueue": default}
    settings = with_shapes(TRAINING, settings=schedulers({"name": KAI, "config": config}))
    manifest = training()
    if own is None:
        del manifest["metadata"]["labels"][QUEUE]
    if of_template is not None:
        for role in manifest["spec"]["roles"]:
            role["template"]["metadata"] = {"labels": {QUEUE: of_template}}
    rules = [
        str(found) for found in validate(manifest, settings=settings).denials if found.rule == "kai/owner-no-queue"
    ]
    if expected is not None:
        assert (rules, _queue_of(manifest, settings)) == ([], expected)
    else:
        require_like(rules, ["kai/owner-no-queue at metadata.labels[kai.scheduler/queue]: null: ..."])
        with pytest.raises(Inexpressible, match="kai/owner-no-queue"):
            _queue_of(manifest, settings)


def test_render_shows_the_group_and_a_pod_of_each_part() -> None:
    settings = replace(WITH_TRAINING, standalone=True)
    shown = list(translated_objects(view(training(), settings), settings.profiles[KAI], NO_FACTS, settings))
    assert [(one.comment, one.manifest["kind"]) for one in shown] == [
        (("Training demo, kai-scheduler: gang demo",), "PodGroup"),
        (("Training demo, kai-scheduler: one pod of trainer, of Training demo",), "Pod"),
        (("Training demo, kai-scheduler: one pod of eval, of Training demo",), "Pod"),
    ]
    group, *pods = (one.manifest for one in shown)
    assert {one["metadata"]["annotations"][GROUP] for one in pods} == {group["metadata"]["name"]}
    leaves = [leaf["name"] for leaf in group["spec"]["subGroups"]]
    assert [one["metadata"]["labels"][LEAF] for one in pods] == leaves == ["demo-trainer", "demo-eval"]


def test_what_never_starts_as_a_gang_is_refused_on_kai_too() -> None:
    manifest = on_kai(serving())
    manifest["spec"]["roles"][0]["spec"]["startupPolicy"] = "LeaderReady"
    assert {found.rule for found in validate(manifest).denials} == {"owner/incomplete"}


@pytest.mark.parametrize(("scheduler", "taken"), [(KAI, set()), ("koord-scheduler", {"owner/name-taken"})])
def test_a_group_of_podgrouper_takes_no_name(scheduler: str, taken: set[str]) -> None:
    """It has the uid of its workload in its name."""
    facts = known(job(scheduler=scheduler))
    manifest = training(**{RECORD: scheduler})
    verdict = validate(manifest, facts=facts, settings=WITH_TRAINING)
    assert {found.rule for found in verdict.denials} == taken


def test_the_net_asks_for_a_group_only_where_rollcall_makes_it() -> None:
    registered = replace(EVERY, registration=replace(EVERY.registration, net="Deny"))
    (found,) = (
        one["expression"]
        for one in net_policy(registered, "rollcall-system")[0]["spec"]["validations"]
        if f'variables.profile != "{KAI}"' in one["expression"]
    )
    assert "!(variables.declared && !variables.controllers.exists(o, " in found
    for kind in ("RayCluster", "PyTorchJob", "MPIJob"):
        assert f'o.kind == "{kind}"' in found
    assert "SparkApplication" not in found


def test_a_reconciler_follows_only_the_kinds_whose_gangs_it_makes() -> None:
    of_kai, of_both = schedulers({"name": KAI}), schedulers({"name": KAI}, {"name": "volcano"})
    assert sorted(of_kai.gang_workloads) == [
        "Deployment",
        "DisaggregatedSet",
        "LeaderWorkerSet",
        "SparkApplication",
        "StatefulSet",
    ]
    assert of_both.gang_workloads == of_both.kinds.gang_workloads
    assert schedulers({"name": "lpx-scheduler"}).gang_workloads == {}


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (("batch", "Job"), False),
        (("ray.io", "RayJob"), False),
        (("example.com", "Training"), True),
        (("sparkoperator.k8s.io", "SparkApplication"), True),
    ],
)
def test_a_member_says_whether_rollcall_makes_its_gang(kind: tuple[str, str], made: bool) -> None:
    member = EVERY.profiles[KAI].member("a", "g", "m", Record(KAI), NO_FACTS, grouped_as=kind)
    assert (member.opted_in, member.gang_by_rollcall) == (True, made)
