"""Pods in a real admission chain: those of a gang are prepared, all others are left unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import until_asked
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove
from tests.e2e.grove_operator import Played, defaulted
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.second_webhook import SecondWebhook
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
STAMP = "rollcall.dev/stamp"
QUOTA = "quota.scheduling.koordinator.sh/name"


def prepared_fields(pod: Manifest) -> tuple[str, str | None, bool]:
    """schedulerName, PodGroup, and whether it is stamped."""
    metadata = pod["metadata"]
    stamped = metadata.get("annotations", {}).get(STAMP, "").startswith(f"{pod['spec']['schedulerName']}/")
    return pod["spec"]["schedulerName"], metadata["labels"].get(POD_GROUP), stamped


@pytest.mark.every_version
def test_the_pods_of_a_gang_arrive_prepared(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    groups = [{"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}]
    cliques = (clique("frontend", 1), clique("leader", 1), clique("worker", 2))
    played = grove(pod_clique_set("demo", namespace, *cliques, groups=groups)).create()
    found = {pod["metadata"]["labels"]["grove.io/podclique"]: prepared_fields(pod) for pod in played.pods()}
    assert found == {
        "demo-0-frontend": ("koord-scheduler", "demo-0-frontend", True),
        "demo-0-decode-0-leader": ("koord-scheduler", "demo-0-decode-0-leader", True),
        "demo-0-decode-0-worker": ("koord-scheduler", "demo-0-decode-0-worker", True),
        # A scaled gang: its name does not begin as those of its PodCliques do.
        "demo-0-decode-1-leader": ("koord-scheduler", "demo-0-decode-0-demo-0-decode-1-leader", True),
        "demo-0-decode-1-worker": ("koord-scheduler", "demo-0-decode-0-demo-0-decode-1-worker", True),
    }
    for pod in played.pods():
        # What identifies the pod to Grove is as Grove wrote it.
        assert pod["spec"]["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}]
        labels = pod["metadata"]["labels"]
        assert pod["spec"]["hostname"] == f"{labels['grove.io/podclique']}-{labels['grove.io/podclique-pod-index']}"


SAMPLES = sorted((Path(os.environ.get("ROLLCALL_SAMPLES", "none")) / "grove").rglob("*.yaml"))


@pytest.mark.skipif(not SAMPLES, reason="ROLLCALL_SAMPLES does not say where Grove's samples are")
def test_the_pods_of_every_published_sample_arrive_prepared(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    seen = 0
    for path in SAMPLES:
        for manifest in yaml.safe_load_all(path.read_text()):
            if not isinstance(manifest, dict) or manifest.get("kind") != "PodCliqueSet":
                continue
            manifest["metadata"]["namespace"] = namespace
            ran = plane.apply(defaulted(manifest))
            if ran.code:
                # Koordinator cannot honour what some of them ask for.
                assert "admission webhook" in ran.err, f"{path}: {ran.err}"
                continue
            stored = plane.get("podcliqueset", manifest["metadata"]["name"], namespace)
            played = Played(plane, stored).create()
            for pod in played.pods():
                scheduler, group, stamped = prepared_fields(pod)
                assert (scheduler, stamped) == ("koord-scheduler", True), path
                assert group, path
            seen += 1
    assert seen >= 10, f"{seen} of {len(SAMPLES)} files held a PodCliqueSet that was stored"


def test_the_quota_of_a_set_reaches_its_pods(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": f"quota-{namespace}", "namespace": namespace},
        "spec": {"max": {"cpu": "100"}, "min": {"cpu": "10"}},
    }
    plane.apply(quota, check=True)
    annotations = {"scheduling.grove.io/koordinator-quota": f"quota-{namespace}"}
    # Applied in the next moment: no cache needs to have seen the quota.
    played = grove(two_cliques("demo", namespace, annotations=annotations)).create()
    assert {pod["metadata"]["labels"].get(QUOTA) for pod in played.pods()} == {f"quota-{namespace}"}


def plain_pod(namespace: str, **labels: str) -> Manifest:
    metadata: Manifest = {"name": "plain", "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    container = {"name": "main", "image": "registry.example.com/main:1.0"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


# Fields that the API server writes by itself.
_SERVERS_OWN = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields")


def without_servers_own(stored: Manifest) -> Manifest:
    found = deepcopy(stored)
    for key in _SERVERS_OWN:
        found["metadata"].pop(key, None)
    return found


def created_and_deleted(plane: ControlPlane, pod: Manifest) -> Manifest:
    """The pod as it was stored."""
    namespace = pod["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = plane.http.post(path, json=pod)
    assert answer.is_success, answer.text
    name = answer.json()["metadata"]["name"]
    gone = plane.http.delete(f"{path}/{name}", params={"gracePeriodSeconds": "0"})
    # Nobody else has a reason to delete it.
    assert gone.is_success, "\n".join((gone.text, *plane.pod_deletions(namespace)))
    return without_servers_own(answer.json())


@pytest.mark.every_version
def test_a_pod_without_a_gang_is_stored_unchanged(plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
    """One without labels, one of another manager, and one with a label of Grove's but without its manager."""
    labels: tuple[dict[str, str], ...] = ({}, {"app.kubernetes.io/managed-by": "Helm"}, {"grove.io/podgang": "demo-0"})
    pods = [plain_pod(namespace, **one) for one in labels]
    with_us = [created_and_deleted(plane, pod) for pod in pods]
    server.unregister()
    try:
        without_us = [created_and_deleted(plane, pod) for pod in pods]
    finally:
        server.register()
    assert with_us == without_us


