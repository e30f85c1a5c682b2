"""What a PodGang needs, or why it is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.worlds import koordinator
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts, Record
from webhook.model.podgang import PodGang
from webhook.reconciler.plan import Aside, Plan, plan

SETTINGS = koordinator(standalone=False)


def podgang(labels: dict[str, str] | None = None, **metadata: Any) -> PodGang:
    own = {"app.kubernetes.io/part-of": "demo"} if labels is None else labels
    member = {"name": "demo-0-worker", "minReplicas": 2, "podReferences": []}
    return PodGang(
        {
            "metadata": {"name": "demo-0", "namespace": "team-a", "uid": "5f1d", "labels": own, **metadata},
            "spec": {"podgroups": [member]},
        }
    )


def owned_by(scheduler: str | None, **record: Any) -> ClusterFacts:
    return ClusterFacts(pod_clique_sets={("team-a", "demo"): Record(scheduler, **record)})


def test_the_objects_are_those_of_the_scheduler_that_its_workload_recorded() -> None:
    planned = plan(podgang(), owned_by("koord-scheduler"), SETTINGS)
    assert isinstance(planned, Plan)
    assert planned.profile.name == "koord-scheduler"
    assert [found["metadata"]["name"] for found in planned.objects] == ["demo-0-worker"]


def test_a_podgang_of_no_workload_says_itself_for_which_scheduler_it_is() -> None:
    planned = plan(podgang({"rollcall.dev/scheduler": "koord-scheduler"}), NOTHING_KNOWN, SETTINGS)
    assert isinstance(planned, Plan)
    assert plan(podgang({}), NOTHING_KNOWN, SETTINGS) is Aside.UNRECORDED


ALONE = {
    "leaving": (podgang(deletionTimestamp="2026-01-01T00:00:00Z"), owned_by("koord-scheduler"), Aside.LEAVING),
    "older than Rollcall": (podgang(), owned_by(None), Aside.UNRECORDED),
    "a scheduler that is not enabled": (podgang(), owned_by("slurm"), Aside.NO_PROFILE),
    "written by Grove": (
        podgang({"app.kubernetes.io/part-of": "demo", "grove.io/scheduler-name": "kai-scheduler"}),
        owned_by("kai-scheduler"),
        Aside.GROVE,
    ),
    "written by an external owner": (
        podgang({"app.kubernetes.io/part-of": "demo", "grove.io/external-workload-managed": "true"}),
        owned_by("koord-scheduler"),
        Aside.EXTERNAL,
    ),
}


@pytest.mark.parametrize(("gang", "facts", "why"), ALONE.values(), ids=ALONE)
def test_what_is_somebody_else_s_to_do_is_left_to_them(gang: PodGang, facts: ClusterFacts, why: Aside) -> None:
    assert plan(gang, facts, SETTINGS) is why


@pytest.mark.parametrize("facts", [NOTHING_KNOWN, ClusterFacts(pod_clique_sets={})])
def test_a_workload_that_is_not_known_is_waited_for(facts: ClusterFacts) -> None:
    with pytest.raises(FactsUnavailable, match="PodCliqueSet team-a/demo of the PodGang is not known"):
        plan(podgang(), facts, SETTINGS)


def test_what_its_scheduler_cannot_have_is_not_planned_in_part() -> None:
    gang = podgang()
    constraint = {"packConstraint": {"required": "example.com/rack"}}
    gang.raw["spec"]["topologyConstraintGroupConfigs"] = [
        {"name": "g", "podGroupNames": ["demo-0-worker"], "topologyConstraint": constraint}
    ]
    with pytest.raises(Inexpressible):
        plan(PodGang(gang.raw), owned_by("koord-scheduler"), SETTINGS)
