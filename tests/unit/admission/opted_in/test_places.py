"""The gang of a pod, found by the pod's controller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import job_pod, job_set_pod, leader_pod, worker_pod
from webhook.model.keys import Needed
from webhook.model.place import Membership, Place, membership, place_of
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest


@pytest.mark.parametrize(
    ("pod", "place", "gang"),
    [
        (job_pod("demo"), Place(Needed("jobs", ("default", "demo"))), Membership("demo", "demo")),
        (
            job_set_pod("demo", "node", 3),
            Place(Needed("job_sets", ("default", "demo")), "node"),
            Membership("demo", "demo-node"),
        ),
        (
            leader_pod("demo", 2),
            Place(Needed("leader_worker_sets", ("default", "demo")), "", "2-5f8"),
            Membership("demo-2-5f8", "demo-2-5f8"),
        ),
        (
            worker_pod("demo", 2, 1),
            Place(Needed("leader_worker_sets", ("default", "demo")), "", "2-5f8"),
            Membership("demo-2-5f8", "demo-2-5f8"),
        ),
        (
            # A LeaderWorkerSet may be called as another one's group is.
            leader_pod("demo-0", 1),
            Place(Needed("leader_worker_sets", ("default", "demo-0")), "", "1-5f8"),
            Membership("demo-0-1-5f8", "demo-0-1-5f8"),
        ),
    ],
    ids=["job", "jobset", "leader", "worker", "leader of a numbered set"],
)
def test_a_pod_is_assigned_to_a_gang_by_its_controller(pod: Manifest, place: Place, gang: Membership) -> None:
    found = place_of(Pod(pod))
    assert found == place
    assert membership(place, sequenced=False) == gang


def test_parts_that_start_in_turn_are_separate_gangs() -> None:
    place = place_of(Pod(job_set_pod("demo", "node")))
    assert place is not None
    assert membership(place, sequenced=True) == Membership("demo-node", "demo-node")


def _controlled(pod: Manifest, **reference: Any) -> Manifest:
    pod["metadata"]["ownerReferences"][0].update(reference)
    return pod


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {"name": "alone", "labels": {"jobset.sigs.k8s.io/jobset-name": "demo"}}},
        _controlled(job_pod("demo"), controller=False),
        _controlled(job_pod("demo"), apiVersion="batch.volcano.sh/v1alpha1"),
        _controlled(job_pod("demo"), kind="ReplicaSet"),
        _controlled(leader_pod("demo", 0), kind="ReplicaSet"),
        _controlled(leader_pod("demo", 0), name="database"),
        _controlled(worker_pod("demo", 0, 1), name="other-0"),
        _controlled(worker_pod("demo", 0, 1), name="demo-x"),
        {**leader_pod("demo", 0), "metadata": {**leader_pod("demo", 0)["metadata"], "name": "demo-٣"}},
    ],
    ids=[
        "no controller",
        "an owner that is no controller",
        "Volcano's own Job",
        "another kind",
        "another kind with a LeaderWorkerSet's labels",
        "another StatefulSet with a LeaderWorkerSet's labels",
        "another set's leader",
        "no group's number",
        "digits that are none of Kubernetes'",
    ],
)
def test_labels_alone_assign_no_pod_to_a_gang(pod: Manifest) -> None:
    assert place_of(Pod(pod)) is None


def test_a_job_with_a_jobset_s_labels_is_still_its_own_workload() -> None:
    pod = job_set_pod("victim", "node")
    pod["metadata"]["ownerReferences"][0]["name"] = "intruder"
    assert place_of(Pod(pod)) == Place(Needed("jobs", ("default", "intruder")))


def test_of_several_owner_references_the_controller_counts() -> None:
    pod = job_pod("demo")
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "demo", "uid": "2"}
    pod["metadata"]["ownerReferences"].insert(0, group)
    assert place_of(Pod(pod)) == Place(Needed("jobs", ("default", "demo")))
