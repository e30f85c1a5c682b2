"""Why a gang does not start, from the known facts: one table with one gang per reason and the expected report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import FACTS, in_step, judged, pod, podgang, reasons, whole
from tests.unit.worlds import settings_of
from webhook.gangs import remedies
from webhook.gangs.escapes import Escape
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.members import LossCause, Roster, Unscheduled
from webhook.gangs.pod_reasons import Anchor
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set


def test_a_gang_with_its_minimum_on_nodes_counts_as_started() -> None:
    found = judged([*whole(node="n1"), pod("worker", 2)], {})
    assert (found.state, found.word, found.obstacles) == (GangState.STARTED, "started", ())
    assert (found.bound, found.minimum, found.present) == (3, 3, 4)


UNRECORDED = replace(FACTS, pod_clique_sets={("default", "demo"): Record(None)})


def test_a_gang_that_has_started_says_that_its_record_was_removed() -> None:
    found = judged(whole(node="n1"), facts=UNRECORDED)
    assert (found.state, reasons(found), found.word) == (GangState.STARTED, [GangReason.UNRECORDED], "GangUnrecorded")


def test_a_started_gang_that_predates_rollcall_or_that_grove_prepares_is_at_peace() -> None:
    assert judged(whole(node="n1", annotations={}), {}, facts=UNRECORDED).obstacles == ()
    groves = podgang(labels={"grove.io/scheduler-name": "kai-scheduler"})
    assert judged(whole(node="n1"), gang=groves, facts=UNRECORDED).obstacles == ()


def test_a_record_cannot_be_set_again_while_a_pod_is_on_a_node_that_was_not_prepared() -> None:
    pods = [pod("leader", 0, node="n1"), pod("worker", 0, node="n1", annotations={}), pod("worker", 1)]
    found = next(one for one in judged(pods, facts=UNRECORDED).obstacles if one.reason is GangReason.UNRECORDED)
    assert found.remedy == Text("delete the PodCliqueSet and recreate it")


def test_gang_objects_alone_say_that_a_record_was_removed() -> None:
    found = judged([], in_step(), facts=UNRECORDED)
    assert found.obstacles[0].reason is GangReason.UNRECORDED
    assert "rollcall.dev/scheduler: koord-scheduler" in found.obstacles[0].remedy


def test_a_gang_released_for_a_rolling_update_counts_as_started() -> None:
    gang = podgang()
    for group in gang["spec"]["podgroups"]:
        group["minReplicas"] = 0
    assert judged([], gang=gang).state is GangState.STARTED


def test_a_gang_in_deletion_has_no_hold_reason() -> None:
    assert judged([], gang=podgang(deletionTimestamp="2026-01-01T00:00:00Z")).word == "leaving"


def test_foreign_pods_are_named_but_neither_hide_nor_cause_a_hold_reason() -> None:
    forged = [pod("worker", index, gates=("example.com/gate",), node=None) for index in (7, 8)]
    gone = pod("worker", 9, leaving=True)
    found = judged(Roster(whole(), unowned=[*forged, gone]))
    assert [one.reason for one in found.obstacles] == [GangReason.SILENT, GangReason.UNOWNED]
    assert found.obstacles[1].why == Text("2 pods (demo-0-worker-7, demo-0-worker-8)", "uid")
    assert [(one.pod.name, one.escape) for one in found.escaped] == [
        ("demo-0-worker-7", Escape.UNOWNED),
        ("demo-0-worker-8", Escape.UNOWNED),
    ]
    started = judged(Roster(whole(node="n1"), unowned=forged))
    assert (started.state, started.obstacles, len(started.escaped)) == (GangState.STARTED, (), 2)


def test_pods_that_only_name_a_group_of_the_gang_are_foreign_too() -> None:
    forged, stranger = pod("worker", 7, node=None), pod("worker", 8, node="n2")
    found = judged(Roster(whole(), unowned=[forged], strangers=[stranger], further=3))
    assert [one.reason for one in found.obstacles] == [GangReason.SILENT, GangReason.UNOWNED, GangReason.UNOWNED]
    assert found.obstacles[1].why == Text("1 pod (demo-0-worker-7)", "uid")
    assert found.obstacles[2].why == Text("4 pods (demo-0-worker-8 and 3 more)", "uid")
    assert [(one.pod.name, one.escape) for one in found.escaped] == [
        ("demo-0-worker-7", Escape.UNOWNED),
        ("demo-0-worker-8", Escape.UNOWNED),
    ]
    assert (found.further, found.as_json()["furtherUnowned"]) == (3, 3)


UNNAMED = podgang()
for _group in UNNAMED["spec"]["podgroups"]:
    _group["podReferences"] = []
QUOTA = pod_clique_set(
    clique("leader"), clique("worker"), annotations={"scheduling.grove.io/koordinator-quota": "team-a"}
)
MIGRATING = {
    **pod_clique_set(clique("leader"), clique("worker")),
    "status": {"conditions": [{"type": "PodGangMigrationInProgress", "status": "True"}]},
}
GATED = {"gates": ("grove.io/podgang-pending-creation",)}
# Not every Grove has the resync, and Rollcall cannot see which.
RESYNC = "within 3 minutes if this Grove has the resync (its pull request 784; grove#847), else"
CREATED = "2026-11-30T12:00:00Z"


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


NO_NODE = "0/1 nodes are available:"
WHOLE = "3 pods (demo-0-leader-0, demo-0-worker-0, demo-0-worker-1)"
# Facts besides a complete gang without a gate: the reason, and what its text names.
# As kube-scheduler 1.38.0-beta.0 says it of a tree (validatePodGroupHierarchy).
MISMATCH = 'gang parent "default/demo-0" cannot have basic child "default/demo-0-worker"'


def saying(kind: str, reason: str, message: str, status: str = "False") -> dict[str, Manifest]:
    """The objects of the gang, of which the first has a condition."""
    objects = in_step()
    name = next(iter(objects))
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**objects, name: {**objects[name], "status": {"conditions": [condition]}}}


CASES: dict[str, tuple[dict[str, Any], GangReason, Text]] = {
    "a pod that the PodGang names is gone": (
        {"pods": whole()[:2]},
        GangReason.POD_MISSING,
        Text("demo-0-worker has 1 pod of the 2", "demo-0-worker-1", "describe podclique demo-0-worker -n default"),
    ),
    "a pod was never created": (
        {"pods": whole()[:2], "gang": UNNAMED, "objects": in_step(UNNAMED)},
        GangReason.TOO_FEW_PODS,
        Text("demo-0-worker has 1 pod of the 2", "ResourceQuota", "describe podclique demo-0-worker -n default"),
    ),
    "a pod that its PodGang has not named": (
        {
            "pods": Roster(whole()[:2], unnamed=[pod("worker", 1, **GATED)]),
            "gang": UNNAMED,
            "objects": in_step(UNNAMED),
        },
        GangReason.UNNAMED,
        Text("demo-0-worker has 1 pod of the 2", "demo-0-worker-1", "Grove's operator", RESYNC),
    ),
    "a pod that is not of the gang completes it": (
        {"pods": Roster(whole()[:2], unowned=[pod("worker", 1)])},
        GangReason.POD_MISSING,
        Text("demo-0-worker has 1 pod of the 2"),
    ),
    "a pod that leaves or has failed is none": (
        {"pods": [*whole()[:1], pod("worker", 0, leaving=True), pod("worker", 1, failed=True)]},
        GangReason.POD_MISSING,
        Text("demo-0-worker has 0 pods of the 2"),
    ),
    "an object is not there": (
        {"objects": {}},
        GangReason.OBJECT_MISSING,
        Text("PodGroup demo-0-leader", "rollcall reconcile"),
    ),
    "an object is not as it should be": (
        {"objects": changed("demo-0-worker", "spec.minMember", 5)},
        GangReason.OBJECT_DIFFERS,
        Text("PodGroup demo-0-worker", "spec.minMember is 5", "2"),
    ),
    "a foreign object": (
        {"objects": changed("demo-0-worker", "metadata.ownerReferences", [
            {"kind": "Job", "name": "other", "uid": "o", "controller": True}
        ])},
        GangReason.CONFLICT,
        Text("PodGroup demo-0-worker", "Job other"),
    ),
    "an object is leaving": (
        {"objects": changed("demo-0-worker", "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")},
        GangReason.OBJECT_LEAVING,
        Text("PodGroup demo-0-worker", "finalizer"),
    ),
    "an object is that of an earlier PodGang": (
        {"objects": changed("demo-0-worker", "metadata.ownerReferences", [
            {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "demo-0", "uid": "before",
             "controller": True}
        ])},
        GangReason.OBJECT_LEAVING,
        Text("PodGroup demo-0-worker", "earlier PodGang", "garbage collector"),
    ),
    "its quota was deleted": (
        {"workload": QUOTA},
        GangReason.QUOTA_UNKNOWN,
        Text('koordinator/quota at metadata.annotations[scheduling.grove.io/koordinator-quota]: "team-a"'),
    ),
    "its kind of object is not served any more": (
        {"workload": pod_clique_set(clique("leader"), clique("worker")), "facts": replace(FACTS, apis=frozenset())},
        GangReason.API_MISSING,
        Text(
            "rollcall/api-missing at metadata.labels[rollcall.dev/scheduler]: ",
            "koord-scheduler",
            "scheduling.sigs.k8s.io/v1alpha1 PodGroup",
        ),
    ),
    "a rule refuses its workload now": (
        {"workload": pod_clique_set(clique("leader"), clique("worker", labels={
            "scheduling.koordinator.sh/scheduler-name": "batch"
        }))},
        GangReason.UNHONOURED,
        Text("koordinator/scheduler-name-label at spec.template.cliques[1]"),
    ),
    "Grove has not lifted its gate": (
        {"pods": whole(**GATED)},
        GangReason.GATED,
        Text(WHOLE, "grove.io/podgang-pending-creation; Grove's operator"),
    ),
    "its anchor has not started": (
        {
            "pods": whole(**GATED, base="base-0"),
            "anchors": lambda name: Anchor(name, False, "held", HoldReason(GangReason.NO_ROOM, "no room", "free some")),
        },
        GangReason.ANCHOR,
        Text("anchor base-0", "held: GangNoRoom: no room; free some", "explain podgang/base-0 -n default"),
    ),
    "Grove migrates its set": (
        {"pods": whole(**GATED), "workload": MIGRATING},
        GangReason.MIGRATING,
        Text("PodGangMaps", "PodGangMigrationInProgress", "Grove's operator"),
    ),
    "Grove has not lifted its gate for a while": (
        {"pods": whole(**GATED, created="2026-11-30T12:00:00Z")},
        GangReason.GATED,
        Text("grove.io/podgang-pending-creation since 2026-11-30T12:00:00Z; Grove's operator", RESYNC),
    ),
    "our own gate is on": (
        {"pods": [*whole()[:2], pod("worker", 1, gates=("rollcall.dev/gang-sync",))]},
        GangReason.GATED,
        Text("1 pod (demo-0-worker-1)", "rollcall.dev/gang-sync; the reconciler", "gangs ungate demo-0 -n default"),
    ),
    "a foreign gate is on": (
        {"pods": whole(gates=("example.com/quota",))},
        GangReason.GATED,
        Text(WHOLE, "example.com/quota; the system"),
    ),
    "a pod bypassed the webhook": (
        {"pods": [*whole()[:2], pod("worker", 1, annotations={}, spec={"schedulerName": "default-scheduler"})]},
        GangReason.ESCAPED,
        Text("1 pod (demo-0-worker-1)", "bypassed", "without a mark"),
    ),
    "there is no room": (
        {"pods": [
            pod("leader", 0, unscheduled=told("Unschedulable", 'GangGroup "x" gets rejected due to member Pod')),
            pod("worker", 0, unscheduled=told("Unschedulable", "0/2 nodes are available:\n 2 Insufficient cpu.")),
            pod("worker", 1),
        ]},
        GangReason.NO_ROOM,
        Text("koord-scheduler", "demo-0-worker-0: 0/2 nodes are available: 2 Insufficient cpu.; ", "delete"),
    ),
    "there is no room for one, and the others gave theirs up": (
        {"pods": [
            pod("leader", 0, unscheduled=told("Unschedulable", f"{NO_NODE} 1 rejection in Unreserve.")),
            pod("worker", 0, unscheduled=told("Unschedulable", f"{NO_NODE} 1 optimistic rejection in PostFilter.")),
            pod("worker", 1, unscheduled=told("Unschedulable", f"{NO_NODE} 1 Insufficient cpu.")),
        ]},
        GangReason.NO_ROOM,
        Text("koord-scheduler", "demo-0-worker-1: 0/1 nodes are available: 1 Insufficient cpu.; "),
    ),
    "the scheduler failed": (
        {"pods": whole(unscheduled=told("SchedulerError", "no such plugin"))},
        GangReason.SCHEDULER_ERROR,
        Text("koord-scheduler", "demo-0-leader-0: no such plugin; "),
    ),
    "kube-scheduler refuses its groups": (
        {
            "pods": whole(unscheduled=told("SchedulerError", MISMATCH)),
            "objects": saying("CompositePodGroupInitiallyScheduled", "CompositePodGroupError", MISMATCH),
        },
        GangReason.GROUP_ERROR,
        Text("koord-scheduler", "PodGroup demo-0", "(CompositePodGroupError): ", MISMATCH, "correct"),
    ),
    "kube-scheduler refuses a group": (
        {"objects": saying("PodGroupInitiallyScheduled", "PodGroupError", MISMATCH)},
        GangReason.GROUP_ERROR,
        Text("(PodGroupError): ", MISMATCH),
    ),
    "only its group says that there is no room, in 1.36": (
        {"objects": saying("PodGroupScheduled", "Unschedulable", NO_NODE)},
        GangReason.NO_ROOM,
        Text("koord-scheduler", "(Unschedulable): ", NO_NODE, "free resources"),
    ),
    "only its group says that there is no room": (
        {"objects": saying("PodGroupInitiallyScheduled", "Unschedulable", NO_NODE)},
        GangReason.NO_ROOM,
        Text("koord-scheduler", "(Unschedulable): ", NO_NODE, "free resources"),
    ),
    "its group was placed before": (
        {"objects": saying("PodGroupInitiallyScheduled", "Scheduled", "", status="True")},
        GangReason.SILENT,
        Text("koord-scheduler has not reported"),
    ),
    "the scheduler has not tried a pod": (
        {"pods": [
            pod("leader", 0, unscheduled=told("NotReadyForScheduling", "waiting for resource claim 'gpus'")),
            pod("worker", 0, unscheduled=told("Unschedulable", NO_NODE)),
            pod("worker", 1),
        ]},
        GangReason.NOT_READY,
        Text("koord-scheduler", "demo-0-leader-0: waiting for resource claim 'gpus'; "),
    ),
    "the scheduler is silent": (
        {},
        GangReason.SILENT,
        Text("koord-scheduler has not reported", "koord-scheduler is running", "if there is room"),
    ),
    "its set has no record": (
        {"pods": whole(annotations={}), "objects": {}, "facts": UNRECORDED},
        GangReason.UNRECORDED,
        Text("PodCliqueSet", "predates Rollcall"),
    ),
    "its set has lost its record": (
        {
            "pods": [pod("leader", 0, annotations={}), pod("worker", 0), pod("worker", 1)],
            "facts": UNRECORDED,
        },
        GangReason.UNRECORDED,
        Text("PodCliqueSet was removed", "koord-scheduler", "set the label rollcall.dev/scheduler: koord-scheduler"),
    ),
    "its set has no record, and its pods a stamp that Rollcall did not write": (
        {
            "pods": whole(annotations={"rollcall.dev/stamp": "else/0123"}),
            "objects": {},
            "facts": UNRECORDED,
        },
        GangReason.UNRECORDED,
        Text("PodCliqueSet", "predates Rollcall"),
    ),
    "no profile has its scheduler": (
        {"settings": settings_of("volcano", standalone=False)},
        GangReason.NO_PROFILE,
        Text("PodCliqueSet"),
    ),
    "its set is not known": (
        {"facts": replace(FACTS, pod_clique_sets={})},
        GangReason.OBJECT_MISSING,
        Text("PodCliqueSet default/demo"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "reason", "text"), CASES.values(), ids=CASES.keys())
def test_a_gang_that_does_not_start_has_the_expected_reason(
    known: dict[str, Any], reason: GangReason, text: Text
) -> None:
    known = dict(known)
    found = judged(known.pop("pods", None) or whole(), known.pop("objects", None), **known)
    assert found.state is GangState.HELD
    first = found.obstacles[0]
    assert (first.reason, str(first)) == (reason, text)
    assert found.word == reason.value


@pytest.mark.parametrize(
    ("extra", "reasons"),
    [
        ({**GATED, "created": CREATED}, [GangReason.GATED]),
        ({"created": CREATED}, []),
        ({"gates": ("example.com/quota",)}, []),
        ({**GATED, "leaving": True}, []),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_started_gang_says_that_groves_gate_holds_its_further_pods(
    extra: dict[str, Any], reasons: list[GangReason], *, is_named: bool
) -> None:
    bound, late = whole(node="n1"), [pod("worker", 2, **extra)]
    roster = Roster([*bound, *late]) if is_named else Roster(bound, unnamed=late)
    found = judged(roster)
    assert (found.state, [one.reason for one in found.obstacles]) == (GangState.STARTED, reasons)
    if reasons:
        (only,) = found.obstacles
        assert str(only) == Text(
            f"1 pod (demo-0-worker-2) still has the gate grove.io/podgang-pending-creation since {CREATED}",
            RESYNC,
        )
        # A reconciliation of the set changes nothing for a pod that is named.
        assert ("-n default grove.io/reconcile-trigger=" in str(only)) is not is_named


def test_every_reason_has_a_case_or_comes_from_the_writer() -> None:
    shown = {reason for _, reason, _ in CASES.values()}
    elsewhere = {
        GangReason.NEVER_FITS,
        GangReason.UNOWNED,
        GangReason.FROZEN,
        GangReason.IN_PART,
        GangReason.LOST_MEMBERS,
        GangReason.INEXPRESSIBLE,
        GangReason.REFUSED,
        GangReason.TOPOLOGY_UNKNOWN,
        GangReason.TOPOLOGY_LEFT_OUT,
        GangReason.QUEUE_UNKNOWN,
    }
    of_kueue = {one for one in GangReason if one.value.startswith("Kueue")}
    assert shown | elsewhere | of_kueue == set(GangReason)


def test_every_reason_cause_and_escape_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "gangs.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    words = (*GangReason, *LossCause, *Escape, *remedies.RemedyCause)
    assert documented == [word.value for word in words]
