"""The rights of `rollcall reconcile` on a real API server: sufficient, and each one used.

That no reconciler of any cluster test is ever refused is seen to by `ReconcilerProcess.close`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Reconcilers, Rollcall
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import SERIES, ReconcilerProcess, forget_lease
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.test_reconciler import pod_groups
from tests.e2e.test_shape_changes import Changing
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

POD_GROUPS = "scheduling.sigs.k8s.io/podgroups"


@pytest.mark.beside
def test_every_right_of_the_reconciler_is_used(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    """With koord-scheduler; in test_shape_changes.py a gang of kube-scheduler's has all of it done."""
    rollcall(plane, gated())
    forget_lease(plane)
    started = reconciler(gated())
    started.until_leading()
    gang = Changing(grove(two_cliques("demo", namespace)).create_podgangs())
    eventually(lambda: len(pod_groups(plane, namespace)) == 2, "the PodGroups are there")
    # Without pods the objects are recreated, and those no longer needed deleted.
    gang.add_helper()
    eventually(lambda: len(pod_groups(plane, namespace)) == 3, "the new member has its PodGroup")
    # With pods there is an event, once these are free of gates.
    gang.played.create_pods().lift_gates()
    pods = gang.played.pods
    eventually(lambda: not any(pod["spec"].get("schedulingGates") for pod in pods()), "the pod gate is off")
    gang.remove_helper()
    assert "demo-0-helper is gone" in gang.told()
    # This is asked for within a request that is about something else: see below.
    started.uses_all_but((POD_GROUPS, "create"), SERIES)


def without(resource: str, verb: str) -> Callable[[Manifest], Manifest | None]:
    """All rules, but for one right."""

    def narrowed(rule: Manifest) -> Manifest | None:
        if resource not in rule["resources"]:
            return rule
        verbs = [kept for kept in rule["verbs"] if kept != verb]
        return {**rule, "verbs": verbs} if verbs else None

    return narrowed


# A right that no request names, and what the API server says without it. For the first an admission plugin asks,
# OwnerReferencesPermissionEnforcement, and for the second server-side apply, where it creates.
HIDDEN = {
    "podcliquesets/finalizers": ("update", "cannot set blockOwnerDeletion"),
    "podgroups": ("create", 'cannot create resource "podgroups"'),
}


@pytest.mark.beside
@pytest.mark.parametrize("resource", HIDDEN)
def test_without_a_hidden_right_nothing_is_written_and_the_podgang_gets_an_event(
    plane: ControlPlane,
    server: RollcallServer,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
    resource: str,
) -> None:
    verb, said = HIDDEN[resource]
    reconciler(narrowed=without(resource, verb)).until_leading()
    grove(pod_clique_set("demo", namespace, clique("worker"))).create_podgangs()

    def told() -> list[str]:
        events = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [event["note"] for event in events if event["reason"] == "GangObjectRefused"]

    (note,) = eventually(lambda: told() or None, "the PodGang is told")
    assert said in note


@pytest.mark.beside
def test_a_reconciler_with_a_refused_request_fails_its_test(plane: ControlPlane, server: RollcallServer) -> None:
    started = ReconcilerProcess(plane, gated(), narrowed=without("pods", "watch"))
    refused = "/api/v1/pods?"
    asked = eventually(lambda: [asked for asked in started.asked() if not asked.allowed] or None, "it is refused")
    assert {(one.verb, one.uri.partition("labelSelector")[0]) for one in asked} == {("watch", refused)}
    with pytest.raises(AssertionError, match="does not allow these"):
        started.close()
