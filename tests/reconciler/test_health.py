"""Why a gang does not start, from what is known of it: one table, a gang a reason, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.core.worlds import koordinator, settings_of
from webhook.errors import FactsUnavailable
from webhook.model.facts import Api, ClusterFacts, Record
from webhook.model.podcliqueset import PodCliqueSet
from webhook.model.podgang import PodGang
from webhook.model.reading import Manifest
from webhook.mutators.prepare_pod import stamp
from webhook.reconciler.differences import to_apply
from webhook.reconciler.escapes import Escape
from webhook.reconciler.gang_pod import GangPod, Unscheduled, read_gang_pod
from webhook.reconciler.health import GangHealth, Observed, State, judge
from webhook.reconciler.obstacles import Reason
from webhook.reconciler.plan import Plan, plan
from webhook.settings import Settings
from webhook.validators.examples import clique, pod_clique_set

FACTS = ClusterFacts(
    pod_clique_sets={("default", "demo"): Record("koord-scheduler")},
    elastic_quotas={},
    topology_bindings={},
    network_topologies={},
    priority_classes={},
    namespaces={},
    apis=frozenset({Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")}),
)


def podgang(**metadata: Any) -> Manifest:
    groups = [
        {
            "name": name,
            "minReplicas": minimum,
            "podReferences": [{"namespace": "default", "name": f"{name}-{index}"} for index in range(minimum)],
        }
        for name, minimum in (("demo-0-leader", 1), ("demo-0-worker", 2))
    ]
    labels = {"app.kubernetes.io/part-of": "demo", **metadata.pop("labels", {})}
    return {
        "metadata": {"name": "demo-0", "namespace": "default", "uid": "g", "labels": labels, **metadata},
        "spec": {"podgroups": groups},
    }


def pod(clique: str, index: int, **changes: Any) -> GangPod:
    """A pod as koord-scheduler's webhook answer leaves it."""
    name = f"demo-0-{clique}-{index}"
    labels = {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "demo",
        "grove.io/podgang": "demo-0",
        "grove.io/podclique": f"demo-0-{clique}",
        "pod-group.scheduling.sigs.k8s.io": f"demo-0-{clique}",
    }
    spec: dict[str, Any] = {"schedulerName": "koord-scheduler", "containers": [{"name": "main"}]}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels, "annotations": {}}
    raw: dict[str, Any] = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    _, found = read_gang_pod(raw)
    return found._replace(**{"annotations": {"rollcall.dev/stamp": _stamp(found)}, **changes})


def _stamp(found: GangPod) -> str:
    settings = koordinator(standalone=False)
    profile = settings.profiles["koord-scheduler"]
    member = profile.member("default", found.podgang, found.podclique, Record("koord-scheduler"), FACTS)
    return stamp(profile.backend.prepare_pod(member), gated=False)


def whole(**changes: Any) -> list[GangPod]:
    return [pod("leader", 0, **changes), pod("worker", 0, **changes), pod("worker", 1, **changes)]


def in_step(gang: Manifest | None = None) -> dict[str, Manifest]:
    """The gang's objects by name, as they are once they were written."""
    planned = plan(PodGang(gang or podgang()), FACTS, koordinator(standalone=False))
    assert isinstance(planned, Plan)
    return {one["metadata"]["name"]: to_apply(planned.profile.backend.adopt(one, None)) for one in planned.objects}


def judged(
    pods: list[GangPod],
    objects: Mapping[str, Manifest] | None = None,
    *,
    gang: Manifest | None = None,
    workload: Manifest | None = None,
    facts: ClusterFacts = FACTS,
    settings: Settings | None = None,
) -> GangHealth:
    known = in_step() if objects is None else objects
    found = None if workload is None else PodCliqueSet(workload)
    live: Callable[[Manifest], Manifest | None] = lambda one: known.get(one["metadata"]["name"])  # noqa: E731
    chosen = settings or koordinator(standalone=False)
    return judge(Observed(PodGang(gang or podgang()), pods, live, list(known.values()), found, facts, chosen))


