"""Which pods may start according to the net: written by hand, and compared with what admission does with pods."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.configurations import configuration_of
from tests.unit.worlds import POD, gang_pod, request
from webhook import admission
from webhook.backends.kube.workload_api import Generation, Served
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.testing.start import may_start
from webhook.testing.strategies import gang_pods, records

KOORD, VOLCANO, KAI, LPX, PLUGINS, DEFAULT = (
    "koord-scheduler",
    "volcano",
    "kai-scheduler",
    "lpx-scheduler",
    "scheduler-plugins-scheduler",
    "default-scheduler",
)
GATE = {"name": "grove.io/podgang-pending-creation"}
FACTS = ClusterFacts(apis=frozenset(Served(Generation.TREE, "v1beta1", "v1alpha3").kinds))
STAMP = "rollcall.dev/stamp"
GROUP = "pod-group.scheduling.sigs.k8s.io"
KAI_MARKS = {"pod-group-name": "g", "kai.scheduler/skip-podgrouper": "true"}
VOLCANO_MARKS = {"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/group-name": "g"}


def enabled(*names: str, gangs: bool = True) -> Settings:
    profiles = [{"name": name, **({"config": {"gangScheduling": gangs}} if name == DEFAULT else {})} for name in names]
    return settings_from(configuration_of(*profiles), "test")


ALL = enabled(KOORD, VOLCANO, KAI, LPX, PLUGINS, DEFAULT)
PLAIN = enabled(KOORD, DEFAULT, gangs=False)


def pod(scheduler: str | None = DEFAULT, **fields: Any) -> dict[str, Any]:
    """A pod of Grove's that is free to start, unless a field is overridden."""
    return gang_pod(**{"schedulerName": scheduler, "schedulingGates": None, **fields})


def opted_in_pod(label: str, scheduler: str = DEFAULT, kind: str = "Job", **fields: Any) -> dict[str, Any]:
    """A pod of a Job that was recorded for a scheduler."""
    found = pod(scheduler, **fields)
    labels = {key: value for key, value in found["metadata"]["labels"].items() if "grove" not in key}
    found["metadata"]["labels"] = {
        **labels,
        "app.kubernetes.io/managed-by": "somebody",
        "rollcall.dev/scheduler": label,
    }
    found["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": kind, "name": "train", "uid": "1", "controller": True}
    ]
    return found


def without_label(found: dict[str, Any], key: str) -> dict[str, Any]:
    del found["metadata"]["labels"][key]
    return found


