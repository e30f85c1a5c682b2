"""Who writes the objects of a gang."""

from __future__ import annotations

import pytest

from tests.unit.gangs.test_plan import podgang, recorded_for
from tests.unit.reconciler.opted_in_workloads import job
from tests.unit.worlds import koordinator, settings_of
from webhook.gangs.object_plan import GangObjectWriter, writer_of
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.workloads.job import Job
from webhook.workloads.opted_in_gang import gangs_of

_BEFORE = frozenset({Api("grove.io", "v1alpha1", "PodCliqueSet")})
_AFTER = _BEFORE | {Api("grove.io", "v1alpha1", "PodGangMap")}


def of_grove(scheduler: str) -> PodGang:
    return podgang({"app.kubernetes.io/part-of": "demo", "grove.io/scheduler-name": scheduler})


def served(apis: frozenset[Api]) -> ClusterFacts:
    return ClusterFacts(pod_clique_sets={("team-a", "demo"): Record("kai-scheduler")}, apis=apis)


CASES: dict[str, tuple[PodGang, ClusterFacts, GangObjectWriter]] = {
    "a recorded scheduler with gang objects": (podgang(), recorded_for("koord-scheduler"), GangObjectWriter.ROLLCALL),
    "Grove's label for a scheduler without its own backend": (
        of_grove("default-scheduler"),
        recorded_for("koord-scheduler"),
        GangObjectWriter.ROLLCALL,
    ),
    "Grove's label for a profile of the type External": (
        of_grove("koord-scheduler"),
        recorded_for("koord-scheduler"),
        GangObjectWriter.ROLLCALL,
    ),
    "a scheduler without gang objects": (podgang(), recorded_for("default-scheduler"), GangObjectWriter.NONE),
    "no record": (podgang(), recorded_for(None), GangObjectWriter.NONE),
    "an unknown workload": (podgang(), NO_FACTS, GangObjectWriter.NONE),
    "Grove's backend for Volcano": (of_grove("volcano"), served(_BEFORE), GangObjectWriter.GROVE),
    "Grove's backend for KAI": (of_grove("kai-scheduler"), served(_AFTER), GangObjectWriter.GROVE),
    "KAI's podgrouper, for an earlier Grove": (of_grove("kai-scheduler"), served(_BEFORE), GangObjectWriter.SCHEDULER),
    "an external owner": (
        podgang({"app.kubernetes.io/part-of": "demo", "grove.io/external-workload-managed": "true"}),
        recorded_for("koord-scheduler"),
        GangObjectWriter.OTHER,
    ),
}


@pytest.mark.parametrize(("gang", "facts", "writer"), CASES.values(), ids=CASES)
def test_the_writer_of_a_gang_is_known_from_its_labels_and_its_record(
    gang: PodGang, facts: ClusterFacts, writer: GangObjectWriter
) -> None:
    assert writer_of(gang, facts, koordinator(standalone=False)) is writer


def test_kai_makes_the_gang_of_a_job_itself() -> None:
    (gang,) = gangs_of(Job(job(scheduler="kai-scheduler")))
    assert writer_of(gang, NO_FACTS, settings_of("kai-scheduler")) is GangObjectWriter.SCHEDULER
