"""The pods of a gang above its minimum, as `rollcall fit` reports them: counted, and not judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import koordinator, settings_of
from webhook.fit.verdict import FitAnswer
from webhook.offline.fit_report import Surplus, entries_of, surplus_words
from webhook.validators.examples import GPU, clique, job, pod_clique_set, racks, required
from webhook.workloads.job import Job
from webhook.workloads.pod_clique_set import PodCliqueSet


@pytest.mark.parametrize(
    ("constraint", "surplus", "words"),
    [
        pytest.param(
            {"topologyConstraint": required("rack")},
            Surplus(3, "rack"),
            " in the required rack ",
            id="in a rack",
        ),
        pytest.param({}, Surplus(3), "3 pods above ", id="anywhere"),
    ],
)
def test_a_gang_whose_minimum_fits_says_how_many_pods_are_not_judged(
    constraint: dict[str, Any], surplus: Surplus, words: str
) -> None:
    workload = PodCliqueSet(pod_clique_set(clique("worker", replicas=5, minimum=2, requests={GPU: "8"}), **constraint))
    settings = koordinator()
    (entry,) = entries_of(workload, settings.profiles["koord-scheduler"], racks(2, 2, gpus=8), settings)
    assert (entry.verdict.answer, entry.pods, entry.surplus) == (FitAnswer.FITS, {"worker": 2}, surplus)
    assert words in surplus_words(surplus, "koord-scheduler")
    assert ("koord-scheduler" in surplus_words(surplus, "koord-scheduler")) is bool(surplus.domain)
    assert entry.as_json()["surplus"] == {"pods": 3, "domain": surplus.domain or None}


def test_the_minimum_is_that_of_the_scheduler() -> None:
    # KAI's podgrouper starts a Job with one pod.
    settings = settings_of("kai-scheduler")
    workload = Job(job(parallelism=8, completions=8))
    (entry,) = entries_of(workload, settings.profiles["kai-scheduler"], racks(2, 2, gpus=8), settings)
    assert list((entry.pods or {}).values()) == [1]
    assert entry.surplus == Surplus(7)


def test_a_gang_without_pods_above_its_minimum_has_no_surplus() -> None:
    workload = PodCliqueSet(pod_clique_set(clique("worker", replicas=2, requests={GPU: "8"})))
    settings = koordinator()
    (entry,) = entries_of(workload, settings.profiles["koord-scheduler"], racks(2, 2, gpus=8), settings)
    assert entry.surplus is None
    assert entry.as_json()["surplus"] is None