def reasons(found: GangHealth) -> list[Reason]:
    return [one.reason for one in found.obstacles]


def test_a_gang_with_its_minimum_on_nodes_has_started_whatever_else_is_wrong() -> None:
    found = judged([*whole(node="n1"), pod("worker", 2)], {})
    assert (found.state, found.word, found.obstacles) == (State.STARTED, "started", ())
    assert (found.bound, found.minimum, found.present) == (3, 3, 4)


def test_a_gang_released_for_a_rolling_update_has_started() -> None:
    gang = podgang()
    for group in gang["spec"]["podgroups"]:
        group["minReplicas"] = 0
    assert judged([], gang=gang).state is State.STARTED


def test_a_gang_on_its_way_out_is_held_by_nothing() -> None:
    assert judged([], gang=podgang(deletionTimestamp="2026-01-01T00:00:00Z")).word == "leaving"


UNNAMED = podgang()
for _group in UNNAMED["spec"]["podgroups"]:
    _group["podReferences"] = []
QUOTA = pod_clique_set(
    clique("leader"), clique("worker"), annotations={"scheduling.grove.io/koordinator-quota": "team-a"}
)
GATED = {"gates": ("grove.io/podgang-pending-creation",)}


def told(reason: str, message: str) -> Any:
    return Unscheduled(reason, message)


def changed(name: str, path: str, value: object) -> dict[str, Manifest]:
    """The gang's objects, with one field of one of them changed."""
    found = in_step()
    holder: Any = found[name]
    *parents, last = path.split(".")
    for parent in parents:
        holder = holder.setdefault(parent, {})
    holder[last] = value
    return found


