"""What some decisions cost, in calls of Python functions: the same on every machine. A figure may rise only with a
reason, which is written beside it in `tests/kept/decisions.json`.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from tests.configurations import configuration_of, settings_from_document
from tests.unit.worlds import gang_pod, request
from webhook import admission
from webhook.backends.registry import installed_backends
from webhook.config.settings import Settings
from webhook.model.admission_request import Request
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Record
from webhook.model.known_objects import PodGangFacts
from webhook.model.kueue_objects import ClusterQueue, FlavorQuota, LocalQueue
from webhook.model.reading import Manifest
from webhook.validators.examples import (
    clique,
    job,
    job_set,
    nodes,
    pod_clique_set,
    pod_template,
    replicated,
    scaling_group,
    train_job,
)

FIGURES: Mapping[str, Mapping[str, Any]] = json.loads((Path(__file__).parents[2] / "kept/decisions.json").read_text())
# A figure this much above the count is too high: it would hide the next loss.
ROOM = 1.1
DECISIONS = {"validate": admission.validate, "mutate": admission.mutate}
OPERATOR = "system:serviceaccount:grove-system:grove-operator"
ALONE = settings_from_document(configuration_of("koord-scheduler"), standalone=True)
WHOLE_OF_SIX = settings_from_document(
    configuration_of(
        *installed_backends(),
        default="koord-scheduler",
        kueue={"waitForPodsReady": {"timeout": "2h"}},
        fit={"nodes": "auto", "templates": [{"name": "h100", "allocatable": {"cpu": 180, "memory": "1900Gi"}}]},
    ),
    standalone=True,
)
IN_CLUSTER = ClusterFacts(
    pod_clique_sets={("default", "demo"): Record("koord-scheduler")},
    pod_gangs={("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"}))},
)
# Queues that the set does not name.
BESIDE_KUEUE = ClusterFacts(
    cluster_queues={"all": ClusterQueue(quotas=(FlavorQuota("flavor", "cpu", "1"),))},
    local_queues={("default", "team"): LocalQueue("all")},
)


class Decided(NamedTuple):
    """A decision: what is asked, of which endpoint, with what known, and by which settings."""

    request: Request
    endpoint: str
    facts: ClusterFacts = NO_FACTS
    settings: Settings = ALONE

    def calls(self) -> int:
        """How many Python functions it calls, once all caches are warm."""
        decide, counted = DECISIONS[self.endpoint], 0

        def count(_frame: FrameType, event: str, _: object) -> None:
            nonlocal counted
            counted += event == "call"

        for _ in range(3):
            decide(deepcopy(self.request), self.facts, self.settings)
        asked, before = deepcopy(self.request), sys.getprofile()
        # What a collection ends, such as weak references of other tests, would call functions, too.
        gc.disable()
        sys.setprofile(count)
        try:
            decide(asked, self.facts, self.settings)
        finally:
            sys.setprofile(before)
            gc.enable()
        return counted


def _member(name: str, replicas: int) -> Manifest:
    container = {
        "name": name,
        "image": "example.com/server",
        "env": [{"name": "ROLE", "value": name}, {"name": "LOG_LEVEL", "value": "info"}],
        "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}},
    }
    return clique(name, replicas=replicas, pod={"containers": [container], "terminationGracePeriodSeconds": 30})


MEMBERS = [_member(name, 1 + len(name) % 3) for name in ("frontend", "pleader", "pworker", "dleader", "dworker")]
GROUPS = [scaling_group("prefill", "pleader", "pworker"), scaling_group("decode", "dleader", "dworker")]
SET_OF_FIVE = pod_clique_set(*MEMBERS, groups=GROUPS, terminationDelay="4h0m0s")
SET, POD = request(SET_OF_FIVE), request(gang_pod(), user=OPERATOR)
QUEUED = job(labels={"kueue.x-k8s.io/queue-name": "team"}, template=pod_template())
TREE = job_set(replicated("leader"), replicated("worker"))
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}}}
REFERENCE: dict[str, Decided] = {
    "PodCliqueSet validate": Decided(SET, "validate"),
    "PodCliqueSet validate, everything configured": Decided(SET, "validate", settings=WHOLE_OF_SIX),
    "PodCliqueSet validate, on 100 nodes": Decided(SET, "validate", nodes(100, gpus=8)),
    "PodCliqueSet validate, beside queues of Kueue": Decided(SET, "validate", BESIDE_KUEUE),
    "PodCliqueSet validate, an update": Decided(request(SET_OF_FIVE, SET_OF_FIVE), "validate"),
    "PodCliqueSet mutate": Decided(SET, "mutate"),
    "Pod validate": Decided(POD, "validate", IN_CLUSTER),
    "Pod mutate": Decided(POD, "mutate", IN_CLUSTER),
    "JobSet validate": Decided(request(TREE), "validate"),
    "Job in a queue of Kueue validate": Decided(request(QUEUED), "validate", settings=WHOLE_OF_SIX),
    "TrainJob validate": Decided(request(train_job()), "validate"),
    "Deployment validate": Decided(request(DEPLOYMENT), "validate"),
}


def test_each_figure_has_a_reason() -> None:
    assert set(FIGURES) == set(REFERENCE)
    assert all(len(figure["because"]) > 20 for figure in FIGURES.values())


@pytest.mark.parametrize("name", REFERENCE)
def test_a_decision_calls_no_more_functions_than_it_did(name: str) -> None:
    calls, kept = REFERENCE[name].calls(), FIGURES[name]["calls"]
    assert calls <= kept, f"{calls} calls instead of {kept}: save some, or write the figure and why it must rise"
    if sys.version_info < (3, 12):
        # From 3.12 on a comprehension is no call.
        assert kept <= calls * ROOM, f"lower the figure to {calls}, so that the next loss is seen"
