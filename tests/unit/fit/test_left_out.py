"""What a judgement leaves out keeps it from saying that a gang fits."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.fit.feasibility import judge
from webhook.fit.packing import KAI, KUBE, NodeClass, Packing, PackingRole, PodsNeed, Room, needs_of
from webhook.fit.pod_needs import Eligibility, PodNeeds
from webhook.fit.verdict import FitAnswer
from webhook.model.fields import SPEC
from webhook.model.pod_template import PodTemplate
from webhook.workloads.opted_in_workload import TemplatePlace

AFFINITY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
PREFERRED = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}


def spread(**more: Any) -> dict[str, Any]:
    one = {"topologyKey": "zone", "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "a"}}, **more}
    return {"topologySpreadConstraints": [one]}


LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "required pod affinity": ({"affinity": AFFINITY}, "required pod affinity"),
    "preferred pod affinity": ({"affinity": PREFERRED}, ""),
    "spread that may be skipped": (spread(whenUnsatisfiable="ScheduleAnyway"), ""),
    "spread": (spread(whenUnsatisfiable="DoNotSchedule"), "spread constraints"),
    "spread over domains that must exist": (spread(whenUnsatisfiable="DoNotSchedule", minDomains=3), ""),
    "a RuntimeClass": ({"runtimeClassName": "kata"}, "RuntimeClass"),
    "a RuntimeClass whose overhead is stated": ({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}, ""),
}


def template(spec: dict[str, Any]) -> PodTemplate:
    return PodTemplate({"labels": {"app": "a"}}, spec, TemplatePlace(SPEC))


@pytest.mark.parametrize(("spec", "left_out"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_proves_nothing_is_left_out(spec: dict[str, Any], left_out: str) -> None:
    one = template(spec)
    reasons = needs_of(one, KUBE, {"a": one}, stored=False, namespace="team").left_out
    assert len(reasons) == bool(left_out)
    assert left_out in "".join(reasons)


def test_the_overhead_of_a_stored_pod_is_known() -> None:
    one = template({"runtimeClassName": "kata"})
    assert needs_of(one, KUBE, {"a": one}, stored=True, namespace="team").left_out == ()


def test_a_scheduler_without_topology_spread_leaves_nothing_out() -> None:
    one = template(spread(whenUnsatisfiable="DoNotSchedule"))
    assert needs_of(one, KAI, {"a": one}, stored=False, namespace="team").left_out == ()


@pytest.mark.parametrize(("pods", "answer"), [(1, FitAnswer.UNKNOWN), (2, FitAnswer.NEVER)])
def test_what_is_left_out_keeps_from_fits_and_not_from_never(pods: int, answer: FitAnswer) -> None:
    role = PackingRole("a", SPEC, PodNeeds({"cpu": 1000, "pods": 1}, Eligibility(), left_out=("something",)))
    room = Room((NodeClass({"cpu": 1500, "pods": 10}, {}, 1, frozenset({"a"}), ("n",)),))
    verdict = judge(Packing((PodsNeed(role, pods),)), room)
    assert verdict.answer is answer
    assert ("something" in verdict.causes) is (answer is FitAnswer.UNKNOWN)
