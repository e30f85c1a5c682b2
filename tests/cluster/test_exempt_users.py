"""Who is exempt, as a real API server sees it: it says who asks, and does not ask about what an exempt user writes.
Every user here may do anything; nothing but the name is different.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.cluster.control_plane import RECONCILER, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.cluster.gang_writer import path_of, why
from tests.cluster.koordinator_gangs import moved
from tests.cluster.rollcall_server import RollcallServer
from tests.core.worlds import gang_pod
from webhook.backends.koordinator.gang_examples import pod_group

WRONG = pod_group("leader", settings={"groups": "no JSON"})
RULE = "koordinator/gang-groups-unread"
TENANT = "alice"
WRITER = f"system:serviceaccount:{ROLLCALL_NAMESPACE}:{RECONCILER}"
OPERATOR = "system:serviceaccount:grove-system:grove-operator"


@pytest.fixture
def server(rollcall: Callable[..., RollcallServer], plane: ControlPlane) -> RollcallServer:
    return rollcall(plane)


def sent(plane: ControlPlane, user: str, path: str, manifest: Manifest) -> httpx.Response:
    """The answer to a creation that is not kept, by a user with all rights."""
    headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
    return plane.http.post(path, params={"dryRun": "All"}, json=manifest, headers=headers)


def labelled(manifest: Manifest, **metadata: object) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def test_a_tenant_s_object_is_judged_whatever_it_says_of_itself(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    manifest = labelled(moved(WRONG, namespace), labels={"app.kubernetes.io/managed-by": "rollcall"})
    answer = sent(plane, TENANT, path_of(manifest, named=False), manifest)
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(answer)
    assert RULE in answer.json()["message"]


def test_the_reconciler_s_object_is_not_asked_about(
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
