"""The reasons why gangs do not start, on a real cluster: each is caused once and reported by `rollcall gangs`, by
`rollcall explain podgang/NAME`, by an event and by a metric.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import RECONCILER, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Leader, Nodes, Rollcall, Scheduler
from tests.e2e.gang_commands import Gangs, bind, pod_groups
from tests.e2e.gang_queues import kai_queue
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.test_five_schedulers import KAI_QUEUE, LABEL
from tests.e2e.workloads import clique, pod_clique_set
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE

CONFIG = configuration_of(
    "koord-scheduler",
    "kai-scheduler",
    # No such generation is served by a Kubernetes that has the next.
    {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1alpha1"}},
)
RECORDED = {LABEL: "koord-scheduler"}
# More cores than any node here has.
_TOO_MUCH = "1000"
RECONCILER_USER = f"system:serviceaccount:{ROLLCALL_NAMESPACE}:{RECONCILER}"
_MERGE = {"Content-Type": "application/merge-patch+json"}


def quota(namespace: str) -> Manifest:
    """A Koordinator ElasticQuota without children."""
    metadata = {"name": f"{namespace}-quota", "namespace": namespace}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": {}}


def refusing(namespace: str) -> list[Manifest]:
    """An admission policy of the cluster that refuses some PodGroups."""
    name, api_version = f"{namespace}-refusing", "admissionregistration.k8s.io/v1"
    kind = {"apiGroups": ["scheduling.sigs.k8s.io"], "apiVersions": ["*"], "resources": ["podgroups"]}
    rule = {**kind, "operations": ["CREATE", "UPDATE"]}
    spec: Manifest = {
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [{"expression": "!object.metadata.name.startsWith('refused-')", "message": "not here"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": binding,
        },
    ]


def foreign_pod_group(namespace: str, name: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    api_version = "scheduling.sigs.k8s.io/v1alpha1"
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 7}}


def constrain(plane: ControlPlane, played: Played, key: str) -> None:
    """What Grove's operator makes of a required topology, on a PodGang."""
    constraint = {"topologyConstraint": {"packConstraint": {"required": key}}}
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{played.namespace}/podgangs/{played.podgangs[0]}"
    plane.http.patch(path, json={"spec": constraint}, headers=_MERGE).raise_for_status()


def admitted_and_then_broken(gangs: Gangs, node: str) -> dict[str, str]:
    """Sets that the webhook admits, and what then goes wrong with each; the reason of each by its name."""
    plane, namespace = gangs.plane, gangs.namespace
    other, queue, elastic = kai_queue(f"{namespace}-other"), kai_queue(f"{namespace}-queue"), quota(namespace)
    plane.apply(other, queue, elastic, check=True)
    kai = {LABEL: "kai-scheduler", KAI_QUEUE: other["metadata"]["name"]}
    gangs.create("whole")
    gone = gangs.create("gone", gates=True)
    gangs.create("few", without="few-0-worker")
    gangs.create("gated", gates=True)
    gangs.create("room", cpu=_TOO_MUCH)
    gangs.create("silent", labels=kai)
    part = gangs.create("part", labels=kai)
    gangs.create("queue", labels={**kai, KAI_QUEUE: queue["metadata"]["name"]})
    quoted = {"scheduling.grove.io/koordinator-quota": elastic["metadata"]["name"]}
    gangs.create("quota", gates=True, annotations=quoted)
    for name in ("missing", "differs", "leaving", "foreign"):
        gangs.create(name, gates=True)
    plane.kubectl("delete", "queues.scheduling.run.ai", queue["metadata"]["name"], check=True)
    plane.kubectl("delete", "elasticquotas", elastic["metadata"]["name"], "-n", namespace, check=True)
    plane.http.delete(f"/api/v1/namespaces/{namespace}/pods/{leader_of(gone)['metadata']['name']}").raise_for_status()
    bind(plane, leader_of(part), node)
    return {
        "whole": "started",
        "gone": "GangPodMissing",
        "few": "GangTooFewPods",
        "gated": "GangGated",
        "room": "GangNeverFits",
        "silent": "GangSchedulerSilent",
        "part": "GangInPart",
        "queue": "GangQueueUnknown",
        "quota": "GangQuotaUnknown",
        "missing": "GangObjectMissing",
        "differs": "GangObjectDiffers",
        "leaving": "GangObjectLeaving",
        "foreign": "GangObjectOwned",
    }


