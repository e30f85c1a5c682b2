"""The rights of `rollcall reconcile` on a real API server: enough for all that it does, and none that it does not use.

That no reconciler of any cluster test is ever refused is seen to by `ReconcilerProcess.close`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.cluster.conftest import gated
from tests.cluster.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.cluster.grove_operator import Played
from tests.cluster.programs import eventually
from tests.cluster.reconciler_process import ReconcilerProcess
from tests.cluster.rollcall_server import RollcallServer
from tests.cluster.test_kube_gangs import configuration
from tests.cluster.test_shape_changes import Changing
from tests.cluster.workloads import clique, pod_clique_set, two_cliques

Reconcilers = Callable[..., ReconcilerProcess]
Grove = Callable[[Manifest], Played]


class Case(NamedTuple):
    """A configuration, where the PodGroups are, and the kinds of all gang objects."""

    config: Manifest
    pod_groups: str
    kinds: tuple[str, ...]


def with_gate() -> Manifest:
    """kube-scheduler's gangs, with the pod gate."""
    config = configuration()
    config["scheduler"]["profiles"][0]["gate"] = True
    return config


KOORDINATOR = "scheduling.sigs.k8s.io/podgroups"
KUBE = tuple(f"scheduling.k8s.io/{plural}" for plural in ("workloads", "compositepodgroups", "podgroups"))
CASES: dict[str, dict[str, Case]] = {
    "1.35": {},
    "1.36": {"koordinator": Case(gated(), "scheduling.sigs.k8s.io/v1alpha1/podgroups", (KOORDINATOR,))},
    "1.37": {"kube": Case(with_gate(), "scheduling.k8s.io/v1beta1/podgroups", KUBE)},
}


@pytest.mark.every_version
@pytest.mark.cases(CASES)
def test_every_right_is_used(
    plane: ControlPlane,
    case: Case,
    rollcall: Callable[..., RollcallServer],
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
) -> None:
    rollcall(plane, case.config)
    # Of an earlier reconciler; the first in a cluster creates it.
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{ROLLCALL_NAMESPACE}/leases/rollcall-reconciler"
    plane.http.delete(lease)
    started = reconciler(case.config)
    started.until_leading()
    gang = Changing(grove(two_cliques("demo", namespace)).create_podgangs())
    eventually(lambda: len(gang.objects(case.pod_groups)) == 2, "the PodGroups are there")
    # Without pods a shape is made anew, and what is no longer needed deleted.
    gang.add_helper()
    eventually(lambda: len(gang.objects(case.pod_groups)) == 3, "the new member has its PodGroup")
    gang.remove_helper()
    eventually(lambda: len(gang.objects(case.pod_groups)) == 2, "it is gone again")
    # With a pod on a node it is told of, and until then its pods are freed.
    gang.played.cliques.pop()
    gang.played.create_pods().lift_gates()
    pods = gang.played.pods
    eventually(lambda: not any(pod["spec"].get("schedulingGates") for pod in pods()), "the pod gate is off")
    gang.bind_one()
    gang.add_helper()
    assert "demo-0-helper is new" in gang.told()

    # These are asked for within a request that is about something else: see below.
    hidden = {("scheduler.grove.io/podgangs/finalizers", "update"), *((kind, "create") for kind in case.kinds)}

    def unused() -> set[tuple[str, str]]:
        left = started.granted - {(asked.resource, asked.verb) for asked in started.asked()}
        assert left <= hidden, left
        return left

    # A lease is renewed every few seconds.
    assert eventually(unused, "every right is used", timeout=20) == hidden


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
    "podgangs/finalizers": ("update", "cannot set blockOwnerDeletion"),
    "podgroups": ("create", 'cannot create resource "podgroups"'),
}


@pytest.mark.beside
@pytest.mark.parametrize("resource", HIDDEN)
def test_without_a_hidden_right_nothing_is_written_and_the_podgang_told(
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
