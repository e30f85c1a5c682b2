"""A PodGang's PodGroup, against one written out by hand, and what is refused."""

from __future__ import annotations

import pytest

from rollcall_scheduler_plugins.backend import SchedulerPluginsBackend
from rollcall_scheduler_plugins.settings import SchedulerPluginsSettings
from webhook.errors import Inexpressible
from webhook.model.facts import NO_FACTS
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.reading import Manifest

RECORD = Record("batch-scheduler")


def member(name: str, minimum: int, pods: int) -> Manifest:
    references = [{"namespace": "ml", "name": f"{name}-{index}"} for index in range(pods)]
    return {"name": name, "minReplicas": minimum, "podReferences": references}


def podgang(*members: Manifest) -> PodGang:
    owner = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "name": "demo",
        "uid": "u-1",
        "controller": True,
    }
    metadata = {"name": "demo-0", "namespace": "ml", "uid": "u-2", "ownerReferences": [owner]}
    return PodGang({"kind": "PodGang", "metadata": metadata, "spec": {"podgroups": list(members)}})


def objects(*members: Manifest) -> list[Manifest]:
    backend = SchedulerPluginsBackend(SchedulerPluginsSettings(scheduleTimeoutSeconds=300))
    return backend.gang_objects(podgang(*members), RECORD, NO_FACTS)


def test_a_podgang_is_one_podgroup_of_all_its_pods() -> None:
    assert objects(member("demo-0-leader", 1, 1), member("demo-0-worker", 4, 4)) == [
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {
                "name": "demo-0",
                "namespace": "ml",
                "labels": {
                    "app.kubernetes.io/managed-by": "rollcall",
                    "grove.io/podgang": "demo-0",
                    "rollcall.dev/gang": "demo-0",
                },
                "annotations": {"rollcall.dev/members": "demo-0-leader,demo-0-worker"},
                "ownerReferences": [
                    {
                        "apiVersion": "grove.io/v1alpha1",
                        "kind": "PodCliqueSet",
                        "name": "demo",
                        "uid": "u-1",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {"minMember": 5, "scheduleTimeoutSeconds": 300},
        }
    ]


def test_a_gang_of_one_clique_may_have_pods_to_spare() -> None:
    assert [found["spec"]["minMember"] for found in objects(member("demo-0-worker", 2, 4))] == [2]


def test_pods_to_spare_among_several_cliques_are_refused() -> None:
    with pytest.raises(Inexpressible, match="scheduler-plugins/spare-pods"):
        objects(member("demo-0-leader", 1, 1), member("demo-0-worker", 2, 4))