def leader_of(played: Played) -> Manifest:
    return next(pod for pod in played.pods() if "-leader-" in pod["metadata"]["name"])


def bypassing_sets(gangs: Gangs) -> dict[str, str]:
    """Sets that bypassed Rollcall, too large for kube-scheduler, which would start them as single pods; the
    reason of each by its name.
    """
    namespace = gangs.namespace
    gangs.create("unrecorded", cpu=_TOO_MUCH)
    gangs.create("unknown", cpu=_TOO_MUCH, labels={LABEL: "lpx-scheduler"})
    gangs.create("api", cpu=_TOO_MUCH, labels={LABEL: "default-scheduler"})
    gangs.create("escaped", cpu=_TOO_MUCH, labels=RECORDED)
    batch = clique("worker", 2, cpu=_TOO_MUCH, labels={"scheduling.koordinator.sh/scheduler-name": "batch"})
    gangs.store(pod_clique_set("unhonoured", namespace, batch, labels=RECORDED)).create()
    api = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding"}
    levels = [{"domain": "host", "key": "kubernetes.io/hostname"}]
    gangs.plane.apply({**api, "metadata": {"name": "hosts"}, "spec": {"levels": levels}}, check=True)
    topology = {"topologyName": "hosts", "pack": {"required": "host"}}
    layer = gangs.create("layer", labels=RECORDED, gates=True, topologyConstraint=topology)
    for played in (layer, gangs.create("inexpressible", labels=RECORDED, gates=True)):
        constrain(gangs.plane, played, "example.com/rack")
    return {
        "unrecorded": "GangUnrecorded",
        "unknown": "GangNoProfile",
        "api": "GangApiMissing",
        "escaped": "GangPodsEscaped",
        "unhonoured": "GangUnhonoured",
        "layer": "GangTopologyUnknown",
        "inexpressible": "GangInexpressible",
    }


def break_objects(gangs: Gangs) -> None:
    """What may happen to gang objects while no reconciler runs."""
    http, groups = gangs.plane.http, pod_groups(gangs.namespace)
    http.delete(f"{groups}/missing-0-leader").raise_for_status()
    # Only a user whose gang objects are not judged may write a minimum that no pod can meet.
    exempt = {"Impersonate-User": RECONCILER_USER, "Impersonate-Group": "system:masters", **_MERGE}
    http.patch(f"{groups}/differs-0-leader", json={"spec": {"minMember": 9}}, headers=exempt).raise_for_status()
    kept = {"metadata": {"finalizers": ["example.com/kept"]}}
    http.patch(f"{groups}/leaving-0-leader", json=kept, headers=_MERGE).raise_for_status()
    http.delete(f"{groups}/leaving-0-leader").raise_for_status()


def says(gangs: Gangs, expected: dict[str, str]) -> bool:
    """Whether it is said of each gang; an AssertionError names those of which something else is."""
    said = gangs.said()
    other = {name: said.get(name) for name in said | expected if said.get(name) != expected.get(name)}
    assert not other, f"{other} instead of { {name: expected.get(name) for name in other} }"
    return True


