"""The object that an AdmissionCheck of Kueue is answered for: the owner of the Workload, or that of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.reconciler.kueue_api import Answering, KueueApi, check, faulty, owner, workload


@pytest.mark.parametrize(
    ("owners", "stored", "message"),
    [
        pytest.param(
            [{"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "earlier", "controller": True}],
            faulty(),
            "not judged: its Job demo was not found",
            id="an earlier object of the name",
        ),
        pytest.param([], faulty(), "not judged: it has no owner", id="no owner"),
        pytest.param(
            [{"apiVersion": "example.com/v1", "kind": "Farm", "name": "demo", "uid": "u", "controller": True}],
            faulty(),
            Text("not judged: ", "no rules about Farm"),
            id="another kind",
        ),
        pytest.param(
            [{"apiVersion": "batch/v1", "kind": "Job", "name": "../../pods", "uid": "u", "controller": True}],
            faulty(),
            "not judged: its Job ../../pods was not found",
            id="no name",
        ),
        pytest.param(
            [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "u"}],
            faulty(),
            "not judged: its Pod gone was not found",
            id="a pod that is gone",
        ),
    ],
)
async def test_a_workload_without_a_known_object_is_ready(
    owners: list[dict[str, Any]], stored: dict[str, Any], message: str
) -> None:
    api = KueueApi(check(), stored, workload(owners=owners))
    await Answering(api).settle()
    assert [(one["state"], one["message"]) for one in api.entries()] == [("Ready", message)]


async def test_a_pod_group_is_judged_by_the_job_of_its_pods() -> None:
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "uid-demo", "controller": True}
    references = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{index}", "uid": f"p{index}"} for index in range(20)]
    api = KueueApi(check(), faulty(), workload(owners=references))
    for one in references:
        metadata = {"name": one["name"], "namespace": "default", "uid": one["uid"], "ownerReferences": [controller]}
        api.put("/api/v1/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})
    await Answering(api).settle()
    assert api.states() == ["Rejected"]
    # The first pod leads to the Job, whose fault decides.
    assert [path for path in api.read if "/pods/" in path] == ["/api/v1/namespaces/default/pods/p0"]


CLEAN = {"apiVersion": "batch/v1", "kind": "Job", "name": "clean", "uid": "uid-clean"}


@pytest.mark.parametrize(
    "owners",
    [
        [CLEAN, {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "uid-demo", "controller": True}],
        [CLEAN, {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "p0"}],
    ],
    ids=["of a job", "of pods"],
)
async def test_an_owner_that_a_user_has_added_does_not_hide_the_others(owners: list[dict[str, Any]]) -> None:
    clean = owner()
    clean["metadata"] |= {"name": "clean", "uid": "uid-clean"}
    api = KueueApi(check(), faulty(), clean, workload(owners=owners))
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "uid-demo", "controller": True}
    pod = {"name": "p0", "namespace": "default", "uid": "p0", "ownerReferences": [controller]}
    api.put("/api/v1/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": {}})
    await Answering(api).settle()
    assert api.states() == ["Rejected"]


async def test_at_most_eight_pods_of_a_group_are_read() -> None:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{index}", "uid": f"p{index}"} for index in range(20)]
    api = KueueApi(check(), workload(owners=references))
    for one in references:
        metadata = {"name": one["name"], "namespace": "default", "uid": one["uid"]}
        api.put("/api/v1/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})
    await Answering(api).settle()
    assert api.states() == ["Ready"]
    assert len([path for path in api.read if "/pods/" in path]) == 8
