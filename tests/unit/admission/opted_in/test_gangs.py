"""The gang objects of Jobs, JobSets and LeaderWorkerSets, for each scheduler whose gangs Rollcall creates."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import (
    EVERY,
    job_pod,
    job_set_pod,
    known,
    leader_pod,
    mutate,
    recorded,
    schedulers,
    worker_pod,
)
from webhook.config.settings import Settings
from webhook.model.facts import ClusterFacts
from webhook.model.keys import cut_name
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import OptedInGang, gangs_of, group_gang
from webhook.workloads.opted_in_workload import OptedInWorkload

UID = "7c1f"


def _stored(manifest: Manifest) -> Manifest:
    manifest["metadata"]["uid"] = UID
    return manifest


def _objects(
    gang: OptedInGang, workload: OptedInWorkload, scheduler: str, settings: Settings = EVERY
) -> list[Manifest]:
    backend = settings.profiles[scheduler].backend
    found = backend.gang_objects(gang, workload.record, ClusterFacts())
    return [backend.adopt(one, None) for one in found]


def _owner(kind: str, version: str) -> list[dict[str, Any]]:
    owner = {"apiVersion": version, "kind": kind, "name": "demo", "uid": UID}
    return [{**owner, "controller": True, "blockOwnerDeletion": True}]


def _labels(gang: str, member: str | None = None) -> dict[str, str]:
    own = {} if member is None else {"rollcall.dev/gang-member": member}
    return {"app.kubernetes.io/managed-by": "rollcall", "rollcall.dev/gang": gang, **own}


def _koordinator(name: str, gang: str, members: list[str], minimum: int, owner: list[dict[str, Any]]) -> Manifest:
    listed = ",".join(f'"default/{member}"' for member in members)
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": _labels(gang, name),
            "annotations": {
                "gang.scheduling.koordinator.sh/groups": f"[{listed}]",
                "gang.scheduling.koordinator.sh/mode": "Strict",
                "gang.scheduling.koordinator.sh/match-policy": "waiting-and-running",
                "gang.scheduling.koordinator.sh/total-number": str(minimum),
            },
            "ownerReferences": owner,
        },
        "spec": {"minMember": minimum, "scheduleTimeoutSeconds": 600},
    }


JOB_SET = "jobset.x-k8s.io/v1alpha2"
LWS = "leaderworkerset.x-k8s.io/v1"


def test_for_koordinator_a_job_becomes_one_pod_group() -> None:
    workload = Job(_stored(job(parallelism=4, completions=4)))
    (gang,) = gangs_of(workload)
    owner = _owner("Job", "batch/v1")
    assert _objects(gang, workload, "koord-scheduler") == [_koordinator("demo", "demo", ["demo"], 4, owner)]


def test_for_koordinator_a_jobset_becomes_one_gang_group_with_a_pod_group_per_part() -> None:
    workload = JobSet(
        _stored(job_set(replicated("driver", 1), replicated("worker", 4, replicas=2), replicated("no", 0)))
    )
    (gang,) = gangs_of(workload)
    both, owner = ["demo-driver", "demo-worker"], _owner("JobSet", JOB_SET)
    assert _objects(gang, workload, "koord-scheduler") == [
        _koordinator("demo-driver", "demo", both, 1, owner),
        _koordinator("demo-worker", "demo", both, 8, owner),
    ]


def test_each_part_of_a_jobset_that_starts_in_turn_is_a_separate_gang() -> None:
    parts = replicated("data", 1), replicated("node", 4, dependsOn=[{"name": "data", "status": "Complete"}])
    workload = JobSet(_stored(job_set(*parts)))
    owner = _owner("JobSet", JOB_SET)
    assert [one for gang in gangs_of(workload) for one in _objects(gang, workload, "koord-scheduler")] == [
        _koordinator("demo-data", "demo-data", ["demo-data"], 1, owner),
        _koordinator("demo-node", "demo-node", ["demo-node"], 4, owner),
    ]


def test_each_group_of_a_leaderworkerset_is_a_gang_labelled_with_its_revision() -> None:
    workload = LeaderWorkerSet(_stored(leader_worker_set(size=3)))
    name, owner = "demo-1-5f8", _owner("LeaderWorkerSet", LWS)
    found = _objects(group_gang(workload, "1-5f8"), workload, "koord-scheduler")
    assert found == [_koordinator(name, name, [name], 3, owner)]
    assert [gang.name for gang in gangs_of(workload)] == ["demo-0", "demo-1"]


def test_volcano_gets_one_pod_group_with_a_subgroup_for_each_part() -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "team-a"}
    manifest = job_set(replicated("driver", 1), replicated("worker", 4), annotations=annotations)
    workload = JobSet(_stored(manifest))
    (gang,) = gangs_of(workload)

    def subgroup(name: str, size: int) -> dict[str, Any]:
        return {
            "name": name,
            "labelSelector": {"matchLabels": {"rollcall.dev/gang-member": name}},
            "matchLabelKeys": ["rollcall.dev/gang-member"],
            "subGroupSize": size,
            "minSubGroups": 1,
        }

    assert _objects(gang, workload, "volcano") == [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": "demo",
                "namespace": "default",
                "labels": _labels("demo"),
                "ownerReferences": _owner("JobSet", JOB_SET),
            },
            "spec": {
                "minMember": 5,
                "queue": "team-a",
                "subGroupPolicy": [subgroup("demo-driver", 1), subgroup("demo-worker", 4)],
            },
        }
    ]


def _kube(generation: str, **config: Any) -> Settings:
    return schedulers(
        {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": generation, **config}}
    )


def _made(kind: str, version: str, name: str, spec: Manifest, member: str | None = None) -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": _labels("demo", member)}
    owned = {**metadata, "ownerReferences": _owner("JobSet", JOB_SET)}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": owned, "spec": spec}


def _two() -> JobSet:
    high = pod_template({"priorityClassName": "high"})
    return JobSet(_stored(job_set(replicated("driver", 1, template=high), replicated("worker", 4, template=high))))


GANG_OF_FIVE = {"gang": {"minCount": 5}}


def test_kubernetes_1_35_gets_a_workload_with_all_parts_merged() -> None:
    workload = _two()
    (gang,) = gangs_of(workload)
    assert _objects(gang, workload, "default-scheduler", _kube("v1alpha1")) == [
        _made("Workload", "v1alpha1", "demo", {"podGroups": [{"name": "gang", "policy": GANG_OF_FIVE}]})
    ]


def test_kubernetes_1_36_gets_a_workload_and_a_pod_group_with_all_parts_merged() -> None:
    workload = _two()
    (gang,) = gangs_of(workload)
    reference = {"workload": {"workloadName": "demo", "podGroupTemplateName": "gang"}}
    together = {"priorityClassName": "high", "disruptionMode": "PodGroup"}
    templates = [{"name": "gang", "schedulingPolicy": GANG_OF_FIVE, **together}]
    group = {"podGroupTemplateRef": reference, "schedulingPolicy": GANG_OF_FIVE, **together}
    assert _objects(gang, workload, "default-scheduler", _kube("v1alpha2")) == [
        _made("Workload", "v1alpha2", "demo", {"podGroupTemplates": templates}),
        _made("PodGroup", "v1alpha2", "demo", group),
    ]


def test_kubernetes_1_37_gets_a_tree_with_a_leaf_for_each_part() -> None:
    workload = _two()
    (gang,) = gangs_of(workload)
    root = {"gang": {"minGroupCount": 2}}
    shared: Manifest = {"priorityClassName": "high", "disruptionMode": {"all": {}}}

    def leaf(name: str, pods: int) -> Manifest:
        return {"name": name, "schedulingPolicy": {"gang": {"minCount": pods}}, **shared}

    def pod_group(name: str, pods: int) -> Manifest:
        spec = {
            "parentCompositePodGroupName": "demo.composite",
            "workloadRef": {"workloadName": "demo", "templateName": name},
            "schedulingPolicy": {"gang": {"minCount": pods}},
            **shared,
        }
        return _made("PodGroup", "v1beta1", name, spec, name)

    template: Manifest = {"name": "root", "schedulingPolicy": root, **shared}
    template["podGroupTemplates"] = [leaf("demo-driver", 1), leaf("demo-worker", 4)]
    composite = {"workloadRef": {"workloadName": "demo", "templateName": "root"}, "schedulingPolicy": root, **shared}
    assert _objects(gang, workload, "default-scheduler", _kube("v1beta1")) == [
        _made("Workload", "v1beta1", "demo", {"compositePodGroupTemplates": [template]}),
        _made("CompositePodGroup", "v1alpha3", "demo.composite", composite),
        pod_group("demo-driver", 1),
        pod_group("demo-worker", 4),
    ]


LONG = "n" * 60
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")


@pytest.mark.parametrize("scheduler", ["koord-scheduler", "volcano", "default-scheduler"])
@pytest.mark.parametrize(
    ("workload", "group", "pods"),
    [
        (
            LeaderWorkerSet(leader_worker_set(scheduler=None)),
            "0-5f8d7c9b4",
            [
                leader_pod(LONG, 0, recorded(), revision="5f8d7c9b4"),
                worker_pod(LONG, 0, 1, recorded(), revision="5f8d7c9b4"),
            ],
        ),
        (JobSet(job_set(replicated("node"), scheduler=None)), None, [job_set_pod(LONG, "node", 0, recorded())]),
        (Job(job(scheduler=None)), None, [job_pod(LONG, recorded())]),
    ],
    ids=["leader worker set", "jobset", "job"],
)
def test_pods_and_objects_agree_on_names_of_any_length(
    scheduler: str, workload: OptedInWorkload, group: str | None, pods: list[Manifest]
) -> None:
    manifest = {**workload.raw, "metadata": {**workload.raw["metadata"], "name": LONG, "uid": UID}}
    manifest["metadata"]["labels"] = {"rollcall.dev/scheduler": scheduler}
    facts = known(manifest)
    own = type(workload)(manifest)
    gang = group_gang(own, group) if isinstance(own, LeaderWorkerSet) and group else next(iter(gangs_of(own)))
    objects = _objects(gang, own, scheduler)
    for pod in pods:
        found, verdict = mutate(pod, facts=facts)
        assert verdict.patch
        metadata = found["metadata"]
        labels = metadata["labels"]
        assert all(LABEL_VALUE.match(labels[key]) for key in labels.keys() - pod["metadata"]["labels"].keys())
        groups = {one["metadata"]["name"]: one for one in objects if one["kind"] == "PodGroup"}
        if scheduler == "koord-scheduler":
            assert labels["pod-group.scheduling.sigs.k8s.io"] in groups
        elif scheduler == "volcano":
            named = groups[metadata["annotations"]["scheduling.k8s.io/group-name"]]
            (policy,) = named["spec"]["subGroupPolicy"]
            assert policy["labelSelector"]["matchLabels"].items() <= labels.items()
        else:
            assert found["spec"]["schedulingGroup"]["podGroupName"] in groups
        for one in objects:
            assert one["metadata"]["labels"]["rollcall.dev/gang"] == labels["rollcall.dev/gang"]
            assert labels["rollcall.dev/gang"] == cut_name(gang.name, 63)