@pytest.mark.long
def test_each_hold_reason_is_reported_for_its_cause(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    leader: Leader,
    namespace: str,
    nodes: Nodes,
) -> None:
    server = rollcall(plane, CONFIG)
    # The latter as well, because it runs once any test has asked for it.
    for name in ("koordinator", "kube"):
        scheduler(plane, name)
    (node,) = nodes(1, cpu=16)
    gangs = Gangs(plane, server, namespace)
    plane.apply(foreign_pod_group(namespace, "foreign-0-leader"), check=True)
    expected = admitted_and_then_broken(gangs, node)
    server.unregister()
    expected |= bypassing_sets(gangs)
    server.register()
    # Writes what can be written, and says by its exit code that something cannot.
    assert gangs.run("reconcile", "--once", "-n", namespace).returncode == NOT_EVALUATED
    break_objects(gangs)
    eventually(partial(says, gangs, expected), "it is said what is")
    held = gangs.run("explain", "podgang/room-0", "-n", namespace)
    assert held.returncode == REFUSED
    assert "why  koord-scheduler reports for pod room-0-leader-" in held.stdout
    assert "nodes are available" in held.stdout
    assert gangs.run("explain", f"podgang/{namespace}/whole-0").returncode == CLEAN
    assert gangs.run("explain", "podgang/nobody-0").returncode == UNREADABLE

    # The same by the reconciler, which mends what it can.
    plane.apply(*refusing(namespace), check=True)
    gangs.create("refused")
    process = leader(CONFIG)
    mended = {"missing": "GangGated", "differs": "GangGated"}
    told = {name: reason for name, reason in {**expected, **mended}.items() if reason != "started"}
    told["refused"] = "GangObjectRefused"
    eventually(
        lambda: {n: gangs.events().get(n, set()) >= {r} for n, r in told.items()} == dict.fromkeys(told, True),
        "every PodGang was told",
        timeout=40,
    )
    for reason in set(told.values()) - {"GangObjectRefused"}:
        assert process.metric("rollcall_gangs", health=reason) == list(told.values()).count(reason), reason
    assert process.metric("rollcall_gangs", health="started", scheduler="koord-scheduler") == 1
    assert process.metric("rollcall_escaped_pods", escape="unmutated") == 11


@pytest.mark.long
def test_the_gate_can_be_removed_by_hand_and_escaped_pods_are_replaced_if_configured(
    plane: ControlPlane,
    rollcall: Rollcall,
    leader: Leader,
    namespace: str,
    nodes: Nodes,
) -> None:
    """No reconciler runs at first, as after an uninstallation; then escaped pods are deleted, except those on nodes."""
    profile = {"name": "koord-scheduler", "gate": True}
    scheduling = {"defaultProfileName": "koord-scheduler", "profiles": [profile]}
    config = {**CONFIG, "scheduler": scheduling, "escapes": {"delete": ["unmutated"]}}
    server = rollcall(plane, config)
    (node,) = nodes(1)
    gangs = Gangs(plane, server, namespace)
    played = gangs.create("demo")
    assert gangs.run("explain", f"podgang/{namespace}/demo-0").stdout.count("waiting, gate rollcall.dev") == 3
    told = gangs.ungate("--all", "-n", namespace)
    assert told.count(": ungated\n") == 3
    assert not any(pod["spec"].get("schedulingGates") for pod in played.pods())
    server.unregister()
    escaped = gangs.create("escaped", cpu=_TOO_MUCH, labels=RECORDED)
    bind(plane, leader_of(escaped), node)
    leader(config)
    left = leader_of(escaped)["metadata"]["name"]
    eventually(lambda: [pod["metadata"]["name"] for pod in escaped.pods()] == [left], "they are deleted", timeout=40)


def test_the_message_of_a_scheduler_that_rejects_a_gang_is_quoted(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    namespace: str,
    nodes: Nodes,
) -> None:
    """kube-scheduler 1.37 requires one priority for all pods of a group; the objects bypassed the rule about it."""
    server = rollcall(plane, configuration())
    scheduler(plane, "kube")
    nodes(1, cpu=16)
    gangs = Gangs(plane, server, namespace)
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": namespace}, "value": 7}
    plane.apply(high, check=True)
    played = gangs.create("odd", gates=True)
    path = f"/api/v1/namespaces/{namespace}/pods"
    worker = next(pod for pod in played.pods() if "-worker-" in pod["metadata"]["name"])
    plane.http.delete(f"{path}/{worker['metadata']['name']}", params={"gracePeriodSeconds": "0"}).raise_for_status()
    body = played.pod(played.cliques[1], 0)
    body["spec"] |= {"priorityClassName": namespace, "schedulingGroup": worker["spec"]["schedulingGroup"]}
    plane.http.post(path, json=body).raise_for_status()
    played.fill_references()
    reconciled = gangs.run("reconcile", "--once", "-n", namespace)
    assert reconciled.returncode == CLEAN, reconciled.stderr
    played.lift_gates()
    eventually(lambda: gangs.said() == {"odd": "GangSchedulerError"}, "the scheduler's word is passed on", timeout=60)
