"""Kueue's objects in files: facts like those of a cluster, and only a part of them where a folder is judged."""

from __future__ import annotations

import pytest

from webhook.errors import InputError
from webhook.model.facts import NO_FACTS
from webhook.model.known_objects import KaiLevels
from webhook.model.kueue_objects import ClusterQueue, Cohort, KueueWorkload, KueueWorkloads, LocalQueue
from webhook.offline.fact_files import facts_from
from webhook.offline.manifests import read_text
from webhook.offline.worlds import one_world

LOCAL_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: research, namespace: team-a}
spec: {clusterQueue: gpus}
"""
CLUSTER_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpus}
spec: {cohort: all, namespaceSelector: {}}
"""
WORKLOADS = """
kind: List
apiVersion: v1
items:
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: Workload
    metadata: {name: job-demo, namespace: team-a, labels: {kueue.x-k8s.io/job-uid: u-1}}
    spec: {queueName: research}
  - apiVersion: scheduling.k8s.io/v1beta1
    kind: Workload
    metadata: {name: demo, namespace: team-a}
    spec: {podGroupTemplates: []}
"""
TOPOLOGIES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/rack}]}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/block}]}
"""


def test_the_queues_of_files_are_known() -> None:
    found = facts_from(read_text(f"{LOCAL_QUEUE}---{CLUSTER_QUEUE}", "facts.yaml"))
    assert found.local_queues == {("team-a", "research"): LocalQueue("gpus")}
    assert found.cluster_queues == {"gpus": ClusterQueue("all", namespaces=True)}
    assert found.cohorts is None
    assert found.partial is None


def test_an_empty_list_makes_a_kind_known() -> None:
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueueList, items: []}"
    found = facts_from(read_text(text, "facts.yaml"))
    assert (found.local_queues, found.cluster_queues) == ({}, None)


def test_kinds_with_the_same_name_are_told_apart_by_their_group() -> None:
    found = facts_from(read_text(f"{WORKLOADS}---{TOPOLOGIES}", "facts.yaml"))
    assert found.kueue_workloads == {("team-a", "job-demo"): KueueWorkload("research", job_uid="u-1")}
    assert isinstance(found.kueue_workloads, KueueWorkloads)
    assert set(found.kueue_workloads.workloads_of_owner("team-a", "u-1")) == {("team-a", "job-demo")}
    assert list(found.workloads or ()) == [("team-a", "demo")]
    assert found.kueue_topologies == {"racks": ("example.com/rack",)}
    assert found.kai_topologies == {"racks": KaiLevels(("example.com/block",))}


def test_a_queue_beside_a_workload_counts_and_others_may_exist() -> None:
    cohort = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: all}}"
    found = one_world(NO_FACTS, read_text(f"{LOCAL_QUEUE}---\n{cohort}", "folder.yaml"))
    assert found.local_queues == {("team-a", "research"): LocalQueue("gpus")}
    assert found.cohorts == {"all": Cohort()}
    assert frozenset({"local_queues", "cohorts"}) <= (found.partial or frozenset())


def test_the_workloads_of_a_folder_are_no_facts() -> None:
    """Kueue makes them: one in a folder says nothing about the cluster."""
    assert one_world(NO_FACTS, read_text(WORKLOADS, "folder.yaml")).kueue_workloads is None


def test_a_malformed_queue_is_reported_at_its_place() -> None:
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: a}, spec: {clusterQueue: 3}}"
    with pytest.raises(InputError, match="LocalQueue: expected a string, found a number"):
        facts_from(read_text(text, "facts.yaml"))