CREATED: dict[str, tuple[dict[str, Any], Settings, bool]] = {
    "held by Grove's gate": (pod(schedulingGates=[GATE]), ALL, True),
    "held by anybody's gate": (pod(schedulingGates=[{"name": "example.com/quota"}]), ALL, True),
    "as Grove makes it": (pod(), ALL, False),
    "as Grove makes it, without a schedulerName": (pod(None), ALL, False),
    "of no PodClique": (without_label(pod(), "grove.io/podclique"), ALL, True),
    "of no PodGang": (without_label(pod(), "grove.io/podgang"), ALL, True),
    "of another manager": (pod(labels={"app.kubernetes.io/managed-by": "Helm"}), ALL, True),
    "koord-scheduler with its label": (pod(KOORD, labels={GROUP: "g"}), ALL, True),
    "koord-scheduler without its label": (pod(KOORD), ALL, False),
    "koord-scheduler with an empty label": (pod(KOORD, labels={GROUP: ""}), ALL, False),
    "koord-scheduler with the mark of another system": (pod(KOORD, annotations=VOLCANO_MARKS), ALL, True),
    "koord-scheduler with its stamp alone": (pod(KOORD, annotations={STAMP: f"{KOORD}/ab"}), ALL, False),
    "koord-scheduler's label on a pod of the default scheduler": (pod(labels={GROUP: "g"}), ALL, True),
    "koord-scheduler where no profile is of that name": (pod(KOORD), enabled(VOLCANO), True),
    "volcano with both annotations": (pod(VOLCANO, annotations=VOLCANO_MARKS), ALL, True),
    "volcano with one of them": (pod(VOLCANO, annotations={"scheduling.k8s.io/group-name": "g"}), ALL, False),
    "kai-scheduler with all three": (
        pod(KAI, annotations=KAI_MARKS, labels={"kai.scheduler/subgroup-name": "g"}),
        ALL,
        True,
    ),
    "kai-scheduler that may regroup it": (
        pod(
            KAI,
            annotations={**KAI_MARKS, "kai.scheduler/skip-podgrouper": "false"},
            labels={"kai.scheduler/subgroup-name": "g"},
        ),
        ALL,
        False,
    ),
    "lpx-scheduler, which needs no mark": (pod(LPX), ALL, True),
    "scheduler-plugins with its label": (pod(PLUGINS, labels={"scheduling.x-k8s.io/pod-group": "g"}), ALL, True),
    "scheduler-plugins without it": (pod(PLUGINS), ALL, False),
    "the Workload API's group": (pod(schedulingGroup={"podGroupName": "g"}), ALL, True),
    "a foreign scheduler": (pod("example"), ALL, True),
    "one by one, prepared": (pod(annotations={STAMP: f"{DEFAULT}/ab"}), PLAIN, True),
    "one by one, not prepared": (pod(), PLAIN, False),
    "one by one, with another scheduler's stamp": (pod(annotations={STAMP: f"{KOORD}/ab"}), PLAIN, False),
    "a Job's, prepared": (opted_in_pod(KOORD, KOORD, labels={GROUP: "g"}), ALL, True),
    "a Job's, with the scheduler alone": (opted_in_pod(KOORD, KOORD), ALL, False),
    "a Job's, as its controller makes it": (opted_in_pod(KOORD), ALL, False),
    "a Job's, with a group and without the scheduler that reads it": (
        opted_in_pod(KOORD, labels={GROUP: "g"}),
        ALL,
        False,
    ),
    "a Job's, claimed by a system that its scheduler does not read": (
        opted_in_pod(KOORD, annotations=VOLCANO_MARKS),
        ALL,
        True,
    ),
    "a Job's, with another scheduler than its record": (opted_in_pod(KOORD, VOLCANO), ALL, True),
    "a Job's, for a scheduler that no profile enables": (opted_in_pod("nobody"), ALL, True),
    "a Job's for kai-scheduler, which groups it by itself": (opted_in_pod(KAI, KAI), ALL, True),
    "a Job's for kai-scheduler, not named on the pod": (opted_in_pod(KAI), ALL, False),
    "a Job's, one by one": (opted_in_pod(DEFAULT), PLAIN, True),
    "a Job's for kube-scheduler's gangs": (opted_in_pod(DEFAULT), ALL, False),
    "a Deployment's with the label": (opted_in_pod(KOORD, kind="ReplicaSet"), ALL, True),
}


def created(found: dict[str, Any]) -> Request:
    return request(found, kind=POD)


@pytest.mark.parametrize("name", CREATED)
def test_a_pod_that_is_created_free_to_start_must_be_prepared(name: str) -> None:
    found, chosen, expected = CREATED[name]
    assert may_start(created(found), FACTS, chosen) is expected


def changed(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return may_start(request(new, old, POD), FACTS, ALL)


def test_only_the_removal_of_the_last_gate_is_judged() -> None:
    both = pod(schedulingGates=[GATE, {"name": "rollcall.dev/gang-sync"}])
    one, free = pod(schedulingGates=[GATE]), pod()
    assert changed(both, one)
    assert not changed(one, free)
    assert not changed(both, free)
    marked = pod(KOORD, labels={GROUP: "g"})
    assert changed(pod(KOORD, labels={GROUP: "g"}, schedulingGates=[GATE]), marked)


def test_an_update_of_a_pod_that_was_already_free_is_allowed() -> None:
    assert changed(pod(), pod(labels={"team": "blue"}))


def test_a_pod_is_identified_by_its_labels_before_the_update() -> None:
    stripped = pod()
    stripped["metadata"]["labels"] = {}
    assert not changed(pod(schedulingGates=[GATE]), stripped)


def test_an_update_of_a_pod_in_deletion_is_allowed() -> None:
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "2026-08-01T00:00:00Z"
    assert changed(pod(schedulingGates=[GATE]), leaving)


@given(found=gang_pods(), scheduler=st.sampled_from([KOORD, VOLCANO, KAI, LPX, PLUGINS, DEFAULT]), data=st.data())
def test_every_pod_that_admission_prepared_can_start(
    found: dict[str, Any], scheduler: str, data: st.DataObject
) -> None:
    record: Record = data.draw(records(scheduler))
    chosen = data.draw(st.sampled_from([ALL, enabled(*dict.fromkeys((scheduler, DEFAULT)), gangs=False)]))
    facts = replace(FACTS, pod_clique_sets={("team", "demo"): record}, priority_classes={})
    asked = Request("1", "CREATE", POD, "team", "", deepcopy(found))
    assert admission.mutate(asked, facts, chosen).patch
    free = deepcopy(asked.object or {})
    free["spec"].pop("schedulingGates", None)
    assert may_start(Request("1", "CREATE", POD, "team", "", free), facts, chosen)