# What is known besides a whole gang without a gate: the reason, and the beginning of what is said.
NO_NODE = "0/1 nodes are available:"
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a pod that the PodGang names is gone": (
        {"pods": whole()[:2]},
        "GangPodMissing: demo-0-worker has 1 pod of the 2 that it starts with: the PodGang names demo-0-worker-1, and "
        "no such pod is there any more; see what keeps Grove from replacing it: kubectl describe podclique "
        "demo-0-worker -n default",
    ),
    "a pod was never created": (
        {"pods": whole()[:2], "gang": UNNAMED, "objects": in_step(UNNAMED)},
        "GangTooFewPods: demo-0-worker has 1 pod of the 2 that it starts with; see what keeps Grove from creating the "
        "others, such as a ResourceQuota: kubectl describe podclique demo-0-worker -n default",
    ),
    "a pod that leaves or has failed is none": (
        {"pods": [*whole()[:1], pod("worker", 0, leaving=True), pod("worker", 1, failed=True)]},
        "GangPodMissing: demo-0-worker has 0 pods of the 2",
    ),
    "an object is not there": (
        {"objects": {}},
        "GangObjectMissing: PodGroup demo-0-leader is not there; see whether rollcall reconcile runs, and its log",
    ),
    "an object is not as it should be": (
        {"objects": changed("demo-0-worker", "spec.minMember", 5)},
        "GangObjectDiffers: PodGroup demo-0-worker is not what it should be: spec.minMember is 5, and should be 2; see",
    ),
    "an object is somebody else's": (
        {"objects": changed("demo-0-worker", "metadata.ownerReferences", [
            {"kind": "Job", "name": "other", "uid": "o", "controller": True}
        ])},
        "GangObjectOwned: PodGroup demo-0-worker belongs to Job other; it has to go, or be renamed",
    ),
    "an object is leaving": (
        {"objects": changed("demo-0-worker", "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")},
        "GangObjectLeaving: PodGroup demo-0-worker is on its way out; see which finalizer keeps it",
    ),
    "an object is that of an earlier PodGang": (
        {"objects": changed("demo-0-worker", "metadata.ownerReferences", [
            {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "demo-0", "uid": "before",
             "controller": True}
        ])},
        "GangObjectLeaving: PodGroup demo-0-worker is still that of an earlier PodGang of this name; it goes by itself",
    ),
    "its quota was deleted": (
        {"workload": QUOTA},
        'GangQuotaUnknown: koordinator/quota at metadata.annotations[scheduling.grove.io/koordinator-quota]: "team-a"',
    ),
    "its kind of object is not served any more": (
        {"workload": pod_clique_set(clique("leader"), clique("worker")), "facts": replace(FACTS, apis=frozenset())},
        'GangApiMissing: rollcall/api-missing at metadata.labels[rollcall.dev/scheduler]: "koord-scheduler": this '
        "cluster does not serve scheduling.sigs.k8s.io/v1alpha1 PodGroup, which that scheduler needs; install",
    ),
    "its workload would be refused today": (
        {"workload": pod_clique_set(clique("leader"), clique("worker", labels={
            "scheduling.koordinator.sh/scheduler-name": "batch"
        }))},
        "GangUnhonoured: koordinator/scheduler-name-label at spec.template.cliques[1]",
    ),
    "Grove has not lifted its gate": (
        {"pods": whole(**GATED)},
        "GangGated: 3 pods (demo-0-leader-0, demo-0-worker-0, demo-0-worker-1) still bear the gate "
        "grove.io/podgang-pending-creation; Grove's operator takes it off when the PodGang names the pod; see its log",
    ),
    "Grove waits for the base gang": (
        {"pods": whole(**GATED, base="base-0")},
        "GangGated: 3 pods (demo-0-leader-0, demo-0-worker-0, demo-0-worker-1) still bear the gate "
        "grove.io/podgang-pending-creation; Grove takes it off when the base gang runs: rollcall explain "
        "podgang/base-0 -n default",
    ),
    "our own gate is on": (
        {"pods": [*whole()[:2], pod("worker", 1, gates=("rollcall.dev/gang-sync",))]},
        "GangGated: 1 pod (demo-0-worker-1) still bears the gate rollcall.dev/gang-sync; the reconciler takes it off "
        "when all pods and objects are there, and no other gate; by hand: rollcall gangs ungate demo-0 -n default",
    ),
    "somebody's gate is on": (
        {"pods": whole(gates=("kueue.x-k8s.io/admission",))},
        "GangGated: 3 pods (demo-0-leader-0, demo-0-worker-0, demo-0-worker-1) still bear the gate "
        "kueue.x-k8s.io/admission; whoever put it there takes it off",
    ),
    "a pod came past the webhook": (
        {"pods": [*whole()[:2], pod("worker", 1, annotations={}, spec={"schedulerName": "default-scheduler"})]},
        "GangPodsEscaped: 1 pod (demo-0-worker-1) came past the webhook, without a mark of the gang",
    ),
    "there is no room": (
        {"pods": [
            pod("leader", 0, unscheduled=told("Unschedulable", 'GangGroup "x" gets rejected due to member Pod')),
            pod("worker", 0, unscheduled=told("Unschedulable", "0/2 nodes are available:\n 2 Insufficient cpu.")),
            pod("worker", 1),
        ]},
        "GangNoRoom: koord-scheduler says of pod demo-0-worker-0: 0/2 nodes are available: 2 Insufficient cpu.; make "
        "room for the whole gang, or ask for less; if there is room, delete the pods: koord-scheduler may not look",
    ),
    "there is no room for one, and the others gave theirs up": (
        {"pods": [
            pod("leader", 0, unscheduled=told("Unschedulable", f"{NO_NODE} 1 rejection in Unreserve.")),
            pod("worker", 0, unscheduled=told("Unschedulable", f"{NO_NODE} 1 optimistic rejection in PostFilter.")),
            pod("worker", 1, unscheduled=told("Unschedulable", f"{NO_NODE} 1 Insufficient cpu.")),
        ]},
        "GangNoRoom: koord-scheduler says of pod demo-0-worker-1: 0/1 nodes are available: 1 Insufficient cpu.; make ",
    ),
    "the scheduler failed": (
        {"pods": whole(unscheduled=told("SchedulerError", "no such plugin"))},
        "GangSchedulerError: koord-scheduler says of pod demo-0-leader-0: no such plugin; see its log",
    ),
    "the scheduler is silent": (
        {},
        "GangSchedulerSilent: all pods are there without a gate, and koord-scheduler has said nothing about them; see "
        "whether koord-scheduler runs, and what its log says; if there is room",
    ),
    "its set has no record": (
        {"facts": replace(FACTS, pod_clique_sets={("default", "demo"): Record(None)})},
        "GangUnrecorded: its PodCliqueSet is older than Rollcall or was admitted without it",
    ),
    "its scheduler is not enabled": (
        {"settings": settings_of("volcano", standalone=False)},
        "GangNoProfile: the scheduler that its PodCliqueSet records is no profile of this configuration",
    ),
    "its set is not known": (
        {"facts": replace(FACTS, pod_clique_sets={})},
        "GangObjectMissing: nothing can be written for it: the PodCliqueSet default/demo of the PodGang is not known",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "expected"), CASES.values(), ids=CASES.keys())
