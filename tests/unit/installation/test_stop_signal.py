"""A judgement ends between two rules when no caller waits for it, for every kind of object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import three_schedulers
from webhook import admission
from webhook.errors import Stopped
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import NO_FACTS
from webhook.offline.explanation import explain
from webhook.validators.examples import pod_clique_set

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "demo", "namespace": "default", "labels": {"rollcall.dev/scheduler": "koord-scheduler"}},
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
}
SETS = Kind("grove.io", "v1alpha1", "PodCliqueSet")


class Calls:
    """Counts, and stops at the last that is allowed."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    def proceed(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stopped("no caller waits")


@pytest.mark.parametrize("allowed", [0, 1, 5])
@pytest.mark.parametrize(("kind", "manifest"), [(SETS, pod_clique_set()), (Kind("batch", "v1", "Job"), JOB)])
def test_the_stop_signal_is_checked_before_each_rule(kind: Kind, manifest: dict[str, Any], allowed: int) -> None:
    request = Request("u", "CREATE", kind, "default", "demo", manifest)
    settings = replace(three_schedulers(), proceed=Calls(allowed).proceed)
    with pytest.raises(Stopped):
        admission.validate(request, NO_FACTS, settings)


def test_an_explanation_checks_the_stop_signal_before_each_rule() -> None:
    settings = replace(three_schedulers(), proceed=Calls(10).proceed)
    with pytest.raises(Stopped):
        explain(Request("u", "CREATE", SETS, "default", "demo", pod_clique_set()), NO_FACTS, settings)