@pytest.mark.every_version
def test_a_pod_of_a_set_older_than_rollcall_is_left_unchanged(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    server.unregister()
    try:
        older = eventually(lambda: stored_without_record(plane, namespace), "a set is stored without a record")
        played = Played(plane, older)
        played.create()
        before = {name_of(pod): bare(pod) for pod in played.pods()}
    finally:
        server.register()
    until_asked(plane)
    # Also its replacements: a gang of stamped and unstamped pods would never start.
    plane.http.delete(f"/api/v1/namespaces/{namespace}/pods", params={"gracePeriodSeconds": "0"}).raise_for_status()
    for member in played.cliques:
        for index in range(member.replicas):
            played.create_pod(member, index)
    assert {name_of(pod): bare(pod) for pod in played.pods()} == before


def stored_without_record(plane: ControlPlane, namespace: str) -> Manifest | None:
    """A set that no webhook has seen, or None while one still does."""
    plane.apply(two_cliques("older", namespace), check=True)
    stored = plane.get("podcliqueset", "older", namespace)
    if "labels" not in stored["metadata"]:
        return stored
    plane.kubectl("delete", "podcliqueset", "older", "-n", namespace, check=True)
    return None


def name_of(pod: Manifest) -> str:
    """A pod's hostname: its own name is generated each time."""
    return str(pod["spec"]["hostname"])


def bare(pod: Manifest) -> Manifest:
    found = without_servers_own(pod)
    # Generated each time, and the times of conditions.
    del found["metadata"]["name"], found["status"]
    return found


@contextmanager
def beside(plane: ControlPlane, webhook: SecondWebhook) -> Iterator[SecondWebhook]:
    plane.apply(webhook.registration(), check=True)
    try:
        yield webhook
    finally:
        plane.kubectl("delete", "mutatingwebhookconfiguration", webhook.name, check=True)
        webhook.close()


def test_a_later_webhook_leaves_our_changes_in_place(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    """Its label makes the API server call us again (reinvocationPolicy: IfNeeded); a second patch would be a fault."""
    # Its name sorts after ours, so it is called after us.
    with beside(plane, SecondWebhook("z-labels", plane.folder, {"team": "blue"})) as second:
        played = grove(two_cliques("demo", namespace))
        eventually(lambda: is_labelled(plane, namespace), "the second webhook is asked")
        before = server.metric("rollcall_admission_requests_total", endpoint="mutate", outcome="allowed")
        played.create()
        assert second.calls > 0
        again = server.metric("rollcall_admission_requests_total", endpoint="mutate", outcome="allowed") - before
    pods = played.pods()
    assert {pod["metadata"]["labels"].get("team") for pod in pods} == {"blue"}
    assert {prepared_fields(pod)[::2] for pod in pods} == {("koord-scheduler", True)}
    assert {tuple(pod["metadata"]["annotations"]) for pod in pods} == {("rollcall.dev/seal", STAMP)}
    assert again == len(pods), "each pod came a second time, and nothing was left to change"


def is_labelled(plane: ControlPlane, namespace: str) -> bool:
    answer = plane.http.post(
        f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=plain_pod(namespace, probe="yes")
    )
    assert answer.is_success, answer.text
    return bool(answer.json()["metadata"]["labels"].get("team") == "blue")


def test_a_pod_whose_clique_is_not_in_its_pod_gang_is_refused(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    played = grove(two_cliques("demo", namespace)).create()
    stranger = played.pod(played.cliques[0], 9)
    stranger["metadata"]["labels"]["grove.io/podclique"] = "demo-0-stranger"

    def refused() -> bool:
        answer = plane.http.post(f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=stranger)
        assert answer.status_code == 422, answer.text
        return "grove/pod-outside-gang" in answer.text

    eventually(refused, "the PodGang is known, and the pod refused")
