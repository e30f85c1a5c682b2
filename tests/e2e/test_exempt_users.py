"""Exempt users on a real API server: reviews contain the user name, and writes of exempt users do not call the webhook.
Every user here has all rights; only the names differ.
"""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.control_plane import RECONCILER, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Rollcall
from tests.e2e.gang_writer import path_of, why
from tests.e2e.koordinator_gangs import moved
from tests.e2e.rollcall_server import RollcallServer
from tests.unit.worlds import gang_pod
from webhook.backends.koordinator.gang_groups import pod_group

WRONG = pod_group("leader", settings={"groups": "no JSON"})
RULE = "koordinator/gang-groups-unread"
TENANT = "alice"
WRITER = f"system:serviceaccount:{ROLLCALL_NAMESPACE}:{RECONCILER}"
OPERATOR = "system:serviceaccount:grove-system:grove-operator"


@pytest.fixture
def server(rollcall: Rollcall, plane: ControlPlane) -> RollcallServer:
    return rollcall(plane)


def sent(plane: ControlPlane, user: str, path: str, manifest: Manifest) -> httpx.Response:
    """The answer to a creation that is not kept, by a user with all rights."""
    headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
    return plane.http.post(path, params={"dryRun": "All"}, json=manifest, headers=headers)


def labelled(manifest: Manifest, **metadata: object) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def test_a_tenant_s_object_is_judged_whatever_its_metadata_claims(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    manifest = labelled(moved(WRONG, namespace), labels={"app.kubernetes.io/managed-by": "rollcall"})
    answer = sent(plane, TENANT, path_of(manifest, named=False), manifest)
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(answer)
    assert RULE in answer.json()["message"]


def test_objects_that_the_reconciler_writes_do_not_call_the_webhook(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    before = server.metric("rollcall_admission_requests_total", endpoint="validate", outcome="denied")
    manifest = moved(WRONG, namespace)
    answer = sent(plane, WRITER, path_of(manifest, named=False), manifest)
    assert answer.is_success, why(answer)
    assert answer.headers.get_list("warning") == []
    assert server.metric("rollcall_admission_requests_total", endpoint="validate", outcome="denied") == before


def test_a_pod_with_grove_s_labels_is_reported_unless_grove_s_operator_creates_it(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    pod = gang_pod()
    pod["metadata"]["namespace"] = namespace
    path = f"/api/v1/namespaces/{namespace}/pods"
    found: dict[str, list[str]] = {}
    for user in (OPERATOR, TENANT):
        answer = sent(plane, user, path, pod)
        assert answer.is_success, why(answer)
        found[user] = [one for one in answer.headers.get_list("warning") if "grove/foreign-pod" in one]
    assert found[OPERATOR] == []
    assert len(found[TENANT]) == 1
    assert "tenancy.groveOperators" in found[TENANT][0]
    assert server.metric("rollcall_findings_total", rule="grove/foreign-pod", action="warn") == 1


def test_grove_s_labels_on_a_pod_that_names_two_gangs_exempt_no_tenant(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    names = {"labels": {"pod-group.scheduling.sigs.k8s.io": "worker"}}
    pod = gang_pod(
        **names, annotations={"gang.scheduling.koordinator.sh/name": "leader"}, schedulerName="koord-scheduler"
    )
    pod["metadata"]["namespace"] = namespace
    path = f"/api/v1/namespaces/{namespace}/pods"
    refused = sent(plane, TENANT, path, pod)
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(refused)
    assert "koordinator/gang-names-disagree" in refused.json()["message"]
    assert sent(plane, OPERATOR, path, pod).is_success


def test_an_object_that_is_being_deleted_is_judged_and_its_finalizer_can_be_removed(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    # The stale fault is stored by a user whose objects are not judged.
    right, stale = moved(pod_group("right"), namespace), moved(labelled(WRONG, name="stale"), namespace)
    for user, manifest in ((TENANT, right), (WRITER, stale)):
        held = labelled(manifest, finalizers=["example.com/hold"])
        headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        created = plane.http.post(path_of(held, named=False), json=held, headers=headers)
        assert created.is_success, why(created)
        assert plane.http.delete(path_of(held)).is_success

    def merged(manifest: Manifest, **metadata: object) -> httpx.Response:
        headers = {
            "Content-Type": "application/merge-patch+json",
            "Impersonate-User": TENANT,
            "Impersonate-Group": "system:masters",
        }
        return plane.http.patch(path_of(manifest), json={"metadata": metadata}, headers=headers)

    rewritten = merged(right, annotations=WRONG["metadata"]["annotations"])
    assert rewritten.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(rewritten)
    assert RULE in rewritten.json()["message"]
    for manifest in (right, stale):
        noted = merged(manifest, annotations={"example.com/note": "bye"})
        assert noted.is_success, why(noted)
        freed = merged(manifest, finalizers=[])
        assert freed.is_success, why(freed)
        assert plane.http.get(path_of(manifest)).status_code == httpx.codes.NOT_FOUND
