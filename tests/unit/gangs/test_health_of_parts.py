"""The report about a gang that is partly on nodes, has escaped, is frozen, or cannot be expressed for its scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import FACTS, judged, observed, pod, podgang, reasons, whole
from tests.unit.gangs.queued_gangs import health, job
from tests.unit.worlds import koordinator, settings_of
from webhook.backends.koordinator.gang_groups import SPINE_LAYERS
from webhook.errors import FactsUnavailable
from webhook.gangs.escapes import Escape
from webhook.gangs.health import GangState, Observed, judge
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.members import GangPod, Roster
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.reading import Manifest
from webhook.mutators.prepare_pod import stamp
from webhook.validators.examples import clique, pod_clique_set


def test_a_partly_bound_gang_reports_that_first() -> None:
    found = judged([pod("leader", 0, node="n1"), *whole()[1:]])
    assert (found.state, found.word) == (GangState.IN_PART, "GangInPart")
    assert found.obstacles[0].why.endswith("demo-0-worker has 0 of 2")
    assert reasons(found) == [GangReason.IN_PART, GangReason.SILENT]


def test_an_unreadable_kind_is_reported_as_a_missing_api() -> None:
    def unread(_: Manifest) -> Manifest | None:
        raise FactsUnavailable("PodGroups are not served")

    settings = koordinator(standalone=False)
    found = judge(Observed(PodGang(podgang()), Roster(whole()), unread, [], None, FACTS, settings))
    assert set(reasons(found)) == {GangReason.API_MISSING}


def test_a_missing_queue_and_a_missing_layer_are_named() -> None:
    volcano = replace(
        FACTS,
        pod_clique_sets={("default", "demo"): Record("volcano", queues=(("scheduling.grove.io/volcano-queue", "a"),))},
        volcano_queues={},
        apis=frozenset({Api("scheduling.volcano.sh", "v1beta1", "PodGroup")}),
    )
    queued = pod_clique_set(clique("worker"), annotations={"scheduling.grove.io/volcano-queue": "a"})
    settings = settings_of("volcano", standalone=False)
    assert GangReason.QUEUE_UNKNOWN in reasons(judged([], {}, workload=queued, facts=volcano, settings=settings))
    placed = pod_clique_set(clique("worker"), topologyConstraint={"topologyName": "dc", "pack": {"required": "rack"}})
    assert GangReason.TOPOLOGY_UNKNOWN in reasons(judged([], {}, workload=placed))


def test_a_topology_that_is_left_out_is_named_last_and_hides_no_other_reason() -> None:
    asked = '{"gatherStrategy":[{"layer":"RackLayer","strategy":"MustGather"}]}'
    marks = {"gang.scheduling.koordinator.sh/network-topology-spec": asked}
    found = health(replace(FACTS, network_topologies=SPINE_LAYERS), job(suspend=False, annotations=marks))
    assert reasons(found) == [GangReason.OBJECT_MISSING, GangReason.TOO_FEW_PODS, GangReason.TOPOLOGY_LEFT_OUT]
    assert found.obstacles[-1].remedy.endswith("; left out until then")


def test_a_gang_that_its_scheduler_cannot_express_has_a_reason() -> None:
    gang = podgang()
    constraint = {"packConstraint": {"required": "example.com/rack"}}
    group = {"name": "g", "podGroupNames": ["demo-0-worker"], "topologyConstraint": constraint}
    gang["spec"]["topologyConstraintGroupConfigs"] = [group]
    assert GangReason.INEXPRESSIBLE in reasons(judged(whole(), gang=gang))


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
def test_pods_without_the_keys_of_their_gang_have_escaped(escaped: GangPod, kind: Escape, fields: set[str]) -> None:
    (found,) = judged([pod("leader", 0), escaped]).escaped
    assert found.escape is kind
    assert fields <= set(found.fields)


def test_pods_that_grove_s_own_backend_prepares_have_not_escaped() -> None:
    gang = podgang()
    foreign = [pod("leader", 0), pod("worker", 0)._replace(annotations={"pod-group-name": "other"})]
    assert [one.escape for one in judged(foreign, gang=gang).escaped] == [Escape.FOREIGN]
    gang["metadata"]["labels"]["grove.io/scheduler-name"] = "kai-scheduler"
    assert judged(foreign, gang=gang).escaped == ()


def test_the_gate_alone_does_not_decide_if_a_pod_escaped() -> None:
    gated = koordinator(standalone=False, gate=True)
    assert {one.escape for one in judged(whole(), settings=gated).escaped} == {Escape.STALE}
    assert judged(whole()).escaped == ()
    assert judged(whole(gates=("rollcall.dev/gang-sync",))).escaped == ()


def test_a_field_that_the_api_server_dropped_is_reported_as_a_missing_api() -> None:
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
    assert first.reason is GangReason.API_MISSING
    assert first.why.startswith("the API server dropped spec.schedulingGroup of pod demo-0-leader-0")


def test_a_gang_that_can_no_longer_change_reports_its_frozen_fields() -> None:
    gang = podgang()
    gang["spec"]["podgroups"].append({"name": "demo-0-new", "minReplicas": 1, "podReferences": []})
    found = judged([], gang=gang)
    assert GangReason.FROZEN not in reasons(found), "without pods its objects are recreated"
    found = judged(whole(), gang=gang)
    first = found.obstacles[0]
    assert first.reason is GangReason.FROZEN
    assert "demo-0-new" in first.why
    assert first.remedy == Text("recreate", "PodCliqueSet")
    # So do objects that were of another gang, and would become its own.
    assert GangReason.FROZEN in reasons(judge(observed(whole(), gang=gang)._replace(gang_objects=[])))


def test_health_is_printed_as_json() -> None:
    found = judged(whole()[:2]).as_json()
    assert found["members"][1] == {"name": "demo-0-worker", "minimum": 2, "present": 1, "bound": 0}
    assert found["reasons"][0]["reason"] == "GangPodMissing"
    assert (found["state"], found["scheduler"], found["escaped"]) == ("held", "koord-scheduler", [])
