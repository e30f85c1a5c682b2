"""Koordinator's PodGroups and the pods that name a gang, on a real API server with the real CRD: every fault in
`koordinator_gangs` is accepted without Rollcall, and refused or warned of with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.gang_writer import applied, why
from tests.e2e.koordinator_gangs import LABEL, WRONG, Wrong, created, moved
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from webhook.backends.koordinator.backend import KoordinatorBackend
from webhook.backends.koordinator.gang_groups import pod, pod_group

pytestmark = [pytest.mark.beside, pytest.mark.soak]
CASES = pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def stored(plane: ControlPlane, namespace: str) -> Iterator[Callable[[Manifest], None]]:
    """Create what a case needs. What is in no namespace goes with the test."""

    def create(manifest: Manifest) -> None:
        answer = created(plane, moved(manifest, namespace))
        assert answer.is_success, why(answer)

    yield create
    plane.http.delete("/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies/default")


def asked(plane: ControlPlane, case: Wrong, namespace: str) -> httpx.Response:
    """The API server's answer to the object, as a dry run."""
    wanted = moved(case.object, namespace)
    return created(plane, wanted, dry=True) if case.old is None else applied(plane, wanted, dry=True)


def is_reported(plane: ControlPlane, case: Wrong, namespace: str) -> bool:
    """The object is refused by the expected rule, or accepted with its warning."""
    answer = asked(plane, case, namespace)
    warnings = " ".join(answer.headers.get_list("warning"))
    assert answer.is_success is not case.refused, f"{why(answer)} {warnings}"
    assert f"koordinator/{case.rule} at " in (why(answer) if case.refused else warnings), f"{why(answer)} {warnings}"
    return True


def test_every_rule_about_koordinator_gang_objects_has_a_case() -> None:
    about = {declared.id.partition("/")[2] for declared in KoordinatorBackend.rules if declared.kinds}
    assert {case.rule for case in WRONG.values()} == about


@CASES
def test_without_rollcall_the_api_server_accepts_the_object(
    plane: ControlPlane, namespace: str, stored: Callable[[Manifest], None], case: Wrong
) -> None:
    assert "v-rollcall" not in [hook["metadata"]["name"] for hook in plane.items(HOOKS)]
    for needed in (*case.needs, *([case.old] if case.old else ())):
        stored(needed)
    answer = asked(plane, case, namespace)
    assert answer.is_success, why(answer)
    assert answer.headers.get_list("warning") == []


@CASES
def test_with_rollcall_the_object_is_refused_or_gets_a_warning(
    plane: ControlPlane, server: RollcallServer, namespace: str, stored: Callable[[Manifest], None], case: Wrong
) -> None:
    for needed in (*case.needs, *([case.old] if case.old else ())):
        stored(needed)
    # What was created a moment ago may not be known yet.
    eventually(lambda: is_reported(plane, case, namespace), f"rollcall says {case.rule}", timeout=10)


def test_kubectl_shows_the_reason_of_a_refusal(plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
    refused = plane.apply(moved(WRONG["a member without a namespace"].object, namespace))
    assert refused.code == 1
    assert (
        "metadata.annotations[gang.scheduling.koordinator.sh/groups]: koordinator/gang-groups-member: "
        '"worker": koord-scheduler looks members up by namespace and name'
    ) in refused.err
    warned = plane.apply(moved(WRONG["a PodGroup that is not there"].object, namespace))
    assert warned.code == 0
    assert "Warning: koordinator/pod-group-missing at metadata.labels[pod-group.scheduling.sigs.k8s.io]" in warned.err


def test_only_the_first_object_of_a_valid_gang_group_gets_the_missing_member_warning(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    leader, worker = (moved(pod_group(name, "leader", "worker"), namespace) for name in ("leader", "worker"))
    first = plane.apply(leader, check=True)
    assert first.err.count("Warning") == 1
    assert "koordinator/gang-member-missing" in first.err

    def silent() -> bool:
        answer = created(plane, worker, dry=True)
        assert answer.is_success, why(answer)
        assert answer.headers.get_list("warning") == []
        return True

    eventually(silent, "the leader is known")
    assert plane.apply(worker, check=True).err == ""
    eventually(lambda: _passes(plane, moved(pod(labels={LABEL: "worker"}), namespace)), "the worker is known")


def _passes(plane: ControlPlane, manifest: Manifest) -> bool:
    answer = created(plane, manifest, dry=True)
    assert answer.is_success, why(answer)
    return not answer.headers.get_list("warning")


def test_in_a_strict_namespace_the_pod_group_must_come_first(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    labels = {"metadata": {"labels": {"rollcall.dev/creation-order": "strict"}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=labels, headers=MERGE).raise_for_status()
    worker = moved(pod(labels={LABEL: "worker"}), namespace)

    def refused() -> bool:
        answer = created(plane, worker, dry=True)
        assert not answer.is_success
        return "koordinator/pod-group-missing" in why(answer)

    eventually(refused, "the namespace is known to be strict")
    # At once, whether the cache has heard of it or not.
    answers = [created(plane, moved(pod_group("worker"), namespace)), created(plane, worker)]
    assert [answer.status_code for answer in answers] == [201, 201], list(map(why, answers))


def test_status_writes_of_koord_scheduler_do_not_call_the_webhook(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    assert created(plane, moved(pod_group("leader"), namespace)).is_success
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/podgroups/leader"

    def allowed() -> float:
        return server.metric("rollcall_admission_requests_total", endpoint="validate", outcome="allowed")

    def calls_for(change: Manifest) -> float:
        before = allowed()
        plane.http.patch(path, json=change, headers=MERGE).raise_for_status()
        return allowed() - before

    assert calls_for({"status": {"phase": "Scheduling", "scheduled": 1}}) == 0
    assert calls_for({"spec": {"minMember": 3}}) == 1
