"""Pods of living workloads that are created as dry runs: what the API server would store is compared with what Rollcall
writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.texts import Text
from tests.unit.operations.findings import reported, unknown
from tests.unit.operations.test_snapshot import Cluster
from webhook.admission.pod_admission import mutate_pod
from webhook.config.settings import Settings
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api, Record
from webhook.model.pod_template import Pod
from webhook.model.projections import key_of
from webhook.model.reading import Manifest
from webhook.operations.api_checks import OF_137
from webhook.operations.diagnosis import (
    Severity,
    configured,
    examine,
    example_object,
    installed,
    namespace,
    pod_clique_set,
)
from webhook.operations.neighbour_checks import pods_kept
from webhook.operations.snapshot import POD_CLIQUE_SETS_PART, Snapshot, Unread
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.known_workloads import WorkloadFacts, workload_facts
from webhook.workloads.leaderworkerset import LeaderWorkerSet

CHECK = "webhooks/pods-kept"
GATE = "rollcall.dev/gang-sync"
KUBE = {"name": "default-scheduler", "config": {"gangScheduling": True}}
POD_SPEC = {"containers": [{"name": "main", "image": "example.com/main"}]}
LABEL = {"rollcall.dev/scheduler": "koord-scheduler"}


def pod_clique_set_of(scheduler: str, name: str = "demo", within: str = "team-a") -> Manifest:
    """A PodCliqueSet that is recorded for a scheduler."""
    clique = {"name": "worker", "spec": {"replicas": 2, "minAvailable": 2, "podSpec": POD_SPEC}}
    found = pod_clique_set(name, scheduler, within)
    found["metadata"]["labels"] |= {"kai.scheduler/queue": "team-a"}
    return {**found, "spec": {"replicas": 1, "template": {"cliques": [clique]}}}


def job(**metadata: Any) -> Manifest:
    """A Job of two pods for koord-scheduler."""
    template = {"metadata": {"labels": LABEL}, "spec": {**POD_SPEC, "restartPolicy": "Never"}}
    found = example_object(
        "batch/v1", "Job", "train", LABEL, "team-a", spec={"parallelism": 2, "completions": 2, "template": template}
    )
    found["metadata"] |= {"uid": "7", **metadata}
    return found


def job_set() -> Manifest:
    """A JobSet of one Job."""
    raw = example_object("jobset.x-k8s.io/v1alpha2", "JobSet", "set", LABEL, "team-a")
    raw["metadata"]["uid"] = "8"
    replicated = {"name": "worker", "replicas": 1, "template": {"spec": job()["spec"]}}
    return {**raw, "spec": {"replicatedJobs": [replicated]}}


def leader_worker_set() -> Manifest:
    """A LeaderWorkerSet of one group."""
    raw = example_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", LABEL, "team-a")
    worker = {"metadata": {"labels": LABEL}, "spec": POD_SPEC}
    return {**raw, "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}}}


class Admitting(Cluster):
    """An API server with Rollcall's webhook, and with one that changes pods after it."""

    def __init__(
        self,
        settings: Settings,
        *workloads: Manifest,
        late: Callable[[Manifest], None] = lambda _: None,
        facts: ClusterFacts | None = None,
    ) -> None:
        self.settings, self.late = settings, late
        self.facts = facts or ClusterFacts(
            apis=frozenset(OF_137),
            pod_clique_sets={
                key_of(raw): Record(
                    raw["metadata"]["labels"]["rollcall.dev/scheduler"], queues=(("kai.scheduler/queue", "team-a"),)
                )
                for raw in workloads
                if raw["kind"] == "PodCliqueSet"
            },
            **_opted_in(workloads),
        )
        self.refused: dict[str, str] = {}
        hooks = [
            raw
            for part in installed(settings=settings).parts.values()
            if not isinstance(part, Unread)
            for raw in part
            if raw["kind"].endswith("WebhookConfiguration")
        ]
        apis = frozenset(_api(raw) for raw in workloads)
        super().__init__(*hooks, namespace("team-a"), namespace("team-b"), *workloads, served=apis | set(OF_137))
        for raw in workloads:
            group = f"/apis/{raw['apiVersion']}/{raw['kind'].lower()}s"
            listed = self.answers.get(group, (200, {"items": []}))[1]["items"]
            self.answers[group] = (200, {"items": [*(one for one in listed if one is not raw), raw]})

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The pod after all webhooks; any other answer by its path."""
        if request.method != "POST" or not request.url.path.endswith("/pods"):
            return await super().handle_async_request(request)
        self.asked.append(request)
        assert request.url.params["dryRun"] == "All"
        pod = json.loads(request.content)
        if (why := self.refused.get(pod["metadata"]["namespace"])) is not None:
            return httpx.Response(403, json={"message": why})
        mutate_pod("alice", Pod(pod), self.facts, self.settings)
        self.late(pod)
        return httpx.Response(201, json=pod)

    @property
    def tried(self) -> list[str]:
        """The namespaces in which pods were tried."""
        return [
            one.url.path.split("/")[4]
            for one in self.asked
            if one.method == "POST" and "rollcall-doctor" in str(json.loads(one.content)["metadata"])
            if one.url.path.endswith("/pods") and "rollcall-system" not in one.url.path
        ]


def _api(raw: Manifest) -> Api:
    group, _, version = raw["apiVersion"].partition("/")
    return Api(group, version, raw["kind"])


def _opted_in(workloads: tuple[Manifest, ...]) -> dict[str, Any]:
    views = {
        "Job": ("jobs", Job),
        "JobSet": ("job_sets", JobSet),
        "LeaderWorkerSet": ("leader_worker_sets", LeaderWorkerSet),
    }
    found: dict[str, dict[Any, WorkloadFacts]] = {part: {} for part, _ in views.values()}
    for raw in workloads:
        if raw["kind"] in views:
            part, view = views[raw["kind"]]
            found[part][key_of(raw)] = workload_facts(view(raw))
    return found


def read(cluster: Admitting) -> Snapshot:
    """What the doctor reads of it."""
    return cluster.read(cluster.settings)


EVERY: dict[str, tuple[dict[str, Any], Manifest]] = {
    "koord-scheduler": ({"name": "koord-scheduler"}, pod_clique_set_of("koord-scheduler")),
    "default-scheduler": (KUBE, pod_clique_set_of("default-scheduler")),
    "volcano": ({"name": "volcano", "gate": True}, pod_clique_set_of("volcano")),
    "kai-scheduler": ({"name": "kai-scheduler"}, pod_clique_set_of("kai-scheduler")),
    "scheduler-plugins-scheduler": (
        {"name": "scheduler-plugins-scheduler"},
        pod_clique_set_of("scheduler-plugins-scheduler"),
    ),
    "Job": ({"name": "koord-scheduler"}, job()),
    "JobSet": ({"name": "koord-scheduler"}, job_set()),
    "LeaderWorkerSet": ({"name": "koord-scheduler"}, leader_worker_set()),
}


@pytest.mark.parametrize(("profile", "workload"), EVERY.values(), ids=EVERY)
def test_a_pod_that_keeps_what_rollcall_writes_is_fine_and_one_without_it_is_not(
    profile: dict[str, Any], workload: Manifest
) -> None:
    settings = configured(profile)
    kept = Admitting(settings, workload)
    assert reported(read(kept), CHECK) == []
    assert kept.tried == ["team-a"]

    def forgetting(pod: Manifest) -> None:
        pod["spec"] = dict(POD_SPEC)
        pod["metadata"] = {"namespace": "team-a"}

    ((level, where, _),) = reported(read(Admitting(settings, workload, late=forgetting)), CHECK)
    kind, name = workload["kind"], workload["metadata"]["name"]
    assert (level, where) == (Severity.ERROR, f"the creation of a pod of {kind} team-a/{name} (dry run)")


def without_gate(pod: Manifest) -> None:
    pod["spec"]["schedulingGates"] = [one for one in pod["spec"]["schedulingGates"] if one["name"] != GATE]


def without_group(pod: Manifest) -> None:
    del pod["spec"]["schedulingGroup"]


def elsewhere(pod: Manifest) -> None:
    pod["spec"]["schedulerName"] = "default-scheduler"


def of_another_group(pod: Manifest) -> None:
    pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = "other"


def without_annotation(pod: Manifest) -> None:
    del pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]


LOST: dict[str, tuple[str, Callable[[Manifest], None], list[str]]] = {
    "a gate": ("koord-scheduler", without_gate, [f"spec.schedulingGates lacks {GATE}"]),
    "the scheduler": (
        "koord-scheduler",
        elsewhere,
        ["spec.schedulerName is 'default-scheduler' and not 'koord-scheduler'"],
    ),
    "a membership by a field": ("default-scheduler", without_group, ["spec.schedulingGroup is missing"]),
    "a membership by a label": (
        "koord-scheduler",
        of_another_group,
        [Text("metadata.labels[pod-group.scheduling.sigs.k8s.io]", "'other'")],
    ),
    "a membership by an annotation": (
        "volcano",
        without_annotation,
        ["metadata.annotations[scheduling.k8s.io/group-name] is missing"],
    ),
}


@pytest.mark.parametrize(("scheduler", "late", "lost"), LOST.values(), ids=LOST)
def test_the_field_that_a_later_webhook_takes_is_named(
    scheduler: str, late: Callable[[Manifest], None], lost: list[str]
) -> None:
    profile, workload = EVERY[scheduler]
    snapshot = read(Admitting(configured(profile), workload, late=late))
    assert [found for _, _, found in reported(snapshot, CHECK)] == lost


def test_where_the_server_knew_more_only_what_is_missing_is_said() -> None:
    profile, workload = EVERY["koord-scheduler"]
    other = ClusterFacts(pod_clique_sets={("team-a", "demo"): Record("koord-scheduler", quota="of-another-time")})
    assert reported(read(Admitting(configured(profile), workload, facts=other)), CHECK) == []
    found = reported(read(Admitting(configured(profile), workload, facts=other, late=without_gate)), CHECK)
    assert [said for _, _, said in found] == [f"spec.schedulingGates lacks {GATE}"]


def test_each_scheduler_is_tried_once_and_another_workload_after_a_refusal() -> None:
    settings = configured({"name": "koord-scheduler"}, {"name": "volcano"})
    sets = [
        pod_clique_set_of("koord-scheduler"),
        pod_clique_set_of("koord-scheduler", "other", "team-b"),
        pod_clique_set_of("volcano", "third", "team-b"),
    ]
    cluster = Admitting(settings, *sets)
    cluster.refused["team-a"] = "pods is forbidden: exceeded quota"
    assert reported(read(cluster), CHECK) == []
    assert sorted(cluster.tried) == ["team-a", "team-b", "team-b"]
    cluster.refused["team-b"] = "pods is forbidden: exceeded quota"
    (why,) = unknown(read(cluster), CHECK)
    assert why == Text("PodCliqueSet team-b/other", "exceeded quota", "PodCliqueSet team-b/third")


def test_a_cluster_whose_rules_refuse_pods_of_other_authors_is_no_failure() -> None:
    profile, workload = EVERY["koord-scheduler"]
    cluster = Admitting(configured(profile), workload)
    cluster.refused["team-a"] = 'admission webhook "pods.validate.rollcall.dev" denied: grove/foreign-pod at metadata'
    ((level, _, said),) = reported(read(cluster), CHECK)
    assert (level, said) == (Severity.NOTE, Text("grove/foreign-pod"))


def test_a_workload_that_goes_is_not_tried() -> None:
    profile, workload = EVERY["koord-scheduler"]
    going = {**workload, "metadata": {**workload["metadata"], "deletionTimestamp": "2026-09-01T11:00:00Z"}}
    cluster = Admitting(configured(profile), going)
    assert reported(read(cluster), CHECK) == []
    assert cluster.tried == []


def test_a_missing_right_is_named() -> None:
    profile, workload = EVERY["koord-scheduler"]
    cluster = Admitting(configured(profile), workload)
    cluster.refused["team-a"] = 'User "me" cannot create resource "pods" in API group ""'
    assert unknown(read(cluster), CHECK) == [Text("it takes the right to create pods in team-a")]


def test_a_trial_that_cannot_be_made_hides_no_finding_of_another_scheduler() -> None:
    settings = configured({"name": "koord-scheduler"}, {"name": "volcano"})
    sets = pod_clique_set_of("koord-scheduler"), pod_clique_set_of("volcano", "other", "team-b")
    cluster = Admitting(settings, *sets, late=elsewhere)
    cluster.refused["team-a"] = 'User "me" cannot create resource "pods" in API group ""'
    snapshot = read(cluster)
    for trials in (snapshot.members, tuple(reversed(snapshot.members))):
        diagnosis = examine(replace(snapshot, members=trials), [pods_kept])
        assert [finding.symptom.observation for finding in diagnosis.problems] == [
            "spec.schedulerName is 'default-scheduler' and not 'volcano'"
        ]
        assert [one.why for one in diagnosis.not_known] == [Text("it takes the right to create pods in team-a")]


def test_workloads_that_cannot_be_read_are_unknown() -> None:
    snapshot = read(Admitting(configured(), pod_clique_set_of("koord-scheduler")))
    hidden = replace(
        snapshot, parts={**snapshot.parts, POD_CLIQUE_SETS_PART: Unread("the sets", "HTTP 403")}, members=()
    )
    assert unknown(hidden, CHECK) == ["the sets could not be read: HTTP 403"]


def test_that_files_of_the_api_server_are_not_seen_is_said_until_a_pod_was_compared() -> None:
    profile, workload = EVERY["koord-scheduler"]
    compared = read(Admitting(configured(profile), workload))
    assert compared.version == "v1.37.0"
    assert reported(compared, "webhooks/static") == []
    empty = read(Admitting(configured(profile)))
    assert [where for _, where, _ in reported(empty, "webhooks/static")] == ["the API server v1.37.0"]
    assert reported(replace(empty, version="v1.36.4"), "webhooks/static") == []
    assert reported(replace(empty, version="v1.38.0-beta.0"), "webhooks/static") != []
    assert unknown(replace(empty, version=Unread("the version", "no")), "webhooks/static") != []


def test_no_pod_is_tried_that_rollcall_would_not_prepare() -> None:
    settings = configured(registration={"excludedNamespaces": ["team-a"]})
    excluded = Admitting(settings, pod_clique_set_of("koord-scheduler"))
    unrecorded = Admitting(configured(), pod_clique_set_of("volcano"))
    claimed = pod_clique_set_of("koord-scheduler")
    template = claimed["spec"]["template"]["cliques"][0]
    template["annotations"] = {"scheduling.k8s.io/group-name": "mine"}
    for cluster in (excluded, unrecorded, Admitting(configured(), claimed)):
        assert reported(read(cluster), CHECK) == []
        assert cluster.tried == []