def test_why_a_gang_does_not_start(known: dict[str, Any], expected: str) -> None:
    known = dict(known)
    found = judged(known.pop("pods", None) or whole(), known.pop("objects", None), **known)
    assert found.state is State.HELD
    first = found.obstacles[0]
    assert f"{first.reason}: {first}".startswith(expected)
    assert found.word == first.reason.value


def test_every_reason_is_produced_by_a_case_or_by_the_writer() -> None:
    said = {Reason(expected.partition(":")[0]) for _, expected in CASES.values()}
    elsewhere = {
        Reason.FROZEN,
        Reason.IN_PART,
        Reason.INEXPRESSIBLE,
        Reason.REFUSED,
        Reason.TOPOLOGY_UNKNOWN,
        Reason.QUEUE_UNKNOWN,
    }
    assert said | elsewhere == set(Reason)


def test_every_reason_and_every_escape_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gangs.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert documented == [*(reason.value for reason in Reason), *(escape.value for escape in Escape)]


def test_a_gang_of_which_a_part_is_on_nodes_says_so_first() -> None:
    found = judged([pod("leader", 0, node="n1"), *whole()[1:]])
    assert (found.state, found.word) == (State.IN_PART, "GangInPart")
    assert found.obstacles[0].why.endswith("demo-0-worker has 0 of 2")
    assert reasons(found) == [Reason.IN_PART, Reason.SILENT]


def test_a_kind_that_cannot_be_read_is_an_api_that_is_missing() -> None:
    def unread(_: Manifest) -> Manifest | None:
        raise FactsUnavailable("the cluster does not serve it")

    settings = koordinator(standalone=False)
    found = judge(Observed(PodGang(podgang()), whole(), unread, [], None, FACTS, settings))
    assert set(reasons(found)) == {Reason.API_MISSING}


def test_a_queue_and_a_layer_that_are_gone_are_named() -> None:
    volcano = replace(
        FACTS,
        pod_clique_sets={("default", "demo"): Record("volcano", queues=(("scheduling.grove.io/volcano-queue", "a"),))},
        volcano_queues={},
        apis=frozenset({Api("scheduling.volcano.sh", "v1beta1", "PodGroup")}),
    )
    queued = pod_clique_set(clique("worker"), annotations={"scheduling.grove.io/volcano-queue": "a"})
    settings = settings_of("volcano", standalone=False)
    assert Reason.QUEUE_UNKNOWN in reasons(judged([], {}, workload=queued, facts=volcano, settings=settings))
    placed = pod_clique_set(clique("worker"), topologyConstraint={"topologyName": "dc", "pack": {"required": "rack"}})
    assert Reason.TOPOLOGY_UNKNOWN in reasons(judged([], {}, workload=placed))


def test_a_gang_that_its_scheduler_cannot_have_says_why() -> None:
    gang = podgang()
    constraint = {"packConstraint": {"required": "example.com/rack"}}
    group = {"name": "g", "podGroupNames": ["demo-0-worker"], "topologyConstraint": constraint}
    gang["spec"]["topologyConstraintGroupConfigs"] = [group]
    assert Reason.INEXPRESSIBLE in reasons(judged(whole(), gang=gang))


