"""PreparePod: the patch of a gang's pod, and the pods that are left unchanged."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from tests.unit.worlds import gang_pod, koordinator, request
from webhook import admission
from webhook.admission.decision import required_facts
from webhook.backends.base import GangMember, PodChanges
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Record
from webhook.model.known_objects import Namespace


def mutate(pod: dict[str, Any], settings: Settings | None = None, facts: ClusterFacts = NO_FACTS) -> Any:
    return admission.mutate(request(pod), facts, settings or koordinator())


def recorded(scheduler: str | None = "koord-scheduler", quota: str | None = None) -> ClusterFacts:
    return ClusterFacts(pod_clique_sets={("default", "demo"): Record(scheduler, quota)})


def test_the_patch_contains_only_what_koordinator_needs() -> None:
    assert list(mutate(gang_pod()).patch) == [
        {"op": "add", "path": "/metadata/labels/pod-group.scheduling.sigs.k8s.io", "value": "demo-0-worker"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/rollcall.dev~1stamp", "value": "koord-scheduler/0d626bc6205cfa36"},
        {"op": "replace", "path": "/spec/schedulerName", "value": "koord-scheduler"},
    ]


def test_a_second_pass_changes_nothing() -> None:
    pod = gang_pod()
    patched = jsonpatch.apply_patch(pod, list(mutate(pod).patch))
    assert mutate(patched).patch == ()


def test_mutation_in_place_gives_the_same_object_as_the_patch() -> None:
    pod = gang_pod()
    asked = request(pod)
    verdict = admission.mutate(asked, NO_FACTS, koordinator(gate=True))
    assert asked.object == jsonpatch.apply_patch(pod, list(verdict.patch))


def test_quota_and_quality_of_service_come_from_record_and_profile() -> None:
    settings = koordinator({"defaultQoSClass": "LS"}, standalone=False)
    added = {op["path"]: op["value"] for op in mutate(gang_pod(), settings, recorded(quota="team-a")).patch}
    assert added["/metadata/labels/quota.scheduling.koordinator.sh~1name"] == "team-a"
    assert added["/metadata/labels/koordinator.sh~1qosClass"] == "LS"


def test_an_existing_quality_of_service_is_kept() -> None:
    pod = gang_pod(labels={"koordinator.sh/qosClass": "BE"})
    paths = [op["path"] for op in mutate(pod, koordinator({"defaultQoSClass": "LS"})).patch]
    assert "/metadata/labels/koordinator.sh~1qosClass" not in paths


def test_the_gate_is_added_once_after_grove_s() -> None:
    pod = gang_pod()
    patched = jsonpatch.apply_patch(pod, list(mutate(pod, koordinator(gate=True)).patch))
    assert patched["spec"]["schedulingGates"] == [
        {"name": "grove.io/podgang-pending-creation"},
        {"name": "rollcall.dev/gang-sync"},
    ]
    assert mutate(patched, koordinator(gate=True)).patch == ()


def test_the_gate_list_is_created_if_missing() -> None:
    pod = gang_pod()
    del pod["spec"]["schedulingGates"]
    patched = jsonpatch.apply_patch(pod, list(mutate(pod, koordinator(gate=True)).patch))
    assert patched["spec"]["schedulingGates"] == [{"name": "rollcall.dev/gang-sync"}]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (koordinator(), koordinator(enforcement={"mode": "audit"}), True),
        (koordinator(), koordinator({"scheduleTimeoutSeconds": 30}), True),
        (koordinator(), koordinator({"defaultQoSClass": "LS"}), False),
        (koordinator(), koordinator(gate=True), False),
    ],
    ids=["rules", "a setting that no pod depends on", "the QoS class", "the gate"],
)
def test_the_stamp_depends_on_the_inputs_of_preparation(before: Settings, after: Settings, same: bool) -> None:
    def stamp(settings: Settings) -> str:
        return next(str(op["value"]) for op in mutate(gang_pod(), settings).patch if op["path"].endswith("stamp"))

    assert (stamp(before) == stamp(after)) is same


CLAIMS = {
    "the Workload API since 1.36": {"schedulingGroup": {"podGroupName": "other"}},
    "the Workload API of 1.35": {"workloadRef": {"name": "other"}},
    "a scheduler of its own": {"schedulerName": "volcano"},
    "scheduler-plugins": {"labels": {"scheduling.x-k8s.io/pod-group": "other"}},
    "KAI's subgroup": {"labels": {"kai.scheduler/subgroup-name": "other"}},
    "KAI's podgrouper": {"annotations": {"pod-group-name": "other"}},
    "KAI without podgrouper": {"annotations": {"kai.scheduler/skip-podgrouper": "true"}},
    "Volcano": {"annotations": {"scheduling.k8s.io/group-name": "other"}},
    "Volcano's second key": {"annotations": {"scheduling.volcano.sh/group-name": "other"}},
    "another PodGroup of Koordinator's": {"labels": {"pod-group.scheduling.sigs.k8s.io": "other"}},
    "Koordinator's older label": {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "other"}},
    "Koordinator's annotation": {"annotations": {"gang.scheduling.koordinator.sh/name": "other"}},
}


@pytest.mark.parametrize("fields", CLAIMS.values(), ids=CLAIMS)
def test_a_pod_that_another_system_claimed_is_left_unchanged(fields: dict[str, Any]) -> None:
    verdict = mutate(gang_pod(**deepcopy(fields)))
    assert verdict.patch == ()
    assert "pod left as it is" in verdict.notes[0]


UNCLAIMED = {
    "Kueue's gate": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
    "Kueue's label": {"labels": {"kueue.x-k8s.io/managed": "true"}},
    "the name that the API server writes": {"schedulerName": "default-scheduler"},
    "its own name": {"schedulerName": "koord-scheduler"},
    "its own PodGroup": {"labels": {"pod-group.scheduling.sigs.k8s.io": "demo-0-worker"}},
    "a PodGroup's label without a value": {"labels": {"pod-group.scheduling.sigs.k8s.io": ""}},
    "a pod that is not kept from KAI's podgrouper": {"annotations": {"kai.scheduler/skip-podgrouper": "false"}},
}


@pytest.mark.parametrize("fields", UNCLAIMED.values(), ids=UNCLAIMED)
def test_keys_that_are_not_a_claim_do_not_stop_preparation(fields: dict[str, Any]) -> None:
    assert mutate(gang_pod(**deepcopy(fields))).patch


def without_label(key: str) -> dict[str, Any]:
    pod = gang_pod()
    del pod["metadata"]["labels"][key]
    return pod


STRANGERS = {
    "a pod without a gang": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": []}},
    "a pod without Grove's mark": without_label("app.kubernetes.io/managed-by"),
    "a pod of no gang": without_label("grove.io/podgang"),
    "a pod of no clique": without_label("grove.io/podclique"),
}


@pytest.mark.parametrize("pod", STRANGERS.values(), ids=STRANGERS)
def test_a_pod_without_a_gang_is_left_unchanged(pod: dict[str, Any]) -> None:
    verdict = mutate(pod)
    assert (verdict.patch, verdict.notes) == ((), ())


def test_in_a_cluster_the_record_decides() -> None:
    cluster = koordinator(standalone=False)
    assert mutate(gang_pod(), cluster, recorded()).scheduler == "koord-scheduler"
    assert mutate(gang_pod(), cluster, recorded("default-scheduler")).scheduler == "default-scheduler"


def test_pods_and_replacements_of_a_set_older_than_rollcall_are_left_unchanged() -> None:
    verdict = mutate(gang_pod(), koordinator(standalone=False), recorded(None))
    assert (verdict.patch, verdict.notes) == ((), ())


def test_a_pod_whose_set_is_missing_is_admitted_without_a_stamp_and_with_a_warning() -> None:
    verdict = mutate(gang_pod(), koordinator(standalone=False), ClusterFacts(pod_clique_sets={}))
    assert verdict.patch == ()
    assert verdict.notes == ("pod left as it is: its PodCliqueSet default/demo was not found",)


def test_a_pod_whose_record_names_no_profile_is_left_unchanged_with_a_warning() -> None:
    verdict = mutate(gang_pod(), koordinator(standalone=False), recorded("volcano"))
    assert verdict.notes == ("pod left as it is: no profile volcano is enabled here",)


def test_a_failed_set_read_is_an_error_and_not_a_verdict() -> None:
    with pytest.raises(FactsUnavailable, match="default/demo"):
        mutate(gang_pod(), koordinator(standalone=False), NO_FACTS)


def test_a_standalone_server_chooses_by_namespace_if_the_set_is_unknown() -> None:
    facts = ClusterFacts(namespaces={"default": Namespace({"rollcall.dev/scheduler": "default-scheduler"})})
    assert mutate(gang_pod(), facts=facts).scheduler == "default-scheduler"


def test_a_pod_is_prepared_only_at_creation() -> None:
    verdict = admission.mutate(request(gang_pod(), gang_pod()), NO_FACTS, koordinator())
    assert verdict.patch == ()


def test_the_default_scheduler_gets_its_stamp_and_no_group() -> None:
    paths = [
        op["path"] for op in mutate(gang_pod(), koordinator(standalone=False), recorded("default-scheduler")).patch
    ]
    assert paths == ["/metadata/annotations", "/metadata/annotations/rollcall.dev~1stamp"]


def test_ten_thousand_siblings_cost_one_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = koordinator()
    backend = settings.profiles["koord-scheduler"].backend
    asked: list[GangMember] = []
    prepare = backend.prepare_pod

    def counting(member: GangMember) -> PodChanges:
        asked.append(member)
        return prepare(member)

    monkeypatch.setattr(backend, "prepare_pod", counting)
    for _ in range(100):
        mutate(gang_pod(), settings)
    assert len(asked) == 1


@pytest.mark.parametrize("key", ["grove.io/podgang", "grove.io/podclique", "app.kubernetes.io/part-of", "team"])
def test_a_pod_with_an_invalid_label_is_left_unchanged(key: str) -> None:
    settings = koordinator(standalone=False)
    pod = gang_pod(labels={key: "g" * 254})
    # Nothing is known, and nothing needs to be.
    assert required_facts(request(pod), NO_FACTS) == ()
    verdict = mutate(pod, settings)
    assert verdict.patch == ()
    assert verdict.notes == (f"pod left as it is: its label {key} is longer than a name, 253 characters",)
    assert not settings.profiles["koord-scheduler"].prepared


@pytest.mark.parametrize(("characters", "remembered"), [(253, 20), (254, 0), (1_000_000, 0)])
def test_only_members_with_short_labels_are_cached(characters: int, remembered: int) -> None:
    settings = koordinator()
    for number in range(20):
        mutate(gang_pod(labels={"grove.io/podgang": str(number).rjust(characters, "g")}), settings)
    assert len(settings.profiles["koord-scheduler"].prepared) == remembered


@pytest.mark.parametrize(("characters", "remembered"), [(50, 1), (1_000, 0)])
def test_a_member_with_a_long_record_is_prepared_but_not_cached(characters: int, remembered: int) -> None:
    settings = koordinator(standalone=False)
    quota = "q" * characters
    added = {op["path"]: op["value"] for op in mutate(gang_pod(), settings, recorded(quota=quota)).patch}
    assert added["/metadata/labels/quota.scheduling.koordinator.sh~1name"] == quota
    assert len(settings.profiles["koord-scheduler"].prepared) == remembered