@pytest.mark.parametrize(
    ("escaped", "kind", "fields"),
    [
        (
            pod("worker", 0)._replace(annotations={}, spec={}, labels={"grove.io/podgang": "demo-0"}),
            Escape.UNMUTATED,
            {"/metadata/labels/pod-group.scheduling.sigs.k8s.io", "/spec/schedulerName"},
        ),
        (
            pod("worker", 0)._replace(annotations={"rollcall.dev/stamp": "koord-scheduler/0000000000000000"}),
            Escape.STALE,
            {"/metadata/annotations/rollcall.dev~1stamp"},
        ),
        (
            pod("worker", 0)._replace(annotations={"pod-group-name": "other"}),
            Escape.FOREIGN,
            {"metadata.annotations.pod-group-name"},
        ),
        (pod("worker", 0)._replace(spec={"schedulerName": "volcano"}), Escape.FOREIGN, {"spec.schedulerName"}),
    ],
)
def test_pods_that_do_not_carry_what_they_should_have_escaped(escaped: GangPod, kind: Escape, fields: set[str]) -> None:
    (found,) = judged([pod("leader", 0), escaped]).escaped
    assert found.escape is kind
    assert fields <= set(found.fields)


def test_a_pod_with_or_without_the_gate_has_not_escaped_for_that() -> None:
    gated = koordinator(standalone=False, gate=True)
    assert {one.escape for one in judged(whole(), settings=gated).escaped} == {Escape.STALE}
    assert judged(whole()).escaped == ()
    assert judged(whole(gates=("rollcall.dev/gang-sync",))).escaped == ()


def test_a_field_that_the_api_server_dropped_is_an_api_that_is_missing() -> None:
    facts = replace(
        FACTS,
        pod_clique_sets={("default", "demo"): Record("default-scheduler")},
        apis=frozenset(
            {Api("scheduling.k8s.io", "v1beta1", kind) for kind in ("Workload", "PodGroup")}
            | {Api("scheduling.k8s.io", "v1alpha3", "CompositePodGroup")}
        ),
    )
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    profile = settings.profiles["default-scheduler"]
    pods = []
    for found in whole():
        member = profile.member("default", "demo-0", found.podclique, Record("default-scheduler"), facts)
        marked = stamp(profile.backend.prepare_pod(member), gated=False)
        labels = {key: value for key, value in found.labels.items() if "pod-group" not in key}
        spec = {"schedulerName": "default-scheduler"}
        pods.append(found._replace(labels=labels, annotations={"rollcall.dev/stamp": marked}, spec=spec))
    first = next(one for one in judged(pods, facts=facts, settings=settings).obstacles if "dropped" in one.why)
    assert first.reason is Reason.API_MISSING
    assert first.why.startswith("the API server dropped spec.schedulingGroup of pod demo-0-leader-0")


def test_a_gang_that_has_come_too_far_to_change_says_what_is_frozen() -> None:
    gang = podgang()
    gang["spec"]["podgroups"].append({"name": "demo-0-new", "minReplicas": 1, "podReferences": []})
    found = judged([], gang=gang)
    assert Reason.FROZEN not in reasons(found), "without pods its objects are made anew"
    found = judged(whole(), gang=gang)
    first = found.obstacles[0]
    assert first.reason is Reason.FROZEN
    assert "demo-0-new" in first.why
    assert first.remedy == "undo the change, or delete the PodCliqueSet and create it anew"


def test_health_as_json() -> None:
    found = judged(whole()[:2]).as_json()
    assert found["members"][1] == {"name": "demo-0-worker", "minimum": 2, "present": 1, "bound": 0}
    assert found["reasons"][0]["reason"] == "GangPodMissing"
    assert (found["state"], found["scheduler"], found["escaped"]) == ("held", "koord-scheduler", [])
